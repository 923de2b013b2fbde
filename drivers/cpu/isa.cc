// Which kernels this processor can run.
#include "drivers/cpu/cpu_kernels.h"

#include <quire/driver.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quire::cpu {
namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool has_bf16() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __builtin_cpu_supports("avx512vbmi") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
}
#endif

}  // namespace

const Kernels* find_kernels(uint32_t wanted) {
#if defined(__x86_64__)
  if ((wanted == 0 || wanted == QUIRE_DRIVER_KERNELS_AMX) && has_bf16() && tiles_permitted()) return &kKernelsAmx;
  if ((wanted == 0 || wanted == QUIRE_DRIVER_KERNELS_AVX512_BF16) && has_bf16()) return &kKernelsBf16;
  if ((wanted == 0 || wanted == QUIRE_DRIVER_KERNELS_AVX512) && has_avx512()) return &kKernelsAvx512;
  if ((wanted == 0 || wanted == QUIRE_DRIVER_KERNELS_AVX2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return &kKernelsAvx2;
  }
#endif
  return wanted == 0 || wanted == QUIRE_DRIVER_KERNELS_PORTABLE ? &kKernelsPortable : nullptr;
}

}  // namespace quire::cpu
