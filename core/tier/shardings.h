// What the records of one family are called that engines of another tensor-parallel size write.
// Their names follow from the model: ranks take heads and slices of states in a fixed way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/plan/cache_config.h"
#include "core/records/record_shape.h"

namespace quire {

// Sizes of tensor parallelism that are looked for beside one's own, and how large each may be.
inline constexpr size_t kMostShardings = 8;
inline constexpr uint32_t kMostRanks = 1024;

// Errors: INVALID_ARGUMENT.
Status check_shardings(std::span<const uint32_t> sizes);

// What `rank` of `ranks` has of the caches of this shape, which is that of a family on a shard of
// the config: the same layers in the same blocks and order, with that rank's heads or slices. The
// extents of states are not computed: names do not have them. No members: the heads cannot be cut
// so.
RecordShape shape_of_rank(const Config& config, const RecordShape& own,  // of a shard here
                          uint32_t rank, uint32_t ranks);

}  // namespace quire
