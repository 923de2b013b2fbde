// Layers, ids and pages as strided tensors of any shape that DLPack can say.
#include <algorithm>
#include <cinttypes>

#include "core/layout/codec.h"
#include "core/memory/shard_memory.h"

namespace quire {
namespace {

// Rows or items: one axis, or the tiles and what is inside them.
void push_tiles(uint64_t extent, uint64_t tile, int64_t tile_stride, int64_t stride, DlpackSource* tensor) {
  if (tile < extent) tensor->push(extent / tile, tile_stride);
  tensor->push(std::min(tile, extent), stride);
}

void make_bytes(DlpackSource* tensor) {
  const uint64_t bytes = uint64_t{tensor->dtype.bits} * std::max<uint16_t>(tensor->dtype.lanes, 1) / 8;
  tensor->push(bytes, 1);
  tensor->dtype = {QUIRE_DTYPE_UINT, 8, 1};
}

struct Spot {
  uint64_t page;
  uint64_t part;
};

}  // namespace

Result<DlpackSource> Memory::layer_of(const quire_export& what) const {
  auto found = views(what.layer, what.sub, "");
  if (!found.ok()) return found.take_status();
  const quire_kv_view& kv = (*found)->kv;
  const auto& states = (*found)->states;
  const uint32_t group = kv.num_sides != 0 ? kv.group : states[0].group;
  const quire_lowering& lowering = plan().lowering[group];
  const uint64_t ids = config_->num_pages * lowering.parts_per_page;
  const bool one = what.kind == QUIRE_EXPORT_ID;
  const bool lowered = what.kind == QUIRE_EXPORT_LOWERED;
  if (one && (what.id < 0 || static_cast<uint64_t>(what.id) >= ids)) {
    return fail(QUIRE_OUT_OF_RANGE, "what.id %d is outside [0, %" PRIu64 ")", what.id, ids);
  }
  const Spot spot =
      one ? Spot{static_cast<uint64_t>(what.id) / lowering.parts_per_page, static_cast<uint64_t>(what.id) % lowering.parts_per_page}
          : Spot{0, 0};
  const std::vector<quire_kv_field> fields = kv.num_sides != 0 ? fields_of(kv) : std::vector<quire_kv_field>();
  const size_t items = kv.num_sides != 0 ? fields.size() : states.size();
  if (what.item >= items) return fail(QUIRE_OUT_OF_RANGE, "what.item %u: layer %u, sub %u has %zu", what.item, what.layer, what.sub, items);
  DlpackSource tensor;
  const auto start = [&](uint32_t region, int64_t offset, int64_t page, int64_t part) {
    tensor.data = regions_[region].address + offset + static_cast<int64_t>(spot.page) * page + static_cast<int64_t>(spot.part) * part;
  };
  if (kv.num_sides != 0) {
    const quire_kv_field& field = fields[what.item];
    const int64_t block = kv.stride_block[field.side];
    start(kv.region, field.offset, kv.stride_page[field.side], block * lowering.kernel_blocks_per_part);
    tensor.dtype = field.dtype;
    if (lowered) {
      tensor.push(lowering.num_lowered_ids, kv.unit[field.side]);
    } else {
      if (!one) tensor.push(kv.num_pages, kv.stride_page[field.side]);
      tensor.push(one ? lowering.kernel_blocks_per_part : kv.blocks_per_page, block);
    }
    push_tiles(kv.block_tokens, field.tile_tokens, field.stride_token_tile, field.stride_token, &tensor);
    tensor.push(kv.num_heads, field.stride_head);
    push_tiles(field.num_items, field.tile_items, field.stride_item_tile, field.stride_item, &tensor);
    return tensor;
  }
  const quire_state_view& state = states[what.item];
  start(state.region, state.offset, state.stride_page, state.stride_part);
  tensor.dtype = state.dtype;
  if (lowered) {
    tensor.push(lowering.num_lowered_ids, state.unit);
  } else if (!one) {
    tensor.push(config_->num_pages, state.stride_page);
    tensor.push(lowering.parts_per_page, state.stride_part);
  }
  for (uint32_t k = 0; k < state.ndim; ++k) tensor.push(state.shape[k], state.stride[k]);
  return tensor;
}

Result<DlpackSource> Memory::page_of(const quire_export& what) const {
  if (what.page >= config_->num_pages) {
    return fail(QUIRE_OUT_OF_RANGE, "what.page %" PRIu64 ": the plan has %" PRIu64, what.page, config_->num_pages);
  }
  const auto& regions = plan().regions;
  if (what.region >= regions.size()) return fail(QUIRE_OUT_OF_RANGE, "what.region %u: the shard has %zu", what.region, regions.size());
  const quire_region_info& region = regions[what.region];
  DlpackSource tensor;
  tensor.data = regions_[what.region].address + what.page * region.page_stride;
  tensor.dtype = {QUIRE_DTYPE_UINT, 8, 1};
  tensor.push(region.num_planes, static_cast<int64_t>(region.page_stride * config_->num_pages));
  tensor.push(region.page_stride, 1);
  return tensor;
}

Result<DlpackSource> Memory::view_of(const quire_export& what) const {
  if (what.kind < QUIRE_EXPORT_LAYER || what.kind > QUIRE_EXPORT_LOWERED)
    return invalid("what.kind is %d, it must be 0 to %d", what.kind, QUIRE_EXPORT_LOWERED);
  auto tensor = what.kind == QUIRE_EXPORT_PAGE ? page_of(what) : layer_of(what);
  if (!tensor.ok()) return tensor;
  tensor->device_type = device_->info().device_type;
  tensor->device_id = device_->info().device_id;
  tensor->read_only = (what.flags & QUIRE_EXPORT_READ_ONLY) != 0;
  if ((what.flags & QUIRE_EXPORT_AS_BYTES) != 0 && what.kind != QUIRE_EXPORT_PAGE) make_bytes(&*tensor);
  return tensor;
}

}  // namespace quire
