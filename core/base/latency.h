// The latency arrays of statistics: element i counts what took less than 2^i microseconds and not
// less than half of that.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace quire {

inline constexpr size_t kLatencies = 32;  // elements; the last one counts the rest, too

constexpr size_t latency_element(int64_t took_ns) {
  const uint64_t microseconds = static_cast<uint64_t>(std::max<int64_t>(took_ns, 0)) / 1000;
  return std::min(static_cast<size_t>(std::bit_width(microseconds)), kLatencies - 1);
}

}  // namespace quire
