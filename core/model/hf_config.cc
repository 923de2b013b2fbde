// Reader of a Hugging Face config.json. The text is untrusted: its size and depth are limited
// before it is parsed, and every number is checked against a range before it is used. No exception leaves this file.
#include <array>
#include <cinttypes>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/dtype.h"
#include "core/model/hf_fields.h"
#include "core/model/model.h"

namespace quire {
namespace {

constexpr uint64_t kMaxBytes = 16u << 20;
constexpr int kMaxDepth = 64;
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxCount = 65536;
constexpr uint64_t kMaxLength = (uint64_t{1} << 31) - 1;

// Checks the depth of brackets outside strings and overwrites the literals NaN and Infinity, which Python writes and JSON forbids, with
// values that are no numbers.
Status prepare(std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return invalid("config: brackets nested deeper than %d at byte %zu", kMaxDepth, i);
    for (const std::string_view literal : {std::string_view("-Infinity"), std::string_view("Infinity"), std::string_view("NaN")}) {
      if (text.compare(i, literal.size(), literal) != 0) continue;
      // Same length, so that later positions stay; NaN becomes an object, which no field accepts as a number.
      const std::string_view plain = literal.size() > 3 ? "null" : "{}";
      text.replace(i, literal.size(), std::string(plain) + std::string(literal.size() - plain.size(), ' '));
      break;
    }
  }
  return {};
}

// Where a family deviates from a plain decoder.
enum class Family { kDecoder, kMla, kNemotronH, kDeci, kLlama4, kMiMo, kGemma4 };

struct Architecture {
  std::string_view name;
  Family family;
};

constexpr std::array kArchitectures{
    Architecture{"LlamaForCausalLM", Family::kDecoder},
    Architecture{"MistralForCausalLM", Family::kDecoder},
    Architecture{"MixtralForCausalLM", Family::kDecoder},
    Architecture{"Qwen2ForCausalLM", Family::kDecoder},
    Architecture{"Qwen2MoeForCausalLM", Family::kDecoder},
    Architecture{"Qwen3ForCausalLM", Family::kDecoder},
    Architecture{"Qwen3MoeForCausalLM", Family::kDecoder},
    Architecture{"Qwen3NextForCausalLM", Family::kDecoder},
    Architecture{"Qwen3_5ForCausalLM", Family::kDecoder},
    Architecture{"Qwen3_5ForConditionalGeneration", Family::kDecoder},
    Architecture{"Qwen3_5MoeForCausalLM", Family::kDecoder},
    Architecture{"Qwen3_5MoeForConditionalGeneration", Family::kDecoder},
    Architecture{"GptOssForCausalLM", Family::kDecoder},
    Architecture{"MiniMaxM2ForCausalLM", Family::kDecoder},
    Architecture{"Gemma3ForCausalLM", Family::kDecoder},
    Architecture{"Gemma3ForConditionalGeneration", Family::kDecoder},
    Architecture{"Gemma4ForCausalLM", Family::kGemma4},
    Architecture{"Gemma4ForConditionalGeneration", Family::kGemma4},
    Architecture{"DeepseekV2ForCausalLM", Family::kMla},
    Architecture{"DeepseekV3ForCausalLM", Family::kMla},
    Architecture{"NemotronHForCausalLM", Family::kNemotronH},
    Architecture{"DeciLMForCausalLM", Family::kDeci},
    Architecture{"Llama4ForConditionalGeneration", Family::kLlama4},
    Architecture{"MiMoV2FlashForCausalLM", Family::kMiMo},
};

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

class Reader {
 public:
  Reader(Fields& fields, std::string_view architecture) : f_(fields), architecture_(architecture) {}

  Result<Model> read(Family family) {
    const uint64_t length = f_.need("max_position_embeddings", kMaxLength);
    model_dtype_ = f_.dtype({"dtype", "torch_dtype"}, kBFloat16);
    softcap_ = f_.real("attn_logit_softcapping");
    QUIRE_RETURN_IF_ERROR(std::move(f_.status));
    switch (family) {
      case Family::kDecoder:
        decoder();
        break;
      case Family::kMla:
        mla();
        break;
      case Family::kNemotronH:
        nemotron_h();
        break;
      case Family::kDeci:
        deci();
        break;
      case Family::kLlama4:
        llama4();
        break;
      case Family::kMiMo:
        mimo();
        break;
      case Family::kGemma4:
        gemma4();
        break;
    }
    QUIRE_RETURN_IF_ERROR(std::move(f_.status));
    return Model::create(layers_, length, std::string(architecture_));
  }

 private:
  quire_layer& add(quire_layer_kind kind) {
    quire_layer layer{};
    layer.struct_size = sizeof layer;
    layer.kind = kind;
    layer.layer = static_cast<uint32_t>(layers_.size());
    layer.dtype = model_dtype_;
    layers_.push_back(layer);
    return layers_.back();
  }

  // Heads and widths of ordinary attention.
  quire_layer attention_geometry() {
    quire_layer layer{};
    const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
    const uint64_t kv_heads = f_.get("num_key_value_heads", q_heads, 1, kMaxCount);
    uint64_t width = f_.get("head_dim", 0, 1, kMaxCount);
    if (width == 0) width = f_.get("attention_head_dim", 0, 1, kMaxCount);
    if (width == 0) {
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

  void attention(const quire_layer& geometry, quire_layer_kind kind, uint64_t window) {
    quire_layer& layer = add(kind);
    layer.num_q_heads = geometry.num_q_heads;
    layer.num_kv_heads = geometry.num_kv_heads;
    layer.head_dim_k = geometry.head_dim_k;
    layer.head_dim_v = geometry.head_dim_v;
    layer.flags = geometry.flags;
    layer.window = window;
    layer.softcap = softcap_;
  }

  // One letter per layer: f full, s sliding, c chunked, l linear.
  std::string layer_types(uint64_t count) {
    std::string types;
    if (!f_.has("layer_types")) return default_types(count);
    const json* list = f_.list("layer_types", count);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const std::string type = (*list)[i].is_string() ? (*list)[i].get<std::string>() : Fields::shown((*list)[i]);
      if (type == "full_attention") {
        types += 'f';
      } else if (type == "sliding_attention") {
        types += 's';
      } else if (type == "chunked_attention") {
        types += 'c';
      } else if (type == "linear_attention") {
        types += 'l';
      } else {
        f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: layer_types[%zu] = \"%.64s\" is not known", i, type.c_str()));
      }
    }
    return types;
  }

  // What an architecture means when layer_types is absent.
  std::string default_types(uint64_t count) {
    std::string types(count, 'f');
    if (f_.has("linear_num_value_heads")) {
      const uint64_t interval = f_.need("full_attention_interval", kMaxLayers);
      for (uint64_t i = 0; i < count; ++i) types[i] = (i + 1) % interval == 0 ? 'f' : 'l';
    } else if (starts_with(architecture_, "GptOss")) {
      for (uint64_t i = 0; i < count; i += 2) types[i] = 's';
    } else if (starts_with(architecture_, "Gemma3")) {
      const uint64_t pattern = f_.get("sliding_window_pattern", 6, 1, kMaxLayers);
      for (uint64_t i = 0; i < count; ++i) types[i] = (i + 1) % pattern == 0 ? 'f' : 's';
    } else if (starts_with(architecture_, "Qwen")) {
      const uint64_t first = f_.flag("use_sliding_window") ? f_.get("max_window_layers", count, 0, kMaxLayers) : count;
      for (uint64_t i = first; i < count; ++i) types[i] = 's';
    } else if (starts_with(architecture_, "Mi") && f_.has("sliding_window")) {  // Mistral, Mixtral, MiniMax
      types.assign(count, 's');
    }
    return types;
  }

  // Gated delta net: convolution over q, k and v, and one matrix per value head.
  void gated_delta() {
    const uint64_t k_heads = f_.need("linear_num_key_heads", kMaxCount);
    const uint64_t v_heads = f_.need("linear_num_value_heads", kMaxCount);
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
  }

  void decoder() {
    const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
    quire_layer geometry = attention_geometry();
    if (starts_with(architecture_, "GptOss")) geometry.flags |= QUIRE_LAYER_SINK_LOGITS;
    const std::string types = layer_types(count);
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

  void mla() {
    const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
    const uint64_t latent = f_.need("kv_lora_rank", kMaxCount / 2);
    const uint64_t rope = f_.need("qk_rope_head_dim", kMaxCount / 2);
    const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
    for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
      quire_layer& layer = add(QUIRE_LAYER_MLA);
      layer.num_kv_heads = 1;
      layer.num_q_heads = static_cast<uint32_t>(q_heads);
      layer.head_dim_k = static_cast<uint32_t>(latent + rope);
    }
  }

  // One letter per layer: M Mamba-2, * attention, - and E layers without cache.
  std::string nemotron_pattern() {
    std::string pattern;
    if (const json* list = f_.find("layers_block_type"); list != nullptr && list->is_array() && list->size() <= kMaxLayers) {
      for (const json& item : *list) {
        const std::string type = item.is_string() ? item.get<std::string>() : Fields::shown(item);
        pattern += type == "mamba" ? 'M' : type == "attention" ? '*' : type == "mlp" ? '-' : type == "moe" ? 'E' : '?';
      }
    } else if (const json* text = f_.find("hybrid_override_pattern"); text != nullptr && text->is_string()) {
      pattern = text->get<std::string>();
    } else {
      f_.refuse(invalid("config: hybrid_override_pattern or layers_block_type is missing"));
    }
    const size_t bad = pattern.find_first_not_of("M*-E");
    if (bad != std::string::npos) f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: type of layer %zu is not known", bad));
    const uint64_t count = f_.get("num_hidden_layers", pattern.size(), 1, kMaxLayers);
    if (pattern.size() != count) {
      f_.refuse(invalid("config: num_hidden_layers = %" PRIu64 ", but the pattern names %zu layers", count, pattern.size()));
    }
    return pattern;
  }

  void nemotron_h() {
    const std::string pattern = nemotron_pattern();
    const quire_layer geometry = attention_geometry();
    const uint64_t heads = f_.need("mamba_num_heads", kMaxCount);
    const uint64_t width = f_.need("mamba_head_dim", kMaxCount);
    const uint64_t groups = f_.need("n_groups", kMaxCount);
    const uint64_t states = f_.need("ssm_state_size", kMaxCount);
    const uint64_t kernel = f_.get("conv_kernel", 4, 2, 1024);
    const quire_dtype ssm = f_.dtype({"mamba_ssm_cache_dtype", "mamba_ssm_dtype"}, model_dtype_);
    for (size_t i = 0; i < pattern.size() && f_.status.ok(); ++i) {
      if (pattern[i] == '*') {
        attention(geometry, QUIRE_LAYER_FULL, 0);
      } else if (pattern[i] != 'M') {
        add(QUIRE_LAYER_NONE);
      } else {
        quire_layer& layer = add(QUIRE_LAYER_STATE);
        layer.state_kind = QUIRE_STATE_MAMBA2;
        layer.num_kv_heads = static_cast<uint32_t>(groups);
        layer.num_q_heads = static_cast<uint32_t>(heads);
        layer.num_state_tensors = 2;
        layer.state[0] = {model_dtype_, 2, {kernel - 1, heads * width + 2 * groups * states, 0, 0}};
        layer.state[1] = {ssm, 3, {heads, width, states, 0}};
        layer.state_shard[0] = 2;
        layer.state_shard[1] = 1;
      }
    }
  }

  // Llama-Nemotron: every layer says how many query heads share a KV head, or that it has no attention.
  void deci() {
    const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
    const uint64_t q_heads = f_.need("num_attention_heads", kMaxCount);
    const uint64_t hidden = f_.need("hidden_size", kMaxLength);
    const uint64_t width = f_.get("head_dim", hidden / q_heads, 1, kMaxCount);
    const json* blocks = f_.list("block_configs", count);
    for (size_t i = 0; blocks != nullptr && i < blocks->size() && f_.status.ok(); ++i) {
      const json& block = (*blocks)[i];
      const bool object = block.is_object() && block.contains("attention") && block["attention"].is_object();
      if (!object) {
        f_.refuse(invalid("config: block_configs[%zu].attention must be an object", i));
        break;
      }
      const json& shape = block["attention"];
      if (shape.value("replace_with_linear", json(false)) == true || shape.value("no_op", json(false)) == true) {
        add(QUIRE_LAYER_NONE);
        continue;
      }
      for (const char* key : {"window_length", "num_sink_tokens", "sparsify"}) {
        if (!shape.value(key, json()).is_null())
          f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: block_configs[%zu].attention.%s is set", i, key));
      }
      const uint64_t share = f_.number(shape.value("n_heads_in_group", json()), "block_configs[].attention.n_heads_in_group", 1, q_heads);
      quire_layer geometry{};
      geometry.num_q_heads = static_cast<uint32_t>(q_heads);
      geometry.num_kv_heads = static_cast<uint32_t>(q_heads / share);
      geometry.head_dim_k = geometry.head_dim_v = static_cast<uint32_t>(width);
      attention(geometry, QUIRE_LAYER_FULL, 0);
    }
  }

  // Every no_rope_layer_interval-th layer (4) is full attention, the others attend inside chunks.
  void llama4() {
    const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
    const quire_layer geometry = attention_geometry();
    const uint64_t chunk = f_.need("attention_chunk_size", kMaxLength);
    const uint64_t interval = f_.get("no_rope_layer_interval", 4, 1, kMaxLayers);
    const json* rope = f_.has("no_rope_layers") && !f_.find("no_rope_layers")->empty() ? f_.list("no_rope_layers", count) : nullptr;
    for (uint64_t i = 0; i < count && f_.status.ok(); ++i) {
      const bool chunked = rope != nullptr ? f_.number((*rope)[i], "no_rope_layers[]", 0, 1) == 1 : (i + 1) % interval != 0;
      attention(geometry, chunked ? QUIRE_LAYER_CHUNKED : QUIRE_LAYER_FULL, chunked ? chunk : 0);
    }
  }

  void mimo() {
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
    const json* pattern = f_.list("hybrid_layer_pattern", count);
    for (uint64_t i = 0; pattern != nullptr && i < count && f_.status.ok(); ++i) {
      if (f_.number((*pattern)[i], "hybrid_layer_pattern[]", 0, 1) == 1) {
        attention(sliding, QUIRE_LAYER_SLIDING_WINDOW, window);
      } else {
        attention(full, QUIRE_LAYER_FULL, 0);
      }
    }
  }

  // Full layers have their own heads and width; the last num_kv_shared_layers read the cache of the last layer of their type before them.
  void gemma4() {
    const uint64_t count = f_.need("num_hidden_layers", kMaxLayers);
    const quire_layer sliding = attention_geometry();
    quire_layer full = sliding;
    full.head_dim_k = full.head_dim_v = static_cast<uint32_t>(f_.get("global_head_dim", sliding.head_dim_k, 1, kMaxCount));
    full.num_kv_heads = static_cast<uint32_t>(f_.get("num_global_key_value_heads", sliding.num_kv_heads, 1, kMaxCount));
    const uint64_t window = f_.need("sliding_window", kMaxLength);
    const uint64_t shared = f_.get("num_kv_shared_layers", 0, 0, count - 1);
    if (!f_.has("layer_types")) f_.refuse(invalid("config: layer_types is missing"));
    const std::string types = f_.status.ok() ? layer_types(count) : "";
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

  Fields& f_;
  std::string_view architecture_;
  quire_dtype model_dtype_ = kBFloat16;
  float softcap_ = 0;
  std::vector<quire_layer> layers_;
};

Result<Model> read_document(const json& root) {
  if (!root.is_object()) return invalid("config: the outermost value must be an object");
  const auto list = root.find("architectures");
  if (list == root.end() || !list->is_array() || list->empty() || !(*list)[0].is_string()) {
    return invalid("config: architectures must be a list with at least one name");
  }
  const std::string name = (*list)[0].get<std::string>();
  const auto nested = root.find("text_config");
  if (nested != root.end() && !nested->is_object()) return invalid("config: text_config must be an object");
  Fields fields(root, nested != root.end() ? *nested : root);
  for (const Architecture& known : kArchitectures) {
    if (known.name == name) return Reader(fields, known.name).read(known.family);
  }
  return fail(QUIRE_UNIMPLEMENTED, "config: architectures[0] = \"%.128s\" is not known", name.c_str());
}

}  // namespace

Result<Model> read_hf_config(std::string_view text) {
  if (text.size() > kMaxBytes) return invalid("config: %zu bytes; at most %" PRIu64, text.size(), kMaxBytes);
  try {
    std::string copy(text);
    QUIRE_RETURN_IF_ERROR(prepare(copy));
    return read_document(json::parse(copy));
  } catch (const json::parse_error& error) {
    return invalid("config: not JSON at byte %zu of %zu", std::min(error.byte, text.size()), text.size());
  } catch (const std::bad_alloc&) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "config: out of memory for %zu bytes of JSON", text.size());
  } catch (const std::exception& error) {
    return invalid("config: %.200s", error.what());
  }
}

}  // namespace quire
