// What sequences have, offered to other processes. An offer is the records of a prefix, each one a
// store that does not end before its reader is done or its lease is over: the connector reads the
// pool until then, so the offer holds the blocks. Records are those that tiers keep, but for blocks
// that the sequence has no more: of windows and chunks an offer has what resuming at its end needs.
#pragma once

#include <quire/tier.h>

#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/tier/held_records.h"
#include "core/tier/offer_description.h"
#include "core/tier/tier_state.h"

namespace quire {

class Offers {
 public:
  static constexpr size_t kMost = 4096;

  explicit Offers(TierState& state) : state_(state) {}  // borrowed

  Result<quire_offer> begin(SequenceId sequence, std::span<const quire_symbol> symbols,  //
                            uint32_t tier);
  Status info(const OfferHandle& handle, quire_offer_info* info) const;
  Status end(const OfferHandle& handle);

  // Gives the connectors what can be read now.
  void start_ready() noexcept;
  bool any_waits() const { return num_waiting_ > 0; }
  // False: it is the end of no record.
  bool ended(uint32_t tier, const quire_completion& end) noexcept;
  size_t num_offers() const { return offers_.size(); }
  uint64_t num_records() const { return by_ticket_.size(); }  // that connectors have
  uint64_t num_records_of(uint32_t tier) const;
  // Withdraws all.
  void stop() noexcept;
  // Connectors may read them for ever.
  void leave_headers(std::vector<RawBytes>* headers) noexcept;

 private:
  struct Record {
    HeldRange range;
    PrefixNames names;
    uint32_t part = 0;
    uint64_t header_at = 0, header_bytes = 0;
  };
  struct Offer {
    OfferHandle handle{};
    uint32_t tier = 0;
    uint64_t end_token = 0;
    quire_hold_id hold = 0;
    uint64_t mark = 0;  // of the streams: the kernels that wrote it
    uint64_t bytes = 0;
    std::vector<Record> records;
    uint64_t description_at = 0;     // in `headers`; it is submitted first
    uint64_t description_bytes = 0;  // 0: the connector takes none that long
    bool is_described = false;
    size_t next = 0;                // record that is submitted next
    std::vector<uint64_t> tickets;  // in flight
    bool is_withdrawn = false;
    RawBytes headers;

    size_t num_tickets() const { return records.size() + (description_bytes > 0 ? 1 : 0); }
    bool waits() const { return !is_withdrawn && (next < records.size() || !is_described); }
  };

  Offer* find(const OfferHandle& handle) const;
  Status check(uint32_t tier) const;
  // Where the sequence can be resumed, so far as it is committed.
  Result<uint64_t> end_of(SequenceId sequence) const;
  Status add_records(SequenceId sequence, std::span<const quire_symbol> symbols, Offer* offer);
  Status add_record(const TierPart& part, uint32_t number, const HeldRange& range,  //
                    const PrefixNames& names, Offer* offer);
  // prefix: at its end. Its bytes follow those of the headers.
  void describe(std::string_view identity, const PrefixNames& prefix, Offer* offer) const;
  // Submits what can be submitted now. kFull: the connector takes no more, or enough was summed.
  Submitted start(Offer* offer, uint64_t* summed);
  Submitted submit(Offer* offer, const Record& record);
  Submitted submit_description(Offer* offer);
  // Its runs are in ticket_runs.
  Submitted submit_runs(Offer* offer, const RecordKey& name, uint64_t bytes);
  void withdraw(Offer* offer) noexcept;
  // Ends those that nobody reads and nobody will.
  void close_ended() noexcept;

  TierState& state_;
  std::vector<std::unique_ptr<Offer>> offers_;
  std::unordered_map<uint64_t, Offer*> by_ticket_;
  uint64_t next_ticket_ = 1;
  uint64_t num_waiting_ = 0;
  RecordHeader header_;
  std::vector<PayloadRun> runs_;
  std::vector<int32_t> ids_;
};

}  // namespace quire
