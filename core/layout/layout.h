// From shapes to byte strides: pure functions, no state. A pool of pages is shared by groups; each group has an order of letters and
// members (the layers of its lanes). The result is one strided view per member, valid for any page that belongs to the group.
#pragma once

#include <quire/config.h>
#include <quire/model.h>

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/layout/member.h"
#include "core/layout/order.h"

namespace quire {

struct GroupShape {
  Order order;
  uint32_t kernel_blocks_per_part = 1;  // r
  uint32_t parts_per_page = 1;
  std::vector<MemberShape> members;  // none: the group has no layer in this shard
  uint64_t block_step = 1;           // kernel blocks of a page are a multiple of this many bytes apart, so that pages lower to few ids
};

struct PoolShape {
  std::vector<GroupShape> groups;
  uint64_t num_pages = 1;
  uint64_t min_page_bytes = 0;   // pages are at least this large
  bool region_per_lane = false;  // wants L outermost; otherwise one region holds every plane
};

// The views of one member in one shard; num_sides 0 and no states where the shard lacks it.
struct PlaceViews {
  quire_kv_view kv{};
  std::vector<quire_state_view> states;

  bool empty() const { return kv.num_sides == 0 && states.empty(); }
};

struct GroupLayout {
  quire_lowering lowering{};
  std::vector<PlaceViews> members;  // as in GroupShape
};

struct PoolLayout {
  uint64_t strip_bytes = 0;  // page b is the b-th strip of every plane
  uint64_t num_planes = 0;
  uint64_t page_bytes = 0;  // strip_bytes * num_planes, over all regions
  std::vector<quire_region_info> regions;
  std::vector<GroupLayout> groups;
};

// Errors: NOT_REPRESENTABLE (a letter's extent differs between members where one stride must serve them all, ids that lower differently,
// K left of B in a pool with a group without sides; two layers are named), INVALID_ARGUMENT (order does not fit the extents),
// OUT_OF_RANGE (products beyond 63 bits, lowered ids beyond 31 bits).
Result<PoolLayout> lay_out(const PoolShape& pool);

}  // namespace quire
