// Taking blocks from the pool and giving them back.
#include <algorithm>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

uint64_t Cache::Impl::owner(uint32_t sequence) const {
  const Sequence& s = sequences.at(sequence);
  return (uint64_t{s.generation} << 40) ^ (uint64_t{s.incarnation} << 24) ^ (sequence + 1u);
}

void Cache::Impl::release(PartIndex head) { pool.unref(head, steps.newest_id()); }

// A stale page before any other; its blocks are not found any more, so nobody learns that they go.
bool Cache::Impl::make_free_page() {
  if (pool.has_empty_page()) return true;
  if (!pool.has_stale_page()) return give_up_least() || empty_oldest();
  empty_stale();
  return true;
}

void Cache::Impl::empty_stale() {
  pool.swap_stale();
  clearing = true;
  empty_oldest();
  clearing = false;
  pool.swap_stale();
}

// A page of blocks of one part each. The index forgets one after the other, the pool all of them at once.
void Cache::Impl::evict_page(PageId page, GroupId group) {
  uint32_t alone = 0;
  for (uint32_t i = pool.cached_heads(page, scratch_heads); i > 0; --i) {
    const NodeId node = pool.node(scratch_heads[i - 1]);
    if (node.value == kNone) continue;  // it went with another one
    if (index.evict_alone(node, group)) {
      ++alone;
    } else {
      published.forget(node, group, true);
    }
  }
  if (alone > 0) pool.unpublish_page(page);
  counters.evicted_blocks += alone;
}

bool Cache::Impl::empty_oldest() {
  PageId page = pool.oldest_evictable();
  if (page.value == kNone) return false;
  GroupId group = pool.group_of(page);
  pool.fetch_ahead([this](uint32_t node) { index.fetch(NodeId(node)); });
  if (!clearing) ++counters.evicted_pages;
  const bool plainly = !clearing && !events.enabled() && !facts.groups[group.value].state;
  if (plainly && !pool.plain() && facts.groups[group.value].columns == 1) {
    evict_page(page, group);
    return true;
  }
  // One block may drop others of the same page with it, which have no node then.
  while (pool.evictable(page)) {
    const uint32_t n = pool.cached_heads(page, scratch_heads);
    if (n == 0) return false;
    for (uint32_t i = n; i > 0; --i) {
      const PartIndex head = scratch_heads[i - 1];
      const NodeId node = pool.node(head);
      if (node.value == kNone) continue;
      if (!plainly || !index.evict_alone(node, group)) {
        published.forget(node, group, !clearing);
        continue;
      }
      pool.unpublish(head);
      ++counters.evicted_blocks;
    }
  }
  return pool.has_empty_page();
}

bool Cache::Impl::evict_between(uint32_t group) {
  GroupId g(group);
  while (pool.open_holes(g) == 0) {
    PageId page = pool.page_with_cached(g);
    if (page.value == kNone) return false;
    uint32_t n = pool.cached_heads(page, scratch_heads);
    if (n == 0) return false;
    published.forget(pool.node(scratch_heads[n - 1]), g, true);
  }
  return true;
}

TakenPart Cache::Impl::take_part(const Taking& t) {
  GroupId g(t.group);
  TakenPart taken = pool.take_claimed(t.holding->claim, g, t.owner, t.root);
  if (taken.part.value != kNone) return taken;
  if (t.room != Room::kPages) taken = pool.take_hole(g, t.root);
  if (taken.part.value == kNone && t.room == Room::kCached && evict_between(t.group)) taken = pool.take_hole(g, t.root);
  if (taken.part.value == kNone && make_free_page()) {
    taken = pool.take_page(g, t.owner, t.root);
    t.holding->claim = pool.page_of(taken.part);
  }
  if (taken.part.value == kNone) taken = pool.take_hole(g, t.root);
  return taken;
}

Taking Cache::Impl::start_taking(uint32_t sequence, uint32_t group, Room room) {
  return Taking{group, room, owner(sequence), index.root_serial(sequences.at(sequence).root), &sequences.holding(sequence, group)};
}

void Cache::Impl::note_zero(Step* step, uint32_t group, uint32_t column, const TakenPart& taken) {
  if (taken.page_is_new) {
    step->zeroes.push_back(quire_zero{kNone, 0, static_cast<int32_t>(pool.page_of(taken.part).value), 0});
  } else {
    step->zeroes.push_back(quire_zero{group, column, pool.id_of(GroupId(group), taken.part).value, 0});
  }
}

// In a plain pool: the oldest pages, in the same stroke that takes their blocks out of the index. How many ids were written.
uint32_t Cache::Impl::recycle(const Taking& t, std::span<int32_t> ids, Step* step) {
  const bool stale = pool.has_stale_page();
  if (stale) pool.swap_stale();
  const uint32_t n = pool.recycle_run(
      GroupId(t.group), t.root, ids,
      [this](NodeId node, GroupId had) { return !facts.groups[had.value].state && index.evict_alone(node, had); },
      [&](PageId page) {
        note_zero(step, t.group, 0, {pool.first_part(page), true, true});
      },
      [this](uint32_t node) { index.fetch_run(NodeId(node)); });
  if (stale) pool.swap_stale();
  counters.evicted_pages += stale ? 0 : n;
  counters.evicted_blocks += stale ? 0 : n;
  return n;
}

// A free page, or the oldest one.
PartIndex Cache::Impl::take_plain(const Taking& t, Step* step) {
  const GroupId group(t.group);
  int32_t id = 0;
  if (!pool.has_empty_page() && !events.enabled() && recycle(t, {&id, 1}, step) == 1) return pool.index_of(group, PartId(id));
  if (!make_free_page()) return PartIndex(kNone);
  const TakenPart taken = pool.take_empty(group, t.root);
  if (taken.foreign_bytes) note_zero(step, t.group, 0, taken);
  return taken.part;
}

PartIndex Cache::Impl::take_block(const Taking& taking, Step* step) {
  if (pool.plain()) return take_plain(taking, step);
  const uint32_t columns = facts.groups[taking.group].columns;
  for (uint32_t c = 0; c < columns; ++c) {
    TakenPart taken = take_part(taking);
    if (taken.part.value == kNone) {
      // Admission counted wrongly: a bug. Link and give back what was taken, so that nothing is lost.
      if (c > 0) {
        pool.link({scratch_parts.data(), c});
        pool.unref(scratch_parts[0], 0);
      }
      return PartIndex(kNone);
    }
    if (taken.foreign_bytes) note_zero(step, taking.group, c, taken);
    scratch_parts[c] = taken.part;
  }
  pool.link({scratch_parts.data(), columns});
  return scratch_parts[0];
}

// In a plain pool, as often as take_plain() would do nothing but take the next page: how many ids were written.
uint32_t Cache::Impl::take_run(const Taking& t, std::span<int32_t> ids, Step* step) {
  const GroupId group(t.group);
  uint32_t n = 0;
  for (; n < ids.size() && pool.has_empty_page(); ++n) {
    const TakenPart taken = pool.take_empty(group, t.root);
    if (taken.foreign_bytes) note_zero(step, t.group, 0, taken);
    ids[n] = pool.id_of(group, taken.part).value;
  }
  return n > 0 || events.enabled() || facts.has_states ? n : recycle(t, ids, step);
}

// The same in a pool of pages with several parts: those that are claimed, then whole pages.
uint32_t Cache::Impl::take_claimed_run(const Taking& t, std::span<int32_t> ids, Step* step) {
  const GroupId group(t.group);
  uint32_t n = pool.take_claimed_run(t.holding->claim, group, t.owner, t.root, ids);
  if (t.room != Room::kPages || ids.size() < 2) return n;
  while (n < ids.size() && pool.claimed_holes(t.holding->claim, group, t.owner) == 0 && make_free_page()) {
    const std::span<int32_t> rest = ids.subspan(n);
    const TakenPart taken = pool.take_page_run(group, t.owner, t.root, rest);
    t.holding->claim = pool.page_of(taken.part);
    if (taken.foreign_bytes) note_zero(step, t.group, 0, taken);
    n += static_cast<uint32_t>(std::min<size_t>(rest.size(), pool.parts_per_page(group)));
  }
  return n;
}

// Blocks of one part each go into the table as they are taken.
void Cache::Impl::grow(const Taking& taking, uint32_t sequence, uint32_t want, Step* step) {
  Holding& h = *taking.holding;
  if (h.num_blocks >= want) return;
  const uint32_t columns = facts.groups[taking.group].columns;
  int32_t* first_column = sequences.table(sequence, taking.group, 0).data();
  while (h.num_blocks < want) {
    const std::span<int32_t> ids(first_column + h.num_blocks, columns == 1 ? want - h.num_blocks : 0);
    const uint32_t run = pool.plain() ? take_run(taking, ids, step) : take_claimed_run(taking, ids, step);
    h.num_blocks += run;
    if (run > 0) continue;
    const PartIndex head = take_block(taking, step);
    if (columns > 1 || head.value == kNone) {
      put_block(sequence, taking.group, h.num_blocks, head);
    } else {
      first_column[h.num_blocks] = pool.id_of(GroupId(taking.group), head).value;
    }
    ++h.num_blocks;
  }
}

void Cache::Impl::clear_blocks(uint32_t sequence, uint32_t group, uint32_t first, uint32_t end) {
  for (uint32_t c = 0; c < facts.plan(group).ids_per_block; ++c) {
    auto column = sequences.table(sequence, group, c);
    std::fill(column.begin() + first, column.begin() + end, 0);
  }
}

void Cache::Impl::put_block(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head) {
  Holding& h = sequences.holding(sequence, group);
  h.settled = std::min(h.settled, block);
  sequences.at(sequence).shown = 0;
  PartIndex part = head;
  for (uint32_t c = 0; c < facts.plan(group).ids_per_block; ++c) {
    sequences.table(sequence, group, c)[block] = part.value == kNone ? 0 : pool.id_of(GroupId(group), part).value;
    if (part.value != kNone) part = pool.next_in_block(part);
  }
}

// Entries behind num_blocks are never read; they keep what they had.
void Cache::Impl::release_blocks_from(uint32_t sequence, uint32_t group, uint32_t first) {
  Holding& h = sequences.holding(sequence, group);
  if (first >= h.num_blocks) return;
  pool.unref_blocks(GroupId(group), sequences.table(sequence, group, 0).subspan(first, h.num_blocks - first), steps.newest_id());
  h.num_blocks = first;
  sequences.at(sequence).shown = 0;
  h.first_live = std::min(h.first_live, first);
  h.settled = std::min(h.settled, first);
}

// The sequence is empty again, nothing was accepted.
void Cache::Impl::give_back_encoder(uint32_t sequence) {
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].state && !facts.groups[g].grows) release_blocks_from(sequence, g, 0);
  }
  sequences.at(sequence).encoder = 0;
}

// Windows first: a unit that only they have left below it would not go alone when its block of a group that needs everything does.
void Cache::Impl::release_all(uint32_t sequence) {
  for (uint32_t g = 0; !facts.strict_lru && g < facts.num_groups; ++g) {
    if (facts.groups[g].falls) release_blocks_from(sequence, g, 0);
  }
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    Holding& h = sequences.holding(sequence, g);
    if (facts.plan(g).is_state()) {
      if (h.current.value != kNone) release(h.current);
      for (uint32_t i = 0; i < h.num_spares; ++i) release(sequences.spares(sequence, g)[i]);
    } else {
      release_blocks_from(sequence, g, 0);
    }
    h = Holding{};
  }
  sequences.at(sequence).falls_at = sequences.at(sequence).shown = 0;
}

// What left the live range within the row that computed it is behind every boundary at which a sequence stopped: it goes before everything
// else. Warm stay the blocks that were live before, the window before the last one (who comes back often turns off a little earlier), and
// what a prefix that was seen before needs.
Stretch Cache::Impl::cold_blocks(const Step& step, size_t r, uint32_t g, uint64_t committed) const {
  const Row& row = step.rows[r];
  const GroupFacts& group = facts.groups[g];
  if (facts.strict_lru || row.num_tokens <= 1 || row.stays || group.only_with_states) return {};  // what is found there is needed
  const uint64_t turn = committed - std::min(committed, group.live.window + group.live.chunk);
  Stretch cold{step.group(r, g).blocks_before, static_cast<uint32_t>(group.block.quotient(group.live.tail_begin(turn)))};
  if (row.seen_before > 0)
    cold.end = std::min(cold.end, static_cast<uint32_t>(group.block.quotient(group.live.tail_begin(row.seen_before))));
  return cold;
}

// Rows of later steps leave these blocks alone, so a lone sequence has them again at once: a row in flight begins at `committed` or behind
// it (less than all of a row is accepted only where no later one is in flight), reads nothing before tail_begin(committed), which does not
// fall from there on, but for the sinks, and writes and copies no block before that of its first token. An abort of later steps shortens
// tables from their ends and puts back copied blocks; neither reaches before tail_begin either. Steps of others that are, or were, in such
// a block are the pool's to know. A load has no steps of its sequence beside it.
void Cache::Impl::prune(uint32_t sequence, const Step& step, size_t row) {
  Sequence& s = sequences.at(sequence);
  if (s.committed < s.falls_at) return;
  s.falls_at = UINT64_MAX;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupFacts& group = facts.groups[g];
    if (!group.falls) continue;
    Holding& h = sequences.holding(sequence, g);
    auto live = static_cast<uint32_t>(std::min<uint64_t>(group.block.quotient(group.live.kept_begin(s.committed)), h.num_blocks));
    s.falls_at = std::min(s.falls_at, group.live.kept_from((uint64_t{std::max(live, h.first_live)} + 1) * group.block_tokens));
    if (live <= h.first_live) continue;
    auto sink_blocks = static_cast<uint32_t>(group.block.ceil(group.live.sink_end(s.committed)));
    const uint32_t first = std::max(h.first_live, sink_blocks);
    if (first < live) {
      const auto ids = sequences.table(sequence, g, 0);
      const Stretch cold = cold_blocks(step, row, g, s.committed);
      const uint32_t cold_first = std::clamp(cold.first, first, live);
      const uint32_t cold_end = std::clamp(cold.end, cold_first, live);
      pool.unref_passed(GroupId(g), ids.subspan(cold_end, live - cold_end), steps.newest_id());
      pool.unref_passed(GroupId(g), ids.subspan(cold_first, cold_end - cold_first), steps.newest_id(), Worth::kCold);
      pool.unref_passed(GroupId(g), ids.subspan(first, cold_first - first), steps.newest_id());
      clear_blocks(sequence, g, first, live);
    }
    h.first_live = live;
  }
}

}  // namespace quire
