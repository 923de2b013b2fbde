// For walks whose next place is mostly known: the processor goes on from a guess while the real one
// comes from memory.
#pragma once

#include <cstdint>

namespace quire {

// `value`. What follows waits for it only if the guess is wrong, which costs a mispredicted branch.
inline uint32_t guessed(uint32_t guess, uint32_t value) {
  uint32_t right = guess == value ? 1 : 0;
  asm("" : "+r"(right));  // a compiler that knew what it means would take `value` in both cases
  if (right != 0) {
    asm volatile("");  // a branch, no conditional move
    return guess;
  }
  return value;
}

}  // namespace quire
