// For walks whose next place is mostly known: the processor goes on from a guess while the real one
// comes from memory.
#pragma once

#include <cstdint>

namespace quire {

// Returns `value`. What comes next need not wait for `value` unless the guess is wrong, which costs
// a mispredicted branch.
inline uint32_t guessed(uint32_t guess, uint32_t value) {
  uint32_t right = guess == value ? 1 : 0;
  // Hides from the compiler what `right` means: it would return `value` in both cases.
  asm("" : "+r"(right));
  if (right != 0) {
    asm volatile("");  // keeps this a branch: a conditional move would wait for `value`
    return guess;
  }
  return value;
}

}  // namespace quire
