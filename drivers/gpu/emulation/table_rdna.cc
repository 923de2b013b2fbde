// The kernels of waves of 32 lanes, those of matrix instructions compiled for RDNA's (QUIRE_GPU_RDNA).
#include "drivers/gpu/emulation/lanes.h"
#include "drivers/gpu/gpu_kernels.h"

#include <algorithm>
#include <array>

namespace quire::gpu {
namespace rdna {
#define QUIRE_GPU_DECLARE(name, real, tiles, mixed, blocks) void name(const AttentionArgs& a);
QUIRE_GPU_MATRIX_KERNELS(QUIRE_GPU_DECLARE)
#undef QUIRE_GPU_DECLARE
}  // namespace rdna

namespace emulation {

const Entry* kernels_of_wave32();

const Entry* kernels_of_rdna() {
  static const std::array<Entry, kKernelCount> kEntries = [] {
    std::array<Entry, kKernelCount> made{};
    std::copy_n(kernels_of_wave32(), kKernelCount, made.begin());
#define QUIRE_GPU_ENTRY(name, real, tiles, mixed, blocks) \
  made[static_cast<uint32_t>(Kernel::name)] = [](const void* a) { rdna::name(*static_cast<const AttentionArgs*>(a)); };
    QUIRE_GPU_MATRIX_KERNELS(QUIRE_GPU_ENTRY)
#undef QUIRE_GPU_ENTRY
    return made;
  }();
  return kEntries.data();
}

}  // namespace emulation
}  // namespace quire::gpu
