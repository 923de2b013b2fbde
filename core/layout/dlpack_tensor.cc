#include "core/layout/dlpack_tensor.h"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <optional>

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
  uint32_t flags;
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

quire_tensor DlpackSource::tensor() const {
  quire_tensor made{};
  made.data = data;
  made.dtype = dtype;
  made.device_type = device_type;
  made.device_id = device_id;
  made.ndim = ndim;
  std::copy_n(shape, ndim, made.shape);
  std::copy_n(stride, ndim, made.stride);
  return made;
}

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

namespace dl {
namespace {

struct Seen {
  const Tensor* tensor = nullptr;
  uint32_t flags = 0;
  uint64_t item = 0;  // bytes of an element
};

// What does not depend on strides. Nothing behind a version may be read before its major number is known.
Result<Seen> look(const quire_dlpack& import, const char* name) {
  Seen seen;
  bool may_lack_strides = true;
  if (import.versioned != nullptr) {
    const auto* managed = reinterpret_cast<const ManagedVersioned*>(import.versioned);
    if (managed->version.major != 1) {
      return invalid("%s: DLPack version %u.%u, this library reads 1.x", name, managed->version.major, managed->version.minor);
    }
    seen.tensor = &managed->tensor;
    seen.flags = managed->flags;
    may_lack_strides = managed->version.minor < 2;
  } else if (import.legacy != nullptr) {
    seen.tensor = &reinterpret_cast<const Managed*>(import.legacy)->tensor;
  } else {
    return invalid("%s is NULL", name);
  }
  const Tensor& tensor = *seen.tensor;
  if (tensor.ndim < 0 || tensor.ndim > kMaxDlpackDims) return invalid("%s: ndim %d is outside [0, %d]", name, tensor.ndim, kMaxDlpackDims);
  if (tensor.ndim > 0 && tensor.shape == nullptr) return invalid("%s: shape is NULL with ndim %d", name, tensor.ndim);
  if (tensor.ndim > 0 && tensor.strides == nullptr && !may_lack_strides) {
    return invalid("%s: strides are NULL, which DLPack 1.2 and later do not allow", name);
  }
  seen.item = element_bytes(tensor.dtype.bits, tensor.dtype.lanes);
  if (seen.item == 0 || tensor.dtype.lanes == 0 || (seen.flags & kSubBytePadded) != 0) {
    return invalid("%s: dtype of %u bits x %u lanes is no whole number of bytes", name, tensor.dtype.bits, tensor.dtype.lanes);
  }
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) return invalid("%s: shape[%d] is %" PRId64, name, i, tensor.shape[i]);
  }
  return seen;
}

// Where its first element lies; `bytes` from there on must be addressable.
Result<void*> start_of(const Tensor& tensor, uint64_t bytes, const char* name) {
  if (tensor.data == nullptr && bytes != 0) return invalid("%s: data is NULL with %" PRIu64 " bytes", name, bytes);
  const auto start = checked_add(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset);
  if (!start || !checked_add(*start, bytes)) {
    return invalid("%s: byte_offset %" PRIu64 " and %" PRIu64 " bytes reach beyond 63 bits", name, tensor.byte_offset, bytes);
  }
  auto* const address = static_cast<unsigned char*>(tensor.data);
  return static_cast<void*>(address == nullptr ? nullptr : address + tensor.byte_offset);
}

// Types that quire has names for; 4-bit floats come in pairs.
bool is_known(const DataType& dtype) {
  const uint32_t bits = dtype.bits;
  switch (dtype.code) {
    case QUIRE_DTYPE_INT:
    case QUIRE_DTYPE_UINT:
      return dtype.lanes == 1 && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
    case QUIRE_DTYPE_FLOAT:
      return dtype.lanes == 1 && (bits == 16 || bits == 32 || bits == 64);
    case QUIRE_DTYPE_BFLOAT:
      return dtype.lanes == 1 && bits == 16;
    case QUIRE_DTYPE_FLOAT8_E4M3FN:
    case QUIRE_DTYPE_FLOAT8_E5M2:
    case QUIRE_DTYPE_FLOAT8_E8M0FNU:
      return dtype.lanes == 1 && bits == 8;
    case QUIRE_DTYPE_FLOAT4_E2M1FN:
      return dtype.lanes == 2 && bits == 4;
    default:
      return false;
  }
}

// Shape and strides in bytes; returns the bytes from the first element to the end of the last one.
Result<uint64_t> read_strides(const Seen& seen, bool may_repeat, const char* name, DlpackSource* source) {
  const Tensor& tensor = *seen.tensor;
  uint64_t dense = seen.item;
  uint64_t span = seen.item;
  bool empty = false;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    const int64_t given = tensor.strides == nullptr ? 0 : tensor.strides[i];
    if (given < 0) return invalid("%s: stride[%d] is %" PRId64 ", negative ones are not taken", name, i, given);
    const auto extent = static_cast<uint64_t>(tensor.shape[i]);
    if (tensor.strides != nullptr && given == 0 && extent > 1 && !may_repeat) {
      return invalid("%s: stride[%d] is 0 with %" PRIu64 " elements, which only readers may have (QUIRE_IMPORT_READ_ONLY)", name, i,
                     extent);
    }
    const auto stride = tensor.strides == nullptr ? dense : checked_mul(static_cast<uint64_t>(given), seen.item);
    const auto reach = stride && extent > 1 ? checked_mul(*stride, extent - 1) : stride.has_value() ? std::optional<uint64_t>(0) : stride;
    const auto next = reach ? checked_add(span, *reach) : reach;
    const auto whole = checked_mul(dense, extent > 1 ? extent : 1);
    if (!next || !whole) {
      return fail(QUIRE_OUT_OF_RANGE, "%s: shape[%d] %" PRIu64 " x stride %" PRId64 " is beyond 63 bits", name, i, extent, given);
    }
    source->shape[i] = tensor.shape[i];
    source->stride[i] = static_cast<int64_t>(*stride);
    empty |= extent == 0;
    span = *next;
    dense = *whole;
  }
  return empty ? 0 : span;
}

}  // namespace
}  // namespace dl

Result<DlpackBytes> inspect_dlpack(const quire_dlpack& import, const char* name) {
  auto seen = dl::look(import, name);
  if (!seen.ok()) return seen.take_status();
  if ((seen->flags & dl::kReadOnly) != 0) return invalid("%s is read-only", name);
  const dl::Tensor& tensor = *seen->tensor;
  auto bytes = dl::dense_bytes(tensor, seen->item, name);
  if (!bytes.ok()) return bytes.take_status();
  auto start = dl::start_of(tensor, *bytes, name);
  if (!start.ok()) return start.take_status();
  return DlpackBytes{*start, *bytes, tensor.device.type, tensor.device.id};
}

Result<DlpackSource> inspect_strided_dlpack(const quire_dlpack& import, uint32_t flags, const char* name) {
  auto seen = dl::look(import, name);
  if (!seen.ok()) return seen.take_status();
  const dl::Tensor& tensor = *seen->tensor;
  const bool reads = (flags & QUIRE_IMPORT_READ_ONLY) != 0;
  if ((seen->flags & dl::kReadOnly) != 0 && !reads) {
    return fail(QUIRE_PERMISSION_DENIED, "%s is read-only: say QUIRE_IMPORT_READ_ONLY where it is only read", name);
  }
  if (!dl::is_known(tensor.dtype) && (flags & QUIRE_IMPORT_ANY_DTYPE) == 0) {
    return invalid("%s: dtype code %u of %u bits x %u lanes has no name here (QUIRE_IMPORT_ANY_DTYPE takes it as opaque bytes)", name,
                   tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
  }
  DlpackSource source;
  source.ndim = tensor.ndim;
  source.dtype = {tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes};
  source.device_type = tensor.device.type;
  source.device_id = tensor.device.id;
  source.read_only = reads;
  auto span = dl::read_strides(*seen, reads, name, &source);
  if (!span.ok()) return span.take_status();
  auto start = dl::start_of(tensor, *span, name);
  if (!start.ok()) return start.take_status();
  source.data = *start;
  return source;
}

void release_dlpack(const quire_dlpack& import) {
  auto* versioned = reinterpret_cast<dl::ManagedVersioned*>(import.versioned);
  if (versioned != nullptr && versioned->deleter != nullptr) versioned->deleter(versioned);
  auto* legacy = reinterpret_cast<dl::Managed*>(import.legacy);
  if (legacy != nullptr && legacy->deleter != nullptr) legacy->deleter(legacy);
}

}  // namespace quire
