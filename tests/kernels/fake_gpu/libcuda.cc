// A libcuda without a GPU: the calls that drivers/cuda makes, given by cuGetProcAddress as the real one gives them. A context must be
// current where the real library wants one.
#include "drivers/gpu/emulation/warpgroup.h"
#include "tests/kernels/fake_gpu/fake.h"

#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace quire::fake {
namespace {

std::vector<CUcontext>& current_ones() {
  thread_local std::vector<CUcontext> current;
  return current;
}

struct Primary {
  int device;
};
Primary primaries[16];

// Of a call that wants a context.
class Call {
 public:
  explicit Call(const char* name) : code_(enter(name)) {
    if (code_ == kOk && current_ones().empty()) code_ = kInvalidContext;
    if (!current_ones().empty()) device_ = reinterpret_cast<Primary*>(current_ones().back())->device;
  }
  template <typename Made, typename... Args>
  CUresult operator()(Made made, Args... args) const {
    return static_cast<CUresult>(code_ != kOk ? code_ : made(args...));
  }
  int device() const { return device_; }

 private:
  int code_;
  int device_ = -1;
};

void* pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }  // NOLINT(performance-no-int-to-ptr): a CUdeviceptr is an integer

CUresult init(unsigned flags) {
  return static_cast<CUresult>(flags != 0 ? kInvalid : num_devices() == 0 ? kNoDevice : enter_any("cuInit"));
}

CUresult driver_version(int* number) {
  *number = version(13000);
  return static_cast<CUresult>(enter_any("cuDriverGetVersion"));
}

CUresult device_count(int* count) {
  *count = num_devices();
  return static_cast<CUresult>(enter_any("cuDeviceGetCount"));
}

CUresult device_get(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= num_devices()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return static_cast<CUresult>(enter_any("cuDeviceGet"));
}

CUresult device_name(char* name, int bytes, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(bytes), "Fake %d", device);
  return static_cast<CUresult>(enter("cuDeviceGetName"));
}

CUresult device_total(size_t* bytes, CUdevice) {
  size_t available = 0;
  memory_info(&available, bytes);
  return static_cast<CUresult>(enter("cuDeviceTotalMem"));
}

CUresult device_attribute(int* value, CUdevice_attribute what, CUdevice) {
  const char* arch = architecture("90");
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 6;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = arch[0] - '0';
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = arch[1] - '0';
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 << 10;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return static_cast<CUresult>(enter("cuDeviceGetAttribute"));
}

CUresult primary_retain(CUcontext* out, CUdevice device) {
  const int code = enter("cuDevicePrimaryCtxRetain");
  if (code != kOk) return static_cast<CUresult>(code);
  primaries[device].device = device;
  *out = reinterpret_cast<CUcontext>(&primaries[device]);
  count_alive(1);
  return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice) {
  enter_any("cuDevicePrimaryCtxRelease");
  count_alive(-1);
  return CUDA_SUCCESS;
}

CUresult push(CUcontext given) {
  const int code = enter_any("cuCtxPushCurrent");
  if (code != kOk) return static_cast<CUresult>(code);
  if (given == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  current_ones().push_back(given);
  count_alive(1);
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
  enter_any("cuCtxPopCurrent");
  if (current_ones().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *out = current_ones().back();
  current_ones().pop_back();
  count_alive(-1);
  return CUDA_SUCCESS;
}

CUresult mem_info(size_t* available, size_t* total) {
  return Call("cuMemGetInfo")([&] {
    memory_info(available, total);
    return kOk;
  });
}

CUresult mem_alloc(CUdeviceptr* address, size_t bytes) {
  const Call call("cuMemAlloc");
  void* p = nullptr;
  const CUresult code = call(allocate, call.device(), bytes, false, &p);
  *address = reinterpret_cast<CUdeviceptr>(p);
  return code;
}

CUresult mem_free(CUdeviceptr address) { return Call("cuMemFree")(release, pointer(address), false); }

CUresult host_alloc(void** address, size_t bytes, unsigned flags) {
  if (flags != CU_MEMHOSTALLOC_PORTABLE) return CUDA_ERROR_INVALID_VALUE;
  const Call call("cuMemHostAlloc");
  return call(allocate, call.device(), bytes, true, address);
}

CUresult host_free(void* address) { return Call("cuMemFreeHost")(release, address, true); }

CUresult stream_create(CUstream* stream, unsigned flags) {
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const Call call("cuStreamCreate");
  void* made = nullptr;
  const CUresult code = call(create_stream, call.device(), &made);
  *stream = static_cast<CUstream>(made);
  return code;
}

CUresult stream_destroy(CUstream stream) {
  const Call call("cuStreamDestroy");
  return call(destroy_stream, call.device(), stream);
}

CUresult stream_query(CUstream stream) {
  const Call call("cuStreamQuery");
  return call(query_stream, call.device(), stream);
}

CUresult stream_synchronize(CUstream stream) {
  const Call call("cuStreamSynchronize");
  return call(synchronize_stream, call.device(), stream);
}

CUresult stream_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  const Call call("cuStreamIsCapturing");
  bool yes = false;
  const CUresult code = call(is_recording, call.device(), stream, &yes);
  *status = yes ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return code;
}

CUresult event_create(CUevent* event, unsigned flags) {
  if (flags != CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_VALUE;
  const Call call("cuEventCreate");
  void* made = nullptr;
  const CUresult code = call(create_event, call.device(), &made);
  *event = static_cast<CUevent>(made);
  return code;
}

CUresult event_destroy(CUevent event) {
  const Call call("cuEventDestroy");
  return call(destroy_event, call.device(), event);
}

CUresult event_record(CUevent event, CUstream stream) {
  const Call call("cuEventRecord");
  return call(record_event, call.device(), event, stream);
}

CUresult stream_wait(CUstream stream, CUevent event, unsigned) {
  const Call call("cuStreamWaitEvent");
  return call(wait_event, call.device(), event, stream);
}

CUresult event_query(CUevent event) {
  const Call call("cuEventQuery");
  return call(query_event, call.device(), event);
}

// What the driver's kernels want of it, and nothing else.
CUresult tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base, const cuuint64_t* size,
                    const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t* each, CUtensorMapInterleave interleave,
                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  const Call call("cuTensorMapEncodeTiled");
  bool good = rank == 4 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle == CU_TENSOR_MAP_SWIZZLE_128B &&
              fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && reinterpret_cast<uintptr_t>(map) % 64 == 0;
  good = good && (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  gpu::BoxShape shape{base, {}, {}, {}, type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16};
  gpu::TensorMap made{};
  for (uint32_t i = 0; good && i < rank; ++i) {
    shape.size[i] = size[i];
    shape.box[i] = box[i];
    if (i != 0) shape.stride[i - 1] = stride[i - 1];
    good = each[i] == 1;
  }
  return call([&] {
    if (!good || !gpu::emulation::make_map(shape, &made)) return static_cast<int>(CUDA_ERROR_INVALID_VALUE);
    memcpy(map, &made, sizeof made);
    return static_cast<int>(CUDA_SUCCESS);
  });
}

CUresult event_synchronize(CUevent event) {
  const Call call("cuEventSynchronize");
  return call(synchronize_event, call.device(), event);
}

CUresult memcpy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const Call call("cuMemcpyAsync");
  return call(queue_copy, call.device(), stream, pointer(to), pointer(from), bytes);
}

#if CUDA_VERSION >= 13000
CUresult memcpy_batch(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count, CUmemcpyAttributes* attributes, size_t* first,
                      size_t kinds, CUstream stream) {
  const Call call("cuMemcpyBatchAsync");
  bool records = false;
  const CUresult code = call(is_recording, call.device(), stream, &records);
  if (code != CUDA_SUCCESS) return code;
  if (records) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  if (count == 0 || kinds != 1 || first[0] != 0 || attributes[0].srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The last first: a batch has no order.
  for (size_t i = count; i-- > 0;) {
    const int queued = queue_copy(call.device(), stream, pointer(to[i]), pointer(from[i]), bytes[i]);
    if (queued != kOk) return static_cast<CUresult>(queued);
  }
  return CUDA_SUCCESS;
}
#endif

CUresult memset_async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const Call call("cuMemsetD8Async");
  return call(queue_fill, call.device(), stream, pointer(to), value, bytes);
}

CUresult module_load(CUmodule* module, const void* image) {
  const Call call("cuModuleLoadData");
  void* made = nullptr;
  const CUresult code = call(load_module, call.device(), image, &made);
  if (code == CUDA_SUCCESS) *module = static_cast<CUmodule>(made);
  return code;
}

CUresult module_unload(CUmodule module) {
  const Call call("cuModuleUnload");
  return call(unload_module, call.device(), module);
}

CUresult module_function(CUfunction* function, CUmodule module, const char* name) {
  void* found = nullptr;
  const CUresult code = Call("cuModuleGetFunction")(find_function, module, name, &found);
  *function = static_cast<CUfunction>(found);
  return code;
}

CUresult function_attribute(CUfunction function, CUfunction_attribute what, int value) {
  if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 227 << 10) return CUDA_ERROR_INVALID_VALUE;
  return Call("cuFuncSetAttribute")(set_shared, function, value);
}

CUresult launch_kernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
                       unsigned shared, CUstream stream, void** parameters, void** extra) {
  if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Call call("cuLaunchKernel");
  const Grid grid = {{x, y, z}, {threads_x, threads_y, threads_z}, shared};
  return call(launch, call.device(), stream, function, grid, 32u, parameters);
}

CUresult error_string(CUresult code, const char** text) {
  switch (code) {
    case CUDA_SUCCESS:
      *text = "no error";
      return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NO_DEVICE:
      *text = "no CUDA-capable device is detected";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
      *text = "invalid argument";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_SUPPORTED:
      *text = "operation not supported";
      return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *text = "an illegal memory access was encountered";
      return CUDA_SUCCESS;
    case CUDA_ERROR_LAUNCH_FAILED:
      *text = "unspecified launch failure";
      return CUDA_SUCCESS;
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult pointer_attribute(void* data, CUpointer_attribute what, CUdeviceptr address) {
  const int code = enter("cuPointerGetAttribute");
  if (code != kOk) return static_cast<CUresult>(code);
  const int place = place_of(pointer(address));
  if (what != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || place == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUmemorytype type = place == 1 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  memcpy(data, &type, sizeof type);
  return CUDA_SUCCESS;
}

CUresult address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  void* begin = nullptr;
  const CUresult code = Call("cuMemGetAddressRange")(range_of, pointer(address), &begin, bytes);
  *base = reinterpret_cast<CUdeviceptr>(begin);
  return code;
}

CUresult ipc_get(CUipcMemHandle* handle, CUdeviceptr base) {
  Handle made;
  const CUresult code = Call("cuIpcGetMemHandle")(export_memory, pointer(base), &made);
  if (code == CUDA_SUCCESS) memcpy(handle, &made, sizeof made);
  return code;
}

CUresult ipc_open(CUdeviceptr* base, CUipcMemHandle handle, unsigned flags) {
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  const Call call("cuIpcOpenMemHandle");
  Handle given;
  memcpy(&given, &handle, sizeof given);
  void* at = nullptr;
  const CUresult code = call([&] { return import_memory(call.device(), given, &at); });
  *base = reinterpret_cast<CUdeviceptr>(at);
  return code;
}

CUresult ipc_close(CUdeviceptr base) { return Call("cuIpcCloseMemHandle")(close_memory, pointer(base)); }

struct Entry {
  const char* name;
  void* function;
  int since;
};

// The casts hold every function to the signature that cuda.h gives the name.
#define QUIRE_FAKE_CUDA(call, function, since) \
  { #call, reinterpret_cast < void*>(static_cast <decltype(&::call)>(function)), since }
const Entry kEntries[] = {
    QUIRE_FAKE_CUDA(cuInit, init, 2000),
    QUIRE_FAKE_CUDA(cuDriverGetVersion, driver_version, 2020),
    QUIRE_FAKE_CUDA(cuDeviceGetCount, device_count, 2000),
    QUIRE_FAKE_CUDA(cuDeviceGet, device_get, 2000),
    QUIRE_FAKE_CUDA(cuDeviceGetName, device_name, 2000),
    QUIRE_FAKE_CUDA(cuDeviceTotalMem, device_total, 3020),
    QUIRE_FAKE_CUDA(cuDeviceGetAttribute, device_attribute, 2000),
    QUIRE_FAKE_CUDA(cuDevicePrimaryCtxRetain, primary_retain, 7000),
    QUIRE_FAKE_CUDA(cuDevicePrimaryCtxRelease, primary_release, 11000),
    QUIRE_FAKE_CUDA(cuCtxPushCurrent, push, 4000),
    QUIRE_FAKE_CUDA(cuCtxPopCurrent, pop, 4000),
    QUIRE_FAKE_CUDA(cuMemGetInfo, mem_info, 3020),
    QUIRE_FAKE_CUDA(cuMemAlloc, mem_alloc, 3020),
    QUIRE_FAKE_CUDA(cuMemFree, mem_free, 3020),
    QUIRE_FAKE_CUDA(cuMemHostAlloc, host_alloc, 2020),
    QUIRE_FAKE_CUDA(cuMemFreeHost, host_free, 2000),
    QUIRE_FAKE_CUDA(cuStreamCreate, stream_create, 2000),
    QUIRE_FAKE_CUDA(cuStreamDestroy, stream_destroy, 4000),
    QUIRE_FAKE_CUDA(cuStreamQuery, stream_query, 2000),
    QUIRE_FAKE_CUDA(cuStreamSynchronize, stream_synchronize, 2000),
    QUIRE_FAKE_CUDA(cuStreamIsCapturing, stream_capturing, 10000),
    QUIRE_FAKE_CUDA(cuEventCreate, event_create, 2000),
    QUIRE_FAKE_CUDA(cuEventDestroy, event_destroy, 4000),
    QUIRE_FAKE_CUDA(cuEventRecord, event_record, 2000),
    QUIRE_FAKE_CUDA(cuStreamWaitEvent, stream_wait, 3020),
    QUIRE_FAKE_CUDA(cuEventQuery, event_query, 2000),
    QUIRE_FAKE_CUDA(cuEventSynchronize, event_synchronize, 2000),
    QUIRE_FAKE_CUDA(cuMemcpyAsync, memcpy_async, 4000),
#if CUDA_VERSION >= 13000
    QUIRE_FAKE_CUDA(cuMemcpyBatchAsync, memcpy_batch, 13000),
#endif
    QUIRE_FAKE_CUDA(cuMemsetD8Async, memset_async, 3020),
    QUIRE_FAKE_CUDA(cuModuleLoadData, module_load, 2000),
    QUIRE_FAKE_CUDA(cuModuleUnload, module_unload, 2000),
    QUIRE_FAKE_CUDA(cuModuleGetFunction, module_function, 2000),
    QUIRE_FAKE_CUDA(cuFuncSetAttribute, function_attribute, 9000),
    QUIRE_FAKE_CUDA(cuLaunchKernel, launch_kernel, 4000),
    QUIRE_FAKE_CUDA(cuTensorMapEncodeTiled, tensor_map, 12000),
    QUIRE_FAKE_CUDA(cuGetErrorString, error_string, 6000),
    QUIRE_FAKE_CUDA(cuPointerGetAttribute, pointer_attribute, 4000),
    QUIRE_FAKE_CUDA(cuMemGetAddressRange, address_range, 3020),
    QUIRE_FAKE_CUDA(cuIpcGetMemHandle, ipc_get, 4010),
    QUIRE_FAKE_CUDA(cuIpcOpenMemHandle, ipc_open, 11000),
    QUIRE_FAKE_CUDA(cuIpcCloseMemHandle, ipc_close, 4010),
};
#undef QUIRE_FAKE_CUDA

}  // namespace
}  // namespace quire::fake

// A call that is younger than the version asked for, or than the library, is not there.
extern "C" CUresult cuGetProcAddress_v2(const char* name, void** function, int wanted, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status) {
  *function = nullptr;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (flags != CU_GET_PROC_ADDRESS_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  const int own = quire::fake::version(13000);
  for (const auto& entry : quire::fake::kEntries) {
    if (strcmp(entry.name, name) != 0 || quire::fake::is_without(name)) continue;
    if (entry.since > wanted || entry.since > own || wanted > own) {
      *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      return CUDA_ERROR_NOT_FOUND;
    }
    *function = entry.function;
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

// What programs beside the driver take by name.
extern "C" {
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return quire::fake::device_get(device, ordinal); }
CUresult cuDevicePrimaryCtxRetain(CUcontext* made, CUdevice device) { return quire::fake::primary_retain(made, device); }
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return quire::fake::primary_release(device); }
CUresult cuCtxPushCurrent(CUcontext given) { return quire::fake::push(given); }
CUresult cuCtxPopCurrent(CUcontext* left) { return quire::fake::pop(left); }
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) { return quire::fake::mem_alloc(address, bytes); }
CUresult cuMemFree(CUdeviceptr address) { return quire::fake::mem_free(address); }
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return quire::fake::stream_create(stream, flags); }
CUresult cuStreamDestroy(CUstream stream) { return quire::fake::stream_destroy(stream); }
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  const quire::fake::Call call("cuStreamBeginCapture");
  return call(quire::fake::begin_recording, call.device(), stream);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const quire::fake::Call call("cuStreamEndCapture");
  void* made = nullptr;
  const CUresult code = call(quire::fake::end_recording, call.device(), stream, &made);
  *graph = static_cast<CUgraph>(made);
  return code;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {  // NOLINT(google-runtime-int): cuda.h's
  void* made = nullptr;
  const CUresult code = quire::fake::Call("cuGraphInstantiate")(quire::fake::instantiate, graph, &made);
  *out = static_cast<CUgraphExec>(made);
  return code;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const quire::fake::Call call("cuGraphLaunch");
  return call(quire::fake::launch_graph, call.device(), graph, stream);
}
CUresult cuGraphDestroy(CUgraph graph) { return quire::fake::Call("cuGraphDestroy")(quire::fake::destroy_graph, graph); }
CUresult cuGraphExecDestroy(CUgraphExec graph) { return quire::fake::Call("cuGraphExecDestroy")(quire::fake::destroy_graph, graph); }
}
