// A mean of the last values, roughly: of all, as long as there are few. After `covered` values (at
// least 1) each new one weighs 1 / covered.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

struct MovingMean {
  double mean = 0;
  uint64_t count = 0;  // of values, at most `covered`

  void add(double value, uint64_t covered) {
    count = std::min(count + 1, covered);
    mean += (value - mean) / static_cast<double>(count);
  }
};

}  // namespace quire
