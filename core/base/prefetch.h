// Asks the processor for a cache line that is read or written soon.
#pragma once

namespace quire {

inline void prefetch(const void* at) {
  __builtin_prefetch(at, 1);
  // GCC drops calls of functions that do nothing but prefetch, since they change nothing. This
  // statement costs nothing and keeps them.
  asm volatile("");
}

}  // namespace quire
