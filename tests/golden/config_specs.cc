// Spec objects of configs.jsonl as the core reads them from layer files.
#include "core/model/layer_spec.h"
#include "tests/golden/configs.h"

namespace quire::golden {

StateMode state_mode_of(const std::string& name) {
  return name == "align" ? StateMode::kAlign : name == "all" ? StateMode::kAll : StateMode::kOff;
}

Result<CacheSpec> spec_of(const json& spec) {
  const ParsedJson parsed = parse_json(spec.dump());
  auto read = read_layer_spec(parsed.root, 1);
  if (!read.ok()) return read.take_status();
  return std::move(read->pages);
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
