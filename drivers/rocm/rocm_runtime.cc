// The runtime table over libamdhip64, and the embedded kernels.
#include "drivers/gpu/gpu_runtime.h"
#include "drivers/rocm/rocm_library.h"

#include <cstdio>
#include <cstring>
#include <new>

// The code objects of the kernel units, one behind the other (the build states their files).
#define QUIRE_HIP_EMBED(name)                                                                                   \
  asm(".section .rodata\n.balign 64\n.hidden quire_hip_" #name "\n.globl quire_hip_" #name "\nquire_hip_" #name \
      ":\n.incbin \"" QUIRE_HIP_FATBINS "/" #name ".hipfb\"\n.byte 0\n.text\n");                                \
  extern "C" const unsigned char quire_hip_##name[];
QUIRE_HIP_UNITS(QUIRE_HIP_EMBED);
#undef QUIRE_HIP_EMBED

namespace quire::gpu {
namespace rocm {
namespace {

const unsigned char* const kUnits[] = {
#define QUIRE_HIP_UNIT(name) quire_hip_##name,
    QUIRE_HIP_UNITS(QUIRE_HIP_UNIT)
#undef QUIRE_HIP_UNIT
};
constexpr size_t kUnitCount = sizeof kUnits / sizeof *kUnits;

const char* const kNames[kKernelCount] = {
#define QUIRE_HIP_NAME(name, Args) "quire_kernel_" #name,
    QUIRE_GPU_KERNELS(QUIRE_HIP_NAME)
#undef QUIRE_HIP_NAME
};

struct Device {
  int ordinal;
  hipModule_t units[kUnitCount];
  hipFunction_t kernels[kKernelCount];
  bool matrix;
};

const Library& api() { return *library(nullptr, 0); }

// The device is the thread's current one while this lives.
class Current {
 public:
  explicit Current(void* device) : code_(api().hipGetDevice(&before_)) {
    if (code_ != hipSuccess) before_ = -1;
    if (code_ == hipSuccess) code_ = api().hipSetDevice(static_cast<Device*>(device)->ordinal);
  }
  ~Current() {
    if (before_ >= 0) static_cast<void>(api().hipSetDevice(before_));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  // The call's result, unless the device could not be made current.
  template <typename Call, typename... Args>
  int operator()(Call call, Args... args) {
    return code_ != hipSuccess ? code_ : call(args...);
  }

 private:
  int before_ = 0;
  hipError_t code_;
};

hipStream_t stream_of(void* stream) { return static_cast<hipStream_t>(stream); }
hipEvent_t event_of(void* event) { return static_cast<hipEvent_t>(event); }

int device_count(uint32_t* count) {
  int n = 0;
  const hipError_t code = api().hipGetDeviceCount(&n);
  *count = code == hipSuccess ? static_cast<uint32_t>(n) : 0;
  return code;
}

void device_close(void* device) {
  auto* d = static_cast<Device*>(device);
  {
    Current current(device);
    for (hipModule_t unit : d->units) {
      if (unit != nullptr) current(api().hipModuleUnload, unit);
    }
  }
  delete d;
}

int load_kernels(Device* d) {
  Current current(d);
  for (size_t u = 0; u < kUnitCount; ++u) {
    const int code = current(api().hipModuleLoadData, &d->units[u], static_cast<const void*>(kUnits[u]));
    if (code != hipSuccess) return code;
  }
  for (uint32_t k = 0; k < kKernelCount; ++k) {
    int code = hipErrorNotFound;
    for (size_t u = 0; u < kUnitCount && code == hipErrorNotFound; ++u) {
      code = current(api().hipModuleGetFunction, &d->kernels[k], d->units[u], kNames[k]);
    }
    if (code != hipSuccess) return code;
  }
  return hipSuccess;
}

// Whether the code that the device took from the fat binary has matrix instructions: it says so itself (attend_mma.cu). What its compiler
// did not know of traps, so where there is no answer there are none.
bool has_matrix_kernels(Device* d) {
  Current current(d);
  for (hipModule_t unit : d->units) {
    hipDeviceptr_t at = nullptr;
    size_t bytes = 0;
    if (current(api().hipModuleGetGlobal, &at, &bytes, unit, "quire_gpu_matrix") != hipSuccess) continue;
    uint32_t said = 0;
    return bytes == sizeof said && current(api().hipMemcpyDtoH, static_cast<void*>(&said), at, sizeof said) == hipSuccess && said == 1;
  }
  return false;
}

int device_open(uint32_t ordinal, const quire_driver_options& options, void** out) {
  auto* d = new (std::nothrow) Device{};
  if (d == nullptr) return hipErrorOutOfMemory;
  d->matrix = options.flags == kFlagsMatrix;  // dot products until somebody has run the others on hardware
  d->ordinal = static_cast<int>(ordinal);
  const int code = load_kernels(d);
  if (code != hipSuccess) {
    device_close(d);
    return code;
  }
  d->matrix = d->matrix && has_matrix_kernels(d);
  *out = d;
  return hipSuccess;
}

int device_facts(void* device, Facts* facts) {
  auto* d = static_cast<Device*>(device);
  const Library& a = api();
  int multiprocessors = 0;
  int wave = 0;
  int shared = 0;
  size_t total = 0;
  size_t available = 0;
  char name[64] = {};
  int code = a.hipDeviceGetAttribute(&multiprocessors, hipDeviceAttributeMultiprocessorCount, d->ordinal);
  if (code == hipSuccess) code = a.hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, d->ordinal);
  if (code == hipSuccess) code = a.hipDeviceGetAttribute(&shared, hipDeviceAttributeMaxSharedMemoryPerBlock, d->ordinal);
  if (code == hipSuccess) code = a.hipDeviceGetName(name, sizeof name, d->ordinal);
  if (code == hipSuccess) code = Current(device)(a.hipMemGetInfo, &available, &total);
  facts->multiprocessors = static_cast<uint32_t>(multiprocessors);
  facts->wave = static_cast<uint32_t>(wave);
  facts->shared_bytes = static_cast<uint32_t>(shared);
  facts->argument_bytes = 4096;
  facts->matrix = d->matrix;
  facts->total_bytes = total;
  facts->free_bytes = available;
  std::snprintf(facts->name, sizeof facts->name, "%s", name);
  return code;
}

// hipMalloc aligns to 256 bytes at least; where the caller wants more than came, there is none to be had.
int alloc(void* device, uint64_t bytes, uint64_t alignment, bool host, void** address) {
  Current current(device);
  void* got = nullptr;
  const int code = host ? current(api().hipHostMalloc, &got, size_t{bytes}, static_cast<unsigned>(hipHostMallocPortable))
                        : current(api().hipMalloc, &got, size_t{bytes});
  if (code != hipSuccess) return code;
  if (reinterpret_cast<uintptr_t>(got) % alignment != 0) {
    current(host ? api().hipHostFree : api().hipFree, got);
    return hipErrorOutOfMemory;
  }
  *address = got;
  return hipSuccess;
}

int release(void* device, void* address, bool host) {
  Current current(device);
  return current(host ? api().hipHostFree : api().hipFree, address);
}

int stream_create(void* device, void** stream) {
  hipStream_t made = nullptr;
  const int code = Current(device)(api().hipStreamCreateWithFlags, &made, static_cast<unsigned>(hipStreamNonBlocking));
  *stream = made;
  return code;
}
void stream_destroy(void* device, void* stream) {
  Current current(device);
  current(api().hipStreamDestroy, stream_of(stream));
}
int stream_query(void* device, void* stream) { return Current(device)(api().hipStreamQuery, stream_of(stream)); }
int stream_synchronize(void* device, void* stream) { return Current(device)(api().hipStreamSynchronize, stream_of(stream)); }

int event_create(void* device, void** event) {
  hipEvent_t made = nullptr;
  const int code = Current(device)(api().hipEventCreateWithFlags, &made, static_cast<unsigned>(hipEventDisableTiming));
  *event = made;
  return code;
}
void event_destroy(void* device, void* event) {
  Current current(device);
  current(api().hipEventDestroy, event_of(event));
}
int event_record(void* device, void* event, void* stream) {
  return Current(device)(api().hipEventRecord, event_of(event), stream_of(stream));
}
int event_wait(void* device, void* event, void* stream) {
  return Current(device)(api().hipStreamWaitEvent, stream_of(stream), event_of(event), 0u);
}
int event_query(void* device, void* event) { return Current(device)(api().hipEventQuery, event_of(event)); }
int event_synchronize(void* device, void* event) { return Current(device)(api().hipEventSynchronize, event_of(event)); }

// NOLINTBEGIN(performance-no-int-to-ptr): the ABI carries addresses
int copy_bytes(void* device, void* stream, uint64_t to, uint64_t from, uint64_t bytes) {
  return Current(device)(api().hipMemcpyAsync, reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size_t{bytes},
                         hipMemcpyDefault, stream_of(stream));
}
int fill_bytes(void* device, void* stream, uint64_t to, uint8_t value, uint64_t bytes) {
  return Current(device)(api().hipMemsetAsync, reinterpret_cast<void*>(to), int{value}, size_t{bytes}, stream_of(stream));
}
// NOLINTEND(performance-no-int-to-ptr)

int copies(void* device, void* stream, const quire_copy_run* runs, uint32_t n) {
  int code = hipSuccess;
  for (uint32_t i = 0; i < n && code == hipSuccess; ++i)
    code = copy_bytes(device, stream, runs[i].destination, runs[i].source, runs[i].bytes);
  return code;
}

// A handle is of the allocation, so the place within it goes along.
int ipc_export(void* device, const void* address, Shared* shared) {
  const Library& a = api();
  if (a.hipIpcGetMemHandle == nullptr || a.hipMemGetAddressRange == nullptr) return hipErrorNotSupported;
  Current current(device);
  hipDeviceptr_t base = nullptr;
  size_t bytes = 0;
  hipIpcMemHandle_t handle{};
  int code = current(a.hipMemGetAddressRange, &base, &bytes, const_cast<void*>(address));  // not written
  if (code == hipSuccess) code = current(a.hipIpcGetMemHandle, &handle, base);
  if (code != hipSuccess) return code;
  static_assert(sizeof handle == sizeof shared->native);
  memcpy(shared->native, &handle, sizeof handle);
  shared->offset = static_cast<uint64_t>(static_cast<const char*>(address) - static_cast<char*>(base));
  shared->bytes = bytes - shared->offset;
  return hipSuccess;
}

int ipc_import(void* device, const Shared& shared, void** address) {
  const Library& a = api();
  if (a.hipIpcOpenMemHandle == nullptr || a.hipIpcCloseMemHandle == nullptr) return hipErrorNotSupported;
  hipIpcMemHandle_t handle;
  memcpy(&handle, shared.native, sizeof handle);
  void* base = nullptr;
  const int code = Current(device)(a.hipIpcOpenMemHandle, &base, handle, static_cast<unsigned>(hipIpcMemLazyEnablePeerAccess));
  if (code == hipSuccess) *address = static_cast<char*>(base) + shared.offset;
  return code;
}

int ipc_close(void* device, const Shared& shared, void* address) {
  const Library& a = api();
  if (a.hipIpcCloseMemHandle == nullptr) return hipErrorNotSupported;
  return Current(device)(a.hipIpcCloseMemHandle, static_cast<void*>(static_cast<char*>(address) - shared.offset));
}

int launch(void* device, void* stream, Kernel kernel, uint32_t blocks, uint32_t shared, const void* arguments, size_t) {
  void* parameters[] = {const_cast<void*>(arguments)};  // read during the call
  return Current(device)(api().hipModuleLaunchKernel, static_cast<Device*>(device)->kernels[static_cast<uint32_t>(kernel)], blocks, 1u, 1u,
                         kThreads, 1u, 1u, shared, stream_of(stream), static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

const char* error_text(int native) { return api().hipGetErrorString(static_cast<hipError_t>(native)); }

bool exhausted(int native) { return native == hipErrorOutOfMemory; }

bool unsupported(int native) { return native == hipErrorNotSupported; }

bool unfit(int native) {
  return native == hipErrorInvalidValue || native == hipErrorInvalidDevicePointer || native == hipErrorInvalidHandle ||
         native == hipErrorInvalidContext || native == hipErrorMapFailed || native == hipErrorNotFound;
}

bool terminal(int native) {
  switch (native) {
    case hipErrorECCNotCorrectable:
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorContextIsDestroyed:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

constexpr Runtime kRuntime = {
    QUIRE_DEVICE_ROCM,
    QUIRE_DEVICE_ROCM_HOST,
    4,
    hipErrorNotReady,
    device_count,
    device_open,
    device_close,
    device_facts,
    alloc,
    release,
    stream_create,
    stream_destroy,
    stream_query,
    stream_synchronize,
    event_create,
    event_destroy,
    event_record,
    event_wait,
    event_query,
    event_synchronize,
    fill_bytes,
    launch,
    nullptr,
    error_text,
    exhausted,
    terminal,
    unsupported,
    unfit,
    copies,
    ipc_export,
    ipc_import,
    ipc_close,
};

}  // namespace
}  // namespace rocm

quire_code load_runtime(const quire_driver_options& options, const Runtime** out, quire_error* err) {
  if (options.flags > kFlagsMatrix) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "driver_options.flags 0x%llx: 1 is dot products, 2 matrix instructions",
                      static_cast<unsigned long long>(options.flags));
  }
  char why[256] = {};
  if (rocm::library(why, sizeof why) == nullptr) return QUIRE_FAIL(err, QUIRE_UNAVAILABLE, "%s", why);
  *out = &rocm::kRuntime;
  return QUIRE_OK;
}

}  // namespace quire::gpu

namespace quire::drivers {

const char* const kDriverName = "rocm";
const bool kDecodesRows = false;

// Managed memory moves behind the driver's back and is refused, as is what the host's allocator gave.
bool reads_device_type(int32_t device_type) { return device_type == QUIRE_DEVICE_ROCM || device_type == QUIRE_DEVICE_ROCM_HOST; }

// Values of hipMemoryType moved with ROCm 6: host and device were 0 and 1, and are 1 and 2.
bool host_reads(const void* address) {
  const gpu::rocm::Library& a = *gpu::rocm::library(nullptr, 0);
  int type = 0;
  void* at = const_cast<void*>(address);  // not written
  const hipError_t code = a.hipPointerGetAttribute(&type, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
  if (code == hipSuccess) return type <= (a.major >= 6 ? 1 : 0);
  return !gpu::rocm::terminal(code);  // what HIP does not know is the host's; of a lost device it answers nothing
}

}  // namespace quire::drivers
