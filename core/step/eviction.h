// Empties pages: which of them go, and what leaves the index with them.
#pragma once

#include <vector>

#include "core/events/event_recorder.h"
#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/step/checkpoint_budget.h"
#include "core/step/facts.h"
#include "core/step/published_blocks.h"

namespace quire {

class Eviction {
 public:
  // All are borrowed.
  Eviction(const Facts& facts, Pool& pool, PrefixIndex& index, const EventRecorder& events, CheckpointBudget& budget,
           PublishedBlocks& published);

  // Evicts the oldest page if none is free; false: nothing can be evicted.
  bool make_free_page();
  // A page that a reset left, with what the index keeps of it. There must be one.
  void empty_stale();
  // Makes a hole in a page that somebody keeps in use, by evicting a cached block of it; false:
  // there is none.
  bool evict_between(uint32_t group);
  // Everything that is cached and can be found, without counting it as evicted.
  void forget_all();

  // Pages of one part each were evicted by the pool as they were taken.
  void count_recycled(uint32_t pages) { num_pages_ += pages, num_blocks_ += pages; }
  uint64_t num_pages() const { return num_pages_; }  // that were evicted
  void report(quire_cache_stats* stats) const;

 private:
  bool give_up_least();
  bool empty_oldest();
  void evict_page(PageId page, GroupId group);

  const Facts& facts_;
  Pool& pool_;
  PrefixIndex& index_;
  const EventRecorder& events_;
  CheckpointBudget& budget_;
  PublishedBlocks& published_;
  std::vector<PartIndex> scratch_heads_;  // one page's blocks
  uint64_t num_pages_ = 0, num_blocks_ = 0;
  bool clearing_ = false;  // what is forgotten now is not found anyway: it counts as no eviction
};

}  // namespace quire
