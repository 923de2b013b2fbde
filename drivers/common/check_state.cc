// Checks of the recurrent ops: gated delta and the short convolution.
#include "drivers/common/check.h"

#include <cinttypes>
#include <cmath>

namespace quire::drivers {

quire_code describe_delta(const quire_gated_delta& op, GatedDeltaJob* job, quire_error* err) {
  if (op.next != nullptr) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "gated_delta.next is not NULL");
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
  QUIRE_TRY(check_tensor(op.out, {"out", 3, {tokens, job->heads_v, job->dim_v}, kPlainFormats}, err));
  QUIRE_TRY(check_indptr(op.query_indptr, op.num_rows, tokens, err));
  QUIRE_TRY(check_state_slots(op.state, op.state_read, op.num_rows, "state_read", err));
  QUIRE_TRY(check_state_slots(op.state, op.state_write, op.num_rows, "state_write", err));
  job->scale = op.scale != 0.0f ? op.scale : 1.0f / std::sqrt(static_cast<float>(job->dim_k));
  return QUIRE_OK;
}

quire_code describe_conv(const quire_conv1d& op, Conv1dJob* job, quire_error* err) {
  if (op.next != nullptr) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "conv1d.next is not NULL");
  if ((op.flags & ~QUIRE_CONV1D_SILU) != 0) return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "conv1d.flags 0x%x", op.flags);
  QUIRE_TRY(check_paged_state(op.state, 2, err));
  const int64_t width = static_cast<int64_t>(op.state.shape[0]) + 1;
  const int64_t channels = static_cast<int64_t>(op.state.shape[1]);
  if (width > kMaxConvWidth)
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "state.shape[0] is %" PRId64 ", above %u", width - 1, kMaxConvWidth - 1);
  if (channels == 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "state.shape[1] is 0");
  QUIRE_TRY(check_tensor(op.input, {"input", 2, {-1, channels}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.weight, {"weight", 2, {channels, width}, kPlainFormats}, err));
  if (op.bias.data != nullptr) QUIRE_TRY(check_tensor(op.bias, {"bias", 1, {channels}, kPlainFormats}, err));
  QUIRE_TRY(check_tensor(op.out, {"out", 2, {op.input.shape[0], channels}, kPlainFormats}, err));
  QUIRE_TRY(check_indptr(op.query_indptr, op.num_rows, op.input.shape[0], err));
  QUIRE_TRY(check_state_slots(op.state, op.state_read, op.num_rows, "state_read", err));
  QUIRE_TRY(check_state_slots(op.state, op.state_write, op.num_rows, "state_write", err));
  job->op = &op;
  job->width = static_cast<uint32_t>(width);
  job->channels = static_cast<uint32_t>(channels);
  return QUIRE_OK;
}

}  // namespace quire::drivers
