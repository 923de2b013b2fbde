// Picks one in eight. Not every eighth: conversations that take turns would be the same ones in
// each turn.
#pragma once

#include <cstdint>

namespace quire {

class Samples {
 public:
  bool next() { return (++seen_ * 0x9e3779b97f4a7c15) >> kShift == 0; }

 private:
  static constexpr uint32_t kShift = 64 - 3;  // one in eight
  uint64_t seen_ = 0;
};

}  // namespace quire
