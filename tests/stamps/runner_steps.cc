// Steps: what is asked for, what is admitted, and how they end.
#include <algorithm>

#include "tests/stamps/runner.h"

namespace quire::stamps {

// What a sequence asks for; false: nothing.
bool Runner::want(Sequence* s, quire_reserve_entry* e) {
  if (s->loading || s->reserved >= s->goal) return false;
  const bool prefill = s->reserved < s->prompt, fresh = s->fresh();
  const uint64_t room = s->goal - s->reserved;
  uint64_t tokens = prefill ? s->prompt - s->reserved : 1;
  if (prefill && dice_.percent(50)) tokens = dice_.between(1, tokens);
  if (!prefill && !mode_.quiet && dice_.percent(30)) tokens += dice_.below(4);  // drafts
  tokens = std::min(tokens, room);
  e->sequence = s->id;
  e->symbols_position = s->known;
  e->symbols_offset = symbols_.size();
  e->num_tokens = static_cast<uint32_t>(tokens);
  e->encoder_tokens = s->reserved == 0 ? s->encoder : 0;
  const bool late = !prefill && dice_.percent(50);
  if (fresh && (mode_.quiet || dice_.percent(97))) {
    e->flags = QUIRE_ENTRY_MATCH;
    e->num_symbols = static_cast<uint32_t>(s->prompt);
  } else if (s->known < s->reserved + tokens && !late) {
    const uint64_t end = prefill && dice_.percent(50) ? s->prompt : s->reserved + tokens;
    e->num_symbols = static_cast<uint32_t>(end - s->known);
  } else if (s->known < s->reserved + tokens) {
    tallies_.count(kLate);
  }
  const auto first = s->text.symbols().begin() + static_cast<long>(s->known);
  symbols_.insert(symbols_.end(), first, first + e->num_symbols);
  if (prefill && s->reserved + tokens == s->prompt) e->flags |= QUIRE_ENTRY_PROMPT_END;
  if (!mode_.quiet) ask_for_more(e, *s);
  return true;
}

void Runner::ask_for_more(quire_reserve_entry* e, const Sequence& s) {
  if (dice_.percent(10)) e->flags |= QUIRE_ENTRY_NO_STOP;
  if (dice_.percent(10)) e->flags |= QUIRE_ENTRY_KEEP_STATE;
  if (dice_.percent(12)) {
    e->num_look_ahead = dice_.small(0, std::min<uint64_t>(5, limits_.tokens - 1));
    tallies_.count(kLookedAhead);
  }
  if (s.fresh() && dice_.percent(12)) {
    e->full_tokens = s.goal;
    tallies_.count(kWhole);
  }
}

void Runner::hit(const quire_reserve_entry& e, const quire_reserve_result& got, Sequence* s) {
  demand(got.position == got.hit_tokens && got.hit_tokens < e.num_symbols, "a hit leaves nothing to compute");
  demand(got.hit_tokens == 0 || (s->flags & QUIRE_SEQUENCE_NO_MATCH) == 0, "a hit that was not wanted");
  demand(computed_.knows(s->text, got.hit_tokens), "a hit on tokens that nobody computed");
  s->committed = s->reserved = s->known = got.hit_tokens;
  // Behind the edge of a chunk, or with a window of one token, nothing earlier is read. A hit may
  // then hold no block at all, and is found only as long as somebody holds it.
  const auto reads_nothing = [](const quire_group_info& g) { return g.chunk != 0 || g.window == 1; };
  if (got.hit_tokens > 0 && std::all_of(plan_.groups.begin(), plan_.groups.end(), reads_nothing)) s->whole = false;
  ++counters_.matches;
  counters_.matched_prompt_tokens += e.num_symbols;
  counters_.hit_tokens += got.hit_tokens;
  ++tally_.matches;
  tally_.hits += got.hit_tokens > 0 ? 1 : 0;
  tally_.prompt_tokens += e.num_symbols;
  tally_.hit_tokens += got.hit_tokens;
}

void Runner::refuse(const quire_reserve_entry& e, const quire_reserve_result& got, const Sequence& s) {
  demand(got.code == QUIRE_RESOURCE_EXHAUSTED || got.code == QUIRE_NOT_READY, "the code of a refusal");
  demand(got.code == QUIRE_NOT_READY || got.missing_pages > 0, "a refusal without missing pages");
  const bool fits = e.full_tokens == 0 && s.reserved + e.num_tokens + e.num_look_ahead <= limits_.longest;
  demand(!fits || (got.flags & QUIRE_RESULT_NEVER_FITS) == 0, "what fits is said never to fit");
  refused_ = got;
  tallies_.count(kRefused);
  ++counters_.refused_entries;
}

void Runner::admit(const quire_reserve_entry& e, const quire_reserve_result& got, Sequence* s, TakenStep* taken) {
  demand(got.row == taken->rows.size(), "rows are not in order");
  const uint64_t end = got.position + got.num_tokens;
  const bool matched = (e.flags & QUIRE_ENTRY_MATCH) != 0;
  if (matched) hit(e, got, s);
  demand(got.position == s->reserved, "a row does not begin where the last one ended");
  demand(got.num_tokens >= 1 && got.num_tokens <= e.num_tokens, "tokens of a row");
  tallies_.count(got.position < s->prompt ? kPrefills : got.num_tokens > 1 ? kDrafted : kDecodes);
  TakenRow row = row_of(*s, got.position, end);
  row.matched = matched;
  row.prompt = e.num_symbols;
  row.known_before = s->known;
  // Symbols behind the row are not kept.
  const uint64_t given = matched ? e.num_symbols - got.hit_tokens : e.num_symbols;
  const uint64_t kept = std::min(given, end > s->known ? end - s->known : 0);
  row.gave = kept > 0;
  s->known += kept;
  s->reserved = end;
  ++s->in_flight;
  agree(*s);
  room_was_made(e, got, *s);
  taken->rows.push_back(std::move(row));
  ++tally_.rows;
  trace("  row", s->id, got.position, end);
}

// Reserves for these sequences; whether any of them was admitted.
bool Runner::reserve_entries(const std::vector<size_t>& who) {
  symbols_.clear();
  std::vector<quire_reserve_entry> entries;
  std::vector<Sequence*> asked;
  for (const size_t i : who) {
    quire_reserve_entry e{};
    if (!want(&sequences_[i], &e)) continue;
    entries.push_back(e);
    asked.push_back(&sequences_[i]);
  }
  if (entries.empty()) return true;
  quire_error err = QUIRE_INIT(quire_error);
  // A pin whose time is over ends in the next call that changes the cache; what it kept together may be a hit until then.
  const bool pin_ends = std::any_of(pins_.begin(), pins_.end(), [this](const Pin& pin) { return overdue(pin); });
  const bool asks = !pin_ends && (entries[0].flags & QUIRE_ENTRY_MATCH) != 0 && (asked[0]->flags & QUIRE_SEQUENCE_NO_MATCH) == 0;
  const uint64_t promised = asks ? probed(asked[0]->owner, symbols_, entries[0].num_symbols) : 0;
  const quire_cache_stats before = stats();
  std::vector<quire_reserve_result> results(entries.size());
  TakenStep taken;
  tallies_.count(kReserved);
  must_call(
      quire_reserve(cache_.get(), entries.data(), entries.size(), symbols_.data(), symbols_.size(), results.data(), &taken.step, &err), err,
      "reserve");
  trace("reserve", taken.step.id, entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    demand(results[i].sequence == entries[i].sequence, "a result of another sequence");
    if (results[i].code == QUIRE_OK) {
      admit(entries[i], results[i], asked[i], &taken);
    } else {
      refuse(entries[i], results[i], *asked[i]);
    }
  }
  if (asks && results[0].code == QUIRE_OK && results[0].miss != QUIRE_MISS_EVICTED) {
    demand(results[0].hit_tokens == promised, "a hit is not what a probe promised");
  }
  demand((taken.step.id != 0) == !taken.rows.empty(), "a step without rows, or rows without a step");
  if (taken.step.id == 0) {
    if (stats().units_given_up == before.units_given_up) nothing_changed(before);
    return false;
  }
  ++counters_.steps;
  take(&taken);
  in_flight_.push_back(std::move(taken));
  return true;
}

void Runner::reserve() {
  if (in_flight_.size() == limits_.depth) return commit();
  std::vector<size_t> who;
  const bool all = dice_.percent(60);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (all || dice_.percent(50)) who.push_back(i);
  }
  if (who.size() > 1 && dice_.percent(50)) std::reverse(who.begin(), who.end());
  if (!reserve_entries(who)) relieve();
}

// Nobody was admitted: if nothing ends by itself, somebody must go.
void Runner::relieve() {
  if (!in_flight_.empty() || !loads_.empty() || sequences_.empty()) return;
  if (!pins_.empty() && dice_.percent(60)) return unpin();
  if (hold_dice_.percent(60) && !(holds_.empty() && lates_.empty() && units_.empty())) return end_all_holds();
  preempt_one(&sequences_[dice_.below(sequences_.size())]);
}

// A step may be asked for its arrays as long as it is in flight. Rows of sequences that are gone
// show nothing any more.
void Runner::take_again(TakenStep* step) {
  const bool all = std::all_of(step->rows.begin(), step->rows.end(), [&](const TakenRow& row) { return alive(row) != nullptr; });
  if (all) take_arrays(plan_, step);
}

void Runner::carry_out_until(size_t steps) {
  for (size_t i = 0; i < steps; ++i) {
    if (in_flight_[i].ran) continue;
    if (dice_.percent(15)) take_again(&in_flight_[i]);
    if (onlookers_.uploaded != nullptr) onlookers_.uploaded->upload(in_flight_[i]);
    bytes_->run(&in_flight_[i]);
  }
}

void Runner::carry_out() {
  if (!in_flight_.empty()) carry_out_until(dice_.between(1, in_flight_.size()));
}

void Runner::commit_row(size_t r, quire_commit_entry* e) {
  const TakenStep& step = in_flight_.front();
  const TakenRow& row = step.rows[r];
  const auto tokens = static_cast<uint32_t>(row.end - row.position);
  e->sequence = row.id;
  e->num_accepted = tokens;
  e->symbols_offset = symbols_.size();
  Sequence* s = alive(row);
  if (s == nullptr) return;
  const bool drafts = tokens > 1 && row.position >= s->prompt;
  if (!mode_.quiet && s->in_flight == 1 && dice_.percent(drafts ? 60 : 3)) {
    const bool any = !plan_.states || tokens <= limits_.branches + 1;
    e->num_accepted = any ? static_cast<uint32_t>(dice_.below(tokens)) : 0;
    tallies_.count(kPartly);
  }
  --s->in_flight;
  s->committed = row.position + e->num_accepted;
  if (e->num_accepted < tokens) {
    s->reserved = s->committed;
    s->known = std::min(s->known, s->committed);
    if (e->num_accepted > 0 && s->committed >= s->prompt) {
      rewrite(s, s->committed);
      bytes_->correct_drafts(step, r, s->committed - 1, s->text);
    }
  }
  if (e->num_accepted == 0) return;
  uint64_t told = std::max(s->known, s->committed);
  if (told == s->committed && dice_.percent(60)) ++told;  // the next token is sampled
  if ((s->flags & QUIRE_SEQUENCE_NO_PUBLISH) != 0 && dice_.percent(50)) told = s->known;
  e->symbols_position = s->known;
  e->num_symbols = static_cast<uint32_t>(told - s->known);
  const auto first = s->text.symbols().begin() + static_cast<long>(s->known);
  symbols_.insert(symbols_.end(), first, first + e->num_symbols);
  s->known = told;
}

void Runner::commit() {
  if (in_flight_.empty()) return;
  carry_out_until(1);
  TakenStep& step = in_flight_.front();
  std::vector<quire_commit_entry> entries(step.rows.size());
  symbols_.clear();
  for (size_t r = 0; r < entries.size(); ++r) commit_row(r, &entries[r]);
  quire_error err = QUIRE_INIT(quire_error);
  trace("commit", step.step.id);
  must_call(quire_commit(step.step, entries.data(), entries.size(), symbols_.data(), symbols_.size(), &err), err, "commit");
  tallies_.count(kCommitted);
  for (size_t r = 0; r < entries.size(); ++r) {
    Sequence* s = alive(step.rows[r]);
    if (s == nullptr) continue;
    trace("  accepted", s->id, step.rows[r].position, entries[r].num_accepted);
    if (entries[r].num_accepted == 0 && limits_.in_place && length_of(*s) == 0) {
      keep_text(*s);
      empty(s);  // its state was overwritten
    } else if ((s->flags & QUIRE_SEQUENCE_NO_PUBLISH) == 0) {
      computed_.note(s->text, step.rows[r].position, s->committed);
    }
    agree(*s);
  }
  done(step);
  in_flight_.pop_front();
}

void Runner::abort() {
  if (in_flight_.empty()) return;
  const size_t first = dice_.below(in_flight_.size());
  if (dice_.percent(50)) carry_out_until(dice_.between(first, in_flight_.size()));
  bool unlaunched = dice_.percent(60);
  for (size_t i = first; i < in_flight_.size(); ++i) unlaunched = unlaunched && !in_flight_[i].ran;
  if (unlaunched && dice_.percent(50)) {
    carry_out_until(first);
    bytes_->prepare(&in_flight_[first]);
  }
  const quire_step step = in_flight_[first].step;
  std::vector<Sequence*> undone;
  for (; in_flight_.size() > first; in_flight_.pop_back()) {
    for (auto row = in_flight_.back().rows.rbegin(); row != in_flight_.back().rows.rend(); ++row) {
      Sequence* s = alive(*row);
      if (s == nullptr) continue;
      --s->in_flight;
      s->reserved = row->matched ? 0 : row->position;
      // Symbols of commits stay, one match unit of them at most.
      s->known = std::min(s->known, row->gave ? std::max(row->known_before, s->committed) : row->position + plan_.info.match_unit_tokens);
      if (row->matched) {
        s->committed = s->known = 0;
        --counters_.matches;
        counters_.matched_prompt_tokens -= row->prompt;
        counters_.hit_tokens -= row->position;
      }
      undone.push_back(s);
    }
    done(in_flight_.back());
    ++counters_.aborted_steps;
  }
  quire_error err = QUIRE_INIT(quire_error);
  trace(unlaunched ? "abort, not launched" : "abort", step.id);
  must_call(quire_abort(step, unlaunched ? QUIRE_ABORT_NOT_LAUNCHED : 0, &err), err, "abort");
  tallies_.count(unlaunched ? kUnlaunched : kAborted);
  for (Sequence* s : undone) {
    if (s->reserved > 0 && length_of(*s) == 0 && limits_.in_place && !unlaunched) {
      keep_text(*s);
      empty(s);
    }
    agree(*s);
  }
}

}  // namespace quire::stamps
