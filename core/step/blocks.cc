// Taking blocks from the pool and giving them back.
#include <algorithm>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

uint32_t Cache::Impl::find_step(StepId id) const {
  for (uint32_t i = 0; i < num_steps; ++i) {
    if (step_at(i).id == id.value) return i;
  }
  return kNone;
}

bool Cache::Impl::dropped(const Row& row) const {
  uint32_t s = sequences.find(row.id);
  return s == kNone || sequences.at(s).incarnation != row.incarnation;
}

uint64_t Cache::Impl::owner(uint32_t sequence) const {
  const Sequence& s = sequences.at(sequence);
  return (uint64_t{s.generation} << 40) ^ (uint64_t{s.incarnation} << 24) ^ (sequence + 1u);
}

void Cache::Impl::release(PartIndex head) { pool.unref(head, newest_id()); }

void Cache::Impl::forget_block(NodeId node, GroupId group, bool evicted) {
  for (const DroppedBlock& d : index.detach(node, group, evicted)) {
    pool.unpublish(d.head);
    if (evicted) ++counters.evicted_blocks;
  }
}

bool Cache::Impl::make_free_page() {
  if (pool.free_pages() > 0) return true;
  PageId page = pool.oldest_evictable();
  if (page.value == kNone) return false;
  GroupId group = pool.group_of(page);
  ++counters.evicted_pages;
  // One block may drop others of the same page with it; ask again until the page is empty.
  while (pool.evictable(page)) {
    uint32_t n = pool.cached_heads(page, scratch_heads);
    if (n == 0) return false;
    forget_block(pool.node(scratch_heads[n - 1]), group, true);
  }
  return pool.free_pages() > 0;
}

bool Cache::Impl::evict_between(uint32_t group) {
  GroupId g(group);
  while (pool.open_holes(g) == 0) {
    PageId page = pool.page_with_cached(g);
    if (page.value == kNone) return false;
    uint32_t n = pool.cached_heads(page, scratch_heads);
    if (n == 0) return false;
    forget_block(pool.node(scratch_heads[n - 1]), g, true);
  }
  return true;
}

TakenPart Cache::Impl::take_part(uint32_t sequence, uint32_t group, Room room) {
  Holding& holding = sequences.holding(sequence, group);
  GroupId g(group);
  uint64_t root = index.root_serial(sequences.at(sequence).root);
  uint64_t me = owner(sequence);
  TakenPart taken = pool.take_claimed(holding.claim, g, me, root);
  if (taken.part.value != kNone) return taken;
  if (room != Room::kPages) taken = pool.take_hole(g, root);
  if (taken.part.value == kNone && room == Room::kCached && evict_between(group)) taken = pool.take_hole(g, root);
  if (taken.part.value == kNone && make_free_page()) {
    taken = pool.take_page(g, me, root);
    holding.claim = pool.page_of(taken.part);
  }
  if (taken.part.value == kNone) taken = pool.take_hole(g, root);
  return taken;
}

void Cache::Impl::note_zero(Step* step, uint32_t group, uint32_t column, const TakenPart& taken) {
  if (!taken.foreign_bytes) return;
  if (taken.page_is_new) {
    step->zeroes.push_back(quire_zero{kNone, 0, static_cast<int32_t>(pool.page_of(taken.part).value), 0});
  } else {
    step->zeroes.push_back(quire_zero{group, column, pool.id_of(GroupId(group), taken.part).value, 0});
  }
}

PartIndex Cache::Impl::take_block(uint32_t sequence, uint32_t group, Room room, Step* step) {
  uint32_t columns = plan(group).ids_per_block;
  for (uint32_t c = 0; c < columns; ++c) {
    TakenPart taken = take_part(sequence, group, room);
    if (taken.part.value == kNone) {
      // Admission counted wrongly: a bug. Link and give back what was taken, so that nothing is lost.
      if (c > 0) {
        pool.link({scratch_parts.data(), c});
        pool.unref(scratch_parts[0], 0);
      }
      return PartIndex(kNone);
    }
    note_zero(step, group, c, taken);
    scratch_parts[c] = taken.part;
  }
  pool.link({scratch_parts.data(), columns});
  return scratch_parts[0];
}

PartIndex Cache::Impl::block_head(uint32_t sequence, uint32_t group, uint32_t block) const {
  int32_t id = sequences.table(sequence, group, 0)[block];
  return id == 0 ? PartIndex(kNone) : pool.index_of(GroupId(group), PartId(id));
}

void Cache::Impl::put_block(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head) {
  PartIndex part = head;
  for (uint32_t c = 0; c < plan(group).ids_per_block; ++c) {
    sequences.table(sequence, group, c)[block] = part.value == kNone ? 0 : pool.id_of(GroupId(group), part).value;
    if (part.value != kNone) part = pool.next_in_block(part);
  }
}

void Cache::Impl::release_blocks_from(uint32_t sequence, uint32_t group, uint32_t first) {
  Holding& h = sequences.holding(sequence, group);
  for (uint32_t b = h.num_blocks; b > first; --b) {
    PartIndex head = block_head(sequence, group, b - 1);
    if (head.value != kNone) release(head);
    put_block(sequence, group, b - 1, PartIndex(kNone));
  }
  h.num_blocks = std::min(h.num_blocks, first);
  h.first_live = std::min(h.first_live, h.num_blocks);
}

void Cache::Impl::release_all(uint32_t sequence) {
  for (uint32_t g = 0; g < num_groups(); ++g) {
    Holding& h = sequences.holding(sequence, g);
    if (plan(g).is_state()) {
      if (h.current.value != kNone) release(h.current);
      if (h.spare.value != kNone) release(h.spare);
    } else {
      release_blocks_from(sequence, g, 0);
    }
    h = Holding{};
  }
}

void Cache::Impl::prune(uint32_t sequence) {
  const Sequence& s = sequences.at(sequence);
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const GroupPlan& group = plan(g);
    if (group.is_state() || group.live.everything() || group.live.fixed) continue;
    Holding& h = sequences.holding(sequence, g);
    auto sink_blocks = static_cast<uint32_t>(ceil_div(group.live.sink_end(s.committed), group.block_tokens));
    auto live = static_cast<uint32_t>(std::min<uint64_t>(group.live.tail_begin(s.committed) / group.block_tokens, h.num_blocks));
    for (uint32_t b = std::max(h.first_live, sink_blocks); b < live; ++b) {
      PartIndex head = block_head(sequence, g, b);
      if (head.value != kNone) release(head);
      put_block(sequence, g, b, PartIndex(kNone));
    }
    h.first_live = std::max(h.first_live, live);
  }
}

}  // namespace quire
