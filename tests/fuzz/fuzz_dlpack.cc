// Tensors from elsewhere: every field is the input's. What is accepted is dense, writable and fits 63 bits.
#include "core/layout/dlpack_tensor.h"

#include "core/base/checked.h"
#include "tests/fuzz/fuzz.h"

namespace {

// As a producer lays it out (DLPack 1.x).
struct Managed {
  uint32_t major;
  uint32_t minor;
  void* keeper;
  void (*deleter)(Managed*);
  uint64_t flags;
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
static_assert(sizeof(Managed) == 80);

// As an operand: strides in bytes are multiples of the element, and the last byte lies below 63 bits.
void strided(const Managed& tensor, const quire_dlpack& import, uint32_t kind) {
  const uint32_t flags = (kind >> 6) & (QUIRE_IMPORT_READ_ONLY | QUIRE_IMPORT_ANY_DTYPE);
  const auto seen = quire::inspect_strided_dlpack(import, flags, "dlpack");
  if (!seen.ok()) {
    quire::fuzz::require(!seen.status().message().empty(), "a refusal has a sentence");
    return;
  }
  const quire::DlpackSource& source = seen.value();
  const uint64_t item = uint64_t{tensor.bits} * tensor.lanes / 8;
  quire::fuzz::require(source.ndim == tensor.ndim && item != 0, "every axis is there");
  quire::fuzz::require((flags & QUIRE_IMPORT_READ_ONLY) != 0 || (tensor.flags & 1) == 0, "who writes gets what may be written");
  uint64_t last = reinterpret_cast<uintptr_t>(source.data) + item;
  bool empty = false;
  for (int32_t i = 0; i < source.ndim; ++i) {
    quire::fuzz::require(source.shape[i] >= 0 && source.stride[i] >= 0, "nothing is negative");
    quire::fuzz::require(static_cast<uint64_t>(source.stride[i]) % item == 0, "strides hold whole elements");
    empty |= source.shape[i] == 0;
  }
  for (int32_t i = 0; i < source.ndim && !empty; ++i) {
    if (source.shape[i] <= 1) continue;
    const auto reach = quire::checked_mul(static_cast<uint64_t>(source.stride[i]), static_cast<uint64_t>(source.shape[i] - 1));
    const auto next = reach ? quire::checked_add(last, *reach) : reach;
    quire::fuzz::require(next.has_value(), "the last element has an address");
    last = next.value_or(0);
  }
  quire::fuzz::require(source.data != nullptr || empty, "data is there unless nothing is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::fuzz::Input in(data, size);
  const uint32_t kind = in.take<uint8_t>();
  Managed tensor{};
  tensor.major = (kind & 1) != 0 ? in.take<uint32_t>() : 1;
  tensor.minor = in.below(4);
  tensor.flags = in.take<uint8_t>();
  tensor.data = (kind & 2) != 0 ? nullptr : &tensor;  // never read
  tensor.device_type = in.take<int8_t>();
  tensor.device_id = in.take<int8_t>();
  tensor.ndim = in.take<int8_t>();
  tensor.code = in.take<uint8_t>();
  tensor.bits = in.take<uint8_t>();
  tensor.lanes = in.take<uint16_t>();
  tensor.byte_offset = in.take<uint64_t>();
  int64_t shape[quire::kMaxDlpackDims];
  int64_t strides[quire::kMaxDlpackDims];
  const bool wide = (kind & 16) != 0;
  for (int64_t& extent : shape) extent = wide ? in.take<int64_t>() : in.take<int8_t>();
  for (int64_t& stride : strides) stride = wide ? in.take<int64_t>() : in.take<int16_t>();
  if ((kind & 32) != 0) {  // dense
    int64_t expected = 1;
    for (int i = quire::kMaxDlpackDims - 1; i >= 0; --i) {
      if (i < tensor.ndim) {
        strides[i] = expected;
        if (__builtin_mul_overflow(expected, shape[i], &expected)) expected = 1;
      }
    }
  }
  tensor.shape = (kind & 4) != 0 ? nullptr : shape;
  tensor.strides = (kind & 8) != 0 ? nullptr : strides;
  const quire_dlpack import{reinterpret_cast<DLManagedTensorVersioned*>(&tensor), nullptr};
  strided(tensor, import, kind);
  const auto bytes = quire::inspect_dlpack(import, "tensors[0]");
  if (!bytes.ok()) {
    quire::fuzz::require(!bytes.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  uint64_t product = uint64_t{tensor.bits} * tensor.lanes / 8;
  for (int i = 0; i < tensor.ndim; ++i) {
    quire::fuzz::require(shape[i] >= 0, "extents are not negative");
    const auto next = quire::checked_mul(product, static_cast<uint64_t>(shape[i]));
    quire::fuzz::require(next.has_value() || bytes.value().bytes == 0, "the product fits 63 bits");
    product = next.value_or(0);
  }
  quire::fuzz::require(tensor.major == 1 && (tensor.flags & 1) == 0, "the version is known and the tensor writable");
  quire::fuzz::require(bytes.value().bytes == product, "the bytes are those of the shape");
  return 0;
}
