// Entries: gated_delta and conv1d. A slot that one row writes must not be read or written by another row of the same call.
#include "drivers/cpu/device.h"

namespace quire::cpu {
namespace {

template <typename Job>
struct Work {
  Job job;
  quire_driver_device* device;
};

}  // namespace

quire_code gated_delta(quire_driver_stream* stream, const quire_gated_delta* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  QUIRE_TRY(check_descriptor(op, sizeof *op, "gated_delta", err));
  Work<GatedDeltaJob> work{{}, stream->device};
  QUIRE_TRY(drivers::describe_delta(*op, &work.job, err));
  work.job.column_pieces = (work.job.dim_v + kDeltaColumns - 1) / kDeltaColumns;
  stream->device->threads.run(
      uint64_t{op->num_rows} * work.job.heads_v * work.job.column_pieces,
      [](void* p, uint64_t piece, uint32_t thread) {
        const auto& w = *static_cast<Work<GatedDeltaJob>*>(p);
        w.device->kernels->gated_delta(w.job, piece, w.device->scratch + thread * kScratchFloats);
      },
      &work);
  return QUIRE_OK;
}

quire_code conv1d(quire_driver_stream* stream, const quire_conv1d* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  QUIRE_TRY(check_descriptor(op, sizeof *op, "conv1d", err));
  Work<Conv1dJob> work{{}, stream->device};
  QUIRE_TRY(drivers::describe_conv(*op, &work.job, err));
  work.job.channel_pieces = static_cast<uint32_t>((work.job.channels + kConvChannels - 1) / kConvChannels);
  stream->device->threads.run(
      uint64_t{op->num_rows} * work.job.channel_pieces,
      [](void* p, uint64_t piece, uint32_t thread) {
        const auto& w = *static_cast<Work<Conv1dJob>*>(p);
        w.device->kernels->conv1d(w.job, piece, w.device->scratch + thread * kScratchFloats);
      },
      &work);
  return QUIRE_OK;
}

}  // namespace quire::cpu
