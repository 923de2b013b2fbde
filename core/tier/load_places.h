// Where the blocks of a load lie, by family. The groups of a family keep the same tokens, but one
// can have more of them here than another. What is here is shared with other sequences: nothing is
// written there.
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
  // Blocks of the sequence that the load has. A state counts as block 0. Of cross attention:
  // blocks of the encoder's tokens.
  uint64_t first_block(const TierPart& part) const {  //
    return part.is_state || part.live.fixed ? 0 : position_ / part.block_tokens;
  }
  uint64_t end_block(const TierPart& part) const {  //
    return first_block(part) + families_[part.family].blocks;
  }
  // All groups of the family have what the load needs of the tokens before this one.
  uint64_t have(uint32_t family) const { return families_[family].have; }
  // Whether a group lacks the block, which need not be one of the load.
  bool has_place(const TierPart& part, uint64_t block) const {
    const Family& family = families_[part.family];
    const uint64_t at = block - first_block(part);
    const bool is_within = block >= first_block(part) && at < family.blocks;
    return is_within && family.ids[family.least_column * family.blocks + at] != 0;
  }
  // Whether no group has this block or a later one here: such blocks are written as wholes.
  bool all_lack(const TierPart& part, uint64_t block) const {
    return part.is_state || block >= families_[part.family].most / part.block_tokens;
  }
  // Blocks [first, end) of the part did not come: those that its groups lack are lost.
  void lose(const TierPart& part, uint64_t first, uint64_t end, LostBlocks* lost) const;

 private:
  struct Family {
    std::vector<int32_t> ids;
    uint64_t blocks = 0;
    uint64_t have = 0, most = 0;  // tokens of the groups that have least and most here
    uint64_t least_column = 0;    // the first one of the group that has least
  };

  const TierPlan* plan_ = nullptr;
  uint64_t position_ = 0;
  std::vector<Family> families_;
  std::vector<uint64_t> have_;  // by group of the plan
  std::vector<int32_t> ids_;
};

}  // namespace quire
