// Tiers: what was computed once comes back later, if the store has it still. What comes is read like everything else.
#include <algorithm>

#include "tests/stamps/runner.h"

namespace quire::stamps {

void Runner::choose_tiers(const Legacy& of_others) {
  if (tiered_ && limits_.reuse) tiers_ = TiersOfRun::make(plan_, runtime_.get(), cache_.get(), bytes_.get(), of_others, &tier_dice_);
  tiered_ = tiers_ != nullptr;
  if (!tiered_) return;
  bytes_->ignore_owners();  // who zeroes and writes in between is not seen here
  trace("tiers", tiers_->stats().unit_tokens);
}

void Runner::fetch_or_run() {
  if (tiers_ == nullptr) return;
  if (tier_dice_.percent(3)) reset();  // otherwise most of what tiers have is in the cache as well
  if (tier_dice_.percent(30)) begin_fetch();
  if (!inherits_ && tier_dice_.percent(1)) tiers_->store().forget_some(tier_dice_.small(0, 400));
  if (tier_dice_.percent(1)) cancel_fetch();
  if (tier_dice_.percent(30)) run_tiers();
}

void Runner::begin_fetch() {
  if (sequences_.empty()) return;
  Sequence& s = sequences_[tier_dice_.below(sequences_.size())];
  if (!s.fresh() || s.loading || s.in_flight > 0 || (s.flags & QUIRE_SEQUENCE_NO_MATCH) != 0 || length_of(s) > 0) return;
  const int64_t deadline = tier_dice_.percent(20) ? static_cast<int64_t>(tier_dice_.between(1, 60)) : 0;
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_id fetch = 0;
  const quire_code code = quire_fetch_begin(tiers_->get(), s.id, s.text.symbols().data(), s.prompt, deadline, &fetch, &err);
  if (code == QUIRE_RESOURCE_EXHAUSTED) return;  // as many as there may be
  must_call(code, err, "begin of a fetch");
  trace("fetch", s.id, s.prompt, fetch);
  s.fetch = fetch;
  s.loading = true;
  tallies_.count(kFetches);
}

void Runner::cancel_fetch() {
  for (const Sequence& s : sequences_) {
    quire_error err = QUIRE_INIT(quire_error);
    if (s.fetch == 0) continue;
    const quire_code code = quire_fetch_cancel(tiers_->get(), s.fetch, &err);
    trace("cancel", s.id, static_cast<uint64_t>(code));
    return demand(code == QUIRE_OK || code == QUIRE_NOT_FOUND, "cancelling a fetch");
  }
}

// Every reserved step is prepared before, for loads are prepared here.
void Runner::run_tiers() {
  carry_out_until(in_flight_.size());
  const quire_cache_stats before = stats();
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_result results[4];
  uint64_t count = 0;
  must_call(quire_tiers_run(tiers_->get(), 0, results, std::size(results), &count, &err), err, "run of tiers");
  const quire_cache_stats after = stats();
  counters_.refused_entries += after.refused_entries - before.refused_entries;
  counters_.matches += after.matches - before.matches;
  counters_.matched_prompt_tokens += after.matched_prompt_tokens - before.matched_prompt_tokens;
  counters_.hit_tokens += after.hit_tokens - before.hit_tokens;
  for (uint64_t i = 0; i < count; ++i) end_fetch(results[i]);
}

void Runner::end_fetch(const quire_fetch_result& result) {
  const auto s = std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence& each) { return each.fetch == result.fetch; });
  demand(s != sequences_.end() && s->id == result.sequence, "a fetch that nobody began, or that ended twice");
  trace("fetched", s->id, result.committed, static_cast<uint64_t>(result.outcome));
  demand(result.committed < s->prompt, "a fetch leaves nothing to compute");
  demand(computed_.knows(s->text, result.committed), "a fetch of tokens that nobody computed");
  quire_error err = QUIRE_INIT(quire_error);
  quire_sequence_info info = QUIRE_INIT(quire_sequence_info);
  must_call(quire_sequence_get_info(cache_.get(), s->id, &info, &err), err, "info");
  demand(info.known >= result.committed && info.known <= s->prompt, "symbols that a fetch leaves known");
  s->fetch = 0;
  s->loading = false;
  s->committed = s->reserved = result.committed;
  s->known = info.known;
  s->whole = false;
  agree(*s);
  if (result.bytes > 0 && result.committed > 0) tallies_.count(inherits_ ? kInherited : kFetched);
  if (result.outcome == QUIRE_FETCH_LATE) tallies_.count(kFetchedLate);
}

// Nothing is on its way any more. Late transfers end, stores do, and loads.
void Runner::settle_tiers() {
  if (tiers_ == nullptr) return;
  tiers_->hurry();
  for (const Sequence& s : sequences_) {
    if (s.fetch != 0) (void)quire_fetch_cancel(tiers_->get(), s.fetch, nullptr);
  }
  const auto fetching = [this] {
    return std::any_of(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return s.fetch != 0; });
  };
  for (int turns = 0; turns < 10000 && (!tiers_->is_idle() || fetching()); ++turns) {
    run_tiers();
    time_ += 100;
  }
  demand(tiers_->is_idle() && !fetching(), "tiers do not come to rest");
}

void Runner::drop_tiers() {
  if (tiers_ == nullptr) return;
  settle_tiers();
  const quire_tiers_stats now = tiers_->stats();
  tallies_.deeds[kTierUnits] += now.units_taken;
  tallies_.deeds[kQuarantined] += now.quarantined_ever;
  for (const std::string& violation : tiers_->store().violations()) throw Mismatch("the store: " + violation);
  legacy_ = tiers_->legacy();
  tiers_.reset();
}

std::unique_ptr<Heritage> Runner::leave() {
  if (legacy_.store == nullptr || !plan_.by_head || inherits_) return nullptr;
  const uint64_t first = heir_dice_.below(3);
  for (uint64_t i = 0; i < 3; ++i) {
    const uint32_t ranks = 1u << (first + i) % 3;
    if (ranks == plan_.head_ranks) continue;
    Plan plan = make_plan(plan_, ranks, heir_dice_);
    if (plan.config == nullptr || legacy_.unit_tokens % grid_of(plan) != 0) continue;
    return std::make_unique<Heritage>(Heritage{std::move(plan), phrases_, computed_, legacy_});
  }
  return nullptr;
}

}  // namespace quire::stamps
