#include "core/tier/load_places.h"

#include <algorithm>

namespace quire {

Status LoadPlaces::read(Cache& cache, StepId load, const TierPlan& plan, uint64_t position) {
  const Config& config = plan.config();
  position_ = position;
  uint64_t n = 0;
  have_.resize(config.groups.size());
  QUIRE_RETURN_IF_ERROR(cache.load_have(load, have_, &n));
  families_.resize(plan.families().size());
  for (size_t f = 0; f < families_.size(); ++f) {
    Family& family = families_[f];
    family.groups = plan.families()[f].groups;
    family.have_of.clear();
    family.ids.clear();
    family.have = UINT64_MAX;
    family.is_even = true;
    for (const uint32_t g : family.groups) {
      const GroupPlan& group = config.groups[g];
      QUIRE_RETURN_IF_ERROR(cache.load_ids(load, g, &ids_));
      family.blocks = ids_.size() / group.ids_per_block;
      family.is_even = family.is_even && (family.have_of.empty() || family.have_of[0] == have_[g]);
      if (have_[g] < family.have) {
        family.have = have_[g];
        family.least_column = family.ids.size() / std::max<uint64_t>(family.blocks, 1);
      }
      family.have_of.push_back(have_[g]);
      const uint64_t here = group.is_state() ? 0 : std::min(have_[g] / group.block_tokens - position / group.block_tokens, family.blocks);
      for (uint64_t c = 0; c < group.ids_per_block; ++c) {
        const auto column = ids_.begin() + static_cast<std::ptrdiff_t>(c * family.blocks);
        std::fill(column, column + static_cast<std::ptrdiff_t>(here), 0);
      }
      family.ids.insert(family.ids.end(), ids_.begin(), ids_.end());
    }
  }
  return {};
}

void LoadPlaces::lose(const TierPart& part, uint64_t first, uint64_t end, LostBlocks* lost) const {
  const Family& family = families_[part.family];
  for (size_t i = 0; i < family.groups.size(); ++i) {
    const uint64_t here = part.is_state ? 0 : family.have_of[i] / part.block_tokens;
    lost->lose(family.groups[i], std::max(first, here), end);
  }
}

}  // namespace quire
