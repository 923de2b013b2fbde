#include "core/step/near_eviction.h"

#include <algorithm>

namespace quire {

void NearEviction::watch() {
  uint64_t pages = 0;
  uint32_t most_parts = 1;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    const uint64_t per_page = pool_.parts_per_page(GroupId(g));
    most_parts = std::max(most_parts, pool_.parts_per_page(GroupId(g)));
    const uint64_t blocks = group.state   ? facts_.writes_per_step()
                            : group.grows ? facts_.limits.max_tokens / group.block_tokens + facts_.limits.max_entries
                                          : 0;
    pages += (blocks * group.columns + per_page - 1) / per_page;
  }
  const uint64_t most = std::clamp<uint64_t>(pool_.num_pages() / 8, 2, kMostPages);
  pages_.resize(std::clamp<uint64_t>(2 * pages, 2, most));
  heads_.resize(most_parts);
  step_pages_ = std::max<uint64_t>(pages, 1);
  stepped_ = true;
  seen_ = 0;
}

// Free pages are taken before any is evicted. What was seen has to suffice for another step.
bool NearEviction::is_due() const {
  const uint64_t free = pool_.free_pages();
  if (!stepped_ || free >= step_pages_) return false;
  return seen_ < pool_.counts().order_changes - changes_ + std::min<uint64_t>(step_pages_ - free, pages_.size() / 2);
}

}  // namespace quire
