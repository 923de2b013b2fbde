// Entries: kv_append and attention_merge.
#include "drivers/cpu/cpu_device.h"

namespace quire::cpu {
namespace {

constexpr Turns kTokens{16, UINT64_MAX};

struct AppendWork {
  AppendJob job;
  quire_driver_device* device;
};

struct MergeWork {
  MergeJob job;
  quire_driver_device* device;
};

}  // namespace

quire_code kv_append(quire_driver_stream* stream, const quire_kv_append* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  drivers::AppendOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "kv_append", err));
  QUIRE_TRY(drivers::check_append(own, err));
  const drivers::RowCode code = drivers::row_code_of(own.kv);
  const bool codes = code.data != drivers::Code::kNone;
  const Real cache = codes ? Real::kNone : drivers::real_of(op->kv.dtype);
  AppendWork work{{&own, code, cache, drivers::real_of(op->key.dtype), 1.0f, 1.0f, false}, stream->device};
  if (op->scale_k != 0.0f) work.job.inverse_k = 1.0f / op->scale_k;
  if (op->scale_v != 0.0f) work.job.inverse_v = 1.0f / op->scale_v;
  const uint64_t bytes = own.num_slots * op->kv.num_heads * op->kv.side[0].head_dim * drivers::real_bytes(work.job.cache);
  work.job.past_caches = bytes >= kPastCaches && !codes;
  stream->device->threads.run(
      own.num_slots, kTokens,
      [](void* p, uint64_t first, uint64_t last, uint32_t thread) {
        const AppendWork& w = *static_cast<AppendWork*>(p);
        w.device->kernels->append(w.job, first, last, w.device->scratch + thread * kScratchFloats);
      },
      &work);
  return QUIRE_OK;
}

quire_code attention_merge(quire_driver_stream* stream, const quire_attention_merge* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  QUIRE_TRY(check_descriptor(op, sizeof *op, "attention_merge", err));
  QUIRE_TRY(drivers::check_merge(*op, err));
  const int64_t* shape = op->out.shape;
  MergeWork work{{op}, stream->device};
  stream->device->threads.run(
      static_cast<uint64_t>(shape[0]) * static_cast<uint64_t>(shape[1]), kTokens,
      [](void* p, uint64_t first, uint64_t last, uint32_t thread) {
        const MergeWork& w = *static_cast<MergeWork*>(p);
        w.device->kernels->merge(w.job, first, last, w.device->scratch + thread * kScratchFloats);
      },
      &work);
  return QUIRE_OK;
}

}  // namespace quire::cpu
