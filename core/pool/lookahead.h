// Hints of which pages are evicted soon, so that the memory of what they publish can be asked for
// in time.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "core/base/prefetch.h"

namespace quire {

class Lookahead {
 public:
  // Places of the order of eviction between a page and the one that it names; what the page asked
  // for publishes is asked for so many calls of ask() later, and what can be asked for only then.
  static constexpr uint32_t kPlaces = 64, kNodes = 24, kMore = 44;

  // The page comes to the end of the order, or where its protected pages begin. The page that came
  // there kPlaces before.
  uint32_t came_before(uint32_t page, bool is_protected) {
    Came& came = came_[is_protected ? 1 : 0];
    return std::exchange(came.pages[came.num++ % kPlaces], page);
  }
  // The page is evicted kPlaces calls from now, and this is what the pool keeps of it.
  void ask(uint32_t page, const void* record) {
    asked_[++num_asked_ % kPlaces] = page;
    prefetch_to_write(record);
  }
  // So many calls ago, less than kPlaces.
  uint32_t asked_before(uint32_t calls) const { return asked_[(num_asked_ - calls) % kPlaces]; }

 private:
  struct Came {
    std::array<uint32_t, kPlaces> pages{};  // a ring
    uint32_t num = 0;
  };

  std::array<Came, 2> came_{};             // by is_protected
  std::array<uint32_t, kPlaces> asked_{};  // a ring
  uint32_t num_asked_ = 0;
};

}  // namespace quire
