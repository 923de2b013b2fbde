// Which pages are evicted last, and for how many users each: what a pool counts, without its lists.
#pragma once

#include <cstdint>

#include "core/base/huge_pages.h"
#include "core/base/ids.h"

namespace quire {

class Spares {
 public:
  static constexpr uint32_t kDeclined = UINT32_MAX;

  void resize(uint64_t num_pages) { by_page_.resize(num_pages); }
  bool has(uint32_t page) const { return num_pages_ > 0 && by_page_[page].count > 0; }
  uint32_t count(uint32_t page) const { return by_page_[page].count; }
  // Changes when the page becomes free while somebody spares it.
  uint32_t life(uint32_t page) const { return by_page_[page].life; }
  uint64_t num_pages() const { return num_pages_; }  // that somebody spares
  uint64_t host_bytes() const { return by_page_.capacity() * sizeof(Spare); }

  // One user more; what ending it takes. kDeclined: the page has as many as can be counted.
  uint32_t add(uint32_t page) {
    Spare& spare = by_page_[page];
    if (spare.count == UINT16_MAX) return kDeclined;
    num_pages_ += spare.count++ == 0 ? 1 : 0;
    return spare.life;
  }
  // True: it was the last user. Nothing happens where the page became free since add().
  bool end(uint32_t page, uint32_t life) {
    Spare& spare = by_page_[page];
    if (spare.life != life || spare.count == 0 || --spare.count > 0) return false;
    --num_pages_;
    return true;
  }
  // Of a page that is spared: all of its users.
  void forget(uint32_t page) {
    Spare& spare = by_page_[page];
    spare.count = 0;
    ++spare.life;
    --num_pages_;
  }

 private:
  struct Spare {
    uint16_t count = 0;
    uint16_t life = 0;
  };
  HugeVector<Spare> by_page_;
  uint64_t num_pages_ = 0;
};

}  // namespace quire
