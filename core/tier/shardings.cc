#include "core/tier/shardings.h"

#include <algorithm>

namespace quire {
namespace {

// As the planner numbers ranks: more ranks than heads share them. False: it would refuse this.
bool take_heads(const quire_kv_view& kv, uint32_t rank, uint32_t ranks, CacheSlice* slice) {
  const uint64_t heads = kv.model_heads;
  const bool is_latent = kv.num_sides == 1;
  if (!is_latent && heads != 0 && heads % ranks != 0 && ranks % heads != 0) return false;
  slice->first_head = static_cast<uint32_t>(uint64_t{rank} * heads / ranks);
  slice->num_heads = is_latent || heads < ranks ? 1 : static_cast<uint32_t>(heads / ranks);
  return true;
}

void take_slices(const PlaceViews& views, uint32_t rank, uint32_t ranks, CacheSlice* slice) {
  for (size_t t = 0; t < slice->tensors.size(); ++t) {
    const bool is_cut = views.states[t].shard_dim != 0;
    slice->tensors[t].num_ranks = is_cut ? ranks : 1;
    slice->tensors[t].rank = is_cut ? rank : 0;
  }
}

const PlaceViews* views_of(const Config& config, const RecordMember& member) {
  const CachePlace* const place = config.find(member.layer, member.sub);
  const auto p = static_cast<size_t>(place - config.places.data());
  for (const ShardPlan& shard : config.shards) {
    if (!shard.views[p].empty()) return &shard.views[p];
  }
  return nullptr;
}

}  // namespace

Status check_shardings(std::span<const uint32_t> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 1 && sizes[i] <= kMostRanks) continue;
    return invalid("options.tensor_parallel[%zu]: %u, 1 to %u", i, sizes[i], kMostRanks);
  }
  return {};
}

RecordShape shape_of_rank(const Config& config, const RecordShape& own, uint32_t rank, uint32_t ranks) {
  RecordShape shape = own;
  shape.slices.clear();
  for (RecordMember& member : shape.members) {
    CacheSlice slice = own.slices[member.slice];
    const PlaceViews* const views = views_of(config, member);
    if (!own.is_state && !take_heads(views->kv, rank, ranks, &slice)) return {};
    if (own.is_state) take_slices(*views, rank, ranks, &slice);
    const auto known = std::find(shape.slices.begin(), shape.slices.end(), slice);
    member.slice = static_cast<uint32_t>(known - shape.slices.begin());
    if (known == shape.slices.end()) shape.slices.push_back(std::move(slice));
  }
  return shape;
}

}  // namespace quire
