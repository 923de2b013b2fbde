// The runtime table over libcuda, and the embedded kernels.
#include "drivers/cuda/cuda_library.h"
#include "drivers/gpu/gpu_runtime.h"

#include <cstdio>
#include <cstring>
#include <new>

// The fat binaries of the kernel units, one behind the other (the build states their files).
#define QUIRE_CUDA_EMBED(name)                                                                                     \
  asm(".section .rodata\n.balign 64\n.hidden quire_cuda_" #name "\n.globl quire_cuda_" #name "\nquire_cuda_" #name \
      ":\n.incbin \"" QUIRE_CUDA_FATBINS "/" #name ".fatbin\"\n.byte 0\n.text\n");                                 \
  extern "C" const unsigned char quire_cuda_##name[];
QUIRE_CUDA_UNITS(QUIRE_CUDA_EMBED);
#undef QUIRE_CUDA_EMBED

namespace quire::gpu {
namespace cuda {
namespace {

const unsigned char* const kUnits[] = {
#define QUIRE_CUDA_UNIT(name) quire_cuda_##name,
    QUIRE_CUDA_UNITS(QUIRE_CUDA_UNIT)
#undef QUIRE_CUDA_UNIT
};
constexpr size_t kUnitCount = sizeof kUnits / sizeof *kUnits;

const char* const kNames[kKernelCount] = {
#define QUIRE_CUDA_NAME(name, Args) "quire_kernel_" #name,
    QUIRE_GPU_KERNELS(QUIRE_CUDA_NAME)
#undef QUIRE_CUDA_NAME
};

struct Device {
  CUdevice ordinal;
  CUcontext shared;  // the process's primary one
  CUmodule units[kUnitCount];
  CUfunction kernels[kKernelCount];
  int most_shared;
  bool matrix;
  bool flow;
};

// Query rows of a KV head and row, on average over a step: below that, tiles of 128 rows would be half empty.
constexpr uint32_t kFlowRows = 64;

const Library& api() { return *library(nullptr, 0); }

// The device's context is current while this lives.
class Current {
 public:
  explicit Current(void* device) : code_(api().cuCtxPushCurrent(static_cast<Device*>(device)->shared)) {}
  ~Current() {
    CUcontext left = nullptr;
    if (code_ == CUDA_SUCCESS) api().cuCtxPopCurrent(&left);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  // The call's result, unless the context could not be made current.
  template <typename Call, typename... Args>
  int operator()(Call call, Args... args) {
    return code_ != CUDA_SUCCESS ? code_ : call(args...);
  }

 private:
  CUresult code_;
};

CUstream stream_of(void* stream) { return static_cast<CUstream>(stream); }
CUevent event_of(void* event) { return static_cast<CUevent>(event); }

int device_count(uint32_t* count) {
  int n = 0;
  const CUresult code = api().cuDeviceGetCount(&n);
  *count = code == CUDA_SUCCESS ? static_cast<uint32_t>(n) : 0;
  return code;
}

void device_close(void* device) {
  auto* d = static_cast<Device*>(device);
  {
    Current current(device);
    for (CUmodule unit : d->units) {
      if (unit != nullptr) current(api().cuModuleUnload, unit);
    }
  }
  if (d->shared != nullptr) api().cuDevicePrimaryCtxRelease(d->ordinal);
  delete d;
}

int load_kernels(Device* d) {
  Current current(d);
  for (size_t u = 0; u < kUnitCount; ++u) {
    const int code = current(api().cuModuleLoadData, &d->units[u], static_cast<const void*>(kUnits[u]));
    if (code != CUDA_SUCCESS) return code;
  }
  for (uint32_t k = 0; k < kKernelCount; ++k) {
    int code = CUDA_ERROR_NOT_FOUND;
    for (size_t u = 0; u < kUnitCount && code == CUDA_ERROR_NOT_FOUND; ++u) {
      code = current(api().cuModuleGetFunction, &d->kernels[k], d->units[u], kNames[k]);
    }
    if (code == CUDA_SUCCESS) {
      code = current(api().cuFuncSetAttribute, d->kernels[k], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, d->most_shared);
    }
    if (code != CUDA_SUCCESS) return code;
  }
  return CUDA_SUCCESS;
}

int device_open(uint32_t ordinal, const quire_driver_options& options, void** out) {
  auto* d = new (std::nothrow) Device{};
  if (d == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  d->matrix = options.flags != kFlagsDot;  // all code here is for sm_80 or later
  d->flow = options.flags == 0;            // attend_flow.cu is for sm_90a, which is compute capability 9.0 and nothing else
  const Library& a = api();
  CUresult code = a.cuDeviceGet(&d->ordinal, static_cast<int>(ordinal));
  if (code == CUDA_SUCCESS) code = a.cuDevicePrimaryCtxRetain(&d->shared, d->ordinal);
  if (code != CUDA_SUCCESS) {
    delete d;
    return code;
  }
  int result = a.cuDeviceGetAttribute(&d->most_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d->ordinal);
  if (result == CUDA_SUCCESS) result = load_kernels(d);
  if (result != CUDA_SUCCESS) {
    device_close(d);
    return result;
  }
  *out = d;
  return CUDA_SUCCESS;
}

int device_facts(void* device, Facts* facts) {
  auto* d = static_cast<Device*>(device);
  const Library& a = api();
  int multiprocessors = 0;
  int major = 0;
  int minor = 0;
  size_t total = 0;
  size_t available = 0;
  char name[64] = {};
  int code = a.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->ordinal);
  if (code == CUDA_SUCCESS) code = a.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->ordinal);
  if (code == CUDA_SUCCESS) code = a.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->ordinal);
  if (code == CUDA_SUCCESS) code = a.cuDeviceGetName(name, sizeof name, d->ordinal);
  if (code == CUDA_SUCCESS) code = Current(device)(a.cuMemGetInfo, &available, &total);
  facts->multiprocessors = static_cast<uint32_t>(multiprocessors);
  facts->wave = 32;
  facts->shared_bytes = static_cast<uint32_t>(d->most_shared);
  facts->argument_bytes = CUDA_VERSION >= cuda::kManyArguments ? kManyArgumentBytes : 4096;
  facts->matrix = d->matrix && major >= 8;
  facts->flow_rows = d->flow && major == 9 && minor == 0 && a.cuTensorMapEncodeTiled != nullptr ? kFlowRows : 0;
  facts->total_bytes = total;
  facts->free_bytes = available;
  std::snprintf(facts->name, sizeof facts->name, "%s, sm_%d%d", name, major, minor);
  return code;
}

// cuMemAlloc aligns to 256 bytes at least; where the caller wants more than came, there is none to be had.
int alloc(void* device, uint64_t bytes, uint64_t alignment, bool host, void** address) {
  Current current(device);
  CUdeviceptr p = 0;
  void* pinned = nullptr;
  const int code = host ? current(api().cuMemHostAlloc, &pinned, bytes, static_cast<unsigned>(CU_MEMHOSTALLOC_PORTABLE))
                        : current(api().cuMemAlloc, &p, bytes);
  if (code != CUDA_SUCCESS) return code;
  void* got = host ? pinned : reinterpret_cast<void*>(p);  // NOLINT(performance-no-int-to-ptr): CUdeviceptr is an integer
  if (reinterpret_cast<uintptr_t>(got) % alignment != 0) {
    if (host) {
      current(api().cuMemFreeHost, got);
    } else {
      current(api().cuMemFree, p);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = got;
  return CUDA_SUCCESS;
}

int release(void* device, void* address, bool host) {
  Current current(device);
  if (host) return current(api().cuMemFreeHost, address);
  return current(api().cuMemFree, reinterpret_cast<CUdeviceptr>(address));
}

int stream_create(void* device, void** stream) {
  CUstream made = nullptr;
  const int code = Current(device)(api().cuStreamCreate, &made, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  *stream = made;
  return code;
}
void stream_destroy(void* device, void* stream) {
  Current current(device);
  current(api().cuStreamDestroy, stream_of(stream));
}
int stream_query(void* device, void* stream) { return Current(device)(api().cuStreamQuery, stream_of(stream)); }
int stream_synchronize(void* device, void* stream) { return Current(device)(api().cuStreamSynchronize, stream_of(stream)); }

int event_create(void* device, void** event) {
  CUevent made = nullptr;
  const int code = Current(device)(api().cuEventCreate, &made, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
  *event = made;
  return code;
}
void event_destroy(void* device, void* event) {
  Current current(device);
  current(api().cuEventDestroy, event_of(event));
}
int event_record(void* device, void* event, void* stream) {
  return Current(device)(api().cuEventRecord, event_of(event), stream_of(stream));
}
int event_wait(void* device, void* event, void* stream) {
  return Current(device)(api().cuStreamWaitEvent, stream_of(stream), event_of(event), 0u);
}
int event_query(void* device, void* event) { return Current(device)(api().cuEventQuery, event_of(event)); }
int event_synchronize(void* device, void* event) { return Current(device)(api().cuEventSynchronize, event_of(event)); }

int fill_bytes(void* device, void* stream, uint64_t to, uint8_t value, uint64_t bytes) {
  return Current(device)(api().cuMemsetD8Async, CUdeviceptr{to}, value, size_t{bytes}, stream_of(stream));
}

#if CUDA_VERSION >= 13000
// One call for all. Recorded streams take it not: graphs have no such nodes; nor does the legacy default stream.
bool takes_batches(void* device, void* stream) {
  const Library& a = api();
  if (a.cuMemcpyBatchAsync == nullptr || a.cuStreamIsCapturing == nullptr) return false;
  if (stream == nullptr || stream_of(stream) == CU_STREAM_LEGACY) return false;
  CUstreamCaptureStatus recording = CU_STREAM_CAPTURE_STATUS_NONE;
  return Current(device)(a.cuStreamIsCapturing, stream_of(stream), &recording) == CUDA_SUCCESS &&
         recording == CU_STREAM_CAPTURE_STATUS_NONE;
}

int batch(void* device, void* stream, const quire_copy_run* runs, uint32_t n) {
  CUdeviceptr to[kCopiesPerCall];
  CUdeviceptr from[kCopiesPerCall];
  size_t bytes[kCopiesPerCall];
  for (uint32_t i = 0; i < n; ++i) to[i] = runs[i].destination, from[i] = runs[i].source, bytes[i] = runs[i].bytes;
  CUmemcpyAttributes in_order{};
  in_order.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  return Current(device)(api().cuMemcpyBatchAsync, to, from, bytes, size_t{n}, &in_order, &first, size_t{1}, stream_of(stream));
}
#endif

int copies(void* device, void* stream, const quire_copy_run* runs, uint32_t n) {
#if CUDA_VERSION >= 13000
  if (n > 1 && takes_batches(device, stream)) return batch(device, stream, runs, n);
#endif
  Current current(device);
  int code = CUDA_SUCCESS;
  for (uint32_t i = 0; i < n && code == CUDA_SUCCESS; ++i) {
    const quire_copy_run& run = runs[i];
    code = current(api().cuMemcpyAsync, CUdeviceptr{run.destination}, CUdeviceptr{run.source}, size_t{run.bytes}, stream_of(stream));
  }
  return code;
}

// A handle is of the allocation, so the place within it goes along.
int ipc_export(void* device, const void* address, Shared* shared) {
  const Library& a = api();
  if (a.cuIpcGetMemHandle == nullptr || a.cuMemGetAddressRange == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  Current current(device);
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUipcMemHandle handle{};
  int code = current(a.cuMemGetAddressRange, &base, &bytes, at);
  if (code == CUDA_SUCCESS) code = current(a.cuIpcGetMemHandle, &handle, base);
  if (code != CUDA_SUCCESS) return code;
  static_assert(sizeof handle == sizeof shared->native);
  memcpy(shared->native, &handle, sizeof handle);
  shared->offset = at - base;
  shared->bytes = bytes - shared->offset;
  return CUDA_SUCCESS;
}

// NOLINTBEGIN(performance-no-int-to-ptr): CUdeviceptr is an integer
int ipc_import(void* device, const Shared& shared, void** address) {
  const Library& a = api();
  if (a.cuIpcOpenMemHandle == nullptr || a.cuIpcCloseMemHandle == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUipcMemHandle handle;
  memcpy(&handle, shared.native, sizeof handle);
  CUdeviceptr base = 0;
  const int code = Current(device)(a.cuIpcOpenMemHandle, &base, handle, static_cast<unsigned>(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  if (code == CUDA_SUCCESS) *address = reinterpret_cast<void*>(base + shared.offset);
  return code;
}
// NOLINTEND(performance-no-int-to-ptr)

int ipc_close(void* device, const Shared& shared, void* address) {
  const Library& a = api();
  if (a.cuIpcCloseMemHandle == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return Current(device)(a.cuIpcCloseMemHandle, reinterpret_cast<CUdeviceptr>(address) - shared.offset);
}

int launch(void* device, void* stream, Kernel kernel, uint32_t blocks, uint32_t shared, const void* arguments, size_t) {
  void* parameters[] = {const_cast<void*>(arguments)};  // read during the call
  return Current(device)(api().cuLaunchKernel, static_cast<Device*>(device)->kernels[static_cast<uint32_t>(kernel)], blocks, 1u, 1u,
                         threads_of(kernel), 1u, 1u, shared, stream_of(stream), static_cast<void**>(parameters),
                         static_cast<void**>(nullptr));
}

// Encoding wants a context, as a GPU says and the documentation does not.
int make_map(void* device, const BoxShape& shape, TensorMap* map) {
  static_assert(sizeof(CUtensorMap) == sizeof(TensorMap));
  CUtensorMap made{};
  const cuuint64_t size[4] = {shape.size[0], shape.size[1], shape.size[2], shape.size[3]};
  const cuuint64_t stride[3] = {shape.stride[0], shape.stride[1], shape.stride[2]};
  const cuuint32_t each[4] = {1, 1, 1, 1};
  const int code =
      Current(device)(api().cuTensorMapEncodeTiled, &made, shape.half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                      4u, const_cast<void*>(shape.base), size, stride, shape.box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);  // which is zeros
  memcpy(map, &made, sizeof made);
  return code;
}

const char* error_text(int native) {
  const char* text = nullptr;
  api().cuGetErrorString(static_cast<CUresult>(native), &text);
  return text != nullptr ? text : "unknown error";
}

bool exhausted(int native) { return native == CUDA_ERROR_OUT_OF_MEMORY; }

bool unsupported(int native) { return native == CUDA_ERROR_NOT_SUPPORTED; }

bool unfit(int native) {
  return native == CUDA_ERROR_INVALID_VALUE || native == CUDA_ERROR_INVALID_HANDLE || native == CUDA_ERROR_INVALID_CONTEXT ||
         native == CUDA_ERROR_MAP_FAILED || native == CUDA_ERROR_NOT_FOUND;
}

// By cuda.h: after these the process has to be started anew. Some names are younger than CUDA 12.0.
constexpr int kContained = 226;
constexpr int kTensorMemoryLeak = 721;
constexpr int kMpsClientTerminated = 810;
constexpr int kExternalDevice = 911;
bool terminal(int native) {
  switch (native) {
    case kContained:
    case kTensorMemoryLeak:
    case kMpsClientTerminated:
    case kExternalDevice:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return true;
    default:
      return false;
  }
}

constexpr Runtime kRuntime = {
    QUIRE_DEVICE_CUDA,
    QUIRE_DEVICE_CUDA_HOST,
    2,
    CUDA_ERROR_NOT_READY,
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
    make_map,
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
}  // namespace cuda

quire_code load_runtime(const quire_driver_options& options, const Runtime** out, quire_error* err) {
  if (options.flags > kFlagsMatrix) {
    return QUIRE_FAIL(err, QUIRE_UNIMPLEMENTED, "driver_options.flags 0x%llx: 1 is dot products, 2 matrix instructions",
                      static_cast<unsigned long long>(options.flags));
  }
  char why[256] = {};
  if (cuda::library(why, sizeof why) == nullptr) return QUIRE_FAIL(err, QUIRE_UNAVAILABLE, "%s", why);
  *out = &cuda::kRuntime;
  return QUIRE_OK;
}

}  // namespace quire::gpu

namespace quire::drivers {

const char* const kDriverName = "cuda";
const bool kDecodesRows = false;

// Managed memory moves behind the driver's back and is refused, as is what the host's allocator gave.
bool reads_device_type(int32_t device_type) { return device_type == QUIRE_DEVICE_CUDA || device_type == QUIRE_DEVICE_CUDA_HOST; }

bool host_reads(const void* address) {
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  const CUresult code = gpu::cuda::library(nullptr, 0)->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
  if (code == CUDA_SUCCESS) return type == CU_MEMORYTYPE_HOST;
  return !gpu::cuda::terminal(code);  // what CUDA does not know is the host's; of a lost device it answers nothing
}

}  // namespace quire::drivers
