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

Result<DlpackSource> Memory::layer_of(const quire_export& wish) const {
  auto found = views(wish.layer, wish.sub, "");
  if (!found.ok()) return found.take_status();
  const quire_kv_view& kv = (*found)->kv;
  const auto& states = (*found)->states;
  const uint32_t group = kv.num_sides != 0 ? kv.group : states[0].group;
  const quire_lowering& lowering = plan().lowering[group];
  const uint64_t ids = config_->num_pages * lowering.parts_per_page;
  const bool one = wish.what == QUIRE_EXPORT_ID;
  if (one && (wish.id < 0 || static_cast<uint64_t>(wish.id) >= ids)) {
    return fail(QUIRE_OUT_OF_RANGE, "wish.id %d is outside [0, %" PRIu64 ")", wish.id, ids);
  }
  const Spot spot =
      one ? Spot{static_cast<uint64_t>(wish.id) / lowering.parts_per_page, static_cast<uint64_t>(wish.id) % lowering.parts_per_page}
          : Spot{0, 0};
  const std::vector<quire_kv_field> fields = kv.num_sides != 0 ? fields_of(kv) : std::vector<quire_kv_field>();
  const size_t items = kv.num_sides != 0 ? fields.size() : states.size();
  if (wish.item >= items) return fail(QUIRE_OUT_OF_RANGE, "wish.item %u: layer %u, sub %u has %zu", wish.item, wish.layer, wish.sub, items);
  DlpackSource tensor;
  const auto start = [&](uint32_t region, int64_t offset, int64_t page, int64_t part) {
    tensor.data = regions_[region].address + offset + static_cast<int64_t>(spot.page) * page + static_cast<int64_t>(spot.part) * part;
  };
  if (kv.num_sides != 0) {
    const quire_kv_field& field = fields[wish.item];
    const int64_t block = kv.stride_block[field.side];
    start(kv.region, field.offset, kv.stride_page[field.side], block * lowering.kernel_blocks_per_part);
    tensor.dtype = field.dtype;
    if (!one) tensor.push(kv.num_pages, kv.stride_page[field.side]);
    tensor.push(one ? lowering.kernel_blocks_per_part : kv.blocks_per_page, block);
    push_tiles(kv.block_tokens, field.tile_tokens, field.stride_token_tile, field.stride_token, &tensor);
    tensor.push(kv.num_heads, field.stride_head);
    push_tiles(field.num_items, field.tile_items, field.stride_item_tile, field.stride_item, &tensor);
    return tensor;
  }
  const quire_state_view& state = states[wish.item];
  start(state.region, state.offset, state.stride_page, state.stride_part);
  tensor.dtype = state.dtype;
  if (!one) {
    tensor.push(config_->num_pages, state.stride_page);
    tensor.push(lowering.parts_per_page, state.stride_part);
  }
  for (uint32_t k = 0; k < state.ndim; ++k) tensor.push(state.shape[k], state.stride[k]);
  return tensor;
}

Result<DlpackSource> Memory::page_of(const quire_export& wish) const {
  if (config_ == nullptr) return fail(QUIRE_NOT_FOUND, "memory belongs to a tensor and has no pages");
  if (wish.page >= config_->num_pages) {
    return fail(QUIRE_OUT_OF_RANGE, "wish.page %" PRIu64 ": the plan has %" PRIu64, wish.page, config_->num_pages);
  }
  const auto& regions = plan().regions;
  if (wish.region >= regions.size()) return fail(QUIRE_OUT_OF_RANGE, "wish.region %u: the shard has %zu", wish.region, regions.size());
  const quire_region_info& region = regions[wish.region];
  DlpackSource tensor;
  tensor.data = regions_[wish.region].address + wish.page * region.page_stride;
  tensor.dtype = {QUIRE_DTYPE_UINT, 8, 1};
  tensor.push(region.num_planes, static_cast<int64_t>(region.page_stride * config_->num_pages));
  tensor.push(region.page_stride, 1);
  return tensor;
}

Result<DlpackSource> Memory::view_of(const quire_export& wish) const {
  if (wish.what > QUIRE_EXPORT_PAGE) return invalid("wish.what is %u; must be 0..%d", wish.what, QUIRE_EXPORT_PAGE);
  auto tensor = wish.what == QUIRE_EXPORT_PAGE ? page_of(wish) : layer_of(wish);
  if (!tensor.ok()) return tensor;
  tensor->device_type = device_->info().device_type;
  tensor->device_id = device_->info().device_id;
  tensor->read_only = (wish.flags & QUIRE_EXPORT_READ_ONLY) != 0;
  if ((wish.flags & QUIRE_EXPORT_AS_BYTES) != 0 && wish.what != QUIRE_EXPORT_PAGE) make_bytes(&*tensor);
  return tensor;
}

}  // namespace quire
