// Families of plain decoders: attention of one or two shapes in every layer.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_reader.h"

namespace quire {

// Heads and widths of ordinary attention.
quire_layer Reader::attention_geometry() {
  quire_layer layer{};
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  // Which number an absent one stands for differs from class to class, and most classes have one of their own: only these follow.
  const bool follows = of_any({"Llama", "Cohere2", "GraniteMoeHybrid", "Zamba2", "HunYuan"}) && !starts_with(architecture_, "Llama4");
  const uint64_t kv_heads = follows ? f_.get("num_key_value_heads", q_heads, 1, kMaxCount) : f_.need("num_key_value_heads", kMaxCount);
  const char* const field = f_.has("head_dim")                                   ? "head_dim"
                            : f_.has("attention_head_dim") || of_any({"Zamba2"}) ? "attention_head_dim"
                            : of_any({"NemotronH"})                              ? "head_dim or attention_head_dim"
                                                                                 : "head_dim";
  const bool own_width = of_any({"Qwen3For", "Qwen3Next", "Qwen3_5", "GptOss", "Gemma", "MiniMaxM2", "NemotronH", "MiMo", "Zamba2"});
  uint64_t width = own_width ? f_.need(field, kMaxCount) : f_.get(field, 0, 1, kMaxCount);
  if (width == 0) {
    if (!f_.has("hidden_size")) f_.refuse(invalid("config: %s is missing, and hidden_size, which it would follow from", field));
    const uint64_t hidden = f_.need("hidden_size", kMaxLength);
    if (hidden % q_heads != 0) {
      f_.refuse(invalid("config: hidden_size = %" PRIu64 " is no multiple of num_attention_heads = %" PRIu64 " and head_dim is missing",
                        hidden, q_heads));
    }
    width = hidden / q_heads;
  }
  layer.num_q_heads = static_cast<uint32_t>(q_heads);
  layer.num_kv_heads = static_cast<uint32_t>(kv_heads);
  layer.head_dim_k = static_cast<uint32_t>(width);
  layer.head_dim_v = layer.head_dim_k;
  return layer;
}

void Reader::attend(const quire_layer& geometry, quire_layer* layer) const {
  layer->num_q_heads = geometry.num_q_heads;
  layer->num_kv_heads = geometry.num_kv_heads;
  layer->head_dim_k = geometry.head_dim_k;
  layer->head_dim_v = geometry.head_dim_v;
  layer->flags = geometry.flags;
  layer->softcap = softcap_;
}

void Reader::attention(const quire_layer& geometry, quire_layer_kind kind, uint64_t window) {
  quire_layer& layer = add(kind);
  attend(geometry, &layer);
  layer.window = window;
}

// One letter per layer: f full, s sliding, c chunked, l whatever else the family knows.
std::string Reader::layer_types(uint64_t count, std::initializer_list<const char*> known) {
  std::string types;
  if (!f_.has("layer_types")) return default_types(count);
  const Json* list = f_.list("layer_types", count);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string type = (*list)[i].is_string() ? (*list)[i].string() : Fields::shown((*list)[i]);
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layer_types[%zu] = \"%.64s\" is not known for %s", i, type.c_str(),
                     std::string(architecture_).c_str()));
    } else if (type == "full_attention" || type == "attention") {
      types += 'f';
    } else if (type == "sliding_attention") {
      types += 's';
    } else if (type == "chunked_attention") {
      types += 'c';
    } else {
      types += 'l';
    }
  }
  return types;
}

// What an architecture means when layer_types is absent.
std::string Reader::default_types(uint64_t count) {
  std::string types(count, 'f');
  if (of_any({"Qwen3Next", "Qwen3_5"})) {
    const uint64_t interval = f_.need("full_attention_interval", kMaxLayers);
    for (uint64_t i = 0; i < count; ++i) types[i] = (i + 1) % interval == 0 ? 'f' : 'l';
  } else if (starts_with(architecture_, "GptOss")) {
    for (uint64_t i = 0; i < count; i += 2) types[i] = 's';
  } else if (starts_with(architecture_, "Gemma2")) {
    for (uint64_t i = 0; i < count; i += 2) types[i] = 's';
  } else if (starts_with(architecture_, "Gemma3") || starts_with(architecture_, "Cohere2")) {
    const uint64_t usual = starts_with(architecture_, "Cohere2") ? 4 : starts_with(architecture_, "Gemma3n") ? 5 : 6;
    const uint64_t pattern = f_.get("sliding_window_pattern", usual, 1, kMaxLayers);
    for (uint64_t i = 0; i < count; ++i) types[i] = (i + 1) % pattern == 0 ? 'f' : 's';
  } else if (starts_with(architecture_, "Qwen")) {
    const uint64_t first = f_.flag("use_sliding_window") ? from_zero("max_window_layers", kMaxLayers) : count;
    for (uint64_t i = first; i < count; ++i) types[i] = 's';
  } else if (starts_with(architecture_, "Mi") && f_.has("sliding_window")) {  // Mistral, Mixtral, MiniMax
    types.assign(count, 's');
  }
  return types;
}

void Reader::decoder() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  quire_layer geometry = attention_geometry();
  if (starts_with(architecture_, "GptOss")) geometry.flags |= QUIRE_LAYER_SINK_LOGITS;
  const bool gated = of_any({"Qwen3Next", "Qwen3_5"});
  if (of_any({"Mistral", "Ministral"})) f_.need_stated("sliding_window", "tokens, or null for none");
  const std::string types = layer_types(count, {"full_attention", gated ? "linear_attention" : "sliding_attention"});
  const uint64_t window = types.find('s') != std::string::npos ? f_.need("sliding_window", kMaxLength) : 0;
  const uint64_t chunk = types.find('c') != std::string::npos ? f_.need("attention_chunk_size", kMaxLength) : 0;
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    if (types[i] == 'l') {
      gated_delta();
    } else if (types[i] == 's') {
      attention(geometry, QUIRE_LAYER_SLIDING_WINDOW, window);
    } else if (types[i] == 'c') {
      attention(geometry, QUIRE_LAYER_CHUNKED, chunk);
    } else {
      attention(geometry, QUIRE_LAYER_FULL, 0);
    }
  }
}

// Llama-Nemotron: every layer says how many query heads share a KV head, or that it has no attention.
void Reader::deci() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
  const uint64_t hidden = f_.need("hidden_size", kMaxLength);
  if (!f_.has("head_dim")) f_.refuse(indivisible("hidden_size", hidden, "num_attention_heads", q_heads));
  const uint64_t width = f_.get("head_dim", hidden / q_heads, 1, kMaxCount);
  const Json* blocks = f_.list("block_configs", count);
  for (size_t i = 0; blocks != nullptr && i < blocks->size() && f_.status.ok(); ++i) {
    const Json& block = (*blocks)[i];
    const bool object = block.is_object() && block.contains("attention") && block["attention"].is_object();
    if (!object) {
      f_.refuse(invalid("config: block_configs[%zu].attention must be an object", i));
      break;
    }
    const Json& shape = block["attention"];
    if (shape["replace_with_linear"].is_true() || shape["no_op"].is_true()) {
      add(QUIRE_LAYER_NONE);
      continue;
    }
    for (const char* key : {"window_length", "num_sink_tokens", "sparsify"}) {
      if (!shape[key].is_null()) f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: block_configs[%zu].attention.%s is set", i, key));
    }
    const uint64_t share = f_.number(shape["n_heads_in_group"], "block_configs[].attention.n_heads_in_group", 1, q_heads);
    quire_layer geometry{};
    geometry.num_q_heads = static_cast<uint32_t>(q_heads);
    f_.refuse(indivisible("num_attention_heads", q_heads, "block_configs[].attention.n_heads_in_group", share));
    geometry.num_kv_heads = static_cast<uint32_t>(q_heads / share);
    geometry.head_dim_k = geometry.head_dim_v = static_cast<uint32_t>(width);
    attention(geometry, QUIRE_LAYER_FULL, 0);
  }
}

// Every no_rope_layer_interval-th layer (4) is full attention, the others attend inside chunks.
void Reader::llama4() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const quire_layer geometry = attention_geometry();
  const uint64_t chunk = f_.need("attention_chunk_size", kMaxLength);
  const uint64_t interval = f_.get("no_rope_layer_interval", 4, 1, kMaxLayers);
  const Json* rope = f_.has("no_rope_layers") && !f_.find("no_rope_layers")->empty() ? f_.list("no_rope_layers", count) : nullptr;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const bool chunked = rope != nullptr ? f_.number((*rope)[i], "no_rope_layers[]", 0, 1) == 1 : (i + 1) % interval != 0;
    attention(geometry, chunked ? QUIRE_LAYER_CHUNKED : QUIRE_LAYER_FULL, chunked ? chunk : 0);
  }
}

void Reader::mimo() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const uint64_t window = f_.need("sliding_window", kMaxLength);
  quire_layer full = attention_geometry();
  full.head_dim_v = static_cast<uint32_t>(f_.need("v_head_dim", kMaxCount));
  quire_layer sliding{};
  sliding.num_q_heads = static_cast<uint32_t>(f_.need("swa_num_attention_heads", kMaxCount));
  sliding.num_kv_heads = static_cast<uint32_t>(f_.need("swa_num_key_value_heads", kMaxCount));
  sliding.head_dim_k = static_cast<uint32_t>(f_.need("swa_head_dim", kMaxCount));
  sliding.head_dim_v = static_cast<uint32_t>(f_.need("swa_v_head_dim", kMaxCount));
  if (f_.flag("add_full_attention_sink_bias")) full.flags |= QUIRE_LAYER_SINK_LOGITS;
  if (f_.flag("add_swa_attention_sink_bias")) sliding.flags |= QUIRE_LAYER_SINK_LOGITS;
  const Json* pattern = f_.list("hybrid_layer_pattern", count);
  for (uint64_t i = 0; pattern != nullptr && i < count && f_.status.ok(); ++i) {
    if (f_.number((*pattern)[i], "hybrid_layer_pattern[]", 0, 1) == 1) {
      attention(sliding, QUIRE_LAYER_SLIDING_WINDOW, window);
    } else {
      attention(full, QUIRE_LAYER_FULL, 0);
    }
  }
}

// Full layers have their own heads and width; the last num_kv_shared_layers read the cache of the last layer of their type before them.
void Reader::gemma4() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  const quire_layer sliding = attention_geometry();
  quire_layer full = sliding;
  const bool global = starts_with(architecture_, "Gemma4");  // full layers have a shape of their own
  if (global) f_.need_stated("num_global_key_value_heads", "a number of heads, or null for num_key_value_heads");
  const uint64_t width = global ? f_.need("global_head_dim", kMaxCount) : sliding.head_dim_k;
  full.head_dim_k = full.head_dim_v = static_cast<uint32_t>(width);
  full.num_kv_heads = static_cast<uint32_t>(f_.get("num_global_key_value_heads", sliding.num_kv_heads, 1, kMaxCount));
  const uint64_t window = f_.need("sliding_window", kMaxLength);
  const uint64_t shared = from_zero("num_kv_shared_layers", count - 1);
  if (!f_.has("layer_types") && starts_with(architecture_, "Gemma4")) f_.refuse(invalid("config: layer_types is missing"));
  const std::string types = f_.status.ok() ? layer_types(count, {"full_attention", "sliding_attention"}) : "";
  uint32_t last[2] = {0, 0};  // 1 + index of the last layer with its own cache: full, sliding
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    const bool slides = types[i] == 's';
    if (!slides && types[i] != 'f') f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layer_types[%zu] is no kind of this architecture", i));
    attention(slides ? sliding : full, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? window : 0);
    uint32_t& source = last[slides ? 1 : 0];
    if (i + shared < types.size()) {
      source = static_cast<uint32_t>(i + 1);
    } else if (source == 0) {
      f_.refuse(invalid("config: num_kv_shared_layers = %" PRIu64 " leaves layer %zu nothing to share", shared, i));
    } else {
      layers_.back().shares_with = source;
    }
  }
}

// Neighbouring layers share one cache (cross-layer attention).
void Reader::hunyuan() {
  const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
  quire_layer geometry = attention_geometry();
  const uint64_t share = f_.flag("use_cla") ? f_.need("cla_share_factor", kMaxLayers) : 1;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    attention(geometry, QUIRE_LAYER_FULL, 0);
    if (i % share != 0) layers_.back().shares_with = narrow(i - i % share + 1);
  }
}

}  // namespace quire
