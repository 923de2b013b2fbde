#include "core/events/event_kind.h"

namespace quire {
namespace {

const char* kind_of(const LayerCache& cache) {
  const bool window = cache.live.window != 0;
  switch (cache.desc.kind) {
    case QUIRE_LAYER_FULL:
    case QUIRE_LAYER_SLIDING_WINDOW:
      return window ? "sliding_window" : cache.live.sink != 0 ? "sink_full_attention" : "full_attention";
    case QUIRE_LAYER_CHUNKED:
      return "chunked_local_attention";
    case QUIRE_LAYER_MLA:
    case QUIRE_LAYER_INDEXER:
      return window ? "sliding_window_mla" : "mla_attention";
    case QUIRE_LAYER_STATE:
      return "mamba";
    case QUIRE_LAYER_CROSS:
      return "cross_attention";
    default:
      return "unknown";
  }
}

}  // namespace

std::vector<std::string> event_kinds(const Model& model, const Config& config) {
  std::vector<std::string> kinds;
  for (const GroupPlan& group : config.groups) {
    std::string common;
    bool keeps_everything = true;
    for (uint32_t place : group.places) {
      const LayerCache& cache = model.caches()[config.places[place].cache];
      const std::string kind = kind_of(cache);
      keeps_everything = keeps_everything && cache.live.everything();
      if (common.empty()) common = kind;
      if (common != kind) common = keeps_everything ? "full_attention" : "unknown";
    }
    kinds.push_back(std::move(common));
  }
  return kinds;
}

}  // namespace quire
