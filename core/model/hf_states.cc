// Families with recurrent states: Mamba 1 and 2, gated delta nets, lightning attention, short convolutions.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {

// Gated delta net: convolution over q, k and v, and one matrix per value head.
void CacheList::gated_delta() {
  const uint64_t k_heads = f_.need("linear_num_key_heads", kMaxCount);
  const uint64_t v_heads = f_.need("linear_num_value_heads", kMaxCount);
  f_.refuse(indivisible("linear_num_value_heads", v_heads, "linear_num_key_heads", k_heads));
  const uint64_t k_width = f_.need("linear_key_head_dim", kMaxCount);
  const uint64_t v_width = f_.need("linear_value_head_dim", kMaxCount);
  const uint64_t kernel = f_.get("linear_conv_kernel_dim", 4, 2, 1024);
  quire_layer& layer = add(QUIRE_LAYER_STATE);
  layer.state_kind = QUIRE_STATE_GDN;
  layer.num_kv_heads = static_cast<uint32_t>(k_heads);
  layer.num_q_heads = static_cast<uint32_t>(v_heads);
  layer.num_state_tensors = 2;
  layer.state[0] = {model_dtype_, 2, {kernel - 1, 2 * k_heads * k_width + v_heads * v_width, 0, 0}};
  layer.state[1] = {f_.dtype({"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}, model_dtype_), 3, {v_heads, v_width, k_width, 0}};
  layer.state_shard[0] = 2;
  layer.state_shard[1] = 1;
  for (const uint64_t i : {0, 1}) layer.state_parts[i] = static_cast<uint32_t>(k_heads * k_width);
  layer.state_parts[2] = static_cast<uint32_t>(v_heads * v_width);
}

// Convolution over the channels, and `states` values for each of them.
void CacheList::mamba1(uint64_t channels, uint64_t states, uint64_t kernel, quire_layer* layer) {
  layer->state_kind = QUIRE_STATE_MAMBA1;
  layer->num_state_tensors = 2;
  layer->state[0] = {model_dtype_, 2, {kernel - 1, channels, 0, 0}};
  layer->state[1] = {state_dtype(), 2, {channels, states, 0, 0}};
  layer->state_shard[0] = 2;
  layer->state_shard[1] = 1;
}

// Convolution over x, B and C, and a matrix per head.
void CacheList::mamba2(const Mamba2& shape, quire_layer* layer) {
  layer->state_kind = QUIRE_STATE_MAMBA2;
  layer->num_kv_heads = narrow(shape.groups);
  layer->num_q_heads = narrow(shape.heads);
  layer->num_state_tensors = 2;
  layer->state[0] = {model_dtype_, 2, {shape.kernel - 1, shape.heads * shape.width + 2 * shape.groups * shape.states, 0, 0}};
  layer->state[1] = {state_dtype(), 3, {shape.heads, shape.width, shape.states, 0}};
  layer->state_shard[0] = 2;
  layer->state_shard[1] = 1;
  layer->state_parts[0] = narrow(shape.heads * shape.width);
  layer->state_parts[1] = layer->state_parts[2] = narrow(shape.groups * shape.states);
}

// One letter per layer: M Mamba-2, * attention, - and E layers without cache.
std::string DecoderFields::nemotron_pattern() {
  std::string pattern;
  f_.ask({"hybrid_override_pattern", "layers_block_type"});
  const bool drafts = (rules_.traits & kDrafts) != 0;
  const char* const blocks = drafts ? "mtp_layers_block_type" : "layers_block_type";
  const char* const letters = drafts ? "mtp_hybrid_override_pattern" : "hybrid_override_pattern";
  const char* field = letters;
  if (const Json* list = f_.find(blocks); list != nullptr && list->is_array() && list->size() <= kMaxLayers) {
    field = blocks;  // "mamba" and "attention" are words of before transformers 5
    for (const Json& item : list->array()) {
      const std::string type = item.is_string() ? item.string() : Fields::shown(item);
      const bool states = type == "mamba" || type == "linear_attention";
      const bool attends = type == "attention" || type == "full_attention";
      pattern += states ? 'M' : attends ? '*' : type == "mlp" ? '-' : type == "moe" ? 'E' : '?';
      if (pattern.back() == '?') {
        f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s[%zu] = \"%.64s\" is not known", field, pattern.size() - 1, type.c_str()));
      }
    }
  } else if (const Json* text = f_.find(letters); text != nullptr && text->is_string()) {
    pattern = text->string();
  } else {
    f_.refuse(invalid("config: %s or %s is missing", letters, blocks));
  }
  const size_t bad = pattern.find_first_not_of("M*-E");
  if (bad != std::string::npos) f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s: type of layer %zu is not known", field, bad));
  if (drafts) {
    if (pattern.empty()) f_.refuse(invalid("config: %s names no layer", field));
    if (f_.get("num_nextn_predict_layers", 1, 1, kMaxLayers) != 1) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: num_nextn_predict_layers is more than 1, which is not known for NemotronH"));
    }
    return pattern;
  }
  const uint64_t count = f_.get("num_hidden_layers", pattern.size(), 1, kMaxLayers);
  layer_overrides(count);
  if (pattern.size() != count) {
    f_.refuse(invalid("config: num_hidden_layers = %" PRIu64 ", but %s names %zu layers", count, field, pattern.size()));
  }
  return pattern;
}

void StateFamilies::nemotron_h() {
  state_dtype_ = kFloat32;
  refuse_window();
  const std::string pattern = nemotron_pattern();
  const quire_layer geometry = attention_geometry();
  Mamba2 shape{f_.need("mamba_num_heads", kMaxCount), f_.need("mamba_head_dim", kMaxCount), f_.need("n_groups", kMaxCount),
               f_.need("ssm_state_size", kMaxCount), f_.get("conv_kernel", 4, 2, 1024)};
  for (size_t i = 0; i < pattern.size() && f_.status.ok(); ++i) {
    if (pattern[i] == '*') {
      attention(geometry, QUIRE_LAYER_FULL, 0);
    } else if (pattern[i] == 'M') {
      mamba2(shape, &add(QUIRE_LAYER_STATE));
    } else {
      add(QUIRE_LAYER_NONE);
    }
  }
}

// Attention where the config says so, Mamba-2 elsewhere.
void StateFamilies::bamba() {
  const uint64_t count = count_layers();
  const std::vector<bool> full = marked("attn_layer_indices", f_.find("attn_layer_indices"), count, 0);
  const quire_layer geometry = attention_geometry();
  const Mamba2 shape{f_.need("mamba_n_heads", kMaxCount), f_.need("mamba_d_head", kMaxCount), f_.get("mamba_n_groups", 1, 1, kMaxCount),
                     f_.need("mamba_d_state", kMaxCount), f_.get("mamba_d_conv", 4, 2, 1024)};
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    if (full[i]) {
      attention(geometry, QUIRE_LAYER_FULL, 0);
    } else {
      mamba2(shape, &add(QUIRE_LAYER_STATE));
    }
  }
}

void StateFamilies::granite() {
  const uint64_t count = count_layers();
  if (!f_.has("layer_types")) f_.refuse(invalid("config: layer_types is missing; must be a list of %" PRIu64, count));
  const std::string types = f_.status.ok() ? layer_types(count, {"full_attention", "linear_attention"}) : "";
  const quire_layer geometry = attention_geometry();
  const Mamba2 shape{f_.need("mamba_n_heads", kMaxCount), f_.need("mamba_d_head", kMaxCount), f_.get("mamba_n_groups", 1, 1, kMaxCount),
                     f_.need("mamba_d_state", kMaxCount), f_.get("mamba_d_conv", 4, 2, 1024)};
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    if (types[i] == 'f') {
      attention(geometry, QUIRE_LAYER_FULL, 0);
    } else {
      mamba2(shape, &add(QUIRE_LAYER_STATE));
    }
  }
}

// Attention and Mamba-2 side by side in every layer.
void StateFamilies::falcon_h1() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const Mamba2 shape{f_.need("mamba_n_heads", kMaxCount), f_.need("mamba_d_head", kMaxCount), f_.get("mamba_n_groups", 1, 1, kMaxCount),
                     f_.need("mamba_d_state", kMaxCount), f_.get("mamba_d_conv", 4, 2, 1024)};
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    attention(geometry, QUIRE_LAYER_FULL, 0);
    mamba2(shape, &also(QUIRE_LAYER_STATE));
  }
}

// Mamba-2 in every layer; "hybrid" layers also run the shared attention block, with a cache of their own.
void StateFamilies::zamba2() {
  const uint64_t count = count_layers();
  f_.ask({"kv_channels"});
  const quire_layer geometry = attention_geometry();
  const Mamba2 shape{f_.need("n_mamba_heads", kMaxCount), f_.need("mamba_headdim", kMaxCount), f_.get("mamba_ngroups", 1, 1, kMaxCount),
                     f_.need("mamba_d_state", kMaxCount), f_.get("mamba_d_conv", 4, 2, 1024)};
  const Json* types = f_.list("layers_block_type", count);
  for (uint64_t i = 0; types != nullptr && i < count && f_.status.ok(); ++i) {
    const std::string type = (*types)[i].is_string() ? (*types)[i].string() : Fields::shown((*types)[i]);
    if (type != "mamba" && type != "linear_attention" && type != "hybrid") {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layers_block_type[%" PRIu64 "] = \"%.64s\" is not known", i, type.c_str()));
    }
    mamba2(shape, &add(QUIRE_LAYER_STATE));
    if (type == "hybrid") attend(geometry, &also(QUIRE_LAYER_FULL));
  }
}

void StateFamilies::jamba() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const uint64_t period = f_.get("attn_layer_period", 8, 1, kMaxLayers);
  const uint64_t offset = f_.get("attn_layer_offset", 4, 0, period - 1);
  const uint64_t channels = f_.need("hidden_size", kMaxLength) * f_.get("mamba_expand", 2, 1, 64);
  const uint64_t states = f_.get("mamba_d_state", 16, 1, kMaxCount);
  const uint64_t kernel = f_.get("mamba_d_conv", 4, 2, 1024);
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    if (i % period == offset) {
      attention(geometry, QUIRE_LAYER_FULL, 0);
    } else {
      mamba1(channels, states, kernel, &add(QUIRE_LAYER_STATE));
    }
  }
}

void StateFamilies::mamba() {
  const uint64_t count = count_layers();
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  const uint64_t channels = f_.get("intermediate_size", hidden * f_.get("expand", 2, 1, 64), 1, kMaxLength);
  const uint64_t states = f_.get("state_size", 16, 1, kMaxCount);
  const uint64_t kernel = f_.get("conv_kernel", 4, 2, 1024);
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) mamba1(channels, states, kernel, &add(QUIRE_LAYER_STATE));
}

void StateFamilies::mamba2_only() {
  const uint64_t count = count_layers();
  const Mamba2 shape{f_.need("num_heads", kMaxCount), f_.need("head_dim", kMaxCount), f_.need("n_groups", kMaxCount),
                     f_.need("state_size", kMaxCount), f_.get("conv_kernel", 4, 2, 1024)};
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) mamba2(shape, &add(QUIRE_LAYER_STATE));
}

// Short convolutions keep the last rows of their input and nothing else.
void StateFamilies::lfm2() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  const uint64_t rows = f_.get("conv_L_cache", 3, 2, 1024) - 1;
  std::vector<bool> full(count);
  std::string types;
  f_.ask({"full_attn_idxs"});
  if (f_.has("layer_types")) {
    types = layer_types(count, {"full_attention", "conv", rules_.pattern == Pattern::kStated ? "sliding_attention" : "conv"});
    for (size_t i = 0; i < types.size(); ++i) full[i] = types[i] == 'f';
  } else if (f_.has("full_attn_idxs")) {
    full = marked("full_attn_idxs", f_.find("full_attn_idxs"), count, 0);
  } else {
    f_.refuse(invalid("config: layer_types and full_attn_idxs are missing; one must be there"));
  }
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const bool slides = i < types.size() && types[i] == 's';
    if (full[i] || slides) {
      attention(geometry, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? window() : 0);
      continue;
    }
    quire_layer& layer = add(QUIRE_LAYER_STATE);
    layer.state_kind = QUIRE_STATE_SHORT_CONV;
    layer.num_state_tensors = 1;
    layer.state[0] = {model_dtype_, 2, {rows, hidden, 0, 0}};
    layer.state_shard[0] = 2;
  }
}

// Beside attention, short convolutions over keys, values and the outputs of both halves of a layer.
void StateFamilies::inkling() {
  const uint64_t count = count_layers();
  const quire_layer full = attention_geometry();
  quire_layer sliding = full;
  sliding.num_q_heads = narrow(f_.need("swa_num_attention_heads", kMaxCount));
  sliding.num_kv_heads = narrow(f_.need("swa_num_key_value_heads", kMaxCount));
  sliding.head_dim_k = sliding.head_dim_v = narrow(f_.need("swa_head_dim", kMaxCount));
  const uint64_t visible = f_.need(f_.spelled("sliding_window_size sliding_window").c_str(), kMaxLength);
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  const uint64_t rows = f_.need(f_.spelled("conv_kernel_size sconv_kernel_size").c_str(), 1024) - 1;
  const bool drafts = (rules_.traits & kDrafts) != 0;
  f_.ask({"sliding_window", "local_layer_ids"});
  std::string types(count, 'f');
  if (!drafts && f_.has("layer_types")) {
    types = layer_types(count, {"hybrid", "hybrid_sliding"});
  } else {
    const Json* apart = drafts ? f_.find("mtp_config") : nullptr;
    if (drafts && (apart == nullptr || !apart->is_object())) f_.refuse(invalid("config: mtp_config must be an object"));
    if (!f_.status.ok()) return;
    if (drafts && apart->contains("local_extent") && !(*apart)["local_extent"].is_null()) {  // vLLM does not read it
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: mtp_config.local_extent is not known for %s", std::string(architecture_).c_str()));
    }
    const Json* ids = drafts ? apart->find("local_layer_ids") : f_.find("local_layer_ids");
    const bool none = drafts && (ids == nullptr || ids->is_null());  // all are full
    const std::vector<bool> local = none ? std::vector<bool>(count) : marked("local_layer_ids", ids, count, 0);
    for (uint64_t i = 0; i < count; ++i) types[i] = local[i] ? 's' : 'f';
  }
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    const quire_layer& own = types[i] == 's' ? sliding : full;
    attention(own, types[i] == 's' ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, types[i] == 's' ? visible : 0);
    const uint64_t keys = uint64_t{own.num_kv_heads} * own.head_dim_k;
    quire_layer& layer = also(QUIRE_LAYER_STATE);
    layer.state_kind = QUIRE_STATE_SHORT_CONV;
    layer.num_state_tensors = 4;
    for (uint32_t part = 0; part < 4; ++part) {
      layer.state[part] = {model_dtype_, 2, {rows, part < 2 ? keys : hidden, 0, 0}};
      layer.state_shard[part] = 2;
    }
  }
}

// Lightning attention: one matrix per query head.
void CacheList::lightning_state(uint64_t heads, uint64_t width) {
  quire_layer& layer = add(QUIRE_LAYER_STATE);
  layer.state_kind = QUIRE_STATE_LIGHTNING;
  layer.num_kv_heads = layer.num_q_heads = narrow(heads);
  layer.num_state_tensors = 1;
  layer.state[0] = {state_dtype(), 3, {heads, width, width, 0}};
  layer.state_shard[0] = 1;
}

void StateFamilies::minimax_text() {
  refuse_window();
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const bool named = f_.has("layer_types");
  std::string types = named ? layer_types(count, {"full_attention", "linear_attention"}) : "";
  if (!named || f_.has("attn_type_list")) {
    std::string listed;
    const Json* list = f_.list("attn_type_list", count);
    for (size_t i = 0; list != nullptr && i < count; ++i) listed += f_.number((*list)[i], "attn_type_list[]", 0, 1) == 1 ? 'f' : 'l';
    for (size_t i = 0; named && i < std::min(types.size(), listed.size()); ++i) {
      if (types[i] == listed[i]) continue;
      f_.refuse(invalid("config: layer_types[%zu] and attn_type_list[%zu] contradict each other; one of both lists must go", i, i));
    }
    types = listed;
  }
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    if (types[i] == 'f') {
      attention(geometry, QUIRE_LAYER_FULL, 0);
      continue;
    }
    lightning_state(geometry.num_q_heads, geometry.head_dim_k);
  }
}

// Mamba and attention take turns; the second half keeps nothing of its own: its attention layers read the cache of the first one there.
void StateFamilies::samba_y() {
  const uint64_t count = count_layers();
  const uint64_t period = f_.get("mb_per_layer", 2, 1, kMaxLayers);
  const quire_layer geometry = attention_geometry();
  const uint64_t channels = f_.need("hidden_size", kMaxLength) * f_.get("mamba_expand", 2, 1, 64);
  const uint64_t states = f_.get("mamba_d_state", 16, 1, kMaxCount);
  const uint64_t kernel = f_.get("mamba_d_conv", 4, 2, 1024);
  const Json* windows = f_.find("sliding_window");
  const Json* list = windows != nullptr && windows->is_array() ? f_.list("sliding_window", count) : nullptr;
  const uint64_t window = list != nullptr ? 0 : f_.need("sliding_window", kMaxLength);
  const uint64_t shared = count / 2 + 1;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const bool recurrent = i % period == 0;
    if (recurrent && i <= shared) {
      mamba1(channels, states, kernel, &add(QUIRE_LAYER_STATE));
    } else if (recurrent) {
      add(QUIRE_LAYER_NONE);
    } else if (i >= shared) {
      attention(geometry, QUIRE_LAYER_FULL, 0);
      if (i > shared) layers_.back().shares_with = narrow(shared + 1);
    } else {
      const bool full = list != nullptr && (*list)[i].is_null();
      const uint64_t own = full ? 0 : list != nullptr ? f_.number((*list)[i], "sliding_window[]", 1, kMaxLength) : window;
      attention(geometry, full ? QUIRE_LAYER_FULL : QUIRE_LAYER_SLIDING_WINDOW, own);
    }
  }
}

}  // namespace quire
