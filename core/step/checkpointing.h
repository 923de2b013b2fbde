// Which boundaries of a row keep their states, within the budget of bytes.
#pragma once

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/blocks.h"
#include "core/step/checkpoint_budget.h"
#include "core/step/facts.h"
#include "core/step/published_blocks.h"
#include "core/step/publishing.h"
#include "core/step/steps.h"

namespace quire {

class Checkpointing {
 public:
  // All are borrowed.
  Checkpointing(const Facts& facts, const Pool& pool, const PrefixIndex& index, const Sequences& sequences, const Blocks& blocks,
                CheckpointBudget& budget, PublishedBlocks& published, Publishing& publishing)
      : facts_(facts),
        pool_(pool),
        index_(index),
        sequences_(sequences),
        blocks_(blocks),
        budget_(budget),
        published_(published),
        publishing_(publishing) {}

  // Publishes the states that the row wrote and that are worth keeping. Its units are published.
  void publish_states(Step* step, size_t r);

 private:
  bool worth_keeping(const Row& row, uint64_t end);
  bool make_room_to_keep(NodeId node, uint64_t bytes);
  template <typename StateOf>
  bool keep_boundary(uint32_t sequence, NodeId node, BoundaryKind kind, StateOf state_of);
  void publish_tails(uint32_t sequence);

  const Facts& facts_;
  const Pool& pool_;
  const PrefixIndex& index_;
  const Sequences& sequences_;
  const Blocks& blocks_;
  CheckpointBudget& budget_;
  PublishedBlocks& published_;
  Publishing& publishing_;
};

}  // namespace quire
