#include "core/tier/load_places.h"

#include <algorithm>

namespace quire {

Status LoadPlaces::read(Cache& cache, StepId load, const TierPlan& plan, uint64_t position) {
  const Config& config = plan.config();
  plan_ = &plan;
  position_ = position;
  uint64_t n = 0;
  have_.resize(config.groups.size());
  QUIRE_RETURN_IF_ERROR(cache.load_have(load, have_, &n));
  families_.resize(plan.families().size());
  for (size_t f = 0; f < families_.size(); ++f) {
    Family& family = families_[f];
    family.ids.clear();
    family.have = UINT64_MAX;
    family.most = 0;
    for (const uint32_t g : plan.families()[f].groups) {
      const GroupPlan& group = config.groups[g];
      QUIRE_RETURN_IF_ERROR(cache.load_ids(load, g, &ids_));
      family.blocks = ids_.size() / group.ids_per_block;
      family.most = std::max(family.most, have_[g]);
      if (have_[g] < family.have) {
        family.have = have_[g];
        family.least_column = family.ids.size() / std::max<uint64_t>(family.blocks, 1);
      }
      uint64_t here = group.is_state() ? 0 : std::min(have_[g] / group.block_tokens - position / group.block_tokens, family.blocks);
      if (group.live.fixed && position > 0) here = family.blocks;  // an earlier load brought them
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
  for (const uint32_t group : plan_->families()[part.family].groups) {
    const uint64_t here = part.is_state ? 0 : have_[group] / part.block_tokens;
    lost->lose(group, std::max(first, here), end);
  }
}

}  // namespace quire
