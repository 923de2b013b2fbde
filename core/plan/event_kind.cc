// Names of groups in events, as routers know them from vLLM: the kind that all layers of a group have in common.
#include <algorithm>

#include "core/plan/cache_config.h"

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

void name_kinds(const Model& model, Config* config) {
  for (GroupPlan& group : config->groups) {
    group.event_kind.clear();
    bool keeps_everything = true;
    for (uint32_t place : group.places) {
      const LayerCache& cache = model.caches()[config->places[place].cache];
      const std::string kind = kind_of(cache);
      keeps_everything = keeps_everything && cache.live.everything();
      if (group.event_kind.empty()) group.event_kind = kind;
      if (group.event_kind != kind) group.event_kind = keeps_everything ? "full_attention" : "unknown";
    }
  }
}

}  // namespace quire
