#include "core/pool/pool.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire {
Result<Pool> Pool::create(uint64_t num_pages, std::span<const PoolGroup> groups) {
  if (num_pages < 2) return invalid("num_pages: %llu, at least 2 (the null page and one more)", static_cast<unsigned long long>(num_pages));
  Pool pool;
  for (const PoolGroup& g : groups) {
    if (g.parts_per_page == 0 || g.ids_per_block == 0) return invalid("group: parts_per_page and ids_per_block must be at least 1");
    pool.groups_.push_back(Group{g, 0, 0, kNone, kNone});
    pool.stride_ = std::max(pool.stride_, g.parts_per_page);
  }
  auto slots = checked_mul(num_pages, pool.stride_);
  if (!slots || *slots > 0x7fffffffu) return fail(QUIRE_OUT_OF_RANGE, "pages x parts_per_page: more than 2^31 - 1 ids");
  pool.pages_.resize(num_pages);
  pool.parts_.resize(*slots);
  pool.fenced_.reserve(*slots);
  for (uint64_t p = num_pages - 1; p >= 1; --p) pool.push_free(static_cast<uint32_t>(p));
  return pool;
}

PartIndex Pool::index_of(GroupId group, PartId id) const {
  uint32_t ppp = groups_[group.value].shape.parts_per_page;
  auto v = static_cast<uint32_t>(id.value);
  return PartIndex(v / ppp * stride_ + v % ppp);
}

PartId Pool::id_of(GroupId group, PartIndex part) const {
  uint32_t ppp = groups_[group.value].shape.parts_per_page;
  return PartId(static_cast<int32_t>(part.value / stride_ * ppp + part.value % stride_));
}

Pool::Where Pool::where(const Page& page) {
  if (page.group == kNone) return Where::kFree;
  return page.used > 0 ? Where::kInUse : Where::kEvictable;
}

bool Pool::evictable(PageId page) const { return page.value != 0 && where(pages_[page.value]) == Where::kEvictable; }

uint32_t Pool::claimed_holes(PageId page, GroupId group, uint64_t owner) const {
  if (page.value == 0 || page.value >= pages_.size()) return 0;
  const Page& p = pages_[page.value];
  return p.group == group.value && p.owner == owner && p.used > 0 ? p.holes : 0;
}

void Pool::push_free(uint32_t page) {
  Page& p = pages_[page];
  p.prev = kNone;
  p.next = free_head_;
  if (free_head_ != kNone) pages_[free_head_].prev = page;
  free_head_ = page;
  ++free_pages_;
}

void Pool::push_evictable(uint32_t page) {
  Page& p = pages_[page];
  p.next = kNone;
  p.prev = evictable_tail_;
  (evictable_tail_ != kNone ? pages_[evictable_tail_].next : evictable_head_) = page;
  evictable_tail_ = page;
  ++evictable_pages_;
}

void Pool::unlink_page(uint32_t page, Where from) {
  Page& p = pages_[page];
  bool free = from == Where::kFree;
  (p.prev != kNone ? pages_[p.prev].next : (free ? free_head_ : evictable_head_)) = p.next;
  if (p.next != kNone) {
    pages_[p.next].prev = p.prev;
  } else if (!free) {
    evictable_tail_ = p.prev;
  }
  --(free ? free_pages_ : evictable_pages_);
  p.prev = p.next = kNone;
}

void Pool::set_in_list(uint32_t page, Link Page::*link, uint32_t Group::*list, bool in) {
  Page& p = pages_[page];
  Link& own = p.*link;
  if (own.in == in) return;
  uint32_t& first = groups_[p.group].*list;
  if (in) {
    own.prev = kNone;
    own.next = first;
    if (first != kNone) (pages_[first].*link).prev = page;
    first = page;
  } else {
    (own.prev != kNone ? (pages_[own.prev].*link).next : first) = own.next;
    if (own.next != kNone) (pages_[own.next].*link).prev = own.prev;
    own.prev = own.next = kNone;
  }
  own.in = in;
}

void Pool::count_parts(const Page& page, bool add) {
  uint64_t sign = add ? 1 : ~uint64_t{0};
  held_parts_ += sign * page.used;
  cached_parts_ += sign * page.cached;
  holes_ += sign * page.holes;
}

// Takes the page's holes out of the open ones; enter() counts them again. Lists change only when the page changes place.
Pool::Where Pool::leave(uint32_t page) {
  count_parts(pages_[page], false);
  Where before = where(pages_[page]);
  if (before == Where::kInUse) {
    groups_[pages_[page].group].open_holes -= pages_[page].holes;
    groups_[pages_[page].group].open_cached -= pages_[page].cached;
  }
  return before;
}

void Pool::enter(uint32_t page, Where before) {
  Page& p = pages_[page];
  if (p.group != kNone && p.used == 0 && p.cached == 0) {
    set_in_list(page, &Page::with_holes, &Group::hole_list, false);
    set_in_list(page, &Page::with_cached, &Group::cached_list, false);
    p.last_group = p.group;
    p.group = kNone;
    p.owner = 0;
    p.holes = 0;
    p.first_hole = kNone;
  }
  count_parts(p, true);
  Where after = where(p);
  if (after != before) {
    if (before != Where::kInUse) unlink_page(page, before);
    if (after == Where::kFree) push_free(page);
    if (after == Where::kEvictable) push_evictable(page);
  }
  if (p.group == kNone) return;
  const bool in_use = after == Where::kInUse;
  if (in_use) {
    groups_[p.group].open_holes += p.holes;
    groups_[p.group].open_cached += p.cached;
  }
  set_in_list(page, &Page::with_holes, &Group::hole_list, in_use && p.holes > 0);
  set_in_list(page, &Page::with_cached, &Group::cached_list, in_use && p.cached > 0);
}

TakenPart Pool::pop_hole(uint32_t page, uint64_t root) {
  Page& p = pages_[page];
  TakenPart taken{PartIndex(p.first_hole), false, p.root != root};
  if (taken.foreign_bytes) p.root = 0;  // parts of it belong to several now
  Where before = leave(page);
  Part& part = parts_[p.first_hole];
  p.first_hole = part.next;
  part = Part{};
  part.head = taken.part.value;  // its own head until linked
  --p.holes;
  ++p.used;
  enter(page, before);
  return taken;
}

TakenPart Pool::take_claimed(PageId page, GroupId group, uint64_t owner, uint64_t root) {
  if (claimed_holes(page, group, owner) == 0) return {};
  return pop_hole(page.value, root);
}

TakenPart Pool::take_page(GroupId group, uint64_t owner, uint64_t root) {
  if (free_head_ == kNone) return {};
  uint32_t page = free_head_;
  Page& p = pages_[page];
  unlink_page(page, Where::kFree);
  bool foreign = p.last_group != group.value || p.root != root;
  if (p.last_group != kNone && p.last_group != group.value) ++hand_overs_;
  p.group = group.value;
  p.owner = owner;
  p.root = root;
  uint32_t ppp = groups_[group.value].shape.parts_per_page;
  // The first part is taken at once, the others become holes in ascending order.
  p.used = 1;
  p.holes = ppp - 1;
  p.first_hole = kNone;
  for (uint32_t q = ppp - 1; q >= 1; --q) {
    uint32_t index = page * stride_ + q;
    parts_[index] = Part{};
    parts_[index].next = p.first_hole;
    p.first_hole = index;
  }
  uint32_t first = page * stride_;
  parts_[first] = Part{};
  parts_[first].head = first;
  groups_[group.value].open_holes += p.holes;
  set_in_list(page, &Page::with_holes, &Group::hole_list, p.holes > 0);
  count_parts(p, true);
  return TakenPart{PartIndex(first), true, foreign};
}

TakenPart Pool::take_hole(GroupId group, uint64_t root) {
  uint32_t page = groups_[group.value].hole_list;
  if (page == kNone) return {};
  return pop_hole(page, root);
}

void Pool::link(std::span<const PartIndex> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts_[parts[i].value];
    part.head = parts[0].value;
    part.next = i + 1 < parts.size() ? parts[i + 1].value : kNone;
  }
  parts_[parts[0].value].refs = 1;
}

void Pool::ref(PartIndex head) {
  Part& h = parts_[head.value];
  if (h.refs++ > 0 || h.fence != 0) return;
  for (uint32_t i = head.value; i != kNone; i = parts_[i].next) {
    uint32_t page = i / stride_;
    Where before = leave(page);
    --pages_[page].cached;
    ++pages_[page].used;
    enter(page, before);
  }
}

void Pool::unref(PartIndex head, uint64_t fence) {
  Part& h = parts_[head.value];
  if (--h.refs > 0) return;
  if (fence != 0) {
    if (h.fence == 0) fenced_.push_back(head.value);
    h.fence = std::max(h.fence, fence);
    return;
  }
  if (h.fence == 0) let_go(head);
}

// The block is neither referenced nor fenced any more.
void Pool::let_go(PartIndex head) {
  if (parts_[head.value].node == kNone) {
    free_parts(head);
    return;
  }
  for (uint32_t i = head.value; i != kNone; i = parts_[i].next) {
    uint32_t page = i / stride_;
    Where before = leave(page);
    --pages_[page].used;
    ++pages_[page].cached;
    enter(page, before);
  }
}

// Held parts of an unpublished block become holes.
void Pool::free_parts(PartIndex head) {
  for (uint32_t i = head.value; i != kNone;) {
    uint32_t next = parts_[i].next;
    uint32_t page = i / stride_;
    Page& p = pages_[page];
    Where before = leave(page);
    parts_[i] = Part{};
    parts_[i].next = p.first_hole;
    p.first_hole = i;
    ++p.holes;
    --p.used;
    enter(page, before);
    i = next;
  }
}

void Pool::unpublish(PartIndex head) {
  Part& h = parts_[head.value];
  h.node = kNone;
  if (h.refs > 0 || h.fence != 0) return;
  for (uint32_t i = head.value; i != kNone;) {
    uint32_t next = parts_[i].next;
    uint32_t page = i / stride_;
    Page& p = pages_[page];
    Where before = leave(page);
    parts_[i] = Part{};
    parts_[i].next = p.first_hole;
    p.first_hole = i;
    ++p.holes;
    --p.cached;
    enter(page, before);
    i = next;
  }
}

void Pool::pass_fences(uint64_t step) {
  size_t kept = 0;
  for (uint32_t head : fenced_) {
    Part& h = parts_[head];
    if (h.fence > step) {
      fenced_[kept++] = head;
      continue;
    }
    h.fence = 0;
    if (h.refs == 0) let_go(PartIndex(head));
  }
  fenced_.resize(kept);
}

void Pool::lower_fences(uint64_t step) {
  for (uint32_t head : fenced_) parts_[head].fence = std::min(parts_[head].fence, std::max<uint64_t>(step, 1));
}

uint32_t Pool::cached_heads(PageId page, std::span<PartIndex> out) const {
  uint32_t n = 0;
  uint32_t ppp = groups_[pages_[page.value].group].shape.parts_per_page;
  for (uint32_t q = 0; q < ppp; ++q) {
    const Part& part = parts_[page.value * stride_ + q];
    if (part.head == kNone) continue;
    const Part& head = parts_[part.head];
    if (head.refs == 0 && head.fence == 0 && head.node != kNone) out[n++] = PartIndex(part.head);
  }
  return n;
}

}  // namespace quire
