// What a plan serves: sequences, lengths, and the pages they need. Pure functions of a plan. Nothing here walks over pages.
#pragma once

#include <cstdint>

#include "core/plan/cache_config.h"

namespace quire {

// Blocks (or state slots) that one sequence of `tokens` tokens can need at once in a group.
uint64_t blocks_needed(const GroupPlan& group, uint64_t max_tokens_in_flight, uint64_t tokens);
// Pages that hold them, however the holes lie.
uint64_t pages_needed(const GroupPlan& group, uint64_t blocks);

// Guaranteed: under the worst pattern of holes, every sequence with pages of its own; only this "fits". Packed: were every page full.
// The null page is counted by both.
struct Capacity {
  uint64_t tokens = 0;       // per sequence, as asked
  uint64_t concurrency = 0;  // as asked
  uint64_t sequences = 0;    // of `tokens` tokens
  uint64_t sequences_packed = 0;
  uint64_t longest = 0;  // tokens of each of `concurrency` sequences, at most max_model_len; 0 = none fits
  uint64_t longest_packed = 0;
  uint64_t pages_needed = 0;  // for `concurrency` sequences of `tokens`, guaranteed
  uint64_t pages_needed_packed = 0;
  uint64_t bytes_needed = 0;  // of the shard whose pages are widest, guaranteed
};

// Pages of `sequences` sequences of `tokens` tokens, the null page included; kMaxSize beyond 63 bits.
uint64_t pages_of(const Config& config, uint64_t sequences, uint64_t tokens, bool packed);

Capacity capacity_of(const Config& config, uint64_t tokens, uint64_t concurrency);

// Where every boundary of a block can be hit, keeping a state at each would fill the pool with states: they are kept as far apart as the
// tokens whose keys and values weigh as much. Bytes of all states and of one token over all stages; 0 without states.
uint64_t checkpoint_spacing(double state_bytes, double token_bytes, uint64_t unit_tokens);

}  // namespace quire
