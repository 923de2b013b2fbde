// The pool: pages, the parts they hold for one group at a time, references, and the order in which cached pages are given up.
//
//   page    free (no group)  ->  in use (some part held)  ->  evictable (only cached parts, or none held)  ->  free
//   all evictable pages      ->  stale (free but for what their blocks still say)  ->  free
//   part    hole  ->  held (its block is referenced or fenced)  ->  cached (published, unreferenced)  ->  hole
//
// A block is `ids_per_block` parts of one group that live and die together; it is named by its head, the part of column 0. Only the head
// counts references. The pool never calls anybody: evicting is the caller's walk over cached_heads(oldest_evictable()).
//
// The order of eviction is that of segmented LRU: by last release, but pages that a request hit
// since a group took them stand behind all others. These are protected. If they are more than a
// part of all free and evictable pages when one of them comes into the order, the oldest ones count
// as if they had not been hit.
// Serialized. No call allocates after create. O(1) per part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/divisor.h"
#include "core/base/huge_pages.h"
#include "core/base/ids.h"
#include "core/base/prefetch.h"
#include "core/base/status.h"
#include "core/pool/lookahead.h"
#include "core/pool/page_records.h"
#include "core/pool/protected_pages.h"
#include "core/pool/residency.h"
#include "core/pool/spares.h"

namespace quire {

struct PoolGroup {
  uint32_t parts_per_page = 1;
  uint32_t ids_per_block = 1;
};

// What was taken, and whether it needs zeroing: all of it or nothing, for it lies in one page.
// A root is a number above 0 that stands for one identity and never for another.
struct Taken {
  uint32_t count = 0;          // ids that were written; 0: there was none of that sort
  bool page_is_new = false;    // the whole page was opened for this group now
  bool foreign_bytes = false;  // the bytes were last written for another group or root
};

// How likely a released block is asked for again. A page whose blocks were all cold is the next to be evicted, the one released last first;
// every other goes to the end of the order, or to where its protected pages begin.
enum class EvictionClass : uint8_t { kWarm, kCold };

// Who refers to a block.
enum class User : uint8_t {
  kRequest,  // it hit the block
  kOther,
  // It copies what is evicted soon. If the reference is also dropped with kCold, the block is
  // evicted next, after those that were dropped so before, unless another user held it in between.
  kCopier,
};

struct PoolCounts {
  uint64_t free_pages = 0;
  uint64_t evictable_pages = 0;
  uint64_t spared_pages = 0;     // of the evictable ones
  uint64_t protected_pages = 0;  // of them, too, and not spared
  uint64_t used_pages = 0;       // null page excluded
  uint64_t held_parts = 0;
  uint64_t cached_parts = 0;
  uint64_t holes = 0;
  uint64_t hand_overs = 0;
  uint64_t order_changes = 0;  // pages that left the order of eviction, or came to where it begins
};

// Pages that a group has: in use, and evictable.
struct GroupPages {
  uint64_t used = 0;
  uint64_t cached = 0;
};

// Parts of a group that nobody holds, in pages that have others.
struct OpenParts {
  uint64_t holes = 0;
  uint64_t cached = 0;  // eviction turns them into holes
};

class Pool {
 public:
  // How long pages stay: of a sample, by the time that the caller sets.
  Residency residency;

  // protected_part: of free and evictable pages at most one in so many is protected, when one of
  // them comes into the order; 0: none.
  static Result<Pool> create(uint64_t num_pages, std::span<const PoolGroup> groups,  //
                             uint32_t protected_part = 0);

  // Names. Page 0 is the null page: part 0 of every group, never taken.
  PartIndex index_of(GroupId group, PartId id) const {
    const PoolGroup& shape = groups_[group.value].shape;
    auto v = static_cast<uint32_t>(id.value);
    if (shape.parts_per_page == stride_) return PartIndex(v);
    uint32_t page = groups_[group.value].by_parts.quotient(v);
    return PartIndex(v + page * (stride_ - shape.parts_per_page));
  }
  PartId id_of(GroupId group, PartIndex part) const {
    const PoolGroup& shape = groups_[group.value].shape;
    if (shape.parts_per_page == stride_) return PartId(static_cast<int32_t>(part.value));
    return PartId(static_cast<int32_t>(part.value - page_number(part.value) * (stride_ - shape.parts_per_page)));
  }
  PageId page_of(PartIndex part) const { return PageId(page_number(part.value)); }
  // kNone for a hole.
  PartIndex head_of(PartIndex part) const { return plain_ ? part : PartIndex(chains_[part.value].head); }
  PartIndex next_in_block(PartIndex part) const { return PartIndex(plain_ ? kNone : chains_[part.value].next); }

  // Room. Pages that can be had by taking free ones or evicting.
  uint64_t available_pages() const { return free_pages() + evictable_.pages; }
  uint64_t free_pages() const { return free_.pages + stale_.pages; }
  uint64_t used_pages() const { return at_.size() - 1 - free_pages() - evictable_.pages; }
  bool has_empty_page() const { return free_.pages > 0; }
  bool has_stale_page() const { return stale_.pages > 0; }
  // In pages that are in use by the group; those of free and evictable pages count as pages.
  OpenParts open_parts(GroupId group) const {
    const Group& g = groups_[group.value];
    return {g.open_holes, g.open_cached};
  }
  GroupPages pages_of(GroupId group) const { return groups_[group.value].pages; }
  // A page of the group that is in use and keeps cached parts; kNone when there is none.
  PageId page_with_cached(GroupId group) const { return PageId(groups_[group.value].cached_list); }
  // Parts of a page that nobody holds: cached ones and holes.
  uint32_t idle_parts(PageId page) const {
    if (plain_) return at_.tag(page.value).where == Where::kEvictable ? 1 : 0;
    return pages_[page.value].cached + pages_[page.value].holes;
  }
  // Held: referenced or fenced.
  bool held(PartIndex head) const { return at_.block(head.value).refs > 0 || fenced(head); }
  // Holes in `page` if it is in use, belongs to the group and is claimed by `owner`; 0 otherwise.
  uint32_t claimed_holes(PageId page, GroupId group, uint64_t owner) const {
    if (page.value == 0 || page.value >= pages_.size()) return 0;
    const Page& p = pages_[page.value];
    const bool is_own = p.owner == owner && p.used > 0;
    return p.holes > 0 && at_.tag(page.value).group == group.value && is_own ? p.holes : 0;
  }
  bool evictable(PageId page) const { return at_.tag(page.value).where == Where::kEvictable; }

  // Taking. Each call writes as many ids as one page has, at most ids.size(), which is at least 1.
  // Each id is a block of one part with one reference; link() makes one block of several.
  // Holes of a page that `owner` claims.
  Taken take_claimed(PageId page, GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids);
  // Opens a free page for the group; owner claims it. None when no page is free: evict first.
  Taken take_page(GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids) {
    if (free_.head == kNone) return {};
    if (!plain_) return open_page(group, owner, root, ids);
    const uint32_t page = free_.head;
    free_.head = at_[page].next;
    --free_.pages;
    const bool foreign = hand_over(page, group, root);
    at_.block(page) = Block{1, kNone};
    ++held_parts_;
    ids[0] = static_cast<int32_t>(page);
    return {1, true, foreign};
  }
  // Holes of any page that the group uses.
  Taken take_holes(GroupId group, uint64_t root, std::span<int32_t> ids);
  // Blocks of one part become one block, whose head is ids[0].
  void link(GroupId group, std::span<const int32_t> ids);
  // Every block of every group is one part and one page: nothing is claimed, nothing has holes.
  bool plain() const { return plain_; }
  // In a plain pool: the oldest evictable pages become blocks of the group with one reference, as
  // many as ids has room for and evict(node, group) says that the index forgot. Returns how many.
  // The same as unpublish and take_page of each, without the steps between. zero(page) is called
  // for those with foreign bytes; fetch(soon, next) with nodes of pages that will perhaps be
  // evicted, `next` before `soon`. evict() does not call the pool.
  template <typename Evict, typename Zero, typename Fetch>
  uint32_t recycle(GroupId group, uint64_t root, std::span<int32_t> ids, Evict evict, Zero zero, Fetch fetch) {
    uint32_t n = 0, page = evictable_.head;
    uint64_t changed = 0;
    PageRecords::Record* const at = at_.data();
    for (; n < ids.size() && page != kNone; ++n) {
      Tag& tag = at[page].tag;
      const uint32_t next = at[page].link.next;
      lookahead_.ask(tag.later, &at[tag.later]);
      residency.fetch(tag.later);
      fetch(NodeId(at[lookahead_.asked_before(Lookahead::kNodes)].block.node),
            NodeId(at[lookahead_.asked_before(Lookahead::kMore)].block.node));
      if (!evict(NodeId(at[page].block.node), GroupId(tag.group))) break;
      const uint32_t had = tag.group;
      const bool foreign = had != group.value || tag.root != root;
      changed += had != group.value ? 1 : 0;
      if (tag.root != root) tag.root = root;
      tag.where = Where::kInUse;
      tag.place = Place::kFront;
      if (tag.hit) [[unlikely]]
        protected_.leave(page, next);
      tag.spared = tag.hit = false;
      tag.group = static_cast<uint8_t>(group.value);
      tag.last_group = static_cast<uint8_t>(had);
      residency.replaced(page, group.value);
      --groups_[had].pages.cached;
      at[page].block = Block{1, kNone};
      ids[n] = static_cast<int32_t>(page);
      if (foreign) zero(PageId(page));
      page = next;
    }
    evictable_.head = page;
    uint32_t& copied = ahead_.last_copied;
    if (copied != kNone && at_.tag(copied).where != Where::kEvictable) copied = kNone;
    (page != kNone ? at_[page].prev : evictable_.tail) = kNone;
    evictable_.pages -= n;
    ahead_.changes += n;
    cached_parts_ -= n;
    held_parts_ += n;
    groups_[group.value].pages.used += n;
    hand_overs_ += changed;
    return n;
  }
  // The page was given out to be zeroed, and it is not known that this happened: whoever takes it next must zero it.
  void mark_dirty(PageId page) { at_.tag(page.value).root = 0; }

  // References of a block.
  void ref(PartIndex head, User user = User::kOther) {
    // Its evictable pages come back after those that were copied.
    for (PartIndex p = head; user == User::kCopier && p.value != kNone; p = next_in_block(p)) {
      Tag& tag = at_.tag(page_number(p.value));
      if (tag.where == Where::kEvictable) tag.place = Place::kCopied;
    }
    if (at_.block(head.value).refs++ == 0) hold(head);
    if (user == User::kCopier) at_.block(head.value).refs |= kColdRef;
    const bool hit = user == User::kRequest && protected_.part > 0;
    for (PartIndex p = head; hit && p.value != kNone; p = next_in_block(p)) {
      at_.tag(page_number(p.value)).hit = true;
    }
  }
  // One for each block of a table's stretch, the last one first; null ids are passed over.
  void ref_blocks(GroupId group, std::span<const int32_t> ids, User user);
  // Asks for what ref() will read and write.
  void fetch(PartIndex head) const {
    const uint32_t page = page_number(head.value);
    prefetch_to_write(&at_[page]);
    if (plain_) return;
    prefetch_to_write(&pages_[page]);
    prefetch_to_write(&at_.block(head.value));
    prefetch_to_write(&chains_[head.value]);
  }
  bool has_cold_ref(PartIndex head) const { return at_.block(head.value).refs >= kColdRef; }
  // Drops one. The last one of a block frees its parts, or leaves them cached when published. With fence != 0 the block stays held until
  // pass_fences(step >= fence), and a block that has one reference left is fenced too: its last user does not write it before then.
  void unref(PartIndex head, uint64_t fence, EvictionClass eviction_class = EvictionClass::kWarm);
  uint32_t refs(PartIndex head) const {  //
    return static_cast<uint32_t>(at_.block(head.value).refs & (kColdRef - 1));
  }
  // Without fences, which is most of the time, nobody reads them.
  bool fenced(PartIndex head) const { return !fenced_.empty() && fences_[head.value] != 0; }
  // The same for the blocks of a table's stretch, the last one first; null ids are passed over.
  void unref_blocks(GroupId group, std::span<const int32_t> ids, uint64_t fence, EvictionClass eviction_class = EvictionClass::kWarm);
  // The same by a holder whose own steps in flight leave the blocks alone: a block that nobody else has waits for nothing, but for the
  // fence that somebody who gave it up before has left on it; one that others have is fenced as by unref().
  void unref_passed(GroupId group, std::span<const int32_t> ids, uint64_t fence, EvictionClass eviction_class = EvictionClass::kWarm);
  // Blocks fenced up to `step` are let go.
  void pass_fences(uint64_t step);
  // Fences later than `step` become fences of `step` (steps were aborted).
  void lower_fences(uint64_t step);

  // A spared page is evicted after all that are not. Each call counts; whoever spares a page ends
  // it once, with what spare() returned: the page goes to where warm pages go then, unless
  // somebody else spares it, too. A page that becomes free is spared by nobody; ending that changes
  // nothing.
  uint32_t spare(PageId page);
  void end_spare(PageId page, uint32_t life);
  const Spares& spares() const { return spares_; }

  // Publication: the node of the prefix index that names the block.
  void publish(PartIndex head, NodeId node) { at_.block(head.value).node = node.value; }
  // In a plain pool: the same for blocks of several tables, one of every table at each node, as far
  // as they are not published yet; attach(table, node, head) for each, and done(node).
  template <typename Attach, typename Done>
  void publish_together(std::span<const int32_t* const> tables, std::span<const NodeId> nodes,  //
                        Attach attach, Done done) {
    const PageRecords::Blocks blocks = at_.blocks();
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (uint32_t t = 0; t < tables.size(); ++t) {
        const auto page = static_cast<uint32_t>(tables[t][i]);
        if (page == 0 || blocks[page].node != kNone) continue;
        blocks[page].node = nodes[i].value;
        attach(t, nodes[i], PartIndex(page));
      }
      done(nodes[i]);
    }
  }
  NodeId node(PartIndex head) const { return NodeId(at_.block(head.value).node); }
  // Forgets the node; an unreferenced block's parts become holes.
  void unpublish(PartIndex head);
  // The same for all blocks of an evictable page whose blocks have one part each: the page is free.
  void unpublish_page(PageId page);

  // The first page of the order of eviction, else of the spared ones; kNone: nothing is evictable.
  PageId oldest_evictable() const {
    const bool any = evictable_.head != kNone;
    return PageId(any ? evictable_.head : spared_list_.head);
  }
  // The pages that are evicted next, but for spared ones: the next one first. How many.
  uint32_t coldest(std::span<PageId> out) const;
  // The pages of a block take the places of another one's in the order of eviction; those come right behind. Both are evictable, of one
  // group and alone in their pages. Where one of two pages is spared, both stay.
  void take_place_of(PartIndex head, PartIndex other);
  // To be called before the oldest page is evicted: asks for what evicting those after it will read
  // and write. First for what the pool keeps of them, then, nearer, fetch(node, none) for what they
  // publish, then fetch(none, node) for what that leads to.
  template <typename Fetch>
  void fetch_ahead(Fetch fetch) {
    if (evictable_.head == kNone) return;
    const auto visit_nodes = [this](uint32_t page, auto visit) {
      const size_t first = size_t{page} * stride_;
      for (size_t part = first; part < first + stride_; ++part) {
        if (at_.block(part).node != kNone) visit(NodeId(at_.block(part).node));
      }
    };
    const auto fetch_soon = [&](NodeId node) { fetch(node, NodeId(kNone)); };
    const uint32_t later = at_.tag(evictable_.head).later;
    lookahead_.ask(later, &at_[later]);
    visit_nodes(lookahead_.asked_before(Lookahead::kNodes), fetch_soon);
    const auto fetch_more = [&](NodeId node) { fetch(NodeId(kNone), node); };
    visit_nodes(lookahead_.asked_before(Lookahead::kMore), fetch_more);
    if (plain_) return;
    const auto fetch_parts = [this](uint32_t page) {
      prefetch_to_write(&pages_[page]);
      const size_t first = size_t{page} * stride_;
      for (size_t part = first; part < first + stride_; part += kPartsPerLine) {
        prefetch_to_write(&at_.block(part));
        prefetch_to_write(&chains_[part]);
      }
    };
    fetch_parts(later);
    // Hints name pages that came to the end of the order, or before its protected pages. Others
    // came to its front, so the next two are asked for, too.
    const uint32_t next = at_[evictable_.head].next;
    if (next == kNone) return;
    visit_nodes(next, fetch_soon);
    if (at_[next].next == kNone) return;
    prefetch_to_write(&at_[at_[next].next]);
    fetch_parts(at_[next].next);
  }
  // All evictable pages become stale: they count as free, and so do their parts. O(1). No page may be in use.
  void retire_all();
  // Stale pages and evictable ones change places: so the former are emptied as the latter are. To be called again afterwards; meanwhile
  // only blocks of stale pages may be touched.
  void swap_stale();
  // Heads of the blocks that have a cached part in the page. Writes at most parts_per_page items into out, returns how many.
  uint32_t cached_heads(PageId page, std::span<PartIndex> out) const;

  // kNone for a free page.
  GroupId group_of(PageId page) const {
    const uint8_t group = at_.tag(page.value).group;
    return GroupId(group == kNoGroup ? kNone : group);
  }
  uint64_t num_pages() const { return at_.size(); }
  uint32_t parts_per_page(GroupId group) const { return groups_[group.value].shape.parts_per_page; }
  PoolCounts counts() const;       // O(1)
  uint64_t num_published() const;  // walks the pool
  uint64_t host_bytes() const;

  // Re-derives every count and list. What the caller believes: references of each head, by part
  // index; spares by page, none: nobody spares any.
  Status verify(std::span<const uint32_t> refs, std::span<const uint32_t> spares = {}) const;
  uint64_t num_part_slots() const { return at_.num_parts(); }

 private:
  static constexpr uint8_t kNoGroup = PageRecords::kNoGroup;
  static constexpr int32_t kColdRef = 1 << 30;
  static constexpr size_t kSoon = 8;  // blocks of a table ahead of which memory is asked for
  static constexpr uint32_t kPartsPerLine = 8;
  using Link = PageRecords::Link;
  using Tag = PageRecords::Tag;
  using Block = PageRecords::Block;
  using Where = PageRecords::Where;
  using Place = PageRecords::Place;
  // Where a page has several parts, or a block.
  struct Chain {
    uint32_t head = kNone;  // kNone = hole
    uint32_t next = kNone;  // next part of the block, or next hole of the page
  };
  struct alignas(64) Page {
    uint32_t used = 0;
    uint32_t cached = 0;
    uint32_t holes = 0;
    uint32_t first_hole = kNone;
    Link with_holes;   // pages of the group that are in use and have holes
    Link with_cached;  // pages of the group that are in use and keep cached parts
    bool listed_holes = false;
    bool listed_cached = false;
    uint64_t owner = 0;
  };
  struct Group {
    PoolGroup shape;
    Divisor by_parts;  // parts_per_page
    uint64_t open_holes = 0;
    uint64_t stale_pages = 0;  // in the stale list: forgotten by a reset, and not taken since
    // Not next to open_holes: a vector load of both would wait for the last store to either.
    uint64_t open_cached = 0;
    GroupPages pages = {};
    uint32_t hole_list = kNone;
    uint32_t cached_list = kNone;
  };

  uint32_t page_number(uint32_t part) const { return by_stride_.quotient(part); }
  void push_free(uint32_t page);
  void push_evictable(uint32_t page);
  // To the end of the order of eviction, or where the protected pages begin.
  void push_warm(uint32_t page);
  template <EvictionClass kClass>
  size_t push_run(std::span<const int32_t> ids);
  void note_class(PartIndex head, EvictionClass eviction_class) {
    if (eviction_class == EvictionClass::kCold) return;
    if (plain_) {
      at_.tag(head.value).place = Place::kBack;
      return;
    }
    for (PartIndex p = head; p.value != kNone; p = next_in_block(p)) {
      at_.tag(page_number(p.value)).place = Place::kBack;
    }
  }
  void unlink_evictable(uint32_t page);
  void leave_order(uint32_t page);  // of those that are not spared
  void list_holes(uint32_t page, bool in);
  void list_cached(uint32_t page, bool in);
  void fall_idle(uint32_t page);  // the last held part is gone
  void give_up(uint32_t page);
  void hold_part(uint32_t page);    // cached -> held
  void cache_part(uint32_t page);   // held -> cached
  void free_held(uint32_t part);    // held -> hole
  void free_cached(uint32_t part);  // cached -> hole
  uint32_t unref_run(GroupId group, std::span<const int32_t> ids, EvictionClass eviction_class);
  size_t unref_plain_run(GroupId group, std::span<const int32_t> ids, EvictionClass eviction_class);
  bool hand_over(uint32_t page, GroupId group, uint64_t root);
  Taken open_page(GroupId group, uint64_t owner, uint64_t root, std::span<int32_t> ids);
  Taken fill_holes(uint32_t page, GroupId group, uint64_t root, std::span<int32_t> ids);
  void push_hole(Page& page, uint32_t part);
  void hold(PartIndex head);
  void let_go(PartIndex head);
  Status verify_plain_page(uint32_t page) const;
  Status verify_parts(uint32_t page) const;
  Status verify_lists(std::vector<uint8_t>* listed) const;
  Status verify_group(uint32_t group) const;

  std::vector<Group> groups_;
  PageRecords at_;
  HugeVector<uint64_t> fences_;  // [part]: the step that must be done, by head; 0 = none
  HugeVector<Chain> chains_;     // [part]; empty in a plain pool
  HugeVector<Page> pages_;       // empty in a plain pool
  uint32_t stride_ = 1;          // parts_per_page of the finest group
  Divisor by_stride_;
  bool plain_ = false;
  struct {
    uint32_t head = kNone;
    uint64_t pages = 0;
  } free_;
  struct {
    uint32_t head = kNone, tail = kNone;
    uint64_t pages = 0;
  } evictable_;
  ProtectedPages protected_;  // of evictable_
  struct {
    uint64_t changes = 0;          // of the order
    uint32_t last_copied = kNone;  // of the pages at its front that were copied
  } ahead_;
  Lookahead lookahead_;
  struct {
    uint32_t head = kNone, tail = kNone;  // a list like that of evictable pages
    uint64_t pages = 0, cached_parts = 0, holes = 0;
    uint64_t hit_pages = 0;
    uint32_t first_protected = kNone;  // of evictable pages, while they are in the place of these
  } stale_;
  Spares spares_;
  struct {
    uint32_t head = kNone, tail = kNone;  // evictable and spared; not among the others
    uint64_t pages = 0;
  } spared_list_;
  uint64_t hand_overs_ = 0;
  uint64_t held_parts_ = 0, cached_parts_ = 0, holes_ = 0;
  std::vector<uint32_t> fenced_;  // heads waiting for their fence; each at most once
};

}  // namespace quire
