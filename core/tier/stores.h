// Units on their way into tiers. A unit is held until the last of its records is written, or was
// dropped. Nobody waits for a store: what would be too much at once is dropped, and so is what
// finds no memory of the host.
#pragma once

#include <array>
#include <vector>

#include "core/tier/held_records.h"
#include "core/tier/tier_state.h"

namespace quire {

class Stores {
 public:
  explicit Stores(TierState& state);  // borrowed

  // Takes units from the cache, as long as there is room for their bytes.
  void take_units() noexcept;
  // Writes those whose kernels are done.
  void start_ready();
  bool any_waits() const { return !waiting_.empty(); }
  void ended(uint32_t slot, const quire_completion& end);
  uint64_t num_units() const { return num_units_; }
  // No further units; those that were not started are let go.
  void stop();

 private:
  // The payload of a record, copied from a device.
  struct Staged {
    std::shared_ptr<StagedBytes> bytes;
    uint64_t copy = 0;
  };
  struct Unit {
    quire_unit unit{};
    uint32_t tiers = 0;                         // bits of those that are to have it
    uint64_t mark = 0;                          // of the streams: the kernels that wrote it
    std::array<uint64_t, kMostTiers> unsent{};  // bytes by tier: counted there, though not submitted
    uint32_t in_flight = 0;                     // records
    uint32_t failed = 0;                        // bits of tiers for which a record was not written
    uint32_t next_part = 0;                     // the first whose records were not all submitted
    uint32_t lacking = 0;                       // of that part: bits of tiers that still wait for its record
    std::vector<Staged> staged;                 // by part: of shards on devices, or empty
  };

  bool take_unit(uint64_t* bytes);
  void make_place();
  // 0: none, and it is let go.
  uint32_t tiers_to_write(const quire_unit& unit);
  uint32_t tiers_for(const quire_unit& unit) const;
  uint64_t bytes_of(const quire_unit& unit) const;
  bool has_room() const;
  uint32_t affordable(uint32_t wanted, uint64_t bytes);
  // False: a tier is full, and the rest of it goes later.
  bool start(uint32_t index);
  bool start_or_drop(uint32_t index) noexcept;
  void drop(uint32_t index);
  void count_sent(Unit* unit, size_t tier, uint64_t bytes);
  void count_all_sent(Unit* unit);
  bool can_submit(uint32_t tier) const;
  // Begins to copy the records that lie on devices, as far as there is room.
  void stage(uint32_t index);
  Status stage_part(Unit* unit, uint32_t part);
  // Of a record on a device: whether it was copied. *failed: it will not be.
  bool is_staged(const Unit& unit, uint32_t part, bool* failed) const;
  bool has_record(const Unit& unit, uint32_t part) const;
  // The tiers that were full.
  uint32_t start_record(uint32_t index, uint32_t part, uint32_t tiers);
  bool describe(const Unit& unit, const TierPart& part, RecordHeader* header, std::vector<PayloadRun>* runs);
  void sum(const Unit& unit, uint32_t part, RecordHeader* header);
  Submitted submit(uint32_t index, uint32_t part, uint32_t tier, const RecordHeader& header, std::span<const PayloadRun> runs);
  void close(uint32_t index);
  void report(const Unit& unit) noexcept;  // as events, to the tiers that have it now
  Tier::Named push_events(const Unit& unit, const TierPart& part, Tier* tier);
  Tier::Named push_group(const Unit& unit, const TierPart& part, uint32_t group, Tier* tier);

  TierState& state_;
  uint64_t largest_unit_ = 0;  // bytes, as far as is known before one is taken
  std::vector<Unit> units_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> waiting_;  // for the kernels that wrote them, or for a tier that was full
  uint64_t num_units_ = 0;
  uint64_t summed_ = 0;  // bytes, in this call
  HeldIds ids_;
  std::vector<PayloadRun> runs_;
  RecordHeader header_;  // of the record that is submitted; its lists keep their memory
  std::vector<EventRecord> described_;
  std::vector<Tier::Named> named_;  // by group: events of the unit that is reported
};

}  // namespace quire
