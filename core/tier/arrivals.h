// What of a record a load wants, and whether what came is that. Records of other arrangements are
// read whole and scattered from here.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/tier/fetch.h"
#include "core/tier/tier_state.h"

namespace quire {

class Arrivals {
 public:
  // state: borrowed.
  explicit Arrivals(TierState& state);

  // Blocks of the record that the load has places for and lacks; between them there may be some
  // without a place. False: none.
  bool find_wanted(const Fetch& f, const TierPart& part, Transfer* t) const;
  // Whether the record of this load is arranged as our blocks are, as far as is known, and all
  // groups lack what is wanted of it.
  bool can_come_in_place(const Fetch& f, const Transfer& t, const WantedRecord& record) const;
  // Runs of the ticket that brings the header here and what is wanted into the pool.
  void add_places(const Fetch& f, Transfer* t, std::span<uint8_t> header);
  // Memory for a record of this size, and runs of the ticket that reads it, or what is wanted of
  // it. kFull: there is too much of this now.
  Submitted make_room(Transfer* t, uint64_t size, LoadWay way);
  // The header came beside its payload, which lies in the pool already. *otherwise: it is arranged
  // in another way than was thought.
  quire_code check(uint32_t slot, const Fetch& f, bool* otherwise);
  // From a record that came beside the pool, or the ranges of it that were chosen. *otherwise: they
  // were the wrong ones.
  // Copies to devices are then queued: t->copies.
  quire_code scatter(Transfer* t, Fetch* f, bool* otherwise);
  // Whether records that others wrote, with the blocks that were seen last, have all of ours that
  // resuming there needs.
  bool has_whole_blocks(const RecordTable& table, uint64_t boundary) const;

 private:
  using Runs = std::shared_ptr<const RecordRuns>;

  // What is read of a record that is scattered: the blocks that are wanted, where the connector
  // reads ranges and its size says how long blocks may be.
  void choose_ranges(bool all, Transfer* t) const;
  Runs runs_for(uint32_t part, const RecordShape& shape);
  // Whether records of these arrangements have all bytes of the part's blocks together.
  bool cover(uint32_t part, std::vector<Runs> runs);
  // Which blocks of the payload came; each is as its checksum says, or there is DATA_LOSS.
  quire_code find_good(const Transfer& t, const RecordHeader& header, uint64_t begin,  // of it
                       std::vector<bool>* good) const;
  // From the part's runs of its record, of which these blocks are good. The payload begins at
  // `begin`.
  quire_code scatter_to(uint32_t part, const RecordRuns& runs, Transfer* t,  //
                        const RecordHeader& header, const std::vector<bool>& good,
                        uint64_t begin,  //
                        const Fetch& f, bool* otherwise);
  // Room on the way to each device whose shard reads the record: all of it or none.
  Submitted take_staging(uint64_t size, Transfer* t);
  // From the record into the shard. ABORTED: the device failed, or has no room to copy from.
  quire_code place(uint32_t shard, uint64_t begin, Transfer* t);

  TierState& state_;
  // By part and shape; null: none fit.
  std::map<std::pair<uint32_t, std::vector<uint8_t>>, Runs> foreign_;
  std::map<std::pair<uint32_t, std::vector<Runs>>, bool> covers_;
  // By source: tokens of the blocks of records that had a part of our blocks only; 0: none were
  // seen.
  std::vector<uint32_t> shorter_;
  std::vector<uint32_t> blocks_;  // by source: tokens of a block of the last record
  std::vector<PayloadRun> list_;
};

}  // namespace quire
