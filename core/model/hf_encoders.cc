// Families with an encoder: its keys are kept once per request, the decoder's grow.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

// Convolutions of stride 2, one after the other: rows or columns that are left.
uint64_t halved(uint64_t length, uint64_t times) {
  for (uint64_t i = 0; i < times && length > 1; ++i) length = (length - 1) / 2 + 1;
  return length;
}

}  // namespace

void CacheList::cross_attention(const quire_layer& geometry, uint64_t encoder_tokens) {
  quire_layer& cross = also(QUIRE_LAYER_CROSS);
  attend(geometry, &cross);
  cross.encoder_tokens = encoder_tokens;
}

void CacheList::encoder_decoder(uint64_t count, const quire_layer& geometry, uint64_t encoder_tokens) {
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    attention(geometry, QUIRE_LAYER_FULL, 0);
    cross_attention(geometry, encoder_tokens);
  }
}

// Patches along one side of a square image, as a vision config inside `of` states them.
uint64_t DecoderFields::image_side(const std::string& of) {
  const uint64_t image = f_.need_at((of + ".image_size").c_str(), kMaxCount);
  const uint64_t patch = f_.need_at((of + ".patch_size").c_str(), kMaxCount);
  f_.refuse(indivisible((of + ".image_size").c_str(), image, "patch_size", patch));
  return image / std::max<uint64_t>(patch, 1);
}

// How many tokens of the encoder a decoder attends to, at most.
uint64_t DecoderFields::encoder_tokens() {
  if (rules_.spelling.encoder == nullptr) {  // one image
    const uint64_t side = image_side("vision_config");
    if (!of_any({"PPFormulaNet"})) return side * side + 1;
    const uint64_t left = halved(side, 2);
    return left * left;
  }
  const uint64_t stated = f_.need_at(f_.spelled(rules_.spelling.encoder).c_str(), kMaxLength);
  return of_any({"Speech2Text"}) ? halved(stated, f_.need("num_conv_layers", 32)) : stated;
}

// Decoders whose every layer also attends to an encoder.
void Reader::cross() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  quire_layer other = geometry;
  if (of_any({"Dia"})) {
    other.num_q_heads = narrow(f_.need("cross_num_attention_heads", kMaxCount));
    other.num_kv_heads = narrow(f_.need("cross_num_key_value_heads", kMaxCount));
    other.head_dim_k = other.head_dim_v = narrow(f_.need("cross_head_dim", kMaxCount));
  }
  const uint64_t tokens = encoder_tokens();
  const std::string types = f_.status.ok() ? layer_types(count, {"full_attention", "sliding_attention"}) : "";
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    const bool slides = types[i] == 's';
    attention(geometry, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? window() : 0);
    cross_attention(other, tokens);
  }
}

// The encoder's length beside a decoder of any kind; 0 where it has no encoder.
uint64_t DecoderFields::encoder_beside() {
  if (!names_one(" EncoderDecoderModel VisionEncoderDecoderModel ", shown_)) return 0;
  if (rules_.family != &Reader::decoder || (rules_.kv != KvHeads::kAll)) {
    f_.refuse(
        fail(QUIRE_UNIMPLEMENTED, "config: decoder is of %s, whose cross attention is not known", std::string(architecture_).c_str()));
    return 0;
  }
  if (names_one(" EncoderDecoderModel ", shown_)) return f_.need_at("encoder.max_position_embeddings", kMaxLength);
  const Json* type = f_.inside("encoder.model_type");
  const bool known = type != nullptr && (type->is_text("vit") || type->is_text("deit") || type->is_text("beit"));
  if (!known) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: encoder.model_type = %.64s is not known; known are vit, deit and beit",
                   type == nullptr ? "null" : Fields::shown(*type).c_str()));
    return 0;
  }
  const uint64_t side = image_side("encoder");
  return side * side + (type->is_text("deit") ? 2 : 1);
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
