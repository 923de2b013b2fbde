// Fields that change what is kept, of all classes that are known. A reader that does not ask for one of them would plan as if it were
// absent, so it is refused by its name. What says nothing (null, false, 0, an empty list) is no such field.
#include <algorithm>
#include <array>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

// Which layers keep what, and what they keep beside keys and values.
constexpr std::array kChanging{"attention_chunk_size",
                               "attention_window_size",
                               "attn_layer_indices",
                               "attn_layer_period",
                               "block_configs",
                               "block_types",
                               "cla_share_factor",
                               "compress_rates",
                               "compress_ratios",
                               "conv_L_cache",
                               "full_attention_interval",
                               "full_attention_layers",
                               "full_attn_idxs",
                               "global_attn_cfg",
                               "global_head_dim",
                               "hybrid_layer_pattern",
                               "hybrid_override_pattern",
                               "index_head_dim",
                               "indexer_types",
                               "interleaved_sliding_window",
                               "kv_lora_rank",
                               "kv_source_layers",
                               "layer_group_size",
                               "linear_attn_config",
                               "linear_conv_kernel_dim",
                               "linear_head_dim",
                               "linear_key_head_dim",
                               "linear_num_heads",
                               "linear_num_key_heads",
                               "linear_num_value_heads",
                               "linear_value_head_dim",
                               "local_attention",
                               "local_layer_ids",
                               "loop_num",
                               "mamba_d_conv",
                               "mamba_d_head",
                               "mamba_d_state",
                               "mamba_head_dim",
                               "mamba_headdim",
                               "mamba_n_heads",
                               "mamba_num_heads",
                               "n_mamba_heads",
                               "num_global_key_value_heads",
                               "num_kv_shared_layers",
                               "num_loops",
                               "per_layer_config",
                               "sliding_window_size",
                               "sliding_windows",
                               "sparse_attention_config",
                               "ssm_state_size",
                               "swa_head_dim",
                               "swa_kv_lora_rank",
                               "swa_num_attention_heads",
                               "swa_num_key_value_heads",
                               "swa_v_head_dim",
                               "use_cla",
                               "window_sizes",
                               "zaya_layers"};
// Other names of heads and widths: refused where no layer has as many.
constexpr std::array kHeadNames{"n_head_kv", "num_kv_heads", "multi_query_group_num", "num_attention_groups"};
constexpr std::array kWidthNames{"attention_head_dim", "kv_channels", "dim_head"};

bool says_nothing(const Json& value) {
  if (value.is_unsigned()) return value.number() == 0;
  if (value.is_string()) return value.string().empty() || value.is_text("all");
  return value.is_null() || value.empty() || (value.is_boolean() && !value.is_true());
}

}  // namespace

const Json* DecoderFields::unread(const char* key) const {
  if (f_.asked(key)) return nullptr;
  const Json* value = f_.find_stated(key);
  return value == nullptr || says_nothing(*value) ? nullptr : value;
}

void DecoderFields::not_known(const std::string& field, const Json& value) {
  f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: %s = %.64s is not known for %s", field.c_str(), Fields::shown(value).c_str(),
                 std::string(architecture_).c_str()));
}

// Types of layers that nobody asked for: all full, or refused.
void DecoderFields::refuse_types() {
  if (f_.asked("layer_types") || f_.asked("layers_block_type")) return;
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const Json* list = unread(key);
    if (list == nullptr) continue;
    if (!list->is_array()) return not_known(key, *list);
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& word = (*list)[i];
      if (word.is_text("full_attention") || word.is_text("attention")) continue;
      return not_known(std::string(key) + "[" + std::to_string(i) + "]", word);
    }
  }
}

void CacheList::refuse_unread() {
  if ((rules_.traits & kDrafts) != 0 || of_any({"DSparkMiniMax"})) return;  // these read what they need of the config of a target
  for (const char* key : kChanging) {
    if (const Json* value = unread(key); value != nullptr) not_known(key, *value);
  }
  refuse_types();
  const Json* window = unread("sliding_window");
  const Json* off = f_.find_stated("use_sliding_window");
  if (window != nullptr && (off == nullptr || !off->is_boolean() || off->is_true())) not_known("sliding_window", *window);
  const Json* const mixed = unread("attn_type_list");  // MiniMax: 1 is attention, 0 lightning attention
  if (mixed != nullptr && (!mixed->is_array() || layers_.empty() || mixed->size() != layers_.back().layer + 1)) {
    not_known("attn_type_list", *mixed);
  }
  for (size_t i = 0; mixed != nullptr && i < mixed->size() && f_.status.ok(); ++i) {
    if ((*mixed)[i].text() != "1") not_known("attn_type_list[" + std::to_string(i) + "]", (*mixed)[i]);
  }
  const auto none_has = [this](const Json& value, uint32_t quire_layer::*field) {
    return std::none_of(layers_.begin(), layers_.end(),
                        [&](const quire_layer& layer) { return value.is_unsigned() && layer.*field == value.number(); });
  };
  for (const char* key : kHeadNames) {
    if (const Json* value = unread(key); value != nullptr && none_has(*value, &quire_layer::num_kv_heads)) not_known(key, *value);
  }
  for (const char* key : kWidthNames) {
    if (const Json* value = unread(key); value != nullptr && none_has(*value, &quire_layer::head_dim_k)) not_known(key, *value);
  }
  if (const Json* one = unread("multi_query"); one != nullptr && none_has(Json(uint64_t{1}), &quire_layer::num_kv_heads)) {
    not_known("multi_query", *one);
  }
}

}  // namespace quire
