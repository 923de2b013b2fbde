// A runtime whose device is the host: memory is the host's, streams run inline, kernels run as fibers. Devices of it have waves of 32 or of
// 64 lanes, and attention by dot products or by matrix instructions; an instance has the one that the flags of its options name: 1 and 2
// are the waves with dot products, 3 and 4 with matrix instructions, 5 is a wave of 32 with RDNA's, 6 is 3 with products of warpgroups
// wherever they can be, 0 is 1. For tests: it shows that kernels and driver are right, and says nothing of their speed.
#pragma once

#include "drivers/gpu/gpu_runtime.h"

namespace quire::gpu::emulation {

// What an engine does with a stream of its own, which the driver imports: record what is queued instead of running it, then run it as often
// as wanted. While a stream records, it may not be waited for, and memory may not be had or given back, as on a GPU.
void* create_stream();
void destroy_stream(void* stream);
void begin_capture(void* stream);
// False where something not allowed was asked for while it recorded.
bool end_capture(void* stream);
uint64_t captured_launches(void* stream);
// The kernel of one of them.
Kernel captured_kernel(void* stream, uint64_t launch);
void replay(void* stream);

// Makes the next calls of that kind fail: the n-th from now with `code`; 0 = none. kLost ends the device.
inline constexpr int kUnfit = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotAllowed = 3;
inline constexpr int kUnsupported = 801;
inline constexpr int kLost = 700;
void fail_launch(uint32_t nth, int code);

}  // namespace quire::gpu::emulation
