// Checks of the recurrent ops: gated delta, the short convolution and the selective scan.
#include "drivers/common/check.h"

#include <cinttypes>
#include <cmath>

namespace quire::drivers {
namespace {

// What all recurrent ops have: their rows, and the states that rows read and leave behind.
template <typename Op>
quire_code check_state_rows(const Op& op, int64_t tokens, quire_error* err) {
  QUIRE_TRY(check_indptr(op.query_indptr, op.num_rows, tokens, err));
  QUIRE_TRY(check_state_slots(op.state, op.state_read, op.num_rows, "state_read", err));
  if (op.state_write_indptr == nullptr) return check_state_slots(op.state, op.state_write, op.num_rows, "state_write", err);
  QUIRE_TRY(check_offsets(op.state_write_indptr, op.num_rows, {"state_write_indptr", INT32_MAX, "entries"}, err));
  if (op.num_rows == 0) return QUIRE_OK;
  if (op.state_write_ends == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state_write_ends is NULL with state_write_indptr");
  if (op.kv_len == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kv_len is NULL with state_write_indptr");
  if (!host_reads(op.state_write_indptr)) return QUIRE_OK;
  const auto entries = static_cast<uint32_t>(op.state_write_indptr[op.num_rows]);
  QUIRE_TRY(check_state_slots(op.state, op.state_write, entries, "state_write", err));
  if (!host_reads(op.state_write_ends) || !host_reads(op.kv_len) || !host_reads(op.query_indptr)) return QUIRE_OK;
  for (uint32_t r = 0; r < op.num_rows; ++r) {
    int64_t low = int64_t{op.kv_len[r]} - (int64_t{op.query_indptr[r + 1]} - op.query_indptr[r]);
    for (int32_t i = op.state_write_indptr[r]; i < op.state_write_indptr[r + 1]; ++i) {
      if (op.state_write_ends[i] < low || op.state_write_ends[i] > op.kv_len[r]) {
        return QUIRE_FAIL(err, QUIRE_OUT_OF_RANGE, "state_write_ends[%d] is %d, row %u goes on from %" PRId64 " to %d", i,
                          op.state_write_ends[i], r, low, op.kv_len[r]);
      }
      low = op.state_write_ends[i];
    }
  }
  return QUIRE_OK;
}

quire_code check_optional(const quire_tensor& tensor, const TensorRule& rule, quire_error* err) {
  return tensor.data == nullptr ? QUIRE_OK : check_tensor(tensor, rule, err);
}

}  // namespace

quire_code describe_delta(const GatedDeltaOp& op, GatedDeltaJob* job, quire_error* err) {
  if ((op.flags & ~(QUIRE_GATED_DELTA_V_MAJOR | QUIRE_GATED_DELTA_L2NORM)) != 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "gated_delta.flags 0x%x", op.flags);
  }
  QUIRE_TRY(check_paged_state(op.state, 3, err));
  const bool v_major = (op.flags & QUIRE_GATED_DELTA_V_MAJOR) != 0;
  job->op = &op;
  job->state = real_of(op.state.dtype);
  job->heads_v = static_cast<uint32_t>(op.state.shape[0]);
  job->dim_k = static_cast<uint32_t>(op.state.shape[v_major ? 2 : 1]);
  job->dim_v = static_cast<uint32_t>(op.state.shape[v_major ? 1 : 2]);
  job->stride_head = op.state.stride[0];
  job->stride_k = op.state.stride[v_major ? 2 : 1];
  job->stride_v = op.state.stride[v_major ? 1 : 2];
  if (job->heads_v == 0 || job->dim_k == 0 || job->dim_v == 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.shape is [%u, %u, %u]: a dimension is 0", job->heads_v, job->dim_k, job->dim_v);
  }
  if (job->dim_k > kMaxHeadDim) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "dim_k %u is above %u", job->dim_k, kMaxHeadDim);
  const int64_t tokens = op.query.shape[0];
  QUIRE_TRY(check_tensor(op.query, {"query", 3, {-1, -1, job->dim_k}, kPlainFormats}, err));
  if (op.query.shape[1] <= 0 || job->heads_v % op.query.shape[1] != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "query.shape[1] is %" PRId64 ", it must divide the %u heads of the state",
                      op.query.shape[1], job->heads_v);
  }
  job->heads_k = static_cast<uint32_t>(op.query.shape[1]);
  QUIRE_TRY(check_tensor(op.key, {"key", 3, {tokens, job->heads_k, job->dim_k}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.value, {"value", 3, {tokens, job->heads_v, job->dim_v}, kPlainFormats}, err));
  job->per_channel = op.gate.ndim == 3;
  QUIRE_TRY(check_tensor(op.gate, {"gate", job->per_channel ? 3 : 2, {tokens, job->heads_v, job->dim_k}, kFloat32Only}, err));
  QUIRE_TRY(check_tensor(op.beta, {"beta", 2, {tokens, job->heads_v}, kFloat32Only}, err));
  QUIRE_TRY(check_tensor(op.out, {"out", 3, {tokens, job->heads_v, job->dim_v}, kPlainFormats, true}, err));
  QUIRE_TRY(check_state_rows(op, tokens, err));
  job->scale = op.scale != 0.0f ? op.scale : 1.0f / std::sqrt(static_cast<float>(job->dim_k));
  return QUIRE_OK;
}

quire_code describe_conv(const Conv1dOp& op, Conv1dJob* job, quire_error* err) {
  if ((op.flags & ~QUIRE_CONV1D_SILU) != 0) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "conv1d.flags 0x%x", op.flags);
  QUIRE_TRY(check_paged_state(op.state, 2, err));
  const int64_t width = static_cast<int64_t>(op.state.shape[0]) + 1;
  const int64_t channels = static_cast<int64_t>(op.state.shape[1]);
  if (width > kMaxConvWidth)
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "state.shape[0] is %" PRId64 ", above %u", width - 1, kMaxConvWidth - 1);
  if (channels == 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.shape[1] is 0");
  QUIRE_TRY(check_tensor(op.input, {"input", 2, {-1, channels}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.weight, {"weight", 2, {channels, width}, kPlainFormats}, err));
  QUIRE_TRY(check_optional(op.bias, {"bias", 1, {channels}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.out, {"out", 2, {op.input.shape[0], channels}, kPlainFormats, true}, err));
  QUIRE_TRY(check_state_rows(op, op.input.shape[0], err));
  job->op = &op;
  job->width = static_cast<uint32_t>(width);
  job->channels = static_cast<uint32_t>(channels);
  return QUIRE_OK;
}

quire_code describe_scan(const SelectiveScanOp& op, ScanJob* job, quire_error* err) {
  if ((op.flags & ~QUIRE_SELECTIVE_SCAN_SOFTPLUS) != 0) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "selective_scan.flags 0x%x", op.flags);
  }
  const bool lines = op.state.ndim == 2;  // one line per head
  QUIRE_TRY(check_paged_state(op.state, lines ? 2 : 3, err));
  const quire_paged_state& state = op.state;
  *job = {&op,
          real_of(state.dtype),
          static_cast<uint32_t>(state.shape[0]),
          lines ? 1 : static_cast<uint32_t>(state.shape[1]),
          static_cast<uint32_t>(state.shape[lines ? 1 : 2]),
          0,
          state.stride[0],
          lines ? 0 : state.stride[1],
          state.stride[lines ? 1 : 2],
          op.a.ndim == 2};
  const ScanJob& j = *job;
  if (j.heads == 0 || j.head_dim == 0 || j.state_dim == 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.shape is [%u, %u, %u]: a dimension is 0", j.heads, j.head_dim, j.state_dim);
  }
  if (j.state_dim > kMaxStateDim) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "state_dim %u is above %u", j.state_dim, kMaxStateDim);
  const int64_t tokens = op.x.ndim > 0 ? op.x.shape[0] : 0;
  QUIRE_TRY(check_tensor(op.x, {"x", 3, {-1, j.heads, j.head_dim}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.dt, {"dt", 2, {tokens, j.heads}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.a, {"a", j.per_element ? 2 : 1, {j.heads, j.state_dim}, kFloat32Only}, err));
  QUIRE_TRY(check_tensor(op.b, {"b", 3, {tokens, -1, j.state_dim}, kPlainFormats}, err));
  if (op.b.shape[1] <= 0 || j.heads % op.b.shape[1] != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "b.shape[1] is %" PRId64 ", it must divide the %u heads of the state", op.b.shape[1],
                      j.heads);
  }
  job->groups = static_cast<uint32_t>(op.b.shape[1]);
  QUIRE_TRY(check_tensor(op.c, {"c", 3, {tokens, j.groups, j.state_dim}, kPlainFormats}, err));
  QUIRE_TRY(check_optional(op.skip, {"skip", op.skip.ndim == 2 ? 2 : 1, {j.heads, j.head_dim}, kPlainFormats}, err));
  QUIRE_TRY(check_optional(op.dt_bias, {"dt_bias", 1, {j.heads}, kPlainFormats}, err));
  QUIRE_TRY(check_optional(op.z, {"z", 3, {tokens, j.heads, j.head_dim}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.out, {"out", 3, {tokens, j.heads, j.head_dim}, kPlainFormats, true}, err));
  if (!(op.dt_min >= 0.0f && op.dt_max >= 0.0f) || (op.dt_max != 0.0f && op.dt_max < op.dt_min)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "dt_min %g, dt_max %g: not 0 <= dt_min <= dt_max (0 = no limit)",
                      static_cast<double>(op.dt_min), static_cast<double>(op.dt_max));
  }
  return check_state_rows(op, tokens, err);
}

}  // namespace quire::drivers
