#pragma once
#include <cstdint>

namespace quire::plugins {

inline constexpr int64_t kMillisecond = 1'000'000;  // nanoseconds, as the kernel's clocks count
inline constexpr int64_t kSecond = 1'000 * kMillisecond;

}  // namespace quire::plugins
