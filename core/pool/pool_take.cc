// Taking parts: holes of claimed pages, free pages, holes anywhere.
#include <algorithm>

#include "core/pool/pool.h"

namespace quire {

// The page is in use.
TakenPart Pool::pop_hole(uint32_t page, uint64_t root) {
  Page& p = pages_[page];
  Tag& tag = tags_[page];
  TakenPart taken{PartIndex(p.first_hole), false, tag.root != root};
  if (taken.foreign_bytes) tag.root = 0;  // parts of it belong to several now
  Chain& part = chains_[p.first_hole];
  p.first_hole = part.next;
  part = Chain{taken.part.value, kNone};  // its own head until linked
  ++p.used;
  ++held_parts_;
  --holes_;
  --groups_[tag.group].open_holes;
  if (--p.holes == 0) list_holes(page, false);
  return taken;
}

TakenPart Pool::take_claimed(PageId page, GroupId group, uint64_t owner, uint64_t root) {
  if (claimed_holes(page, group, owner) == 0) return {};
  return pop_hole(page.value, root);
}

uint32_t Pool::take_claimed_run(PageId page, GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids) {
  if (ids.empty() || claimed_holes(page, group, owner) == 0 || tags_[page.value].root != root) return 0;
  Page& p = pages_[page.value];
  const auto n = static_cast<uint32_t>(std::min<size_t>(ids.size(), p.holes));
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t part = p.first_hole;
    p.first_hole = chains_[part].next;
    chains_[part] = Chain{part, kNone};
    blocks_[part].refs = 1;
    ids[i] = id_of(group, PartIndex(part)).value;
  }
  p.used += n;
  held_parts_ += n;
  holes_ -= n;
  groups_[group.value].open_holes -= n;
  p.holes -= n;
  if (p.holes == 0) list_holes(page.value, false);
  return n;
}

// A page without group goes to one; whether its bytes are those of another group or root.
bool Pool::hand_over(uint32_t page, GroupId group, uint64_t root) {
  Tag& tag = tags_[page];
  const bool foreign = tag.last_group != group.value || tag.root != root;
  if (tag.last_group != kNoGroup && tag.last_group != group.value) ++hand_overs_;
  tag.where = Where::kInUse;
  tag.group = static_cast<uint8_t>(group.value);
  tag.warm = false;
  tag.root = root;
  return foreign;
}

TakenPart Pool::take_page(GroupId group, uint64_t owner, uint64_t root) {
  if (free_head_ == kNone) return {};
  if (plain_) return take_empty(group, root);
  int32_t id = 0;
  const TakenPart taken = take_page_run(group, owner, root, {&id, 1});
  blocks_[taken.part.value].refs = 0;  // until linked
  return taken;
}

TakenPart Pool::take_page_run(GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids) {
  const uint32_t page = free_head_;
  free_head_ = order_[page].next;
  --free_pages_;
  const bool foreign = hand_over(page, group, root);
  Group& g = groups_[group.value];
  const uint32_t ppp = g.shape.parts_per_page;
  const auto n = static_cast<uint32_t>(std::min<size_t>(ids.size(), ppp));
  const uint32_t first = page * stride_, name = page * ppp;
  for (uint32_t q = 0; q < n; ++q) {
    blocks_[first + q] = Block{1, kNone};
    chains_[first + q] = Chain{first + q, kNone};
    ids[q] = static_cast<int32_t>(name + q);
  }
  for (uint32_t q = n; q < ppp; ++q) {
    blocks_[first + q] = Block{};
    chains_[first + q] = Chain{kNone, q + 1 < ppp ? first + q + 1 : kNone};
  }
  Page& p = pages_[page];
  p.owner = owner;
  p.used = n;
  p.holes = ppp - n;
  p.first_hole = n < ppp ? first + n : kNone;
  held_parts_ += n;
  holes_ += p.holes;
  g.open_holes += p.holes;
  ++g.used_pages;
  if (p.holes > 0) list_holes(page, true);
  return TakenPart{PartIndex(first), true, foreign};
}

TakenPart Pool::take_hole(GroupId group, uint64_t root) {
  uint32_t page = groups_[group.value].hole_list;
  if (page == kNone) return {};
  return pop_hole(page, root);
}

void Pool::link(std::span<const PartIndex> parts) {
  blocks_[parts[0].value].refs = 1;
  if (plain_) return;
  for (size_t i = 0; i < parts.size(); ++i) {
    chains_[parts[i].value] = Chain{parts[0].value, i + 1 < parts.size() ? parts[i + 1].value : kNone};
  }
}

}  // namespace quire
