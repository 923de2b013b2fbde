// Memory, strided tensors, copies and fills.
#include "drivers/cpu/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

#include "drivers/cpu/container.h"
namespace quire::cpu {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kLine = 64;
constexpr uint64_t kPiece = uint64_t{256} << 10;  // bytes one thread copies or fills at a time, at least
constexpr uint64_t kMostPiece = uint64_t{1} << 20;

struct CopyJob {
  const Kernels* kernels;
  const quire_copy_run* runs;
  bool past_caches;
};

struct FillJob {
  char* destination;
  uint8_t value;
};

// More than the machine has, or the container may use, is refused here: the system might promise it and end the process later.
uint64_t physical_bytes() {
  const long page = sysconf(_SC_PAGESIZE);
  const long pages = sysconf(_SC_PHYS_PAGES);
  const uint64_t machine = page > 0 && pages > 0 ? static_cast<uint64_t>(page) * static_cast<uint64_t>(pages) : kMaxBytes;
  return std::min(machine, container_limits("").memory_bytes);
}

}  // namespace

quire_code mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address, quire_error* err) {
  if (device == nullptr || address == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or address is NULL");
  QUIRE_TRY(drivers::check_allocation(alignment, kind, err));
  if (bytes == 0) {
    *address = nullptr;
    return QUIRE_OK;
  }
  const uint64_t least = bytes >= kHugePage ? kHugePage : kLine;
  const uint64_t wanted = alignment > least ? alignment : least;
  const uint64_t physical = physical_bytes();
  void* p = nullptr;
  if (bytes > physical || posix_memalign(&p, wanted, bytes) != 0) {
    return QUIRE_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory for %" PRIu64 " bytes aligned to %" PRIu64 "; there are %" PRIu64, bytes,
                      wanted, physical);
  }
  if (bytes >= kHugePage) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: refusal changes nothing
  *address = p;
  return QUIRE_OK;
}

void mem_free(quire_driver_device*, void* address, uint64_t, uint32_t) { std::free(address); }

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
  t.device_type = QUIRE_DEVICE_CPU;
  t.device_id = 0;
  *tensor = t;
  *allocation = address;
  *bytes = static_cast<uint64_t>(extent);
  return QUIRE_OK;
}

quire_code copy(quire_driver_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err) {
  if (stream == nullptr || (runs == nullptr && n != 0)) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream or runs is NULL");
  uint64_t total = 0;
  QUIRE_TRY(drivers::check_copy(runs, n, &total, err));
  if (n == 0 || total == 0) return QUIRE_OK;
  const uint64_t average = total / n + 1;
  CopyJob job{stream->device->kernels, runs, total >= kPastCaches};
  stream->device->threads.run(
      n, {std::max<uint64_t>(1, kPiece / average), std::max<uint64_t>(1, kMostPiece / average)},
      [](void* p, uint64_t first, uint64_t last, uint32_t) {
        const CopyJob& j = *static_cast<CopyJob*>(p);
        j.kernels->copy(j.runs, first, last, j.past_caches);
      },
      &job);
  return QUIRE_OK;
}

quire_code fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  if (stream == nullptr || (destination == nullptr && bytes != 0)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream or destination is NULL, %" PRIu64 " bytes", bytes);
  }
  if (bytes > kMaxBytes) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "bytes is %" PRIu64 ", above 2^62", bytes);
  FillJob job{static_cast<char*>(destination), value};
  stream->device->threads.run(
      bytes, {kPiece, UINT64_MAX},
      [](void* p, uint64_t first, uint64_t last, uint32_t) {
        const FillJob& j = *static_cast<FillJob*>(p);
        memset(j.destination + first, j.value, last - first);
      },
      &job);
  return QUIRE_OK;
}

}  // namespace quire::cpu
