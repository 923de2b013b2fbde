// Policy vllm: the block of attention layers grows until one page of one layer holds one recurrent state. Pure arithmetic.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/model/cache_spec.h"

namespace quire {

struct HybridBlockInput {
  uint64_t token_bytes = 0;       // of one attention layer of one shard
  uint64_t state_bytes = 0;       // of one state of one shard
  uint64_t block_tokens = 0;      // wanted block
  uint64_t min_kernel_block = 0;  // smallest block the kernels take
  uint64_t max_model_len = 0;
  uint64_t chunk_tokens = 0;        // kAll: spacing the state kernels work at
  uint64_t state_block_tokens = 0;  // asked for; 0 = derived
  bool latent = false;              // MLA: kernel blocks of at least 128 tokens
  StateMode mode = StateMode::kOff;
};

struct HybridBlock {
  uint64_t block_tokens = 0;
  uint64_t state_block_tokens = 0;
  uint64_t page_bytes = 0;  // of one layer; states are padded to it; 0 without states
};

// Errors: INVALID_ARGUMENT (zero sizes), OUT_OF_RANGE (products beyond 63 bits).
Result<HybridBlock> grow_block(const HybridBlockInput& input);

// Layers that keep a higher precision than the others: their pages are padded to one length that also holds a state.
struct MixedPrecisionInput {
  uint64_t token_bytes = 0;       // of the layers that are not padded
  uint64_t wide_token_bytes = 0;  // of the widest layer that will be padded
  uint64_t block_tokens = 0;      // wanted block
  uint64_t min_kernel_block = 0;  // smallest block the kernels take
  uint64_t state_page = 0;        // padded page of states; 0 = none
};

struct MixedPrecision {
  uint64_t block_tokens = 0;
  uint64_t page_bytes = 0;  // shared by wide layers and states; 0 = nothing is padded
};

// The longest block has the bytes of one smallest kernel block of the widest layer, or of a state. Errors: INVALID_ARGUMENT (zero sizes),
// OUT_OF_RANGE (products beyond 63 bits).
Result<MixedPrecision> align_precisions(const MixedPrecisionInput& input);

}  // namespace quire
