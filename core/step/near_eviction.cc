#include "core/step/near_eviction.h"

#include <algorithm>

namespace quire {

uint64_t NearEviction::pages_of(uint64_t tokens, uint64_t rows) const {
  uint64_t pages = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    const uint64_t per_page = pool_.parts_per_page(GroupId(g));
    const uint64_t states = std::min(rows, facts_.writes_per_step());
    const uint64_t blocks = group.state ? states : group.grows ? tokens / group.block_tokens + rows : 0;
    pages += (blocks * group.columns + per_page - 1) / per_page;
  }
  return pages;
}

void NearEviction::reserve(uint64_t unit_tokens) {
  uint32_t most_parts = 1;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) most_parts = std::max(most_parts, pool_.parts_per_page(GroupId(g)));
  heads_.resize(std::max<size_t>(heads_.size(), most_parts));
  pages_.reserve(kMostPages + pages_of(unit_tokens, 1));
  seen_in_.resize(pool_.num_pages());
}

void NearEviction::begin(uint64_t unit_tokens) {
  step_pages_ = std::max<uint64_t>(pages_of(facts_.limits.max_tokens, facts_.limits.max_entries), 1);
  look_pages_ = std::clamp<uint64_t>(2 * step_pages_, 2, std::clamp<uint64_t>(pool_.num_pages() / 8, 2, kMostPages));
  pages_.resize(look_pages_ + pages_of(unit_tokens, 1));
  for (uint32_t n = 0; n < index_.num_slots(); ++n) index_.marks(NodeId(n)) &= static_cast<uint8_t>(~kNoted);
  stepped_ = again_ = true;
  seen_ = changes_ = evictable_ = 0;
}

// Free pages are taken before any is evicted. What was seen has to suffice for another step.
bool NearEviction::is_due() const {
  if (!stepped_) return false;
  const PoolCounts counts = pool_.counts();
  const uint64_t free = counts.free_pages, changes = counts.order_changes - changes_;
  if (free >= step_pages_) return false;
  if (changes == 0 && counts.evictable_pages == evictable_ && !again_) return false;
  return seen_ < changes + std::min<uint64_t>(step_pages_ - free, look_pages_ / 2);
}

}  // namespace quire
