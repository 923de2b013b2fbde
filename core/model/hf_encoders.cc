// Families with an encoder: its keys are kept once per request, the decoder's grow.
#include "core/model/hf_rules.h"

namespace quire {

void CacheList::encoder_decoder(uint64_t count, const quire_layer& geometry, uint64_t encoder_tokens) {
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    attention(geometry, QUIRE_LAYER_FULL, 0);
    quire_layer& cross = also(QUIRE_LAYER_CROSS);
    attend(geometry, &cross);
    cross.encoder_tokens = encoder_tokens;
  }
}

void Reader::whisper() {
  quire_layer geometry{};
  const uint64_t heads = f_.need("decoder_attention_heads", kMaxCount);
  geometry.num_q_heads = geometry.num_kv_heads = narrow(heads);
  const uint64_t width = f_.need("d_model", kMaxCount);
  f_.refuse(indivisible("d_model", width, "decoder_attention_heads", heads));
  geometry.head_dim_k = geometry.head_dim_v = narrow(width / heads);
  length_ = f_.need("max_target_positions", kMaxLength);
  encoder_decoder(f_.need("decoder_layers", kMaxLayers), geometry, f_.need("max_source_positions", kMaxLength));
}

void Reader::t5() {
  quire_layer geometry{};
  geometry.num_q_heads = geometry.num_kv_heads = narrow(f_.need("num_heads", kMaxCount));
  geometry.head_dim_k = geometry.head_dim_v = narrow(f_.need("d_kv", kMaxCount));
  length_ = f_.get("n_positions", 512, 1, kMaxLength);
  encoder_decoder(f_.get("num_decoder_layers", f_.need("num_layers", kMaxLayers), 1, kMaxLayers), geometry, length_);
}

void Reader::bart() {
  quire_layer geometry{};
  const uint64_t heads = f_.need("decoder_attention_heads", kMaxCount);
  geometry.num_q_heads = geometry.num_kv_heads = narrow(heads);
  const uint64_t width = f_.need("d_model", kMaxCount);
  f_.refuse(indivisible("d_model", width, "decoder_attention_heads", heads));
  geometry.head_dim_k = geometry.head_dim_v = narrow(width / heads);
  encoder_decoder(f_.need("decoder_layers", kMaxLayers), geometry, f_.need("max_position_embeddings", kMaxLength));
}

// Attends in both directions over one prompt: nothing is kept.
void Reader::bert() {
  const uint64_t count = count_layers();
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) add(QUIRE_LAYER_ENCODER_ONLY);
}

}  // namespace quire
