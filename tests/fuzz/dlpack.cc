// Tensors from elsewhere: every field is the input's. What is accepted is dense, writable and fits 63 bits.
#include "core/layout/dlpack.h"

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
  const auto bytes = quire::inspect_dlpack(reinterpret_cast<const DLManagedTensorVersioned*>(&tensor), "tensors[0]");
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
