// Entries: gated_delta, conv1d and selective_scan. A slot that one row writes must not be read or written by another row of the same call.
#include "drivers/cpu/cpu_device.h"

namespace quire::cpu {
namespace {

template <typename Job>
struct Work {
  Job job;
  quire_driver_device* device;
  void (*kernel)(const Job& job, uint64_t first, uint64_t last, float* scratch);
};

// Neighbours of a turn lie side by side in memory: the next is fetched during the last.
template <typename Job>
void run(Work<Job>& work, uint64_t pieces) {
  work.device->threads.run(
      pieces, {},
      [](void* p, uint64_t first, uint64_t last, uint32_t thread) {
        const auto& w = *static_cast<Work<Job>*>(p);
        w.kernel(w.job, first, last, w.device->scratch + thread * kScratchFloats);
      },
      &work);
}

}  // namespace

quire_code gated_delta(quire_driver_stream* stream, const quire_gated_delta* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  drivers::GatedDeltaOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "gated_delta", err));
  Work<GatedDeltaJob> work{{}, stream->device, stream->device->kernels->gated_delta};
  QUIRE_TRY(drivers::describe_delta(own, &work.job, err));
  work.job.column_pieces = (work.job.dim_v + kDeltaColumns - 1) / kDeltaColumns;
  run(work, uint64_t{own.num_rows} * work.job.heads_v * work.job.column_pieces);
  return QUIRE_OK;
}

quire_code conv1d(quire_driver_stream* stream, const quire_conv1d* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  drivers::Conv1dOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "conv1d", err));
  Work<Conv1dJob> work{{}, stream->device, stream->device->kernels->conv1d};
  QUIRE_TRY(drivers::describe_conv(own, &work.job, err));
  work.job.channel_pieces = static_cast<uint32_t>((work.job.channels + kConvChannels - 1) / kConvChannels);
  run(work, uint64_t{own.num_rows} * work.job.channel_pieces);
  return QUIRE_OK;
}

quire_code selective_scan(quire_driver_stream* stream, const quire_selective_scan* op, quire_error* err) {
  if (stream == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream is NULL");
  drivers::SelectiveScanOp own;
  QUIRE_TRY(drivers::read_op(op, &own, "selective_scan", err));
  Work<ScanJob> work{{}, stream->device, stream->device->kernels->selective_scan};
  QUIRE_TRY(drivers::describe_scan(own, &work.job, err));
  const uint64_t lines = uint64_t{work.job.heads} * work.job.head_dim;
  if (lines > UINT32_MAX - kScanLines) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "state.shape is [%u, %u, %u]: heads * head_dim is above 2^32 - 65", work.job.heads,
                      work.job.head_dim, work.job.state_dim);
  }
  work.job.line_pieces = static_cast<uint32_t>((lines + kScanLines - 1) / kScanLines);
  run(work, uint64_t{own.num_rows} * work.job.line_pieces);
  return QUIRE_OK;
}

}  // namespace quire::cpu
