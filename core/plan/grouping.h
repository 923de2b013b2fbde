// Policy vllm: which layers share block tables. Pure functions over per-layer specs, in the steps of the published algorithm.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"

namespace quire {

enum class CacheFamily { kFull, kLatent, kWindow, kChunk, kState, kCross };

// What one layer of one shard caches, as far as grouping cares.
struct CacheSpec {
  CacheFamily family = CacheFamily::kFull;
  uint64_t block_tokens = 0;
  uint64_t token_bytes = 0;  // payload of one token; 0 for states
  uint64_t state_bytes = 0;  // payload of one state; 0 otherwise
  uint64_t padded_page = 0;  // 0 = not padded
  uint64_t range = 0;        // window or chunk in tokens; part of what must be equal
  uint64_t told_window = 0;  // full layers: window or chunk they compute with although everything is kept
  uint64_t told_chunk = 0;
  uint64_t extra_blocks = 0;       // states: speculative slots
  bool strided_blocks = true;      // kernels read the block stride, so pages may be padded
  std::vector<uint64_t> identity;  // everything else that must be equal inside a group: heads, widths, dtype, ...
  uint32_t layer = 0;              // for messages

  uint64_t page_bytes() const { return padded_page != 0 ? padded_page : state_bytes != 0 ? state_bytes : block_tokens * token_bytes; }
};

struct Grouping {
  std::vector<std::vector<uint32_t>> groups;  // indices into specs; group ids follow the first appearance
  bool uniform_type = false;                  // one group whose layers have pages of different size
};

// Turns windows and chunks into full layers that tell their range, so that all layers can share one table. Nothing happens when they can
// already. Errors: INVALID_ARGUMENT when no full layer is there or layers still differ in kind.
Status keep_everything(std::vector<CacheSpec>* specs);

// Groups layers; unifies page sizes in place (blocks scaled, pages padded) when there are several groups.
// Errors: INVALID_ARGUMENT (told windows that differ), NOT_REPRESENTABLE (page sizes that cannot be unified; names two layers).
Result<Grouping> group_layers(std::vector<CacheSpec>* specs);

// Bytes that one block id stands for: sum of the pages of a uniform-type group, else page * length of the longest group. `mine` says which
// specs a worker has. Sums beyond 63 bits stay at the limit.
uint64_t pool_bytes_per_block(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<bool>& mine);

}  // namespace quire
