// Taking parts: holes of claimed pages, free pages, holes anywhere.
#include <algorithm>

#include "core/pool/pool.h"

namespace quire {

// The page is in use and has holes.
Taken Pool::fill_holes(uint32_t page, GroupId group, uint64_t root, std::span<int32_t> ids) {
  Page& p = pages_[page];
  Tag& tag = at_.tag(page);
  const bool foreign = tag.root != root;
  if (foreign) tag.root = 0;  // parts of it belong to several now
  const auto n = static_cast<uint32_t>(std::min<size_t>(ids.size(), p.holes));
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t part = p.first_hole;
    p.first_hole = chains_[part].next;
    chains_[part] = Chain{part, kNone};
    at_.block(part).refs = 1;
    ids[i] = id_of(group, PartIndex(part)).value;
  }
  p.used += n;
  held_parts_ += n;
  holes_ -= n;
  groups_[group.value].open_holes -= n;
  p.holes -= n;
  if (p.holes == 0) list_holes(page, false);
  return {n, false, foreign};
}

Taken Pool::take_claimed(PageId page, GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids) {
  if (claimed_holes(page, group, owner) == 0) return {};
  return fill_holes(page.value, group, root, ids);
}

Taken Pool::take_holes(GroupId group, uint64_t root, std::span<int32_t> ids) {
  const uint32_t page = groups_[group.value].hole_list;
  if (page == kNone) return {};
  return fill_holes(page, group, root, ids);
}

// A page without group goes to one; whether its bytes are those of another group or root.
bool Pool::hand_over(uint32_t page, GroupId group, uint64_t root) {
  Tag& tag = at_.tag(page);
  const bool foreign = tag.last_group != group.value || tag.root != root;
  if (tag.last_group != kNoGroup && tag.last_group != group.value) ++hand_overs_;
  tag.where = Where::kInUse;
  tag.group = static_cast<uint8_t>(group.value);
  tag.place = Place::kFront;
  tag.spared = tag.hit = false;
  tag.root = root;
  residency.took(page, group.value);
  ++groups_[group.value].pages.used;
  return foreign;
}

// The first parts become blocks, the others holes.
Taken Pool::open_page(GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids) {
  const uint32_t page = free_.head;
  free_.head = at_[page].next;
  --free_.pages;
  const bool foreign = hand_over(page, group, root);
  Group& g = groups_[group.value];
  const uint32_t ppp = g.shape.parts_per_page;
  const auto n = static_cast<uint32_t>(std::min<size_t>(ids.size(), ppp));
  const uint32_t first = page * stride_, name = page * ppp;
  Block* const blocks = &at_.block(first);  // of a page with several parts they lie side by side
  Chain* const chains = &chains_[first];
  for (uint32_t q = 0; q < n; ++q) {
    blocks[q] = Block{1, kNone};
    chains[q] = Chain{first + q, kNone};
    ids[q] = static_cast<int32_t>(name + q);
  }
  for (uint32_t q = n; q < ppp; ++q) {
    blocks[q] = Block{};
    chains[q] = Chain{kNone, q + 1 < ppp ? first + q + 1 : kNone};
  }
  Page& p = pages_[page];
  p.owner = owner;
  p.used = n;
  p.holes = ppp - n;
  p.first_hole = n < ppp ? first + n : kNone;
  held_parts_ += n;
  holes_ += p.holes;
  g.open_holes += p.holes;
  if (p.holes > 0) list_holes(page, true);
  return {n, true, foreign};
}

void Pool::link(GroupId group, std::span<const int32_t> ids) {
  const PartIndex head = index_of(group, PartId(ids[0]));
  PartIndex before = head;
  for (const int32_t id : ids.subspan(1)) {
    const PartIndex part = index_of(group, PartId(id));
    at_.block(part.value).refs = 0;  // the head counts for all
    chains_[part.value] = Chain{head.value, kNone};
    chains_[before.value].next = part.value;
    before = part;
  }
}

}  // namespace quire
