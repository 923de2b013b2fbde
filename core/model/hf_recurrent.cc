// Families whose recurrence is one of a kind: RG-LRU, mLSTM, RWKV-4, compressed convolutional attention, Mamba in heads.
#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "core/model/hf_rules.h"

namespace quire {

// Mamba-1 in every layer; "hybrid" layers also run the shared attention block, with a cache of their own.
void StateFamilies::zamba() {
  f_.ask({"n_mamba_heads", "kv_channels", "attn_layer_period"});
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const uint64_t channels = f_.need("hidden_size", kMaxLength) * f_.get("mamba_expand", 2, 1, 64);
  const uint64_t states = f_.get("mamba_d_state", 16, 1, kMaxCount);
  const uint64_t kernel = f_.get("mamba_d_conv", 4, 2, 1024);
  const Json* types = f_.list("layers_block_type", count);
  for (uint64_t i = 0; types != nullptr && i < count && f_.status.ok(); ++i) {
    const std::string type = (*types)[i].is_string() ? (*types)[i].string() : Fields::shown((*types)[i]);
    if (type != "mamba" && type != "linear_attention" && type != "hybrid") {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layers_block_type[%" PRIu64 "] = \"%.64s\" is not known", i, type.c_str()));
    }
    mamba1(channels, states, kernel, &add(QUIRE_LAYER_STATE));
    if (type == "hybrid") attend(geometry, &also(QUIRE_LAYER_FULL));
  }
}

// RG-LRU and windows take turns: a convolution and one number per channel, kept in 32 bits.
void StateFamilies::recurrent_gemma() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  const uint64_t channels = f_.get("lru_width", hidden, 1, kMaxLength);
  const uint64_t rows = f_.get("conv1d_width", 4, 2, 1024) - 1;
  const uint64_t visible = f_.need("attention_window_size", kMaxLength);
  const Json* pattern = f_.find("block_types");
  const size_t types = pattern != nullptr && pattern->is_array() ? pattern->size() : 0;
  if (types == 0) {
    f_.refuse(invalid("config: block_types must be a list with at least one of \"recurrent\" and \"attention\""));
    return;
  }
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const size_t at = i % types;
    const Json& type = (*pattern)[at];
    if (type.is_text("attention")) {
      attention(geometry, QUIRE_LAYER_SLIDING_WINDOW, visible);
      continue;
    }
    if (!type.is_text("recurrent")) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: block_types[%zu] = %.64s is not known", at, Fields::shown(type).c_str()));
    }
    quire_layer& layer = add(QUIRE_LAYER_STATE);
    layer.num_state_tensors = 2;
    layer.state[0] = {model_dtype_, 2, {rows, std::max(hidden, channels), 0, 0}};
    layer.state[1] = {kFloat32, 1, {channels, 0, 0, 0}};
    layer.state_shard[0] = 2;
    layer.state_shard[1] = 1;
  }
}

// mLSTM: a matrix, a vector and a number per head. Widths are a share of hidden_size, rounded up.
void StateFamilies::xlstm() {
  constexpr uint64_t kRounded = 64;
  const uint64_t count = f_.need(f_.spelled("num_hidden_layers num_blocks").c_str(), kMaxLayers);
  layer_overrides(count);
  const uint64_t hidden = f_.need(f_.spelled("hidden_size embedding_dim").c_str(), kMaxLength);
  const uint64_t heads = f_.need("num_heads", kMaxCount);
  const auto width = [&](const char* share) {
    if (!f_.has(share)) f_.refuse(invalid("config: %s is missing; must be a number", share));
    const double all = static_cast<double>(hidden) * static_cast<double>(f_.real(share));
    if (!(all >= 1 && all <= static_cast<double>(kMaxLength))) {
      f_.refuse(invalid("config: %s of hidden_size = %" PRIu64 " is no width", share, hidden));
      return heads;
    }
    const uint64_t whole = static_cast<uint64_t>(std::trunc((all + kRounded - 1) / kRounded)) * kRounded;
    f_.refuse(indivisible(share, whole, "num_heads", heads));
    return whole;
  };
  const uint64_t keys = width("qk_dim_factor") / heads;
  const uint64_t values = width("v_dim_factor") / heads;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    quire_layer& layer = add(QUIRE_LAYER_STATE);
    layer.num_kv_heads = layer.num_q_heads = narrow(heads);
    layer.num_state_tensors = 3;
    layer.state[0] = {model_dtype_, 3, {heads, keys, values, 0}};
    layer.state[1] = {model_dtype_, 2, {heads, keys, 0, 0}};
    layer.state[2] = {model_dtype_, 1, {heads, 0, 0, 0}};
    for (uint32_t part = 0; part < 3; ++part) layer.state_shard[part] = 1;
  }
}

// RWKV-4: the last input of both halves of a layer, and three sums that are kept in 32 bits.
void StateFamilies::rwkv() {
  const uint64_t count = count_layers();
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  if (f_.get("attention_hidden_size", hidden, 1, kMaxLength) != hidden) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: attention_hidden_size is not hidden_size = %" PRIu64 ", which is not known", hidden));
  }
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    quire_layer& layer = add(QUIRE_LAYER_STATE);
    layer.num_state_tensors = 2;
    layer.state[0] = {model_dtype_, 2, {2, hidden, 0, 0}};
    layer.state[1] = {kFloat32, 2, {3, hidden, 0, 0}};
  }
}

// Attention whose queries and keys pass through a convolution, with the hidden state of the last token beside it. SGLang keeps all of
// that state, transformers a projection of it. Publishers name the layers in zaya_layers, transformers in layer_types.
void StateFamilies::zaya() {
  const Json* named = f_.find("zaya_layers");
  f_.ask({"layer_types", "sliding_window"});
  const bool published = named != nullptr && named->is_array() && !named->empty();
  const uint64_t count = published ? named->size() : count_layers();
  for (const char* key : {"swa_layers", "num_query_groups_list", "cca_num_q_heads"}) {
    if (!f_.has(key)) continue;
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s is not known for %s", key, std::string(architecture_).c_str()));
  }
  const quire_layer geometry = attention_geometry();
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  const uint64_t rows = f_.need("cca_time0", 1024) + f_.need("cca_time1", 1024) - 2;
  if (rows == 0) f_.refuse(invalid("config: cca_time0 and cca_time1 are 1; one must be more"));
  if (!published && !f_.has("layer_types")) f_.refuse(invalid("config: zaya_layers and layer_types are missing; one must be there"));
  if (count > kMaxLayers) f_.refuse(invalid("config: zaya_layers has %" PRIu64 " entries; at most %" PRIu64, count, kMaxLayers));
  if (!f_.status.ok()) return;
  std::string types(count, 'n');
  if (!published) types = layer_types(count, {"hybrid", "hybrid_sliding"});
  for (size_t i = 0; published && i < count; ++i) {
    if ((*named)[i].is_text("a")) {
      types[i] = 'f';
    } else if (!(*named)[i].is_unsigned()) {  // as many experts
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: zaya_layers[%zu] = %.64s is not known", i, Fields::shown((*named)[i]).c_str()));
    }
  }
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    if (types[i] == 'n') {
      add(QUIRE_LAYER_NONE);
      continue;
    }
    const bool slides = types[i] == 's';
    attention(geometry, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? window() : 0);
    quire_layer& layer = also(QUIRE_LAYER_STATE);
    layer.num_state_tensors = 2;
    layer.state[0] = {model_dtype_, 2, {rows, uint64_t{geometry.num_q_heads + geometry.num_kv_heads} * geometry.head_dim_k, 0, 0}};
    layer.state[1] = {model_dtype_, 1, {hidden, 0, 0, 0}};
    layer.state_shard[0] = 2;
    layer.state_parts[0] = geometry.num_q_heads * geometry.head_dim_k;
    layer.state_parts[1] = geometry.num_kv_heads * geometry.head_dim_k;
  }
}

}  // namespace quire
