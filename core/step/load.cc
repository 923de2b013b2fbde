// Loads: tokens of a sequence that somebody else computed and a connector brings. A load is a step of one row beside the steps in flight:
// it has slots, states and lists like they have, and ends when its bytes are there or known not to come. Until then nothing of it can be
// found.
#include <algorithm>
#include <mutex>
#include <numeric>

#include "core/base/checked.h"
#include "core/step/cache_impl.h"

namespace quire {

namespace {

// Whether these have all of the tokens.
bool have_all(const Stretch& blocks, uint64_t block_tokens, uint64_t first, uint64_t last) {
  return first >= uint64_t{blocks.first} * block_tokens && last <= uint64_t{blocks.end} * block_tokens;
}

// The last place up to `most` where the group needs nothing before it: where a chunk begins, of whole blocks. 0 where there is none.
uint64_t fresh_start(const GroupFacts& group, uint64_t most) {
  const uint64_t chunk = group.live.chunk != 0 ? group.live.chunk : group.live.window == 1 ? 1 : 0;
  const uint64_t grid = std::lcm(chunk, uint64_t{group.block_tokens});
  return grid == 0 ? 0 : most - most % grid;
}

// The tokens before `end` that a failure names.
std::pair<uint64_t, uint64_t> lost_of(const quire_load_failure& failure, const Row& row, uint64_t end) {
  return {std::max(failure.first_token, row.position), std::min(failure.first_token + failure.num_tokens, end)};
}

Status no_load(StepId id) { return fail(QUIRE_NOT_FOUND, "step: %llu is no load in progress", static_cast<unsigned long long>(id.value)); }

}  // namespace

Status Cache::Impl::check_load(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols) const {
  QUIRE_RETURN_IF_ERROR(check_entry(entry, symbols, 0));
  if ((entry.flags & QUIRE_ENTRY_NO_STOP) != 0)
    return invalid("entry.flags: QUIRE_ENTRY_NO_STOP is for steps; a load is never cut for a state");
  if (entry.num_look_ahead != 0) return invalid("entry.num_look_ahead: %u; a load has none", entry.num_look_ahead);
  const uint32_t q = sequences.find(SequenceId(entry.sequence));
  if (q == kNone) {
    const Status status = not_live(SequenceId(entry.sequence));
    return fail(status.code(), "entry.%s", status.message().c_str());
  }
  const Sequence& s = sequences.at(q);
  if (s.loading) return fail(QUIRE_FAILED_PRECONDITION, "entry.sequence: a load of it is in progress; end it first");
  if (s.in_flight > 0) return fail(QUIRE_FAILED_PRECONDITION, "entry.sequence: %u steps of it are in flight", s.in_flight);
  const uint64_t end = s.reserved + entry.num_tokens;
  if (s.publishing && (entry.flags & QUIRE_ENTRY_MATCH) == 0 && s.known + entry.num_symbols < end) {
    return invalid("entry.num_symbols: %u, the load has %llu tokens whose symbols are not known", entry.num_symbols,
                   static_cast<unsigned long long>(end - std::min(s.known, end)));
  }
  return {};
}

LoadLimits Cache::load_limits() const { return {impl_->facts.limits.max_load_tokens, impl_->facts.limits.max_loads}; }

Status Cache::load_begin(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, quire_reserve_result* result,
                         StepId* out) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  QUIRE_RETURN_IF_ERROR(m.check_load(entry, symbols));
  Step* made = m.steps.make_load();
  if (made == nullptr) return fail(QUIRE_RESOURCE_EXHAUSTED, "loads: all %zu are in progress", m.steps.loads().size());
  m.look_at_clock();
  Step& step = *made;
  *out = StepId(0);
  *result = quire_reserve_result{};
  result->sequence = entry.sequence;
  result->row = kNone;
  quire_reserve_entry whole = entry;
  whole.flags |= QUIRE_ENTRY_NO_STOP;
  EntryPlan plan;
  plan.load = true;
  const auto mine = symbols.subspan(entry.symbols_offset, entry.num_symbols);
  result->code = m.admission.admit_with_retry(whole, mine, step, &plan, result);
  if (result->code != QUIRE_OK) {
    ++m.counters.refused_entries;
    return {};
  }
  result->row = 0;
  m.apply(whole, mine, plan, &step);
  m.sequences.at(plan.sequence).loading = true;
  m.report_admitted(whole, plan, result);
  *out = m.steps.begin_load();
  return {};
}

// The last of the first `most` tokens that the group can resume behind; those before the row are there.
uint64_t Cache::Impl::resumable(const Row& row, uint32_t g, uint64_t most, std::span<const quire_load_failure> failures) const {
  const GroupFacts& group = facts.groups[g];
  if (!group.state && !group.grows) {  // the encoder's tokens are needed wherever it resumes
    const bool lost = row.position == 0 && std::any_of(failures.begin(), failures.end(), [&](const quire_load_failure& f) {
                        return f.group == g && f.num_tokens > 0 && f.first_token < row.encoder;
                      });
    return lost ? 0 : most;
  }
  const uint64_t end = row.position + row.num_tokens;
  const Stretch dead = group.dead_blocks(end);
  // Between what is there and what was to come.
  const bool gap = std::max<uint64_t>(dead.first, group.block.quotient(row.position)) < dead.end;
  if ((group.state || gap) && most < end) return row.position;
  uint64_t length = most;
  for (const quire_load_failure& f : failures) {
    const auto [first, last] = lost_of(f, row, length);
    if (f.group != g || first >= last) continue;
    if (have_all(group.passed_blocks(length), group.block_tokens, first, last)) continue;
    const uint64_t fresh = fresh_start(group, last);
    const bool starts = fresh > first && have_all(group.passed_blocks(fresh), group.block_tokens, first, fresh);
    length = group.state || gap ? row.position : starts ? fresh : first;
  }
  return length;
}

// What the end does not need and did not come whole is not to be found: a block that was begun before the load, and of those that stay for
// drafts all up to the last one that lacks tokens.
void Cache::Impl::drop_incomplete(const Row& row, uint64_t end, std::span<const quire_load_failure> failures) {
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupFacts& group = facts.groups[g];
    if (!group.falls) continue;
    Holding& h = sequences.holding(row.sequence, g);
    const auto drop = [&](uint32_t first, uint32_t last) {
      if (first >= last) return;
      blocks.drop_blocks(row.sequence, g, first, last);
    };
    const Stretch dead = group.dead_blocks(row.position + row.num_tokens), passed = group.passed_blocks(end);
    const auto begun = static_cast<uint32_t>(group.block.quotient(row.position));
    if (!group.block.divides(row.position) && begun >= dead.first && begun < dead.end) drop(begun, begun + 1);
    uint32_t whole = 0;  // blocks from here on came
    for (const quire_load_failure& f : failures) {
      const auto [first, last] = lost_of(f, row, end);
      if (f.group == g && first < last) whole = std::max(whole, std::min(static_cast<uint32_t>(group.block.ceil(last)), passed.end));
    }
    drop(std::max(h.first_live, passed.first), whole);
    h.first_live = std::max(h.first_live, whole);
  }
}

uint64_t Cache::Impl::load_ends(const Step& load, std::span<const quire_load_failure> failures) const {
  const Row& row = load.rows[0];
  uint64_t end = row.position + row.num_tokens;
  for (uint64_t before = end + 1; before != end;) {
    before = end;
    for (uint32_t g = 0; g < facts.num_groups; ++g) end = std::min(end, resumable(row, g, end, failures));
  }
  return end;
}

Status Cache::Impl::check_failures(std::span<const quire_load_failure> failures) const {
  for (size_t i = 0; i < failures.size(); ++i) {
    if (failures[i].group >= facts.num_groups)
      return fail(QUIRE_OUT_OF_RANGE, "failures[%zu].group: %u of %u", i, failures[i].group, facts.num_groups);
    if (failures[i].reserved0 != 0) return invalid("failures[%zu].reserved0: must be 0", i);
    const GroupPlan& group = facts.plan(failures[i].group);
    const uint64_t most = std::max(facts.config->max_model_len, group.encoder_tokens);
    if (failures[i].first_token > most || failures[i].num_tokens > most) {
      return fail(QUIRE_OUT_OF_RANGE, "failures[%zu]: tokens [%llu, +%llu), a sequence has at most %llu", i,
                  static_cast<unsigned long long>(failures[i].first_token), static_cast<unsigned long long>(failures[i].num_tokens),
                  static_cast<unsigned long long>(most));
    }
  }
  return {};
}

// Holds the blocks and states of what failed: whoever was to bring them may still write there.
Result<quire_hold_id> Cache::Impl::hold_failed(const Step& load, std::span<const quire_load_failure> failures) {
  if (failures.empty()) return quire_hold_id{0};
  const Row& row = load.rows[0];
  const uint64_t end = row.position + row.num_tokens;
  const auto lost = [&](uint32_t g, uint64_t first, uint64_t last) {
    return std::any_of(failures.begin(), failures.end(), [&](const quire_load_failure& f) {
      return f.group == g && f.num_tokens > 0 && f.first_token < last && f.first_token + f.num_tokens > first;
    });
  };
  uint64_t parts = 0;
  const auto head_of = [&](uint32_t g, uint32_t block) {
    const GroupFacts& group = facts.groups[g];
    PartIndex head(kNone);
    if (group.state) {
      if (lost(g, row.position, end)) head = load.group(0, g).write;
    } else {
      const uint64_t first = std::max(group.grows ? row.position : 0, uint64_t{block} * group.block_tokens);
      const uint64_t last =
          group.grows ? std::min(end, (uint64_t{block} + 1) * group.block_tokens) : (uint64_t{block} + 1) * group.block_tokens;
      const bool here = group.grows && block < load.group(0, g).here;
      if (!here && block < sequences.holding(row.sequence, g).num_blocks && lost(g, first, last))
        head = blocks.block_head(row.sequence, g, block);
    }
    parts += head.value != kNone ? 1 : 0;
    return head;
  };
  const quire_hold_id hold = holds.make(row.position, end, false, head_of, row.position == 0 ? row.encoder : 0);
  if (hold == 0) return fail(QUIRE_RESOURCE_EXHAUSTED, "late: all %u holds are taken or reserved for units", Holds::kMostHolds);
  if (parts > 0) return hold;
  (void)holds.end(hold);
  return quire_hold_id{0};
}

Status Cache::load_have(StepId id, std::span<uint64_t> have, uint64_t* count) {
  std::shared_lock lock(impl_->mutex);
  Impl& m = *impl_;
  const Step* load = m.steps.find_load(id);
  if (load == nullptr) return no_load(id);
  *count = m.facts.num_groups;
  if (have.empty()) return {};
  if (have.size() < m.facts.num_groups)
    return fail(QUIRE_OUT_OF_RANGE, "capacity: %zu, the plan has %u groups", have.size(), m.facts.num_groups);
  const Row& row = load->rows[0];
  const uint64_t end = row.position + row.num_tokens;
  for (uint32_t g = 0; g < m.facts.num_groups; ++g) {
    const GroupFacts& group = m.facts.groups[g];
    have[g] = row.position;
    if (group.grows) have[g] = std::clamp(uint64_t{load->group(0, g).here} * group.block_tokens, row.position, end);
  }
  return {};
}

Status Cache::load_ids(StepId id, uint32_t group, std::vector<int32_t>* ids) {
  std::shared_lock lock(impl_->mutex);
  Impl& m = *impl_;
  const Step* load = m.steps.find_load(id);
  if (load == nullptr) return no_load(id);
  const Row& row = load->rows[0];
  const GroupFacts& g = m.facts.groups[group];
  ids->clear();
  if (g.state) {
    PartIndex part = load->group(0, group).write;
    for (uint32_t c = 0; c < g.columns; ++c, part = m.pool.next_in_block(part)) ids->push_back(m.pool.id_of(GroupId(group), part).value);
    return {};
  }
  const uint64_t first = g.grows ? g.block.quotient(row.position) : 0;
  const uint64_t end = g.block.ceil(g.grows ? row.position + row.num_tokens : row.encoder);
  for (uint32_t c = 0; c < g.columns; ++c) {
    const std::span<const int32_t> table = m.sequences.table(row.sequence, group, c);
    ids->insert(ids->end(), table.begin() + static_cast<std::ptrdiff_t>(first), table.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return {};
}

Status Cache::load_end(StepId id, std::span<const quire_load_failure> failures, uint64_t* committed, quire_hold_id* late) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  Step* load = m.steps.find_load(id);
  if (load == nullptr) return no_load(id);
  Step& step = *load;
  QUIRE_RETURN_IF_ERROR(m.check_failures(failures));
  if (late != nullptr) {
    auto hold = m.hold_failed(step, failures);
    if (!hold.ok()) return hold.take_status();
    *late = *hold;
  }
  const Row& row = step.rows[0];
  Sequence& s = m.sequences.at(row.sequence);
  const uint64_t end = m.load_ends(step, failures);
  quire_commit_entry entry{};
  entry.sequence = row.id.value;
  entry.num_accepted = static_cast<uint32_t>(end - row.position);
  s.loading = false;
  if (entry.num_accepted > 0) m.drop_incomplete(row, end, failures);
  // Perhaps inside a block that was cached, or that is still written to: the sequence writes on in a copy.
  if (entry.num_accepted < row.num_tokens) s.may_share = true;
  m.commit_row(&step, 0, entry, {});
  s.paused = s.committed;
  // A hit before it is spared already, and others share it more often.
  if (s.publishing && s.hit_tokens == 0 && s.published > row.position) m.resume_points.set(row.sequence, ResumePoint::kHit, s.node);
  for (const Replaced& old : step.replaced) m.blocks.release(old.old_head);
  step.clear(0);
  *committed = end;
  return {};
}

}  // namespace quire
