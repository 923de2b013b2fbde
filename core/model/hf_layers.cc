// What single layers of a config say of themselves: transformers 5 writes per_layer_config, a sparse map from a layer to the fields that
// differ there. Whatever changes a cache is used or refused by its name.
#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

// Parts of names of fields that no cache depends on.
constexpr std::array<std::string_view, 10> kOfNoCache{"intermediate_size", "expert", "mlp", "moe",    "ffn", "rope",
                                                      "hidden_act",        "bias",   "eps", "dropout"};

bool of_no_cache(std::string_view key) {
  return std::any_of(kOfNoCache.begin(), kOfNoCache.end(), [&](std::string_view part) { return key.find(part) != std::string_view::npos; });
}

// Of attention over latent rows; those that no row depends on among them.
bool of_latent_row(std::string_view key) {
  for (const char* one : {"kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "head_dim",
                          "num_attention_heads", "num_key_value_heads"}) {
    if (key == one) return true;
  }
  return false;
}

bool of_attention(std::string_view part) {
  return part.find("attn") != std::string_view::npos || part.find("attention") != std::string_view::npos;
}

}  // namespace

uint64_t DecoderFields::count_layers() {
  if ((rules_.traits & kDrafts) != 0) return count_drafts();
  const uint64_t count = f_.need(f_.spelled(rules_.spelling.layers).c_str(), kMaxLayers);
  layer_overrides(count);
  return count;
}

void DecoderFields::layer_overrides(uint64_t count) {
  const Json* map = f_.find("per_layer_config");
  if (map == nullptr) return;
  if (!map->is_object()) {
    f_.refuse(invalid("config: per_layer_config = %.64s; must be an object", Fields::shown(*map).c_str()));
    return;
  }
  const bool used = rules_.family == &Reader::decoder || rules_.family == &Reader::gemma4;
  const bool latent = rules_.family == &Reader::dots3;
  for (const Json::Member& member : map->object()) {
    uint64_t layer = 0;
    const char* const end = member.key.data() + member.key.size();
    const auto [stop, error] = std::from_chars(member.key.data(), end, layer);
    if (error != std::errc() || stop != end || layer >= count || !member.value.is_object()) {
      f_.refuse(invalid("config: per_layer_config.%.64s = %.64s; must be an object under a layer 0..%" PRIu64, member.key.c_str(),
                        Fields::shown(member.value).c_str(), count - 1));
      return;
    }
    for (const Json::Member& field : member.value.object()) {
      const std::string_view key = field.key;
      const bool known =
          key == "num_attention_heads" || key == "num_key_value_heads" || key == "head_dim" || key == "sliding_window" || key == "skip";
      if ((known && used) || (latent && of_latent_row(key)) || (!known && of_no_cache(key))) continue;
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: per_layer_config.%s.%.64s is not known for %s", member.key.c_str(), field.key.c_str(),
                     std::string(architecture_).c_str()));
      return;
    }
    overrides_.resize(count);
    overrides_[layer] = &member.value;
  }
}

bool DecoderFields::skips_attention(uint64_t layer) {
  const Json* own = overrides(layer);
  const Json* skip = own == nullptr ? nullptr : own->find("skip");
  if (skip == nullptr || skip->is_null()) return false;
  bool skips = false;
  const bool list = skip->is_array();
  for (size_t i = 0; list && i < skip->size(); ++i) {
    const std::string part = (*skip)[i].is_string() ? (*skip)[i].string() : "";
    if (of_attention(part)) {
      skips = true;
    } else if (!of_no_cache(part) && part.find("norm") == std::string::npos) {
      f_.refuse(fail(QUIRE_UNIMPLEMENTED, "config: per_layer_config.%" PRIu64 ".skip[%zu] = %.64s is not known", layer, i,
                     Fields::shown((*skip)[i]).c_str()));
    }
  }
  if (!list) f_.refuse(invalid("config: per_layer_config.%" PRIu64 ".skip = %.64s; must be a list", layer, Fields::shown(*skip).c_str()));
  return skips;
}

uint64_t DecoderFields::stated_window() {
  const Json* off = f_.find("use_sliding_window");
  if (off != nullptr && off->is_boolean() && !off->is_true()) return 0;
  return f_.get("sliding_window", 0, 0, kMaxLength);
}

// Where some layers slide.
uint64_t DecoderFields::window(uint64_t layer) {
  const bool half = of_any({"ModernBertDecoder"});  // which states what an encoder would see, on both sides
  const uint64_t stated = half                      ? f_.need("local_attention", kMaxLength - 1) / 2
                          : layer < windows_.size() ? windows_[layer]
                                                    : f_.need("sliding_window", kMaxLength - 1);
  return stated + ((rules_.traits & kOneMore) != 0 ? 1 : 0);
}

std::vector<uint64_t> DecoderFields::listed_windows(uint64_t count) {
  std::vector<uint64_t> out(count);
  const bool pairs = rules_.pattern == Pattern::kPairs;
  const char* const field = pairs ? "window_sizes" : "interleaved_sliding_window";
  const Json* list = pairs ? f_.list(field, count) : f_.find(field);
  for (uint64_t i = 0; list != nullptr && i < count && f_.status.ok(); ++i) {
    const uint64_t items = list->is_array() ? list->size() : 1;
    if (items == 0) {
      f_.refuse(invalid("config: %s must be a number or a list with at least one", field));
      break;
    }
    const Json& item = list->is_array() ? (*list)[i % items] : *list;
    if (pairs && (!item.is_array() || item.size() != 2)) f_.refuse(invalid("config: %s[%" PRIu64 "] must be a list of 2", field, i));
    if (!f_.status.ok() || item.is_null()) continue;
    out[i] = f_.number(pairs ? item[0] : item, field, 0, kMaxLength - 1);
  }
  return out;
}

uint64_t DecoderFields::kv_heads(uint64_t q_heads) {
  const std::string field = rules_.spelling.kv_heads == nullptr ? "num_key_value_heads" : f_.spelled(rules_.spelling.kv_heads);
  switch (rules_.kv) {
    case KvHeads::kStated:
      return f_.need(field.c_str(), kMaxCount);
    case KvHeads::kFollow:
      return f_.get(field.c_str(), q_heads, 1, kMaxCount);
    case KvHeads::kOne:
      return 1;
    case KvHeads::kGroups:
      return f_.get(field.c_str(), 1, 1, kMaxCount);
    case KvHeads::kFalcon:
      f_.ask({"multi_query"});
      if (f_.flag("new_decoder_architecture")) return f_.get(field.c_str(), q_heads, 1, kMaxCount);
      return !f_.has("multi_query") || f_.flag("multi_query") ? 1 : q_heads;
    case KvHeads::kGlm:
      return f_.flag("multi_query_attention") ? f_.need(field.c_str(), kMaxCount) : q_heads;
    case KvHeads::kBigCode:
      return !f_.has("multi_query") || f_.flag("multi_query") ? 1 : q_heads;
    case KvHeads::kNested: {
      const Json* nested = f_.find("attn_config");
      const Json* heads = nested == nullptr ? nullptr : nested->find("kv_n_heads");
      if (heads != nullptr) return f_.number(*heads, "attn_config.kv_n_heads", 1, kMaxCount);
      f_.refuse(invalid("config: attn_config.kv_n_heads is missing; must be 1..%" PRIu64, kMaxCount));
      return 1;
    }
    case KvHeads::kAll:
      break;
  }
  const uint64_t stated = f_.get(field.c_str(), q_heads, 1, kMaxCount);
  if (stated != q_heads) {
    f_.refuse(invalid("config: %s = %" PRIu64 "; %s has as many as query heads, %" PRIu64, field.c_str(), stated,
                      std::string(architecture_).c_str(), q_heads));
  }
  return q_heads;
}

}  // namespace quire
