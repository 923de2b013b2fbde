#include "core/pool/pool.h"

#include <algorithm>
#include <utility>

#include "core/base/checked.h"
#include "core/pool/page_list.h"

namespace quire {

using page_list::append;
using page_list::insert;
using page_list::unlink;

Result<Pool> Pool::create(uint64_t num_pages, std::span<const PoolGroup> groups, uint32_t protected_part) {
  if (num_pages < 2) return invalid("num_pages: %llu, at least 2 (the null page and one more)", static_cast<unsigned long long>(num_pages));
  Pool pool;
  if (groups.size() >= kNoGroup) return invalid("groups: %zu, at most %u", groups.size(), kNoGroup - 1u);
  for (const PoolGroup& g : groups) {
    if (g.parts_per_page == 0 || g.ids_per_block == 0) return invalid("group: parts_per_page and ids_per_block must be at least 1");
    pool.groups_.push_back(Group{.shape = g, .by_parts = Divisor(g.parts_per_page)});
    pool.stride_ = std::max(pool.stride_, g.parts_per_page);
  }
  pool.by_stride_ = Divisor(pool.stride_);
  pool.plain_ = std::all_of(groups.begin(), groups.end(), [](const PoolGroup& g) { return g.parts_per_page == 1 && g.ids_per_block == 1; });
  auto slots = checked_mul(num_pages, pool.stride_);
  if (!slots || *slots > 0x7fffffffu) return fail(QUIRE_OUT_OF_RANGE, "pages x parts_per_page: more than 2^31 - 1 ids");
  pool.at_.resize(num_pages, *slots);
  pool.fences_.resize(*slots);
  if (!pool.plain_) {
    pool.chains_.resize(*slots);
    pool.pages_.resize(num_pages);
  }
  pool.spares_.resize(num_pages);
  pool.protected_.part = protected_part;
  pool.residency.resize(num_pages, groups.size());
  pool.fenced_.reserve(*slots);
  for (uint64_t p = num_pages - 1; p >= 1; --p) pool.push_free(static_cast<uint32_t>(p));
  return pool;
}

void Pool::push_free(uint32_t page) {
  Tag& tag = at_.tag(page);
  if (tag.spared) spares_.forget(page);
  tag.spared = false;
  tag.where = Where::kFree;
  at_[page].next = free_.head;
  free_.head = page;
  ++free_.pages;
}

void Pool::push_evictable(uint32_t page) {
  at_.tag(page).where = Where::kEvictable;
  ++evictable_.pages;
  Group& g = groups_[at_.tag(page).group];
  ++g.pages.cached;
  --g.pages.used;
  residency.idled(page);
  if (at_.tag(page).spared) {
    ++spared_list_.pages;
    return append(&at_, page, &spared_list_.head, &spared_list_.tail);
  }
  if (at_.tag(page).place != Place::kBack) {
    const bool is_copy = at_.tag(page).place == Place::kCopied;
    const uint32_t before = is_copy ? ahead_.last_copied : kNone, next = before != kNone ? at_[before].next : evictable_.head;
    insert(&at_, page, next, &evictable_.head, &evictable_.tail);
    if (is_copy) ahead_.last_copied = page;
    at_.tag(page).hit = false;
    ++ahead_.changes;
    return;
  }
  push_warm(page);
}

void Pool::push_warm(uint32_t page) {
  const bool hit = at_.tag(page).hit;
  at_.tag(lookahead_.came_before(page, hit)).later = page;
  insert(&at_, page, hit ? kNone : protected_.first, &evictable_.head, &evictable_.tail);
  ahead_.changes += evictable_.head == page ? 1 : 0;
  if (!hit) return;
  protected_.add(page, 1);
  protected_.limit(available_pages(), &at_);
}

void Pool::unlink_evictable(uint32_t page) {
  at_.tag(page).where = Where::kInUse;
  --evictable_.pages;
  Group& g = groups_[at_.tag(page).group];
  --g.pages.cached;
  ++g.pages.used;
  if (!at_.tag(page).spared) return leave_order(page);
  --spared_list_.pages;
  unlink(&at_, page, &spared_list_.head, &spared_list_.tail);
}

void Pool::leave_order(uint32_t page) {
  if (page == ahead_.last_copied) ahead_.last_copied = at_[page].prev;
  if (at_.tag(page).hit) protected_.leave(page, at_[page].next);
  unlink(&at_, page, &evictable_.head, &evictable_.tail);
  ++ahead_.changes;
}

void Pool::list_holes(uint32_t page, bool in) {
  Page& p = pages_[page];
  if (p.listed_holes == in) return;
  p.listed_holes = in;
  uint32_t& first = groups_[at_.tag(page).group].hole_list;
  if (in) {
    p.with_holes = {kNone, first};
    if (first != kNone) pages_[first].with_holes.prev = page;
    first = page;
    return;
  }
  (p.with_holes.prev != kNone ? pages_[p.with_holes.prev].with_holes.next : first) = p.with_holes.next;
  if (p.with_holes.next != kNone) pages_[p.with_holes.next].with_holes.prev = p.with_holes.prev;
}

void Pool::list_cached(uint32_t page, bool in) {
  Page& p = pages_[page];
  if (p.listed_cached == in) return;
  p.listed_cached = in;
  uint32_t& first = groups_[at_.tag(page).group].cached_list;
  if (in) {
    p.with_cached = {kNone, first};
    if (first != kNone) pages_[first].with_cached.prev = page;
    first = page;
    return;
  }
  (p.with_cached.prev != kNone ? pages_[p.with_cached.prev].with_cached.next : first) = p.with_cached.next;
  if (p.with_cached.next != kNone) pages_[p.with_cached.next].with_cached.prev = p.with_cached.prev;
}

// Nothing of the page is held any more: what it has open is not counted with its group, and it can be evicted, or is free.
void Pool::fall_idle(uint32_t page) {
  Page& p = pages_[page];
  Group& g = groups_[at_.tag(page).group];
  g.open_holes -= p.holes;
  g.open_cached -= p.cached;
  if (p.listed_holes) list_holes(page, false);
  if (p.listed_cached) list_cached(page, false);
  if (p.cached > 0) {
    push_evictable(page);
    return;
  }
  give_up(page);
}

// No part of the page is in use or cached: it belongs to nobody.
void Pool::give_up(uint32_t page) {
  --groups_[at_.tag(page).group].pages.used;
  at_.tag(page).last_group = at_.tag(page).group;
  at_.tag(page).group = kNoGroup;
  if (!plain_) {
    Page& p = pages_[page];
    holes_ -= p.holes;
    p.owner = 0;
    p.holes = 0;
    p.first_hole = kNone;
  }
  push_free(page);
}

void Pool::hold_part(uint32_t page) {
  Page& p = pages_[page];
  Group& g = groups_[at_.tag(page).group];
  --p.cached;
  --cached_parts_;
  ++held_parts_;
  if (p.used++ == 0) {
    unlink_evictable(page);
    residency.resumed(page);
    g.open_holes += p.holes;
    g.open_cached += p.cached;
    if (p.holes > 0) list_holes(page, true);
    if (p.cached > 0) list_cached(page, true);
    return;
  }
  --g.open_cached;
  if (p.cached == 0) list_cached(page, false);
}

void Pool::cache_part(uint32_t page) {
  Page& p = pages_[page];
  ++p.cached;
  ++cached_parts_;
  --held_parts_;
  ++groups_[at_.tag(page).group].open_cached;
  if (--p.used == 0) {
    fall_idle(page);
  } else {
    list_cached(page, true);
  }
}

void Pool::push_hole(Page& page, uint32_t part) {
  at_.block(part) = Block{};
  chains_[part] = Chain{kNone, page.first_hole};
  page.first_hole = part;
  ++page.holes;
  ++holes_;
}

void Pool::free_held(uint32_t part) {
  const uint32_t page = page_number(part);
  Page& p = pages_[page];
  push_hole(p, part);
  --held_parts_;
  ++groups_[at_.tag(page).group].open_holes;
  if (--p.used == 0) {
    fall_idle(page);
  } else {
    list_holes(page, true);
  }
}

void Pool::free_cached(uint32_t part) {
  const uint32_t page = page_number(part);
  Page& p = pages_[page];
  Group& g = groups_[at_.tag(page).group];
  push_hole(p, part);
  --p.cached;
  --cached_parts_;
  if (p.used > 0) {
    --g.open_cached;
    ++g.open_holes;
    if (p.cached == 0) list_cached(page, false);
    list_holes(page, true);
  } else if (p.cached == 0) {
    unlink_evictable(page);
    residency.evicted(page);
    give_up(page);
  }
}

// The block was cached, or waits for its fence and is held anyway.
void Pool::hold(PartIndex head) {
  if (fenced(head)) return;
  if (plain_) {
    unlink_evictable(head.value);
    residency.resumed(head.value);
    --cached_parts_;
    ++held_parts_;
    return;
  }
  for (uint32_t i = head.value; i != kNone; i = chains_[i].next) hold_part(page_number(i));
}

void Pool::unref(PartIndex head, uint64_t fence, EvictionClass eviction_class) {
  int32_t& count = at_.block(head.value).refs;
  int32_t refs = --count;
  if (refs >= kColdRef) [[unlikely]] {
    note_class(head, eviction_class);  // whoever copies it may be the last one
    refs -= kColdRef;
    if (refs == 0) count = 0;
  }
  if (refs > 1 || (refs == 1 && fence == 0)) return;
  if (refs == 0) note_class(head, eviction_class);
  if (fence != 0) {
    uint64_t& f = fences_[head.value];
    if (f == 0) fenced_.push_back(head.value);
    f = std::max(f, fence);
    return;
  }
  if (!fenced(head)) let_go(head);
}

// Blocks at the end of ids that lie in one page, were had by nobody else and are all published, or none: their last references go in one
// stroke. How many.
uint32_t Pool::unref_run(GroupId group, std::span<const int32_t> ids, EvictionClass eviction_class) {
  const PoolGroup& shape = groups_[group.value].shape;
  if (shape.ids_per_block > 1 || ids.size() < 2) return 0;
  const auto last = static_cast<uint32_t>(ids.back());
  const Divisor by_parts = groups_[group.value].by_parts;
  const uint32_t page = by_parts.quotient(last), ppp = shape.parts_per_page;
  const uint32_t first = page * ppp, shift = page * (stride_ - ppp);
  if (ids.size() > kSoon) {
    const uint32_t soon = by_parts.quotient(static_cast<uint32_t>(ids[ids.size() - 1 - kSoon]));
    prefetch_to_write(&at_[soon]);
    prefetch_to_write(&pages_[soon]);
    prefetch_to_write(&at_.block(size_t{soon} * stride_));
  }
  Block* const blocks = &at_.block(first + shift);  // of a page with several parts they lie side by side
  const bool published = blocks[last - first].node != kNone, any_fenced = !fenced_.empty();
  uint32_t n = 0;
  for (; n < ids.size(); ++n) {
    const uint32_t q = static_cast<uint32_t>(ids[ids.size() - 1 - n]) - first;
    if (q >= ppp || blocks[q].refs != 1 || (blocks[q].node != kNone) != published) break;
    if (any_fenced && fences_[first + shift + q] != 0) break;
    blocks[q].refs = 0;
  }
  if (n == 0) return 0;
  Page& p = pages_[page];
  if (eviction_class == EvictionClass::kWarm) at_.tag(page).place = Place::kBack;
  if (published) {
    p.cached += n;
    cached_parts_ += n;
    groups_[group.value].open_cached += n;
  } else {
    for (uint32_t i = 0; i < n; ++i) push_hole(p, static_cast<uint32_t>(ids[ids.size() - 1 - i]) + shift);
    groups_[group.value].open_holes += n;
  }
  held_parts_ -= n;
  p.used -= n;
  if (p.used == 0) {
    fall_idle(page);
  } else {
    published ? list_cached(page, true) : list_holes(page, true);
  }
  return n;
}

// In a plain pool, the published blocks at the end of ids that come to the same place of the order, and that nothing else happens to: warm
// ones to its end or before the protected pages, cold ones to where it begins. Each link is written once, when the next page is known.
template <EvictionClass kClass>
size_t Pool::push_run(std::span<const int32_t> ids) {
  constexpr bool kWarm = kClass == EvictionClass::kWarm;
  PageRecords::Record* const at = at_.data();
  const bool any_fenced = !fenced_.empty();
  const auto link = [](uint32_t nearer, uint32_t farther) { return kWarm ? Link{nearer, farther} : Link{farther, nearer}; };
  const bool hit = kWarm && !ids.empty() && at[static_cast<uint32_t>(ids.back())].tag.hit;
  uint32_t beyond = kNone, neighbour = kNone;  // the pages come between these
  uint32_t end = kNone, before = kNone;
  size_t n = 0;
  for (; n < ids.size(); ++n) {
    const auto page = static_cast<uint32_t>(ids[ids.size() - 1 - n]);
    if (ids.size() - n > kSoon) prefetch_to_write(&at[static_cast<uint32_t>(ids[ids.size() - 1 - n - kSoon])]);
    Block& block = at[page].block;
    Tag& tag = at[page].tag;
    if (block.refs != 1 || block.node == kNone || (!kWarm && tag.place != Place::kFront)) break;
    if ((any_fenced && fences_[page] != 0) || tag.spared || (kWarm && tag.hit != hit)) break;
    if (n == 0) {
      if (kWarm && !hit) beyond = protected_.first;
      neighbour = !kWarm ? evictable_.head : beyond != kNone ? at[beyond].link.prev : evictable_.tail;
      end = neighbour;
    }
    block.refs = 0;
    tag.where = Where::kEvictable;
    if (kWarm) tag.place = Place::kBack;
    if (kWarm) at[lookahead_.came_before(page, hit)].tag.later = page;
    if (!kWarm) tag.hit = false;
    residency.idled(page);
    if (n > 0) {
      at[end].link = link(before, page);
    } else if (end != kNone) {
      (kWarm ? at[end].link.next : at[end].link.prev) = page;
    } else {
      (kWarm ? evictable_.head : evictable_.tail) = page;
    }
    before = end;
    end = page;
  }
  if (n == 0) return 0;
  evictable_.pages += n;
  ahead_.changes += !kWarm ? n : neighbour == kNone ? 1 : 0;
  at[end].link = link(before, beyond);
  (!kWarm ? evictable_.head : beyond != kNone ? at[beyond].link.prev : evictable_.tail) = end;
  if (!hit) return n;
  protected_.add(neighbour != kNone ? at[neighbour].link.next : evictable_.head, n);
  protected_.limit(available_pages(), &at_);
  return n;
}

// In a plain pool, for published blocks: as many from the end of ids as go into the order of eviction or among the spared pages, and
// nothing else happens to.
size_t Pool::unref_plain_run(GroupId group, std::span<const int32_t> ids, EvictionClass eviction_class) {
  const bool warm = eviction_class == EvictionClass::kWarm;
  size_t n = 0;
  while (true) {
    n += warm ? push_run<EvictionClass::kWarm>(ids.first(ids.size() - n)) : push_run<EvictionClass::kCold>(ids.first(ids.size() - n));
    if (n == ids.size()) break;
    const auto page = static_cast<uint32_t>(ids[ids.size() - 1 - n]);
    if (at_.block(page).refs != 1 || at_.block(page).node == kNone || fenced(PartIndex(page))) break;
    if (!warm && at_.tag(page).place == Place::kCopied) break;
    at_.block(page).refs = 0;
    at_.tag(page).where = Where::kEvictable;
    ++evictable_.pages;
    residency.idled(page);
    if (warm || !at_.tag(page).spared) at_.tag(page).place = Place::kBack;
    if (at_.tag(page).spared) {
      ++spared_list_.pages;
      append(&at_, page, &spared_list_.head, &spared_list_.tail);
    } else {
      push_warm(page);
    }
    ++n;
  }
  groups_[group.value].pages.cached += n;
  groups_[group.value].pages.used -= n;
  cached_parts_ += n;
  held_parts_ -= n;
  return n;
}

void Pool::unref_blocks(GroupId group, std::span<const int32_t> ids, uint64_t fence, EvictionClass eviction_class) {
  while (!ids.empty()) {
    const size_t run = fence != 0 || ids.back() == 0 ? 0
                       : plain_                      ? unref_plain_run(group, ids, eviction_class)
                                                     : unref_run(group, ids, eviction_class);
    if (run == 0 && ids.back() != 0) unref(index_of(group, PartId(ids.back())), fence, eviction_class);
    ids = ids.first(ids.size() - std::max<size_t>(run, 1));
  }
}

// Who gives up one of two references fences the block, and who gave up one of more than two did so before him: a block with one reference
// and no fence is in no step in flight but its holder's.
void Pool::unref_passed(GroupId group, std::span<const int32_t> ids, uint64_t fence, EvictionClass eviction_class) {
  while (!ids.empty()) {
    const size_t run = ids.back() == 0 ? 0 : plain_ ? unref_plain_run(group, ids, eviction_class) : unref_run(group, ids, eviction_class);
    if (run == 0 && ids.back() != 0) {
      const PartIndex head = index_of(group, PartId(ids.back()));
      unref(head, refs(head) == 1 ? 0 : fence, eviction_class);
    }
    ids = ids.first(ids.size() - std::max<size_t>(run, 1));
  }
}

// The block is neither referenced nor fenced any more.
void Pool::let_go(PartIndex head) {
  const bool published = at_.block(head.value).node != kNone;
  if (plain_) {
    --held_parts_;
    cached_parts_ += published ? 1 : 0;
    published ? push_evictable(head.value) : give_up(head.value);
    return;
  }
  for (uint32_t i = head.value, next = kNone; i != kNone; i = next) {
    next = chains_[i].next;
    if (published) {
      cache_part(page_number(i));
    } else {
      free_held(i);
    }
  }
}

void Pool::unpublish(PartIndex head) {
  at_.block(head.value).node = kNone;
  if (held(head)) return;
  if (plain_) {
    unlink_evictable(head.value);
    residency.evicted(head.value);
    --cached_parts_;
    give_up(head.value);
    return;
  }
  for (uint32_t i = head.value, next = kNone; i != kNone; i = next) {
    next = chains_[i].next;
    free_cached(i);
  }
}

void Pool::unpublish_page(PageId page) {
  Page& p = pages_[page.value];
  const size_t first = size_t{page.value} * stride_;
  const uint32_t ppp = groups_[at_.tag(page.value).group].shape.parts_per_page;
  for (uint32_t q = 0; q < ppp; ++q) at_.block(first + q) = Block{};
  std::fill_n(chains_.begin() + static_cast<std::ptrdiff_t>(first), ppp, Chain{});
  cached_parts_ -= std::exchange(p.cached, 0);
  unlink_evictable(page.value);
  residency.evicted(page.value);
  give_up(page.value);
}

void Pool::pass_fences(uint64_t step) {
  size_t kept = 0;
  for (uint32_t head : fenced_) {
    if (fences_[head] > step) {
      fenced_[kept++] = head;
      continue;
    }
    fences_[head] = 0;
    if (at_.block(head).refs == 0) let_go(PartIndex(head));
  }
  fenced_.resize(kept);
}

void Pool::lower_fences(uint64_t step) {
  for (uint32_t head : fenced_) fences_[head] = std::min(fences_[head], std::max<uint64_t>(step, 1));
}

}  // namespace quire
