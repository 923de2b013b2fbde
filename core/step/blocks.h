// The blocks of sequences: takes them from the pool, enters them in tables and gives them back.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/events/event_recorder.h"
#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/entry_plan.h"
#include "core/step/eviction.h"
#include "core/step/facts.h"
#include "core/step/steps.h"

namespace quire {

// For whom parts are taken.
struct Taking {
  uint32_t group = 0;
  AllocFrom room = AllocFrom::kPages;
  uint64_t owner = 0;
  uint64_t root = 0;
  Holding* holding = nullptr;
};

class Blocks {
 public:
  // All are borrowed.
  Blocks(const Facts& facts, Pool& pool, PrefixIndex& index, Sequences& sequences, const Steps& steps, const EventRecorder& events,
         Eviction& eviction);

  // Who fills a page: a sequence in one incarnation.
  uint64_t owner(uint32_t sequence) const;
  // kNone where not resident.
  PartIndex block_head(uint32_t sequence, uint32_t group, uint32_t block) const {
    const int32_t id = sequences_.table(sequence, group, 0)[block];
    return id == 0 ? PartIndex(kNone) : pool_.index_of(GroupId(group), PartId(id));
  }
  // As it was committed: a row in flight may have replaced it by a copy that is not written yet.
  PartIndex committed_head(uint32_t sequence, uint32_t group, uint32_t block) const;
  // Writing at `position` would change a block that others read.
  bool tail_is_shared(uint32_t sequence, uint32_t group, uint64_t position) const;
  // Somebody holds a block of the sequence that is not full: whoever fills it copies it first.
  void share_unfinished(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head);

  // Taking. Admission has counted: there is room.
  Taking start_taking(uint32_t sequence, uint32_t group, AllocFrom room);
  PartIndex take_block(const Taking& taking, Step* step);
  // Takes what a row of Admission::plan_next() lacks, in all tables. Its last blocks are nobody
  // else's.
  void take_next(const EntryPlan& plan, Step* step);
  // Grows the table to `want` blocks.
  void grow(const Taking& taking, uint32_t sequence, uint32_t want, Step* step);
  // The same where `dead` blocks stay empty, and the adopted ones of the group, which are
  // referenced already, are entered. Blocks before the result need no bytes; 0: none was
  // adopted.
  uint32_t grow_around(const Taking& taking, uint32_t sequence, Stretch dead, uint32_t want, std::span<const Adopted> adopted, Step* step);
  // A copy of the sequence's own takes the place of the block that holds `position`.
  void replace_tail(uint32_t sequence, uint32_t group, uint64_t position, AllocFrom room, Step* step);
  // The child's tables name the parent's blocks up to the committed length.
  void share_blocks(uint32_t parent, uint32_t child);

  // Tables.
  void put_block(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head);
  void clear_blocks(uint32_t sequence, uint32_t group, uint32_t first, uint32_t end);
  // The row shows its table up to its last token: what follows, for drafts, is shown by a row that
  // has come so far.
  void settle(uint32_t sequence, uint32_t group, uint64_t tokens, RowGroup* rg) {
    Holding& h = sequences_.holding(sequence, group);
    rg->settled = h.settled;
    h.settled = static_cast<uint32_t>(facts_.groups[group].block.ceil(tokens));
  }

  // Giving back. What steps in flight may use is fenced.
  void release(PartIndex head) { pool_.unref(head, steps_.newest_id()); }  // one reference
  // One reference of a sequence none of whose rows in flight uses the block.
  void release_passed(PartIndex head) {  //
    pool_.unref(head, pool_.refs(head) == 1 ? 0 : steps_.newest_id());
  }
  void drop_blocks(uint32_t sequence, uint32_t group, uint32_t first, uint32_t end);
  // The tail first. passed: no row in flight uses them.
  void release_blocks_from(uint32_t sequence, uint32_t group, uint32_t first, bool passed = false);
  // The tail is evicted first, before all else.
  void release_cold_from(uint32_t sequence, uint64_t token);
  void give_back_encoder(uint32_t sequence);
  void release_all(uint32_t sequence, uint64_t cold_from = UINT64_MAX);
  // Releases what left the live ranges at `committed`. Before falls_at there is nothing.
  void prune(uint32_t sequence, const Step& step, size_t row);

  uint64_t num_copies() const { return num_copies_; }

 private:
  // Parts for ids, those of one block or of blocks with one part each: how many there were, all of
  // them if admission counted well.
  uint32_t take(const Taking& taking, std::span<int32_t> ids, Step* step);
  uint32_t take_plain(const Taking& taking, std::span<int32_t> ids, Step* step);
  Taken take_from_a_page(const Taking& taking, std::span<int32_t> ids);
  uint32_t recycle(const Taking& taking, std::span<int32_t> ids, Step* step);
  // Zeroed before the step.
  void note_zero(PageId page, Step* step) { step->zeroes.push_back(quire_zero{kNone, 0, static_cast<int32_t>(page.value), 0}); }
  Stretch cold_blocks(const Step& step, size_t row, uint32_t group, uint64_t committed) const;

  const Facts& facts_;
  Pool& pool_;
  PrefixIndex& index_;
  Sequences& sequences_;
  const Steps& steps_;
  const EventRecorder& events_;
  Eviction& eviction_;
  std::vector<int32_t> scratch_ids_;  // one block's parts
  uint64_t num_copies_ = 0;
};

}  // namespace quire
