// What is published: a block in the pool and its place in the index name each other, and everything
// that follows from entering or leaving the index is done here.
#pragma once

#include "core/events/event_recorder.h"
#include "core/pool/pool.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/checkpoint_budget.h"
#include "core/step/facts.h"
#include "core/step/pins.h"

namespace quire {

class PublishedBlocks {
 public:
  // All are borrowed.
  PublishedBlocks(const Facts& facts, Pool& pool, PrefixIndex& index, const Sequences& sequences, EventRecorder& events,
                  CheckpointBudget& budget, Pins& pins)
      : facts_(facts), pool_(pool), index_(index), sequences_(sequences), events_(events), budget_(budget), pins_(pins) {}

  // A block of the sequence ends at the node and can be found from now on. The place is empty, but
  // for replace().
  void publish(uint32_t sequence, NodeId node, uint32_t group, PartIndex head) {
    index_.attach(node, GroupId(group), head);
    pool_.publish(head, node);
    if (facts_.has_drafts && pins_.any()) [[unlikely]]
      pins_.hold_above_pinned(node, group, head);
    if (events_.enabled()) [[unlikely]]
      events_.published(sequences_.at(sequence).root, node, group, head);
  }
  // The block takes the place of an older copy that nobody holds, which is given up. No event: what
  // can be found is the same.
  void replace(uint32_t sequence, NodeId node, uint32_t group, PartIndex head);
  // Whether publishing is nothing but an entry in the index and one in the pool: then others may
  // write these.
  bool is_plain() const { return !events_.enabled() && !(facts_.has_drafts && pins_.any()); }
  // A block that was found by a part of its tokens is found by all of them, at the node below.
  void move(uint32_t sequence, NodeId node, uint32_t group, PartIndex head);
  // The block left the index. It cannot be found any more.
  void withdraw(GroupId group, PartIndex head) {
    if (facts_.has_states && facts_.groups[group.value].state) budget_.lose(pool_.node(head), group.value);
    pool_.unpublish(head);
    if (events_.enabled()) [[unlikely]]
      events_.forgotten(head);
  }
  // The block at the node leaves the index, and all that cannot be hit without it. evicted: it
  // counts as eviction.
  void forget(NodeId node, GroupId group, bool evicted);
  // The same for all states at the node: the boundary makes room for others.
  void give_up_boundary(NodeId node);
  // The prefixes of the identity that nobody uses for longest; false: there is none.
  bool forget_oldest_root();

  uint64_t num_evicted() const { return num_evicted_; }

 private:
  const Facts& facts_;
  Pool& pool_;
  PrefixIndex& index_;
  const Sequences& sequences_;
  EventRecorder& events_;
  CheckpointBudget& budget_;
  Pins& pins_;
  uint64_t num_evicted_ = 0;  // blocks
};

}  // namespace quire
