// What changes the order of eviction now and then, and what reads it. Pages come and go in pool.cc.
#include <utility>

#include "core/pool/page_list.h"
#include "core/pool/pool.h"

namespace quire {

using page_list::append;
using page_list::insert;
using page_list::unlink;

uint32_t Pool::spare(PageId page) {
  const bool was = spares_.has(page.value);
  const uint32_t life = spares_.add(page.value);
  at_.tag(page.value).spared = true;
  if (was || at_.tag(page.value).where != Where::kEvictable) return life;
  leave_order(page.value);
  append(&at_, page.value, &spared_list_.head, &spared_list_.tail);
  ++spared_list_.pages;
  return life;
}

void Pool::end_spare(PageId page, uint32_t life) {
  if (!spares_.end(page.value, life)) return;
  at_.tag(page.value).spared = false;
  if (at_.tag(page.value).where != Where::kEvictable) return;
  unlink(&at_, page.value, &spared_list_.head, &spared_list_.tail);
  --spared_list_.pages;
  push_warm(page.value);
}

void Pool::take_place_of(PartIndex head, PartIndex other) {
  if (head == other) return;
  for (; head.value != kNone; head = next_in_block(head), other = next_in_block(other)) {
    const uint32_t page = page_number(head.value), place = page_number(other.value);
    if (at_.tag(page).spared || at_.tag(place).spared) continue;
    leave_order(page);
    insert(&at_, page, place, &evictable_.head, &evictable_.tail);
    at_.tag(page).hit = at_.tag(place).hit;
    if (!at_.tag(place).hit) continue;
    ++protected_.pages;
    if (protected_.first == place) protected_.first = page;
  }
}

// Blocks of one table were released together, so most of their pages stand one after the other: each such stretch is unlinked once.
void Pool::ref_blocks(GroupId group, std::span<const int32_t> ids, User user) {
  const bool is_hit = user == User::kRequest && protected_.part > 0;
  uint32_t first = kNone, last = kNone;  // a stretch that leaves the order
  uint64_t n = 0;
  const auto unlink_stretch = [&] {
    if (first == kNone) return;
    const uint32_t before = at_[first].prev, after = at_[last].next;
    (before != kNone ? at_[before].next : evictable_.head) = after;
    (after != kNone ? at_[after].prev : evictable_.tail) = before;
    first = kNone;
  };
  for (; !ids.empty(); ids = ids.first(ids.size() - 1)) {
    if (ids.back() == 0) continue;
    const PartIndex head = index_of(group, PartId(ids.back()));
    const uint32_t page = head.value;
    if (!plain_ || fenced(head) || at_.tag(page).spared || page == ahead_.last_copied || at_.block(page).refs > 0) {
      unlink_stretch();
      ref(head, user);
      continue;
    }
    at_.block(page).refs = 1;
    Tag& tag = at_.tag(page);
    tag.where = Where::kInUse;
    residency.resumed(page);
    if (first == kNone || at_[last].next != page) {
      unlink_stretch();
      first = page;
    }
    last = page;
    if (tag.hit) protected_.leave(page, at_[page].next);  // after what stood behind it was unlinked
    tag.hit = tag.hit || is_hit;
    ++n;
  }
  unlink_stretch();
  ahead_.changes += n;
  evictable_.pages -= n;
  groups_[group.value].pages.cached -= n;
  groups_[group.value].pages.used += n;
  cached_parts_ -= n;
  held_parts_ += n;
}

uint32_t Pool::cached_heads(PageId page, std::span<PartIndex> out) const {
  if (plain_) {
    const PartIndex head(page.value);
    if (held(head) || at_.block(head.value).node == kNone) return 0;
    out[0] = head;
    return 1;
  }
  uint32_t n = 0;
  const uint32_t ppp = groups_[at_.tag(page.value).group].shape.parts_per_page;
  for (uint32_t q = 0; q < ppp; ++q) {
    const PartIndex head(chains_[size_t{page.value} * stride_ + q].head);
    if (head.value != kNone && !held(head) && at_.block(head.value).node != kNone) out[n++] = head;
  }
  return n;
}

uint32_t Pool::coldest(std::span<PageId> out) const {
  uint32_t n = 0;
  for (uint32_t page = evictable_.head; page != kNone && n < out.size(); page = at_[page].next) out[n++] = PageId(page);
  return n;
}

void Pool::retire_all() {
  while (spared_list_.head != kNone) {
    const uint32_t page = spared_list_.head;
    spares_.forget(page);
    at_.tag(page).spared = at_.tag(page).hit = false;
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
  stale_.hit_pages += std::exchange(protected_.pages, 0);
  protected_.first = kNone;
  stale_.cached_parts += std::exchange(cached_parts_, 0);
  stale_.holes += std::exchange(holes_, 0);
  for (Group& g : groups_) g.stale_pages += std::exchange(g.pages.cached, 0);
}

void Pool::swap_stale() {
  std::swap(stale_.head, evictable_.head);
  std::swap(stale_.tail, evictable_.tail);
  std::swap(stale_.pages, evictable_.pages);
  std::swap(stale_.hit_pages, protected_.pages);
  std::swap(stale_.first_protected, protected_.first);
  std::swap(stale_.cached_parts, cached_parts_);
  std::swap(stale_.holes, holes_);
  for (Group& g : groups_) std::swap(g.stale_pages, g.pages.cached);
}

}  // namespace quire
