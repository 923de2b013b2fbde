// What one cached layer of one shard puts on pages: the shape of its rows, or the tensors of its state.
#pragma once

#include <quire/model.h>

#include <cstdint>
#include <vector>

namespace quire {

struct MemberShape {
  uint32_t layer = 0;   // of the model, for messages
  uint32_t lane = 0;    // of this shard
  uint32_t index = 0;   // within the lane
  uint32_t column = 0;  // which id of the block addresses it; 0 where all lanes share one id
  // Token caches: rows of a kernel block and the shape of a row. num_sides 0 = a state.
  uint32_t num_sides = 0;
  uint32_t num_heads = 0;
  uint32_t width[2] = {0, 0};  // elements of K and V
  uint32_t rows = 0;           // T
  uint32_t tokens_per_row = 1;
  quire_dtype dtype{};
  quire_codec codec = QUIRE_CODEC_STRIDED;
  quire_codec_params codec_params{};
  // States: tensors in memory order, each aligned to its element.
  std::vector<quire_state_tensor> tensors;

  bool is_state() const { return num_sides == 0; }
};

// Bytes of the tensors of a state: payload, and span with each tensor (and the end) aligned to its element. Products fit: the model has
// checked them.
uint64_t state_payload_bytes(const std::vector<quire_state_tensor>& tensors);
uint64_t state_span_bytes(const std::vector<quire_state_tensor>& tensors);
// Payload bytes of one part of a member: what its codec keeps, without alignment.
uint64_t payload_bytes(const MemberShape& member, uint32_t kernel_blocks_per_part);

}  // namespace quire
