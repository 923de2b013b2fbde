// Reader of a Hugging Face config.json. The text is untrusted: its size and depth are limited
// before it is parsed, and every number is checked against a range before it is used. No exception leaves this file.
#include <quire/config.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>

#include "core/model/check_codec.h"
#include "core/model/hf_rules.h"
#include "core/model/json_text.h"

namespace quire {
namespace {

// Where models around a text model keep its config; the first that is there counts, and the config itself where none is.
constexpr std::array<std::array<const char*, 2>, 10> kNested{{{"text_config", nullptr},
                                                              {"thinker_config", "text_config"},
                                                              {"llm_config", nullptr},
                                                              {"language_config", nullptr},
                                                              {"llm_cfg", nullptr},
                                                              {"language_model_config", nullptr},
                                                              {"text_model_config", nullptr},
                                                              {"vlm_config", "text_config"},
                                                              {"decoder_config", nullptr},
                                                              {"decoder", nullptr}}};

constexpr const char* kWays = "read it like one that is (quire plan --as ARCHITECTURE), or describe its layers in a layer file";

Status unknown(const Json& root, const std::string& name) {
  const Json* type = root.find("model_type");
  const std::string said = type != nullptr && type->is_string() ? type->string() : "";
  const std::string near(architecture_of_type(said));
  if (near.empty()) return fail(QUIRE_UNIMPLEMENTED, "config: architectures[0] = \"%.128s\" is not known; %s", name.c_str(), kWays);
  return fail(QUIRE_UNIMPLEMENTED, "config: architectures[0] = \"%.128s\" is not known (model_type %.64s is that of %s); %s", name.c_str(),
              said.c_str(), near.c_str(), kWays);
}

constexpr size_t kOfText = 8;  // of kNested: those that are named after language models

bool counts_layers(const Json& config) {
  constexpr std::array kNames{"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks"};
  return std::any_of(kNames.begin(), kNames.end(), [&config](const char* name) { return config.find(name) != nullptr; });
}

// wraps: the architecture is around a text model. A config that --as reads like a text model may be around one, too: it counts no layers
// itself, and the nested one does. Elsewhere such fields have other ends.
Result<const Json*> nested_in(const Json& root, bool wraps) {
  for (size_t i = 0; i < kNested.size(); ++i) {
    const auto& path = kNested[i];
    if (!wraps && i > 0 && (i >= kOfText || counts_layers(root))) break;
    const Json* nested = root.find(path[0]);
    if (nested != nullptr && path[1] != nullptr) nested = nested->find(path[1]);
    if (nested == nullptr || nested->is_null()) continue;
    if (!wraps && i > 0 && (!nested->is_object() || !counts_layers(*nested))) continue;
    if (!nested->is_object()) return invalid("config: %s must be an object", path[1] != nullptr ? path[1] : path[0]);
    return nested;
  }
  return &root;
}

// Whether NVIDIA's ModelOpt wrote it: in a config it is named, and hf_quant_config.json is its own file.
bool of_modelopt(const Json& quantised) {
  const Json& method = quantised["quant_method"];
  return (method.is_string() && starts_with(method.string(), "modelopt")) || quantised["producer"]["name"].is_text("modelopt");
}

Result<Model> read_document(const Json& root) {
  if (!root.is_object()) return invalid("config: the outermost value must be an object");
  auto opened = open_config(root, "");
  if (!opened.ok()) return opened.take_status();
  Fields fields(root, *opened->text, "config: ", &opened->defaults);
  Reader reader(fields, *opened->rules, opened->inner, opened->name);
  QUIRE_RETURN_IF_ERROR(reader.collect());
  std::string drafts;
  if (root.contains("quire_speculative")) QUIRE_RETURN_IF_ERROR(add_drafts(root, &reader, &drafts));
  auto model = reader.finish();
  if (!model.ok()) return model;
  for (std::string& note : std::array{note_of_assumed(*opened, fields), std::move(drafts)}) {
    if (!note.empty()) model->add_note(std::move(note));
  }
  return model;
}

}  // namespace

std::string architecture_in(const Json& config) {
  const Json* list = config.find("architectures");
  if (list != nullptr && list->is_array() && !list->empty() && (*list)[0].is_string()) return (*list)[0].string();
  const Json* type = config.find("model_type");
  return type != nullptr && type->is_string() ? std::string(architecture_of_type(type->string())) : "";
}

Result<OpenConfig> open_config(const Json& root, std::string_view as) {
  if (as.empty() && root.contains("specs") && root.contains("layers") && !root.contains("architectures") && !root.contains("model_type")) {
    return invalid("config: specs and layers are fields of a layer file; quire_model_from_layers reads it");
  }
  const Json* list = root.find("architectures");
  const bool listed = as.empty() && list != nullptr && !list->is_null();
  if (listed && (!list->is_array() || list->empty() || !(*list)[0].is_string())) {
    return invalid("config: architectures must be a list with at least one name");
  }
  const std::string name = as.empty() ? architecture_in(root) : std::string(as);
  if (name.empty()) {
    const Json* type = root.find("model_type");
    if (type == nullptr || !type->is_string()) return invalid("config: architectures must be a list with at least one name");
    return fail(QUIRE_UNIMPLEMENTED,
                "config: architectures is missing and model_type = \"%.64s\" is not known; read it like a known one "
                "(quire plan --as ARCHITECTURE), or describe its layers in a layer file",
                type->string().c_str());
  }
  if (const char* why = refusal_of(name); why != nullptr) {
    return fail(QUIRE_UNIMPLEMENTED, "config: architectures[0] = \"%.128s\" is known but not read: %s; describe its layers in a layer file",
                name.c_str(), why);
  }
  const Wrapper* wrapper = wrapper_of(name);
  auto nested = nested_in(root, wrapper != nullptr);
  if (!nested.ok()) return nested.take_status();
  const Json* const text = nested.value();
  std::string inner = name;
  if (wrapper != nullptr) {
    const bool itself = std::string_view(wrapper->text) == "=";
    inner = itself ? name : *wrapper->text != 0 ? wrapper->text : text == &root ? "" : architecture_in(*text);
    const Json* type = text->find("model_type");
    if (inner.empty() && text != &root && type != nullptr && type->is_string()) {
      return fail(QUIRE_UNIMPLEMENTED, "config: text_config.model_type = \"%.64s\" of %.128s is not known; %s", type->string().c_str(),
                  name.c_str(), kWays);
    }
    if (inner.empty()) {
      return invalid("config: text_config, or what stands for it, is missing in %.128s, or names no architecture and no model_type; %s",
                     name.c_str(), kWays);
    }
    if (const char* why = refusal_of(inner); why != nullptr) {
      return fail(QUIRE_UNIMPLEMENTED, "config: text_config is of \"%.128s\", which is not read: %s", inner.c_str(), why);
    }
  }
  if (const Json* type = root.find("model_type"); inner == "DSparkDraftModel" && type != nullptr && !type->is_text("qwen3")) {
    if (!type->is_text("deepseek_v4")) {
      return fail(QUIRE_UNIMPLEMENTED, "config: model_type = %.64s is not known for DSparkDraftModel", Fields::shown(*type).c_str());
    }
    inner = "DeepseekV4ForCausalLMDSpark";
  }
  const Rules* rules = rules_of(inner);
  if (rules == nullptr) return unknown(root, inner);
  OpenConfig out{rules, text, inner, name, {}, {}};
  if (const Json* type = text->find("model_type"); text != &root && type != nullptr && type->is_string()) {
    out.type = type->string();
    out.defaults = defaults_of(out.type);
  }
  return out;
}

std::string note_of_assumed(const OpenConfig& opened, const Fields& fields) {
  std::string out;
  for (const std::string& one : fields.all_assumed()) out += (out.empty() ? "" : ", ") + one;
  return out.empty() ? out : "assumed, as transformers does where a nested config of " + opened.type + " leaves it out: " + out;
}

quire_layer& CacheList::add(quire_layer_kind kind) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.layer = layers_.empty() ? 0 : layers_.back().layer + 1;
  layer.dtype = model_dtype_;
  layers_.push_back(layer);
  facts_.emplace_back();
  return layers_.back();
}

quire_layer& CacheList::also(quire_layer_kind kind) {
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
  const Json* algo = quantised->find("kv_cache_quant_algo");  // what hf_quant_config.json says, there and in its object
  const Json* inner = quantised->find("quantization");
  if (algo == nullptr && inner != nullptr) algo = inner->find("kv_cache_quant_algo");
  const Json* stated = quantised->find("kv_cache_scheme");
  if ((stated == nullptr || stated->is_null()) && inner != nullptr) stated = inner->find("kv_cache_scheme");
  const bool by_scheme = stated != nullptr && !stated->is_null();
  if (!by_scheme && algo == nullptr) return;
  const Json& scheme = by_scheme ? *stated : *algo;
  if (scheme.is_null()) return;
  const char* const field = by_scheme ? "kv_cache_scheme" : "kv_cache_quant_algo";
  if (scheme.is_string()) {
    const std::string& word = scheme.string();
    if (word == "FP8" || word == "fp8" || word == "fp8_e4m3") return keep_fp8();
    if (word == "auto" || word == "none" || word.empty()) return;
    if ((word == "NVFP4" || word == "nvfp4") && of_modelopt(*quantised)) return keep_fp4();
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: quantization_config.%s = %.64s; known are \"FP8\", \"auto\" and, of ModelOpt, \"NVFP4\"",
                   field, Fields::shown(scheme).c_str()));
    return;
  }
  if (!scheme.is_object()) {
    f_.refuse(invalid("config: quantization_config.%s = %.64s; must be an object or a word", field, Fields::shown(scheme).c_str()));
    return;
  }
  const auto only = [&](const char* key, std::initializer_list<std::string_view> known, const char* told) {
    const Json& value = scheme[key];
    if (std::find(known.begin(), known.end(), value.text()) != known.end()) return;
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: quantization_config.kv_cache_scheme.%s = %.64s; known is %s", key,
                   Fields::shown(value).c_str(), told));
  };
  const Json& group = scheme["group_size"];
  if (of_modelopt(*quantised) && scheme["num_bits"].text() == "4" && scheme["type"].is_text("float") &&
      (group.is_null() || group.text() == "16")) {
    return keep_fp4();
  }
  only("num_bits", {"8", "8.0"}, of_modelopt(*quantised) ? "8, or 4 in groups of 16" : "8");
  only("type", {"\"float\""}, "\"float\"");
  only("dynamic", {"null", "false"}, "false");
  only("strategy", {"null", "\"tensor\"", "\"attn_head\""}, "\"tensor\" or \"attn_head\"");
  if (f_.status.ok()) keep_fp8();
}

// As vLLM's NVFP4 cache: elements of 4 bits, and behind them a scale for 16 of them. What it does with latent rows is another format.
void Reader::keep_fp4() {
  constexpr quire_dtype kFp4{QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
  for (quire_layer& layer : layers_) {
    const bool two_sides = layer.kind == QUIRE_LAYER_FULL || layer.kind == QUIRE_LAYER_SLIDING_WINDOW || layer.kind == QUIRE_LAYER_CHUNKED;
    if (two_sides) f_.refuse(add_scales(kFp4, QUIRE_KV_SCALES_16, &layer));
    if (layer.kind != QUIRE_LAYER_MLA && layer.kind != QUIRE_LAYER_INDEXER && layer.kind != QUIRE_LAYER_CROSS) continue;
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: quantization_config asks for NVFP4, which is not known for layer %u, %s", layer.layer,
                   layer.kind == QUIRE_LAYER_CROSS ? "of the encoder's keys" : "of latent rows or index keys"));
  }
}

void Reader::keep_fp8() {
  for (size_t i = 0; i < layers_.size(); ++i) {
    quire_layer& layer = layers_[i];
    const bool tokens = layer.kind == QUIRE_LAYER_FULL || layer.kind == QUIRE_LAYER_SLIDING_WINDOW || layer.kind == QUIRE_LAYER_CHUNKED ||
                        layer.kind == QUIRE_LAYER_MLA || layer.kind == QUIRE_LAYER_CROSS;
    if (tokens && !fp8_record(facts_[i].family.fp8_record, &layer)) layer.dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  }
}

Status Reader::collect() {
  const std::string length = f_.spelled(rules_.spelling.length);
  length_ = f_.get(length.c_str(), 0, 1, kMaxLength);
  model_dtype_ = f_.dtype({"dtype", "torch_dtype"}, kBFloat16);
  state_dtype_ = model_dtype_;
  softcap_ = f_.real("attn_logit_softcapping");
  QUIRE_RETURN_IF_ERROR(std::move(f_.status));
  (this->*rules_.family)();
  if (f_.status.ok()) refuse_unread();
  const uint64_t usual = of_any({"NemotronH"}) ? kShortStateChunk : kStateChunk;
  const uint64_t chunk = f_.get(f_.has("chunk_size") ? "chunk_size" : "mamba_chunk_size", usual, 1, kMaxCount);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].kind == QUIRE_LAYER_STATE) facts_[i].family.state_chunk = narrow(chunk);
  }
  return std::move(f_.status);
}

// States of the model have a slot for each draft.
void Reader::expect_drafts(uint32_t tokens) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].kind == QUIRE_LAYER_STATE) facts_[i].family.draft_states = tokens;
  }
}

// Drafts stand behind the layers they draft for, keep the model's type, and write ahead.
void Reader::follow(const Reader& drafts, uint32_t tokens) {
  const uint32_t first = layers_.empty() ? 0 : layers_.back().layer + 1;
  const uint32_t ahead = tokens + (drafts.fills_in() ? 1 : 0);
  for (size_t i = 0; i < drafts.layers_.size(); ++i) {
    quire_layer layer = drafts.layers_[i];
    layer.layer += first;
    if (layer.shares_with != 0) layer.shares_with += first;
    if (same_dtype(layer.dtype, drafts.model_dtype_)) layer.dtype = model_dtype_;
    if (layer.kind != QUIRE_LAYER_STATE && layer.kind != QUIRE_LAYER_NONE && layer.kind != QUIRE_LAYER_ENCODER_ONLY) {
      layer.flags |= QUIRE_LAYER_DRAFT;
      layer.look_ahead = ahead;
    }
    layers_.push_back(layer);
    facts_.push_back(drafts.facts_[i]);
  }
}

Result<Model> Reader::finish() {
  kv_cache_scheme();
  QUIRE_RETURN_IF_ERROR(std::move(f_.status));
  return Model::create(layers_, length_, std::string(shown_), facts_);
}

Result<Model> read_hf_config(std::string_view text) { return with_json(text, "config", read_document); }

}  // namespace quire
