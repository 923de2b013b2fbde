#include "core/tier/lost_blocks.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire {

void LostBlocks::begin(const Config& config, uint64_t boundary, uint64_t encoder) {
  groups_.resize(config.groups.size());
  size_t most = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupPlan& group = config.groups[g];
    groups_[g].block_tokens = group.is_state() ? std::max<uint64_t>(boundary, 1) : group.block_tokens;
    groups_[g].end = group.live.fixed ? encoder : boundary;
    groups_[g].lost.assign(ceil_div(groups_[g].end, groups_[g].block_tokens), false);
    most += groups_[g].lost.size() / 2 + 1;
  }
  failures_.clear();
  failures_.reserve(most);
  any_ = false;
}

void LostBlocks::lose(uint32_t group, uint64_t first, uint64_t end) {
  std::vector<bool>& lost = groups_[group].lost;
  end = std::min<uint64_t>(end, lost.size());
  for (uint64_t block = first; block < end; ++block) lost[block] = any_ = true;
}

void LostBlocks::lose_all() {
  for (uint32_t g = 0; g < groups_.size(); ++g) lose(g, 0, groups_[g].lost.size());
}

std::span<const quire_load_failure> LostBlocks::failures() {
  failures_.clear();
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (uint64_t first = 0, end = 0; first < group.lost.size(); first = end + 1) {
      while (first < group.lost.size() && !group.lost[first]) ++first;
      for (end = first; end < group.lost.size() && group.lost[end];) ++end;
      const uint64_t token = first * group.block_tokens;
      if (first < end) failures_.push_back({g, 0, token, std::min(end * group.block_tokens, group.end) - token});
    }
  }
  return failures_;
}

}  // namespace quire
