#include "core/step/prompt_ends.h"

#include <algorithm>
#include <numeric>

namespace quire {

PromptEnds::PromptEnds(const Facts& facts, PrefixIndex& index) : outputs(facts, index), facts_(facts), index_(index) {
  for (size_t g = 0; g < kGrids.size(); ++g) grids_[g] = std::lcm(kGrids[g], facts.config->hit_alignment_tokens);
}

uint64_t PromptEnds::end_of(uint64_t prompt, size_t grid) const {
  const uint64_t tokens = prompt >= grids_[grid] ? grids_[grid] : grids_[0];
  return tokens > 0 ? prompt / tokens * tokens : 0;
}

uint64_t PromptEnds::kept_at(uint64_t prompt) const { return end_of(prompt, best_); }

void PromptEnds::learn(NodeId node, uint64_t prompt, uint64_t seen, uint64_t branch_point) {
  std::array<uint64_t, kGrids.size()> found{};
  uint32_t left = kMostUnits;
  NodeId at = node;
  uint64_t tokens = index_.tokens(at), deepest_branch = 0;
  const uint64_t unit = facts_.config->match_unit_tokens;
  for (; seen > 0 && tokens > seen; tokens -= unit) at = index_.parent(at);
  // What earlier prompts would have left on the way that this one shares with them.
  for (size_t missing = found.size(); seen > 0 && tokens > 0 && missing > 0 && left > 0; --left, tokens -= unit, at = index_.parent(at)) {
    const uint8_t marks = index_.marks(at);
    if (marks == 0) continue;
    if ((marks & kBranchPoint) != 0) deepest_branch = std::max(deepest_branch, tokens);
    for (size_t g = 0; g < found.size(); ++g) {
      if (found[g] > 0 || (marks >> g & 1) == 0) continue;
      found[g] = tokens;
      --missing;
    }
  }
  if (seen > 0) {
    for (size_t g = 0; g < found.size(); ++g) {
      gains_[g] = gains_[g] * kMemory + static_cast<double>(std::max({found[g], deepest_branch, tokens}) - tokens);
    }
    best_ = static_cast<size_t>(std::max_element(gains_.begin(), gains_.end()) - gains_.begin());
  }
  uint64_t least = branch_point > 0 ? branch_point : prompt;
  std::array<uint64_t, kGrids.size()> ends{};
  for (size_t g = 0; g < ends.size(); ++g) {
    ends[g] = end_of(prompt, g);
    least = std::min(least, ends[g]);
  }
  tokens = index_.tokens(node);
  for (at = node; tokens > 0 && tokens >= least; tokens -= unit, at = index_.parent(at)) {
    uint8_t marks = tokens == branch_point ? kBranchPoint : 0;
    for (size_t g = 0; g < ends.size(); ++g) marks |= tokens == ends[g] ? 1u << g : 0;
    if (marks != 0) index_.marks(at) |= marks;
  }
}

}  // namespace quire
