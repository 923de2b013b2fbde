// Recurrent states of a sequence: which parts a row writes, and which of them becomes the current
// one.
//
//   a sequence owns   current (the state at `committed`)
//                     + spares (nobody reads them)
//                     + what its rows in flight write
//
// A row writes into spares first and into new parts then. Where states are written in place the
// part that is read comes last, and only if nobody else reads it and it is no checkpoint: then the
// row cannot be undone once its kernels ran.
#pragma once

#include "core/pool/pool.h"
#include "core/sequence/sequence.h"
#include "core/step/blocks.h"
#include "core/step/entry_plan.h"
#include "core/step/facts.h"
#include "core/step/published_blocks.h"
#include "core/step/steps.h"

namespace quire {

class States {
 public:
  // All are borrowed.
  States(const Facts& facts, Pool& pool, Sequences& sequences, const Steps& steps, PublishedBlocks& published, Blocks& blocks)
      : facts_(facts), pool_(pool), sequences_(sequences), steps_(steps), published_(published), blocks_(blocks) {}

  // Parts that the row lacks in a group of states.
  uint64_t states_wanted(const EntryPlan& plan, uint32_t group) const;
  // A row in flight writes the current state in place.
  bool overwrites_current(uint32_t sequence) const;

  // Reserve.
  void take_states(const EntryPlan& plan, uint32_t group, RowGroup* rg, Step* step);
  // The same for a row of one token; admission saw that the sequence has a spare.
  void take_spare(uint32_t sequence, uint32_t group, uint64_t end, RowGroup* rg, Step* step);
  // Commit. False: overwritten, and nothing was accepted.
  bool commit_states(Step* step, size_t r, uint32_t accepted);
  void retire_states(Step* step, size_t r, bool accepted);
  void swap_states(Step* step, size_t r);
  // Abort. True: the state that was read may be overwritten.
  bool undo_states(Step* step, size_t r, uint32_t group);
  // The row's sequence is gone or was emptied.
  void drop_states(Step* step, size_t r);
  void give_back_spares(uint32_t sequence);

 private:
  bool may_overwrite(const EntryPlan& plan, uint32_t group) const;
  // False: it is not the sequence's to write, or it has enough.
  bool keeps_spare(uint32_t sequence, uint32_t group, PartIndex part, bool after_chunk = false);

  const Facts& facts_;
  Pool& pool_;
  Sequences& sequences_;
  const Steps& steps_;
  PublishedBlocks& published_;
  Blocks& blocks_;
};

}  // namespace quire
