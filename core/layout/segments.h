// Dense byte runs behind ids: what a transfer or a copy moves. Payload only, padding never.
#pragma once

#include <quire/config.h>

#include <cstdint>
#include <vector>

#include "core/layout/layout.h"

namespace quire {

// One of `count` equal slices of a view's heads.
struct HeadShard {
  uint32_t shard = 0;
  uint32_t count = 1;
};

// Appends the runs of part `id` of one member; `layer` is written into each run.
void append_segments(const PlaceViews& views, const quire_lowering& lowering, uint32_t layer, int32_t id, std::vector<quire_segment>* out);
// Of one head shard. A cache of one head belongs to every shard, and several shards may share a head. Errors: NOT_REPRESENTABLE (heads do
// not divide, a state, a codec that cannot be cut by heads), naming the layer.
Status append_head_segments(const PlaceViews& views, const quire_lowering& lowering, uint32_t layer, int32_t id, HeadShard heads,
                            std::vector<quire_segment>* out);
// Sorts by (region, offset) and joins runs that touch; a joined run carries the layer of its first byte.
void merge_segments(std::vector<quire_segment>* runs);

}  // namespace quire
