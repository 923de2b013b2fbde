// The bytes of one strided tensor: the driver's, or those of somebody's DLPack tensor.
#pragma once

#include <quire/memory.h>

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/modules/module_search.h"

namespace quire {

class Buffer {
 public:
  // Memory of the device for *tensor, which is completed (strides, address, device) on success only.
  static Result<std::shared_ptr<Buffer>> create(std::shared_ptr<Device> device, quire_tensor* tensor);
  // The DLPack tensor where it lies; flags are QUIRE_IMPORT_*. *tensor is written on success only, and then the
  // deleter runs with the buffer; on failure the DLPack tensor stays the caller's.
  static Result<std::shared_ptr<Buffer>> import(std::shared_ptr<Device> device, const quire_dlpack& dlpack, uint32_t flags,
                                                quire_tensor* tensor);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 private:
  explicit Buffer(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  std::shared_ptr<Device> device_;
  void* allocation_ = nullptr;  // the driver's
  uint64_t bytes_ = 0;
  quire_dlpack dlpack_{};
};

}  // namespace quire
