// One replay, and a sweep of them, as JSON: what `quire replay` prints and draws.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "quire/cache_settings.h"
#include "quire/commands.h"
#include "replay/replay.h"
#include "replay/replay_fleet.h"
#include "replay/replay_oracle.h"
#include "replay/trace.h"

namespace quire::tools {

struct ReplayArguments {
  PlanArguments plan;
  std::string trace;
  std::string format = "auto";
  replay::TraceOptions trace_options;
  uint64_t seed = 1;
  CacheSettings cache;
  bool link_tails = false;
  bool first_chunks = false;
  uint64_t tier = 0;            // bytes of a shard in a tier below the cache; 0: none
  bool tier_is_shared = false;  // by the engines of a fleet
  std::vector<replay::Oracle> oracles;
  double active_parameters = 0;
  replay::Options options;
  std::vector<uint64_t> sweep_memory;       // bytes; empty: no sweep over it
  std::vector<std::string> sweep_policies;  // the same
  uint32_t engines = 0;                     // of a fleet; 0: none
  std::vector<replay::Routing> routers;     // in front of it; empty: all
  bool verify = false;
  bool progress = false;  // on standard error
};

// Throws std::invalid_argument and client::Failure, as plan_of() and replay::run() do.
nlohmann::ordered_json replay_json(const ReplayArguments& arguments);

}  // namespace quire::tools
