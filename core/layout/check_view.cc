// Views that a peer sent: nothing in them is believed.
#include <algorithm>
#include <cinttypes>
#include <initializer_list>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/layout/runs.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

constexpr uint64_t kMaxCount = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxWidth = uint64_t{1} << 24;
constexpr uint64_t kMaxRanks = 65536;

class ViewCheck {
 public:
  explicit ViewCheck(const char* name) : name_(name) {}

  Status between(const char* field, uint64_t value, uint64_t low, uint64_t high) const {
    if (value >= low && value <= high) return {};
    return invalid("%s.%s = %" PRIu64 "; must be %" PRIu64 "..%" PRIu64, name_, field, value, low, high);
  }
  Status dtype(quire_dtype dtype) const {
    if (is_known(dtype)) return {};
    return invalid("%s.dtype = {code %u, bits %u, lanes %u}; must be a type of whole bytes that a cache can hold", name_, dtype.code,
                   dtype.bits, dtype.lanes);
  }
  Status positive(const char* field, int64_t value) const {
    if (value >= 0) return {};
    return invalid("%s.%s = %" PRId64 "; must be at least 0", name_, field, value);
  }

  struct Axis {
    int64_t stride;
    uint64_t extent;
  };
  // The last byte of a side or tensor: offset + all axes at their end + the bytes of one step.
  Status reach(int64_t offset, std::initializer_list<Axis> axes, uint64_t bytes) const {
    QUIRE_RETURN_IF_ERROR(positive("offset", offset));
    auto last = checked_add(static_cast<uint64_t>(offset), bytes);
    for (const Axis& axis : axes) {
      QUIRE_RETURN_IF_ERROR(positive("strides", axis.stride));
      const auto step = checked_mul(static_cast<uint64_t>(axis.stride), axis.extent - 1);
      if (!last || !step) break;
      last = checked_add(*last, *step);
      if (!last) break;
    }
    bool fits = last.has_value();
    for (const Axis& axis : axes) fits = fits && checked_mul(static_cast<uint64_t>(axis.stride), axis.extent - 1).has_value();
    if (fits) return {};
    return fail(QUIRE_OUT_OF_RANGE, "%s: offset %" PRId64 " and strides reach beyond 63 bits", name_, offset);
  }

 private:
  const char* name_;
};

Status check_codec_params(const quire_kv_view& view, const ViewCheck& check) {
  QUIRE_RETURN_IF_ERROR(check.between("codec", view.codec, QUIRE_CODEC_STRIDED, QUIRE_CODEC_AMX));
  const quire_codec_params& params = view.codec_params;
  QUIRE_RETURN_IF_ERROR(check.between("codec_params.block_alignment", params.block_alignment, 0, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("codec_params.tile", params.tile, 0, kMaxWidth));
  for (uint32_t side = 0; side < view.num_sides; ++side) {
    const bool packed = view.codec == QUIRE_CODEC_RECORD || view.codec == QUIRE_CODEC_BLOCK_SPLIT;
    QUIRE_RETURN_IF_ERROR(check.between("codec_params.data_bytes", params.data_bytes[side], packed ? 1 : 0, kMaxWidth));
    QUIRE_RETURN_IF_ERROR(check.between("codec_params.scale_bytes", params.scale_bytes[side], 0, kMaxWidth));
    QUIRE_RETURN_IF_ERROR(check.between("codec_params.tail_bytes", params.tail_bytes[side], 0, kMaxWidth));
  }
  return {};
}

}  // namespace

Status check_view(const quire_kv_view& view, const char* name) {
  const ViewCheck check(name);
  QUIRE_RETURN_IF_ERROR(check.between("num_sides", view.num_sides, 1, 2));
  QUIRE_RETURN_IF_ERROR(check.between("num_heads", view.num_heads, 1, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("model_heads", view.model_heads, 1, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("first_head", view.first_head, 0, view.model_heads - 1));
  QUIRE_RETURN_IF_ERROR(check.between("first_head + num_heads", uint64_t{view.first_head} + view.num_heads, 1, view.model_heads));
  QUIRE_RETURN_IF_ERROR(check.between("block_tokens", view.block_tokens, 1, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("tokens_per_row", view.tokens_per_row, 1, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("context_ranks", view.context_ranks, 0, kMaxRanks));
  QUIRE_RETURN_IF_ERROR(check.between("context_rank", view.context_rank, 0, std::max(view.context_ranks, 1u) - 1));
  QUIRE_RETURN_IF_ERROR(check.between("kernel_blocks_per_part", view.kernel_blocks_per_part, 1, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("blocks_per_page", view.blocks_per_page, 1, kMaxCount));
  if (view.blocks_per_page % view.kernel_blocks_per_part != 0) {
    return invalid("%s.blocks_per_page = %u; must be a multiple of kernel_blocks_per_part = %u", name, view.blocks_per_page,
                   view.kernel_blocks_per_part);
  }
  QUIRE_RETURN_IF_ERROR(check.between("num_pages", view.num_pages, 1, kMaxCount));
  QUIRE_RETURN_IF_ERROR(check.dtype(view.dtype));
  QUIRE_RETURN_IF_ERROR(check_codec_params(view, check));
  for (uint32_t side = 0; side < view.num_sides; ++side) {
    QUIRE_RETURN_IF_ERROR(check.between("head_dim", view.head_dim[side], 1, kMaxWidth));
    // A codec may hold a whole block, so the largest product that any of them makes must fit.
    const uint64_t cell = cell_bytes(view.codec, view.codec_params, view.dtype, view.head_dim[side], side);
    const auto block = checked_product({cell, view.block_tokens, view.num_heads});
    if (!block) return fail(QUIRE_OUT_OF_RANGE, "%s: bytes of a kernel block pass 63 bits", name);
    QUIRE_RETURN_IF_ERROR(check.reach(view.offset[side],
                                      {{view.stride_page[side], view.num_pages},
                                       {view.stride_block[side], view.blocks_per_page},
                                       {view.stride_token[side], view.block_tokens},
                                       {view.stride_head[side], view.num_heads},
                                       {view.stride_dim[side], view.head_dim[side]}},
                                      *block));
  }
  return {};
}

Status check_view(const quire_state_view& view, const char* name) {
  const ViewCheck check(name);
  QUIRE_RETURN_IF_ERROR(check.dtype(view.dtype));
  QUIRE_RETURN_IF_ERROR(check.between("ndim", view.ndim, 1, 4));
  QUIRE_RETURN_IF_ERROR(check.between("num_pages", view.num_pages, 1, kMaxCount));
  QUIRE_RETURN_IF_ERROR(check.between("parts_per_page", view.parts_per_page, 1, kMaxCount));
  QUIRE_RETURN_IF_ERROR(check.between("shard_dim", view.shard_dim, 0, view.ndim));
  QUIRE_RETURN_IF_ERROR(check.between("num_ranks", view.num_ranks, 1, kMaxWidth));
  QUIRE_RETURN_IF_ERROR(check.between("rank", view.rank, 0, view.num_ranks - 1));
  uint64_t bytes = element_bytes(view.dtype);
  for (uint32_t k = view.ndim; k-- > 0;) {
    QUIRE_RETURN_IF_ERROR(check.between("shape", view.shape[k], 1, kMaxSize));
    if (view.stride[k] != static_cast<int64_t>(bytes)) {
      return invalid("%s.stride[%u] = %" PRId64 "; a state is dense, so %" PRIu64, name, k, view.stride[k], bytes);
    }
    const auto next = checked_mul(bytes, view.shape[k]);
    if (!next) return fail(QUIRE_OUT_OF_RANGE, "%s: bytes of the tensor pass 63 bits", name);
    bytes = *next;
  }
  if (view.shard_dim != 0) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t part = view.shard_parts[k];
      if (part % view.num_ranks != 0) {
        return invalid("%s.shard_parts has %u; must be a multiple of num_ranks = %u", name, part, view.num_ranks);
      }
      const uint32_t repeats = std::max(view.shard_repeats[k], 1u);
      if (view.num_ranks % repeats != 0) {
        return invalid("%s.shard_repeats[%u] = %u; must divide num_ranks = %u", name, k, repeats, view.num_ranks);
      }
      sum += part / view.num_ranks;
    }
    const uint64_t own = view.shape[view.shard_dim - 1];
    if (sum != 0 && sum != own) return invalid("%s.shard_parts sum to %" PRIu64 " per rank, the dimension has %" PRIu64, name, sum, own);
    if (!checked_mul(own, view.num_ranks)) return fail(QUIRE_OUT_OF_RANGE, "%s: the whole dimension passes 63 bits", name);
  }
  return check.reach(view.offset, {{view.stride_page, view.num_pages}, {view.stride_part, view.parts_per_page}}, bytes);
}

}  // namespace quire
