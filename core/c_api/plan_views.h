// Finding a shard, a group or a layer of a plan, for the queries of config.h.
#pragma once

#include "core/plan/cache_config.h"

namespace quire::c_api {

Status check_shard(const Config& config, uint32_t shard);
Status check_group(const Config& config, uint32_t group);
// The views of a layer's cache. Errors: OUT_OF_RANGE (shard), NOT_FOUND.
Result<const PlaceViews*> find_views(const Config& config, uint32_t shard, uint32_t layer, uint32_t sub);

}  // namespace quire::c_api
