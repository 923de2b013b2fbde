// How long a random test goes on: what is waited for with every commit, or what
// `scripts/test.sh --full` asks for (QUIRE_FULL=1).
#pragma once

#include <cstdint>
#include <cstdlib>

namespace quire::test {

inline uint64_t full_or(uint64_t full, uint64_t ordinary) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read before threads start
  return std::getenv("QUIRE_FULL") != nullptr ? full : ordinary;
}

}  // namespace quire::test
