#include "drafter.h"

#include <algorithm>

#include "lm_error.h"
#include "sampling.h"

namespace lm {

void Drafter::check(const Family& draft, const Family& target) {
  if (draft.vocabulary() == target.vocabulary()) return;
  throw Error("the draft has a vocabulary of " + std::to_string(draft.vocabulary()) +
              " tokens, the model one of " + std::to_string(target.vocabulary()));
}

// Computes the tokens that the draft has not seen. The first proposal comes out of the last one.
void Drafter::catch_up(const std::vector<Want>& wants,
                       std::vector<std::vector<int32_t>>& proposals) {
  std::vector<bool> done(wants.size());
  for (;;) {
    std::vector<Ask> asks;
    std::vector<size_t> of;
    uint32_t budget = draft_.kv().settings().max_step_tokens;
    for (size_t i = 0; i < wants.size() && budget != 0; ++i) {
      Live& live = lives_.at(wants[i].key);
      if (done[i]) continue;
      const auto rest =
          static_cast<uint32_t>(std::min<uint64_t>(live.tokens.size() - live.reserved, budget));
      asks.push_back({&live, rest, live.reserved == 0 ? QUIRE_ENTRY_MATCH : 0U});
      of.push_back(i);
      budget -= rest;
    }
    if (asks.empty()) return;
    Flight flight = draft_.reserve(asks);
    for (size_t a = 0; a < asks.size(); ++a) {
      if (flight.results[a].code == QUIRE_OK || flight.results[a].reason == QUIRE_REFUSAL_STEP_FULL)
        continue;
      draft_.preempt(*asks[a].live);  // no room: no proposal this time
      done[of[a]] = true;
    }
    if (!flight) continue;
    draft_.run(flight);
    draft_.commit(flight);
    for (size_t r = 0; r < flight.rows.size(); ++r) {
      const StepRow& row = flight.rows[r];
      if (row.position + row.tokens < row.live->tokens.size()) continue;
      const auto at = std::find_if(of.begin(), of.end(),
                                   [&](size_t i) { return &lives_.at(wants[i].key) == row.live; });
      done[*at] = true;
      proposals[*at].push_back(sample_token(flight.logits.row(flight.first_logits[r]), {}, 0, 0));
    }
  }
}

std::vector<std::vector<int32_t>> Drafter::propose(const std::vector<Want>& wants) {
  std::vector<std::vector<int32_t>> proposals(wants.size());
  std::vector<Want> fitting;
  std::vector<size_t> places;
  for (size_t i = 0; i < wants.size(); ++i) {
    const Want& want = wants[i];
    if (want.tokens->size() + want.most >= draft_.kv().max_len()) continue;
    auto [at, is_new] = lives_.try_emplace(want.key);
    if (is_new) at->second = draft_.begin(*want.tokens);
    at->second.tokens = *want.tokens;
    fitting.push_back(want);
    places.push_back(i);
  }
  std::vector<std::vector<int32_t>> found = propose_fitting(fitting);
  for (size_t i = 0; i < places.size(); ++i) proposals[places[i]] = std::move(found[i]);
  return proposals;
}

std::vector<std::vector<int32_t>> Drafter::propose_fitting(const std::vector<Want>& wants) {
  std::vector<std::vector<int32_t>> proposals(wants.size());
  catch_up(wants, proposals);
  std::vector<Live> forks(wants.size());
  for (size_t i = 0; i < wants.size(); ++i) {
    if (!proposals[i].empty() && wants[i].most > 1) forks[i] = draft_.fork(lives_.at(wants[i].key));
  }
  for (uint32_t round = 1; round < tokens_; ++round) {
    std::vector<Ask> asks;
    for (size_t i = 0; i < wants.size(); ++i) {
      if (!forks[i].sequence || proposals[i].size() != round || round >= wants[i].most) continue;
      forks[i].tokens.push_back(proposals[i].back());
      asks.push_back({&forks[i], 1});
    }
    if (asks.empty()) break;
    Flight flight = draft_.reserve(asks);
    if (!flight) break;
    draft_.run(flight);
    draft_.commit(flight);
    for (size_t r = 0; r < flight.rows.size(); ++r) {
      const auto i = static_cast<size_t>(flight.rows[r].live - forks.data());
      proposals[i].push_back(sample_token(flight.logits.row(flight.first_logits[r]), {}, 0, 0));
    }
  }
  return proposals;
}

}  // namespace lm
