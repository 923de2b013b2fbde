// What a random engine does to its sequences between steps.
#include <algorithm>
#include <cstring>

#include "tests/model/random_engine.h"

namespace quire::model {

// New symbols from `from` on: what was drafted or planned behind it is forgotten.
void Engine::write_tokens(Request* r, uint64_t from, uint64_t end) {
  r->tokens.resize(end);
  r->hashes.resize(end + 1);
  for (uint64_t i = from; i < end; ++i) r->tokens[i] = static_cast<quire_symbol>(pick(rng_, 50));
  for (uint64_t i = from; i < end; ++i) r->hashes[i + 1] = mix(r->hashes[i], r->tokens[i]);
}

// A prompt continues a conversation that was there before, or shares a stem with others, and ends with tokens of its own.
void Engine::write_prompt(Request* r) {
  r->tokens.clear();
  const uint64_t most = shape_.max_len - 8;
  if (!history_.empty() && chance(rng_, 45)) {
    const auto& [tenant, tokens] = history_[pick(rng_, history_.size())];
    if (chance(rng_, 80)) r->tenant = tenant;  // else the same text under another identity
    const uint64_t n = chance(rng_, 70) ? tokens.size() : pick(rng_, tokens.size() + 1);
    r->tokens.assign(tokens.begin(), tokens.begin() + static_cast<long>(std::min(n, most)));
  } else {
    const auto& stem = stems_[pick(rng_, stems_.size())];
    r->tokens.assign(stem.begin(), stem.begin() + static_cast<long>(pick(rng_, most)));
  }
  if (std::any_of(r->tokens.begin(), r->tokens.end(), [](quire_symbol symbol) { return symbol >> 31 != 0; })) note(kMedia);
  r->prompt = std::min<uint64_t>(most, r->tokens.size() + 1 + pick(rng_, 16));
  const uint64_t shared = std::min<uint64_t>(r->tokens.size(), r->prompt);
  r->tokens.resize(shared);
  r->hashes.assign(shared + 1, first_hash(r->tenant));
  for (uint64_t i = 0; i < shared; ++i) r->hashes[i + 1] = mix(r->hashes[i], r->tokens[i]);
  write_tokens(r, shared, shape_.max_len);
}

void Engine::arrive() {
  Request r;
  r.tenant = chance(rng_, 60) ? 0 : static_cast<uint32_t>(pick(rng_, kNumTenants));
  write_prompt(&r);
  r.goal = r.prompt + pick(rng_, chance(rng_, 20) ? shape_.max_len - r.prompt : 12);
  r.goal = std::min(r.goal, shape_.max_len - 6);
  if (roll(kNoShare, 6)) {
    r.flags = static_cast<uint32_t>(1 + pick(rng_, 3));
    note(kNoShare);
  }
  const quire_identity identity = identity_of(r.tenant, r.flags);
  auto id = cache_->sequence_create(&identity);
  see_units(true);
  note_root_given_up(!id.ok() && id.status().message().find("max_roots") != std::string::npos);
  if (!id.ok()) {  // roots or nodes of the index are used up
    MODEL_REQUIRE(id.status().code() == QUIRE_RESOURCE_EXHAUSTED, id.status().message());
    note(kFailure);
    return;
  }
  r.id = *id;
  start_life(&r);
  r.blocks.assign(shape_.groups.size(), 0);
  r.first_live.assign(shape_.groups.size(), 0);
  trace("create %llx tenant %u flags %u prompt %llu\n", (unsigned long long)r.id.value, r.tenant, r.flags, (unsigned long long)r.prompt);
  requests_.push_back(std::move(r));
}

// Another one, of which nothing is there: neither of its tokens nor of what its encoder made.
void Engine::start_life(Request* r) {
  r->life = r->family = next_life_++;
  r->encoder = pick(rng_, shape_.encoder + 1);
  r->encoder_hash = mix(0x77, r->life);
}

// To the blocks of so many tokens.
void Engine::cut_blocks(Request* r, uint64_t tokens) const {
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    const GroupSketch& group = shape_.groups[g];
    const uint64_t left = group.live.fixed && tokens > 0 ? r->encoder : tokens;
    r->blocks[g] = std::min(r->blocks[g], static_cast<uint32_t>(ceil_div(left, group.block_tokens)));
  }
}

void Engine::empty(Request* r) {
  r->committed = r->reserved = r->known = 0;
  r->in_flight = 0;
  r->fresh = true;
  r->lost = r->loading = false;
  std::fill(r->blocks.begin(), r->blocks.end(), 0);
  std::fill(r->first_live.begin(), r->first_live.end(), 0);
}

void Engine::disturb() {
  if (chance(rng_, 3)) reset();
  if (roll(kForget, 1)) forget();
  if (roll(kPin, 3)) pin();
  if (!pins_.empty() && chance(rng_, pinned_hard() ? 6 : 2)) unpin(pick(rng_, pins_.size()));
  if (requests_.empty()) return;
  const size_t i = pick(rng_, requests_.size());
  const Request& r = requests_[i];
  if (r.loading) {
    if (roll(kFailure, 10)) call_while_loading(r);
  } else if (roll(kPreempt, 2)) {
    preempt(i);
  } else if (r.committed >= r.goal || chance(rng_, 1)) {
    finish(i);
  } else if (r.in_flight > 0 && roll(kFinishInFlight, 3)) {
    finish(i);
  } else if (roll(kFork, 7) && requests_.size() < shape_.max_running + 2) {
    // Often one that was forked lately: its next row copies what it shares.
    const auto again = std::find_if(requests_.begin(), requests_.end(), [this](const Request& q) { return q.id == last_forked_; });
    fork(again != requests_.end() && !again->loading && chance(rng_, 50) ? static_cast<size_t>(again - requests_.begin()) : i);
  } else if (roll(kTruncate, 4)) {
    truncate(i);
  }
}

void Engine::preempt(size_t i) {
  Request& r = requests_[i];
  trace("preempt %llx\n", (unsigned long long)r.id.value);
  require_ok(cache_->sequence_preempt(r.id), "sequence_preempt");
  ++expected_.preemptions;
  note(kPreempt);
  // What was computed is asked for again, as engines do.
  if (r.committed > r.prompt && r.committed < shape_.max_len - 8 && chance(rng_, 50)) r.prompt = r.committed;
  empty(&r);
  start_life(&r);
}

void Engine::finish(size_t i) {
  Request& r = requests_[i];
  trace("finish %llx in flight %u\n", (unsigned long long)r.id.value, r.in_flight);
  if (r.in_flight > 0) note(kFinishInFlight);
  if (r.in_flight == 0) note_units(r, 0, published(r), QUIRE_UNIT_FINISHED, false);
  require_ok(cache_->sequence_finish(r.id), "sequence_finish");
  see_units(false);
  MODEL_REQUIRE(cache_->sequence_finish(r.id).code() == QUIRE_NOT_FOUND, "a sequence was finished twice");
  if (r.committed > 0) {
    r.tokens.resize(r.committed);
    history_.emplace_back(r.tenant, std::move(r.tokens));
    if (history_.size() > 12) history_.pop_front();
  }
  requests_.erase(requests_.begin() + static_cast<long>(i));
}

// Whether a row in flight writes over the state at the committed length, which is the one that its oldest row reads.
bool Engine::overwrites_current(const Request& r) const {
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    if (!shape_.groups[g].live.state) continue;
    int32_t current = -1;
    for (const PlannedStep& planned : in_flight_) {
      for (size_t row = 0; row < planned.rows.size(); ++row) {
        if (planned.rows[row].id != r.id || planned.rows[row].life != r.life) continue;
        if (current < 0) current = planned.state_read(g, row, 0);
        const int32_t last = planned.first_write[g][row + 1] - 1;
        if (current > 0 && planned.state_write(g, shape_.groups[g].ids_per_block, last, 0) == current) return true;
      }
    }
  }
  return false;
}

void Engine::fork(size_t i) {
  auto child = cache_->sequence_fork(requests_[i].id);
  if (overwrites_current(requests_[i])) {
    MODEL_REQUIRE(!child.ok() && child.status().code() == QUIRE_FAILED_PRECONDITION, "a fork while the state is overwritten");
    note(kFailure);
    return;
  }
  MODEL_REQUIRE(child.ok(), child.status().message());
  trace("fork %llx -> %llx at %llu\n", (unsigned long long)requests_[i].id.value, (unsigned long long)child->value,
        (unsigned long long)requests_[i].committed);
  last_forked_ = requests_[i].id;
  ++expected_.forks;
  note(kFork);
  Request r = requests_[i];
  r.id = *child;
  r.life = next_life_++;
  r.reserved = r.known = r.committed;
  r.in_flight = 0;
  r.fresh = r.committed == 0;
  cut_blocks(&r, r.committed);
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) r.first_live[g] = std::min(r.first_live[g], r.blocks[g]);
  if (chance(rng_, 70)) write_tokens(&r, std::max(r.committed, r.fresh ? r.prompt : r.committed), shape_.max_len);
  requests_.push_back(std::move(r));
}

void Engine::truncate(size_t i) {
  Request& r = requests_[i];
  const uint64_t to = chance(rng_, 10)   ? r.committed + 1
                      : chance(rng_, 20) ? 0
                                         : r.committed - pick(rng_, std::min<uint64_t>(r.committed, 12) + 1);
  quire_code wanted = QUIRE_OK;
  if (to > r.committed) {
    wanted = QUIRE_OUT_OF_RANGE;
  } else if (r.in_flight > 0) {
    wanted = QUIRE_FAILED_PRECONDITION;
  } else if (to != r.committed && to != 0) {
    for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
      const GroupSketch& group = shape_.groups[g];
      const bool gone = !group.live.everything() && group.live.tail_begin(to) < uint64_t{r.first_live[g]} * group.block_tokens;
      if (group.live.state || gone) wanted = QUIRE_FAILED_PRECONDITION;
    }
  }
  const Status done = cache_->sequence_truncate(r.id, to);
  trace("truncate %llx from %llu to %llu: %d\n", (unsigned long long)r.id.value, (unsigned long long)r.committed, (unsigned long long)to,
        done.code());
  MODEL_REQUIRE(done.code() == wanted, "truncate to " + std::to_string(to) + " of " + std::to_string(r.committed) + ": " + done.message());
  if (wanted != QUIRE_OK) {
    note(kFailure);
    return;
  }
  note(kTruncate);
  if (to == 0) {
    empty(&r);
    start_life(&r);
    return;
  }
  const bool shorter = to < r.committed;
  r.committed = r.reserved = r.known = to;
  cut_blocks(&r, to);
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) r.first_live[g] = std::min(r.first_live[g], r.blocks[g]);
  if (!shorter) return;
  write_tokens(&r, to, shape_.max_len);
  r.prompt = std::min(r.prompt, std::max<uint64_t>(to, 1));
}

void Engine::reset() {
  if (!allowed(kReset)) return;
  const Status done = cache_->reset();
  trace("reset: %d\n", done.code());
  MODEL_REQUIRE(done.code() == (in_flight_.empty() ? QUIRE_OK : QUIRE_FAILED_PRECONDITION), done.message());
  note(done.ok() ? kReset : kFailure);
  if (!done.ok()) return;
  pins_.clear();
  see_units(true);
  MODEL_REQUIRE(!requests_.empty() || stats().parts_cached == 0, "content is left after reset");
}

// Bytes of a few blocks turned out to be bad: they are not found any more, whoever uses them goes on.
void Engine::forget() {
  // Who had such a block publishes no more, and whoever follows units would have to know who that is: all begin anew.
  const bool anew = with_units_ && units_.sure;
  if (anew && (!loads_.empty() || !allowed(kPreempt))) return;
  const auto group = static_cast<uint32_t>(pick(rng_, shape_.groups.size()));
  int32_t ids[4];
  for (int32_t& id : ids) id = static_cast<int32_t>(pick(rng_, shape_.pages * shape_.groups[group].parts_per_page));
  uint64_t forgotten = 0;
  require_ok(cache_->forget_blocks(group, ids, &forgotten), "forget_blocks");
  for (PinnedText& pin : pins_) pin.forgotten = pin.forgotten || forgotten > 0;
  trace("forget in group %u: %llu blocks\n", group, (unsigned long long)forgotten);
  note(kForget);
  see_units(true);
  for (size_t i = 0; anew && i < requests_.size(); ++i) preempt(i);
}

// Bad calls change nothing: lengths, counters and the tables of steps in flight are compared by check() and run().
void Engine::call_wrongly() {
  note(kFailure);
  const uint64_t kind = pick(rng_, 7);
  StepId step;
  if (kind == 0) {
    MODEL_REQUIRE(cache_->sequence_preempt(SequenceId((uint64_t{1} << 62) | pick(rng_, 4))).code() == QUIRE_NOT_FOUND, "stale id");
  } else if (kind == 1) {
    MODEL_REQUIRE(cache_->commit(StepId(1u << 30), {}, {}).code() == QUIRE_NOT_FOUND, "commit of no step");
    MODEL_REQUIRE(cache_->abort(StepId(1u << 30)).code() == QUIRE_NOT_FOUND, "abort of no step");
  } else if (kind == 2 && !in_flight_.empty()) {
    std::vector<quire_commit_entry> entries(in_flight_.back().rows.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i].sequence = in_flight_.back().rows[i].id.value;
      entries[i].num_accepted = in_flight_.back().rows[i].num_tokens + 1;
    }
    const quire_code wanted = in_flight_.size() > 1 ? QUIRE_FAILED_PRECONDITION : QUIRE_OUT_OF_RANGE;
    MODEL_REQUIRE(cache_->commit(in_flight_.back().id, entries, {}).code() == wanted, "commit of more than was reserved, or too early");
  } else if (kind == 3 && !in_flight_.empty()) {
    MODEL_REQUIRE(cache_->commit(in_flight_.front().id, {}, {}).code() == QUIRE_INVALID_ARGUMENT, "commit without its rows");
  } else if (!requests_.empty()) {
    const Request& r = requests_[pick(rng_, requests_.size())];
    quire_reserve_entry e{};
    e.sequence = r.id.value;
    e.num_tokens = 1;
    if (kind == 4) e.num_symbols = 5;  // outside the symbols given
    if (kind == 5) e.flags = 0x80;
    if (kind == 6 || kind < 4) e.num_tokens = 0;
    quire_reserve_result result{};
    const Status done = cache_->reserve({&e, 1}, {}, {&result, 1}, &step);
    if (in_flight_.size() == shape_.depth) {
      MODEL_REQUIRE(!done.ok(), "a step too many");
    } else if (kind == 4) {
      MODEL_REQUIRE(done.code() == QUIRE_OUT_OF_RANGE, done.message());
    } else if (kind == 5) {
      MODEL_REQUIRE(done.code() == QUIRE_INVALID_ARGUMENT, done.message());
    } else {
      const quire_code wanted = r.loading ? QUIRE_FAILED_PRECONDITION : QUIRE_INVALID_ARGUMENT;
      MODEL_REQUIRE(done.ok() && step.value == 0 && result.code == wanted, "an entry without tokens");
      ++expected_.refused_entries;
    }
  }
}

// All that can be asked of a cache, in numbers; but for the refused entries, which are counted.
void Engine::look(std::vector<uint64_t>* out) {
  out->clear();
  const auto add = [out](const auto& info) {
    static_assert(sizeof info % sizeof(uint64_t) == 0);
    const size_t at = out->size();
    out->resize(at + sizeof info / sizeof(uint64_t));
    std::memcpy(out->data() + at, &info, sizeof info);
  };
  require_ok(cache_->verify(), "verify");
  quire_cache_stats s = stats();
  MODEL_REQUIRE(s.refused_entries == expected_.refused_entries, "refused entries");
  s.refused_entries = 0;
  add(s);
  for (const Request& r : requests_) {
    quire_sequence_info info{};
    require_ok(cache_->sequence_info(r.id, &info), "sequence_info");
    add(info);
  }
  // Tables, slots, states, copies and zeroes as bytes.
  const auto add_step = [&](StepId id) {
    uint64_t size = 0, digest = 0;
    require_ok(cache_->step_export(id, {}, &size), "step_export");
    exported_.resize(size);
    require_ok(cache_->step_export(id, exported_, &size), "step_export");
    for (const uint8_t byte : exported_) digest = digest * 0x100000001b3 ^ byte;
    out->push_back(digest);
  };
  for (const PlannedStep& planned : in_flight_) add_step(planned.id);
  for (const PlannedStep& load : loads_) add_step(load.id);
  for (const auto& [tenant, tokens] : history_) {
    quire_probe_result found{};
    const quire_identity identity = identity_of(tenant, 0);
    require_ok(cache_->probe(&identity, tokens, &found), "probe");
    out->insert(out->end(), {found.hit_tokens, found.full_hit_tokens, static_cast<uint64_t>(found.miss)});
  }
  for (const PinnedText& pin : pins_) {
    quire_pin_info info{};
    require_ok(cache_->pin_info(pin.id, &info), "pin_info");
    out->insert(out->end(), {info.tokens, info.num_parts});
  }
  for (const Held& held : holds_) {
    quire_hold_info info{};
    require_ok(cache_->hold_info(held.id, &info), "hold_info");
    add(info);
  }
}

void Engine::reserve_wrongly() {
  const bool full = in_flight_.size() == shape_.depth;
  StepId step;
  quire_reserve_result result{};
  const auto refused = [&](const quire_reserve_entry& e, std::span<const quire_symbol> symbols, quire_code wanted) {
    const Status done = cache_->reserve({&e, 1}, symbols, {&result, 1}, &step);
    MODEL_REQUIRE(done.code() == (full ? QUIRE_FAILED_PRECONDITION : wanted), done.message());
  };
  // An entry that is refused alone: the call works, and there is no step.
  const auto refused_entry = [&](const quire_reserve_entry& e, std::span<const quire_symbol> symbols, quire_code wanted) {
    refused(e, symbols, QUIRE_OK);
    if (full) return;
    ++expected_.refused_entries;
    MODEL_REQUIRE(result.code == wanted && result.row == kNone && step.value == 0, "code " + std::to_string(result.code));
  };
  quire_reserve_entry e{};
  e.num_tokens = 1;
  const quire_symbol stranger = 0xfffffff0;
  if (!requests_.empty()) {
    const Request& r = requests_[pick(rng_, requests_.size())];
    const auto of = [&r](quire_code code) { return r.loading ? QUIRE_FAILED_PRECONDITION : code; };
    e.sequence = r.id.value;
    e.num_tokens = 0;
    refused_entry(e, {}, of(QUIRE_INVALID_ARGUMENT));
    e.num_tokens = 1;
    e.num_look_ahead = UINT32_MAX;  // -1
    refused_entry(e, {}, of(QUIRE_OUT_OF_RANGE));
    e.num_look_ahead = 0;
    e.num_tokens = UINT32_MAX;
    if (shape_.max_tokens > shape_.max_len - r.reserved) refused_entry(e, {}, of(QUIRE_OUT_OF_RANGE));  // beyond the longest sequence
    e.num_tokens = 1;
    if (!r.fresh) {
      e.flags = QUIRE_ENTRY_MATCH;
      refused_entry(e, {}, of(QUIRE_INVALID_ARGUMENT));
    }
    e.flags = 0x80;
    refused(e, {}, QUIRE_INVALID_ARGUMENT);
    e.flags = 0;
    e.encoder_tokens = UINT64_MAX;  // -1
    refused(e, {}, shape_.encoder == 0 ? QUIRE_INVALID_ARGUMENT : QUIRE_OUT_OF_RANGE);
    e.encoder_tokens = 0;
    e.num_symbols = UINT32_MAX;  // -1
    refused(e, {}, QUIRE_OUT_OF_RANGE);
    e.num_symbols = 1;
    e.symbols_offset = UINT64_MAX;
    refused(e, {}, QUIRE_OUT_OF_RANGE);
    e.symbols_offset = 0;
    refused(e, {&stranger, 1}, QUIRE_INVALID_ARGUMENT);
    e.symbols_position = r.known + 1;  // a slip: nobody computed the token between
    const quire_symbol next = 7;
    refused_entry(e, {&next, 1}, of(QUIRE_INVALID_ARGUMENT));
    e.symbols_position = 0;
    e.num_symbols = 0;
  }
  e.sequence = uint64_t{1} << 62;
  refused_entry(e, {}, QUIRE_NOT_FOUND);
  const std::vector<quire_reserve_entry> many(shape_.max_running + 5, e);
  std::vector<quire_reserve_result> results(many.size());
  MODEL_REQUIRE(cache_->reserve(many, {}, results, &step).code() == QUIRE_RESOURCE_EXHAUSTED, "more entries than a step may have");
}

void Engine::commit_wrongly() {
  const auto code_of = [&](const PlannedStep& planned, uint32_t more, uint64_t symbols) {
    std::vector<quire_commit_entry> entries(planned.rows.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      entries[i].sequence = planned.rows[i].id.value;
      entries[i].num_accepted = planned.rows[i].num_tokens + more;
      entries[i].num_symbols = static_cast<uint32_t>(symbols);
    }
    return cache_->commit(planned.id, entries, {}).code();
  };
  MODEL_REQUIRE(cache_->commit(StepId(0), {}, {}).code() == QUIRE_NOT_FOUND, "commit of no step");
  MODEL_REQUIRE(cache_->commit(StepId(1u << 30), {}, {}).code() == QUIRE_NOT_FOUND, "commit of a step that will be");
  MODEL_REQUIRE(cache_->abort(StepId(1u << 30)).code() == QUIRE_NOT_FOUND, "abort of no step");
  if (in_flight_.empty()) return;
  const PlannedStep& oldest = in_flight_.front();
  MODEL_REQUIRE(code_of(oldest, 1, 0) == QUIRE_OUT_OF_RANGE, "more than was reserved");
  MODEL_REQUIRE(code_of(oldest, UINT32_MAX / 2, 0) == QUIRE_OUT_OF_RANGE, "far more than was reserved");
  MODEL_REQUIRE(code_of(oldest, 0, 3) == QUIRE_OUT_OF_RANGE, "symbols outside those given");
  MODEL_REQUIRE(cache_->commit(oldest.id, {}, {}).code() == QUIRE_INVALID_ARGUMENT, "without its rows");
  if (in_flight_.size() > 1) {
    MODEL_REQUIRE(code_of(in_flight_.back(), 0, 0) == QUIRE_FAILED_PRECONDITION, "out of order");
  }
  // Ids count up: the one before was committed, aborted or is a load.
  const StepId before(oldest.id.value - 1);
  const auto is_load = [&](const PlannedStep& load) { return load.id == before; };
  if (std::none_of(loads_.begin(), loads_.end(), is_load)) {
    MODEL_REQUIRE(cache_->commit(before, {}, {}).code() == QUIRE_NOT_FOUND, "twice");
  }
  quire_fill fill{};
  fill.kind = QUIRE_FILL_RAW_TABLE;
  fill.group = static_cast<uint32_t>(shape_.groups.size());
  uint64_t n = 0;
  MODEL_REQUIRE(cache_->step_fill(oldest.id, fill, &n).code() == QUIRE_OUT_OF_RANGE, "a table of no group");
}

// Every kind of bad call there is: nothing that can be asked is another answer afterwards.
void Engine::call_all_wrongly() {
  note(kFailure);
  ++tally_.digests;
  look(&seen_);
  reserve_wrongly();
  commit_wrongly();
  const SequenceId stale((uint64_t{1} << 62) | pick(rng_, 4));
  MODEL_REQUIRE(cache_->sequence_preempt(stale).code() == QUIRE_NOT_FOUND, "stale id");
  MODEL_REQUIRE(cache_->sequence_finish(stale).code() == QUIRE_NOT_FOUND, "stale id");
  MODEL_REQUIRE(cache_->sequence_truncate(stale, 0).code() == QUIRE_NOT_FOUND, "stale id");
  MODEL_REQUIRE(cache_->sequence_fork(stale).status().code() == QUIRE_NOT_FOUND, "stale id");
  if (!requests_.empty() && !requests_.front().loading) {
    MODEL_REQUIRE(cache_->sequence_truncate(requests_.front().id, UINT64_MAX).code() == QUIRE_OUT_OF_RANGE, "beyond the sequence");
  }
  const int32_t negative = -1;
  uint64_t n = 0;
  MODEL_REQUIRE(cache_->forget_blocks(99, {&negative, 1}, &n).code() == QUIRE_OUT_OF_RANGE, "a group that is none");
  MODEL_REQUIRE(cache_->forget_blocks(0, {&negative, 1}, &n).code() == QUIRE_OUT_OF_RANGE, "an id below 0");
  MODEL_REQUIRE(cache_->load_end(StepId(1u << 30), {}, &n).code() == QUIRE_NOT_FOUND, "the end of no load");
  quire_hold_id late = 77;
  if (!loads_.empty()) {
    const quire_load_failure lost = {99, 0, loads_.front().rows[0].position, 1};
    MODEL_REQUIRE(cache_->load_end(loads_.front().id, {&lost, 1}, &n, &late).code() == QUIRE_OUT_OF_RANGE, "a failure of no group");
    MODEL_REQUIRE(late == 77, "a hold of a load that did not end");
  }
  MODEL_REQUIRE(cache_->unpin(quire_pin_id{1} << 62).code() == QUIRE_NOT_FOUND, "no pin");
  hold_wrongly();
  const uint8_t digest[32] = {};
  quire_symbol first = 0;
  MODEL_REQUIRE(cache_->add_media(digest, 0, &first).code() == QUIRE_INVALID_ARGUMENT, "a picture of no symbols");
  look(&seen_again_);
  MODEL_REQUIRE(seen_ == seen_again_, "a bad call has changed something");
}

}  // namespace quire::model
