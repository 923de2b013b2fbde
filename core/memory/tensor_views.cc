// Where each layer's cache lies: the plan's views bound to addresses.
#include <algorithm>
#include <cinttypes>

#include "core/layout/codec.h"
#include "core/memory/shard_memory.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

// Where the codec keeps what a row has beside its data.
void describe_codec(const quire_kv_view& view, quire_paged_kv* out) {
  for (const quire_kv_field& field : fields_of(view)) {
    quire_paged_side& side = out->side[field.side];
    const int64_t offset = field.offset - view.offset[field.side];
    switch (field.role) {
      case QUIRE_FIELD_ELEMENTS:
        break;
      case QUIRE_FIELD_SCALES:
        out->scale_dtype = field.dtype;
        side.scales_offset = offset;
        side.scales_stride_token = field.stride_token;
        side.scales_stride_head = field.stride_head;
        break;
      default:
        out->tail_dtype = field.dtype;
        side.tail_dim = field.num_items;
        side.tail_offset = offset;
    }
  }
  const quire_codec_params& params = view.codec_params;
  const bool one_scaled = view.num_sides == 2 && (params.scale_bytes[0] == 0) != (params.scale_bytes[1] == 0);
  if (!one_scaled) out->data_dtype = is_unset(params.data_dtype) ? view.dtype : params.data_dtype;
  out->scale_elements = params.scale_elements;
}

// Offsets of a plan are signed, and an address may lie before the region's base by them.
unsigned char* shifted(unsigned char* base, int64_t offset) { return base + offset; }

}  // namespace

Result<const PlaceViews*> Memory::views(uint32_t layer, uint32_t sub, const char* what) const {
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
                     0,
                     0,
                     0,
                     0,
                     0};
  }
  paged.dtype = view.dtype;
  paged.codec = view.codec;
  paged.num_heads = view.num_heads;
  paged.block_tokens = view.block_tokens;
  paged.num_sides = view.num_sides;
  paged.group = view.group;
  paged.column = view.column;
  paged.num_ids = plan().lowering[view.group].num_lowered_ids;
  if (view.codec == QUIRE_CODEC_RECORD || view.codec == QUIRE_CODEC_BLOCK_SPLIT) describe_codec(view, &paged);
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
  paged.group = view.group;
  paged.column = view.column;
  paged.num_ids = plan().lowering[view.group].num_lowered_ids;
  *out = paged;
  return {};
}

}  // namespace quire
