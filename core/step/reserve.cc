// reserve: count first, then take; an entry that is refused changes nothing.
#include <algorithm>
#include <array>
#include <mutex>

#include "core/base/checked.h"
#include "core/step/cache_impl.h"
#include "core/step/hits.h"

namespace quire {

Status Cache::Impl::check_entry(const quire_reserve_entry& e, std::span<const quire_symbol> symbols, size_t i) const {
  if (e.symbols_offset > symbols.size() || e.num_symbols > symbols.size() - e.symbols_offset) {
    return fail(QUIRE_OUT_OF_RANGE, "entries[%zu]: symbols [%llu, +%u) outside the %zu given", i,
                static_cast<unsigned long long>(e.symbols_offset), e.num_symbols, symbols.size());
  }
  if (e.num_symbols > 0) QUIRE_RETURN_IF_ERROR(media.check_symbols(symbols.subspan(e.symbols_offset, e.num_symbols), i));
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

// The sequence takes over the blocks of its hit: references first, before anything is evicted for others.
uint64_t Cache::Impl::adopt_hit(const EntryPlan& plan) {
  Sequence& s = sequences.at(plan.sequence);
  const uint64_t hit = plan.position;
  // One that was preempted comes back to what it computed itself.
  const User user = s.incarnation == 0 ? User::kRequest : User::kOther;
  s.hit_tokens = hit;
  s.committed = s.known = s.published = hit;
  s.branch_point = plan.branch_point;
  index.move_hold(s.node, plan.found.node);
  if (plan.held) index.drop(plan.found.node);
  s.node = plan.found.node;
  std::array<int32_t*, kMaxGroups> columns{};  // of groups that have one
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    Holding& h = sequences.holding(plan.sequence, g);
    const GroupPlan& group = facts.plan(g);
    if (group.is_state() || group.live.fixed) continue;
    if (facts.groups[g].columns == 1) columns[g] = sequences.table(plan.sequence, g, 0).data();
    h.num_blocks = static_cast<uint32_t>(facts.groups[g].block.ceil(hit));
    s.may_share = s.may_share || !facts.groups[g].block.divides(hit);  // its last block goes on behind the hit: copied before it is written
    h.published_blocks = static_cast<uint32_t>(facts.groups[g].block.quotient(hit));
    h.first_live = static_cast<uint32_t>(group.live.tail_begin(hit) / group.block_tokens);
    if (h.first_live > 0) blocks.clear_blocks(plan.sequence, g, 0, h.first_live);
  }
  const bool spares = hit > 0 && resume_points.begin(plan.sequence, ResumePoint::kHit);
  visit_hit(facts, index, plan.found.node, plan.position, [&](uint32_t g, uint64_t end, PartIndex head) {
    if (spares && (facts.groups[g].falls || facts.groups[g].state)) resume_points.add(plan.sequence, ResumePoint::kHit, head);
    if (columns[g] != nullptr) {
      pool.fetch(head);
      columns[g][facts.groups[g].block.ceil(end) - 1] = pool.id_of(GroupId(g), head).value;
      return;
    }
    pool.ref(head, user);
    if (facts.groups[g].state) {
      Holding& h = sequences.holding(plan.sequence, g);
      h.current = h.newest = head;
    } else {
      blocks.put_block(plan.sequence, g, static_cast<uint32_t>(facts.groups[g].block.ceil(end)) - 1, head);
    }
  });
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const Holding& h = sequences.holding(plan.sequence, g);
    if (columns[g] != nullptr) pool.ref_blocks(GroupId(g), {columns[g], h.num_blocks}, user);
  }
  if (spares) resume_points.done(plan.sequence, ResumePoint::kHit);
  return facts.has_states && hit > 0 ? budget.use(plan.found.node, s.incarnation == 0) : 0;
}

// What the row lacks in one group.
void Cache::Impl::take(const EntryPlan& plan, uint32_t g, RowGroup* rg, Step* step) {
  const uint32_t q = plan.sequence;
  *rg = RowGroup{};
  if (facts.groups[g].state) return states.take_states(plan, g, rg, step);
  Holding& h = sequences.holding(q, g);
  const bool grows = facts.groups[g].grows;
  if (grows && blocks.tail_is_shared(q, g, plan.position)) blocks.replace_tail(q, g, plan.position, plan.room, step);
  rg->blocks_before = h.num_blocks;
  const auto want = static_cast<uint32_t>(facts.groups[g].block.ceil(grows ? plan.end : plan.encoder));
  if (grows && (plan.load || !plan.adopted.empty())) {
    const Taking taking = blocks.start_taking(q, g, plan.room);
    const Stretch dead = plan.load ? facts.groups[g].dead_blocks(plan.end) : Stretch{};
    rg->here = blocks.grow_around(taking, q, dead, want, plan.adopted, step);
  }
  if (h.num_blocks < want) blocks.grow(blocks.start_taking(q, g, plan.room), q, want, step);
  if (!plan.load) blocks.settle(q, g, grows ? plan.position + plan.num_tokens : sequences.at(q).encoder, rg);
}

// The first row of a sequence; the tokens that the state of its hit spares.
uint64_t Cache::Impl::begin(const quire_reserve_entry& entry, const EntryPlan& plan) {
  Sequence& s = sequences.at(plan.sequence);
  const uint64_t spared = plan.match ? adopt_hit(plan) : 0;
  counters.recompute_avoided += spared;
  if (s.reserved == 0) s.encoder = plan.encoder;
  if (s.prompt == 0 && plan.match) {
    s.prompt = entry.num_symbols;
    s.shared = plan.found.deepest.value == kNone ? s.prompt : index.tokens(plan.found.deepest);
    if (s.incarnation == 0) prompt_ends.outputs.learn(plan.found, entry.num_symbols);
    s.prompt_end = prompt_ends.kept_at(s.prompt);
  }
  return spared;
}

// Symbols of the prompt beyond this chunk are not kept; they are passed again with the next one.
bool Cache::Impl::keep_symbols(std::span<const quire_symbol> symbols, const EntryPlan& plan) {
  const Sequence& s = sequences.at(plan.sequence);
  auto given = symbols.subspan(plan.match ? std::min<uint64_t>(plan.position, symbols.size()) : 0);
  const uint64_t room = s.reserved > s.known ? s.reserved - s.known : 0;
  given = given.first(std::min<uint64_t>(given.size(), room));
  sequences.append_symbols(plan.sequence, given);
  return !given.empty();
}

// For a row of Admission::plan_next(): a spare of each group of states, and blocks where it leaves those that were shown.
inline void Cache::Impl::take_next(const EntryPlan& plan, Step* step) {
  const size_t r = step->rows.size();
  for (const uint32_t g : facts.state_groups) states.take_spare(plan.sequence, g, plan.end, &step->group(r, g), step);
  if (!plan.stays) [[unlikely]]
    blocks.take_next(plan, step);
}

inline Row& Cache::Impl::add_row(const quire_reserve_entry& entry, const EntryPlan& plan, Step* step) {
  Sequence& s = sequences.at(plan.sequence);
  s.shown = plan.shown;
  sequences.set_reserved(&s, plan.position + plan.num_tokens);
  s.mark = step->id;
  ++s.in_flight;
  step->num_tokens += plan.num_tokens;
  step->num_slots += static_cast<uint32_t>(plan.end - plan.position);
  Row& row = step->rows.emplace_back(SequenceId(entry.sequence), plan.sequence, s.incarnation, plan.position, plan.num_tokens);
  row.encoder = s.encoder;
  row.known_before = s.known;
  row.kept = plan.kept;
  row.stays = plan.stays;
  return row;
}

void Cache::Impl::apply(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const EntryPlan& plan, Step* step) {
  const uint64_t spared = begin(entry, plan);
  for (const Adopted& adopted : plan.adopted) pool.ref(adopted.head);  // before anything is evicted for others
  for (uint32_t g = 0; g < facts.num_groups; ++g) take(plan, g, &step->group(step->rows.size(), g), step);
  Row& row = add_row(entry, plan, step);
  row.spared = static_cast<uint32_t>(spared);
  if (plan.match) {
    row.matched = true;
    row.miss = plan.found.miss;
    row.matched_tokens = entry.num_symbols;
  }
  row.gave_symbols = keep_symbols(symbols, plan);
}

void Cache::Impl::report_admitted(const quire_reserve_entry& entry, const EntryPlan& plan, quire_reserve_result* result) {
  result->position = plan.position;
  result->num_tokens = plan.num_tokens;
  result->flags = plan.chunk_stop ? QUIRE_RESULT_CHUNK_STOP : 0;
  if (!plan.match) return;
  result->hit_tokens = static_cast<uint32_t>(plan.position);
  result->full_hit_tokens = static_cast<uint32_t>(plan.found.full_hit_tokens);
  result->miss = plan.found.miss;
  ++counters.matches;
  counters.matched_prompt_tokens += entry.num_symbols;
  counters.hit_tokens += plan.position;
  ++counters.miss_reasons[plan.found.miss];
}

Status Cache::reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols,
                      std::span<quire_reserve_result> results, StepId* out) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  QUIRE_RETURN_IF_ERROR(m.check_reserve(entries, symbols));
  m.look_at_clock();
  Step& step = m.steps.make();
  EntryPlan next;  // of rows that only go on
  for (size_t i = 0; i < entries.size(); ++i) {
    quire_reserve_result& result = results[i];
    result = quire_reserve_result{};
    result.sequence = entries[i].sequence;
    result.row = kNone;
    if (m.admission.plan_next(entries[i], step, &next)) {
      result.row = static_cast<uint32_t>(step.rows.size());
      result.position = next.position;
      result.num_tokens = next.num_tokens;
      m.take_next(next, &step);
      m.add_row(entries[i], next, &step);
      continue;
    }
    EntryPlan plan;
    auto mine = symbols.subspan(entries[i].symbols_offset, entries[i].num_symbols);
    result.code = m.admission.admit_with_retry(entries[i], mine, step, &plan, &result);
    if (result.code != QUIRE_OK) {
      ++m.counters.refused_entries;
      continue;
    }
    result.row = static_cast<uint32_t>(step.rows.size());
    m.apply(entries[i], mine, plan, &step);
    m.report_admitted(entries[i], plan, &result);
  }
  *out = StepId(0);
  if (step.rows.empty()) return {};
  *out = m.steps.push();
  ++m.counters.steps;
  return {};
}

}  // namespace quire
