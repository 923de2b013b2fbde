// The structs of DLPack 0.x and 1.x, as a producer or consumer would have them.
#pragma once

#include <quire/base.h>

#include <cstdint>

extern "C" {
typedef struct {
  int32_t device_type;
  int32_t device_id;
} TestDevice;
typedef struct {
  void* data;
  TestDevice device;
  int32_t ndim;
  quire_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} TestTensor;
struct DLManagedTensorVersioned {
  uint32_t major;
  uint32_t minor;
  void* keeper;
  void (*deleter)(struct DLManagedTensorVersioned*);
  uint64_t flags;
  TestTensor tensor;
};
struct DLManagedTensor {
  TestTensor tensor;
  void* keeper;
  void (*deleter)(struct DLManagedTensor*);
};
}
