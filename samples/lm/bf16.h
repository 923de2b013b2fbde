// bf16.h: numbers of bf16, as their bits.
#pragma once

#include <bit>
#include <cstdint>

namespace lm {

// To the nearest one, ties to even.
inline uint16_t rounded(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
inline float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace lm
