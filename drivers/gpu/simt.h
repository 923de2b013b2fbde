// What a kernel sees of the machine it runs on: its place in the grid, shared memory, barriers, exchange within a wave. Three back ends:
// CUDA, HIP, and emulation on the host (drivers/gpu/emulation), which compiles the very same kernel units with QUIRE_WAVE lanes to a wave.
//
// A kernel is written once:   QUIRE_GPU_KERNEL(name, Args) { ... uses `a`, an Args ... }
// Every block has kThreads threads, unless the kernel names another number. Barriers and exchanges are for all threads of a block or wave:
// the emulation ends the process where a kernel diverges at one.
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

// What a thread moves at a time, where addresses allow it.
struct alignas(16) Sixteen {
  uint32_t word[4];
};

#if defined(QUIRE_GPU_EMULATION)

#define QUIRE_GPU_JOINED(width) wave##width
#define QUIRE_GPU_JOIN(width) QUIRE_GPU_JOINED(width)
#if defined(QUIRE_GPU_RDNA)  // waves of 32 whose matrix instructions are AMD's
#define QUIRE_GPU_NAME rdna
#else
#define QUIRE_GPU_NAME QUIRE_GPU_JOIN(QUIRE_WAVE)
#endif
#define QUIRE_GPU_BEGIN namespace QUIRE_GPU_NAME {
#define QUIRE_GPU_END }
#define QUIRE_GPU_DEVICE inline
#define QUIRE_GPU_UNROLL
#define QUIRE_GPU_UNROLL_BY(n)
#define QUIRE_GPU_KERNEL(name, Args) void name(const Args& a)
#define QUIRE_GPU_KERNEL_WIDE(name, Args, blocks) void name(const Args& a)
#define QUIRE_GPU_KERNEL_SIZED(name, Args, threads, blocks) void name(const Args& a)

QUIRE_GPU_BEGIN
inline constexpr uint32_t kWave = QUIRE_WAVE;
using emulation::block_index;
using emulation::grid_size;
using emulation::shared;
using emulation::thread_index;
[[noreturn]] inline void trap() { __builtin_trap(); }
inline void sync() { emulation::sync(false); }
// Barrier; whether any thread of the block said so.
inline bool sync_or(bool mine) { return emulation::sync(mine); }
inline float shuffle_xor(float v, uint32_t mask) {
  return drivers::float_of_bits(emulation::exchange(kWave, drivers::bits_of_float(v), thread_index() % kWave ^ mask));
}
inline uint32_t shuffle(uint32_t v, uint32_t lane) { return emulation::exchange(kWave, v, lane); }
// What the lanes of a wave have read and written in shared memory, before what any of them does
// next.
inline void sync_wave() { emulation::exchange(kWave, 0, 0); }
// The larger; where x is no number, y, which is one.
inline float larger(float x, float y) { return x > y ? x : y; }
inline float exp_of(float x) { return std::exp(x); }
template <typename T>
inline T fresh(T x) {
  return x;
}
inline float log_of(float x) { return std::log(x); }
inline float tanh_of(float x) { return std::tanh(x); }
inline float inverse_root(float x) { return 1.0f / std::sqrt(x); }
// To two units in the last place; no infinities, no subnormals.
inline float quotient(float x, float y) { return x / y; }
inline float exp2_of(float x) { return std::exp2(x); }
inline float log2_of(float x) { return std::log2(x); }
// 16 bytes into shared memory, at multiples of 16 bytes; `from` is not read where not wanted, zeros come instead. Copies between two
// commits are a group; await_copies<n> returns when the thread's groups but the last n are there, for itself: others need a barrier.
inline void copy_async(void* to, const void* from, bool wanted) { emulation::copy_async(to, wanted ? from : nullptr); }
inline void commit_copies() { emulation::commit_copies(); }
template <uint32_t kOpen>
inline void await_copies() {
  emulation::await_copies(kOpen);
}

#else

#define QUIRE_GPU_BEGIN
#define QUIRE_GPU_END
#define QUIRE_GPU_DEVICE __device__ inline __attribute__((always_inline))
#define QUIRE_GPU_UNROLL _Pragma("unroll")  // so that what a loop indexes stays in registers
#define QUIRE_GPU_PRAGMA(text) _Pragma(#text)
#define QUIRE_GPU_UNROLL_BY(n) QUIRE_GPU_PRAGMA(unroll n)  // so that so many loads are on their way
#if defined(QUIRE_GPU_CUDA)
// `blocks`: how many of them a multiprocessor should hold; what registers a thread may have follows.
#define QUIRE_GPU_KERNEL_SIZED(name, Args, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) quire_kernel_##name(const __grid_constant__ Args a)
#define QUIRE_GPU_KERNEL_WIDE(name, Args, blocks) QUIRE_GPU_KERNEL_SIZED(name, Args, 128, blocks)
#define QUIRE_GPU_KERNEL(name, Args) QUIRE_GPU_KERNEL_WIDE(name, Args, 8)
inline constexpr uint32_t kWave = 32;
#else
#define QUIRE_GPU_KERNEL(name, Args) extern "C" __global__ void __launch_bounds__(128) quire_kernel_##name(const Args a)
#define QUIRE_GPU_KERNEL_WIDE(name, Args, blocks) QUIRE_GPU_KERNEL(name, Args)
#define QUIRE_GPU_KERNEL_SIZED(name, Args, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads) quire_kernel_##name(const Args a)
#if defined(__GFX9__)  // all of gfx9, which are the ones with waves of 64 alone
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
#if defined(QUIRE_GPU_CUDA)
QUIRE_GPU_DEVICE void trap() { asm volatile("trap;"); }
#else
QUIRE_GPU_DEVICE void trap() { __builtin_trap(); }
#endif
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
#if defined(QUIRE_GPU_CUDA)
QUIRE_GPU_DEVICE void sync_wave() { __syncwarp(); }
#else
QUIRE_GPU_DEVICE void sync_wave() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}
#endif
QUIRE_GPU_DEVICE float larger(float x, float y) { return fmaxf(x, y); }
QUIRE_GPU_DEVICE float exp_of(float x) { return expf(x); }
QUIRE_GPU_DEVICE float log_of(float x) { return logf(x); }
QUIRE_GPU_DEVICE float tanh_of(float x) { return tanhf(x); }
QUIRE_GPU_DEVICE float inverse_root(float x) { return 1.0f / sqrtf(x); }
#if defined(QUIRE_GPU_CUDA)
QUIRE_GPU_DEVICE float quotient(float x, float y) { return __fdividef(x, y); }
QUIRE_GPU_DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
QUIRE_GPU_DEVICE void copy_async(void* to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from),
               "r"(wanted ? 16 : 0)
               : "memory");
}
QUIRE_GPU_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <uint32_t kOpen>
QUIRE_GPU_DEVICE void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}
#else
QUIRE_GPU_DEVICE float quotient(float x, float y) { return x / y; }
QUIRE_GPU_DEVICE float exp2_of(float x) { return exp2f(x); }
QUIRE_GPU_DEVICE void copy_async(void* to, const void* from, bool wanted) {
  uint4 x = {0, 0, 0, 0};
  if (wanted) x = *static_cast<const uint4*>(from);
  *static_cast<uint4*>(to) = x;
}
QUIRE_GPU_DEVICE void commit_copies() {}
template <uint32_t kOpen>
QUIRE_GPU_DEVICE void await_copies() {}
#endif
QUIRE_GPU_DEVICE float log2_of(float x) { return log2f(x); }

// The same, of which the compiler knows nothing: what follows from it is computed where it is used,
// not before a loop and kept in registers meanwhile.
#if defined(QUIRE_GPU_CUDA)
#define QUIRE_GPU_FRESH(type, of_cuda)  \
  QUIRE_GPU_DEVICE type fresh(type x) { \
    asm volatile("" : "+" of_cuda(x));  \
    return x;                           \
  }
#else
#define QUIRE_GPU_FRESH(type, of_cuda)  \
  QUIRE_GPU_DEVICE type fresh(type x) { \
    asm volatile("" : "+v"(x));         \
    return x;                           \
  }
#endif
QUIRE_GPU_FRESH(float, "f")
QUIRE_GPU_FRESH(uint32_t, "r")
QUIRE_GPU_FRESH(int64_t, "l")
#undef QUIRE_GPU_FRESH

QUIRE_GPU_BEGIN
#endif

// Over all lanes of the wave, in every lane.
QUIRE_GPU_DEVICE float wave_max(float v) {
  for (uint32_t mask = kWave / 2; mask != 0; mask /= 2) {
    v = larger(shuffle_xor(v, mask), v);
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
