// What processes that share a server in tests agree on.
#pragma once

#include "kit.h"

namespace quire {

inline constexpr uint64_t kRedisKeys = 200;

// The only object that a key ever has: tiny ones, and some of up to 1.5 MB.
inline kit::Bytes redis_object(uint64_t number) {
  return kit::content(number, number < 150 ? 1 + number * 17 : 1 + (number - 150) * 30'000);
}

}  // namespace quire
