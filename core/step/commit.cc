// commit and abort: what a step reserved becomes part of its sequences, or is undone.
#include <algorithm>
#include <mutex>

#include "core/base/checked.h"
#include "core/step/cache_impl.h"

namespace quire {

Status Cache::Impl::check_commit(const Step& step, std::span<const quire_commit_entry> entries,
                                 std::span<const quire_symbol> symbols) const {
  if (entries.size() != step.rows.size()) return invalid("entries: %zu given, the step has %zu rows", entries.size(), step.rows.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const quire_commit_entry& e = entries[i];
    const Row& row = step.rows[i];
    if (e.sequence != row.id.value) return invalid("entries[%zu].sequence: not the sequence of row %zu", i, i);
    if (e.num_accepted > row.num_tokens)
      return fail(QUIRE_OUT_OF_RANGE, "entries[%zu].num_accepted: %u of %u reserved", i, e.num_accepted, row.num_tokens);
    if (e.symbols_offset > symbols.size() || e.num_symbols > symbols.size() - e.symbols_offset) {
      return fail(QUIRE_OUT_OF_RANGE, "entries[%zu]: symbols [%llu, +%u) outside the %zu given", i,
                  static_cast<unsigned long long>(e.symbols_offset), e.num_symbols, symbols.size());
    }
    QUIRE_RETURN_IF_ERROR(media.check_symbols(symbols.subspan(e.symbols_offset, e.num_symbols), i));
    if (Steps::dropped(sequences, row)) continue;
    const Sequence& s = sequences.at(row.sequence);
    if (e.num_accepted < row.num_tokens) {
      if (s.in_flight > 1)
        return invalid("entries[%zu].num_accepted: %u of %u while a later step of the sequence is in flight", i, e.num_accepted,
                       row.num_tokens);
      if (facts.has_states && e.num_accepted != 0 && !facts.writes_each_token(row.num_tokens))
        return invalid("entries[%zu].num_accepted: %u of %u; recurrent layers take all or none of a row with more than %u tokens", i,
                       e.num_accepted, row.num_tokens, facts.limits.branches + 1);
    }
    uint64_t committed = row.position + e.num_accepted;
    uint64_t reserved = e.num_accepted < row.num_tokens ? committed : s.reserved;
    const uint64_t before = e.num_accepted < row.num_tokens ? std::min(s.known, committed) : s.known;
    if (e.num_symbols != 0 && e.symbols_position != before) {
      return invalid("entries[%zu].symbols_position: %llu, the first symbol that is not known is at %llu", i,
                     static_cast<unsigned long long>(e.symbols_position), static_cast<unsigned long long>(before));
    }
    const uint64_t known = before + e.num_symbols;
    if (known > reserved + facts.config->match_unit_tokens) {
      return fail(QUIRE_OUT_OF_RANGE, "entries[%zu].num_symbols: %u, symbols may run at most %u tokens ahead of what is reserved", i,
                  e.num_symbols, facts.config->match_unit_tokens);
    }
    if (s.publishing && known < committed) {
      return invalid("entries[%zu].num_symbols: %u, %llu symbols of committed tokens are still unknown", i, e.num_symbols,
                     static_cast<unsigned long long>(committed - known));
    }
  }
  return {};
}

void Cache::Impl::commit_row(Step* step, size_t r, const quire_commit_entry& entry, std::span<const quire_symbol> symbols) {
  const Row& row = step->rows[r];
  uint32_t q = row.sequence;
  Sequence& s = sequences.at(q);
  const uint64_t published_before = s.published;
  --s.in_flight;
  s.committed = row.position + entry.num_accepted;
  if (!facts.decodes(row.num_tokens) || row.kept.asked > 0 || row.kept.prompt_end > 0) s.paused = s.committed;
  if (entry.num_accepted < row.num_tokens) [[unlikely]] {
    sequences.set_reserved(&s, s.committed);
    sequences.cut_symbols(q, std::max(s.committed, s.publishing ? s.published : 0));
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      if (facts.plan(g).is_state() || facts.plan(g).live.fixed) continue;
      s.may_share = s.may_share || (!row.stays && step->group(r, g).here > 0);  // perhaps it ends inside a block of others
      blocks.release_blocks_from(q, g, static_cast<uint32_t>(ceil_div(s.committed, facts.plan(g).block_tokens)), true);
    }
  }
  const auto given = symbols.subspan(entry.symbols_offset, entry.num_symbols);
  if (given.size() != 1 || !sequences.append_symbol(q, given[0])) sequences.append_symbols(q, given);
  // A row that was taken back stands where it stood; any other one has something to keep where it passed a boundary.
  bool passed = false, swaps = false, sound = true;
  if (facts.has_states) {
    passed = entry.num_accepted == 0 || facts.joint.quotient(s.committed) != facts.joint.quotient(row.position);
    swaps = facts.swaps_states && !passed && row.num_tokens == 1;
    sound = swaps || states.commit_states(step, r, entry.num_accepted);
  }
  // Units that nobody took keep their paths in the index, whatever became of the blocks.
  while (!publishing.publish_units(q)) {
    if (!units.give_up_waiting()) publishing.silence(q);
  }
  if (facts.has_states) {
    if (sound && passed) checkpointing.publish_states(step, r);
    swaps ? states.swap_states(step, r) : states.retire_states(step, r, entry.num_accepted > 0);
  }
  if (events.has_announced()) [[unlikely]]
    events.report(s.root);
  // Before blocks leave the live range: who stores them has to hold them, and those needed to resume are spared from then on.
  if (units.enabled()) [[unlikely]]
    units.note_commit(row, published_before);
  if (s.publishing && s.published > 0) {
    if (published_before < s.branch_point && s.branch_point <= s.published) [[unlikely]]
      pass_branch_point(row);
    const bool ends = row.position < s.prompt && s.committed >= s.prompt;
    if (ends || row.kept.prompt_end > 0) [[unlikely]]
      end_prompt(row, ends);
  }
  if (facts.has_falling && s.committed >= s.falls_at) blocks.prune(q, *step, r);
  if (!sound) [[unlikely]]
    reset_sequence(q);
  if (s.reserved > 0) [[likely]]
    return;
  states.give_back_spares(q);
  if (s.encoder > 0) blocks.give_back_encoder(q);
}

// The next request that diverges here from this prompt resumes here.
void Cache::Impl::pass_branch_point(const Row& row) {
  if (!resume_points.has(ResumePoint::kBranchPoint)) return;
  const Sequence& s = sequences.at(row.sequence);
  NodeId node = s.node;
  while (index.tokens(node) > s.branch_point) node = index.parent(node);
  resume_points.set(row.sequence, ResumePoint::kBranchPoint, node);
}

// The next request of the conversation resumes at the end of this one's prompt, and is served by what is kept there.
void Cache::Impl::end_prompt(const Row& row, bool ends) {
  Sequence& s = sequences.at(row.sequence);
  NodeId node = s.node;
  while (facts.has_states && row.kept.prompt_end > 0 && index.tokens(node) > row.kept.prompt_end) node = index.parent(node);
  resume_points.set(row.sequence, ResumePoint::kPromptEnd, node);
  if (!ends || s.learned || !facts.learns_ends) return;
  s.learned = true;
  const uint64_t seen = std::max(s.branch_point, s.hit_tokens);
  if (facts.has_states) budget.share().learn(s.node, s.hit_tokens, seen, eviction.num_pages());
  prompt_ends.learn(s.node, s.prompt, seen, s.branch_point);
}

// The row's sequence is gone or was emptied: only what the row itself owns is left.
void Cache::Impl::drop_row(Step* step, size_t r) {
  if (facts.has_states) states.drop_states(step, r);
}

Status Cache::commit(StepId id, std::span<const quire_commit_entry> entries, std::span<const quire_symbol> symbols) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t i = m.steps.find(id);
  if (i == kNone) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  if (i != 0)
    return fail(QUIRE_FAILED_PRECONDITION, "step: %llu, the oldest in flight is %llu", static_cast<unsigned long long>(id.value),
                static_cast<unsigned long long>(m.steps.at(0).id));
  Step& step = m.steps.at(0);
  QUIRE_RETURN_IF_ERROR(m.check_commit(step, entries, symbols));
  // The step is done: what it read or wrote is no longer in use by it.
  m.steps.pop_oldest();
  m.pool.pass_fences(id.value);
  for (size_t r = 0; r < step.rows.size(); ++r) {
    if (Steps::dropped(m.sequences, step.rows[r])) {
      m.drop_row(&step, r);
    } else {
      m.commit_row(&step, r, entries[r], symbols);
    }
  }
  for (const Replaced& old : step.replaced) m.blocks.release(old.old_head);
  return {};
}

// Reverses reserve for one row; later rows of the sequence are undone already.
void Cache::Impl::undo_row(Step* step, size_t r, bool not_launched) {
  const Row& row = step->rows[r];
  uint32_t q = row.sequence;
  Sequence& s = sequences.at(q);
  --s.in_flight;
  s.shown = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].state) {
      if (row.stays) continue;
      const RowGroup& rg = step->group(r, g);
      blocks.release_blocks_from(q, g, rg.blocks_before, true);
      Holding& h = sequences.holding(q, g);
      h.settled = std::min(h.settled, rg.settled);  // nobody may have looked at what the row showed
    } else if (states.undo_states(step, r, g) && !not_launched) {
      s.lost = true;
    }
  }
  if (row.matched) {
    --counters.matches;
    counters.matched_prompt_tokens -= row.matched_tokens;
    counters.hit_tokens -= row.position;
    counters.recompute_avoided -= row.spared;
    --counters.miss_reasons[row.miss];
    counters.aborted_prompt_tokens += row.matched_tokens;
    counters.aborted_hit_tokens += row.position;
    counters.aborted_recompute_avoided += row.spared;
    ++counters.aborted_miss_reasons[row.miss];
    reset_sequence(q);
    return;
  }
  sequences.set_reserved(&s, row.position);
  // Symbols that came with this reserve are given again, unless they are committed by now; those that a commit gave are kept.
  uint64_t keep = row.gave_symbols ? std::max(row.known_before, s.committed) : row.position + facts.config->match_unit_tokens;
  sequences.cut_symbols(q, std::min(s.known, keep));
  if (s.reserved == 0) states.give_back_spares(q);
  if (s.reserved == 0) s.encoder = 0;
}

// Sequences whose state an abort cannot vouch for start again, from what was kept.
void Cache::Impl::empty_lost(uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; ++i) {
    for (const Row& row : steps.at(i).rows) {
      if (Steps::dropped(sequences, row) || !sequences.at(row.sequence).lost) continue;
      reset_sequence(row.sequence);
    }
  }
}

Status Cache::abort(StepId id, bool not_launched) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t first = m.steps.find(id);
  if (first == kNone) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  uint32_t end = m.steps.num_in_flight();
  m.steps.cut(first);  // from here on, released blocks are fenced by the steps that stay in flight
  for (uint32_t i = end; i > first; --i) {
    Step& step = m.steps.at(i - 1);
    // Whether the engine got to execute them is not known.
    for (const quire_zero& zero : step.zeroes) {
      if (zero.group == kNone) m.pool.mark_dirty(PageId(static_cast<uint32_t>(zero.id)));
    }
    for (const Replaced& old : step.replaced) {
      const Row& row = step.rows[old.row];
      if (Steps::dropped(m.sequences, row)) {
        m.blocks.release(old.old_head);
        continue;
      }
      PartIndex copy = m.blocks.block_head(row.sequence, old.group, old.block);
      m.blocks.put_block(row.sequence, old.group, old.block, old.old_head);
      m.blocks.release(copy);
    }
    for (size_t r = step.rows.size(); r > 0; --r) {
      if (Steps::dropped(m.sequences, step.rows[r - 1])) {
        m.drop_row(&step, r - 1);
      } else {
        m.undo_row(&step, r - 1, not_launched);
      }
    }
    ++m.counters.aborted_steps;
  }
  if (m.facts.limits.in_place) m.empty_lost(first, end);
  if (m.steps.num_in_flight() == 0) {
    m.pool.pass_fences(m.steps.next_id());
  } else {
    m.pool.lower_fences(m.steps.newest_id());
  }
  return {};
}

}  // namespace quire
