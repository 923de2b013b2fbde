// Checked ops, ready for kernels: what an op's arguments mean, worked out once on the host.
#pragma once

#include "drivers/common/address.h"
#include "drivers/common/tiles.h"

#include <quire/ops.h>

namespace quire::drivers {

struct AttentionJob {
  const quire_attention* op;
  PlanShape shape;
  quire_paged_side key;
  quire_paged_side value;
  Real cache;
  Real query;
  Real out;
  uint32_t group;  // query heads of a KV head
  float scale;     // of logits, scale_k included
  float scale_v;
  float* partials;  // workspace
};

struct GatedDeltaJob {
  const quire_gated_delta* op;
  Real state;
  uint32_t heads_k, heads_v, dim_k, dim_v;
  int64_t stride_head, stride_k, stride_v;  // of the state, bytes
  float scale;
  bool per_channel;  // gate [tokens, heads, dim_k]
};

struct Conv1dJob {
  const quire_conv1d* op;
  uint32_t width;
  uint32_t channels;
};

}  // namespace quire::drivers
