// Runs a trace through a cache without computing anything: continuous batching with chunked prefill
// and preemption, one step at a time. Only the time inside the library is measured.
#pragma once

#include <quire/cache.h>

#include <cstdint>
#include <vector>

#include "replay/schedule.h"
#include "replay/trace.h"

namespace quire::replay {

class Tier;

struct Options {
  uint32_t concurrency = 64;         // sequences running at once, at most the cache's max_sequences
  uint32_t tokens_per_step = 8192;   // computed by one step over all sequences
  uint64_t max_output = UINT64_MAX;  // tokens generated per request at most
  bool whole_prompts = true;         // a request starts when its whole prompt fits, not its first chunk
  uint32_t samples = 0;              // of the series, spread evenly over the requests
  uint32_t num_groups = 0;           // whose pages are in the samples
  Tier* tier = nullptr;              // borrowed; below the cache
  uint64_t follow = UINT64_MAX;      // the request whose life is recorded, if there is one
  Timing timing;                     // when requests begin to wait
  // Borrowed, may be NULL: nanoseconds on the clock of the cache's runtime. A request that ends
  // takes a millisecond on it, so what the cache counts by time is counted by requests.
  int64_t* clock = nullptr;
  // Called after every step with the requests that have ended.
  void (*progress)(uint64_t requests, uint64_t all) = nullptr;
};

// Pages that a group has now.
struct GroupPages {
  uint64_t used = 0;
  uint64_t cached = 0;
};

// The run so far, when a request ended. What counts events counts from the beginning.
struct Sample {
  uint64_t requests = 0;
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;
  uint64_t hit_tokens = 0;
  uint64_t misses[8] = {};
  uint64_t preemptions = 0;
  uint64_t evicted_pages = 0;
  uint64_t hand_overs = 0;
  uint64_t pages_used = 0;        // now
  uint64_t pages_evictable = 0;   // now
  uint64_t pages_free = 0;        // now
  uint64_t checkpoint_bytes = 0;  // now
  uint64_t running = 0;           // now
  std::vector<GroupPages> groups;
};

// A request after a step.
struct Moment {
  uint64_t step = 0;
  uint64_t tokens = 0;     // that it has in the cache
  const char* phase = "";  // found, waiting (preempted), prompt, output, done
};

struct Result {
  uint64_t requests = 0;
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  uint64_t prompt_tokens = 0;  // of first matches: a preempted request counts once
  uint64_t hit_tokens = 0;     // of first matches, in the cache
  uint64_t tier_tokens = 0;    // of first matches, from the tier beyond that
  uint64_t computed_tokens = 0;
  uint64_t misses[8] = {};      // first matches by quire_miss
  std::vector<uint32_t> hits;   // by request: tokens of its first match
  std::vector<uint32_t> found;  // the same with those of the tier
  std::vector<Sample> series;
  std::vector<Moment> followed;
  double simulated_seconds = 0;  // of the run, if the timing counts
  double seconds = 0;            // inside the library
  double max_us = 0;             // longest single call
};

// Tokens of the longest request of a trace, its output included.
uint64_t longest_request(const std::vector<Request>& trace);

// Throws client::Failure when a call fails or when a request does not fit the cache at all.
Result run(quire_cache* cache, const std::vector<Request>& trace, const Options& options);

}  // namespace quire::replay
