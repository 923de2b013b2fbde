#include "core/plan/cache_config.h"

#include <algorithm>

#include "core/layout/segments.h"

namespace quire {

const CachePlace* Config::find(uint32_t layer, uint32_t sub) const {
  const auto it = std::lower_bound(places.begin(), places.end(), layer, [sub](const CachePlace& place, uint32_t wanted) {
    return place.layer != wanted ? place.layer < wanted : place.sub < sub;
  });
  return it != places.end() && it->layer == layer && it->sub == sub ? &*it : nullptr;
}

Result<std::vector<quire_segment>> list_segments(const Config& config, uint32_t shard, uint32_t group, uint32_t column, int32_t id) {
  if (shard >= config.shards.size()) return fail(QUIRE_OUT_OF_RANGE, "shard = %u; below %zu", shard, config.shards.size());
  if (group >= config.groups.size()) return fail(QUIRE_OUT_OF_RANGE, "group = %u; below %zu", group, config.groups.size());
  const GroupPlan& plan = config.groups[group];
  if (column >= plan.ids_per_block) return fail(QUIRE_OUT_OF_RANGE, "column = %u; below %u", column, plan.ids_per_block);
  const uint64_t ids = config.num_pages * plan.parts_per_page;
  if (id < 0 || static_cast<uint64_t>(id) >= ids) {
    return fail(QUIRE_OUT_OF_RANGE, "id = %d; must be 0..%llu", id, static_cast<unsigned long long>(ids - 1));
  }
  std::vector<quire_segment> runs;
  const ShardPlan& where = config.shards[shard];
  for (const uint32_t place : plan.places) {
    if (config.places[place].column != column) continue;
    append_segments(where.views[place], where.lowering[group], config.places[place].layer, id, &runs);
  }
  merge_segments(&runs);
  return runs;
}

}  // namespace quire
