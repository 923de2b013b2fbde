#include "drivers/cuda/cuda_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <mutex>

namespace quire::gpu::cuda {
namespace {

struct Opened {
  Library calls;
  bool usable;
  char why[256];
};

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

bool look(GetProcAddress get, const char* name, int version, void* to, CUdriverProcAddressQueryResult* found) {
  void* address = nullptr;
  const CUresult code = get(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, found);
  if (code != CUDA_SUCCESS || *found != CU_GET_PROC_ADDRESS_SUCCESS || address == nullptr) return false;
  memcpy(to, &address, sizeof address);
  return true;
}

bool find(GetProcAddress get, const char* name, void* to, Opened* o) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  if (look(get, name, kPinned, to, &found)) return true;
  std::snprintf(o->why, sizeof o->why, "libcuda.so.1 has no %s of CUDA %d.%d%s", name, kPinned / 1000, kPinned % 1000 / 10,
                found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT ? ": its driver is older" : "");
  return false;
}

bool open(Opened* o) {
  void* module = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::snprintf(o->why, sizeof o->why, "no NVIDIA driver: %s", dlerror());
    return false;
  }
  GetProcAddress get = nullptr;
  void* symbol = dlsym(module, "cuGetProcAddress_v2");
  memcpy(&get, &symbol, sizeof get);
  if (get == nullptr) {
    std::snprintf(o->why, sizeof o->why, "libcuda.so.1 has no cuGetProcAddress_v2: its driver is older than CUDA 12.0");
    return false;
  }
#define QUIRE_CUDA_FIND(call) \
  if (!find(get, #call, &o->calls.call, o)) return false;
  QUIRE_CUDA_CALLS(QUIRE_CUDA_FIND)
#undef QUIRE_CUDA_FIND
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
#define QUIRE_CUDA_LOOK(call, version) look(get, #call, version, &o->calls.call, &found);
  QUIRE_CUDA_OPTIONAL_CALLS(QUIRE_CUDA_LOOK)
#undef QUIRE_CUDA_LOOK
  int count = 0;
  CUresult code = o->calls.cuInit(0);
  int version = 0;
  if (code == CUDA_SUCCESS) code = o->calls.cuDriverGetVersion(&version);
  if (code == CUDA_SUCCESS && CUDA_VERSION >= kManyArguments && version < kManyArguments) {
    std::snprintf(o->why, sizeof o->why, "no NVIDIA driver of CUDA 12.1 or newer: its driver is older, of CUDA %d.%d", version / 1000,
                  version % 1000 / 10);
    return false;
  }
  if (code == CUDA_SUCCESS) code = o->calls.cuDeviceGetCount(&count);
  if (code == CUDA_SUCCESS && count > 0) return true;
  const char* text = nullptr;
  o->calls.cuGetErrorString(code, &text);
  std::snprintf(o->why, sizeof o->why, "no CUDA device: %s (%d), %d devices", text != nullptr ? text : "?", static_cast<int>(code), count);
  return false;
}

}  // namespace

const Library* library(char* why, unsigned long bytes) {
  static Opened opened{};
  static std::once_flag once;
  std::call_once(once, [] { opened.usable = open(&opened); });
  if (opened.usable) return &opened.calls;
  if (bytes != 0) std::snprintf(why, bytes, "%s", opened.why);
  return nullptr;
}

}  // namespace quire::gpu::cuda
