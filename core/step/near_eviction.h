// What the next steps may evict, for those who copy it before it goes. It looks again after a step
// if too few of the pages that it saw last can be left. Then it walks over the pages that are
// evicted next, and looks into those that it had not seen.
#pragma once

#include <algorithm>
#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/step/facts.h"

namespace quire {

class NearEviction {
 public:
  // All are borrowed.
  NearEviction(const Facts& facts, PrefixIndex& index, const Pool& pool) : facts_(facts), index_(index), pool_(pool) {}

  // Takes memory; nothing else changes.
  void reserve(uint64_t unit_tokens);
  // Nothing was noted so far. reserve() came before.
  void begin(uint64_t unit_tokens);
  void end() { step_pages_ = 0; }
  bool watches() const { return step_pages_ > 0; }
  // Pages were released or evicted perhaps.
  void note_step() { stepped_ = true; }
  // Calls note(node) for nodes with a block in such a page, the next to be evicted first. Those for
  // which it returns true are passed over until they go, or forget() is called.
  template <typename Note>
  void find(Note note);
  void forget(NodeId node) {
    index_.marks(node) &= static_cast<uint8_t>(~kNoted);
    look_again();
  }
  // Also into pages that were seen.
  void look_again() { again_ = true; }
  // Whether the page was in the last look of find(), or is evicted so soon after those that it may
  // have been released with one of them.
  bool saw(PageId page) const { return seen_in_[page.value] / 2 == look_; }

 private:
  static constexpr uint8_t kNoted = 0x80;  // of PrefixIndex::marks()
  static constexpr uint64_t kMostPages = 4096;

  bool is_due() const;
  // That so many tokens have in all groups, and blocks of so many rows.
  uint64_t pages_of(uint64_t tokens, uint64_t rows) const;

  const Facts& facts_;
  PrefixIndex& index_;
  const Pool& pool_;
  uint64_t step_pages_ = 0;  // that a step may take; 0 = nothing is watched
  uint64_t look_pages_ = 0;  // of pages_
  std::vector<PageId> pages_;
  std::vector<PartIndex> heads_;  // of one page
  // By page: twice the look that saw it last, and 1 if the page was only near it.
  std::vector<uint64_t> seen_in_;
  uint64_t look_ = 0;
  bool stepped_ = false, again_ = false;
  uint64_t seen_ = 0;       // pages that were not protected
  uint64_t changes_ = 0;    // of the order, until then
  uint64_t evictable_ = 0;  // pages, then
};

template <typename Note>
void NearEviction::find(Note note) {
  if (!is_due()) return;
  stepped_ = false;
  const PoolCounts counts = pool_.counts();
  changes_ = counts.order_changes;
  evictable_ = counts.evictable_pages;
  const uint32_t found = pool_.coldest(pages_);
  // Others may come before pages that are protected. Those are looked at each time, and do not
  // count as seen: whoever copies them must not make them the next ones.
  const uint64_t first = counts.evictable_pages - counts.spared_pages - counts.protected_pages;
  const uint64_t looked_at = std::min<uint64_t>(found, look_pages_);
  seen_ = std::min(looked_at, first);
  // Pages that were seen are the first ones. One behind others was there, went, and came back with
  // other blocks.
  const uint64_t before = again_ ? UINT64_MAX : look_;
  again_ = false;
  ++look_;
  bool seen = true;
  uint32_t unseen = 0;  // the first of pages_ are those
  for (uint32_t i = 0; i < found; ++i) {
    const PageId page = pages_[i];
    uint64_t& look = seen_in_[page.value];
    seen = seen && i < first && look == 2 * before;
    if (i < looked_at && !seen) pages_[unseen++] = page;
    if (i < first) look = 2 * look_ + (i < looked_at ? 0 : 1);
  }
  for (uint32_t i = 0; i < unseen; ++i) {
    if (!pool_.evictable(pages_[i])) continue;  // a unit that was noted has it
    const uint32_t blocks = pool_.cached_heads(pages_[i], heads_);
    for (uint32_t b = 0; b < blocks; ++b) {
      const NodeId node = pool_.node(heads_[b]);
      if (node.value == kNone || (index_.marks(node) & kNoted) != 0) continue;
      if (note(node)) index_.marks(node) |= kNoted;
    }
  }
}

}  // namespace quire
