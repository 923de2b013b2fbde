// What changes the order of eviction now and then, and what reads it. Pages come and go in pool.cc.
#include <utility>

#include "core/pool/page_list.h"
#include "core/pool/pool.h"

namespace quire {

using page_list::append;
using page_list::unlink;

uint32_t Pool::spare(PageId page) {
  const bool was = spares_.has(page.value);
  const uint32_t life = spares_.add(page.value);
  if (was || at_.tag(page.value).where != Where::kEvictable) return life;
  leave_order(page.value);
  append(&at_, page.value, &spared_list_.head, &spared_list_.tail);
  ++spared_list_.pages;
  return life;
}

void Pool::end_spare(PageId page, uint32_t life) {
  if (!spares_.end(page.value, life) || at_.tag(page.value).where != Where::kEvictable) return;
  unlink(&at_, page.value, &spared_list_.head, &spared_list_.tail);
  --spared_list_.pages;
  append(&at_, page.value, &evictable_.head, &evictable_.tail);
}

void Pool::take_place_of(PartIndex head, PartIndex other) {
  if (head == other) return;
  for (; head.value != kNone; head = next_in_block(head), other = next_in_block(other)) {
    const uint32_t page = page_number(head.value), place = page_number(other.value);
    if (spares_.has(page) || spares_.has(place)) continue;
    leave_order(page);
    const uint32_t before = at_[place].prev;
    at_[page] = {before, place};
    at_[place].prev = page;
    (before != kNone ? at_[before].next : evictable_.head) = page;
  }
}

uint32_t Pool::coldest(std::span<PageId> out) const {
  uint32_t n = 0;
  for (uint32_t page = evictable_.head; page != kNone && n < out.size(); page = at_[page].next) out[n++] = PageId(page);
  return n;
}

void Pool::cool(PartIndex head) {
  for (PartIndex p = head; p.value != kNone; p = next_in_block(p)) {
    Tag& tag = at_.tag(page_number(p.value));
    if (tag.where == Where::kEvictable) tag.place = Place::kCopied;
  }
}

void Pool::retire_all() {
  while (spared_list_.head != kNone) {
    const uint32_t page = spared_list_.head;
    spares_.forget(page);
    --spared_list_.pages;
    unlink(&at_, page, &spared_list_.head, &spared_list_.tail);
    append(&at_, page, &evictable_.head, &evictable_.tail);
  }
  residency.forget_all();
  if (evictable_.head == kNone) return;
  at_[evictable_.head].prev = stale_.tail;
  (stale_.tail != kNone ? at_[stale_.tail].next : stale_.head) = evictable_.head;
  stale_.tail = std::exchange(evictable_.tail, kNone);
  evictable_.head = kNone;
  ahead_.changes += evictable_.pages;
  ahead_.last_copied = kNone;
  stale_.pages += std::exchange(evictable_.pages, 0);
  stale_.cached_parts += std::exchange(cached_parts_, 0);
  stale_.holes += std::exchange(holes_, 0);
  for (Group& g : groups_) g.stale_pages += std::exchange(g.pages.cached, 0);
}

void Pool::swap_stale() {
  std::swap(stale_.head, evictable_.head);
  std::swap(stale_.tail, evictable_.tail);
  std::swap(stale_.pages, evictable_.pages);
  std::swap(stale_.cached_parts, cached_parts_);
  std::swap(stale_.holes, holes_);
  for (Group& g : groups_) std::swap(g.stale_pages, g.pages.cached);
}

}  // namespace quire
