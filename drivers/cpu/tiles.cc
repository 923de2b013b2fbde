// Whether AMX tiles can be used: the processor has them, the system keeps their state across threads, and this process may use it.
#include "drivers/cpu/cpu_kernels.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quire::cpu {
namespace {

constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr long kTileData = 18;               // its bit in XCR0; 17 is the configuration's

bool processor_has() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  constexpr uint32_t kOsXsave = 1u << 27;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kOsXsave) != 0;
}

bool system_saves() {
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

}  // namespace

bool tiles_permitted() { return processor_has() && system_saves() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0; }

}  // namespace quire::cpu
