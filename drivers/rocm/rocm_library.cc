#include "drivers/rocm/rocm_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <mutex>

namespace quire::gpu::rocm {
namespace {

struct Opened {
  Library calls;
  bool usable;
  char why[256];
};

bool open(Opened* o) {
  void* module = nullptr;
  for (int major = 7; major >= 5 && module == nullptr; --major) {
    char name[32];
    std::snprintf(name, sizeof name, "libamdhip64.so.%d", major);
    module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    o->calls.major = major;
  }
  if (module == nullptr) {
    std::snprintf(o->why, sizeof o->why, "no AMD driver: %s", dlerror());
    return false;
  }
#define QUIRE_HIP_FIND(call)                                                             \
  if (void* address = dlsym(module, #call); address != nullptr) {                        \
    memcpy(&o->calls.call, &address, sizeof address);                                    \
  } else {                                                                               \
    std::snprintf(o->why, sizeof o->why, "no AMD driver: libamdhip64 has no %s", #call); \
    return false;                                                                        \
  }
  QUIRE_HIP_CALLS(QUIRE_HIP_FIND)
#undef QUIRE_HIP_FIND
#define QUIRE_HIP_LOOK(call) \
  if (void* address = dlsym(module, #call); address != nullptr) memcpy(&o->calls.call, &address, sizeof address);
  QUIRE_HIP_OPTIONAL_CALLS(QUIRE_HIP_LOOK)
#undef QUIRE_HIP_LOOK
  int count = 0;
  hipError_t code = o->calls.hipInit(0);
  if (code == hipSuccess) code = o->calls.hipGetDeviceCount(&count);
  if (code == hipSuccess && count > 0) return true;
  std::snprintf(o->why, sizeof o->why, "no HIP device: %s (%d), %d devices", o->calls.hipGetErrorString(code), static_cast<int>(code),
                count);
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

}  // namespace quire::gpu::rocm
