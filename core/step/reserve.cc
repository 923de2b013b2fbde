// reserve: count first, then take; an entry that is refused changes nothing.
#include <algorithm>
#include <array>
#include <mutex>

#include "core/base/checked.h"
#include "core/step/hits.h"
#include "core/step/state.h"

namespace quire {

Status Cache::Impl::check_entry(const quire_reserve_entry& e, std::span<const quire_symbol> symbols, size_t i) const {
  if (e.symbols_offset > symbols.size() || e.num_symbols > symbols.size() - e.symbols_offset) {
    return fail(QUIRE_OUT_OF_RANGE, "entries[%zu]: symbols [%llu, +%u) outside the %zu given", i,
                static_cast<unsigned long long>(e.symbols_offset), e.num_symbols, symbols.size());
  }
  QUIRE_RETURN_IF_ERROR(media.check_symbols(symbols.subspan(e.symbols_offset, e.num_symbols), i));
  if (e.encoder_tokens > facts.most_encoder) {
    if (facts.most_encoder == 0)
      return invalid("entries[%zu].encoder_tokens: %llu, the model has no cross attention", i,
                     static_cast<unsigned long long>(e.encoder_tokens));
    return fail(QUIRE_OUT_OF_RANGE, "entries[%zu].encoder_tokens: %llu, at most %llu", i, static_cast<unsigned long long>(e.encoder_tokens),
                static_cast<unsigned long long>(facts.most_encoder));
  }
  if ((e.flags & ~(QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END | QUIRE_ENTRY_NO_STOP | QUIRE_ENTRY_KEEP_STATE)) != 0)
    return invalid("entries[%zu].flags: unknown bits in 0x%x", i, e.flags);
  return {};
}

Status Cache::Impl::check_reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols) const {
  if (entries.size() > facts.limits.max_entries) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "entries: %zu, max_entries_per_step is %u", entries.size(), facts.limits.max_entries);
  }
  if (steps.is_full()) {
    return fail(QUIRE_FAILED_PRECONDITION, "step_depth: %u steps are in flight; commit or abort the oldest first", facts.limits.depth);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(check_entry(entries[i], symbols, i));
  }
  return {};
}

// Where the chunk ends: a state can be kept at its end only on the grid, so a longer chunk stops there.
void Cache::Impl::choose_chunk(const quire_reserve_entry& entry, EntryPlan* intent) const {
  const Sequence& s = sequences.at(intent->sequence);
  if (!facts.has_states || !s.publishing || facts.limits.at_blocks || (entry.flags & QUIRE_ENTRY_NO_STOP) != 0) return;
  if (facts.writes_each_token(intent->num_tokens)) return;
  const uint64_t end = intent->position + intent->num_tokens;
  uint64_t stop = (facts.limits.keep & (QUIRE_KEEP_EVERY | QUIRE_KEEP_CHUNK_END)) != 0 ? end / facts.spacing * facts.spacing : 0;
  // Where the state at the end is asked for, the last boundary that can be hit is the next best.
  const uint32_t asked = ((entry.flags & QUIRE_ENTRY_PROMPT_END) != 0 ? QUIRE_KEEP_PROMPT_END : 0U) |
                         ((entry.flags & QUIRE_ENTRY_KEEP_STATE) != 0 ? QUIRE_KEEP_ASKED : 0U);
  const uint64_t last = end / facts.config->hit_alignment_tokens * facts.config->hit_alignment_tokens;
  if ((asked & facts.limits.keep) != 0 && last > intent->position) stop = std::max(stop, last);
  // Where attention alone would have resumed somebody was before, and somebody will be again: this time the state is kept, too.
  if (intent->junction > 0 && (facts.limits.keep & QUIRE_KEEP_JUNCTION) != 0) stop = std::min(intent->junction, end);
  if (stop > intent->position && stop < end) {
    intent->num_tokens = static_cast<uint32_t>(stop - intent->position);
    intent->chunk_stop = true;
    intent->last_boundary = stop == last;
  }
}

quire_code Cache::Impl::intend(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step,
                               EntryPlan* intent) {
  uint32_t index_of = sequences.find(SequenceId(entry.sequence));
  if (index_of == kNone) return QUIRE_NOT_FOUND;
  const Sequence& s = sequences.at(index_of);
  if (s.mark == step.id) return QUIRE_ALREADY_EXISTS;
  if (s.loading) return QUIRE_FAILED_PRECONDITION;
  if (entry.num_tokens == 0 || (entry.encoder_tokens != 0 && s.reserved != 0)) return QUIRE_INVALID_ARGUMENT;
  intent->sequence = index_of;
  intent->encoder = static_cast<uint32_t>(entry.encoder_tokens);
  intent->position = s.reserved;
  uint64_t most = entry.num_tokens;
  if ((entry.flags & QUIRE_ENTRY_MATCH) != 0) {
    if (s.reserved != 0 || s.known != 0 || entry.num_symbols == 0) return QUIRE_INVALID_ARGUMENT;
    intent->match = true;
    intent->found.node = index.root_node(s.root);
    if (!facts.reuse || (s.flags & QUIRE_SEQUENCE_NO_MATCH) != 0) {
      intent->found.miss = QUIRE_MISS_DISABLED;
    } else {
      find_hit(symbols, intent);
    }
    intent->position = intent->found.hit_tokens;
    most = std::min<uint64_t>(most, entry.num_symbols - intent->position);
  }
  // Look-ahead slots count as tokens of the step: so everything a step can take is bounded.
  uint64_t room = facts.limits.max_tokens - step.num_slots;
  if (entry.num_look_ahead >= room) return QUIRE_OUT_OF_RANGE;
  most = std::min(most, room - entry.num_look_ahead);
  if (most == 0 || intent->position >= facts.config->max_model_len) return QUIRE_OUT_OF_RANGE;
  if (most > facts.config->max_model_len - intent->position) return QUIRE_OUT_OF_RANGE;
  intent->num_tokens = static_cast<uint32_t>(most);
  choose_chunk(entry, intent);
  uint64_t ahead = intent->chunk_stop ? 0 : entry.num_look_ahead;
  intent->end = std::min<uint64_t>(intent->position + intent->num_tokens + ahead, facts.config->max_model_len);
  return QUIRE_OK;
}

// Blocks the group lacks to have slots up to `end`.
uint64_t Cache::Impl::blocks_wanted(const EntryPlan& intent, uint32_t group, uint64_t end, bool whole_sequence) const {
  const GroupFacts& g = facts.groups[group];
  const Holding& h = sequences.holding(intent.sequence, group);
  // A row that keeps boundaries on its way to drafts takes more than stay resident.
  if (g.state) return std::max(states.states_wanted(intent, group), whole_sequence ? facts.states_of_whole(end) : 0);
  if (!g.grows) return g.block.ceil(intent.encoder);
  uint64_t have = intent.match ? g.block.quotient(intent.position) : h.num_blocks;
  uint64_t want = g.block.ceil(end);
  if (intent.load && !whole_sequence) {
    const Stretch dead = g.dead_blocks(end);
    want -=
        std::min<uint64_t>(dead.end, want) - std::min<uint64_t>(std::max<uint64_t>(dead.first, have), std::min<uint64_t>(dead.end, want));
  }
  if (whole_sequence && g.falls) {
    // Only the live tail and what is in flight are ever resident together.
    const uint64_t span = g.live.longest_tail() + g.live.sink + facts.limits.max_tokens;
    want = std::min(want, have + g.block.ceil(span) + 1);
  }
  return (want > have ? want - have : 0) + (!intent.match && blocks.tail_is_shared(intent.sequence, group, intent.position) ? 1 : 0);
}

Demand Cache::Impl::count(const EntryPlan& intent, uint64_t end, bool whole_sequence) {
  Demand d;
  uint64_t most = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    uint64_t parts = blocks_wanted(intent, g, end, whole_sequence) * facts.plan(g).ids_per_block;
    uint32_t claimed = pool.claimed_holes(sequences.holding(intent.sequence, g).claim, GroupId(g), blocks.owner(intent.sequence));
    uint64_t rest = parts > claimed ? parts - claimed : 0;
    uint64_t pages = ceil_div(rest, facts.plan(g).parts_per_page);
    uint64_t other = pool.open_holes(GroupId(g)) - claimed;
    uint64_t all = other + pool.open_cached(GroupId(g)) + static_cast<uint64_t>(intent.match ? idle_by_hit[g] : 0);
    d.pages += pages;
    d.pages_using_holes += ceil_div(rest > other ? rest - other : 0, facts.plan(g).parts_per_page);
    d.pages_using_all += ceil_div(rest > all ? rest - all : 0, facts.plan(g).parts_per_page);
    if (pages > most) {
      most = pages;
      d.worst_group = g;
    }
  }
  return d;
}

uint64_t Cache::Impl::parts_of_hit(const EntryPlan& intent) const {
  uint64_t parts = 0;
  for (const GroupFacts& g : facts.groups) parts += g.grows ? g.block.ceil(intent.position) * g.columns : g.columns;
  return parts;
}

// Pages that stop being evictable once the hit's blocks are referenced; notes what else they hold.
uint64_t Cache::Impl::evictable_hits(const EntryPlan& intent) {
  ++mark;
  uint64_t pages = 0;
  std::fill(idle_by_hit.begin(), idle_by_hit.end(), 0);
  std::fill(opened_by_hit.begin(), opened_by_hit.end(), 0);
  visit_hit(facts, index, intent.found.node, intent.position, [&](uint32_t g, uint64_t, PartIndex head) {
    if (pool.held(head)) return;
    for (PartIndex p = head; p.value != kNone; p = pool.next_in_block(p)) {
      PageId page = pool.page_of(p);
      --idle_by_hit[g];
      if (!pool.evictable(page) || page_marks[page.value] == mark) continue;
      page_marks[page.value] = mark;
      idle_by_hit[g] += pool.idle_parts(page);
      ++opened_by_hit[g];
      ++pages;
    }
  });
  return pages;
}

// Most rows of a decode step: every slot and state that they write is theirs already.
bool Cache::Impl::wants_nothing(const EntryPlan& intent) const {
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (blocks_wanted(intent, g, intent.end, false) > 0) return false;
  }
  return true;
}

quire_code Cache::Impl::admit_unpinned(const quire_reserve_entry& entry, EntryPlan* intent, quire_reserve_result* result) {
  const quire_code code = admit_keeping(entry, intent, result);
  if (code == QUIRE_OK || !facts.limits.in_place || !facts.has_states || intent->match) return code;
  intent->give_up = true;
  return admit_keeping(entry, intent, result);
}

quire_code Cache::Impl::admit_keeping(const quire_reserve_entry& entry, EntryPlan* intent, quire_reserve_result* result) {
  bool whole = entry.full_tokens > intent->end;
  if (!intent->match && !whole && wants_nothing(*intent)) return QUIRE_OK;
  const Sequence& s = sequences.at(intent->sequence);
  // What is kept free for running sequences; where nothing is in use there are none, and a lone request that fits always completes.
  const uint64_t spared = s.reserved == 0 && pool.used_pages() > 0 ? facts.limits.watermark_pages : 0;
  const uint64_t want_end = whole ? std::min<uint64_t>(entry.full_tokens, facts.config->max_model_len) : intent->end;
  Demand d = count(*intent, want_end, whole);
  uint64_t available = pool.available_pages();
  const uint64_t rest = is_alone(intent->sequence) ? all_alone : 0;
  // Where there is plenty, what the hit takes out of the evictable pages need not be known exactly.
  if (d.pages + spared + rest + (intent->match ? parts_of_hit(*intent) : 0) <= available) return QUIRE_OK;
  const uint64_t taken = intent->match ? evictable_hits(*intent) : 0;
  if (intent->match) d = count(*intent, want_end, whole);
  available = available > taken + spared ? available - taken - spared : 0;
  intent->room = d.pages <= available ? AllocFrom::kPages : d.pages_using_holes <= available ? AllocFrom::kHoles : AllocFrom::kCached;
  if (intent->room != AllocFrom::kCached || d.pages_using_all <= available) {
    if (rest > 0) intent->room = room_alone(*intent, intent->room);
    return QUIRE_OK;
  }
  result->group = d.worst_group;
  result->missing_pages = d.pages_using_all - available;
  return QUIRE_RESOURCE_EXHAUSTED;
}

quire_code Cache::Impl::admit(const quire_reserve_entry& entry, EntryPlan* intent, quire_reserve_result* result) {
  quire_code code = admit_unpinned(entry, intent, result);
  if (code == QUIRE_OK || !pins.any()) return code;
  while (code != QUIRE_OK && pins.loosen_softest()) {
    intent->give_up = false;
    code = admit_unpinned(entry, intent, result);
  }
  intent->held = code == QUIRE_OK && intent->match;
  if (intent->held) index.hold(intent->found.node);
  pins.settle_loose(code == QUIRE_OK);
  return code;
}

// The sequence takes over the blocks of its hit: references first, before anything is evicted for others.
uint64_t Cache::Impl::adopt_hit(const EntryPlan& intent) {
  Sequence& s = sequences.at(intent.sequence);
  uint64_t hit = intent.position;
  s.hit_tokens = hit;
  s.committed = s.known = s.published = hit;
  s.junction = intent.junction;
  index.move_hold(s.node, intent.found.node);
  if (intent.held) index.drop(intent.found.node);
  s.node = intent.found.node;
  std::array<int32_t*, kMaxGroups> columns{};  // of groups that have one
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    Holding& h = sequences.holding(intent.sequence, g);
    const GroupPlan& group = facts.plan(g);
    if (group.is_state() || group.live.fixed) continue;
    if (facts.groups[g].columns == 1) columns[g] = sequences.table(intent.sequence, g, 0).data();
    h.num_blocks = static_cast<uint32_t>(facts.groups[g].block.ceil(hit));
    s.may_share = s.may_share || !facts.groups[g].block.divides(hit);  // its last block goes on behind the hit: copied before it is written
    h.told = static_cast<uint32_t>(facts.groups[g].block.quotient(hit));
    h.first_live = static_cast<uint32_t>(group.live.tail_begin(hit) / group.block_tokens);
    if (h.first_live > 0) blocks.clear_blocks(intent.sequence, g, 0, h.first_live);
  }
  visit_hit(facts, index, intent.found.node, intent.position, [&](uint32_t g, uint64_t end, PartIndex head) {
    pool.ref(head);
    if (columns[g] != nullptr) {
      columns[g][facts.groups[g].block.ceil(end) - 1] = pool.id_of(GroupId(g), head).value;
    } else if (facts.groups[g].state) {
      Holding& h = sequences.holding(intent.sequence, g);
      h.current = h.newest = head;
    } else {
      blocks.put_block(intent.sequence, g, static_cast<uint32_t>(facts.groups[g].block.ceil(end)) - 1, head);
    }
  });
  return facts.has_states && hit > 0 ? budget.use(intent.found.node) : 0;
}

void Cache::Impl::apply(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const EntryPlan& intent, Step* step) {
  uint32_t q = intent.sequence;
  Sequence& s = sequences.at(q);
  const uint64_t spared = intent.match ? adopt_hit(intent) : 0;
  counters.recompute_avoided += spared;
  if (s.reserved == 0) s.encoder = intent.encoder;
  if (s.prompt == 0 && intent.match) s.prompt = entry.num_symbols;
  size_t r = step->rows.size();
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    Holding& h = sequences.holding(q, g);
    RowGroup& rg = step->group(r, g);
    rg = RowGroup{};
    if (facts.groups[g].state) {
      states.take_states(intent, g, &rg, step);
      continue;
    }
    if (!facts.groups[g].grows) {
      rg.blocks_before = h.num_blocks;
      blocks.grow(blocks.start_taking(q, g, intent.room), q, static_cast<uint32_t>(facts.groups[g].block.ceil(intent.encoder)), step);
      if (!intent.load) blocks.settle(q, g, s.encoder, &rg);
      continue;
    }
    if (blocks.tail_is_shared(q, g, intent.position)) blocks.replace_tail(q, g, intent.position, intent.room, step);
    rg.blocks_before = h.num_blocks;
    auto want = static_cast<uint32_t>(facts.groups[g].block.ceil(intent.end));
    if (intent.load) blocks.grow_around(blocks.start_taking(q, g, intent.room), q, facts.groups[g].dead_blocks(intent.end), want, step);
    if (h.num_blocks < want) blocks.grow(blocks.start_taking(q, g, intent.room), q, want, step);
    if (!intent.load) blocks.settle(q, g, intent.position + intent.num_tokens, &rg);
  }
  s.shown = 0;
  sequences.set_reserved(&s, intent.position + intent.num_tokens);
  Row& row = add_row(entry, q, intent.position, intent.num_tokens, static_cast<uint32_t>(intent.end - intent.position), step);
  row.matched = intent.match;
  row.miss = intent.found.miss;
  row.seen_before = intent.match && intent.found.full_hit_tokens > intent.position ? intent.found.full_hit_tokens : 0;
  row.matched_tokens = intent.match ? entry.num_symbols : 0;
  row.spared = static_cast<uint32_t>(spared);
  row.prompt_end = row.prompt_end && (!intent.chunk_stop || intent.last_boundary);
  row.junction = intent.junction > 0 && intent.position + intent.num_tokens == intent.junction;
  row.keep = row.keep && (!intent.chunk_stop || intent.last_boundary);
  // Symbols of the prompt beyond this chunk are not kept; they are passed again with the next one.
  // Those of a load come when it ends.
  auto given = symbols.subspan(intent.load ? symbols.size() : intent.match ? std::min<uint64_t>(intent.position, symbols.size()) : 0);
  uint64_t room = s.reserved > s.known ? s.reserved - s.known : 0;
  given = given.first(std::min<uint64_t>(given.size(), room));
  row.gave_symbols = !given.empty();
  sequences.append_symbols(q, given);
}

Row& Cache::Impl::add_row(const quire_reserve_entry& entry, uint32_t q, uint64_t position, uint32_t num_tokens, uint32_t num_slots,
                          Step* step) {
  Sequence& s = sequences.at(q);
  Row& row = step->rows.emplace_back();
  row.id = SequenceId(entry.sequence);
  row.sequence = q;
  row.incarnation = s.incarnation;
  row.position = position;
  row.num_tokens = num_tokens;
  row.encoder = s.encoder;
  row.known_before = s.known;
  row.prompt_end = (entry.flags & QUIRE_ENTRY_PROMPT_END) != 0;
  row.keep = (entry.flags & QUIRE_ENTRY_KEEP_STATE) != 0;
  s.mark = step->id;
  ++s.in_flight;
  step->num_tokens += num_tokens;
  step->num_slots += num_slots;
  return row;
}

// Parts that tables lack to reach `end`; how far the blocks go that a row to there shows.
uint64_t Cache::Impl::count_next(uint32_t q, uint64_t end, uint64_t* parts) const {
  uint64_t shown = UINT64_MAX;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupFacts& f = facts.groups[g];
    if (!f.grows) continue;
    const uint64_t wanted = f.block.ceil(end), have = sequences.holding(q, g).num_blocks;
    *parts += wanted > have ? (wanted - have) * f.columns : 0;
    shown = std::min(shown, wanted * f.block_tokens);
  }
  return shown;
}

// Most rows of most steps: a sequence goes on by tokens whose slots are its own or can be had at once, and nothing else is asked for. With
// states by one token, whose state goes into a spare. False: not so simple, and nothing was done.
bool Cache::Impl::go_on(const quire_reserve_entry& entry, Step* step, quire_reserve_result* result) {
  if (facts.has_states && !(facts.swaps_states && entry.num_tokens == 1)) return false;
  if ((entry.flags & QUIRE_ENTRY_MATCH) != 0 || (entry.num_symbols | entry.num_look_ahead | entry.encoder_tokens) != 0) return false;
  const uint32_t q = sequences.find(SequenceId(entry.sequence));
  if (q == kNone) return false;
  Sequence& s = sequences.at(q);
  const uint64_t end = s.reserved + entry.num_tokens;
  if (s.mark == step->id || s.loading || s.may_share || entry.num_tokens == 0 ||
      entry.num_tokens > facts.limits.max_tokens - step->num_slots || end > facts.config->max_model_len || entry.full_tokens > end) {
    return false;
  }
  const size_t r = step->rows.size();
  for (const uint32_t g : facts.state_groups) {
    if (sequences.holding(q, g).num_spares == 0) return false;
  }
  const bool stays = end <= s.shown;
  uint64_t parts = 0;
  const uint64_t shown = stays ? s.shown : count_next(q, end, &parts);
  // A page for each part is enough; a sequence that begins leaves some to others, one that is alone all it may need to itself.
  if (parts > 0 && (s.reserved == 0 || parts + (sequences.num_begun() == 1 ? all_alone : 0) > pool.available_pages())) return false;
  for (const uint32_t g : facts.state_groups) states.take_spare(q, g, end, &step->group(r, g), step);
  for (uint32_t g = 0; !stays && g < facts.num_groups; ++g) {
    if (facts.groups[g].state) continue;
    RowGroup& rg = step->group(r, g);
    rg = RowGroup{};
    rg.blocks_before = sequences.holding(q, g).num_blocks;
    if (parts > 0 && facts.groups[g].grows)
      blocks.grow(blocks.start_taking(q, g, AllocFrom::kPages), q, static_cast<uint32_t>(facts.groups[g].block.ceil(end)), step);
    blocks.settle(q, g, facts.groups[g].grows ? end : s.encoder, &rg);
  }
  s.shown = shown;
  result->position = s.reserved;
  result->num_tokens = entry.num_tokens;
  result->row = static_cast<uint32_t>(r);
  add_row(entry, q, s.reserved, entry.num_tokens, entry.num_tokens, step).stays = stays;
  sequences.set_reserved(&s, end);
  return true;
}

void Cache::Impl::tell_admitted(const quire_reserve_entry& entry, const EntryPlan& intent, quire_reserve_result* result) {
  result->position = intent.position;
  result->num_tokens = intent.num_tokens;
  result->flags = intent.chunk_stop ? QUIRE_RESULT_CHUNK_STOP : 0;
  if (!intent.match) return;
  result->hit_tokens = static_cast<uint32_t>(intent.position);
  result->full_hit_tokens = static_cast<uint32_t>(intent.found.full_hit_tokens);
  result->miss = intent.found.miss;
  ++counters.matches;
  counters.matched_prompt_tokens += entry.num_symbols;
  counters.hit_tokens += intent.position;
  ++counters.miss_reasons[intent.found.miss];
}

Status Cache::reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols,
                      std::span<quire_reserve_result> results, StepId* out) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  QUIRE_RETURN_IF_ERROR(m.check_reserve(entries, symbols));
  m.pins.end_overdue();
  Step& step = m.steps.make();
  for (size_t i = 0; i < entries.size(); ++i) {
    quire_reserve_result& result = results[i];
    result = quire_reserve_result{};
    result.sequence = entries[i].sequence;
    result.row = kNone;
    if (m.go_on(entries[i], &step, &result)) continue;
    EntryPlan intent;
    auto mine = symbols.subspan(entries[i].symbols_offset, entries[i].num_symbols);
    result.code = m.decide(entries[i], mine, step, &intent, &result);
    if (result.code != QUIRE_OK) {
      ++m.counters.refused_entries;
      continue;
    }
    result.row = static_cast<uint32_t>(step.rows.size());
    m.apply(entries[i], mine, intent, &step);
    m.tell_admitted(entries[i], intent, &result);
  }
  *out = StepId(0);
  if (step.rows.empty()) return {};
  *out = m.steps.push();
  ++m.counters.steps;
  return {};
}

}  // namespace quire
