// Which pages at the end of the order of eviction are protected: where they begin, and how many.
#pragma once

#include <cstdint>

#include "core/base/ids.h"
#include "core/base/prefetch.h"
#include "core/pool/page_records.h"

namespace quire {

struct ProtectedPages {
  uint32_t first = kNone;  // it and those after it
  uint64_t pages = 0;
  uint32_t part = 0;  // at most one in so many of those that can be had; 0: none

  // Pages came to the end of the order; this is the first of them.
  void add(uint32_t page, uint64_t num_pages) {
    if (first == kNone) first = page;
    pages += num_pages;
  }
  // One of them leaves the order, in which `next` comes after it.
  void leave(uint32_t page, uint32_t next) {
    if (first == page) first = next;
    --pages;
  }
  // The oldest ones count as if they had not been hit, as long as there are too many.
  void limit(uint64_t available, PageRecords* at) {
    while (pages * part > available) {
      PageRecords::Tag& tag = at->tag(first);
      prefetch_to_write(&(*at)[tag.later]);
      tag.hit = false;
      first = (*at)[first].next;
      --pages;
    }
  }
};

}  // namespace quire
