// A libamdhip64 without a GPU: the calls that drivers/rocm makes. The thread's device must be the one that a handle is of.
#include "tests/kernels/fake_gpu/fake.h"

#include "drivers/rocm/rocm_library.h"

#include <cstdio>
#include <cstring>

namespace quire::fake {
namespace {

thread_local int current_device = 0;

template <typename Made, typename... Args>
hipError_t call(const char* name, Made made, Args... args) {
  const int code = enter(name);
  return static_cast<hipError_t>(code != kOk ? code : made(args...));
}

uint32_t wave() { return strncmp(architecture("gfx90a"), "gfx9", 4) == 0 ? 64 : 32; }

// Whether the code for that architecture has matrix instructions. There is code for gfx9 and gfx10 alone.
bool is_matrix() {
  const char* name = architecture("gfx90a");
  return strcmp(name, "gfx90a") == 0 || strncmp(name, "gfx94", 5) == 0;
}
bool has_code() { return strncmp(architecture("gfx90a"), "gfx9", 4) == 0 || strncmp(architecture("gfx90a"), "gfx10", 5) == 0; }

const uint32_t kMatrixSaid[] = {0, 1};  // what the modules' variable holds, in "device memory"

}  // namespace
}  // namespace quire::fake

using namespace quire::fake;  // NOLINT(google-build-using-namespace): the calls below are C's

#define QUIRE_FAKE_HIP extern "C" hipError_t

QUIRE_FAKE_HIP hipInit(unsigned) { return static_cast<hipError_t>(num_devices() == 0 ? kNoDevice : enter_any("hipInit")); }
QUIRE_FAKE_HIP hipGetDeviceCount(int* count) {
  *count = num_devices();
  return static_cast<hipError_t>(enter_any("hipGetDeviceCount"));
}
QUIRE_FAKE_HIP hipDeviceGetName(char* name, int bytes, hipDevice_t device) {
  std::snprintf(name, static_cast<size_t>(bytes), "Fake %s %d", architecture("gfx90a"), device);
  return static_cast<hipError_t>(enter("hipDeviceGetName"));
}
QUIRE_FAKE_HIP hipDeviceGetAttribute(int* value, hipDeviceAttribute_t what, int) {
  switch (what) {
    case hipDeviceAttributeMultiprocessorCount:
      *value = 6;
      break;
    case hipDeviceAttributeWarpSize:
      *value = static_cast<int>(wave());
      break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      *value = 64 << 10;
      break;
    default:
      return hipErrorInvalidValue;
  }
  return static_cast<hipError_t>(enter("hipDeviceGetAttribute"));
}
QUIRE_FAKE_HIP hipSetDevice(int device) {
  const int code = enter_any("hipSetDevice");
  if (code != kOk) return static_cast<hipError_t>(code);
  if (device < 0 || device >= num_devices()) return hipErrorInvalidDevice;
  current_device = device;
  return hipSuccess;
}
QUIRE_FAKE_HIP hipGetDevice(int* device) {
  *device = current_device;
  return static_cast<hipError_t>(enter_any("hipGetDevice"));
}
QUIRE_FAKE_HIP hipMemGetInfo(size_t* available, size_t* total) {
  memory_info(available, total);
  return static_cast<hipError_t>(enter("hipMemGetInfo"));
}
QUIRE_FAKE_HIP hipMalloc(void** address, size_t bytes) { return call("hipMalloc", allocate, current_device, bytes, false, address); }
QUIRE_FAKE_HIP hipFree(void* address) { return call("hipFree", release, address, false); }
QUIRE_FAKE_HIP hipHostMalloc(void** address, size_t bytes, unsigned flags) {
  if (flags != hipHostMallocPortable) return hipErrorInvalidValue;
  return call("hipHostMalloc", allocate, current_device, bytes, true, address);
}
QUIRE_FAKE_HIP hipHostFree(void* address) { return call("hipHostFree", release, address, true); }
QUIRE_FAKE_HIP hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  if (flags != hipStreamNonBlocking) return hipErrorInvalidValue;
  void* made = nullptr;
  const hipError_t code = call("hipStreamCreateWithFlags", create_stream, current_device, &made);
  *stream = static_cast<hipStream_t>(made);
  return code;
}
QUIRE_FAKE_HIP hipStreamDestroy(hipStream_t stream) { return call("hipStreamDestroy", destroy_stream, current_device, stream); }
QUIRE_FAKE_HIP hipStreamQuery(hipStream_t stream) { return call("hipStreamQuery", query_stream, current_device, stream); }
QUIRE_FAKE_HIP hipStreamSynchronize(hipStream_t stream) { return call("hipStreamSynchronize", synchronize_stream, current_device, stream); }
QUIRE_FAKE_HIP hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  if (flags != hipEventDisableTiming) return hipErrorInvalidValue;
  void* made = nullptr;
  const hipError_t code = call("hipEventCreateWithFlags", create_event, current_device, &made);
  *event = static_cast<hipEvent_t>(made);
  return code;
}
QUIRE_FAKE_HIP hipEventDestroy(hipEvent_t event) { return call("hipEventDestroy", destroy_event, current_device, event); }
QUIRE_FAKE_HIP hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return call("hipEventRecord", record_event, current_device, event, stream);
}
QUIRE_FAKE_HIP hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  return call("hipStreamWaitEvent", wait_event, current_device, event, stream);
}
QUIRE_FAKE_HIP hipEventQuery(hipEvent_t event) { return call("hipEventQuery", query_event, current_device, event); }
QUIRE_FAKE_HIP hipEventSynchronize(hipEvent_t event) { return call("hipEventSynchronize", synchronize_event, current_device, event); }
QUIRE_FAKE_HIP hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  if (kind != hipMemcpyDefault) return hipErrorInvalidValue;
  return call("hipMemcpyAsync", queue_copy, current_device, stream, to, from, bytes);
}
QUIRE_FAKE_HIP hipMemsetAsync(void* to, int value, size_t bytes, hipStream_t stream) {
  return call("hipMemsetAsync", queue_fill, current_device, stream, to, static_cast<uint8_t>(value), bytes);
}
QUIRE_FAKE_HIP hipModuleLoadData(hipModule_t* module, const void* image) {
  if (!has_code()) return hipErrorNoBinaryForGpu;
  void* made = nullptr;
  const hipError_t code = call("hipModuleLoadData", load_module, current_device, image, &made);
  if (code == hipSuccess) *module = static_cast<hipModule_t>(made);
  return code;
}
QUIRE_FAKE_HIP hipModuleUnload(hipModule_t module) { return call("hipModuleUnload", unload_module, current_device, module); }
QUIRE_FAKE_HIP hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  void* found = nullptr;
  const hipError_t code = call("hipModuleGetFunction", find_function, module, name, &found);
  *function = static_cast<hipFunction_t>(found);
  return code;
}
// One unit has the variable that says whether there are matrix kernels.
QUIRE_FAKE_HIP hipModuleGetGlobal(hipDeviceptr_t* address, size_t* bytes, hipModule_t module, const char* name) {
  uint32_t number = 0;
  const hipError_t code = call("hipModuleGetGlobal", number_of_module, module, &number);
  if (code != hipSuccess) return code;
  if (number != 1 || strcmp(name, "quire_gpu_matrix") != 0) return hipErrorNotFound;
  *address = const_cast<uint32_t*>(&kMatrixSaid[is_matrix() ? 1 : 0]);  // not written
  *bytes = sizeof(uint32_t);
  return hipSuccess;
}
QUIRE_FAKE_HIP hipMemcpyDtoH(void* to, hipDeviceptr_t from, size_t bytes) {
  const int code = enter("hipMemcpyDtoH");
  if (code != kOk) return static_cast<hipError_t>(code);
  if (from == &kMatrixSaid[0] || from == &kMatrixSaid[1]) {
    memcpy(to, from, bytes);
    return hipSuccess;
  }
  return static_cast<hipError_t>(read_now(to, from, bytes));
}
QUIRE_FAKE_HIP hipModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                                     unsigned threads_z, unsigned shared, hipStream_t stream, void** parameters, void** extra) {
  if (extra != nullptr) return hipErrorInvalidValue;
  const Grid grid = {{x, y, z}, {threads_x, threads_y, threads_z}, shared};
  set_shared(function, 64 << 10);  // HIP has no limit to raise
  return call("hipModuleLaunchKernel", launch, current_device, stream, function, grid, wave(), parameters);
}
extern "C" const char* hipGetErrorString(hipError_t code) {
  switch (code) {
    case hipSuccess:
      return "hipSuccess";
    case hipErrorNoDevice:
      return "hipErrorNoDevice";
    case hipErrorOutOfMemory:
      return "hipErrorOutOfMemory";
    case hipErrorIllegalAddress:
      return "hipErrorIllegalAddress";
    case hipErrorNoBinaryForGpu:
      return "hipErrorNoBinaryForGpu";
    default:
      return "hipErrorUnknown";
  }
}
QUIRE_FAKE_HIP hipPointerGetAttribute(void* data, hipPointer_attribute what, hipDeviceptr_t address) {
  const int code = enter("hipPointerGetAttribute");
  if (code != kOk) return static_cast<hipError_t>(code);
  const int place = place_of(address);
  if (what != HIP_POINTER_ATTRIBUTE_MEMORY_TYPE || place == 0) return hipErrorInvalidValue;
#if defined(QUIRE_FAKE_HIP_5)
  const int type = place - 1;
#else
  const int type = place;
#endif
  memcpy(data, &type, sizeof type);
  return hipSuccess;
}
#if !defined(QUIRE_FAKE_HIP_5)  // an old one without what drivers may lack
QUIRE_FAKE_HIP hipMemGetAddressRange(hipDeviceptr_t* base, size_t* bytes, hipDeviceptr_t address) {
  return call("hipMemGetAddressRange", range_of, address, base, bytes);
}
QUIRE_FAKE_HIP hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* base) {
  Handle made;
  const hipError_t code = call("hipIpcGetMemHandle", export_memory, base, &made);
  if (code == hipSuccess) memcpy(handle, &made, sizeof made);
  return code;
}
QUIRE_FAKE_HIP hipIpcOpenMemHandle(void** base, hipIpcMemHandle_t handle, unsigned flags) {
  if (flags != hipIpcMemLazyEnablePeerAccess) return hipErrorInvalidValue;
  Handle given;
  memcpy(&given, &handle, sizeof given);
  return call("hipIpcOpenMemHandle", [&] { return import_memory(current_device, given, base); });
}
QUIRE_FAKE_HIP hipIpcCloseMemHandle(void* base) { return call("hipIpcCloseMemHandle", close_memory, base); }
#endif
QUIRE_FAKE_HIP hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode) {
  return call("hipStreamBeginCapture", begin_recording, current_device, stream);
}
QUIRE_FAKE_HIP hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  void* made = nullptr;
  const hipError_t code = call("hipStreamEndCapture", end_recording, current_device, stream, &made);
  *graph = static_cast<hipGraph_t>(made);
  return code;
}
QUIRE_FAKE_HIP hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  void* made = nullptr;
  const hipError_t code = call("hipGraphInstantiate", instantiate, graph, &made);
  *out = static_cast<hipGraphExec_t>(made);
  return code;
}
QUIRE_FAKE_HIP hipGraphLaunch(hipGraphExec_t graph, hipStream_t stream) {
  return call("hipGraphLaunch", launch_graph, current_device, graph, stream);
}
QUIRE_FAKE_HIP hipGraphDestroy(hipGraph_t graph) { return call("hipGraphDestroy", destroy_graph, graph); }
QUIRE_FAKE_HIP hipGraphExecDestroy(hipGraphExec_t graph) { return call("hipGraphExecDestroy", destroy_graph, graph); }
