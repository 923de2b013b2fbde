// Where each layer's cache lies: the plan's views bound to addresses.
#include <algorithm>
#include <cinttypes>

#include "core/memory/shard_memory.h"

namespace quire {
namespace {

// Offsets of a plan are signed, and an address may lie before the region's base by them.
unsigned char* shifted(unsigned char* base, int64_t offset) { return base + offset; }

}  // namespace

Result<const PlaceViews*> Memory::views(uint32_t layer, uint32_t sub, const char* what) const {
  if (config_ == nullptr) return fail(QUIRE_NOT_FOUND, "memory belongs to a tensor and has no layers");
  const CachePlace* place = config_->find(layer, sub);
  if (place == nullptr) return fail(QUIRE_NOT_FOUND, "layer %u, sub %u has no cache", layer, sub);
  const PlaceViews* found = &plan().views[static_cast<size_t>(place - config_->places.data())];
  const bool wants_state = what[0] == 's';
  if (found->kv.num_sides == 0 && found->states.empty()) {
    return fail(QUIRE_NOT_FOUND, "layer %u, sub %u has no cache in shard %u", layer, sub, shard_);
  }
  if (what[0] != '\0' && wants_state != (found->kv.num_sides == 0)) {
    return fail(QUIRE_NOT_FOUND, "layer %u, sub %u has no %s", layer, sub, what);
  }
  return found;
}

Status Memory::kv_tensor(uint32_t layer, uint32_t sub, uint32_t side, quire_tensor* out) const {
  auto found = views(layer, sub, "token cache");
  if (!found.ok()) return found.take_status();
  auto shape = source(layer, sub, side);
  if (!shape.ok()) return shape.take_status();
  *out = shape->tensor();
  return {};
}

Status Memory::paged_kv(uint32_t layer, uint32_t sub, quire_paged_kv* out) const {
  auto found = views(layer, sub, "token cache");
  if (!found.ok()) return found.take_status();
  const quire_kv_view& view = (*found)->kv;
  quire_paged_kv paged{};
  for (uint32_t s = 0; s < view.num_sides; ++s) {
    paged.side[s] = {shifted(regions_[view.region].address, view.offset[s]),
                     view.unit[s],
                     view.stride_token[s],
                     view.stride_head[s],
                     view.stride_dim[s],
                     view.head_dim[s],
                     0};
  }
  paged.dtype = view.dtype;
  paged.codec = view.codec;
  paged.num_heads = view.num_heads;
  paged.block_tokens = view.block_tokens;
  paged.num_sides = view.num_sides;
  paged.num_ids = plan().lowering[view.group].num_lowered_ids;
  *out = paged;
  return {};
}

Status Memory::paged_state(uint32_t layer, uint32_t sub, uint32_t tensor, quire_paged_state* out) const {
  auto found = views(layer, sub, "state");
  if (!found.ok()) return found.take_status();
  const auto& states = (*found)->states;
  if (tensor >= states.size()) return fail(QUIRE_OUT_OF_RANGE, "tensor %u: the state of layer %u has %zu", tensor, layer, states.size());
  const quire_state_view& view = states[tensor];
  quire_paged_state paged{};
  paged.base = shifted(regions_[view.region].address, view.offset);
  paged.unit = view.unit;
  paged.dtype = view.dtype;
  paged.ndim = view.ndim;
  std::copy_n(view.shape, 4, paged.shape);
  std::copy_n(view.stride, 4, paged.stride);
  paged.num_ids = plan().lowering[view.group].num_lowered_ids;
  *out = paged;
  return {};
}

Result<DlpackSource> Memory::source(uint32_t layer, uint32_t sub, uint32_t side) const {
  auto found = views(layer, sub, "");
  if (!found.ok()) return found.take_status();
  DlpackSource tensor;
  tensor.device_type = device_->info().device_type;
  tensor.device_id = device_->info().device_id;
  const quire_kv_view& kv = (*found)->kv;
  if (kv.num_sides != 0) {
    if (side >= kv.num_sides) return fail(QUIRE_OUT_OF_RANGE, "side %u: the cache of layer %u has %u", side, layer, kv.num_sides);
    if (kv.codec != QUIRE_CODEC_STRIDED) {
      return fail(QUIRE_NOT_REPRESENTABLE, "layer %u, sub %u is encoded by codec %u; its fields are tensors, the whole is none", layer, sub,
                  kv.codec);
    }
    tensor.data = shifted(regions_[kv.region].address, kv.offset[side]);
    tensor.dtype = kv.dtype;
    tensor.ndim = 5;
    const int64_t shape[5] = {static_cast<int64_t>(kv.num_pages), kv.blocks_per_page, kv.block_tokens, kv.num_heads, kv.head_dim[side]};
    const int64_t stride[5] = {kv.stride_page[side], kv.stride_block[side], kv.stride_token[side], kv.stride_head[side],
                               kv.stride_dim[side]};
    std::copy_n(shape, 5, tensor.shape);
    std::copy_n(stride, 5, tensor.stride);
    return tensor;
  }
  const auto& states = (*found)->states;
  if (side >= states.size()) return fail(QUIRE_OUT_OF_RANGE, "tensor %u: the state of layer %u has %zu", side, layer, states.size());
  const quire_state_view& state = states[side];
  tensor.data = shifted(regions_[state.region].address, state.offset);
  tensor.dtype = state.dtype;
  tensor.ndim = 2 + static_cast<int32_t>(std::min(state.ndim, 4U));
  tensor.shape[0] = static_cast<int64_t>(config_->num_pages);
  tensor.shape[1] = plan().lowering[state.group].parts_per_page;
  tensor.stride[0] = state.stride_page;
  tensor.stride[1] = state.stride_part;
  for (int32_t i = 2; i < tensor.ndim; ++i) {
    tensor.shape[i] = static_cast<int64_t>(state.shape[i - 2]);
    tensor.stride[i] = state.stride[i - 2];
  }
  return tensor;
}

Result<DLManagedTensorVersioned*> Memory::export_tensor(uint32_t layer, uint32_t sub, uint32_t side) const {
  auto tensor = source(layer, sub, side);
  if (!tensor.ok()) return tensor.take_status();
  return export_dlpack(*tensor, shared_from_this());
}

Result<DLManagedTensor*> Memory::export_tensor_legacy(uint32_t layer, uint32_t sub, uint32_t side) const {
  auto tensor = source(layer, sub, side);
  if (!tensor.ok()) return tensor.take_status();
  return export_dlpack_legacy(*tensor, shared_from_this());
}

}  // namespace quire
