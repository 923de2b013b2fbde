#include "core/step/eviction.h"

#include <algorithm>

namespace quire {

Eviction::Eviction(const Facts& facts, Pool& pool, PrefixIndex& index, const EventRecorder& events, CheckpointBudget& budget,
                   PublishedBlocks& published)
    : facts_(facts), pool_(pool), index_(index), events_(events), budget_(budget), published_(published) {
  uint32_t most_parts = 1;
  for (const GroupPlan& g : facts.config->groups) most_parts = std::max(most_parts, g.parts_per_page);
  scratch_heads_.resize(most_parts);
}

// A stale page before any other; its blocks are not found any more, so nobody learns that they go.
bool Eviction::make_free_page() {
  if (pool_.has_empty_page()) return true;
  if (!pool_.has_stale_page()) return give_up_least() || empty_oldest();
  empty_stale();
  return true;
}

void Eviction::empty_stale() {
  pool_.swap_stale();
  clearing_ = true;
  empty_oldest();
  clearing_ = false;
  pool_.swap_stale();
}

// Where a state is the next to go from the pool, a cold one goes before it, if nobody reads it: one that was kept for its place alone and
// never used, or one that is superseded and worth half or less. As many states go as by age, but others. Only age decides among the rest:
// what a state is good for ages with the blocks of attention before it, and where costlier but older ones stay those go first. Only where a
// page is of one state: others would go with their neighbours.
bool Eviction::give_up_least() {
  if (!facts_.has_states || facts_.strict_lru) return false;
  const PageId page = pool_.oldest_evictable();
  if (page.value == kNone) return false;
  const GroupId group = pool_.group_of(page);
  if (!facts_.groups[group.value].state || pool_.parts_per_page(group) != 1 || pool_.spares().has(page.value)) return false;
  const NodeId least = budget_.least([&](NodeId node) {
    if (!budget_.cold(node) || index_.block_at(node, group).value == kNone) return false;
    for (uint32_t g = 0; g < facts_.num_groups; ++g) {
      const PartIndex head = facts_.groups[g].state ? index_.block_at(node, GroupId(g)) : PartIndex(kNone);
      if (head.value != kNone && (pool_.held(head) || pool_.spares().has(pool_.page_of(head).value))) return false;
    }
    return true;
  });
  if (least.value == kNone) return false;
  if (pool_.cached_heads(page, scratch_heads_) == 0) return false;
  pool_.take_place_of(scratch_heads_[0], index_.block_at(least, group));
  ++num_pages_;
  published_.give_up_boundary(least);
  return pool_.has_empty_page();
}

// A page of blocks of one part each. The index forgets one after the other, the pool all of them at once.
void Eviction::evict_page(PageId page, GroupId group) {
  uint32_t alone = 0;
  for (uint32_t i = pool_.cached_heads(page, scratch_heads_); i > 0; --i) {
    const NodeId node = pool_.node(scratch_heads_[i - 1]);
    if (node.value == kNone) continue;  // it went with another one
    if (index_.evict_alone(node, group)) {
      ++alone;
    } else {
      published_.forget(node, group, true);
    }
  }
  if (alone > 0) pool_.unpublish_page(page);
  num_blocks_ += alone;
}

bool Eviction::empty_oldest() {
  PageId page = pool_.oldest_evictable();
  if (page.value == kNone) return false;
  GroupId group = pool_.group_of(page);
  pool_.fetch_ahead([this](NodeId soon, NodeId next) { index_.fetch(soon, next); });
  if (!clearing_) ++num_pages_;
  const bool plainly = !clearing_ && !events_.enabled() && !facts_.groups[group.value].state;
  if (plainly && !pool_.plain() && facts_.groups[group.value].columns == 1) {
    evict_page(page, group);
    return true;
  }
  // One block may drop others of the same page with it, which have no node then.
  while (pool_.evictable(page)) {
    const uint32_t n = pool_.cached_heads(page, scratch_heads_);
    if (n == 0) return false;
    for (uint32_t i = n; i > 0; --i) {
      const PartIndex head = scratch_heads_[i - 1];
      const NodeId node = pool_.node(head);
      if (node.value == kNone) continue;
      if (!plainly || !index_.evict_alone(node, group)) {
        published_.forget(node, group, !clearing_);
        continue;
      }
      pool_.unpublish(head);
      ++num_blocks_;
    }
  }
  return pool_.has_empty_page();
}

bool Eviction::evict_between(uint32_t group) {
  GroupId g(group);
  while (pool_.open_parts(g).holes == 0) {
    PageId page = pool_.page_with_cached(g);
    if (page.value == kNone) return false;
    uint32_t n = pool_.cached_heads(page, scratch_heads_);
    if (n == 0) return false;
    published_.forget(pool_.node(scratch_heads_[n - 1]), g, true);
  }
  return true;
}

void Eviction::forget_all() {
  pool_.residency.forgets(true);
  budget_.forgets(true);
  for (uint32_t p = 1; p < pool_.num_pages(); ++p) {
    // Forgetting a block may empty the page, and others with it.
    while (pool_.group_of(PageId(p)).value != kNone) {
      GroupId group = pool_.group_of(PageId(p));
      uint32_t n = pool_.cached_heads(PageId(p), scratch_heads_);
      if (n == 0 || index_.is_stale(pool_.node(scratch_heads_[0]))) break;
      published_.forget(pool_.node(scratch_heads_[0]), group, false);
    }
  }
  budget_.forgets(false);
  pool_.residency.forgets(false);
}

void Eviction::report(quire_cache_stats* stats) const {
  stats->evicted_pages = num_pages_;
  stats->evicted_blocks = num_blocks_ + published_.num_evicted();
}

}  // namespace quire
