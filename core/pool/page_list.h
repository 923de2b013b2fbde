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

// Before `next`, which is in the list; kNone: at its end.
template <typename Links>
void insert(Links* links, uint32_t page, uint32_t next, uint32_t* head, uint32_t* tail) {
  if (next == kNone) return append(links, page, head, tail);
  const uint32_t prev = (*links)[next].prev;
  (*links)[page] = {prev, next};
  (*links)[next].prev = page;
  (prev != kNone ? (*links)[prev].next : *head) = page;
}

template <typename Links>
void unlink(Links* links, uint32_t page, uint32_t* head, uint32_t* tail) {
  const auto link = (*links)[page];
  (link.prev != kNone ? (*links)[link.prev].next : *head) = link.next;
  (link.next != kNone ? (*links)[link.next].prev : *tail) = link.prev;
}

}  // namespace quire::page_list
