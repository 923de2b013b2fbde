// What processes that share a store in tests agree on.
#pragma once

#include "tests/connectors/kit.h"

namespace quire::test {

inline constexpr uint64_t kWorkerKeys = 200;

// The only object that a key ever has: tiny ones, and some of up to 1.5 MB.
inline kit::Bytes worker_object(uint64_t number) {
  return kit::content(number, number < 150 ? 1 + number * 17 : 1 + (number - 150) * 30'000);
}

}  // namespace quire::test
