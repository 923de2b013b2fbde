// Asks the processor for a cache line that is needed soon.
// GCC drops calls of functions that do nothing but __builtin_prefetch(), since they change nothing.
// An empty statement costs nothing and keeps them.
#pragma once

namespace quire {

inline void prefetch_to_read(const void* at) {
  __builtin_prefetch(at, 0);
  asm volatile("");
}

inline void prefetch_to_write(const void* at) {
  __builtin_prefetch(at, 1);
  asm volatile("");
}

}  // namespace quire
