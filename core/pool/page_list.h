// A list of pages, each of which names the one before it and the one after it.
#pragma once

#include <cstdint>

#include "core/base/ids.h"

namespace quire::page_list {

template <typename Links>
void append(Links* links, uint32_t page, uint32_t* head, uint32_t* tail) {
  (*links)[page] = {*tail, kNone};
  (*tail != kNone ? (*links)[*tail].next : *head) = page;
  *tail = page;
}

template <typename Links>
void unlink(Links* links, uint32_t page, uint32_t* head, uint32_t* tail) {
  const auto link = (*links)[page];
  (link.prev != kNone ? (*links)[link.prev].next : *head) = link.next;
  (link.next != kNone ? (*links)[link.next].prev : *tail) = link.prev;
}

}  // namespace quire::page_list
