// Argument checks. Each message names the argument, its value and the limit; nothing has been written when one of them fails.
#include "drivers/common/check.h"

#include <cinttypes>
#include <cstring>

namespace quire::drivers {
namespace {

constexpr int64_t kMaxSpan = INT64_MAX / 4;  // sums of two spans stay inside 64 bits

// |count * stride| stays in 63 bits.
bool spans(int64_t count, int64_t stride) {
  int64_t span = 0;
  return !__builtin_mul_overflow(count, stride, &span) && span <= kMaxSpan && span >= -kMaxSpan;
}

quire_code check_side(const quire_paged_kv& kv, uint32_t index, quire_error* err) {
  const quire_paged_side& side = kv.side[index];
  if (side.base == nullptr && kv.num_ids != 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.side[%u].base is NULL", index);
  if (side.head_dim == 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.side[%u].head_dim is 0", index);
  if (side.head_dim > kMaxHeadDim) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.side[%u].head_dim %u is above %u", index, side.head_dim, kMaxHeadDim);
  }
  if (kv.num_ids > INT32_MAX || !spans(static_cast<int64_t>(kv.num_ids), side.unit) || !spans(kv.block_tokens, side.stride_token) ||
      !spans(kv.num_heads, side.stride_head) || !spans(side.head_dim, side.stride_dim)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                      "kv.side[%u]: unit %" PRId64 ", stride_token %" PRId64 ", stride_head %" PRId64 " with num_ids %" PRIu64
                      " leave 63 bits, or num_ids is above 2^31 - 1",
                      index, side.unit, side.stride_token, side.stride_head, kv.num_ids);
  }
  return QUIRE_OK;
}

quire_code check_coded_side(const quire_paged_kv& kv, const RowCode& code, uint32_t index, quire_error* err) {
  const quire_paged_side& side = kv.side[index];
  if (side.tail_dim >= side.head_dim) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.side[%u].tail_dim is %u, head_dim %u", index, side.tail_dim, side.head_dim);
  }
  if (side.tail_dim != 0 && (code.tail == Real::kNone || (kPlainFormats & format_bit(code.tail)) == 0)) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.tail_dtype: code %u, %u bits, %u lanes", kv.tail_dtype.code, kv.tail_dtype.bits,
                      kv.tail_dtype.lanes);
  }
  if (data_dim(side) * code_bits(code.data) % 8 != 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.side[%u]: %u elements of %u bits end inside a byte", index, data_dim(side),
                      code_bits(code.data));
  }
  if (!spans(1, side.tail_offset) || !spans(1, side.scales_offset) || !spans(kv.block_tokens, side.scales_stride_token) ||
      !spans(kv.num_heads, side.scales_stride_head)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                      "kv.side[%u]: tail_offset %" PRId64 ", scales_offset %" PRId64 ", scales_stride_token %" PRId64
                      " or scales_stride_head %" PRId64 " leaves 63 bits",
                      index, side.tail_offset, side.scales_offset, side.scales_stride_token, side.scales_stride_head);
  }
  return QUIRE_OK;
}

quire_code check_codes(const quire_paged_kv& kv, quire_error* err) {
  const RowCode code = row_code_of(kv);
  if (code.data == Code::kNone) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.data_dtype: code %u, %u bits, %u lanes", kv.data_dtype.code, kv.data_dtype.bits,
                      kv.data_dtype.lanes);
  }
  const bool fp8 = code.data == Code::kE4m3 || code.data == Code::kE5m2;
  const bool known = code.scale == ScaleCode::kE4m3   ? code.data == Code::kE2m1
                     : code.scale == ScaleCode::kE8m0 ? fp8
                                                      : code.scale != ScaleCode::kNone;
  if (!known) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.scale_dtype: code %u, %u bits, %u lanes with kv.data_dtype of code %u, %u bits",
                      kv.scale_dtype.code, kv.scale_dtype.bits, kv.scale_dtype.lanes, kv.data_dtype.code, kv.data_dtype.bits);
  }
  if (kv.scale_elements % kScaleStep != 0 || kv.scale_elements > kMaxHeadDim) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.scale_elements is %u, not a multiple of %u up to %u", kv.scale_elements, kScaleStep,
                      kMaxHeadDim);
  }
  for (uint32_t i = 0; i < kv.num_sides; ++i) QUIRE_TRY(check_coded_side(kv, code, i, err));
  return QUIRE_OK;
}

}  // namespace

quire_code check_descriptor(const void* op, uint64_t known, const char* name, quire_error* err) {
  return read_descriptor(op, known, known, nullptr, name, err);
}

quire_code read_descriptor(const void* op, uint64_t first, uint64_t known, void* own, const char* name, quire_error* err) {
  if (op == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s is NULL", name);
  uint32_t size = 0;
  memcpy(&size, op, sizeof size);
  if (size < first) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.struct_size is %u, at least %" PRIu64 " is needed", name, size, first);
  }
  if (size > 4096) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.struct_size is %u, above 4096", name, size);
  const char* bytes = static_cast<const char*>(op);
  for (uint64_t i = known; i < size; ++i) {
    if (bytes[i] != 0) {
      return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "%s: byte %" PRIu64 " is set; this driver knows the first %" PRIu64, name, i, known);
    }
  }
  if (own == nullptr) return QUIRE_OK;
  memset(own, 0, known);
  memcpy(own, op, size < known ? size : known);
  return QUIRE_OK;
}

quire_code read_batch(const quire_batch* batch, uint32_t group, uint32_t column, BatchColumn* own, quire_error* err) {
  quire_batch b;
  QUIRE_TRY(read_descriptor(batch, sizeof b, sizeof b, &b, "batch", err));
  if (b.flags != 0) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "batch.flags 0x%x", b.flags);
  if (b.group != group) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "batch.group is %u, the cache is of group %u", b.group, group);
  if (column >= b.num_columns) {
    return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "batch.num_columns is %u, the cache is of column %u", b.num_columns, column);
  }
  const struct {
    const char* name;
    uint64_t value;
  } counts[] = {{"table_pitch", b.table_pitch},
                {"table_column_pitch", b.table_column_pitch},
                {"num_slots", b.num_slots},
                {"slots_column_pitch", b.slots_column_pitch},
                {"state_read_column_pitch", b.state_read_column_pitch},
                {"state_write_column_pitch", b.state_write_column_pitch}};
  for (const auto& count : counts) {
    if (count.value > uint64_t{1} << 40 || !spans(column, static_cast<int64_t>(count.value * sizeof(int64_t)))) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "batch.%s is %" PRIu64 ", above 2^40, or too far for column %u", count.name, count.value,
                        column);
    }
  }
  const auto at = [column](const auto* array, uint64_t pitch) { return array == nullptr ? nullptr : array + column * pitch; };
  *own = {b.query_indptr,
          b.kv_len,
          b.positions,
          at(b.table, b.table_column_pitch),
          b.table_pitch,
          at(b.slots, b.slots_column_pitch),
          b.num_slots,
          at(b.state_read, b.state_read_column_pitch),
          at(b.state_write, b.state_write_column_pitch),
          b.state_write_indptr,
          b.state_write_ends,
          b.num_rows,
          b.num_tokens};
  return QUIRE_OK;
}

quire_code check_tensor(const quire_tensor& t, const TensorRule& rule, quire_error* err) {
  if (t.ndim != rule.ndim) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.ndim is %d, not %d", rule.name, t.ndim, rule.ndim);
  if (!reads_device_type(t.device_type)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.device_type is %d, not memory that this driver reads", rule.name, t.device_type);
  }
  const Real real = real_of(t.dtype);
  if (real == Real::kNone || (rule.formats & format_bit(real)) == 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "%s.dtype: code %u, %u bits, %u lanes", rule.name, t.dtype.code, t.dtype.bits,
                      t.dtype.lanes);
  }
  int64_t elements = 1;
  for (int32_t d = 0; d < t.ndim; ++d) {
    if (t.shape[d] < 0 || (rule.shape[d] >= 0 && t.shape[d] != rule.shape[d])) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.shape[%d] is %" PRId64 ", not %" PRId64, rule.name, d, t.shape[d], rule.shape[d]);
    }
    if (!spans(t.shape[d], t.stride[d])) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.stride[%d] %" PRId64 " times shape %" PRId64 " leaves 63 bits", rule.name, d,
                        t.stride[d], t.shape[d]);
    }
    elements = t.shape[d] == 0 ? 0 : elements;
  }
  if (t.data == nullptr && elements != 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.data is NULL", rule.name);
  for (int32_t d = 0; rule.written && elements != 0 && d < t.ndim; ++d) {
    if (t.stride[d] == 0 && t.shape[d] > 1) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s.stride[%d] is 0 with shape %" PRId64 "; elements that are written must lie apart",
                        rule.name, d, t.shape[d]);
    }
  }
  return QUIRE_OK;
}

quire_code check_paged_kv(const quire_paged_kv& kv, quire_error* err) {
  const bool plain = kv.codec == QUIRE_CODEC_STRIDED;
  const bool coded = kDecodesRows && (kv.codec == QUIRE_CODEC_RECORD || kv.codec == QUIRE_CODEC_BLOCK_SPLIT);
  if (!plain && !coded) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.codec %u", kv.codec);
  if (plain && real_of(kv.dtype) == Real::kNone) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv.dtype: code %u, %u bits, %u lanes", kv.dtype.code, kv.dtype.bits, kv.dtype.lanes);
  }
  if (kv.num_sides != 1 && kv.num_sides != 2)
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.num_sides is %u, not 1 or 2", kv.num_sides);
  if (kv.num_heads == 0 || kv.num_heads > kMaxHeads) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.num_heads is %u, not 1 to %u", kv.num_heads, kMaxHeads);
  }
  if (kv.block_tokens == 0 || kv.block_tokens > INT32_MAX) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.block_tokens is %u, not 1 to 2^31 - 1", kv.block_tokens);
  }
  for (uint32_t i = 0; i < kv.num_sides; ++i) QUIRE_TRY(check_side(kv, i, err));
  return plain ? QUIRE_OK : check_codes(kv, err);
}

quire_code check_paged_state(const quire_paged_state& state, uint32_t ndim, quire_error* err) {
  if (state.base == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.base is NULL");
  if (state.ndim != ndim) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.ndim is %u, not %u", state.ndim, ndim);
  const Real real = real_of(state.dtype);
  if (real == Real::kNone || (kPlainFormats & format_bit(real)) == 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "state.dtype: code %u, %u bits, %u lanes", state.dtype.code, state.dtype.bits,
                      state.dtype.lanes);
  }
  if (!spans(INT32_MAX, state.unit))
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.unit %" PRId64 " times 2^31 leaves 63 bits", state.unit);
  for (uint32_t d = 0; d < ndim; ++d) {
    if (state.shape[d] > INT32_MAX || !spans(static_cast<int64_t>(state.shape[d]), state.stride[d])) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.shape[%u] is %" PRIu64 " with stride %" PRId64 ": above 2^31 - 1 or 63 bits", d,
                        state.shape[d], state.stride[d]);
    }
  }
  bool empty = false;  // a convolution of width 1 keeps no inputs
  for (uint32_t d = 0; d < ndim; ++d) empty = empty || state.shape[d] == 0;
  for (uint32_t d = 0; d < ndim && !empty; ++d) {
    if (state.stride[d] == 0 && state.shape[d] > 1) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                        "state.stride[%u] is 0 with shape %" PRIu64 "; elements that are written must lie apart", d, state.shape[d]);
    }
  }
  return QUIRE_OK;
}

quire_code check_offsets(const int32_t* offsets, uint32_t rows, const OffsetRule& rule, quire_error* err) {
  if (rows == 0) return QUIRE_OK;
  if (offsets == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s is NULL with num_rows %u", rule.name, rows);
  if (!host_reads(offsets)) return QUIRE_OK;
  if (offsets[0] < 0) return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "%s[0] is %d, below 0", rule.name, offsets[0]);
  for (uint32_t r = 0; r < rows; ++r) {
    if (offsets[r + 1] < offsets[r]) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "%s[%u] is %d, below %s[%u] %d", rule.name, r + 1, offsets[r + 1], rule.name, r,
                        offsets[r]);
    }
  }
  if (offsets[rows] > rule.limit) {
    return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "%s[%u] is %d, the tensors hold %" PRId64 " %s", rule.name, rows, offsets[rows], rule.limit,
                      rule.what);
  }
  return QUIRE_OK;
}

quire_code check_indptr(const int32_t* indptr, uint32_t rows, int64_t tokens, quire_error* err) {
  return check_offsets(indptr, rows, {"query_indptr", tokens, "tokens"}, err);
}

quire_code check_state_slots(const quire_paged_state& state, const int32_t* slots, uint32_t n, const char* name, quire_error* err) {
  if (n != 0 && slots == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s is NULL with %u entries", name, n);
  if (!host_reads(slots)) return QUIRE_OK;
  for (uint32_t r = 0; r < n && state.num_ids != 0; ++r) {
    if (slots[r] >= 0 && static_cast<uint64_t>(slots[r]) >= state.num_ids) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "%s[%u] is %d, the state has %" PRIu64 " ids", name, r, slots[r], state.num_ids);
    }
  }
  return QUIRE_OK;
}

}  // namespace quire::drivers
