// Memory, strided tensors, copies and fills.
#include "drivers/gpu/gpu_device.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace quire::gpu {
namespace {

constexpr uint64_t kEngineBytes = uint64_t{4} << 20;  // runs from here on go to the copy engine

// Runs for the copy engine, handed over as many at once as the library takes.
class Engine {
 public:
  explicit Engine(quire_driver_stream* stream) : stream_(stream) {}
  quire_code add(const quire_copy_run& run, quire_error* err) {
    if (n_ == kCopiesPerCall) QUIRE_TRY(flush(err));
    runs_[n_++] = run;
    return QUIRE_OK;
  }
  quire_code flush(quire_error* err) {
    if (n_ == 0) return QUIRE_OK;
    quire_driver_device* device = stream_->device;
    const uint32_t n = n_;
    n_ = 0;
    return native(device, device->runtime->copies(device->native, stream_->native, runs_, n), "copy", err);
  }

 private:
  quire_driver_stream* stream_;
  uint32_t n_ = 0;
  quire_copy_run runs_[kCopiesPerCall];
};

}  // namespace

quire_code mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address, quire_error* err) {
  if (device == nullptr || address == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or address is NULL");
  QUIRE_TRY(drivers::check_allocation(alignment, kind, err));
  if (bytes == 0) {
    *address = nullptr;
    return QUIRE_OK;
  }
  if (bytes > drivers::kMaxBytes) return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "bytes is %" PRIu64 ", above 2^62", bytes);
  QUIRE_TRY(native(device, 0, "mem_alloc", err));
  void* p = nullptr;
  const bool host = kind == QUIRE_MEM_HOST;
  const int code = device->runtime->alloc(device->native, bytes, alignment > 256 ? alignment : 256, host, &p);
  QUIRE_TRY(native(device, code, "mem_alloc", err));
  *address = p;
  return QUIRE_OK;
}

void mem_free(quire_driver_device* device, void* address, uint64_t, uint32_t kind) {
  if (device == nullptr || address == nullptr) return;
  native(device, device->runtime->release(device->native, address, kind == QUIRE_MEM_HOST), "mem_free", nullptr);  // may say: lost
}

quire_code tensor_create(quire_driver_device* device, quire_tensor* tensor, uint32_t kind, void** allocation, uint64_t* bytes,
                         quire_error* err) {
  if (device == nullptr || tensor == nullptr || allocation == nullptr || bytes == nullptr) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device, tensor, allocation or bytes is NULL");
  }
  quire_tensor t = *tensor;
  int64_t extent = 0;
  QUIRE_TRY(drivers::check_new_tensor(&t, &extent, err));
  void* address = nullptr;
  QUIRE_TRY(mem_alloc(device, static_cast<uint64_t>(extent), 0, kind, &address, err));
  t.data = address;
  t.device_type = kind == QUIRE_MEM_HOST ? device->runtime->host_type : device->runtime->device_type;
  t.device_id = static_cast<int32_t>(device->ordinal);
  *tensor = t;
  *allocation = address;
  *bytes = static_cast<uint64_t>(extent);
  return QUIRE_OK;
}

namespace {

// The runs from *i on, as many as there is room for: small ones among the arguments of a kernel, the others to the copy engine. Its frame
// is as large as those arguments.
template <uint32_t kMost>
[[gnu::noinline]] quire_code copy_some(quire_driver_stream* stream, Kernel kernel, const quire_copy_run* runs, uint64_t n, uint64_t* i,
                                       Engine* engine, quire_error* err) {
  CopyRuns<kMost> batch;
  uint32_t pieces = 0;
  batch.num_runs = 0;
  for (; *i < n && batch.num_runs < kMost; ++*i) {
    const quire_copy_run& run = runs[*i];
    if (run.bytes == 0) continue;
    if (run.bytes >= kEngineBytes) {
      QUIRE_TRY(engine->add(run, err));
      continue;
    }
    batch.run[batch.num_runs] = run;
    batch.first[batch.num_runs++] = pieces;
    pieces += static_cast<uint32_t>((run.bytes + kCopyPiece - 1) / kCopyPiece);
  }
  if (batch.num_runs == 0) return QUIRE_OK;
  batch.first[batch.num_runs] = pieces;
  quire_driver_device* device = stream->device;
  const uint32_t waves = kThreads / device->facts.wave;
  const uint32_t blocks = std::min(device->facts.multiprocessors * 8, (pieces + waves - 1) / waves);
  return native(device, device->runtime->launch(device->native, stream->native, kernel, blocks, 0, &batch, sizeof batch), "copy", err);
}

}  // namespace

// Nothing of `runs` is read after the call.
quire_code copy(quire_driver_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  if (runs == nullptr && n != 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream or runs is NULL");
  uint64_t total = 0;
  QUIRE_TRY(drivers::check_copy(runs, n, &total, err));
  Engine engine(stream);
  for (uint64_t i = 0; i < n;) {
    if (n - i > kRunsPerLaunch && stream->device->facts.argument_bytes >= sizeof(CopyManyArgs)) {
      QUIRE_TRY(copy_some<kManyRunsPerLaunch>(stream, Kernel::copy_many, runs, n, &i, &engine, err));
    } else {
      QUIRE_TRY(copy_some<kRunsPerLaunch>(stream, Kernel::copy, runs, n, &i, &engine, err));
    }
  }
  return engine.flush(err);
}

quire_code fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  QUIRE_TRY(check_stream(stream, err));
  if (destination == nullptr && bytes != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream or destination is NULL, %" PRIu64 " bytes", bytes);
  }
  if (bytes > drivers::kMaxBytes) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "bytes is %" PRIu64 ", above 2^62", bytes);
  if (bytes == 0) return QUIRE_OK;
  quire_driver_device* device = stream->device;
  const int code = device->runtime->fill(device->native, stream->native, reinterpret_cast<uint64_t>(destination), value, bytes);
  return native(device, code, "fill", err);
}

}  // namespace quire::gpu
