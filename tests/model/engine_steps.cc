// How a random engine makes its steps: reserve, run, commit or abort.
#include <algorithm>

#include "tests/model/random_engine.h"

namespace quire::model {

// What a request asks for in this step; false: nothing.
bool Engine::want(Request* r, bool faults, quire_reserve_entry* e) {
  if (r->loading) return false;
  if (r->reserved + 6 > shape_.max_len || (faults && !chance(rng_, 80))) return false;
  if (!faults && r->reserved >= r->goal) return false;
  if (r->fresh && r->in_flight > 0) return false;
  e->sequence = r->id.value;
  e->symbols_position = r->known;
  e->symbols_offset = symbols_.size();
  const bool prefill = r->reserved < r->prompt;
  uint64_t tokens = prefill ? (chance(rng_, 50) ? r->prompt - r->reserved : 1 + pick(rng_, r->prompt - r->reserved)) : 1;
  if (!prefill && faults && roll(kRollback, 30)) tokens += pick(rng_, 4);  // drafts
  if (r->fresh && (!faults || chance(rng_, 95))) {
    e->flags = QUIRE_ENTRY_MATCH;
    e->num_symbols = static_cast<uint32_t>(r->prompt);
  } else if (r->known < r->reserved + tokens && (prefill || !roll(kLateSymbols, 50))) {
    const uint64_t end = prefill && chance(rng_, 50) ? r->prompt : r->reserved + tokens;
    e->num_symbols = static_cast<uint32_t>(end - r->known);
  } else if (r->known < r->reserved + tokens) {
    note(kLateSymbols);
  }
  const auto first = r->tokens.begin() + static_cast<long>(r->known);
  symbols_.insert(symbols_.end(), first, first + e->num_symbols);
  e->num_tokens = static_cast<uint32_t>(tokens);
  e->encoder_tokens = r->reserved == 0 ? r->encoder : 0;
  if (prefill && r->reserved + tokens == r->prompt) e->flags |= QUIRE_ENTRY_PROMPT_END;
  if (faults && chance(rng_, 10)) e->flags |= QUIRE_ENTRY_NO_STOP;
  if (chance(rng_, 10)) e->flags |= QUIRE_ENTRY_KEEP_STATE;
  if (faults && roll(kLookAhead, 15)) {
    e->num_look_ahead = static_cast<uint32_t>(pick(rng_, 6));
    note(kLookAhead);
  }
  if (faults && r->fresh && roll(kFullLength, 15)) {
    e->full_tokens = std::min(r->prompt + 12, shape_.max_len);
    note(kFullLength);
  }
  return true;
}

// What a request lost that was preempted is for those that run: one that begins would be preempted next.
void Engine::leave_out_new_ones() {
  const auto runs = [this](size_t request) { return requests_[request].reserved > 0; };
  if (std::none_of(who_.begin(), who_.end(), runs)) return;
  size_t kept = 0;
  for (size_t i = 0; i < who_.size(); ++i) {
    if (!runs(who_[i])) continue;
    entries_[kept] = entries_[i];
    who_[kept++] = who_[i];
  }
  entries_.resize(kept);
  who_.resize(kept);
}

void Engine::reserve(bool faults) {
  entries_.clear();
  symbols_.clear();
  who_.clear();
  for (size_t i = 0; i < requests_.size() && who_.size() < requests_.size(); ++i) {
    quire_reserve_entry e{};
    if (!want(&requests_[i], faults, &e)) continue;
    entries_.push_back(e);
    who_.push_back(i);
  }
  if (!faults && starving_) leave_out_new_ones();
  results_.assign(entries_.size(), quire_reserve_result{});
  before_ = stats();
  StepId step;
  require_ok(cache_->reserve(entries_, symbols_, results_, &step), "reserve");
  note_given_up(step.value != 0);
  if (with_units_ && stats().units_given_up > before_.units_given_up) {
    uint64_t pages = 0;
    for (size_t i = 0; i < entries_.size(); ++i) pages += more_than_enough(entries_[i], requests_[who_[i]]);
    MODEL_REQUIRE(before_.pages_free + before_.pages_evictable < pages, "units were given up though there was room for all");
  }
  see_units(true);
  for (size_t i = 0; i < entries_.size(); ++i) starving_ = starving_ && (results_[i].code != QUIRE_OK || requests_[who_[i]].reserved == 0);
  PlannedStep planned;
  planned.id = step;
  planned.rows.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) admitted(entries_[i], results_[i], &requests_[who_[i]], &planned);
  if (step.value == 0) {
    MODEL_REQUIRE(planned.rows.empty(), "rows without a step");
    if (!entries_.empty()) relieve();
    return;
  }
  MODEL_REQUIRE(!planned.rows.empty(), "a step without rows");
  newest_step_ = step.value;
  ++expected_.steps;
  tally_.rows += planned.rows.size();
  auto copies = cache_->step_copies(step);
  MODEL_REQUIRE(copies.ok(), "the step is in flight");
  expected_.copies += copies->size();
  memory_->plan(*cache_, &planned);
  follow(step);
  note_overwrites(&planned);
  in_flight_.push_back(std::move(planned));
  if (chance(rng_, 50)) run_until(in_flight_.size());
}

// Every few steps a follower takes one over, mostly the new one; it must answer everything as the cache does.
void Engine::follow(StepId step) {
  if (step.value % 16 != 0 && !(step.value % 16 == 1 && !in_flight_.empty())) return;
  follow_one(step.value % 16 == 0 ? step : in_flight_.front().id);
}

void Engine::follow_one(StepId one) {
  const std::string taken = follow_->take(*cache_, one);
  MODEL_REQUIRE(taken.empty(), "a follower does not take a step: " + taken);
  const std::string other = follow_->compare(*cache_, one);
  MODEL_REQUIRE(other.empty(), "a follower answers otherwise: " + other);
}

void Engine::note_overwrites(PlannedStep* planned) const {
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    for (size_t r = 0; shape_.groups[g].live.state && r < planned->rows.size(); ++r) {
      const int32_t read = planned->state_read(g, r, 0);
      for (int32_t w = planned->first_write[g][r]; read != 0 && w < planned->first_write[g][r + 1]; ++w) {
        if (planned->state_write(g, shape_.groups[g].ids_per_block, w, 0) == read) planned->rows[r].overwrites = true;
      }
    }
  }
}

// Nothing fits: with nothing in flight the youngest that holds anything must go, and a request that is alone always fits.
void Engine::relieve() {
  if (!in_flight_.empty() || !loads_.empty()) return;
  size_t youngest = requests_.size();
  uint32_t holding = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].reserved == 0) continue;
    youngest = i;
    ++holding;
  }
  const bool asked = results_[0].sequence == requests_[0].id.value && entries_[0].full_tokens == 0;
  // A page is kept by any part in use, so what a request took while others ran may lie in more pages than it needs alone: it starts again.
  const bool alone = holding == 0 || (plain_ && holding == 1 && requests_[0].reserved > 0);
  if (alone && pinned_hard()) return unpin_all();
  if (alone && anybody_holds()) return end_all_holds();
  MODEL_REQUIRE(!asked || !alone, "a lone request does not fit: " + std::to_string(requests_[0].reserved) + " tokens reserved, pages " +
                                      std::to_string(before_.pages_free) + " free, " + std::to_string(before_.pages_evictable) +
                                      " evictable, " + std::to_string(before_.pages_used) + " used");
  if (youngest == requests_.size() || (youngest == 0 && requests_.size() > 1 && !asked)) return;
  starving_ = true;
  allowed(kPreempt) ? preempt(youngest) : finish(youngest);
}

void Engine::admitted(const quire_reserve_entry& e, const quire_reserve_result& result, Request* r, PlannedStep* planned) {
  trace("step %llu entry %llx tokens %u symbols %u ahead %u flags %u full %llu: %d at %llu +%u hit %u of %u miss %d\n",
        (unsigned long long)planned->id.value, (unsigned long long)e.sequence, e.num_tokens, e.num_symbols, e.num_look_ahead, e.flags,
        (unsigned long long)e.full_tokens, result.code, (unsigned long long)result.position, result.num_tokens, result.hit_tokens,
        result.full_hit_tokens, result.miss);
  if (result.code != QUIRE_OK) {
    refused(e, result, *r, planned->rows.empty());
    return;
  }
  MODEL_REQUIRE(result.row == planned->rows.size(), "rows are not in order");
  planned->rows.push_back(row_of(e, result, r));
}

// What an entry that was admitted means for its request.
PlannedRow Engine::row_of(const quire_reserve_entry& e, const quire_reserve_result& result, Request* r) {
  PlannedRow row;
  row.id = r->id;
  row.life = r->life;
  row.family = r->family;
  row.tenant = r->tenant;
  row.position = result.position;
  row.num_tokens = result.num_tokens;
  row.blocks_before = r->blocks;
  row.encoder = r->encoder;
  row.encoder_hash = r->encoder_hash;
  const uint64_t end = result.position + result.num_tokens;
  if ((e.flags & QUIRE_ENTRY_MATCH) != 0) {
    MODEL_REQUIRE(result.position == result.hit_tokens && result.hit_tokens < e.num_symbols, "a hit that leaves nothing to compute");
    MODEL_REQUIRE(result.hit_tokens % config_->hit_alignment_tokens == 0 && result.hit_tokens <= result.full_hit_tokens, "hit");
    MODEL_REQUIRE(result.hit_tokens == 0 || (r->flags & QUIRE_SEQUENCE_NO_MATCH) == 0, "a hit that was not wanted");
    for (const GroupSketch& g : shape_.groups) {
      const bool far = result.hit_tokens == 0 || g.look_ahead == 0 || result.hit_tokens + g.block_tokens < e.num_symbols;
      MODEL_REQUIRE(far, "a hit on tokens that drafts wrote without knowing what follows");
    }
    if (result.hit_tokens > 0) note(kHit);
    row.matched = true;
    row.matched_tokens = e.num_symbols;
    row.miss = result.miss;
    ++expected_.matches;
    ++expected_.miss_reasons[result.miss];
    expected_.matched_prompt_tokens += e.num_symbols;
    expected_.hit_tokens += result.hit_tokens;
    r->known = r->committed = r->reserved = result.hit_tokens;
    for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
      if (shape_.groups[g].live.state) continue;
      r->blocks[g] = static_cast<uint32_t>(ceil_div(result.hit_tokens, shape_.groups[g].block_tokens));
      r->first_live[g] = static_cast<uint32_t>(shape_.groups[g].live.tail_begin(result.hit_tokens) / shape_.groups[g].block_tokens);
    }
    row.blocks_before = r->blocks;
  }
  MODEL_REQUIRE(result.position == r->reserved, "the step does not begin where the last one ended");
  MODEL_REQUIRE(result.num_tokens >= 1 && result.num_tokens <= e.num_tokens, "tokens of a row");
  row.known_before = r->known;
  const uint64_t given = (e.flags & QUIRE_ENTRY_MATCH) != 0 ? e.num_symbols - result.hit_tokens : e.num_symbols;
  const uint64_t room = end > r->known ? end - r->known : 0;
  row.gave_symbols = std::min(given, room) > 0;
  r->known += std::min(given, room);
  row.hashes.assign(r->hashes.begin(), r->hashes.begin() + static_cast<long>(end + 1));
  r->fresh = false;
  r->reserved = end;
  ++r->in_flight;
  const uint64_t ahead = (result.flags & QUIRE_RESULT_CHUNK_STOP) != 0 ? 0 : e.num_look_ahead;
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    if (shape_.groups[g].live.state) continue;
    const uint64_t tokens = shape_.groups[g].live.fixed ? r->encoder : std::min(end + ahead, shape_.max_len);
    const uint64_t want = ceil_div(tokens, shape_.groups[g].block_tokens);
    r->blocks[g] = std::max(r->blocks[g], static_cast<uint32_t>(want));
  }
  return row;
}

// A refusal must have a reason: where even a generous count of what the first entry needs is there, it is admitted.
void Engine::refused(const quire_reserve_entry& e, const quire_reserve_result& result, const Request& r, bool first) {
  note(kFailure);
  ++expected_.refused_entries;
  MODEL_REQUIRE(result.row == kNone, "a refused entry has a row");
  if (result.code == QUIRE_NOT_READY) {
    MODEL_REQUIRE(result.reason == QUIRE_REFUSAL_STEP_FULL && !first, "a step that is full before its first row");
    return;
  }
  MODEL_REQUIRE(result.code == QUIRE_RESOURCE_EXHAUSTED && result.missing_pages > 0, "code " + std::to_string(result.code));
  MODEL_REQUIRE(result.group < shape_.groups.size(), "the group that lacks pages");
  // Admission of a whole sequence counts all states that its rows might write; what is asked for now always fits alone.
  MODEL_REQUIRE(result.flags == 0 || e.full_tokens != 0, "shapes are such that a lone request always fits");
  MODEL_REQUIRE(!with_units_ || stats().holds == holds_.size() + lates_.size() + units_.taken.size(),
                "an entry is refused while units wait that nobody has taken");
  if (!first) return;
  const uint64_t pages = more_than_enough(e, r);
  MODEL_REQUIRE(before_.pages_free + before_.pages_evictable < pages,
                "refused though " + std::to_string(before_.pages_free) + " + " + std::to_string(before_.pages_evictable) +
                    " pages can be had and " + std::to_string(pages) + " are more than enough");
}

uint64_t Engine::more_than_enough(const quire_reserve_entry& e, const Request& r) const {
  const uint64_t end = std::max<uint64_t>(e.full_tokens, std::max(r.reserved, r.prompt) + e.num_tokens + e.num_look_ahead);
  uint64_t pages = watermark_;
  const bool leaves_spared = e.full_tokens != 0 && r.reserved == 0;  // what others resume from; of one of them beyond the limit
  if (leaves_spared) pages += shape_.pages / 8 + 1;
  for (const GroupSketch& g : shape_.groups) {
    if (leaves_spared && g.live.state) pages += g.ids_per_block;
    const bool falls = g.live.window > 0 || g.live.chunk > 0;
    if (leaves_spared && falls) pages += (ceil_div(g.live.longest_tail(), g.block_tokens) + 2) * g.ids_per_block;
    const uint64_t blocks = g.live.state ? shape_.states_needed(g) : ceil_div(g.live.fixed ? r.encoder : end, g.block_tokens) + 1;
    // A hit takes pages out of the evictable ones, too: in the worst case one for each of its parts.
    const uint64_t hit = (e.flags & QUIRE_ENTRY_MATCH) != 0 ? (g.live.state ? 1 : ceil_div(r.prompt, g.block_tokens)) : 0;
    pages += ceil_div(blocks * g.ids_per_block, g.parts_per_page) + hit * g.ids_per_block;
  }
  return pages;
}

void Engine::settle(bool faults) {
  ++tally_.steps;
  if (faults && roll(kAbort, in_flight_.back().copies.empty() ? 10 : 25)) {
    abort();
  } else {
    commit(faults);
  }
}

void Engine::commit_row(const PlannedRow& row, bool faults, quire_commit_entry* e) {
  e->sequence = row.id.value;
  e->num_accepted = row.num_tokens;
  e->symbols_offset = symbols_.size();
  Request* r = alive(row);
  if (r == nullptr) return;
  const bool drafts = row.num_tokens > 1 && row.position >= r->prompt;
  if (faults && r->in_flight == 1 && roll(kRollback, drafts ? 60 : 4)) {
    const bool any = !shape_.states || row.num_tokens <= shape_.branches + 1;
    e->num_accepted = any ? static_cast<uint32_t>(pick(rng_, row.num_tokens)) : 0;
    note(kRollback);
  }
  --r->in_flight;
  const uint64_t before = published(*r);
  r->committed = row.position + e->num_accepted;
  if (e->num_accepted < row.num_tokens) {
    r->reserved = r->committed;
    r->known = std::min(r->known, r->committed);
    cut_blocks(r, r->committed);
    if (r->committed >= r->prompt) write_tokens(r, r->committed, shape_.max_len);  // the drafts were wrong
  }
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    const GroupSketch& group = shape_.groups[g];
    const auto live = static_cast<uint32_t>(group.live.kept_begin(r->committed) / group.block_tokens);
    r->first_live[g] = std::max(r->first_live[g], std::min(live, r->blocks[g]));
  }
  uint64_t tell = r->known < r->committed ? r->committed : r->known;
  if (faults && chance(rng_, 40)) tell = std::max(tell, std::min({tell + 1, r->reserved + 1, shape_.max_len}));
  e->symbols_position = r->known;
  for (; r->known < tell; ++r->known) symbols_.push_back(r->tokens[r->known]);
  e->num_symbols = static_cast<uint32_t>(symbols_.size() - e->symbols_offset);
  if (r->committed == 0 && r->in_flight == 0) r->fresh = r->known == 0;
  note_row(*r, row, before, true);
  if (e->num_accepted > 0 || !row.overwrites) return;
  empty(r);  // its state is gone
  start_life(r);
}

void Engine::commit(bool faults) {
  run_until(1);
  const PlannedStep planned = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<quire_commit_entry> entries(planned.rows.size());
  symbols_.clear();
  for (size_t i = 0; i < entries.size(); ++i) commit_row(planned.rows[i], faults, &entries[i]);
  trace("commit %llu\n", (unsigned long long)planned.id.value);
  require_ok(cache_->commit(planned.id, entries, symbols_), "commit");
  memory_->done(planned);
  see_units(false);
}

// What reserve did for a row is undone; later rows of its sequence are undone already.
void Engine::undo(const PlannedRow& row, bool unstarted) {
  Request* r = alive(row);
  if (r == nullptr) return;
  if (row.matched) {
    --expected_.matches;
    --expected_.miss_reasons[row.miss];
    expected_.matched_prompt_tokens -= row.matched_tokens;
    expected_.hit_tokens -= row.position;
    empty(r);
    start_life(r);
    return;
  }
  r->lost = r->lost || (row.overwrites && !unstarted);
  --r->in_flight;
  r->reserved = row.position;
  const uint64_t keep = row.gave_symbols ? std::max(row.known_before, r->committed) : row.position + config_->match_unit_tokens;
  r->known = std::min(r->known, keep);
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    r->blocks[g] = std::min(r->blocks[g], row.blocks_before[g]);
    r->first_live[g] = std::min(r->first_live[g], r->blocks[g]);
  }
  r->fresh = r->reserved == 0 && r->known == 0 && r->in_flight == 0;
}

void Engine::abort() {
  const size_t first = pick(rng_, in_flight_.size());
  // The kernels of an aborted step are done or never start.
  if (chance(rng_, 60)) run_until(first + pick(rng_, in_flight_.size() - first + 1));
  bool unstarted = allowed(kUnstarted) && chance(rng_, 60);
  for (size_t i = first; i < in_flight_.size(); ++i) unstarted = unstarted && !in_flight_[i].ran;
  const StepId id = in_flight_[first].id;
  trace("abort %llu%s\n", (unsigned long long)id.value, unstarted ? " unstarted" : "");
  while (in_flight_.size() > first) {
    const PlannedStep planned = std::move(in_flight_.back());
    in_flight_.pop_back();
    for (size_t i = planned.rows.size(); i > 0; --i) undo(planned.rows[i - 1], unstarted);
    memory_->done(planned);
    ++expected_.aborted_steps;
  }
  for (Request& r : requests_) {
    if (!r.lost) continue;
    empty(&r);
    start_life(&r);
  }
  require_ok(cache_->abort(id, unstarted), "abort");
  note(kAbort);
  if (unstarted) note(kUnstarted);
}

}  // namespace quire::model
