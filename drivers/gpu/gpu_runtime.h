// The few calls of a vendor's driver API that the GPU drivers need, as a table: CUDA and HIP fill it from a library opened at run time, the
// emulation with functions of the host. Calls return 0 or the native error.
#pragma once

#include "drivers/common/check.h"
#include "drivers/gpu/gpu_kernels.h"

#include <quire/driver.h>

namespace quire::gpu {

// quire_driver_options.flags of a GPU driver: which kernels attention has. By default what the driver holds to be best.
inline constexpr uint64_t kFlagsDot = 1;
inline constexpr uint64_t kFlagsMatrix = 2;  // without products of warpgroups

struct Facts {
  uint32_t multiprocessors;
  uint32_t wave;
  uint32_t shared_bytes;    // most that a block may have
  uint32_t argument_bytes;  // most that a launch may have
  bool matrix;              // attention by matrix instructions where there is a kernel for it
  // Query rows of a KV head and row from which prefill is for products of warpgroups; 0 = there are
  // none.
  uint32_t flow_rows;
  uint64_t total_bytes;
  uint64_t free_bytes;
  char name[96];
};

// Memory of another process, as the vendor's library names it: the allocation, and where in it the address lies.
struct Shared {
  unsigned char native[64];
  uint64_t offset;
  uint64_t bytes;  // from the address to the end of the allocation
};

struct Runtime {
  int32_t device_type;   // QUIRE_DEVICE_*
  int32_t host_type;     // of pinned host memory
  int32_t error_domain;  // quire_error.native_domain
  int not_ready;         // what queries answer while work is queued
  int (*device_count)(uint32_t* count);
  int (*device_open)(uint32_t ordinal, const quire_driver_options& options, void** device);  // loads the kernels too
  void (*device_close)(void* device);
  int (*device_facts)(void* device, Facts* facts);
  int (*alloc)(void* device, uint64_t bytes, uint64_t alignment, bool host, void** address);
  int (*release)(void* device, void* address, bool host);
  int (*stream_create)(void* device, void** stream);
  void (*stream_destroy)(void* device, void* stream);
  int (*stream_query)(void* device, void* stream);
  int (*stream_synchronize)(void* device, void* stream);
  int (*event_create)(void* device, void** event);
  void (*event_destroy)(void* device, void* event);
  int (*event_record)(void* device, void* event, void* stream);
  int (*event_wait)(void* device, void* event, void* stream);
  int (*event_query)(void* device, void* event);
  int (*event_synchronize)(void* device, void* event);
  int (*fill)(void* device, void* stream, uint64_t to, uint8_t value, uint64_t bytes);
  int (*launch)(void* device, void* stream, Kernel kernel, uint32_t blocks, uint32_t shared, const void* arguments, size_t bytes);
  int (*make_map)(void* device, const BoxShape& shape, TensorMap* map);  // NULL where there is none
  const char* (*error_text)(int native);
  bool (*exhausted)(int native);    // out of memory
  bool (*terminal)(int native);     // the device will not work again in this process
  bool (*unsupported)(int native);  // the library or the device has no such call
  bool (*unfit)(int native);        // an argument is not what the call takes
  // n up to kCopiesPerCall, in any order.
  int (*copies)(void* device, void* stream, const quire_copy_run* runs, uint32_t n);
  int (*ipc_export)(void* device, const void* address, Shared* shared);
  int (*ipc_import)(void* device, const Shared& shared, void** address);
  int (*ipc_close)(void* device, const Shared& shared, void* address);
};

inline constexpr uint32_t kCopiesPerCall = 64;

// The module's runtime, or UNAVAILABLE with the reason. Any thread; the same table every time.
quire_code load_runtime(const quire_driver_options& options, const Runtime** out, quire_error* err);

// The table that the module's manifest names.
extern const quire_driver_api kApi;
extern const quire_extension_table kOps;

}  // namespace quire::gpu
