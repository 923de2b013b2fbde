// The host's stand-in for what sm_90a has: barriers in shared memory, boxes of tensors, products of warpgroups (drivers/gpu/hopper.h says
// what they are). Addresses in shared memory are those that a device would see: bits that a swizzle or a descriptor takes are the same.
#pragma once

#include "drivers/gpu/boxes.h"

namespace quire::gpu::emulation {

// Where a block's shared memory begins for its threads: not at a multiple of 1024, which kernels must see to themselves.
inline constexpr uint32_t kSharedBase = 1024 + 16;
uint32_t shared_address(const void* p);
// The threads of the caller's warpgroup meet.
void warpgroup_sync();

void barrier_init(uint64_t* b, uint32_t arrivals);
void barrier_arrive(uint64_t* b, uint32_t bytes);
void barrier_wait(uint64_t* b, uint32_t parity);

// False where the driver would refuse the shape.
bool make_map(const BoxShape& shape, TensorMap* map);
void load_box(void* to, const TensorMap* map, uint64_t* barrier, const uint32_t* from);
// Whether boxes come at once instead of when their barrier is awaited. For tests; all threads.
void boxes_come_at_once(bool at_once);

struct Product {
  float* d;
  const uint32_t* a;  // registers, or NULL: then `left`
  uint64_t left, right;
  uint32_t n;
  bool half;
  bool columns;
  bool add;
};
void products_begin();
void products_commit();
void products_await(uint32_t open);
void multiply_group(const Product& product);

// For the fibers' scheduler. Around a block; whether a wait has ended, which lets boxes come; the end of a wait of all of a warpgroup,
// once.
void begin_block();
void end_block();
bool phase_ended(uint64_t* b, uint32_t parity);

}  // namespace quire::gpu::emulation
