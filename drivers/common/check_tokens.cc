// Checks of ops that work token by token: append and merge.
#include "drivers/common/check.h"

#include <cinttypes>

namespace quire::drivers {
namespace {

quire_code check_rope(const AppendOp& op, quire_error* err) {
  if (op.rope_cos == nullptr && op.rope_sin == nullptr) return QUIRE_OK;
  if (op.rope_cos == nullptr || op.rope_sin == nullptr || (op.positions == nullptr && op.num_slots != 0)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "rope_cos, rope_sin and positions go together; one of them is NULL");
  }
  if (op.kv.num_sides == 1) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "rope with kv.num_sides 1");
  if (op.num_slots != op.num_tokens) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                      "rope: batch.num_slots is %" PRIu64 ", batch.num_tokens %u: positions are of query tokens", op.num_slots,
                      op.num_tokens);
  }
  if (op.rope_dim == 0 || op.rope_dim % 2 != 0 || op.rope_dim > op.kv.side[0].head_dim) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "rope_dim is %u, not even and 2 to %u", op.rope_dim, op.kv.side[0].head_dim);
  }
  if (op.num_slots == 0 || !host_reads(op.slots) || !host_reads(op.positions)) return QUIRE_OK;
  for (uint64_t i = 0; i < op.num_slots; ++i) {
    if (op.slots[i] >= 0 && op.positions[i] < 0) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "positions[%" PRIu64 "] is %d, below 0", i, op.positions[i]);
    }
  }
  return QUIRE_OK;
}

// Rows that are written lie apart: no stride is 0 where there is more than one of what it counts. Dense codes have no stride_dim.
quire_code check_rows_apart(const quire_paged_kv& kv, quire_error* err) {
  const bool plain = kv.codec == QUIRE_CODEC_STRIDED;
  for (uint32_t i = 0; i < kv.num_sides; ++i) {
    const quire_paged_side& side = kv.side[i];
    const struct {
      const char* name;
      int64_t stride;
      uint64_t count;
    } strides[] = {{"unit", side.unit, kv.num_ids},
                   {"stride_token", side.stride_token, kv.block_tokens},
                   {"stride_head", side.stride_head, kv.num_heads},
                   {"stride_dim", side.stride_dim, plain ? side.head_dim : 1}};
    for (const auto& s : strides) {
      if (s.stride == 0 && s.count > 1) {
        return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv.side[%u].%s is 0 for %" PRIu64 "; elements that are written must lie apart", i,
                          s.name, s.count);
      }
    }
  }
  return QUIRE_OK;
}

}  // namespace

quire_code check_append(const AppendOp& op, quire_error* err) {
  if (op.flags != 0) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "kv_append.flags 0x%x", op.flags);
  QUIRE_TRY(check_paged_kv(op.kv, err));
  QUIRE_TRY(check_rows_apart(op.kv, err));
  if (op.num_slots > INT32_MAX) return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "num_slots is %" PRIu64 ", above 2^31 - 1", op.num_slots);
  if (op.num_slots == 0) return QUIRE_OK;
  const int64_t tokens = static_cast<int64_t>(op.num_slots);
  QUIRE_TRY(check_tensor(op.key, {"key", 3, {-1, op.kv.num_heads, op.kv.side[0].head_dim}, kPlainFormats}, err));
  if (op.kv.num_sides == 2) {
    QUIRE_TRY(check_tensor(op.value, {"value", 3, {-1, op.kv.num_heads, op.kv.side[1].head_dim}, kPlainFormats}, err));
    if (real_of(op.key.dtype) != real_of(op.value.dtype)) {
      return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "key.dtype code %u, %u bits and value.dtype code %u, %u bits differ", op.key.dtype.code,
                        op.key.dtype.bits, op.value.dtype.code, op.value.dtype.bits);
    }
  } else if (op.value.data != nullptr) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "value is present with kv.num_sides 1");
  }
  if (op.key.shape[0] < tokens || (op.kv.num_sides == 2 && op.value.shape[0] < tokens)) {
    return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "num_slots is %" PRIu64 ", key.shape[0] %" PRId64 ", value.shape[0] %" PRId64, op.num_slots,
                      op.key.shape[0], op.value.shape[0]);
  }
  if (op.slots == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "slots is NULL with num_slots %" PRIu64, op.num_slots);
  const int64_t limit = static_cast<int64_t>(op.kv.num_ids) * op.kv.block_tokens;  // both below 2^31
  const uint64_t checked = host_reads(op.slots) ? op.num_slots : 0;
  for (uint64_t i = 0; i < checked; ++i) {
    if (op.slots[i] >= limit) {
      return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "slots[%" PRIu64 "] is %" PRId64 ", the cache has %" PRId64, i, op.slots[i], limit);
    }
  }
  for (float scale : {op.scale_k, op.scale_v}) {
    if (!(scale >= 0.0f)) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "scale_k or scale_v is %g, below 0", static_cast<double>(scale));
  }
  return check_rope(op, err);
}

quire_code check_merge(const quire_attention_merge& op, quire_error* err) {
  if (op.num_parts == 0 || op.partial_out == nullptr || op.partial_lse == nullptr) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "num_parts is %u, or partial_out or partial_lse is NULL", op.num_parts);
  }
  QUIRE_TRY(check_tensor(op.out, {"out", 3, {-1, -1, -1}, kPlainFormats, true}, err));
  const int64_t* shape = op.out.shape;
  if (shape[2] > kMaxHeadDim) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "out.shape[2] %" PRId64 " is above %u", shape[2], kMaxHeadDim);
  if (shape[0] > INT32_MAX || shape[1] > INT32_MAX) {
    return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "out.shape [%" PRId64 ", %" PRId64 "] is above 2^31 - 1", shape[0], shape[1]);
  }
  if (op.lse.data != nullptr) QUIRE_TRY(check_tensor(op.lse, {"lse", 2, {shape[0], shape[1]}, kFloat32Only, true}, err));
  for (uint32_t p = 0; p < op.num_parts; ++p) {
    QUIRE_TRY(check_tensor(op.partial_out[p], {"partial_out[]", 3, {shape[0], shape[1], shape[2]}, kPlainFormats}, err));
    QUIRE_TRY(check_tensor(op.partial_lse[p], {"partial_lse[]", 2, {shape[0], shape[1]}, kFloat32Only}, err));
  }
  return QUIRE_OK;
}

}  // namespace quire::drivers
