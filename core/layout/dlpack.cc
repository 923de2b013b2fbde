#include "core/layout/dlpack.h"

#include <cinttypes>
#include <cstddef>
#include <cstring>

#include "core/base/checked.h"

// The distribution's header knows the 0.x struct only, so both layouts are declared here and checked against whatever is installed.
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define QUIRE_HAS_DLPACK_H 1
#else
#define QUIRE_HAS_DLPACK_H 0
#endif

namespace quire {
namespace dl {
namespace {

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // elements
  uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* keeper_block;  // the producer's own
  void (*deleter)(Managed*);
};

struct ManagedVersioned {
  Version version;
  void* keeper_block;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

constexpr uint64_t kReadOnly = 1;
constexpr uint64_t kSubBytePadded = 4;

static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 64 && sizeof(ManagedVersioned) == 80);
static_assert(offsetof(Tensor, ndim) == 16 && offsetof(Tensor, dtype) == 20 && offsetof(Tensor, shape) == 24 &&
              offsetof(Tensor, strides) == 32 && offsetof(Tensor, byte_offset) == 40);
static_assert(offsetof(ManagedVersioned, keeper_block) == 8 && offsetof(ManagedVersioned, deleter) == 16 &&
              offsetof(ManagedVersioned, flags) == 24 && offsetof(ManagedVersioned, tensor) == 32);
#if QUIRE_HAS_DLPACK_H
static_assert(sizeof(DLTensor) == sizeof(Tensor) && offsetof(DLTensor, device) == offsetof(Tensor, device) &&
              offsetof(DLTensor, ndim) == offsetof(Tensor, ndim) && offsetof(DLTensor, dtype) == offsetof(Tensor, dtype) &&
              offsetof(DLTensor, shape) == offsetof(Tensor, shape) && offsetof(DLTensor, strides) == offsetof(Tensor, strides) &&
              offsetof(DLTensor, byte_offset) == offsetof(Tensor, byte_offset));
static_assert(sizeof(DLManagedTensor) == sizeof(Managed) && offsetof(DLManagedTensor, deleter) == offsetof(Managed, deleter));
#if defined(DLPACK_MAJOR_VERSION)
static_assert(sizeof(DLManagedTensorVersioned) == sizeof(ManagedVersioned) &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == offsetof(ManagedVersioned, tensor));
#endif
#endif

// One heap block per exported tensor.
template <typename Struct>
struct Export {
  Struct managed{};
  int64_t shape[kMaxDlpackDims]{};
  int64_t strides[kMaxDlpackDims]{};
  std::shared_ptr<const void> keeper;
};

template <typename Struct>
void delete_export(Struct* managed) {
  delete static_cast<Export<Struct>*>(managed->keeper_block);
}

// 8-bit floats came with DLPack 1.1.
bool is_new_dtype(const quire_dtype& dtype) { return dtype.code >= 7; }

uint64_t element_bytes(uint8_t bits, uint16_t lanes) {
  const uint64_t all = uint64_t{bits} * (lanes == 0 ? 1 : lanes);
  return all % 8 == 0 ? all / 8 : 0;
}

template <typename Struct>
Result<std::unique_ptr<Export<Struct>>> build(const DlpackSource& source, const std::shared_ptr<const void>& keeper) {
  const uint64_t item = element_bytes(source.dtype.bits, source.dtype.lanes);
  if (item == 0) return invalid("dtype of %u bits x %u lanes is no whole number of bytes", source.dtype.bits, source.dtype.lanes);
  auto made = std::make_unique<Export<Struct>>();
  for (int32_t i = 0; i < source.ndim; ++i) {
    if (source.stride[i] % static_cast<int64_t>(item) != 0) {
      return fail(QUIRE_NOT_REPRESENTABLE,
                  "stride[%d] of %" PRId64 " bytes is no multiple of the element's %" PRIu64 " bytes, as DLPack needs", i, source.stride[i],
                  item);
    }
    made->shape[i] = source.shape[i];
    made->strides[i] = source.stride[i] / static_cast<int64_t>(item);
  }
  Tensor& tensor = made->managed.tensor;
  tensor.data = source.data;
  tensor.device = {source.device_type, source.device_id};
  tensor.ndim = source.ndim;
  tensor.dtype = {source.dtype.code, source.dtype.bits, source.dtype.lanes == 0 ? uint16_t{1} : source.dtype.lanes};
  tensor.shape = made->shape;
  tensor.strides = made->strides;
  tensor.byte_offset = 0;
  made->managed.keeper_block = made.get();
  made->managed.deleter = &delete_export<Struct>;
  made->keeper = keeper;
  return made;
}

// Bytes of a dense tensor; dimensions of extent 1 may have any stride.
Result<uint64_t> dense_bytes(const Tensor& tensor, uint64_t item, const char* name) {
  uint64_t elements = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) return invalid("%s: shape[%d] is %" PRId64, name, i, tensor.shape[i]);
    const auto next = checked_mul(elements, static_cast<uint64_t>(tensor.shape[i]));
    if (!next || !checked_mul(*next, item)) return fail(QUIRE_OUT_OF_RANGE, "%s: the product of its shape is beyond 63 bits", name);
    elements = *next;
  }
  uint64_t expected = 1;
  for (int32_t i = tensor.ndim - 1; i >= 0 && elements != 0 && tensor.strides != nullptr; --i) {
    if (tensor.shape[i] != 1 && (tensor.strides[i] < 0 || static_cast<uint64_t>(tensor.strides[i]) != expected)) {
      return invalid("%s: not dense: stride[%d] is %" PRId64 " elements, dense is %" PRIu64, name, i, tensor.strides[i], expected);
    }
    expected *= static_cast<uint64_t>(tensor.shape[i]);
  }
  return elements * item;
}

}  // namespace
}  // namespace dl

Result<DLManagedTensorVersioned*> export_dlpack(const DlpackSource& source, const std::shared_ptr<const void>& keeper) {
  auto made = dl::build<dl::ManagedVersioned>(source, keeper);
  if (!made.ok()) return made.take_status();
  dl::ManagedVersioned& managed = (*made)->managed;
  managed.version = {1, dl::is_new_dtype(source.dtype) ? 1U : 0U};
  managed.flags = source.read_only ? dl::kReadOnly : 0;
  return reinterpret_cast<DLManagedTensorVersioned*>(&made->release()->managed);
}

Result<DLManagedTensor*> export_dlpack_legacy(const DlpackSource& source, const std::shared_ptr<const void>& keeper) {
  if (dl::is_new_dtype(source.dtype)) {
    return fail(QUIRE_UNIMPLEMENTED, "dtype code %u came with DLPack 1.1; ask for a versioned tensor, or for bytes", source.dtype.code);
  }
  if (source.read_only) return fail(QUIRE_FAILED_PRECONDITION, "DLPack 0.x cannot say that a tensor is read-only");
  auto made = dl::build<dl::Managed>(source, keeper);
  if (!made.ok()) return made.take_status();
  return reinterpret_cast<DLManagedTensor*>(&made->release()->managed);
}

Result<DlpackBytes> inspect_dlpack(const DLManagedTensorVersioned* opaque, const char* name) {
  if (opaque == nullptr) return invalid("%s is NULL", name);
  const auto* managed = reinterpret_cast<const dl::ManagedVersioned*>(opaque);
  // Nothing behind the version may be read before its major number is known.
  if (managed->version.major != 1) {
    return invalid("%s: DLPack version %u.%u, this library reads 1.x", name, managed->version.major, managed->version.minor);
  }
  const dl::Tensor& tensor = managed->tensor;
  if (tensor.ndim < 0 || tensor.ndim > kMaxDlpackDims) return invalid("%s: ndim %d is outside [0, %d]", name, tensor.ndim, kMaxDlpackDims);
  if (tensor.ndim > 0 && tensor.shape == nullptr) return invalid("%s: shape is NULL with ndim %d", name, tensor.ndim);
  if (tensor.ndim > 0 && tensor.strides == nullptr && managed->version.minor >= 2) {
    return invalid("%s: strides are NULL, which DLPack 1.%u does not allow", name, managed->version.minor);
  }
  if ((managed->flags & dl::kReadOnly) != 0) return invalid("%s is read-only", name);
  const uint64_t item = dl::element_bytes(tensor.dtype.bits, tensor.dtype.lanes);
  if (item == 0 || tensor.dtype.lanes == 0 || (managed->flags & dl::kSubBytePadded) != 0) {
    return invalid("%s: dtype of %u bits x %u lanes is no whole number of bytes", name, tensor.dtype.bits, tensor.dtype.lanes);
  }
  auto bytes = dl::dense_bytes(tensor, item, name);
  if (!bytes.ok()) return bytes.take_status();
  if (tensor.data == nullptr && *bytes != 0) return invalid("%s: data is NULL with %" PRIu64 " bytes", name, *bytes);
  const auto start = checked_add(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset);
  if (!start || !checked_add(*start, *bytes)) {
    return invalid("%s: byte_offset %" PRIu64 " and %" PRIu64 " bytes reach beyond 63 bits", name, tensor.byte_offset, *bytes);
  }
  auto* const address = static_cast<unsigned char*>(tensor.data);
  return DlpackBytes{address == nullptr ? nullptr : address + tensor.byte_offset, *bytes, tensor.device.type, tensor.device.id};
}

void release_dlpack(DLManagedTensorVersioned* opaque) {
  auto* managed = reinterpret_cast<dl::ManagedVersioned*>(opaque);
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

}  // namespace quire
