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
  explicit Arrivals(TierState& state) : state_(state), shorter_(state.plan->parts().size()) {}

  // Whether the load has a place for this block of the sequence.
  bool has_place(const Fetch& f, const TierPart& part, uint64_t block) const;
  // Blocks of the record that the load has places for and lacks; between them there may be some
  // without a place. False: none.
  bool find_wanted(const Fetch& f, const TierPart& part, Transfer* t) const;
  // The header came beside its payload, which lies in the pool already. *otherwise: it is arranged
  // in another way than was thought.
  quire_code check(uint32_t slot, const Fetch& f, bool* otherwise);
  // From a record that came as a whole.
  quire_code scatter(const Transfer& t, const Fetch& f);
  // Whether records that others wrote, with the blocks that were seen last, have all of ours that
  // resuming there needs.
  bool has_whole_blocks(const RecordTable& table, uint64_t boundary) const;

 private:
  const RecordRuns* runs_for(const Transfer& t, const RecordShape& shape);

  TierState& state_;
  // By part and shape; null: none fit.
  std::map<std::pair<uint32_t, std::vector<uint8_t>>, std::unique_ptr<RecordRuns>> foreign_;
  // By part: tokens of the blocks of records that had a part of our blocks only; 0: none were seen.
  std::vector<uint32_t> shorter_;
};

}  // namespace quire
