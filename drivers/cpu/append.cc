// Entries: kv_append and attention_merge.
#include "drivers/cpu/device.h"

#include <cinttypes>

namespace quire::cpu {
namespace {

constexpr uint64_t kTokensPerPiece = 16;

quire_code check_rope(const quire_kv_append& op, quire_error* err) {
  if (op.rope_cos == nullptr && op.rope_sin == nullptr) return QUIRE_OK;
  if (op.rope_cos == nullptr || op.rope_sin == nullptr || (op.positions == nullptr && op.num_tokens != 0)) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "rope_cos, rope_sin and positions go together; one of them is NULL");
  }
  if (op.kv.num_sides == 1) return QUIRE_CPU_FAIL(err, QUIRE_UNIMPLEMENTED, "rope with kv.num_sides 1");
  if (op.rope_dim == 0 || op.rope_dim % 2 != 0 || op.rope_dim > op.kv.side[0].head_dim) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "rope_dim is %u, not even and 2 to %u", op.rope_dim, op.kv.side[0].head_dim);
  }
  for (uint64_t i = 0; i < op.num_tokens; ++i) {
    if (op.slots[i] >= 0 && op.positions[i] < 0) {
      return QUIRE_CPU_FAIL(err, QUIRE_OUT_OF_RANGE, "positions[%" PRIu64 "] is %d, below 0", i, op.positions[i]);
    }
  }
  return QUIRE_OK;
}

quire_code check_append(const quire_kv_append& op, quire_error* err) {
  if (op.next != nullptr) return QUIRE_CPU_FAIL(err, QUIRE_UNIMPLEMENTED, "kv_append.next is not NULL");
  if (op.flags != 0) return QUIRE_CPU_FAIL(err, QUIRE_UNIMPLEMENTED, "kv_append.flags 0x%x", op.flags);
  QUIRE_CPU_TRY(check_paged_kv(op.kv, err));
  if (op.num_tokens > INT32_MAX) return QUIRE_CPU_FAIL(err, QUIRE_OUT_OF_RANGE, "num_tokens is %" PRIu64 ", above 2^31 - 1", op.num_tokens);
  if (op.num_tokens == 0) return QUIRE_OK;
  const int64_t tokens = static_cast<int64_t>(op.num_tokens);
  QUIRE_CPU_TRY(check_tensor(op.key, {"key", 3, {-1, op.kv.num_heads, op.kv.side[0].head_dim}, kPlainFormats}, err));
  if (op.kv.num_sides == 2) {
    QUIRE_CPU_TRY(check_tensor(op.value, {"value", 3, {-1, op.kv.num_heads, op.kv.side[1].head_dim}, kPlainFormats}, err));
    if (drivers::real_of(op.key.dtype) != drivers::real_of(op.value.dtype)) {
      return QUIRE_CPU_FAIL(err, QUIRE_UNIMPLEMENTED, "key.dtype code %u, %u bits and value.dtype code %u, %u bits differ",
                            op.key.dtype.code, op.key.dtype.bits, op.value.dtype.code, op.value.dtype.bits);
    }
  } else if (op.value.data != nullptr) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "value is present with kv.num_sides 1");
  }
  if (op.key.shape[0] < tokens || (op.kv.num_sides == 2 && op.value.shape[0] < tokens)) {
    return QUIRE_CPU_FAIL(err, QUIRE_OUT_OF_RANGE, "num_tokens is %" PRIu64 ", key.shape[0] %" PRId64 ", value.shape[0] %" PRId64,
                          op.num_tokens, op.key.shape[0], op.value.shape[0]);
  }
  if (op.slots == nullptr) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "slots is NULL with num_tokens %" PRIu64, op.num_tokens);
  const int64_t limit = static_cast<int64_t>(op.kv.num_ids) * op.kv.block_tokens;  // both below 2^31
  for (uint64_t i = 0; i < op.num_tokens; ++i) {
    if (op.slots[i] >= limit) {
      return QUIRE_CPU_FAIL(err, QUIRE_OUT_OF_RANGE, "slots[%" PRIu64 "] is %" PRId64 ", the cache has %" PRId64, i, op.slots[i], limit);
    }
  }
  for (float scale : {op.scale_k, op.scale_v}) {
    if (!(scale >= 0.0f))
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "scale_k or scale_v is %g, below 0", static_cast<double>(scale));
  }
  return check_rope(op, err);
}

struct AppendWork {
  AppendJob job;
  quire_driver_device* device;
};

struct MergeWork {
  MergeJob job;
  quire_driver_device* device;
  uint64_t rows;
};

}  // namespace

quire_code kv_append(quire_driver_stream* stream, const quire_kv_append* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  QUIRE_CPU_TRY(check_descriptor(op, sizeof *op, "kv_append", err));
  QUIRE_CPU_TRY(check_append(*op, err));
  AppendWork work{{op, drivers::real_of(op->kv.dtype), drivers::real_of(op->key.dtype), 1.0f, 1.0f, false}, stream->device};
  if (op->scale_k != 0.0f) work.job.inverse_k = 1.0f / op->scale_k;
  if (op->scale_v != 0.0f) work.job.inverse_v = 1.0f / op->scale_v;
  work.job.past_caches = op->num_tokens * op->kv.num_heads * op->kv.side[0].head_dim >= kPastCaches;
  stream->device->threads.run((op->num_tokens + kTokensPerPiece - 1) / kTokensPerPiece,
                              [](void* p, uint64_t piece, uint32_t thread) {
                                const AppendWork& w = *static_cast<AppendWork*>(p);
                                const uint64_t first = piece * kTokensPerPiece;
                                const uint64_t last =
                                    first + kTokensPerPiece < w.job.op->num_tokens ? first + kTokensPerPiece : w.job.op->num_tokens;
                                w.device->kernels->append(w.job, first, last, w.device->scratch + thread * kScratchFloats);
                              },
                              &work);
  return QUIRE_OK;
}

quire_code attention_merge(quire_driver_stream* stream, const quire_attention_merge* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  QUIRE_CPU_TRY(check_descriptor(op, sizeof *op, "attention_merge", err));
  if (op->next != nullptr) return QUIRE_CPU_FAIL(err, QUIRE_UNIMPLEMENTED, "attention_merge.next is not NULL");
  if (op->num_parts == 0 || op->partial_out == nullptr || op->partial_lse == nullptr) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "num_parts is %u, or partial_out or partial_lse is NULL", op->num_parts);
  }
  QUIRE_CPU_TRY(check_tensor(op->out, {"out", 3, {-1, -1, -1}, kPlainFormats}, err));
  const int64_t* shape = op->out.shape;
  if (shape[2] > kMaxHeadDim)
    return QUIRE_CPU_FAIL(err, QUIRE_UNIMPLEMENTED, "out.shape[2] %" PRId64 " is above %u", shape[2], kMaxHeadDim);
  if (shape[0] > INT32_MAX || shape[1] > INT32_MAX) {
    return QUIRE_CPU_FAIL(err, QUIRE_OUT_OF_RANGE, "out.shape [%" PRId64 ", %" PRId64 "] is above 2^31 - 1", shape[0], shape[1]);
  }
  if (op->lse.data != nullptr) QUIRE_CPU_TRY(check_tensor(op->lse, {"lse", 2, {shape[0], shape[1]}, kFloat32Only}, err));
  for (uint32_t p = 0; p < op->num_parts; ++p) {
    QUIRE_CPU_TRY(check_tensor(op->partial_out[p], {"partial_out[]", 3, {shape[0], shape[1], shape[2]}, kPlainFormats}, err));
    QUIRE_CPU_TRY(check_tensor(op->partial_lse[p], {"partial_lse[]", 2, {shape[0], shape[1]}, kFloat32Only}, err));
  }
  MergeWork work{{op}, stream->device, static_cast<uint64_t>(shape[0]) * static_cast<uint64_t>(shape[1])};
  stream->device->threads.run((work.rows + kTokensPerPiece - 1) / kTokensPerPiece,
                              [](void* p, uint64_t piece, uint32_t thread) {
                                const MergeWork& w = *static_cast<MergeWork*>(p);
                                const uint64_t first = piece * kTokensPerPiece;
                                const uint64_t last = first + kTokensPerPiece < w.rows ? first + kTokensPerPiece : w.rows;
                                w.device->kernels->merge(w.job, first, last, w.device->scratch + thread * kScratchFloats);
                              },
                              &work);
  return QUIRE_OK;
}

}  // namespace quire::cpu
