// Boxes of paged tensors as a copy engine brings them: what the host tells the driver, and what the driver makes of it.
#pragma once

#include <cstdint>

namespace quire::gpu {

// A paged side as the copy engine sees it: elements, tokens of a page, heads, pages.
struct BoxShape {
  const void* base;
  uint64_t size[4];
  uint64_t stride[3];  // bytes; of tokens, heads, pages
  uint32_t box[4];     // elements that come at a time
  bool half;           // fp16, else bf16
};

// What the driver makes of it: opaque, at a multiple of 64 bytes among a kernel's arguments.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

// Elements of a row of a swizzled box: 128 bytes.
inline constexpr uint32_t kSwizzleColumns = 64;
// Tokens of a box. Pages have multiples of as many, so that a box lies in one page.
inline constexpr uint32_t kBoxTokens = 16;

}  // namespace quire::gpu
