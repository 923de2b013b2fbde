// What one layer of one rank caches, as far as policy vllm groups and sizes it. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/checked.h"
namespace quire {

// How states are kept for prefixes: not at all, at block boundaries where a chunk ends, at every block.
enum class StateMode { kOff, kAlign, kAll };

// kHidden: rows of a speculator's hidden states. kTrailing: full attention that reads a prefix and a window (range). kSink: full attention
// with sink_tokens in front. kEncoder: attends but keeps nothing.
enum class CacheFamily { kFull, kLatent, kHidden, kTrailing, kSink, kWindow, kLatentWindow, kChunk, kState, kCross, kEncoder };

struct CacheSpec {
  CacheFamily family = CacheFamily::kFull;
  uint64_t block_tokens = 0;
  uint64_t row_bytes = 0;       // payload of one stored row, all heads; 0 for states
  uint64_t tokens_per_row = 1;  // compressed caches store one row for several tokens
  uint64_t alignment = 0;       // pages are rounded up to it; 0 = none
  uint64_t state_bytes = 0;     // payload of one state; 0 otherwise
  uint64_t padded_page = 0;     // 0 = not padded
  uint64_t range = 0;           // window or chunk in tokens; part of what must be equal
  uint64_t extra_retained = 0;  // windows: tokens kept behind the window for drafts
  uint64_t sink_tokens = 0;
  uint64_t told_window = 0;  // full layers: window or chunk they compute with although everything is kept
  uint64_t told_chunk = 0;
  uint64_t extra_blocks = 0;               // states: speculative slots
  StateMode state_mode = StateMode::kOff;  // states: how checkpoints are kept
  bool strided_blocks = true;              // kernels read the block stride, so pages may be padded
  bool non_causal = false;                 // a group is, when one of its layers is
  std::vector<uint64_t> identity;          // everything else that must be equal inside a group: heads, widths, dtype, ...
  std::vector<uint64_t> format;            // latent caches: encoding and model version, equal inside a group
  bool drafts_in_last = false;             // the model's draft layers write the cache of the last layer
  uint64_t precision = 0;                  // names element type and quantisation; recycled blocks of another one must be zeroed
  uint32_t layer = 0, sub = 0;             // for messages

  bool keeps_tokens() const { return family != CacheFamily::kState; }
  // Payload of a block, without padding. A size beyond 63 bits stays at the limit.
  uint64_t unpadded_page() const {
    if (state_bytes != 0) return state_bytes;
    return checked_mul(row_bytes, block_tokens / std::max<uint64_t>(tokens_per_row, 1)).value_or(kMaxSize);
  }
  uint64_t page_bytes() const {
    if (alignment != 0 && state_bytes == 0) return round_up(std::min(unpadded_page(), kMaxSize / 2), alignment);
    return padded_page != 0 ? padded_page : unpadded_page();
  }
};

// Whether the layer keeps every token: full attention in all its kinds.
constexpr bool keeps_every_token(CacheFamily family) {
  return family == CacheFamily::kFull || family == CacheFamily::kLatent || family == CacheFamily::kHidden ||
         family == CacheFamily::kTrailing || family == CacheFamily::kSink;
}
constexpr bool is_latent(CacheFamily family) { return family == CacheFamily::kLatent || family == CacheFamily::kHidden; }
constexpr bool is_window(CacheFamily family) { return family == CacheFamily::kWindow || family == CacheFamily::kLatentWindow; }

}  // namespace quire
