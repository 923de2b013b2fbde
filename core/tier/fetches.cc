#include "core/tier/fetches.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/latency.h"
#include "core/tier/fetch_records.h"

namespace quire {
namespace {

// What may come in one load, after the hit.
void limit_part(const TierState& state, const Worth& worth, Fetch* f) {
  const uint64_t longest = std::min(f->longest, f->hit + state.cache->load_limits().tokens);
  f->candidates = candidates_of(*state.plan, f->hit, longest);
  if (f->peer_end > f->hit && f->peer_end <= longest && f->peer_end % state.plan->grid() == 0) {
    std::vector<uint64_t>& b = f->candidates.boundaries;
    const auto at = std::lower_bound(b.begin(), b.end(), f->peer_end);
    if (at == b.end() || *at != f->peer_end) b.insert(at, f->peer_end);
  }
  f->is_cut = longest < f->longest;
  f->fair = later(state.now(), worth.lookup_ns(*f, longest));
  if (!f->has_deadline) f->deadline = f->fair;
}

Status check_encoder(const TierPlan& plan, uint64_t tokens) {
  const auto n = static_cast<unsigned long long>(tokens), most = static_cast<unsigned long long>(plan.most_encoder());
  if (tokens > 0 && most == 0) return invalid("peer.encoder_tokens: %llu, the model has no cross attention", n);
  return tokens <= most ? Status() : fail(QUIRE_OUT_OF_RANGE, "peer.encoder_tokens: %llu, at most %llu", n, most);
}

// A load that is late is one failure of each tier that has not brought all.
void count_late(TierState& state, uint32_t tiers) {
  for (size_t t = 0; t < state.tiers.size(); ++t) {
    if ((tiers >> t & 1) != 0) state.tiers[t]->failed(state.now(), Tier::What::kTransfer);
  }
}

}  // namespace

// The quarantine has place for as many as are held when a load begins, and for those in progress.
Fetches::Fetches(TierState& state, Questions& questions, double ns_per_token, uint32_t most)
    : state_(state),
      questions_(questions),
      worth_(state.tiers, ns_per_token),
      fetches_(most),
      quarantine_(state, 2 * size_t{most}),
      arrivals_(state),
      awaiting_(state, arrivals_) {
  for (Fetch& f : fetches_) f.table = std::make_unique<RecordTable>(*state.sources);
}

Result<quire_fetch_id> Fetches::begin(SequenceId sequence, std::span<const quire_symbol> symbols, int64_t deadline_ns,
                                      const FetchPeer& peer) {
  if (symbols.empty()) return invalid("num_symbols: 0");
  if (deadline_ns < 0) return invalid("deadline_ns: %lld, 0 is the default", static_cast<long long>(deadline_ns));
  QUIRE_RETURN_IF_ERROR(check_encoder(*state_.plan, peer.encoder_tokens));
  quire_sequence_info info{};
  QUIRE_RETURN_IF_ERROR(state_.cache->sequence_info(sequence, &info));
  const auto same = [sequence](const Fetch& f) { return f.phase != Phase::kFree && f.sequence == sequence; };
  if (info.reserved != 0 || info.known != 0 || std::any_of(fetches_.begin(), fetches_.end(), same)) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: it is not empty, or a fetch of it is in progress");
  }
  const auto free = std::find_if(fetches_.begin(), fetches_.end(), [](const Fetch& f) { return f.phase == Phase::kFree; });
  if (free == fetches_.end()) return fail(QUIRE_RESOURCE_EXHAUSTED, "max_fetches: all %zu are in progress", fetches_.size());
  quire_probe_result probe{};
  QUIRE_RETURN_IF_ERROR(state_.cache->sequence_probe(sequence, symbols, &probe));
  results_.reserve(std::max<size_t>(64, std::bit_ceil(results_.size() + num_in_progress_ + 1)));  // every end has its place
  Fetch& f = *free;
  f.id = next_id_++;
  f.sequence = sequence;
  f.symbols.assign(symbols.begin(), symbols.end());
  f.peer_tier = peer.tier;
  f.peer_end = peer.end_token;
  f.encoder = peer.encoder_tokens;
  f.peer_failed = f.has_refused_blocks = false;
  f.peer_key.assign(peer.handle.begin(), peer.handle.end());
  f.peer_key.insert(f.peer_key.end(), peer.address.begin(), peer.address.end());
  f.begun = state_.now();
  f.hit = probe.hit_tokens;
  f.full_hit = probe.full_hit_tokens;
  f.unasked = f.asked = f.late = 0;
  f.load = StepId(0);
  f.is_growing = peer.is_growing;
  f.has_met = f.awaits = false;
  f.coming.clear();
  f.earlier.clear();
  f.coming_slot = kNone;
  f.has_failed = f.is_doomed = f.is_cancelled = f.asks_others = f.is_far = f.lacks_answers = false;
  f.pending.clear();
  f.assemblies.clear();
  f.slots.clear();
  f.slots.reserve(Transfers::kMost / 2);
  f.bytes_wanted = f.bytes_here = f.position = f.found = f.committed = 0;
  f.bytes_of.assign(state_.tiers.size(), 0);
  f.bytes_before.assign(state_.tiers.size(), 0);
  f.elapsed_of.assign(state_.tiers.size(), 0);
  const uint64_t left = std::max<uint64_t>(1, state_.plan->look_ahead());
  f.longest = std::min(symbols.size() - std::min<uint64_t>(symbols.size(), left), state_.plan->config().max_model_len - 1);
  f.has_deadline = deadline_ns > 0;
  f.deadline = later(f.begun, static_cast<double>(deadline_ns));
  limit_part(state_, worth_, &f);
  const auto index = static_cast<uint32_t>(free - fetches_.begin());
  const bool nothing = f.candidates.boundaries.empty();
  if (!nothing) QUIRE_RETURN_IF_ERROR(name_prompt(state_, &f));
  f.phase = Phase::kLooking;
  ++num_in_progress_;
  ++state_.stats.fetches;
  const quire_fetch_id id = f.id;
  try {
    nothing ? finish(index, QUIRE_FETCH_NOTHING, 0) : look_up(index);
  } catch (...) {  // no host memory: as if it had never been asked for
    orphan_lookups(index, false);
    if (f.phase != Phase::kFree) --num_in_progress_;
    f.phase = Phase::kFree;
    --state_.stats.fetches;
    throw;
  }
  return id;
}

Status Fetches::cancel(quire_fetch_id id) {
  for (uint32_t i = 0; i < fetches_.size(); ++i) {
    if (fetches_[i].phase == Phase::kFree || fetches_[i].id != id) continue;
    fetches_[i].is_cancelled = true;  // where it cannot end at once, the next call tries again
    guarded(i, [&] { give_up(i, QUIRE_FETCH_CANCELLED); });
    return {};
  }
  return fail(QUIRE_NOT_FOUND, "fetch: %llu is not in progress", static_cast<unsigned long long>(id));
}

void Fetches::stop() noexcept {
  is_stopping_ = true;
  for (uint32_t i = 0; i < fetches_.size(); ++i) {
    if (fetches_[i].phase == Phase::kLooking || fetches_[i].phase == Phase::kLookingAgain) orphan_lookups(i, false);
    fetches_[i].pending.clear();
  }
}

// All of a load is as if it had not come: nobody needs it any more, so nothing is checked. Where a transfer has not ended its blocks stay
// held, and nobody lets them go.
void Fetches::forget_all() noexcept {
  for (uint32_t i = 0; i < fetches_.size(); ++i) {
    Fetch& f = fetches_[i];
    if (f.phase != Phase::kPreparing && f.phase != Phase::kLoading) continue;
    f.lost.lose_all();
    uint64_t committed = 0;
    quire_hold_id late = 0;
    guarded(i, [&] { (void)state_.cache->load_end(f.load, f.lost.failures(), &committed, f.slots.empty() ? nullptr : &late); });
  }
}

void Fetches::advance() noexcept {
  const int64_t now = state_.now();
  for (uint32_t i = 0; i < fetches_.size(); ++i) {
    Fetch& f = fetches_[i];
    if (f.phase == Phase::kFree) continue;
    guarded(i, [&] {
      if (f.is_cancelled) return give_up(i, QUIRE_FETCH_CANCELLED);
      if (f.phase == Phase::kAsking) {
        if (f.is_doomed || now >= f.deadline || !questions_.move_on(i, &f)) give_up(i, f.ending.outcome);
        return;
      }
      if (f.is_doomed) return give_up(i, QUIRE_FETCH_FAILED);
      const bool has_answers = (f.phase == Phase::kLooking && f.asks_others) || f.phase == Phase::kLookingAgain;
      if (now >= f.deadline && has_answers && !f.has_deadline) return choose_without_the_rest(i);
      if (now >= f.deadline || now >= worth_.too_slow_at(f)) return give_up(i, QUIRE_FETCH_LATE);
      if (f.unasked != 0 && (f.phase == Phase::kLooking || f.phase == Phase::kLookingAgain)) ask_rest(i);
      if (f.phase == Phase::kMeeting && !questions_.move_on(i, &f)) return give_up(i, QUIRE_FETCH_FAILED);
      if (f.phase == Phase::kPreparing) start_loads(i);
      if (f.phase == Phase::kLoading) awaiting_.ask(i, &f);
      if (f.phase == Phase::kLoading) submit_pending(i);
    });
  }
}

void Fetches::lose_streams() noexcept {
  for (Fetch& f : fetches_) f.is_doomed = f.is_doomed || f.phase == Phase::kPreparing;
}

int64_t Fetches::next_deadline() const {
  int64_t next = INT64_MAX;
  for (const Fetch& f : fetches_) {
    if (f.phase == Phase::kFree) continue;
    next = std::min({next, f.deadline, worth_.too_slow_at(f)});
    if (f.awaits && f.phase == Phase::kLoading && f.coming_slot == kNone) next = std::min(next, f.ask_at);
  }
  return next;
}

uint64_t Fetches::take_results(std::span<quire_fetch_result> out) {
  const size_t n = std::min(out.size(), results_.size());
  std::copy_n(results_.begin(), n, out.begin());
  results_.erase(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(n));
  return n;
}

void Fetches::finish(uint32_t index, quire_fetch_outcome outcome, uint64_t committed) {
  Fetch& f = fetches_[index];
  if (f.phase != Phase::kAsking && !is_stopping_ && questions_.is_due(f, outcome, committed)) {
    f.phase = Phase::kAsking;
    f.ending = {outcome, committed, 0, kNone, false};
    if (questions_.move_on(index, &f)) return;
  }
  const bool has_come = f.committed > 0;
  if (has_come && (outcome == QUIRE_FETCH_NOTHING || outcome == QUIRE_FETCH_SLOWER)) outcome = QUIRE_FETCH_DONE;  // nothing more
  committed = std::max(committed, f.committed);
  quire_fetch_result r{};
  r.fetch = f.id;
  r.sequence = f.sequence.value;
  r.outcome = outcome;
  r.committed = committed;
  r.hit_tokens = std::min(has_come ? f.found : f.position, committed);
  for (size_t t = 0; t < f.bytes_of.size(); ++t) f.bytes_of[t] += f.bytes_before[t];
  r.bytes = f.bytes_here + std::accumulate(f.bytes_before.begin(), f.bytes_before.end(), uint64_t{0});
  r.elapsed_ns = state_.now() - f.begun;
  const auto most = std::max_element(f.bytes_of.begin(), f.bytes_of.end());
  r.tier = most == f.bytes_of.end() || *most == 0 ? kNone : static_cast<uint32_t>(most - f.bytes_of.begin());
  results_.push_back(r);
  ++state_.stats.outcomes[outcome];
  state_.stats.tokens_hit += r.hit_tokens;
  state_.stats.tokens_fetched += committed - r.hit_tokens;
  state_.stats.tokens_asked += f.longest - std::min(f.longest, r.hit_tokens);
  state_.stats.fetch_ns += static_cast<uint64_t>(std::max<int64_t>(r.elapsed_ns, 0));
  ++state_.stats.fetch_latency[latency_element(r.elapsed_ns)];
  if (r.tier != kNone) state_.tiers[r.tier]->stats.tokens_fetched += committed - r.hit_tokens;
  if (f.peer_tier != kNone) state_.remove(f.peer_tier, RecordKey{}, f.peer_key);  // no key: all of the offer
  f.phase = Phase::kFree;
  --num_in_progress_;
}

// Nobody waits for their answers any more.
void Fetches::orphan_lookups(uint32_t index, bool is_late) {
  for (uint32_t slot = 0; slot < Transfers::kMost; ++slot) {
    Transfer& t = state_.transfers->at(slot);
    if (t.kind != TransferKind::kLookup || t.owner != index || !state_.transfers->is_open(slot)) continue;
    t.owner = kNone;
    if (is_late) lookup_is_late(t);
    state_.cancel(slot);
  }
}

// The request goes on at once. Transfers that were not proved to have ended keep their blocks.
void Fetches::give_up(uint32_t index, quire_fetch_outcome outcome) {
  Fetch& f = fetches_[index];
  const int64_t now = state_.now();
  const bool is_slow = outcome == QUIRE_FETCH_LATE && now >= worth_.too_slow_at(f);
  if (f.phase == Phase::kAsking) {
    questions_.give_up(&f);
    return finish(index, outcome, f.ending.committed);
  }
  if (f.phase == Phase::kMeeting) {
    questions_.give_up(&f);
    return finish(index, outcome, 0);
  }
  if (f.phase == Phase::kLooking || f.phase == Phase::kLookingAgain) {
    orphan_lookups(index, outcome == QUIRE_FETCH_LATE && now >= f.fair);
    return finish(index, outcome, 0);
  }
  for (const PendingLoad& load : f.pending) {
    Transfer t;
    t.part = load.source;
    t.end = load.end;
    if (arrivals_.find_wanted(f, state_.sources->part_of(load.source), &t)) note_failure(state_, t, &f);
  }
  f.pending.clear();
  awaiting_.stop(&f);
  awaiting_.lose(&f);
  // What was not asked for yet, or is not known for want of memory, is not there.
  if (f.phase == Phase::kPreparing || f.is_doomed) f.lost.lose_all();
  for (const uint32_t slot : f.slots) note_failure(state_, state_.transfers->at(slot), &f);
  uint64_t committed = 0;
  quire_hold_id late = 0;
  const Status ended = state_.cache->load_end(f.load, f.lost.failures(), &committed, f.slots.empty() ? nullptr : &late);
  if (!ended.ok()) return;  // all holds exist: the next call tries again
  uint32_t tiers = 0;
  for (const uint32_t slot : f.slots) {
    Transfer& t = state_.transfers->at(slot);
    t.owner = kNone;
    t.quarantine = late;
    if (t.copies.empty()) tiers |= 1u << t.tier;  // else the device is late
    state_.cancel(slot);
  }
  if (is_slow) worth_.learn_from_slow(f, tiers, now);
  if (outcome == QUIRE_FETCH_LATE && now >= f.fair) count_late(state_, tiers | f.late);
  if (late != 0) quarantine_.begin(late, f.slots.size());
  f.slots.clear();
  finish(index, outcome, committed);
}

void Fetches::end_load(uint32_t index, quire_fetch_outcome outcome) {
  Fetch& f = fetches_[index];
  awaiting_.stop(&f);
  uint64_t committed = 0;
  const Status ended = state_.cache->load_end(f.load, f.lost.failures(), &committed);
  if (!ended.ok()) return finish(index, QUIRE_FETCH_FAILED, 0);  // it was there a moment ago: a bug, but nothing hangs
  for (size_t t = 0; t < state_.tiers.size(); ++t) {
    if (f.awaits && t == f.peer_tier) continue;  // its time is that of computing
    state_.tiers[t]->saw_load(f.bytes_of[t], f.elapsed_of[t]);
  }
  if (state_.now() >= f.fair) count_late(state_, f.late);
  if (outcome == QUIRE_FETCH_DONE && committed <= f.position) outcome = QUIRE_FETCH_FAILED;
  // Where it ends before the last place that was asked for, what follows was missing; but states are not kept everywhere.
  const bool is_whole = outcome == QUIRE_FETCH_DONE && committed == f.boundary;
  const bool is_last = !state_.plan->has_states() && f.boundary != f.candidates.boundaries.back();
  const bool more = is_whole && f.is_cut && !is_last && state_.plan->ends_blocks(committed);
  more ? go_on(index, committed) : finish(index, outcome, committed);
}

void Fetches::go_on(uint32_t index, uint64_t committed) {
  Fetch& f = fetches_[index];
  if (f.committed == 0) f.found = f.position;
  for (const WantedRecord& record : f.table->records()) {  // of an offer that must not end yet
    if (f.is_growing && record.size != 0 && record.tier == f.peer_tier) f.earlier.push_back(record.key);
  }
  f.committed = f.hit = f.full_hit = f.position = committed;
  f.load = StepId(0);
  f.phase = Phase::kLooking;
  f.asks_others = f.is_far = f.lacks_answers = f.awaits = false;
  for (size_t t = 0; t < f.bytes_of.size(); ++t) f.bytes_before[t] += f.bytes_of[t];
  f.bytes_of.assign(f.bytes_of.size(), 0);
  f.elapsed_of.assign(f.elapsed_of.size(), 0);
  f.bytes_wanted = f.bytes_here = 0;
  f.assemblies.clear();
  limit_part(state_, worth_, &f);
  if (f.candidates.boundaries.empty() || !name_prompt(state_, &f).ok()) return finish(index, QUIRE_FETCH_DONE, committed);
  look_up(index);
}

void Fetches::ended(uint32_t slot, const quire_completion& end) noexcept {
  const bool is_lookup = state_.transfers->at(slot).kind == TransferKind::kLookup;
  const uint32_t index = state_.transfers->at(slot).owner;
  if (state_.transfers->at(slot).kind == TransferKind::kDescription) {
    if (index == kNone || is_stopping_) return state_.close(slot);
    if (fetches_[index].phase == Phase::kMeeting) {
      if (!questions_.ended(slot, end, &fetches_[index])) guarded(index, [&] { met(index); });
      return;
    }
    if (!questions_.ended(slot, end, &fetches_[index])) guarded(index, [&] { give_up(index, fetches_[index].ending.outcome); });
    return;
  }
  if (state_.transfers->at(slot).kind == TransferKind::kComing) {
    if (index == kNone || is_stopping_) return state_.close(slot);
    return guarded(index, [&] {
      if (!awaiting_.ended(slot, end, &fetches_[index])) return give_up(index, QUIRE_FETCH_LATE);
      submit_pending(index);
    });
  }
  if (index != kNone) return guarded(index, [&] { is_lookup ? lookup_ended(slot, end) : load_ended(slot, end); });
  if (is_lookup) return lookup_ended(slot, end);
  quarantine_.ended(state_.transfers->at(slot).quarantine);
  state_.close(slot);
}

}  // namespace quire
