// What a plan serves: sequences, lengths, and the pages they need. Pure functions of a plan and of how a cache uses it. Nothing here walks
// over pages or tokens.
//
// Sequences share no prefixes here. As long as there are free or evictable pages, a sequence opens pages of its own and fills them one
// block after the other; only where there are none does it take holes in the pages of others.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/plan/cache_config.h"

namespace quire {

// Blocks (or state slots) that one sequence of `tokens` tokens can need at once in a group. States: with the default options of a cache.
uint64_t blocks_needed(const GroupPlan& group, uint64_t max_tokens_in_flight, uint64_t tokens);
// Pages that hold them, wherever in a page the first one lies.
uint64_t pages_needed(const GroupPlan& group, uint64_t blocks);
// Pages of one sequence of `tokens` tokens, whatever it does, with the default options of a cache; the null page included; kMaxSize beyond
// 63 bits.
uint64_t pages_of_one(const Config& config, uint64_t tokens);
// The answer where one sequence of max_model_len does not fit, and one of `fits` tokens does (0 =
// none does). shard: the tightest, with the bytes of its pages.
Status refuse_length(const Config& config, uint64_t fits, uint32_t shard, uint64_t page_bytes);

// The pool in tokens, as other engines print it: sequences of the longest length, not rounded, times that length.
uint64_t size_in_tokens(const Config& config);

// How a cache uses a plan: what its options say of room.
struct CacheUse {
  uint64_t step_depth = 2;
  uint64_t step_tokens = 8192;   // of all rows of a step
  uint64_t spare_pages = 0;      // that a sequence which begins leaves free
  uint64_t branches = 0;         // draft tokens whose states are written one by one
  uint64_t spacing = 0;          // tokens between states that kernels write on the way; 0: none
  uint64_t kept_on_the_way = 0;  // states between them that a row writes
  bool in_place = false;         // states are written where they are read
  bool publishes = true;         // prefixes are kept for reuse
};

struct Capacity {
  uint64_t tokens = 0;       // per sequence, as asked
  uint64_t concurrency = 0;  // as asked
  // Sequences of `tokens` tokens:
  uint64_t guaranteed = 0;    // no entry is refused as long as there are no more, whatever they do and in whatever order
  uint64_t decoding = 0;      // started one after the other, each decodes in every step until all have so many
  uint64_t resident = 0;      // computed one after the other, until the first is refused; they wait then
  uint64_t longest = 0;       // tokens of each of `concurrency` sequences, guaranteed, at most max_model_len; 0 = none fits
  uint64_t pages_needed = 0;  // for `concurrency` sequences of `tokens`, guaranteed
  uint64_t bytes_needed = 0;  // of the shard whose pages are widest
};

Capacity capacity_of(const Config& config, const CacheUse& use, uint64_t tokens, uint64_t concurrency);

// Where every boundary of a block can be hit, keeping a state at each would fill the pool with states: they are kept as far apart as the
// tokens whose keys and values weigh as much. Bytes of all states and of one token over all stages; 0 without states.
uint64_t checkpoint_spacing(double state_bytes, double token_bytes, uint64_t unit_tokens);

}  // namespace quire
