// What the next steps may evict, for those who copy it before it goes. It looks again after a step
// if too few of the pages that it saw last can be left, so its work is in proportion to the pages
// that were evicted or hit.
#pragma once

#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/step/facts.h"

namespace quire {

class NearEviction {
 public:
  // All are borrowed.
  NearEviction(const Facts& facts, PrefixIndex& index, const Pool& pool) : facts_(facts), index_(index), pool_(pool) {}

  void watch();  // takes memory before anything changes
  void watch_no_more() { step_pages_ = 0; }
  bool watches() const { return step_pages_ > 0; }
  // Pages were released or evicted perhaps.
  void note_step() { stepped_ = true; }
  // Calls note(node) for nodes with a block in such a page, the next to be evicted first. Those for
  // which it returns true are passed over until they go, or forget() is called.
  template <typename Note>
  void find(Note note);
  void forget(NodeId node) { index_.marks(node) &= static_cast<uint8_t>(~kNoted); }

 private:
  static constexpr uint8_t kNoted = 0x80;  // mark of a node; ends of prompts have the lower ones
  static constexpr uint64_t kMostPages = 4096;

  bool is_due() const;

  const Facts& facts_;
  PrefixIndex& index_;
  const Pool& pool_;
  uint64_t step_pages_ = 0;  // that a step may take; 0 = nothing is watched
  std::vector<PageId> pages_;
  std::vector<PartIndex> heads_;  // of one page
  bool stepped_ = false;
  uint64_t seen_ = 0;     // pages
  uint64_t changes_ = 0;  // of the order, until then
};

template <typename Note>
void NearEviction::find(Note note) {
  if (!is_due()) return;
  stepped_ = false;
  changes_ = pool_.counts().order_changes;
  const uint32_t n = pool_.coldest(pages_);
  seen_ = n;
  for (uint32_t i = 0; i < n; ++i) {
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
