#include "core/layout/segments.h"

#include <algorithm>
#include <array>

#include "core/layout/codec.h"

namespace quire {
namespace {

struct Axis {
  int64_t stride;
  uint64_t extent;
};

// Emits the runs of a box of grains: axes whose stride continues the run join it, the others are walked.
void append_box(std::array<Axis, 4> axes, uint64_t grain_bytes, quire_segment run, std::vector<quire_segment>* out) {
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  uint64_t bytes = grain_bytes;
  std::array<Axis, 4> outer{};
  uint32_t num_outer = 0;
  uint64_t count = 1;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (num_outer == 0 && axis.stride == static_cast<int64_t>(bytes)) {
      bytes *= axis.extent;
    } else {
      outer[num_outer++] = axis;
      count *= axis.extent;
    }
  }
  run.bytes = bytes;
  const uint64_t base = run.offset;
  for (uint64_t n = 0; n < count; ++n) {
    uint64_t rest = n;
    run.offset = base;
    for (uint32_t i = 0; i < num_outer; ++i) {
      run.offset += rest % outer[i].extent * static_cast<uint64_t>(outer[i].stride);
      rest /= outer[i].extent;
    }
    out->push_back(run);
  }
}

void append_side(const quire_kv_view& kv, uint32_t side, uint32_t first_head, uint32_t num_heads, const quire_lowering& lowering,
                 uint32_t layer, int32_t id, std::vector<quire_segment>* out) {
  const uint64_t page = static_cast<uint64_t>(id) / lowering.parts_per_page;
  const uint64_t part = static_cast<uint64_t>(id) % lowering.parts_per_page;
  const Grain grain = grain_of(kv, side);
  quire_segment run{kv.region, layer, 0, 0, 0};
  run.offset = static_cast<uint64_t>(kv.offset[side]) + page * static_cast<uint64_t>(kv.stride_page[side]) +
               part * lowering.kernel_blocks_per_part * static_cast<uint64_t>(kv.stride_block[side]) +
               uint64_t{first_head} * static_cast<uint64_t>(kv.stride_head[side]);
  append_box({{{kv.stride_block[side], lowering.kernel_blocks_per_part},
               {kv.stride_token[side], kv.block_tokens / grain.rows},
               {kv.stride_head[side], num_heads / grain.heads},
               {kv.stride_dim[side], grain.items}}},
             grain.bytes, run, out);
}

void append_states(const PlaceViews& views, const quire_lowering& lowering, uint32_t layer, int32_t id, std::vector<quire_segment>* out) {
  const uint64_t page = static_cast<uint64_t>(id) / lowering.parts_per_page;
  const uint64_t part = static_cast<uint64_t>(id) % lowering.parts_per_page;
  for (const quire_state_view& state : views.states) {
    quire_segment run{state.region, layer, 0, state.dtype.bits / 8u, 0};
    run.offset = static_cast<uint64_t>(state.offset) + page * static_cast<uint64_t>(state.stride_page) +
                 part * static_cast<uint64_t>(state.stride_part);
    for (uint32_t k = 0; k < state.ndim; ++k) run.bytes *= state.shape[k];  // row-major and dense by construction
    out->push_back(run);
  }
}

}  // namespace

void append_segments(const PlaceViews& views, const quire_lowering& lowering, uint32_t layer, int32_t id, std::vector<quire_segment>* out) {
  for (uint32_t side = 0; side < views.kv.num_sides; ++side) {
    append_side(views.kv, side, 0, views.kv.num_heads, lowering, layer, id, out);
  }
  append_states(views, lowering, layer, id, out);
}

Status append_head_segments(const PlaceViews& views, const quire_lowering& lowering, uint32_t layer, int32_t id, HeadShard heads,
                            std::vector<quire_segment>* out) {
  const quire_kv_view& kv = views.kv;
  if (heads.count == 1 || kv.num_heads == 1) {
    append_segments(views, lowering, layer, id, out);
    return {};
  }
  if (!views.states.empty()) {
    return fail(QUIRE_NOT_REPRESENTABLE, "layer %u is a state, which cannot be cut into %u head shards", layer, heads.count);
  }
  if (kv.num_heads % heads.count != 0 && heads.count % kv.num_heads != 0) {
    return fail(QUIRE_NOT_REPRESENTABLE, "layer %u has %u heads; %u head shards neither divide them nor are a multiple", layer,
                kv.num_heads, heads.count);
  }
  if (!cuts_between_heads(kv.codec)) {
    return fail(QUIRE_NOT_REPRESENTABLE, "layer %u: codec %u cannot be cut into %u head shards", layer, kv.codec, heads.count);
  }
  const uint32_t num = std::max(kv.num_heads / heads.count, 1u);
  const auto first = static_cast<uint32_t>(uint64_t{heads.shard} * kv.num_heads / heads.count);
  for (uint32_t side = 0; side < kv.num_sides; ++side) append_side(kv, side, first, num, lowering, layer, id, out);
  return {};
}

void merge_segments(std::vector<quire_segment>* runs) {
  std::sort(runs->begin(), runs->end(), [](const quire_segment& a, const quire_segment& b) {
    return a.region != b.region ? a.region < b.region : a.offset < b.offset;
  });
  size_t kept = 0;
  for (size_t i = 0; i < runs->size(); ++i) {
    const quire_segment run = (*runs)[i];
    if (kept != 0) {
      quire_segment& last = (*runs)[kept - 1];
      if (last.region == run.region && last.offset + last.bytes == run.offset) {
        last.bytes += run.bytes;
        continue;
      }
    }
    (*runs)[kept++] = run;
  }
  runs->resize(kept);
}

}  // namespace quire
