// Memory, strided tensors, copies and fills.
#include "drivers/cpu/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdlib>
#include <cstring>

namespace quire::cpu {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kLine = 64;
constexpr uint64_t kMaxBytes = (uint64_t{1} << 62);
constexpr uint64_t kPiece = uint64_t{256} << 10;  // bytes one thread copies at a time

struct CopyJob {
  const Kernels* kernels;
  const quire_copy_run* runs;
  uint64_t n;
  uint64_t per_piece;  // runs
  bool past_caches;
};

struct FillJob {
  char* destination;
  uint8_t value;
  uint64_t bytes;
};

// More than the machine has is refused here: the system might promise it and end the process later.
uint64_t physical_bytes() {
  const long page = sysconf(_SC_PAGESIZE);
  const long pages = sysconf(_SC_PHYS_PAGES);
  return page > 0 && pages > 0 ? static_cast<uint64_t>(page) * static_cast<uint64_t>(pages) : kMaxBytes;
}

quire_code dense_strides(quire_tensor* t, int64_t element, quire_error* err) {
  int64_t stride = element;
  for (int32_t d = t->ndim - 1; d >= 0; --d) {
    t->stride[d] = stride;
    if (__builtin_mul_overflow(stride, t->shape[d], &stride)) {
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.shape[%d] %" PRId64 ": the dense size leaves 63 bits", d, t->shape[d]);
    }
  }
  return QUIRE_OK;
}

// Dimensions ordered by stride: each must step over all of the smaller ones. *extent: bytes from the first to past the last element.
quire_code check_strides(const quire_tensor& t, int64_t element, int64_t* extent, quire_error* err) {
  *extent = element;
  bool used[5] = {};
  for (int32_t n = 0; n < t.ndim; ++n) {
    int32_t least = -1;
    for (int32_t d = 0; d < t.ndim; ++d) {
      if (!used[d] && (least < 0 || t.stride[d] < t.stride[least])) least = d;
    }
    used[least] = true;
    if (t.shape[least] == 1) continue;
    if (t.stride[least] < *extent) {
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT,
                            "tensor.stride[%d] is %" PRId64 ": elements overlap, at least %" PRId64 " is needed", least, t.stride[least],
                            *extent);
    }
    int64_t span = 0;
    if (__builtin_mul_overflow(t.stride[least], t.shape[least] - 1, &span) || __builtin_add_overflow(*extent, span, extent)) {
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] %" PRId64 " times shape %" PRId64 " leaves 63 bits", least,
                            t.stride[least], t.shape[least]);
    }
  }
  return QUIRE_OK;
}

}  // namespace

quire_code mem_alloc(quire_driver_device* device, uint64_t bytes, uint64_t alignment, uint32_t kind, void** address, quire_error* err) {
  if (device == nullptr || address == nullptr) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "device or address is NULL");
  if (kind != QUIRE_MEM_DEVICE && kind != QUIRE_MEM_HOST)
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "kind is %u, not 1 or 2", kind);
  if ((alignment & (alignment - 1)) != 0 || alignment > uint64_t{1} << 30) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "alignment is %" PRIu64 ", not a power of two up to 2^30", alignment);
  }
  if (bytes == 0) {
    *address = nullptr;
    return QUIRE_OK;
  }
  const uint64_t least = bytes >= kHugePage ? kHugePage : kLine;
  const uint64_t wanted = alignment > least ? alignment : least;
  const uint64_t physical = physical_bytes();
  void* p = nullptr;
  if (bytes > physical || posix_memalign(&p, wanted, bytes) != 0) {
    return QUIRE_CPU_FAIL(err, QUIRE_RESOURCE_EXHAUSTED, "no memory for %" PRIu64 " bytes aligned to %" PRIu64 "; the machine has %" PRIu64,
                          bytes, wanted, physical);
  }
  if (bytes >= kHugePage) madvise(p, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: refusal changes nothing
  *address = p;
  return QUIRE_OK;
}

void mem_free(quire_driver_device*, void* address, uint64_t, uint32_t) { std::free(address); }

quire_code tensor_create(quire_driver_device* device, quire_tensor* tensor, uint32_t kind, void** allocation, uint64_t* bytes,
                         quire_error* err) {
  if (device == nullptr || tensor == nullptr || allocation == nullptr || bytes == nullptr) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "device, tensor, allocation or bytes is NULL");
  }
  quire_tensor t = *tensor;
  if (t.ndim < 0 || t.ndim > 5) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.ndim is %d, not 0 to 5", t.ndim);
  const uint32_t bits = uint32_t{t.dtype.bits} * (t.dtype.lanes == 0 ? 1u : t.dtype.lanes);
  if (bits == 0 || bits % 8 != 0) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.dtype has %u bits, not whole bytes", bits);
  }
  const int64_t element = bits / 8;
  bool dense = true;
  bool empty = false;
  for (int32_t d = 0; d < t.ndim; ++d) {
    if (t.shape[d] < 0) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.shape[%d] is %" PRId64 ", below 0", d, t.shape[d]);
    if (t.stride[d] < 0) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] is %" PRId64 ", below 0", d, t.stride[d]);
    if (t.stride[d] % element != 0) {
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] is %" PRId64 ", not a multiple of %" PRId64 " bytes", d,
                            t.stride[d], element);
    }
    dense = dense && t.stride[d] == 0;
    empty = empty || t.shape[d] == 0;
  }
  int64_t extent = 0;
  if (dense) QUIRE_CPU_TRY(dense_strides(&t, element, err));
  if (!empty) QUIRE_CPU_TRY(check_strides(t, element, &extent, err));
  void* address = nullptr;
  QUIRE_CPU_TRY(mem_alloc(device, static_cast<uint64_t>(extent), 0, kind, &address, err));
  t.data = address;
  t.device_type = QUIRE_DEVICE_CPU;
  t.device_id = 0;
  *tensor = t;
  *allocation = address;
  *bytes = static_cast<uint64_t>(extent);
  return QUIRE_OK;
}

quire_code copy(quire_driver_stream* stream, const quire_copy_run* runs, uint64_t n, quire_error* err) {
  if (stream == nullptr || (runs == nullptr && n != 0)) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream or runs is NULL");
  uint64_t total = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const quire_copy_run& r = runs[i];
    if (r.bytes == 0) continue;
    if (r.source == 0 || r.destination == 0 || r.bytes > kMaxBytes || r.source + r.bytes < r.source ||
        r.destination + r.bytes < r.destination) {
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT,
                            "runs[%" PRIu64 "]: source 0x%" PRIx64 ", destination 0x%" PRIx64 ", %" PRIu64 " bytes", i, r.source,
                            r.destination, r.bytes);
    }
    if (r.source < r.destination + r.bytes && r.destination < r.source + r.bytes) {
      return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT,
                            "runs[%" PRIu64 "]: source 0x%" PRIx64 " and destination 0x%" PRIx64 " overlap in %" PRIu64 " bytes", i,
                            r.source, r.destination, r.bytes);
    }
    total += r.bytes < kMaxBytes - total ? r.bytes : kMaxBytes - total;
  }
  if (total == 0) return QUIRE_OK;
  const uint64_t average = total / n + 1;
  CopyJob job{stream->device->kernels, runs, n, average >= kPiece ? 1 : kPiece / average, total >= kPastCaches};
  stream->device->threads.run((n + job.per_piece - 1) / job.per_piece,
                              [](void* p, uint64_t piece, uint32_t) {
                                const CopyJob& j = *static_cast<CopyJob*>(p);
                                const uint64_t end = (piece + 1) * j.per_piece < j.n ? (piece + 1) * j.per_piece : j.n;
                                j.kernels->copy(j.runs, piece * j.per_piece, end, j.past_caches);
                              },
                              &job);
  return QUIRE_OK;
}

quire_code fill(quire_driver_stream* stream, void* destination, uint8_t value, uint64_t bytes, quire_error* err) {
  if (stream == nullptr || (destination == nullptr && bytes != 0)) {
    return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "stream or destination is NULL, %" PRIu64 " bytes", bytes);
  }
  if (bytes > kMaxBytes) return QUIRE_CPU_FAIL(err, QUIRE_INVALID_ARGUMENT, "bytes is %" PRIu64 ", above 2^62", bytes);
  FillJob job{static_cast<char*>(destination), value, bytes};
  stream->device->threads.run((bytes + kPiece - 1) / kPiece,
                              [](void* p, uint64_t piece, uint32_t) {
                                const FillJob& j = *static_cast<FillJob*>(p);
                                const uint64_t begin = piece * kPiece;
                                memset(j.destination + begin, j.value, j.bytes - begin < kPiece ? j.bytes - begin : kPiece);
                              },
                              &job);
  return QUIRE_OK;
}

}  // namespace quire::cpu
