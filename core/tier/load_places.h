// Where the blocks of a load lie, by family. The groups of one family keep the same tokens, but
// some can have more of them than others: what is here of a group is shared with other sequences,
// and nothing is written there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/step/kv_cache.h"
#include "core/tier/lost_blocks.h"
#include "core/tier/tier_plan.h"

namespace quire {

class LoadPlaces {
 public:
  // Of a load that begins at `position`. Errors: those of the cache.
  Status read(Cache& cache, StepId load, const TierPlan& plan, uint64_t position);

  // ids[column][block], from first_block() on. 0: nothing is written there.
  std::span<const int32_t> ids(const TierPart& part) const { return families_[part.family].ids; }
  // Blocks of the sequence that the load has; states: one, 0.
  uint64_t first_block(const TierPart& part) const { return part.is_state ? 0 : position_ / part.block_tokens; }
  uint64_t end_block(const TierPart& part) const { return first_block(part) + families_[part.family].blocks; }
  // All groups of the family have what the load needs of the tokens before this one.
  uint64_t have(uint32_t family) const { return families_[family].have; }
  // Whether a group lacks the block. Any block.
  bool has_place(const TierPart& part, uint64_t block) const {
    const Family& family = families_[part.family];
    const uint64_t at = block - first_block(part);
    return block >= first_block(part) && at < family.blocks && family.ids[family.least_column * family.blocks + at] != 0;
  }
  // Whether all groups lack the same blocks. Otherwise not all of a record is written.
  bool is_even(uint32_t family) const { return families_[family].is_even; }
  // Blocks [first, end) of the part did not come: those that its groups lack are lost.
  void lose(const TierPart& part, uint64_t first, uint64_t end, LostBlocks* lost) const;

 private:
  struct Family {
    std::vector<int32_t> ids;
    uint64_t blocks = 0, have = 0;
    uint64_t least_column = 0;  // the first one of the group that has least
    bool is_even = true;
    std::vector<uint32_t> groups;
    std::vector<uint64_t> have_of;  // by group of the family: tokens
  };

  uint64_t position_ = 0;
  std::vector<Family> families_;
  std::vector<uint64_t> have_;  // by group of the plan
  std::vector<int32_t> ids_;
};

}  // namespace quire
