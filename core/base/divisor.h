// Division by a number that is known once and used often: a multiplication instead of a division.
#pragma once

#include <cstdint>

namespace quire {

// Exact for all 32-bit numbers.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(uint32_t d) : reciprocal_(d > 1 ? UINT64_MAX / d + 1 : 0) {}

  uint32_t quotient(uint32_t n) const {
    if (reciprocal_ == 0) return n;
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint32_t>((Wide{reciprocal_} * n) >> 64);
  }

 private:
  uint64_t reciprocal_ = 0;  // 0 = the divisor is 1
};

}  // namespace quire
