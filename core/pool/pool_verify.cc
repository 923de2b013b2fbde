// Walks the whole pool and re-derives what the counters and lists claim.
#include <array>

#include "core/pool/pool.h"

namespace quire {

PoolCounts Pool::counts() const {
  PoolCounts c;
  c.free_pages = free_pages();
  c.evictable_pages = evictable_.pages;
  c.order_changes = ahead_.changes;
  c.spared_pages = spared_list_.pages;
  c.protected_pages = protected_.pages;
  c.used_pages = used_pages();
  c.hand_overs = hand_overs_;
  c.held_parts = held_parts_;
  c.cached_parts = cached_parts_;
  c.holes = holes_;
  return c;
}

uint64_t Pool::num_published() const {
  uint64_t n = 0;
  for (size_t part = 0; part < at_.num_parts(); ++part) n += at_.block(part).node != kNone ? 1 : 0;
  return n;
}

uint64_t Pool::host_bytes() const {
  return at_.host_bytes() + fences_.capacity() * sizeof(uint64_t) + chains_.capacity() * sizeof(Chain) + pages_.capacity() * sizeof(Page) +
         spares_.host_bytes() + residency.host_bytes() + fenced_.capacity() * sizeof(uint32_t) + groups_.capacity() * sizeof(Group);
}

Status Pool::verify_plain_page(uint32_t page) const {
  const Tag& tag = at_.tag(page);
  const PartIndex head(page);
  const bool published = at_.block(page).node != kNone;
  const Where right = held(head) ? Where::kInUse : published ? Where::kEvictable : Where::kFree;
  if (tag.where != right) return fail(QUIRE_INTERNAL, "page %u: neither held nor published, or in the wrong state", page);
  return {};
}

Status Pool::verify_parts(uint32_t page) const {
  const Page& p = pages_[page];
  const Tag& tag = at_.tag(page);
  const Where right = tag.group == kNoGroup ? Where::kFree : p.used > 0 ? Where::kInUse : Where::kEvictable;
  if (tag.where != right) return fail(QUIRE_INTERNAL, "page %u: in the wrong state", page);
  if (tag.group == kNoGroup) {
    if (p.used + p.cached + p.holes != 0) return fail(QUIRE_INTERNAL, "page %u: free but counts parts", page);
    return {};
  }
  uint32_t ppp = groups_[tag.group].shape.parts_per_page;
  uint32_t used = 0, cached = 0, holes = 0;
  for (uint32_t q = 0; q < ppp; ++q) {
    const PartIndex head(chains_[page * stride_ + q].head);
    if (head.value == kNone) {
      ++holes;
      continue;
    }
    if (!held(head) && at_.block(head.value).node == kNone)
      return fail(QUIRE_INTERNAL, "page %u part %u: neither held nor published", page, q);
    ++(held(head) ? used : cached);
  }
  if (used != p.used || cached != p.cached || holes != p.holes) {
    return fail(QUIRE_INTERNAL, "page %u: counts %u/%u/%u, found %u/%u/%u (used/cached/holes)", page, p.used, p.cached, p.holes, used,
                cached, holes);
  }
  uint32_t walked = 0;
  for (uint32_t i = p.first_hole; i != kNone; i = chains_[i].next, ++walked) {
    if (walked > ppp || page_number(i) != page || chains_[i].head != kNone)
      return fail(QUIRE_INTERNAL, "page %u: hole list is broken", page);
  }
  if (walked != holes) return fail(QUIRE_INTERNAL, "page %u: %u holes listed, %u found", page, walked, holes);
  const bool in_use = tag.where == Where::kInUse;
  if (p.listed_holes != (in_use && holes > 0)) return fail(QUIRE_INTERNAL, "page %u: wrongly (not) in the hole list", page);
  if (p.listed_cached != (in_use && cached > 0)) return fail(QUIRE_INTERNAL, "page %u: wrongly (not) in the list of cached", page);
  return {};
}

Status Pool::verify_lists(std::vector<uint8_t>* listed) const {
  uint64_t free = 0, evictable = 0, stale = 0;
  for (uint32_t i = free_.head; i != kNone; i = at_[i].next) {
    if (at_.tag(i).where != Where::kFree || ((*listed)[i] & 1) != 0 || i == 0) {
      return fail(QUIRE_INTERNAL, "free list: page %u does not belong", i);
    }
    (*listed)[i] |= 1;
    ++free;
  }
  const auto walk = [&](uint32_t head, uint32_t tail, uint64_t* length) -> Status {
    uint32_t last = kNone;
    for (uint32_t i = head; i != kNone; last = i, i = at_[i].next) {
      if (at_.tag(i).where != Where::kEvictable || at_[i].prev != last || ((*listed)[i] & 2) != 0) {
        return fail(QUIRE_INTERNAL, "evictable or stale list: page %u does not belong", i);
      }
      (*listed)[i] |= 2;
      ++*length;
    }
    if (last != tail) return fail(QUIRE_INTERNAL, "evictable or stale list: wrong tail");
    return {};
  };
  QUIRE_RETURN_IF_ERROR(walk(evictable_.head, evictable_.tail, &evictable));
  for (uint32_t i = evictable_.head; i != kNone; i = at_[i].next) {
    if (spares_.count(i) > 0) return fail(QUIRE_INTERNAL, "page %u: spared, but among those that are not", i);
  }
  for (uint32_t i = spared_list_.head; i != kNone; i = at_[i].next) {
    if (spares_.count(i) == 0) return fail(QUIRE_INTERNAL, "page %u: nobody spares it, but it is among the spared", i);
  }
  const uint64_t others = evictable;
  QUIRE_RETURN_IF_ERROR(walk(spared_list_.head, spared_list_.tail, &evictable));
  if (evictable - others != spared_list_.pages) return fail(QUIRE_INTERNAL, "spared list: wrong length");
  QUIRE_RETURN_IF_ERROR(walk(stale_.head, stale_.tail, &stale));
  if (free != free_.pages || evictable != evictable_.pages || stale != stale_.pages)
    return fail(QUIRE_INTERNAL, "page lists: wrong lengths");
  uint32_t first = kNone;
  uint64_t hit = 0, stale_hit = 0;
  for (uint32_t i = evictable_.head; i != kNone; i = at_[i].next) {
    if (!at_.tag(i).hit && first != kNone) return fail(QUIRE_INTERNAL, "page %u: among protected pages, but not hit", i);
    if (!at_.tag(i).hit) continue;
    if (first == kNone) first = i;
    ++hit;
  }
  for (uint32_t i = stale_.head; i != kNone; i = at_[i].next) stale_hit += at_.tag(i).hit ? 1 : 0;
  if (first != protected_.first || hit != protected_.pages || stale_hit != stale_.hit_pages || (protected_.part == 0 && hit > 0))
    return fail(QUIRE_INTERNAL, "protected pages: wrong first one, or wrong number");
  for (uint32_t i = 1; i < at_.size(); ++i) {
    Where w = at_.tag(i).where;
    bool right = (w == Where::kFree) == (((*listed)[i] & 1) != 0) && (w == Where::kEvictable) == (((*listed)[i] & 2) != 0);
    if (!right) return fail(QUIRE_INTERNAL, "page %u: in no list, or in the wrong one", i);
  }
  return {};
}

// What the group's pages in use have open; its lists reach each of them once.
Status Pool::verify_group(uint32_t group) const {
  const Group& g = groups_[group];
  uint64_t holes = 0, cached = 0, used = 0, evictable = 0;
  for (uint32_t i = 1; i < at_.size(); ++i) {
    if (at_.tag(i).group != group) continue;
    evictable += at_.tag(i).where == Where::kEvictable ? 1 : 0;
    if (at_.tag(i).where != Where::kInUse) continue;
    ++used;
    if (plain_) continue;
    holes += pages_[i].holes;
    cached += pages_[i].cached;
  }
  if (holes != g.open_holes || cached != g.open_cached) {
    return fail(QUIRE_INTERNAL, "group %u: %llu open holes and %llu cached parts, found %llu and %llu", group,
                static_cast<unsigned long long>(g.open_holes), static_cast<unsigned long long>(g.open_cached),
                static_cast<unsigned long long>(holes), static_cast<unsigned long long>(cached));
  }
  uint64_t stale = 0;
  for (uint32_t i = stale_.head; i != kNone; i = at_[i].next) stale += at_.tag(i).group == group ? 1 : 0;
  const uint64_t cached_pages = evictable - stale;
  if (used != g.pages.used || cached_pages != g.pages.cached || stale != g.stale_pages) {
    const std::array<unsigned long long, 6> n = {g.pages.used, g.pages.cached, g.stale_pages, used, cached_pages, stale};
    return fail(QUIRE_INTERNAL, "group %u: %llu pages in use, %llu cached and %llu stale, found %llu, %llu and %llu", group, n[0], n[1],
                n[2], n[3], n[4], n[5]);
  }
  uint64_t listed_holes = 0, listed_cached = 0;
  for (uint32_t i = g.hole_list, prev = kNone; i != kNone; prev = i, i = pages_[i].with_holes.next) {
    if (at_.tag(i).group != group || pages_[i].with_holes.prev != prev)
      return fail(QUIRE_INTERNAL, "group %u: hole list is broken at page %u", group, i);
    listed_holes += pages_[i].holes;
  }
  for (uint32_t i = g.cached_list, prev = kNone; i != kNone; prev = i, i = pages_[i].with_cached.next) {
    if (at_.tag(i).group != group || pages_[i].with_cached.prev != prev)
      return fail(QUIRE_INTERNAL, "group %u: list of cached is broken at page %u", group, i);
    listed_cached += pages_[i].cached;
  }
  if (listed_holes != holes || listed_cached != cached) return fail(QUIRE_INTERNAL, "group %u: lists miss a page", group);
  return {};
}

Status Pool::verify(std::span<const uint32_t> refs, std::span<const uint32_t> spares) const {
  std::vector<uint8_t> listed(at_.size(), 0);
  uint64_t held = 0, cached = 0, holes = 0;
  if (at_.tag(0).group != kNoGroup) return fail(QUIRE_INTERNAL, "null page: belongs to a group");
  for (uint32_t i = 1; i < at_.size(); ++i) {
    if ((at_.tag(i).where == Where::kFree) != (at_.tag(i).group == kNoGroup))
      return fail(QUIRE_INTERNAL, "page %u: free with a group, or without", i);
    QUIRE_RETURN_IF_ERROR(plain_ ? verify_plain_page(i) : verify_parts(i));
    if (plain_) {
      held += at_.tag(i).where == Where::kInUse ? 1 : 0;
      cached += at_.tag(i).where == Where::kEvictable ? 1 : 0;
      continue;
    }
    held += pages_[i].used;
    cached += pages_[i].cached;
    holes += pages_[i].holes;
  }
  if (held != held_parts_ || cached != cached_parts_ + stale_.cached_parts || holes != holes_ + stale_.holes)
    return fail(QUIRE_INTERNAL, "pool: wrong totals of parts");
  QUIRE_RETURN_IF_ERROR(verify_lists(&listed));
  for (uint32_t g = 0; g < groups_.size(); ++g) QUIRE_RETURN_IF_ERROR(verify_group(g));
  for (size_t i = 0; i < at_.num_parts(); ++i) {
    const auto found = this->refs(PartIndex(static_cast<uint32_t>(i)));
    if (found != refs[i]) return fail(QUIRE_INTERNAL, "part %zu: %u references, %u counted", i, found, refs[i]);
  }
  uint64_t spared = 0;
  for (uint32_t i = 0; i < at_.size(); ++i) {
    if (at_.tag(i).spared != spares_.has(i)) return fail(QUIRE_INTERNAL, "page %u: its record and the counts disagree on who spares it", i);
    const uint32_t found = spares_.count(i), right = spares.empty() ? 0 : spares[i];
    if (found != right) return fail(QUIRE_INTERNAL, "page %u: spared %u times, %u counted", i, found, right);
    spared += found > 0 ? 1 : 0;
  }
  if (spared != spares_.num_pages()) return fail(QUIRE_INTERNAL, "pool: wrong number of spared pages");
  std::vector<uint8_t> fenced(at_.num_parts(), 0);
  for (uint32_t head : fenced_) {
    if (fenced[head]++ != 0 || fences_[head] == 0) return fail(QUIRE_INTERNAL, "fence list: part %u listed wrongly", head);
  }
  for (size_t i = 0; i < at_.num_parts(); ++i) {
    if ((fences_[i] != 0) != (fenced[i] != 0)) return fail(QUIRE_INTERNAL, "part %zu: fenced but not listed", i);
  }
  return {};
}

}  // namespace quire
