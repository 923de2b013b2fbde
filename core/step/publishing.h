// What a commit enters into the index: complete units, and of each group the blocks that a hit can
// use.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/blocks.h"
#include "core/step/eviction.h"
#include "core/step/facts.h"
#include "core/step/published_blocks.h"

namespace quire {

class Publishing {
 public:
  // All are borrowed.
  Publishing(const Facts& facts, Pool& pool, PrefixIndex& index, Sequences& sequences, const Blocks& blocks, Eviction& eviction,
             PublishedBlocks& published);

  // Complete units of committed tokens go to the index, with the blocks that end there. False: the
  // index is full; the next call goes on where this one ended.
  bool publish_units(uint32_t sequence) {
    const Sequence& s = sequences_.at(sequence);
    const bool none = s.published + facts_.config->match_unit_tokens > s.committed;
    return !s.publishing || (none && !facts_.has_drafts) || publish_complete(sequence);
  }
  // The sequence publishes nothing more until it is emptied.
  [[gnu::cold]] void silence(uint32_t sequence);
  // At the node states are kept: what windows need to resume there is found from now on. Elsewhere
  // nothing resumes.
  void publish_windows(uint32_t sequence, NodeId node);
  // The sequences that use the block publish nothing more: what they compute after it follows from
  // it.
  void silence_users(uint32_t group, PartIndex head);

 private:
  bool publish_complete(uint32_t sequence);
  // How far a group's blocks are of use to hits, and where the next one ends that is not in the
  // index; UINT64_MAX: beyond that.
  struct Front {
    uint64_t end = 0;
    uint64_t next = UINT64_MAX;
  };

  void publish_behind(uint32_t sequence);
  void publish_at(uint32_t sequence, NodeId node, uint64_t end);
  void publish_next(uint32_t sequence, uint32_t group, NodeId node);
  void publish_made(uint32_t sequence, std::span<const NodeId> made);
  void publish_run(uint32_t sequence, uint32_t group, std::span<const NodeId> made);
  void find_front(const Holding& holding, uint32_t group) {
    Front& front = fronts_[group];
    const uint64_t next = (uint64_t{holding.published_blocks} + 1) * facts_.groups[group].block_tokens;
    front.next = next <= front.end ? next : UINT64_MAX;
  }
  void mend_path(uint32_t sequence);
  void fetch_older(std::span<const NodeId> nodes) const;
  void settle_tail(uint32_t sequence, uint32_t group, NodeId node, PartIndex head);
  uint64_t publish_end(const GroupFacts& group, uint64_t tokens) const;
  bool worth_finding(const GroupFacts& group, uint64_t block, const Sequence& s) const;
  bool uses(uint32_t sequence, uint32_t group, PartIndex head) const;

  const Facts& facts_;
  Pool& pool_;
  PrefixIndex& index_;
  Sequences& sequences_;
  const Blocks& blocks_;
  Eviction& eviction_;
  PublishedBlocks& published_;
  std::vector<Front> fronts_;  // by group, of the sequence that publishes
  std::vector<NodeId> path_;
  // Of one call: units that are entered at once, and their nodes. Members, since arrays of a call
  // would be zeroed first.
  static constexpr size_t kMostUnits = 32;
  std::array<const quire_symbol*, kMostUnits> units_{};
  std::array<NodeId, kMostUnits> made_{};
  bool renews_ = false;  // blocks that are computed again take the place of older copies
};

}  // namespace quire
