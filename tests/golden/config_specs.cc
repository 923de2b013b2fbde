// Spec objects of configs.jsonl as the core describes them.
#include "tests/golden/configs.h"

#include <map>

namespace quire::golden {
namespace {

const std::map<std::string, CacheFamily>& families() {
  static const std::map<std::string, CacheFamily> names{{"full", CacheFamily::kFull},
                                                        {"mla", CacheFamily::kLatent},
                                                        {"hidden_state", CacheFamily::kHidden},
                                                        {"rswa", CacheFamily::kTrailing},
                                                        {"sink_full", CacheFamily::kSink},
                                                        {"chunked", CacheFamily::kChunk},
                                                        {"sliding_window", CacheFamily::kWindow},
                                                        {"sliding_window_mla", CacheFamily::kLatentWindow},
                                                        {"mamba", CacheFamily::kState},
                                                        {"cross", CacheFamily::kCross},
                                                        {"encoder_only", CacheFamily::kEncoder}};
  return names;
}

uint64_t number(const json& spec, const char* field, uint64_t otherwise = 0) {
  const auto it = spec.find(field);
  return it == spec.end() || it->is_null() ? otherwise : it->get<uint64_t>();
}

void append(const json& spec, std::initializer_list<const char*> fields, std::vector<uint64_t>* out) {
  for (const char* field : fields) {
    const std::string text = spec.contains(field) ? spec.at(field).dump() : "";
    out->push_back(text.size());
    out->insert(out->end(), text.begin(), text.end());
  }
}

uint64_t state_bytes(const json& spec) {
  uint64_t sum = 0;
  for (size_t i = 0; i < spec.at("shapes").size(); ++i) {
    uint64_t bytes = dtype_bytes(spec.at("dtypes")[i]);
    for (const json& extent : spec.at("shapes")[i]) bytes *= extent.get<uint64_t>();
    sum += bytes;
  }
  return sum;
}

}  // namespace

StateMode state_mode_of(const std::string& name) {
  return name == "align" ? StateMode::kAlign : name == "all" ? StateMode::kAll : StateMode::kOff;
}

CacheSpec spec_of(const json& spec) {
  CacheSpec out;
  out.family = families().at(spec.at("kind"));
  out.block_tokens = spec.at("block_size");
  out.padded_page = number(spec, "page_size_padded");
  if (out.family == CacheFamily::kState) {
    out.state_bytes = state_bytes(spec);
    out.extra_blocks = number(spec, "spec_blocks");
    out.state_mode = state_mode_of(spec.value("mode", std::string("none")));
    append(spec, {"shapes", "dtypes"}, &out.identity);
    return out;
  }
  const bool one_side = is_latent(out.family) || out.family == CacheFamily::kLatentWindow;
  const uint64_t head = spec.at("head_size");
  const uint64_t value = number(spec, "head_size_v", one_side ? 0 : head);
  const uint64_t heads = number(spec, "num_head_slots", spec.at("num_kv_heads").get<uint64_t>());
  out.row_bytes = heads * number(spec, "state_content_bytes", (head + value) * dtype_bytes(spec.at("dtype")));
  out.tokens_per_row = number(spec, "compress_ratio", 1);
  out.alignment = number(spec, "alignment");
  if (out.alignment != 0) out.padded_page = 0;  // what was padded before is overwritten
  out.strided_blocks = spec.value("block_stride", false);
  out.non_causal = spec.value("non_causal", false) || spec.value("non_causal_multi_token_decode", false);
  out.drafts_in_last = spec.value("model_version", json()) == "deepseek_v4";
  out.extra_retained = number(spec, "extra_retained");
  out.sink_tokens = number(spec, "sink_len");
  append(spec, {"num_kv_heads", "head_size", "head_size_v", "dtype", "quant_mode", "num_head_slots", "state_content_bytes"}, &out.identity);
  append(spec, {"cache_dtype_str", "model_version"}, &out.format);
  const std::string precision = spec.at("dtype").get<std::string>() + "/" + std::to_string(number(spec, "quant_mode"));
  out.precision = std::hash<std::string>{}(precision) | 1;
  if (out.family == CacheFamily::kTrailing) {
    out.range = number(spec, "rswa_window");
  } else if (keeps_every_token(out.family)) {
    out.told_window = number(spec, "window");
    out.told_chunk = number(spec, "chunk");
  } else {
    out.range = number(spec, out.family == CacheFamily::kChunk ? "chunk" : "window");
  }
  return out;
}

const char* event_kind(CacheFamily family) {
  switch (family) {
    case CacheFamily::kLatent:
    case CacheFamily::kHidden:
      return "mla_attention";
    case CacheFamily::kSink:
      return "sink_full_attention";
    case CacheFamily::kWindow:
      return "sliding_window";
    case CacheFamily::kLatentWindow:
      return "sliding_window_mla";
    case CacheFamily::kChunk:
      return "chunked_local_attention";
    case CacheFamily::kState:
      return "mamba";
    case CacheFamily::kCross:
      return "cross_attention";
    case CacheFamily::kEncoder:
      return "encoder_only_attention";
    default:
      return "full_attention";
  }
}

}  // namespace quire::golden
