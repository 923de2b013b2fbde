// fleet.h: one run: engines start, all requests are answered, engines end. Meanwhile engines and
// the store may be killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fleet_engine.h"
#include "fleet_options.h"
#include "request.h"

namespace fleet {

// What distinguishes the runs.
struct Mode {
  std::string name;
  bool has_store = false;
  bool has_router = false;  // false: requests go anywhere
};

struct Result {
  std::string name;
  uint64_t requests = 0, prompt_tokens = 0;
  uint64_t local_tokens = 0, store_tokens = 0;  // hit in the engine's pool; fetched from the store
  uint64_t computed_tokens = 0;
  uint64_t rows = 0, mismatches = 0;
  uint64_t kills = 0, hangs = 0, store_kills = 0;
  uint64_t sent_again = 0;
  EngineTotals engines;
  double seconds = 0;
  std::vector<std::vector<uint32_t>> answers;  // by id
};

// Throws Failure, or Interrupted. No process is left in any case.
Result run_fleet(const Options& options, const Mode& mode, const std::vector<Request>& requests);

}  // namespace fleet
