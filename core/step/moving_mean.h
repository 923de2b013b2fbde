// A mean of the last values, roughly. It starts as the mean of all. Once there were `covered` of
// them, each new one counts for one in so many.
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
