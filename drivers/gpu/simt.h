// What a kernel sees of the machine it runs on: its place in the grid, shared memory, barriers, exchange within a wave. Three back ends:
// CUDA, HIP, and emulation on the host (drivers/gpu/emulation), which compiles the very same kernel units with QUIRE_WAVE lanes to a wave.
//
// A kernel is written once:   QUIRE_GPU_KERNEL(name, Args) { ... uses `a`, an Args ... }
// Every block has kThreads threads. Barriers and exchanges are for all threads of a block or wave: the emulation ends the process where a
// kernel diverges at one.
#pragma once

#include "drivers/common/real.h"

#if defined(__CUDACC__)
#define QUIRE_GPU_CUDA 1
#elif defined(__HIPCC__)
#define QUIRE_GPU_HIP 1
#include <hip/hip_runtime.h>
#else
#define QUIRE_GPU_EMULATION 1
#include "drivers/gpu/emulation/lanes.h"

#include <cmath>
#endif

namespace quire::gpu {

inline constexpr uint32_t kThreads = 128;

#if defined(QUIRE_GPU_EMULATION)

#define QUIRE_GPU_JOINED(width) wave##width
#define QUIRE_GPU_JOIN(width) QUIRE_GPU_JOINED(width)
#define QUIRE_GPU_NAME QUIRE_GPU_JOIN(QUIRE_WAVE)
#define QUIRE_GPU_BEGIN namespace QUIRE_GPU_NAME {
#define QUIRE_GPU_END }
#define QUIRE_GPU_DEVICE inline
#define QUIRE_GPU_KERNEL(name, Args) void name(const Args& a)

QUIRE_GPU_BEGIN
inline constexpr uint32_t kWave = QUIRE_WAVE;
using emulation::block_index;
using emulation::grid_size;
using emulation::shared;
using emulation::thread_index;
inline void sync() { emulation::sync(false); }
// Barrier; whether any thread of the block said so.
inline bool sync_or(bool mine) { return emulation::sync(mine); }
inline float shuffle_xor(float v, uint32_t mask) {
  return drivers::float_of_bits(emulation::exchange(kWave, drivers::bits_of_float(v), thread_index() % kWave ^ mask));
}
inline uint32_t shuffle(uint32_t v, uint32_t lane) { return emulation::exchange(kWave, v, lane); }
inline float exp_of(float x) { return std::exp(x); }
inline float log_of(float x) { return std::log(x); }
inline float tanh_of(float x) { return std::tanh(x); }
inline float inverse_root(float x) { return 1.0f / std::sqrt(x); }
// To two units in the last place; no infinities, no subnormals.
inline float quotient(float x, float y) { return x / y; }

#else

#define QUIRE_GPU_BEGIN
#define QUIRE_GPU_END
#define QUIRE_GPU_DEVICE __device__ inline __attribute__((always_inline))
#if defined(QUIRE_GPU_CUDA)
#define QUIRE_GPU_KERNEL(name, Args) \
  extern "C" __global__ void __launch_bounds__(128, 8) quire_kernel_##name(const __grid_constant__ Args a)
inline constexpr uint32_t kWave = 32;
#else
#define QUIRE_GPU_KERNEL(name, Args) extern "C" __global__ void __launch_bounds__(128) quire_kernel_##name(const Args a)
#if defined(__gfx900__) || defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || \
    defined(__gfx941__) || defined(__gfx942__)
inline constexpr uint32_t kWave = 64;
#else
inline constexpr uint32_t kWave = 32;
#endif
#endif

extern __shared__ __align__(16) char quire_gpu_shared[];

QUIRE_GPU_DEVICE uint32_t thread_index() { return threadIdx.x; }
QUIRE_GPU_DEVICE uint32_t block_index() { return blockIdx.x; }
QUIRE_GPU_DEVICE uint32_t grid_size() { return gridDim.x; }
QUIRE_GPU_DEVICE char* shared() { return quire_gpu_shared; }
QUIRE_GPU_DEVICE void sync() { __syncthreads(); }
QUIRE_GPU_DEVICE bool sync_or(bool mine) { return __syncthreads_or(mine ? 1 : 0) != 0; }
#if defined(QUIRE_GPU_CUDA)
QUIRE_GPU_DEVICE float shuffle_xor(float v, uint32_t mask) { return __shfl_xor_sync(0xffffffffu, v, static_cast<int>(mask)); }
QUIRE_GPU_DEVICE uint32_t shuffle(uint32_t v, uint32_t lane) { return __shfl_sync(0xffffffffu, v, static_cast<int>(lane)); }
#else
QUIRE_GPU_DEVICE float shuffle_xor(float v, uint32_t mask) { return __shfl_xor(v, static_cast<int>(mask), kWave); }
QUIRE_GPU_DEVICE uint32_t shuffle(uint32_t v, uint32_t lane) {
  return static_cast<uint32_t>(__shfl(static_cast<int>(v), static_cast<int>(lane), kWave));
}
#endif
QUIRE_GPU_DEVICE float exp_of(float x) { return expf(x); }
QUIRE_GPU_DEVICE float log_of(float x) { return logf(x); }
QUIRE_GPU_DEVICE float tanh_of(float x) { return tanhf(x); }
QUIRE_GPU_DEVICE float inverse_root(float x) { return 1.0f / sqrtf(x); }
#if defined(QUIRE_GPU_CUDA)
QUIRE_GPU_DEVICE float quotient(float x, float y) { return __fdividef(x, y); }
#else
QUIRE_GPU_DEVICE float quotient(float x, float y) { return x / y; }
#endif

QUIRE_GPU_BEGIN
#endif

// Over all lanes of the wave, in every lane.
QUIRE_GPU_DEVICE float wave_max(float v) {
  for (uint32_t mask = kWave / 2; mask != 0; mask /= 2) {
    const float other = shuffle_xor(v, mask);
    v = other > v ? other : v;
  }
  return v;
}

QUIRE_GPU_DEVICE float wave_sum(float v) {
  for (uint32_t mask = kWave / 2; mask != 0; mask /= 2) v += shuffle_xor(v, mask);
  return v;
}

QUIRE_GPU_END

inline constexpr uint32_t kInfinityBits = 0x7f800000u;
QUIRE_HD float infinity() { return drivers::float_of_bits(kInfinityBits); }

}  // namespace quire::gpu
