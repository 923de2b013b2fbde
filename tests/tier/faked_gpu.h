// What tests of tiers tell the library that stands in for a GPU's.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace quire::test {

template <typename Call>
Call* of_fake(const char* name) {
  for (const char* file : {"libcuda.so.1", "libamdhip64.so.7"}) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const symbol = dlsym(library, name);
    dlclose(library);
    if (symbol != nullptr) return reinterpret_cast<Call*>(symbol);
  }
  std::fprintf(stderr, "no fake of a GPU's library is loaded\n");
  std::abort();
}
// The n-th call of that name from now on fails: 2 without more, 700 with the device.
inline void fail_call(const char* cuda, const char* hip, uint32_t nth, int code) {
  const bool is_cuda = std::string(std::getenv("QUIRE_TIER_DRIVER")) == "cuda";
  of_fake<void(const char*, uint32_t, int)>("quire_fake_fail")(is_cuda ? cuda : hip, nth, code);
}
inline void fail_launch(uint32_t nth, int code) {  //
  fail_call("cuLaunchKernel", "hipModuleLaunchKernel", nth, code);
}
inline void fail_pinned(uint32_t nth) { fail_call("cuMemHostAlloc", "hipHostMalloc", nth, 2); }
inline void hold(bool held) { of_fake<void(int)>("quire_fake_hold")(held ? 1 : 0); }
inline void revive() { of_fake<void()>("quire_fake_revive")(); }

// Calls so far.
inline uint64_t pinned() {
  const bool is_cuda = std::string(std::getenv("QUIRE_TIER_DRIVER")) == "cuda";
  const char* const name = is_cuda ? "cuMemHostAlloc" : "hipHostMalloc";
  return of_fake<uint64_t(const char*)>("quire_fake_calls")(name);
}
inline int64_t alive() { return of_fake<int64_t()>("quire_fake_alive")(); }

}  // namespace quire::test
