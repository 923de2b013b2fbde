// libcuda, opened at run time: the calls this driver makes, each asked for by cuGetProcAddress at one pinned version of CUDA.
#pragma once

#include <cuda.h>

namespace quire::gpu::cuda {

inline constexpr int kPinned = 12000;  // signatures of CUDA 12.0; newer libraries keep them
// From here on launches take 32 KiB of arguments, and kernels are built so that do.
inline constexpr int kManyArguments = 12010;

// The names are macros of cuda.h: as a type the newest variant's, as text the plain name that cuGetProcAddress wants.
// One list, whose lines would be joined anew every time.
// clang-format off
#define QUIRE_CUDA_CALLS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) \
  X(cuDeviceTotalMem) X(cuDeviceGetAttribute) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuMemGetInfo) X(cuMemAlloc) \
  X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamQuery) X(cuStreamSynchronize) \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuStreamWaitEvent) X(cuEventQuery) X(cuEventSynchronize) X(cuMemcpyAsync) \
  X(cuMemsetD8Async) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernel) \
  X(cuGetErrorString) X(cuPointerGetAttribute)
// clang-format on

// Calls that a library may lack, each with the version that its signature is of; NULL where it does.
#if CUDA_VERSION >= 13000
#define QUIRE_CUDA_NEWER_CALLS(X) X(cuMemcpyBatchAsync, 13000)
#else
#define QUIRE_CUDA_NEWER_CALLS(X)
#endif
// clang-format off
#define QUIRE_CUDA_OPTIONAL_CALLS(X) \
  X(cuIpcGetMemHandle, kPinned) X(cuIpcOpenMemHandle, kPinned) X(cuIpcCloseMemHandle, kPinned) X(cuMemGetAddressRange, kPinned) \
  X(cuStreamIsCapturing, kPinned) X(cuTensorMapEncodeTiled, kPinned) QUIRE_CUDA_NEWER_CALLS(X)
// clang-format on

struct Library {
#define QUIRE_CUDA_MEMBER(call) decltype(&::call) call;  // NOLINT(bugprone-macro-parentheses): a name
  QUIRE_CUDA_CALLS(QUIRE_CUDA_MEMBER)
#define QUIRE_CUDA_OPTIONAL_MEMBER(call, version) QUIRE_CUDA_MEMBER(call)
  QUIRE_CUDA_OPTIONAL_CALLS(QUIRE_CUDA_OPTIONAL_MEMBER)
#undef QUIRE_CUDA_OPTIONAL_MEMBER
#undef QUIRE_CUDA_MEMBER
};

// The library, initialised; NULL with a sentence in `why` where it is absent, too old or finds no GPU. Opened once; any thread.
const Library* library(char* why, unsigned long bytes);

}  // namespace quire::gpu::cuda
