// What other caches would hit on a trace: simulations that share nothing with the library's cache
// but the sizes of its plan. They run the same requests in the same order, with the same number of
// sequences and the same tokens per step.
//
// A prompt is found at multiples of the match unit, and at least its last token is computed. What a
// step computes is found from the next step on. A request starts when its whole prompt and all that
// it will generate fit beside the running ones, so none is preempted. Running requests take their
// attention units, shared ones once, and each of them one state and one window of each group.
// Until a unit is computed, its bytes are the cache's (kMarconi: from the request's start on they
// are not).
#pragma once

#include <quire/config.h>
#include <quire/model.h>

#include <cstdint>
#include <string>
#include <vector>

#include "replay/content.h"
#include "replay/replay.h"

namespace quire::replay {

enum class Oracle {
  // Everything that was computed stays.
  kInfinite,
  // States and windows are free and everywhere; attention units are evicted by last use.
  kLru,
  // A checkpoint (a state of each state group, a window of each windowed group) costs its bytes. It
  // is written exactly where the next request that comes by will resume, if one comes. Units and
  // checkpoints are evicted by last use: units from the end of the last request that has them,
  // checkpoints from when they were written or resumed from. So it is no upper bound.
  kClairvoyant,
  // The rules of Marconi (arXiv 2411.19379). Checkpoints at ends of prompts and at branch points,
  // there by the second request that comes by. A radix tree whose nodes with at most one child can
  // be evicted: a leaf with its units and checkpoint, another one with its checkpoint alone. The one
  // with the lowest utility goes: its recency plus the compute that it saves beyond its parent, per
  // byte, both scaled to 0..1 over all candidates. (The paper tunes the weight of the second term
  // while it runs; here it is 1.)
  kMarconi,
};

// "infinite", "lru", "clairvoyant", "marconi". Throws std::invalid_argument.
Oracle oracle_of(const std::string& name);
const char* name_of(Oracle oracle);

// Sizes in bytes on the shard where a group takes the most, padding included.
struct Sizes {
  uint32_t unit_tokens = 1;       // of the prefix index
  uint64_t pool_bytes = 0;        // without the null page
  uint64_t unit_bytes = 0;        // of the groups that keep everything, per unit
  uint64_t checkpoint_bytes = 0;  // one state of each state group, one window of each windowed group
};
Sizes sizes_of(quire_config* config);

// FLOPs of a prefill up to a token. Token t (from 0) of a layer with attention costs
// 2 * query heads * (K width + V width) * min(t + 1, window); all else 2 * active parameters.
struct Work {
  struct Layer {
    double per_pair = 0;  // FLOPs of a query token and a key token
    uint64_t window = 0;  // tokens; 0 = all
  };
  std::vector<Layer> layers;  // those with the same window as one
  double per_token = 0;

  double of(uint64_t tokens) const;
};
// active_parameters: that compute one token, as far as they are known. Where nothing is known, all
// tokens cost the same.
Work work_of(quire_model* model, double active_parameters);

struct Hits {
  uint64_t hit_tokens = 0;
  double hit_share = 0;      // of all tokens of prompts
  double compute_saved = 0;  // share of the compute of all prompts
};
// hits: tokens by request.
Hits sum_hits(const std::vector<Request>& trace, const std::vector<uint32_t>& hits, const Work& work);

// Tokens hit by each request.
std::vector<uint32_t> simulate(Oracle oracle, const std::vector<Request>& trace, const Content& content, const Sizes& sizes,
                               const Work& work, const Options& options);

}  // namespace quire::replay
