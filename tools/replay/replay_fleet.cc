#include "replay/replay_fleet.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>

#include "client/client.h"
#include "replay/replay_engine.h"

namespace quire::replay {
namespace {

constexpr const char* kNames[] = {"prefix", "random", "least-loaded"};
static_assert(std::size(kNames) == std::size(kRoutings));

class Router {
 public:
  Router(const Fleet& fleet, const std::vector<Request>& trace)
      : fleet_(fleet),
        trace_(trace),
        most_(uint64_t{fleet.engine.concurrency} * fleet.caches.size()),
        schedule_(trace, fleet.engine.timing),
        random_(fleet.seed) {
    Options each = fleet.engine;
    each.samples = 0;
    each.follow = UINT64_MAX;
    for (size_t e = 0; e < fleet.caches.size(); ++e) {
      each.tier = fleet.tiers.empty() ? nullptr : fleet.tiers[e];
      engines_.push_back(std::make_unique<Engine>(fleet.caches[e], trace, each));
    }
  }

  FleetResult run() {
    uint64_t busy = 0;
    std::vector<uint64_t> all_ended;
    while (true) {
      for (const Schedule::Due& due : schedule_.due(queue_.empty() && inside_ == 0)) {
        queue_.insert(due.first ? queue_.begin() : queue_.end(), due.request);
      }
      while (!queue_.empty() && inside_ < most_) dispatch();
      if (inside_ == 0) break;
      ++result_.rounds;
      uint64_t most_tokens = 0;  // of an engine: the others wait for it
      all_ended.clear();
      for (const auto& engine : engines_) {
        if (!engine->busy()) continue;
        ++busy;
        const uint64_t before = engine->result().computed_tokens;
        const std::vector<uint64_t>& ended = engine->step();
        most_tokens = std::max(most_tokens, engine->result().computed_tokens - before);
        all_ended.insert(all_ended.end(), ended.begin(), ended.end());
      }
      schedule_.stepped(most_tokens);
      inside_ -= all_ended.size();
      for (const uint64_t request : all_ended) schedule_.ended(request);
    }
    result_.simulated_seconds = fleet_.engine.timing.counts() ? schedule_.seconds() : 0;
    result_.least_requests = UINT64_MAX;
    for (const auto& engine : engines_) {
      const Result& one = engine->result();
      result_.prompt_tokens += one.prompt_tokens;
      result_.hit_tokens += one.hit_tokens;
      result_.tier_tokens += one.tier_tokens;
      result_.computed_tokens += one.computed_tokens;
      result_.preemptions += one.preemptions;
      result_.most_requests = std::max(result_.most_requests, one.requests);
      result_.least_requests = std::min(result_.least_requests, one.requests);
    }
    const auto all = static_cast<double>(result_.rounds * engines_.size());
    result_.busy = all > 0 ? static_cast<double>(busy) / all : 0;
    return result_;
  }

 private:
  void dispatch() {
    const uint64_t index = queue_.front();
    queue_.pop_front();
    engines_[engine_for(index)]->give(index);
    ++inside_;
  }

  size_t engine_for(uint64_t index) {
    if (fleet_.routing == Routing::kRandom) return std::uniform_int_distribution<size_t>(0, engines_.size() - 1)(random_);
    if (fleet_.routing == Routing::kPrefix) prompt_symbols(trace_[index], &prompt_);
    size_t best = 0;
    uint64_t least = UINT64_MAX;
    for (size_t e = 0; e < engines_.size(); ++e) {
      const uint64_t cost = fleet_.routing == Routing::kLeastLoaded ? engines_[e]->num_requests() : tokens_before(e);
      if (cost >= least) continue;
      least = cost;
      best = e;
    }
    return best;
  }

  // Tokens that the engine computes until the prompt is done.
  uint64_t tokens_before(size_t e) const {
    client::Error error;
    auto found = client::sized<quire_probe_result>();
    client::check(quire_probe(fleet_.caches[e], nullptr, prompt_.data(), prompt_.size(), &found, &error), error);
    return engines_[e]->tokens_to_prefill() + prompt_.size() - found.hit_tokens;
  }

  const Fleet& fleet_;
  const std::vector<Request>& trace_;
  uint64_t most_;
  Schedule schedule_;
  uint64_t inside_ = 0;  // requests that are routed and have not ended
  std::mt19937_64 random_;
  std::deque<uint64_t> queue_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<quire_symbol> prompt_;
  FleetResult result_;
};

}  // namespace

Routing routing_of(const std::string& name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) throw std::invalid_argument("'" + name + "'; must be some of prefix, random, least-loaded");
  return static_cast<Routing>(found - std::begin(kNames));
}

const char* name_of(Routing routing) { return kNames[static_cast<size_t>(routing)]; }

FleetResult run_fleet(const Fleet& fleet, const std::vector<Request>& trace) { return Router(fleet, trace).run(); }

}  // namespace quire::replay
