// libamdhip64, opened at run time: the calls this driver makes, all with one signature since ROCm 5. hipDeviceProp_t is never used: it has
// changed its layout under an unchanged name.
#pragma once

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1  // NOLINT(bugprone-reserved-identifier): what the header asks for
#endif
#include <hip/hip_runtime_api.h>

namespace quire::gpu::rocm {

// One list, whose lines would be joined anew every time.
// clang-format off
#define QUIRE_HIP_CALLS(X) \
  X(hipInit) X(hipGetDeviceCount) X(hipDeviceGetName) X(hipDeviceGetAttribute) X(hipSetDevice) X(hipGetDevice) X(hipMemGetInfo) \
  X(hipMalloc) X(hipFree) X(hipHostMalloc) X(hipHostFree) X(hipStreamCreateWithFlags) X(hipStreamDestroy) X(hipStreamQuery) \
  X(hipStreamSynchronize) X(hipEventCreateWithFlags) X(hipEventDestroy) X(hipEventRecord) X(hipStreamWaitEvent) X(hipEventQuery) \
  X(hipEventSynchronize) X(hipMemcpyAsync) X(hipMemsetAsync) X(hipModuleLoadData) X(hipModuleUnload) X(hipModuleGetFunction) \
  X(hipModuleLaunchKernel) X(hipGetErrorString) X(hipPointerGetAttribute) X(hipModuleGetGlobal) \
  X(hipMemcpyDtoH)
// clang-format on

// Calls that a library may lack; NULL where it does.
// clang-format off
#define QUIRE_HIP_OPTIONAL_CALLS(X) \
  X(hipIpcGetMemHandle) X(hipIpcOpenMemHandle) X(hipIpcCloseMemHandle) X(hipMemGetAddressRange)
// clang-format on

// Signatures written out where the header overloads a name.
struct Signatures {
  using hipInit = hipError_t(unsigned);
  using hipGetDeviceCount = hipError_t(int*);
  using hipDeviceGetName = hipError_t(char*, int, hipDevice_t);
  using hipDeviceGetAttribute = hipError_t(int*, hipDeviceAttribute_t, int);
  using hipSetDevice = hipError_t(int);
  using hipGetDevice = hipError_t(int*);
  using hipMemGetInfo = hipError_t(size_t*, size_t*);
  using hipMalloc = hipError_t(void**, size_t);
  using hipFree = hipError_t(void*);
  using hipHostMalloc = hipError_t(void**, size_t, unsigned);
  using hipHostFree = hipError_t(void*);
  using hipStreamCreateWithFlags = hipError_t(hipStream_t*, unsigned);
  using hipStreamDestroy = hipError_t(hipStream_t);
  using hipStreamQuery = hipError_t(hipStream_t);
  using hipStreamSynchronize = hipError_t(hipStream_t);
  using hipEventCreateWithFlags = hipError_t(hipEvent_t*, unsigned);
  using hipEventDestroy = hipError_t(hipEvent_t);
  using hipEventRecord = hipError_t(hipEvent_t, hipStream_t);
  using hipStreamWaitEvent = hipError_t(hipStream_t, hipEvent_t, unsigned);
  using hipEventQuery = hipError_t(hipEvent_t);
  using hipEventSynchronize = hipError_t(hipEvent_t);
  using hipMemcpyAsync = hipError_t(void*, const void*, size_t, hipMemcpyKind, hipStream_t);
  using hipMemsetAsync = hipError_t(void*, int, size_t, hipStream_t);
  using hipModuleLoadData = hipError_t(hipModule_t*, const void*);
  using hipModuleUnload = hipError_t(hipModule_t);
  using hipModuleGetFunction = hipError_t(hipFunction_t*, hipModule_t, const char*);
  using hipModuleLaunchKernel = hipError_t(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, hipStream_t,
                                           void**, void**);
  using hipGetErrorString = const char*(hipError_t);
  using hipPointerGetAttribute = hipError_t(void*, hipPointer_attribute, hipDeviceptr_t);
  using hipModuleGetGlobal = hipError_t(hipDeviceptr_t*, size_t*, hipModule_t, const char*);
  using hipMemcpyDtoH = hipError_t(void*, hipDeviceptr_t, size_t);
  using hipIpcGetMemHandle = hipError_t(hipIpcMemHandle_t*, void*);
  using hipIpcOpenMemHandle = hipError_t(void**, hipIpcMemHandle_t, unsigned);
  using hipIpcCloseMemHandle = hipError_t(void*);
  using hipMemGetAddressRange = hipError_t(hipDeviceptr_t*, size_t*, hipDeviceptr_t);
};

struct Library {
#define QUIRE_HIP_MEMBER(call) Signatures::call* call;
  QUIRE_HIP_CALLS(QUIRE_HIP_MEMBER)
  QUIRE_HIP_OPTIONAL_CALLS(QUIRE_HIP_MEMBER)
#undef QUIRE_HIP_MEMBER
  int major;  // of the library's name
};

// The library, initialised; NULL with a sentence in `why` where it is absent, lacks a call or finds no GPU. Opened once; any thread.
const Library* library(char* why, unsigned long bytes);

}  // namespace quire::gpu::rocm
