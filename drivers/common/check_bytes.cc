// Checks of memory, new tensors and copies.
#include "drivers/common/check.h"

#include <cinttypes>

namespace quire::drivers {
namespace {

quire_code dense_strides(quire_tensor* t, int64_t element, quire_error* err) {
  int64_t stride = element;
  for (int32_t d = t->ndim - 1; d >= 0; --d) {
    t->stride[d] = stride;
    if (__builtin_mul_overflow(stride, t->shape[d], &stride)) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.shape[%d] %" PRId64 ": the dense size leaves 63 bits", d, t->shape[d]);
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
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] is %" PRId64 ": elements overlap, at least %" PRId64 " is needed",
                        least, t.stride[least], *extent);
    }
    int64_t span = 0;
    if (__builtin_mul_overflow(t.stride[least], t.shape[least] - 1, &span) || __builtin_add_overflow(*extent, span, extent)) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] %" PRId64 " times shape %" PRId64 " leaves 63 bits", least,
                        t.stride[least], t.shape[least]);
    }
  }
  return QUIRE_OK;
}

}  // namespace

quire_code check_new_tensor(quire_tensor* tensor, int64_t* extent, quire_error* err) {
  const quire_tensor& t = *tensor;
  if (t.ndim < 0 || t.ndim > 5) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.ndim is %d, not 0 to 5", t.ndim);
  const uint32_t bits = uint32_t{t.dtype.bits} * (t.dtype.lanes == 0 ? 1u : t.dtype.lanes);
  if (bits == 0 || bits % 8 != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.dtype has %u bits, not whole bytes", bits);
  }
  const int64_t element = bits / 8;
  bool dense = true;
  bool empty = false;
  for (int32_t d = 0; d < t.ndim; ++d) {
    if (t.shape[d] < 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.shape[%d] is %" PRId64 ", below 0", d, t.shape[d]);
    if (t.stride[d] < 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] is %" PRId64 ", below 0", d, t.stride[d]);
    if (t.stride[d] % element != 0) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "tensor.stride[%d] is %" PRId64 ", not a multiple of %" PRId64 " bytes", d,
                        t.stride[d], element);
    }
    dense = dense && t.stride[d] == 0;
    empty = empty || t.shape[d] == 0;
  }
  *extent = 0;
  if (dense) QUIRE_TRY(dense_strides(tensor, element, err));
  if (!empty) QUIRE_TRY(check_strides(t, element, extent, err));
  return QUIRE_OK;
}

quire_code check_allocation(uint64_t alignment, uint32_t kind, quire_error* err) {
  if (kind != QUIRE_MEM_DEVICE && kind != QUIRE_MEM_HOST) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "kind is %u, not 1 or 2", kind);
  if ((alignment & (alignment - 1)) != 0 || alignment > uint64_t{1} << 30) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "alignment is %" PRIu64 ", not a power of two up to 2^30", alignment);
  }
  return QUIRE_OK;
}

quire_code check_copy(const quire_copy_run* runs, uint64_t n, uint64_t* all, quire_error* err) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const quire_copy_run& r = runs[i];
    if (r.bytes == 0) continue;
    if (r.source == 0 || r.destination == 0 || r.bytes > kMaxBytes || r.source + r.bytes < r.source ||
        r.destination + r.bytes < r.destination) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                        "runs[%" PRIu64 "]: source 0x%" PRIx64 ", destination 0x%" PRIx64 ", %" PRIu64 " bytes", i, r.source, r.destination,
                        r.bytes);
    }
    if (r.source < r.destination + r.bytes && r.destination < r.source + r.bytes) {
      return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT,
                        "runs[%" PRIu64 "]: source 0x%" PRIx64 " and destination 0x%" PRIx64 " overlap in %" PRIu64 " bytes", i, r.source,
                        r.destination, r.bytes);
    }
    total += r.bytes < kMaxBytes - total ? r.bytes : kMaxBytes - total;
  }
  *all = total;
  return QUIRE_OK;
}

}  // namespace quire::drivers
