#include "core/model/attention.h"

namespace quire {

Status describe_attention(const quire_layer& layer, quire_attention* op) {
  const bool one_sided = layer.kind == QUIRE_LAYER_MLA;
  switch (layer.kind) {
    case QUIRE_LAYER_FULL:
    case QUIRE_LAYER_SLIDING_WINDOW:
    case QUIRE_LAYER_CHUNKED:
    case QUIRE_LAYER_MLA:
    case QUIRE_LAYER_CROSS:
      break;
    default:
      return invalid("layer.kind: %d is not attention over a cache", layer.kind);
  }
  if (layer.compress_ratio > 1) {
    return fail(QUIRE_UNIMPLEMENTED, "layer.compress_ratio: %u tokens share a row, and attention counts rows", layer.compress_ratio);
  }
  if (layer.rope_dim != 0 && layer.rope_dim >= layer.head_dim_k) {
    return invalid("layer.rope_dim: %u, head_dim_k is %u", layer.rope_dim, layer.head_dim_k);
  }
  // No position reaches 2^31: a longer window hides nothing.
  const auto span = layer.window > INT32_MAX ? 0 : static_cast<uint32_t>(layer.window);
  const bool causal = layer.kind != QUIRE_LAYER_CROSS;
  op->flags = (op->flags & ~QUIRE_ATTENTION_CAUSAL) | (causal ? QUIRE_ATTENTION_CAUSAL : 0);
  op->chunk = layer.kind == QUIRE_LAYER_CHUNKED ? span : 0;
  op->window = layer.kind == QUIRE_LAYER_CHUNKED || !causal ? 0 : span;
  op->sink_tokens = op->window != 0 ? layer.sink_tokens : 0;
  op->softcap = layer.softcap;
  if (!one_sided) {
    op->head_dim_v = 0;
  } else if (layer.rope_dim != 0) {
    op->head_dim_v = layer.head_dim_k - layer.rope_dim;
  }
  return {};
}

}  // namespace quire
