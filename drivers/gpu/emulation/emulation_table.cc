// The kernels compiled with waves of QUIRE_WAVE lanes, by number.
#include "drivers/gpu/emulation/lanes.h"
#include "drivers/gpu/gpu_kernels.h"

#include <array>

#define QUIRE_GPU_TABLE_(wave) kernels_of_wave##wave
#define QUIRE_GPU_TABLE(wave) QUIRE_GPU_TABLE_(wave)

namespace quire::gpu {
QUIRE_GPU_BEGIN
#define QUIRE_GPU_DECLARE(name, Args) void name(const Args& a);
QUIRE_GPU_KERNELS(QUIRE_GPU_DECLARE)
#undef QUIRE_GPU_DECLARE
QUIRE_GPU_END

namespace emulation {

const Entry* QUIRE_GPU_TABLE(QUIRE_WAVE)() {
#define QUIRE_GPU_ENTRY(name, Args) [](const void* a) { QUIRE_GPU_NAME::name(*static_cast<const Args*>(a)); },
  static constexpr std::array<Entry, kKernelCount> kEntries = {QUIRE_GPU_KERNELS(QUIRE_GPU_ENTRY)};
#undef QUIRE_GPU_ENTRY
  return kEntries.data();
}

}  // namespace emulation
}  // namespace quire::gpu
