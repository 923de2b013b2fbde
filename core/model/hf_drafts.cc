// Draft models whose classes read a config otherwise than the models they draft for, and how many layers drafts are.
#include <algorithm>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

// Stages of DSpark that DeepSeek-V4 keeps at least where its config counts none.
constexpr uint64_t kUsualStages = 3;

}  // namespace

// Draft layers that a config describes beside the others.
uint64_t DecoderFields::count_drafts() {
  if ((rules_.traits & kStages) != 0) {
    const Json* targets = f_.find("dspark_target_layer_ids");
    if (f_.has("n_mtp_layers")) return f_.need("n_mtp_layers", kMaxLayers);
    if (targets != nullptr && targets->is_array() && !targets->empty() && targets->size() <= kMaxLayers) {
      return std::max<uint64_t>(kUsualStages, targets->size());
    }
    f_.refuse(invalid("config: n_mtp_layers and dspark_target_layer_ids are missing; one must be there"));
    return 1;
  }
  if (of_any({"MiMoV2"})) return 1;  // whatever the file counts: vLLM and SGLang keep the first
  if (of_any({"MiniMaxM2"})) {       // modules of several layers each
    const Json* on = f_.find("use_mtp");
    if (on != nullptr && on->is_boolean() && !on->is_true()) {
      f_.refuse(invalid("config: use_mtp = false: it has no draft layers"));
    }
    return std::min(kMaxLayers, f_.need("num_mtp_modules", kMaxLayers) * f_.get("mtp_transformer_layers", 1, 1, kMaxLayers));
  }
  const Json* apart = f_.find("mtp_config");
  if (apart != nullptr && apart->is_object()) {
    const char* const key = apart->contains("num_nextn_predict_layers") ? "num_nextn_predict_layers" : "n_layers";
    if (apart->contains(key)) return f_.number((*apart)[key], (std::string("mtp_config.") + key).c_str(), 1, kMaxLayers);
  }
  return f_.need(f_.spelled("num_nextn_predict_layers mtp_num_hidden_layers num_mtp_modules").c_str(), kMaxLayers);
}

// One pass drafts a block of tokens: layers are full, or slide where layer_types or dflash_config.use_swa says so.
void Reader::dflash() {
  const Json* stated = f_.find("dflash_config");
  if (stated != nullptr && !stated->is_object()) {
    f_.refuse(invalid("config: dflash_config = %.64s; must be an object", Fields::shown(*stated).c_str()));
  }
  if (!f_.status.ok()) return;
  const Json none;
  const auto own = [&](const char* key) -> const Json& { return (stated == nullptr ? none : *stated)[key]; };
  const bool inside = of_any({"DSparkMiniMax"});  // its text config is the target's
  const uint64_t count = inside ? f_.number(own("num_hidden_layers"), "dflash_config.num_hidden_layers", 1, kMaxLayers) : count_layers();
  quire_layer geometry = attention_geometry();
  if (!inside) refuse_foreign();
  f_.ask({"layer_types", "sliding_window"});
  const Json& types_inside = own("layer_types");
  const bool foreign = inside && (stated_window() != 0 || own("use_swa").is_true());
  if (foreign || !types_inside.is_null()) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s is not known for %s",
                   !types_inside.is_null() ? "dflash_config.layer_types" : "a window", std::string(architecture_).c_str()));
  }
  std::string types(count, 'f');
  if (!inside && f_.has("layer_types")) types = layer_types(count, {"full_attention", "sliding_attention"});
  if (types.find('s') == std::string::npos && own("use_swa").is_true()) types.assign(count, 's');
  if (of_any({"DFlashLaguna"})) types.assign(count, 'f');  // vLLM keeps every token of layers that slide
  const Json& sinks = own("attention_sink_bias");
  if (sinks.is_null() ? f_.flag("add_swa_attention_sink_bias") : sinks.is_true()) geometry.flags |= QUIRE_LAYER_SINK_LOGITS;
  for (size_t i = 0; i < types.size() && f_.status.ok(); ++i) {
    uint64_t visible = 0;
    if (types[i] == 's') {  // vLLM takes the first where both are there, SGLang the second
      const Json& width = own("swa_window_size");
      if (!width.is_null()) visible = f_.number(width, "dflash_config.swa_window_size", 1, kMaxLength);
      if (width.is_null() || f_.has("sliding_window")) visible = std::max(visible, f_.need("sliding_window", kMaxLength));
    }
    attention(geometry, types[i] == 's' ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, visible);
  }
}

// Layers of the target's kind that have types and windows of their own in later configs, and those of its first layers in earlier ones.
void Reader::exaone_draft() {
  const bool one = of_any({"ExaoneMoEForCausalLMMTP"});  // SGLang keeps one, like the first layer
  const uint64_t count = one ? 1 : count_layers();
  const quire_layer geometry = attention_geometry();
  for (const char* key : {"mtp_layer_types", "mtp_sliding_windows", "sliding_windows"}) {
    if (one && f_.has(key)) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s is not known for %s", key, std::string(architecture_).c_str()));
    }
  }
  const auto listed = [&](const char* field) -> const Json* {
    const Json* list = f_.find(field);
    if (list != nullptr && list->is_array() && list->size() >= count) return list;
    f_.refuse(invalid("config: %s is missing or too short; must be a list of at least %" PRIu64, field, count));
    return nullptr;
  };
  const std::string types_field = f_.spelled("mtp_layer_types layer_types");
  const std::string windows_field = f_.spelled("mtp_sliding_windows sliding_windows");
  const Json* types = listed(types_field.c_str());
  const Json* windows = f_.has(windows_field.c_str()) ? listed(windows_field.c_str()) : nullptr;
  for (size_t i = 0; types != nullptr && i < count && f_.status.ok(); ++i) {
    const bool slides = (*types)[i].is_text("sliding_attention");
    if (!slides && !(*types)[i].is_text("full_attention")) {
      f_.refuse(
          fail(QUIRE_UNIMPLEMENTED, "config: %s[%zu] = %.64s is not known", types_field.c_str(), i, Fields::shown((*types)[i]).c_str()));
      return;
    }
    const uint64_t visible = !slides              ? 0
                             : windows != nullptr ? f_.number((*windows)[i], windows_field.c_str(), 1, kMaxLength)
                                                  : f_.need("sliding_window", kMaxLength);
    attention(geometry, slides ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, visible);
  }
}

// One layer; heads are those of the target, whose config stands inside where the draft's own does not state them.
void Reader::iquest_draft() {
  if (f_.get("num_hidden_layers", 1, 1, kMaxLayers) != 1) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: num_hidden_layers is more than 1, which is not known for IQuestQ1MTP"));
  }
  f_.need_stated("sliding_window", "tokens, or null for none");
  const uint64_t visible = f_.get("sliding_window", 0, 0, kMaxLength);
  const Json* target = f_.find("target_config");
  const bool inside = target != nullptr && target->is_object() && !f_.has("num_attention_heads");
  if (inside) f_.at_layer(target);
  const quire_layer geometry = attention_geometry();
  if (length_ == 0) length_ = f_.need("max_position_embeddings", kMaxLength);
  f_.at_layer(nullptr);
  attention(geometry, visible != 0 ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL, visible);
}

// Ling: a plain layer, or a latent one where the model has such.
void Reader::bailing_draft() {
  const Json* type = f_.find("full_attention_type");
  if (type != nullptr && !type->is_text("mla")) {
    f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: full_attention_type = %.64s; known is \"mla\"", Fields::shown(*type).c_str()));
  }
  f_.has("kv_lora_rank") ? mla() : decoder();
}

}  // namespace quire
