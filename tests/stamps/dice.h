// Random numbers of a run, and the hash that stamps are made of. A run's seed decides everything
// that it does.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace quire::stamps {

// What a run throws when the cache and the model of it differ.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void demand(bool holds, const char* what) {
  if (!holds) [[unlikely]]
    throw Mismatch(what);
}

// A hash of a chain: of all that came before, and one more value.
inline uint64_t chained(uint64_t before, uint64_t value) {
  uint64_t z = (before ^ (value + 0x632be59bd9b4e019ull)) * 0xd6e8feb86659fd93ull;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
  return z ^ (z >> 31);
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(chained(0x7374616d70, seed)) {}

  uint64_t roll() {
    state_ += 0xa0761d6478bd642full;
    return chained(state_, 0xe7037ed1a0b428dbull);
  }
  // One of 0 .. n - 1; 0 if n is 0.
  uint64_t below(uint64_t n) { return n == 0 ? 0 : (roll() >> 11) % n; }
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  uint32_t small(uint64_t least, uint64_t most) { return static_cast<uint32_t>(between(least, most)); }
  bool percent(uint64_t share) { return below(100) < share; }

 private:
  uint64_t state_;
};

}  // namespace quire::stamps
