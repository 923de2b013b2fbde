// Several engines behind a router, each with a cache of its own: how much of a trace is found in
// the caches, and how evenly it is spread, depends on which engine gets which request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/replay.h"

namespace quire::replay {

enum class Routing {
  kPrefix,       // where the prompt and what waits before it leave fewest tokens to compute
  kRandom,       // by seed
  kLeastLoaded,  // where there are fewest requests
};

// All of them, in their order.
inline constexpr Routing kRoutings[] = {Routing::kPrefix, Routing::kRandom, Routing::kLeastLoaded};

struct Fleet {
  std::vector<quire_cache*> caches;  // of one engine each; borrowed
  // Tiers of the engines, by engine, or empty; borrowed. They may share a store.
  std::vector<Tier*> tiers;
  Options engine;  // of each; samples and follow are not used
  Routing routing = Routing::kPrefix;
  uint64_t seed = 1;  // of random
};

// "prefix", "random", "least-loaded". Throws std::invalid_argument.
Routing routing_of(const std::string& name);
const char* name_of(Routing routing);

struct FleetResult {
  uint64_t prompt_tokens = 0;
  uint64_t hit_tokens = 0;
  uint64_t tier_tokens = 0;  // beyond that, from tiers
  uint64_t computed_tokens = 0;
  uint64_t preemptions = 0;
  // Engines step together until the last one is done: the steps that this takes, and the share of
  // them in which an engine has something to do, over all engines.
  uint64_t rounds = 0;
  double busy = 0;
  uint64_t most_requests = 0;   // of one engine
  uint64_t least_requests = 0;  // of one engine
  // If the timing counts. A step takes as long as that of the busiest engine.
  double simulated_seconds = 0;
};

// A request is routed when fewer than concurrency requests per engine are in the fleet; a turn of a
// conversation when the one before it has ended. Throws as run() does.
FleetResult run_fleet(const Fleet& fleet, const std::vector<Request>& trace);

}  // namespace quire::replay
