// Reader of a Hugging Face config.json. The text is untrusted: its size and depth are limited
// before it is parsed, and every number is checked against a range before it is used. No exception leaves this file.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>

#include "core/model/check_codec.h"
#include "core/model/hf_reader.h"
#include "core/model/json_text.h"

namespace quire {
namespace {

struct Architecture {
  std::string_view name;
  Reader::Family family;
};

constexpr std::array kArchitectures{
    Architecture{"LlamaForCausalLM", &Reader::decoder},
    Architecture{"MistralForCausalLM", &Reader::decoder},
    Architecture{"MinistralForCausalLM", &Reader::decoder},
    Architecture{"MixtralForCausalLM", &Reader::decoder},
    Architecture{"Qwen2ForCausalLM", &Reader::decoder},
    Architecture{"Qwen2MoeForCausalLM", &Reader::decoder},
    Architecture{"Qwen3ForCausalLM", &Reader::decoder},
    Architecture{"Qwen3MoeForCausalLM", &Reader::decoder},
    Architecture{"Qwen3NextForCausalLM", &Reader::decoder},
    Architecture{"Qwen3_5ForCausalLM", &Reader::decoder},
    Architecture{"Qwen3_5ForConditionalGeneration", &Reader::decoder},
    Architecture{"Qwen3_5MoeForCausalLM", &Reader::decoder},
    Architecture{"Qwen3_5MoeForConditionalGeneration", &Reader::decoder},
    Architecture{"GptOssForCausalLM", &Reader::decoder},
    Architecture{"MiniMaxM2ForCausalLM", &Reader::decoder},
    Architecture{"Gemma2ForCausalLM", &Reader::decoder},
    Architecture{"Gemma3ForCausalLM", &Reader::decoder},
    Architecture{"Gemma3ForConditionalGeneration", &Reader::decoder},
    Architecture{"Cohere2ForCausalLM", &Reader::decoder},
    Architecture{"Gemma3nForCausalLM", &Reader::gemma4},
    Architecture{"Gemma3nForConditionalGeneration", &Reader::gemma4},
    Architecture{"Gemma4ForCausalLM", &Reader::gemma4},
    Architecture{"Gemma4ForConditionalGeneration", &Reader::gemma4},
    Architecture{"DeepseekV2ForCausalLM", &Reader::mla},
    Architecture{"DeepseekV3ForCausalLM", &Reader::mla},
    Architecture{"DeepseekV32ForCausalLM", &Reader::mla},
    Architecture{"GlmMoeDsaForCausalLM", &Reader::mla},
    Architecture{"DeepseekV4ForCausalLM", &Reader::deepseek_v4},
    Architecture{"KimiLinearForCausalLM", &Reader::kimi},
    Architecture{"KimiK3ForConditionalGeneration", &Reader::kimi},
    Architecture{"NemotronHForCausalLM", &Reader::nemotron_h},
    Architecture{"DeciLMForCausalLM", &Reader::deci},
    Architecture{"Llama4ForConditionalGeneration", &Reader::llama4},
    Architecture{"MiMoV2FlashForCausalLM", &Reader::mimo},
    Architecture{"BambaForCausalLM", &Reader::bamba},
    Architecture{"GraniteMoeHybridForCausalLM", &Reader::granite},
    Architecture{"FalconH1ForCausalLM", &Reader::falcon_h1},
    Architecture{"Zamba2ForCausalLM", &Reader::zamba2},
    Architecture{"JambaForCausalLM", &Reader::jamba},
    Architecture{"MambaForCausalLM", &Reader::mamba},
    Architecture{"FalconMambaForCausalLM", &Reader::mamba},
    Architecture{"Mamba2ForCausalLM", &Reader::mamba2_only},
    Architecture{"Lfm2ForCausalLM", &Reader::lfm2},
    Architecture{"Lfm2MoeForCausalLM", &Reader::lfm2},
    Architecture{"MiniMaxText01ForCausalLM", &Reader::minimax_text},
    Architecture{"MiniMaxM1ForCausalLM", &Reader::minimax_text},
    Architecture{"MiniMaxForCausalLM", &Reader::minimax_text},
    Architecture{"Phi4FlashForCausalLM", &Reader::samba_y},
    Architecture{"HunYuanForCausalLM", &Reader::hunyuan},
    Architecture{"WhisperForConditionalGeneration", &Reader::whisper},
    Architecture{"T5ForConditionalGeneration", &Reader::t5},
    Architecture{"BartForConditionalGeneration", &Reader::bart},
    Architecture{"BertModel", &Reader::bert},
};

Result<Model> read_document(const Json& root) {
  if (!root.is_object()) return invalid("config: the outermost value must be an object");
  const Json* list = root.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !(*list)[0].is_string()) {
    return invalid("config: architectures must be a list with at least one name");
  }
  const std::string name = (*list)[0].string();
  const Json* nested = root.find("text_config");
  if (nested != nullptr && !nested->is_object()) return invalid("config: text_config must be an object");
  Fields fields(root, nested != nullptr ? *nested : root);
  for (const Architecture& known : kArchitectures) {
    if (known.name == name) return Reader(fields, known.name).read(known.family);
  }
  return fail(QUIRE_UNIMPLEMENTED, "config: architectures[0] = \"%.128s\" is not known", name.c_str());
}

}  // namespace

quire_layer& Reader::add(quire_layer_kind kind) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.layer = layers_.empty() ? 0 : layers_.back().layer + 1;
  layer.dtype = model_dtype_;
  layers_.push_back(layer);
  facts_.emplace_back();
  return layers_.back();
}

quire_layer& Reader::also(quire_layer_kind kind) {
  const quire_layer before = layers_.back();
  quire_layer& layer = add(kind);
  layer.layer = before.layer;
  layer.sub = before.sub + 1;
  return layer;
}

// Scales of a tensor or of a head lie outside of the cache; what has more of them, or other elements, is not known.
void Reader::kv_cache_scheme() {
  const Json* quantised = f_.find("quantization_config");
  if (quantised == nullptr) return;
  if (!quantised->is_object()) {
    f_.refuse(invalid("config: quantization_config = %.64s; must be an object", Fields::shown(*quantised).c_str()));
    return;
  }
  const Json& scheme = (*quantised)["kv_cache_scheme"];
  if (scheme.is_null()) return;
  if (!scheme.is_object()) {
    f_.refuse(invalid("config: quantization_config.kv_cache_scheme = %.64s; must be an object", Fields::shown(scheme).c_str()));
    return;
  }
  const auto only = [&](const char* key, std::initializer_list<std::string_view> known, const char* told) {
    const Json& value = scheme[key];
    if (std::find(known.begin(), known.end(), value.text()) != known.end()) return;
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: quantization_config.kv_cache_scheme.%s = %.64s; known is %s", key,
                   Fields::shown(value).c_str(), told));
  };
  only("num_bits", {"8", "8.0"}, "8");
  only("type", {"\"float\""}, "\"float\"");
  only("dynamic", {"null", "false"}, "false");
  only("strategy", {"null", "\"tensor\"", "\"attn_head\""}, "\"tensor\" or \"attn_head\"");
  if (!f_.status.ok()) return;
  for (size_t i = 0; i < layers_.size(); ++i) {
    quire_layer& layer = layers_[i];
    const bool tokens = layer.kind == QUIRE_LAYER_FULL || layer.kind == QUIRE_LAYER_SLIDING_WINDOW || layer.kind == QUIRE_LAYER_CHUNKED ||
                        layer.kind == QUIRE_LAYER_MLA || layer.kind == QUIRE_LAYER_CROSS;
    if (tokens && !fp8_record(facts_[i].family.fp8_record, &layer)) layer.dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  }
}

Result<Model> Reader::read(Family family) {
  length_ = f_.get("max_position_embeddings", 0, 1, kMaxLength);
  model_dtype_ = f_.dtype({"dtype", "torch_dtype"}, kBFloat16);
  state_dtype_ = model_dtype_;
  softcap_ = f_.real("attn_logit_softcapping");
  QUIRE_RETURN_IF_ERROR(std::move(f_.status));
  (this->*family)();
  const uint64_t usual = of_any({"NemotronH"}) ? kShortStateChunk : kStateChunk;
  const uint64_t chunk = f_.get(f_.has("chunk_size") ? "chunk_size" : "mamba_chunk_size", usual, 1, kMaxCount);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].kind == QUIRE_LAYER_STATE) facts_[i].family.state_chunk = narrow(chunk);
  }
  const bool recurrent = family == &Reader::mamba || family == &Reader::mamba2_only;  // these have no longest sequence
  kv_cache_scheme();
  if (length_ == 0 && !recurrent) f_.refuse(invalid("config: max_position_embeddings is missing; must be 1..%" PRIu64, kMaxLength));
  QUIRE_RETURN_IF_ERROR(std::move(f_.status));
  return Model::create(layers_, length_, std::string(architecture_), facts_);
}

Result<Model> read_hf_config(std::string_view text) { return with_json(text, "config", read_document); }

}  // namespace quire
