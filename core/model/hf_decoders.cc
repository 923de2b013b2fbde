// Families of plain decoders: attention of one or two shapes in every layer.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {

// Heads and widths of ordinary attention.
quire_layer DecoderFields::attention_geometry() {
  const Spelling& names = rules_.spelling;
  const std::string heads = f_.spelled(names.heads);
  const std::string field = names.width == nullptr ? "head_dim" : f_.spelled(names.width);
  quire_layer layer{};
  const uint64_t q_heads = f_.need(heads.c_str(), kMaxCount);
  const uint64_t of_kv = kv_heads(q_heads);
  if ((rules_.traits & kOwnWidth) != 0 && !f_.has(field.c_str())) {
    f_.refuse(invalid("config: %s is missing; must be 1..%" PRIu64, Fields::joined(names.width).c_str(), kMaxCount));
  }
  uint64_t width = f_.get(field.c_str(), (rules_.traits & kOwnWidth) != 0 ? 1 : 0, 1, kMaxCount);
  if (width == 0) {
    const std::string hidden_field = f_.spelled(names.hidden);
    if (!f_.has(hidden_field.c_str())) {
      f_.refuse(invalid("config: %s is missing, and %s, which it would follow from", field.c_str(), hidden_field.c_str()));
    }
    const uint64_t hidden = f_.need(hidden_field.c_str(), kMaxLength);
    if (hidden % q_heads != 0) {
      f_.refuse(invalid("config: %s = %" PRIu64 " is no multiple of %s = %" PRIu64 " and %s is missing", hidden_field.c_str(), hidden,
                        heads.c_str(), q_heads, field.c_str()));
    }
    width = hidden / q_heads;
  }
  layer.num_q_heads = static_cast<uint32_t>(q_heads);
  layer.num_kv_heads = static_cast<uint32_t>(of_kv);
  layer.head_dim_k = static_cast<uint32_t>(width);
  layer.head_dim_v = layer.head_dim_k;
  return layer;
}

void CacheList::attend(const quire_layer& geometry, quire_layer* layer) const {
  layer->num_q_heads = geometry.num_q_heads;
  layer->num_kv_heads = geometry.num_kv_heads;
  layer->head_dim_k = geometry.head_dim_k;
  layer->head_dim_v = geometry.head_dim_v;
  layer->flags = geometry.flags;
  layer->softcap = softcap_;
}

void CacheList::attention(const quire_layer& geometry, quire_layer_kind kind, uint64_t window) {
  quire_layer& layer = add(kind);
  attend(geometry, &layer);
  layer.window = window;
}

namespace {

// Words that transformers used before, as the ones of now.
std::string word_of_now(const std::string& word, bool states) {
  if (word == "attention") return "full_attention";
  if (word == "deepseek_sparse_attention") return "indexed_attention";
  return word == "mamba" && states ? "linear_attention" : word;
}

}  // namespace

// One letter per layer: f full, s sliding, c chunked, i full and indexed, v a convolution, l whatever else the family knows.
std::string DecoderFields::layer_types(uint64_t count, std::initializer_list<const char*> known) {
  std::string types;
  const char* const field = f_.has("layer_types") ? "layer_types" : "layers_block_type";
  const Json* list = f_.find(field);
  if (list == nullptr) return default_types(count);
  if (std::find(known.begin(), known.end(), std::string_view("sliding_attention")) != known.end()) {
    f_.ask({"sliding_window", "sliding_window_size", "local_attention", "interleaved_sliding_window", "window_sizes"});
  }
  const uint64_t first = (rules_.traits & kDrafts) != 0 ? f_.need("num_hidden_layers", kMaxLayers) : 0;  // drafts stand behind them
  const bool longer = (rules_.traits & kLongTypes) != 0 && list->is_array() && list->size() > count + first;
  if (!longer) list = f_.list(field, count + first);
  for (size_t i = first; list != nullptr && i < first + count; ++i) {
    const std::string word = (*list)[i].is_string() ? (*list)[i].string() : Fields::shown((*list)[i]);
    const std::string type = word_of_now(word, rules_.family != &Reader::decoder);
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s[%zu] = \"%.64s\" is not known for %s", field, i, word.c_str(),
                     std::string(architecture_).c_str()));
    } else if (type == "full_attention") {
      types += 'f';
    } else if (type == "sliding_attention") {
      types += 's';
    } else if (type == "chunked_attention") {
      types += 'c';
    } else if (type == "indexed_attention" || type == "minimax_m3_sparse") {
      types += 'i';
    } else if (type == "conv") {
      types += 'v';
    } else if (type == "hybrid" || type == "hybrid_sliding") {
      types += type == "hybrid" ? 'f' : 's';
    } else if (type == "mlp") {
      types += 'n';
    } else {
      types += 'l';
    }
  }
  return types;
}

// What an architecture means when layer_types is absent.
std::string DecoderFields::default_types(uint64_t count) {
  std::string types(count, 'f');
  uint64_t interval = rules_.every;
  uint64_t first = count;
  switch (rules_.pattern) {
    case Pattern::kFull:
      refuse_window();
      break;
    case Pattern::kWindow:
      if (stated_window() != 0) types.assign(count, 's');
      break;
    case Pattern::kEvery:
      interval = f_.get("sliding_window_pattern", interval, 1, kMaxLayers);
      for (uint64_t i = 0; i < count; ++i) types[i] = (i + 1) % interval == 0 ? 'f' : 's';
      break;
    case Pattern::kFirst:
      interval = f_.get("global_attn_every_n_layers", interval, 1, kMaxLayers);
      for (uint64_t i = 0; i < count; ++i) types[i] = i % interval == 0 ? 'f' : 's';
      break;
    case Pattern::kAlternate:
      for (uint64_t i = 0; i < count; i += 2) types[i] = 's';
      break;
    case Pattern::kQwen:
      f_.ask({"sliding_window"});
      if (f_.flag("use_sliding_window")) first = from_zero("max_window_layers", kMaxLayers);
      break;
    case Pattern::kMaxWindow:
      if (stated_window() != 0) first = from_zero("max_window_layers", kMaxLayers);
      break;
    case Pattern::kGated:
      interval = f_.need("full_attention_interval", kMaxLayers);
      for (uint64_t i = 0; i < count; ++i) types[i] = (i + 1) % interval == 0 ? 'f' : 'l';
      break;
    case Pattern::kCycle:
    case Pattern::kPairs:
      windows_ = listed_windows(count);
      for (uint64_t i = 0; i < count; ++i) types[i] = windows_[i] != 0 ? 's' : 'f';
      break;
    case Pattern::kStated:
      f_.refuse(invalid("config: layer_types is missing; must be a list of %" PRIu64, count));
      break;
  }
  for (uint64_t i = first; i < count; ++i) types[i] = 's';
  return types;
}

void DecoderFields::refuse_window() {
  const uint64_t stated = stated_window();
  if (stated == 0) return;
  f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: sliding_window = %" PRIu64 " without layer_types: which layers of %s slide is not known",
                 stated, std::string(architecture_).c_str()));
}

// Fields inside others, or whose other values are meant, that change what a plain decoder keeps.
void DecoderFields::refuse_foreign() {
  const Json* drafts = f_.find("dflash_config");
  if (drafts != nullptr && drafts->is_object() && rules_.family != &Reader::dflash) {
    if ((*drafts)["use_swa"].is_true() || !(*drafts)["swa_window_size"].is_null()) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: dflash_config.use_swa and swa_window_size are not known for %s",
                     std::string(architecture_).c_str()));
    }
  }
  if (const Json* other = f_.find("attention_other_setting"); other != nullptr && other->is_object()) {
    for (const char* key : {"num_attention_groups", "head_dim"}) {
      const Json& own = (*other)[key];
      const Json* all = f_.find(key);
      if (own.is_null() || (all != nullptr && Fields::shown(*all) == Fields::shown(own))) continue;
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: attention_other_setting.%s = %.64s is not that of the other layers, which is not known",
                     key, Fields::shown(own).c_str()));
    }
  }
  if (f_.flag("add_cross_attention") && !names_one(" EncoderDecoderModel VisionEncoderDecoderModel ", shown_)) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: add_cross_attention = true is not known for %s", std::string(architecture_).c_str()));
  }
  if (of_any({"MuseSparkDSpark"}) && (f_.has("layer_types") || f_.has("every_n_layers_nope") || f_.has("gated_delta_net"))) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layer_types, every_n_layers_nope and gated_delta_net are not known for %s",
                   std::string(architecture_).c_str()));
  }
  if (of_any({"HrmText"})) (void)f_.need("num_layers_per_stack", kMaxLayers);  // num_hidden_layers then counts all runs of both stacks
  if (f_.get("n_recurrent_loops", 1, 1, kMaxCount) != 1) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: n_recurrent_loops is more than 1, which is not known for %s",
                   std::string(architecture_).c_str()));
  }
}

void Reader::decoder() {
  const uint64_t count = count_layers();
  if (overrides_.empty()) (void)attention_geometry();  // heads and widths are named first
  const bool gated = rules_.pattern == Pattern::kGated;
  if (gated) {
    f_.ask({"full_attention_interval", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
            "linear_conv_kernel_dim"});
  }
  if ((rules_.traits & kNullWindow) != 0) f_.need_stated("sliding_window", "tokens, or null for none");
  refuse_foreign();
  const bool plain = (rules_.traits & kDrafts) != 0 && rules_.pattern != Pattern::kStated;  // drafts attend to everything
  const std::string types = plain ? std::string(count, 'f')
                                  : layer_types(count, {"full_attention", gated ? "linear_attention" : "sliding_attention",
                                                        (rules_.traits & kSomeMlp) != 0 ? "mlp" : "full_attention",
                                                        (rules_.traits & kDelta) != 0 ? "linear_attention" : "full_attention"});
  const Json* slides = f_.find("use_sliding_window");
  if (slides != nullptr && slides->is_boolean() && !slides->is_true() && types.find('s') != std::string::npos) {
    f_.refuse(invalid("config: use_sliding_window = false, but layer_types has layers that slide"));
  }
  quire_layer geometry{};
  const uint64_t encoder = encoder_beside();
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    f_.at_layer(overrides(i));
    const bool skips = types[i] == 'n' || skips_attention(i);
    if (types[i] != 'l' && !skips && (i == 0 || !overrides_.empty() || geometry.num_q_heads == 0)) {
      geometry = attention_geometry();
      if ((rules_.traits & kSinks) != 0) geometry.flags |= QUIRE_LAYER_SINK_LOGITS;
    }
    if (skips) {
      add(QUIRE_LAYER_NONE);
    } else if (types[i] == 'l' && of_any({"AliceAI"})) {
      kimi_delta(f_.need("linear_num_key_heads", kMaxCount), f_.need("linear_key_head_dim", kMaxCount),
                 f_.get("linear_conv_kernel_dim", 4, 2, 1024));
    } else if (types[i] == 'l') {
      gated_delta();
    } else if (types[i] == 's') {
      attention(geometry, QUIRE_LAYER_SLIDING_WINDOW, window(i));
    } else {
      attention(geometry, QUIRE_LAYER_FULL, 0);
    }
    if (encoder != 0) cross_attention(geometry, encoder);
  }
  f_.at_layer(nullptr);
}

// Llama-Nemotron: every layer says how many query heads share a KV head, or that it has no attention.
void Reader::deci() {
  const uint64_t count = count_layers();
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
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const uint64_t chunk = f_.need("attention_chunk_size", kMaxLength);
  if (f_.has("layer_types")) {  // as transformers writes it
    const std::string types = layer_types(count, {"full_attention", "chunked_attention"});
    for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
      attention(geometry, types[i] == 'c' ? QUIRE_LAYER_CHUNKED : QUIRE_LAYER_FULL, types[i] == 'c' ? chunk : 0);
    }
    return;
  }
  const uint64_t interval = f_.get("no_rope_layer_interval", 4, 1, kMaxLayers);
  const Json* rope = f_.has("no_rope_layers") && !f_.find("no_rope_layers")->empty() ? f_.list("no_rope_layers", count) : nullptr;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    const bool chunked = rope != nullptr ? f_.number((*rope)[i], "no_rope_layers[]", 0, 1) == 1 : (i + 1) % interval != 0;
    attention(geometry, chunked ? QUIRE_LAYER_CHUNKED : QUIRE_LAYER_FULL, chunked ? chunk : 0);
  }
}

// sliding_window counts the current token, sliding_window_size what comes before it (docs/models.md): 128 of these are a window of 129.
// Configs that transformers 5 wrote have layer_types and no swa_*: sliding layers then have twice the KV heads of full ones.
void Reader::mimo() {
  const uint64_t count = count_layers();
  f_.ask({"sliding_window", "hybrid_layer_pattern", "attention_chunk_size"});
  const uint64_t visible =
      f_.has("sliding_window_size") ? f_.need("sliding_window_size", kMaxLength - 1) + 1 : f_.need("sliding_window", kMaxLength);
  quire_layer full = attention_geometry();
  full.head_dim_v = static_cast<uint32_t>(f_.need("v_head_dim", kMaxCount));
  quire_layer sliding{};
  const bool rewritten = f_.has("layer_types") && !f_.has("hybrid_layer_pattern");
  const auto own = [&](const char* key, uint64_t usual) {
    return narrow(rewritten ? f_.get(key, usual, 1, kMaxCount) : f_.need(key, kMaxCount));
  };
  sliding.num_q_heads = own("swa_num_attention_heads", full.num_q_heads);
  sliding.num_kv_heads = own("swa_num_key_value_heads", 2 * uint64_t{full.num_kv_heads});
  sliding.head_dim_k = own("swa_head_dim", full.head_dim_k);
  sliding.head_dim_v = own("swa_v_head_dim", full.head_dim_v);
  if (f_.flag("add_full_attention_sink_bias")) full.flags |= QUIRE_LAYER_SINK_LOGITS;
  if (f_.flag("add_swa_attention_sink_bias")) sliding.flags |= QUIRE_LAYER_SINK_LOGITS;
  const bool drafts = (rules_.traits & kDrafts) != 0;
  std::string types;
  if (drafts) {
    types.assign(count, 's');
  } else if (rewritten) {
    types = layer_types(count, {"full_attention", "sliding_attention"});
  } else if (const Json* pattern = f_.list("hybrid_layer_pattern", count); pattern != nullptr) {
    for (const Json& item : pattern->array()) types += f_.number(item, "hybrid_layer_pattern[]", 0, 1) == 1 ? 's' : 'f';
  }
  const Json* named = !drafts && !rewritten && f_.has("layer_types") ? f_.list("layer_types", count) : nullptr;
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    const bool slides = types[i] == 's';
    if (named != nullptr && (*named)[i].is_text("sliding_attention") != slides) {
      f_.refuse(invalid("config: layer_types[%zu] and hybrid_layer_pattern[%zu] contradict each other", i, i));
    }
    attention(slides ? sliding : full, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? visible : 0);
  }
}

// Full layers have their own heads and width; the last num_kv_shared_layers read the cache of the last layer of their type before them.
void Reader::gemma4() {
  const uint64_t count = count_layers();
  const quire_layer sliding = attention_geometry();
  quire_layer full = sliding;
  // transformers 5 writes what layers have of their own in per_layer_config, which is empty where all are alike.
  const bool alike = f_.has("per_layer_config") && !f_.has("global_head_dim") && !f_.stated("num_global_key_value_heads");
  const bool global = (rules_.traits & kGlobal) != 0 && overrides_.empty() && !alike;
  if (global) {
    f_.need_stated("num_global_key_value_heads", "a number of heads, or null for num_key_value_heads");
    full.head_dim_k = full.head_dim_v = static_cast<uint32_t>(f_.need("global_head_dim", kMaxCount));
    const uint64_t heads = f_.get("num_global_key_value_heads", sliding.num_kv_heads, 1, kMaxCount);
    const bool own = !f_.has("attention_k_eq_v") || f_.flag("attention_k_eq_v");  // others keep the heads of all layers
    if (own) full.num_kv_heads = static_cast<uint32_t>(heads);
  }
  const uint64_t visible = f_.need("sliding_window", kMaxLength);
  const bool own_all = of_any({"Gemma4DSpark"});                                                    // each of its layers keeps its own
  const bool shares = !own_all && (f_.has("num_kv_shared_layers") || !of_any({"DiffusionGemma"}));  // which has no such field
  f_.ask({"num_kv_shared_layers"});
  const uint64_t shared = shares ? from_zero("num_kv_shared_layers", count - 1) : 0;
  const std::string types = f_.status.ok() ? layer_types(count, {"full_attention", "sliding_attention"}) : "";
  if (global && !types.empty() && types.back() == 's') {
    f_.refuse(invalid("config: layer_types ends with a layer that slides, which is full for %s", std::string(architecture_).c_str()));
  }
  uint32_t last[2] = {0, 0};  // 1 + index of the last layer with its own cache: full, sliding
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    const bool slides = types[i] == 's';
    f_.at_layer(overrides(i));
    if (skips_attention(i)) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: per_layer_config.%zu.skip leaves out attention, which is not known for %s", i,
                     std::string(architecture_).c_str()));
    }
    const quire_layer own = !overrides_.empty() ? attention_geometry() : slides ? sliding : full;
    const uint64_t of_layer = overrides_.empty() ? visible : f_.need("sliding_window", kMaxLength);
    attention(own, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? of_layer : 0);
    uint32_t& source = last[slides ? 1 : 0];
    if (i + shared < types.size()) {
      source = static_cast<uint32_t>(i + 1);
    } else if (source == 0) {
      f_.refuse(invalid("config: num_kv_shared_layers = %" PRIu64 " leaves layer %zu nothing to share", shared, i));
    } else {
      layers_.back().shares_with = source;
    }
  }
  f_.at_layer(nullptr);
}

// Full attention everywhere; most layers also keep one index key per token, which chooses the blocks that are read.
void Reader::minimax_m3() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const bool drafts = (rules_.traits & kDrafts) != 0;  // these always choose
  f_.ask({"layer_types", "index_head_dim"});
  std::vector<bool> sparse(count, drafts);
  uint64_t width = 0;
  if (const Json* config = f_.find("sparse_attention_config"); config != nullptr && config->is_object()) {
    const Json& list = (*config)["sparse_attention_freq"];
    if (!drafts && (!list.is_array() || list.size() != count)) {
      f_.refuse(invalid("config: sparse_attention_config.sparse_attention_freq must be a list of %" PRIu64, count));
      return;
    }
    for (uint64_t i = 0; i < count && !drafts; ++i)
      sparse[i] = f_.number(list[i], "sparse_attention_config.sparse_attention_freq[]", 0, kMaxCount) != 0;
    width = f_.number((*config)["sparse_index_dim"], "sparse_attention_config.sparse_index_dim", 1, kMaxCount);
  } else if (f_.has("layer_types")) {
    const std::string types = layer_types(count, {"full_attention", "minimax_m3_sparse"});
    for (size_t i = 0; i < types.size(); ++i) sparse[i] = types[i] == 'i';
    width = f_.need("index_head_dim", kMaxCount);
  } else {
    f_.refuse(invalid("config: sparse_attention_config and layer_types are missing; one must be there"));
  }
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    attention(geometry, QUIRE_LAYER_FULL, 0);
    if (sparse[i]) latent(&also(QUIRE_LAYER_INDEXER), width);
  }
}

// All layers run several times, each time with caches of their own; after the first time some classes only look back a little.
void Reader::looped() {
  const uint64_t count = count_layers();
  const quire_layer geometry = attention_geometry();
  const bool windows = of_any({"IQuest"});
  const uint64_t loops = f_.need(windows ? "loop_num" : "num_loops", 64);
  const uint64_t visible = windows ? f_.need("loop_window_size", kMaxLength) : 0;
  for (uint64_t i = 0; i < count * loops && f_.status.ok(); ++i) {
    const bool slides = windows && i >= count;
    attention(geometry, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, slides ? visible : 0);
  }
}

// Neighbouring layers share one cache (cross-layer attention).
void Reader::hunyuan() {
  const uint64_t count = count_layers();
  quire_layer geometry = attention_geometry();
  f_.ask({"cla_share_factor"});
  if (f_.flag("use_cla") && !of_any({"HunYuanForCausalLM"})) {  // the engines' classes share nothing, the publisher's own does
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: use_cla = true is not known for %s", std::string(architecture_).c_str()));
  }
  const uint64_t share = f_.flag("use_cla") ? f_.need("cla_share_factor", kMaxLayers) : 1;
  for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
    attention(geometry, QUIRE_LAYER_FULL, 0);
    if (i % share != 0) layers_.back().shares_with = narrow(i - i % share + 1);
  }
}

}  // namespace quire
