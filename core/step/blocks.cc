#include "core/step/blocks.h"

#include "core/base/checked.h"

namespace quire {

Blocks::Blocks(const Facts& facts, Pool& pool, PrefixIndex& index, Sequences& sequences, const Steps& steps, const EventRecorder& events,
               Eviction& eviction)
    : facts_(facts), pool_(pool), index_(index), sequences_(sequences), steps_(steps), events_(events), eviction_(eviction) {
  uint32_t most_ids = 1;
  for (const GroupPlan& g : facts.config->groups) most_ids = std::max(most_ids, g.ids_per_block);
  scratch_ids_.resize(most_ids);
}

uint64_t Blocks::owner(uint32_t sequence) const {
  const Sequence& s = sequences_.at(sequence);
  return (uint64_t{s.generation} << 40) ^ (uint64_t{s.incarnation} << 24) ^ (sequence + 1u);
}

PartIndex Blocks::committed_head(uint32_t sequence, uint32_t group, uint32_t block) const {
  for (uint32_t i = 0; i < steps_.num_in_flight(); ++i) {
    for (const Replaced& r : steps_.at(i).replaced) {
      const Row& row = steps_.at(i).rows[r.row];
      if (row.sequence == sequence && r.group == group && r.block == block && !Steps::dropped(sequences_, row)) return r.old_head;
    }
  }
  return block_head(sequence, group, block);
}

bool Blocks::tail_is_shared(uint32_t sequence, uint32_t group, uint64_t position) const {
  const GroupFacts& g = facts_.groups[group];
  if (!sequences_.at(sequence).may_share || g.state || g.block.divides(position)) return false;
  auto block = static_cast<uint32_t>(g.block.quotient(position));
  if (block >= sequences_.holding(sequence, group).num_blocks) return false;
  PartIndex head = block_head(sequence, group, block);
  if (head.value == kNone) return false;
  // Behind what is published of an unfinished block its only user may go on, unless somebody who left has it in a step in flight.
  const NodeId node = pool_.node(head);
  return pool_.refs(head) > 1 || pool_.fenced(head) || (node.value != kNone && index_.tokens(node) > position);
}

// Where others may hit a part of a block, another one may be filling it.
void Blocks::share_unfinished(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head) {
  sequences_.at(sequence).may_share = true;
  if (pool_.refs(head) == 1) return;
  const int32_t id = pool_.id_of(GroupId(group), head).value;
  for (uint32_t q = 0; q < sequences_.capacity(); ++q) {
    const bool has = sequences_.at(q).live && block < sequences_.holding(q, group).num_blocks;
    if (has && sequences_.table(q, group, 0)[block] == id) sequences_.at(q).may_share = true;
  }
}

Taking Blocks::start_taking(uint32_t sequence, uint32_t group, AllocFrom room) {
  return Taking{group, room, owner(sequence), index_.root_serial(sequences_.at(sequence).root), &sequences_.holding(sequence, group)};
}

// In a plain pool: the oldest pages, in the same stroke that takes their blocks out of the index. How many ids were written.
uint32_t Blocks::recycle(const Taking& t, std::span<int32_t> ids, Step* step) {
  const bool stale = pool_.has_stale_page();
  if (stale) pool_.swap_stale();
  uint32_t n = 0;
  {
    PrefixIndex::Evictions evictions(&index_);
    const GroupFacts* const groups = facts_.groups.data();
    n = pool_.recycle(
        GroupId(t.group), t.root, ids,
        [&](NodeId node, GroupId had) { return !groups[had.value].state && evictions.evict_alone(node, had); },
        [&](PageId page) { note_zero(page, step); }, [&](NodeId soon, NodeId next) { index_.fetch(soon, next); });
  }
  if (stale) pool_.swap_stale();
  if (!stale) eviction_.count_recycled(n);
  return n;
}

// A part is a page: free ones, then the oldest ones.
uint32_t Blocks::take_plain(const Taking& t, std::span<int32_t> ids, Step* step) {
  uint32_t n = 0;
  while (n < ids.size()) {
    const std::span<int32_t> rest = ids.subspan(n);
    if (!pool_.has_empty_page()) {
      const uint32_t recycled = events_.enabled() ? 0 : recycle(t, rest, step);
      n += recycled;
      if (recycled > 0) continue;
      if (!eviction_.make_free_page()) break;
    }
    const Taken taken = pool_.take_page(GroupId(t.group), t.owner, t.root, rest);
    if (taken.foreign_bytes) note_zero(PageId(static_cast<uint32_t>(rest[0])), step);
    ++n;
  }
  return n;
}

// The page that the sequence fills comes first.
Taken Blocks::take_from_a_page(const Taking& t, std::span<int32_t> ids) {
  const GroupId g(t.group);
  if (pool_.claimed_holes(t.holding->fill_page, g, t.owner) > 0) return pool_.take_claimed(t.holding->fill_page, g, t.owner, t.root, ids);
  Taken taken;
  if (t.room != AllocFrom::kPages) taken = pool_.take_holes(g, t.root, ids);
  if (taken.count == 0 && t.room == AllocFrom::kCached && eviction_.evict_between(t.group)) taken = pool_.take_holes(g, t.root, ids);
  if (taken.count == 0 && (pool_.has_empty_page() || eviction_.make_free_page())) {
    taken = pool_.take_page(g, t.owner, t.root, ids);
    t.holding->fill_page = pool_.page_of(pool_.index_of(g, PartId(ids[0])));
  }
  if (taken.count == 0) taken = pool_.take_holes(g, t.root, ids);
  return taken;
}

uint32_t Blocks::take(const Taking& t, std::span<int32_t> ids, Step* step) {
  if (pool_.plain()) return take_plain(t, ids, step);
  const bool one_block = facts_.groups[t.group].columns > 1;
  uint32_t n = 0;
  while (n < ids.size()) {
    const std::span<int32_t> rest = ids.subspan(n);
    const Taken taken = take_from_a_page(t, rest);
    if (taken.count == 0) break;
    const uint32_t end = n + taken.count;
    if (taken.foreign_bytes && taken.page_is_new) note_zero(t.holding->fill_page, step);
    for (; taken.foreign_bytes && !taken.page_is_new && n < end; ++n) {
      step->zeroes.push_back(quire_zero{t.group, one_block ? n : 0, ids[n], 0});
    }
    n = end;
  }
  return n;
}

PartIndex Blocks::take_block(const Taking& taking, Step* step) {
  const GroupId group(taking.group);
  const std::span<int32_t> ids(scratch_ids_.data(), facts_.groups[taking.group].columns);
  const uint32_t n = take(taking, ids, step);
  if (n == 0) return PartIndex(kNone);
  if (n > 1) pool_.link(group, ids.first(n));
  const PartIndex head = pool_.index_of(group, PartId(ids[0]));
  if (n == ids.size()) return head;
  pool_.unref(head, 0);  // admission counted wrongly: a bug, but nothing is lost
  return PartIndex(kNone);
}

void Blocks::take_next(const EntryPlan& plan, Step* step) {
  const uint32_t q = plan.sequence;
  const Sequence& s = sequences_.at(q);
  const uint64_t root = index_.root_serial(s.root);
  const size_t r = step->rows.size();
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    if (group.state) continue;
    Holding& h = sequences_.holding(q, g);
    RowGroup* const rg = &step->group(r, g);
    *rg = RowGroup{};
    rg->blocks_before = h.num_blocks;
    const auto want = static_cast<uint32_t>(group.block.ceil(group.grows ? plan.end : plan.encoder));
    if (h.num_blocks < want && pool_.plain()) {
      const std::span<int32_t> table = sequences_.table(q, g, 0);  // a plain pool does not ask for the owner
      for (; h.num_blocks < want && pool_.has_empty_page(); ++h.num_blocks) {
        const std::span<int32_t> id = table.subspan(h.num_blocks, 1);
        if (pool_.take_page(GroupId(g), 0, root, id).foreign_bytes) note_zero(PageId(static_cast<uint32_t>(id[0])), step);
      }
    }
    if (h.num_blocks < want) grow(start_taking(q, g, plan.room), q, want, step);
    settle(q, g, group.grows ? plan.position + plan.num_tokens : s.encoder, rg);
  }
}

// Blocks of one part each go into the table as they are taken.
void Blocks::grow(const Taking& taking, uint32_t sequence, uint32_t want, Step* step) {
  Holding& h = *taking.holding;
  if (h.num_blocks >= want) return;
  if (facts_.groups[taking.group].columns == 1) {
    const std::span<int32_t> ids = sequences_.table(sequence, taking.group, 0).subspan(h.num_blocks, want - h.num_blocks);
    h.num_blocks += take(taking, ids, step);
  }
  for (; h.num_blocks < want; ++h.num_blocks) put_block(sequence, taking.group, h.num_blocks, take_block(taking, step));
}

uint32_t Blocks::grow_around(const Taking& taking, uint32_t sequence, Stretch dead, uint32_t want, std::span<const Adopted> adopted,
                             Step* step) {
  Holding& h = *taking.holding;
  const auto before = [&](const Adopted& a) { return a.group < taking.group; };
  auto next = std::find_if_not(adopted.begin(), adopted.end(), before);
  uint32_t here = 0;
  const auto adopt = [&] {
    for (; next != adopted.end() && next->group == taking.group && next->block == h.num_blocks; ++next) {
      put_block(sequence, taking.group, h.num_blocks++, next->head);
      here = h.num_blocks;
    }
  };
  // Slots that an earlier step took ahead, and that nobody writes now.
  const auto filled = static_cast<uint32_t>(facts_.groups[taking.group].block.ceil(sequences_.at(sequence).committed));
  const uint32_t first = std::max(dead.first, filled), last = std::min(dead.end, h.num_blocks);
  if (first < last) drop_blocks(sequence, taking.group, first, last);
  adopt();
  grow(taking, sequence, std::min(dead.first, want), step);
  const uint32_t end = std::min(dead.end, want);
  if (h.num_blocks < end) {
    clear_blocks(sequence, taking.group, h.num_blocks, end);
    h.num_blocks = end;
  }
  adopt();
  return here;
}

void Blocks::replace_tail(uint32_t sequence, uint32_t group, uint64_t position, AllocFrom room, Step* step) {
  auto block = static_cast<uint32_t>(position / facts_.plan(group).block_tokens);
  auto rows = static_cast<uint32_t>(position % facts_.plan(group).block_tokens);
  PartIndex old_head = block_head(sequence, group, block);
  PartIndex head = take_block(start_taking(sequence, group, room), step);
  step->replaced.push_back(Replaced{static_cast<uint32_t>(step->rows.size()), group, block, old_head});
  PartIndex from = old_head, to = head;
  for (uint32_t c = 0; c < facts_.plan(group).ids_per_block; ++c) {
    step->copies.push_back(quire_copy{group, c, pool_.id_of(GroupId(group), from).value, pool_.id_of(GroupId(group), to).value, 0, rows});
    from = pool_.next_in_block(from);
    to = pool_.next_in_block(to);
    ++num_copies_;
  }
  put_block(sequence, group, block, head);
}

void Blocks::share_blocks(uint32_t parent, uint32_t child) {
  uint64_t tokens = sequences_.at(parent).committed;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const Holding& from = sequences_.holding(parent, g);
    Holding& to = sequences_.holding(child, g);
    if (facts_.plan(g).is_state()) {
      to.current = to.newest = from.current;
      if (to.current.value != kNone) pool_.ref(to.current);
      continue;
    }
    const uint64_t kept = facts_.groups[g].grows || tokens == 0 ? tokens : sequences_.at(parent).encoder;
    to.num_blocks = std::min(from.num_blocks, static_cast<uint32_t>(facts_.groups[g].block.ceil(kept)));
    to.first_live = std::min(from.first_live, to.num_blocks);
    to.published_blocks = std::min(from.published_blocks, to.num_blocks);
    for (uint32_t b = 0; b < to.num_blocks; ++b) {
      PartIndex head = committed_head(parent, g, b);
      if (head.value != kNone) pool_.ref(head);
      put_block(child, g, b, head);
    }
  }
}

void Blocks::clear_blocks(uint32_t sequence, uint32_t group, uint32_t first, uint32_t end) {
  for (uint32_t c = 0; c < facts_.plan(group).ids_per_block; ++c) {
    auto column = sequences_.table(sequence, group, c);
    std::fill(column.begin() + first, column.begin() + end, 0);
  }
}

void Blocks::put_block(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head) {
  Holding& h = sequences_.holding(sequence, group);
  h.settled = std::min(h.settled, block);
  sequences_.at(sequence).shown = 0;
  PartIndex part = head;
  for (uint32_t c = 0; c < facts_.plan(group).ids_per_block; ++c) {
    sequences_.table(sequence, group, c)[block] = part.value == kNone ? 0 : pool_.id_of(GroupId(group), part).value;
    if (part.value != kNone) part = pool_.next_in_block(part);
  }
}

// Entries behind num_blocks are never read; they keep what they had. The page that the last remaining block ends in is filled again: a
// page that the sequence leaves half empty is one more than capacity_of() counts.
void Blocks::release_blocks_from(uint32_t sequence, uint32_t group, uint32_t first, bool passed) {
  Holding& h = sequences_.holding(sequence, group);
  if (first >= h.num_blocks) return;
  const std::span<int32_t> ids = sequences_.table(sequence, group, 0).subspan(first, h.num_blocks - first);
  if (passed) {
    pool_.unref_passed(GroupId(group), ids, steps_.newest_id());
  } else {
    pool_.unref_blocks(GroupId(group), ids, steps_.newest_id());
  }
  if (!pool_.plain()) {
    const int32_t last = first > 0 ? sequences_.table(sequence, group, facts_.groups[group].columns - 1)[first - 1] : 0;
    h.fill_page = last == 0 ? PageId(0) : pool_.page_of(pool_.index_of(GroupId(group), PartId(last)));
  }
  h.num_blocks = first;
  sequences_.at(sequence).shown = 0;
  h.first_live = std::min(h.first_live, first);
  h.settled = std::min(h.settled, first);
}

// The sequence is empty again, nothing was accepted.
void Blocks::give_back_encoder(uint32_t sequence) {
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].state && !facts_.groups[g].grows) release_blocks_from(sequence, g, 0);
  }
  sequences_.at(sequence).encoder = 0;
}

// What is released last is evicted first. Evicting a block of a group that needs everything also evicts what follows it. So these are
// released from the first on, and windows after them.
void Blocks::release_cold_from(uint32_t sequence, uint64_t token) {
  for (const bool whole : {true, false}) {
    for (uint32_t g = 0; g < facts_.num_groups; ++g) {
      const GroupFacts& group = facts_.groups[g];
      const auto first = static_cast<uint32_t>(group.block.ceil(token));
      const uint32_t end = sequences_.holding(sequence, g).num_blocks;
      if (!group.grows || group.whole != whole || first >= end) continue;
      const std::span<int32_t> ids = sequences_.table(sequence, g, 0).subspan(first, end - first);
      std::reverse(ids.begin(), ids.end());
      pool_.unref_blocks(GroupId(g), ids, steps_.newest_id(), EvictionClass::kCold);
      std::fill(ids.begin(), ids.end(), 0);
      release_blocks_from(sequence, g, first);
    }
  }
}

// Windows first: a unit that only they have left below it would not go alone when its block of a group that needs everything does.
void Blocks::release_all(uint32_t sequence, uint64_t cold_from) {
  if (cold_from != UINT64_MAX) release_cold_from(sequence, cold_from);
  for (uint32_t g = 0; !facts_.strict_lru && g < facts_.num_groups; ++g) {
    if (facts_.groups[g].falls) release_blocks_from(sequence, g, 0);
  }
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    Holding& h = sequences_.holding(sequence, g);
    if (facts_.plan(g).is_state()) {
      if (h.current.value != kNone) release(h.current);
      for (uint32_t i = 0; i < h.num_spares; ++i) release(sequences_.spares(sequence, g)[i]);
    } else {
      release_blocks_from(sequence, g, 0);
    }
    h = Holding{};
  }
  sequences_.at(sequence).falls_at = sequences_.at(sequence).shown = 0;
}

// Of the blocks that left the live range, those that nobody is expected to need: they go before everything else.
// - Rows that decode: all behind the last row that did not. Others resume at that row's end or earlier, or at the sequence's end.
// - Other rows: what left within the row that computed it. Warm stay the blocks that were live before, and from the window on where others
//   left the way or will resume.
Stretch Blocks::cold_blocks(const Step& step, size_t r, uint32_t g, uint64_t committed) const {
  const Row& row = step.rows[r];
  const Sequence& s = sequences_.at(row.sequence);
  const GroupFacts& group = facts_.groups[g];
  const bool chosen = group.with_states || group.chosen;  // only what is needed is found there
  if (facts_.strict_lru || chosen) return {};
  if (facts_.decodes(row.num_tokens)) {
    const uint64_t prompt = s.before_output();
    const bool keeps_more = facts_.every && facts_.has_states;  // at multiples of the interval
    return prompt == 0 || keeps_more ? Stretch{} : Stretch{static_cast<uint32_t>(group.block.ceil(prompt)), kNone};
  }
  if (row.stays) return {};
  Stretch cold{step.group(r, g).blocks_before, static_cast<uint32_t>(group.block.quotient(group.live.tail_begin(committed)))};
  for (const uint64_t end : {s.branch_point, s.prompt_end}) {
    if (end > row.position && end <= committed)
      cold.end = std::min(cold.end, static_cast<uint32_t>(group.block.quotient(group.live.tail_begin(end))));
  }
  return cold;
}

// Rows of later steps leave these blocks alone, so a lone sequence has them again at once: a row in flight begins at `committed` or behind
// it (less than all of a row is accepted only where no later one is in flight), reads nothing before tail_begin(committed), which does not
// fall from there on, but for the sinks, and writes and copies no block before that of its first token. An abort of later steps shortens
// tables from their ends and puts back copied blocks; neither reaches before tail_begin either. Steps of others that are, or were, in such
// a block are the pool's to know. A load has no steps of its sequence beside it.
void Blocks::prune(uint32_t sequence, const Step& step, size_t row) {
  Sequence& s = sequences_.at(sequence);
  s.falls_at = UINT64_MAX;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    if (!group.falls) continue;
    Holding& h = sequences_.holding(sequence, g);
    auto live = static_cast<uint32_t>(std::min<uint64_t>(group.block.quotient(group.live.kept_begin(s.committed)), h.num_blocks));
    s.falls_at = std::min(s.falls_at, group.live.kept_from((uint64_t{std::max(live, h.first_live)} + 1) * group.block_tokens));
    if (live <= h.first_live) continue;
    auto sink_blocks = static_cast<uint32_t>(group.block.ceil(group.live.sink_end(s.committed)));
    const uint32_t first = std::max(h.first_live, sink_blocks);
    if (first < live) {
      const auto ids = sequences_.table(sequence, g, 0);
      const Stretch cold = cold_blocks(step, row, g, s.committed);
      const uint32_t cold_first = std::clamp(cold.first, first, live);
      const uint32_t cold_end = std::clamp(cold.end, cold_first, live);
      pool_.unref_passed(GroupId(g), ids.subspan(cold_end, live - cold_end), steps_.newest_id());
      pool_.unref_passed(GroupId(g), ids.subspan(cold_first, cold_end - cold_first), steps_.newest_id(), EvictionClass::kCold);
      pool_.unref_passed(GroupId(g), ids.subspan(first, cold_first - first), steps_.newest_id());
      clear_blocks(sequence, g, first, live);
    }
    h.first_live = live;
  }
}

void Blocks::drop_blocks(uint32_t sequence, uint32_t group, uint32_t first, uint32_t end) {
  pool_.unref_blocks(GroupId(group), sequences_.table(sequence, group, 0).subspan(first, end - first), steps_.newest_id());
  clear_blocks(sequence, group, first, end);
}

}  // namespace quire
