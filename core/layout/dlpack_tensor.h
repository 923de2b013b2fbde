// DLPack tensors: the only place where their structs are known. Exports are the plainest tensor possible (offset folded into data, strides
// always present); imports are checked before anything is taken.
#pragma once

#include <quire/base.h>
#include <quire/memory.h>

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/status.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace quire {

inline constexpr int32_t kMaxDlpackDims = 8;
inline constexpr int32_t kMaxTensorDims = 5;  // of a quire_tensor

// A strided tensor of up to eight dimensions; strides in bytes.
struct DlpackSource {
  void* data = nullptr;
  quire_dtype dtype{};
  int32_t device_type = QUIRE_DEVICE_CPU;
  int32_t device_id = 0;
  int32_t ndim = 0;
  int64_t shape[kMaxDlpackDims] = {};
  int64_t stride[kMaxDlpackDims] = {};
  bool read_only = false;

  void push(uint64_t extent, int64_t bytes) {
    shape[ndim] = static_cast<int64_t>(extent);
    stride[ndim++] = bytes;
  }
  // As an operand; ndim is at most 5.
  quire_tensor tensor() const;
};

// What an imported tensor covers, densely.
struct DlpackBytes {
  void* address = nullptr;
  uint64_t bytes = 0;
  int32_t device_type = 0;
  int32_t device_id = 0;
};

// The tensor holds `keeper` until its deleter runs, on any thread. Errors: NOT_REPRESENTABLE (a stride is no multiple of the element),
// UNIMPLEMENTED (legacy consumers know no floats below 16 bits), FAILED_PRECONDITION (they know no read-only), INVALID_ARGUMENT (dtype).
Result<DLManagedTensorVersioned*> export_dlpack(const DlpackSource& source, const std::shared_ptr<const void>& keeper);
Result<DLManagedTensor*> export_dlpack_legacy(const DlpackSource& source, const std::shared_ptr<const void>& keeper);

// Checks version, dtype, shape, density and flags. The tensor stays the caller's. `name` is named in messages.
Result<DlpackBytes> inspect_dlpack(const quire_dlpack& import, const char* name);
// The same without density: any strides that are not negative; flags are QUIRE_IMPORT_*. Errors: and PERMISSION_DENIED (read-only).
Result<DlpackSource> inspect_strided_dlpack(const quire_dlpack& import, uint32_t flags, const char* name);
// Runs the deleter, which may be absent.
void release_dlpack(const quire_dlpack& import);

}  // namespace quire
