#include "core/pool/pool.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire {

Result<Pool> Pool::create(uint64_t num_pages, std::span<const PoolGroup> groups) {
  if (num_pages < 2) return invalid("num_pages: %llu, at least 2 (the null page and one more)", static_cast<unsigned long long>(num_pages));
  Pool pool;
  if (groups.size() >= kNoGroup) return invalid("groups: %zu, at most %u", groups.size(), kNoGroup - 1u);
  for (const PoolGroup& g : groups) {
    if (g.parts_per_page == 0 || g.ids_per_block == 0) return invalid("group: parts_per_page and ids_per_block must be at least 1");
    pool.groups_.push_back(Group{g, Divisor(g.parts_per_page), 0, 0, kNone, kNone});
    pool.stride_ = std::max(pool.stride_, g.parts_per_page);
  }
  pool.by_stride_ = Divisor(pool.stride_);
  pool.plain_ = std::all_of(groups.begin(), groups.end(), [](const PoolGroup& g) { return g.parts_per_page == 1 && g.ids_per_block == 1; });
  auto slots = checked_mul(num_pages, pool.stride_);
  if (!slots || *slots > 0x7fffffffu) return fail(QUIRE_OUT_OF_RANGE, "pages x parts_per_page: more than 2^31 - 1 ids");
  pool.pages_.resize(num_pages);
  pool.parts_.resize(*slots);
  pool.fenced_.reserve(*slots);
  for (uint64_t p = num_pages - 1; p >= 1; --p) pool.push_free(static_cast<uint32_t>(p));
  return pool;
}

Pool::Where Pool::where(const Page& page) {
  if (page.group == kNoGroup) return Where::kFree;
  return page.used > 0 ? Where::kInUse : Where::kEvictable;
}

bool Pool::evictable(PageId page) const { return page.value != 0 && where(pages_[page.value]) == Where::kEvictable; }

uint32_t Pool::claimed_holes(PageId page, GroupId group, uint64_t owner) const {
  if (page.value == 0 || page.value >= pages_.size()) return 0;
  const Page& p = pages_[page.value];
  return p.group == group.value && p.owner == owner && p.used > 0 ? p.holes : 0;
}

void Pool::push_free(uint32_t page) {
  pages_[page].order.next = free_head_;
  free_head_ = page;
  ++free_pages_;
}

void Pool::push_evictable(uint32_t page) {
  pages_[page].order = {evictable_tail_, kNone};
  (evictable_tail_ != kNone ? pages_[evictable_tail_].order.next : evictable_head_) = page;
  evictable_tail_ = page;
  ++evictable_pages_;
}

void Pool::unlink_evictable(uint32_t page) {
  const Link link = pages_[page].order;
  (link.prev != kNone ? pages_[link.prev].order.next : evictable_head_) = link.next;
  (link.next != kNone ? pages_[link.next].order.prev : evictable_tail_) = link.prev;
  --evictable_pages_;
}

void Pool::list_holes(uint32_t page, bool in) {
  Page& p = pages_[page];
  if (p.listed_holes == in) return;
  p.listed_holes = in;
  uint32_t& first = groups_[p.group].hole_list;
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
  uint32_t& first = groups_[p.group].cached_list;
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
  Group& g = groups_[p.group];
  g.open_holes -= p.holes;
  g.open_cached -= p.cached;
  list_holes(page, false);
  list_cached(page, false);
  if (p.cached > 0) {
    push_evictable(page);
    return;
  }
  give_up(page);
}

// No part of the page is in use or cached: it belongs to nobody.
void Pool::give_up(uint32_t page) {
  Page& p = pages_[page];
  holes_ -= p.holes;
  p.last_group = p.group;
  p.group = kNoGroup;
  p.owner = 0;
  p.holes = 0;
  p.first_hole = kNone;
  push_free(page);
}

void Pool::hold_part(uint32_t page) {
  Page& p = pages_[page];
  Group& g = groups_[p.group];
  --p.cached;
  --cached_parts_;
  ++held_parts_;
  if (p.used++ == 0) {
    unlink_evictable(page);
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
  ++groups_[p.group].open_cached;
  if (--p.used == 0) {
    fall_idle(page);
  } else {
    list_cached(page, true);
  }
}

void Pool::push_hole(Page& page, uint32_t part) {
  parts_[part] = Part{};
  parts_[part].next = page.first_hole;
  page.first_hole = part;
  ++page.holes;
  ++holes_;
}

void Pool::free_held(uint32_t part) {
  const uint32_t page = page_number(part);
  Page& p = pages_[page];
  push_hole(p, part);
  --held_parts_;
  ++groups_[p.group].open_holes;
  if (--p.used == 0) {
    fall_idle(page);
  } else {
    list_holes(page, true);
  }
}

void Pool::free_cached(uint32_t part) {
  const uint32_t page = page_number(part);
  Page& p = pages_[page];
  Group& g = groups_[p.group];
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
    give_up(page);
  }
}

// The page is in use.
TakenPart Pool::pop_hole(uint32_t page, uint64_t root) {
  Page& p = pages_[page];
  TakenPart taken{PartIndex(p.first_hole), false, p.root != root};
  if (taken.foreign_bytes) p.root = 0;  // parts of it belong to several now
  Part& part = parts_[p.first_hole];
  p.first_hole = part.next;
  part = Part{};
  part.head = taken.part.value;  // its own head until linked
  ++p.used;
  ++held_parts_;
  --holes_;
  --groups_[p.group].open_holes;
  if (--p.holes == 0) list_holes(page, false);
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
  free_head_ = p.order.next;
  --free_pages_;
  bool foreign = p.last_group != group.value || p.root != root;
  if (p.last_group != kNoGroup && p.last_group != group.value) ++hand_overs_;
  p.group = static_cast<uint8_t>(group.value);
  p.owner = owner;
  p.root = root;
  const uint32_t ppp = groups_[group.value].shape.parts_per_page;
  // The first part is taken at once, the others become holes in ascending order.
  const uint32_t first = page * stride_;
  p.used = 1;
  p.holes = ppp - 1;
  p.first_hole = ppp > 1 ? first + 1 : kNone;
  for (uint32_t q = 1; q < ppp; ++q) {
    parts_[first + q] = Part{};
    if (q + 1 < ppp) parts_[first + q].next = first + q + 1;
  }
  parts_[first] = Part{};
  parts_[first].head = first;
  ++held_parts_;
  holes_ += p.holes;
  groups_[group.value].open_holes += p.holes;
  if (p.holes > 0) list_holes(page, true);
  return TakenPart{PartIndex(first), true, foreign};
}

TakenPart Pool::recycle_oldest(GroupId group, uint64_t owner, uint64_t root) {
  const uint32_t page = evictable_head_;
  Page& p = pages_[page];
  evictable_head_ = p.order.next;
  (p.order.next != kNone ? pages_[p.order.next].order.prev : evictable_tail_) = kNone;
  --evictable_pages_;
  --cached_parts_;
  ++held_parts_;
  const bool foreign = p.group != group.value || p.root != root;
  if (p.group != group.value) ++hand_overs_;
  p.last_group = p.group;
  p.group = static_cast<uint8_t>(group.value);
  p.used = 1;
  p.cached = 0;
  p.owner = owner;
  p.root = root;
  parts_[page] = Part{1, kNone, page, kNone, 0};
  return TakenPart{PartIndex(page), true, foreign};
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
  for (uint32_t i = head.value; i != kNone; i = parts_[i].next) hold_part(page_number(i));
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

void Pool::unref_blocks(GroupId group, std::span<const int32_t> ids, uint64_t fence) {
  if (plain_ && fence == 0) {
    unref_plain(ids);
    return;
  }
  for (size_t i = ids.size(); i > 0; --i) {
    if (ids[i - 1] != 0) unref(index_of(group, PartId(ids[i - 1])), fence);
  }
}

// An id is a page, and a page that loses its last reference goes to the end of the order at once.
void Pool::unref_plain(std::span<const int32_t> ids) {
  for (size_t i = ids.size(); i > 0; --i) {
    const auto page = static_cast<uint32_t>(ids[i - 1]);
    Part& part = parts_[page];
    if (page == 0 || --part.refs > 0 || part.fence != 0) continue;
    if (part.node == kNone) {
      free_held(page);
      continue;
    }
    pages_[page].used = 0;
    pages_[page].cached = 1;
    --held_parts_;
    ++cached_parts_;
    push_evictable(page);
  }
}

// The block is neither referenced nor fenced any more.
void Pool::let_go(PartIndex head) {
  const bool published = parts_[head.value].node != kNone;
  for (uint32_t i = head.value, next = kNone; i != kNone; i = next) {
    next = parts_[i].next;
    if (published) {
      cache_part(page_number(i));
    } else {
      free_held(i);
    }
  }
}

void Pool::unpublish(PartIndex head) {
  Part& h = parts_[head.value];
  h.node = kNone;
  if (h.refs > 0 || h.fence != 0) return;
  for (uint32_t i = head.value, next = kNone; i != kNone; i = next) {
    next = parts_[i].next;
    free_cached(i);
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
    const Part& part = parts_[size_t{page.value} * stride_ + q];
    if (part.head == kNone) continue;
    const Part& head = parts_[part.head];
    if (head.refs == 0 && head.fence == 0 && head.node != kNone) out[n++] = PartIndex(part.head);
  }
  return n;
}

}  // namespace quire
