// Names of groups in events, as routers know them from vLLM.
#pragma once

#include <string>
#include <vector>

#include "core/model/model_layers.h"
#include "core/plan/cache_config.h"

namespace quire {

// What events call the window of a group.
inline constexpr char kEventWindowField[] = "kv_cache_spec_sliding_window";

// By group of the plan: the kind that all layers of the group have in common. config: a plan of the
// model.
std::vector<std::string> event_kinds(const Model& model, const Config& config);

}  // namespace quire
