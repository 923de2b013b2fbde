#include "core/step/published_blocks.h"

namespace quire {

void PublishedBlocks::move(uint32_t sequence, NodeId node, uint32_t group, PartIndex head) {
  if (events_.enabled()) [[unlikely]]
    events_.forgotten(head);
  index_.move(pool_.node(head), node, GroupId(group));
  pool_.publish(head, node);
  if (events_.enabled()) [[unlikely]]
    events_.published(sequences_.at(sequence).root, node, group, head);
}

void PublishedBlocks::replace(uint32_t sequence, NodeId node, uint32_t group, PartIndex head) {
  const PartIndex older = index_.block_at(node, GroupId(group));
  publish(sequence, node, group, head);  // first: events have nothing to say of a name that stays
  pool_.residency.forgets(true);
  withdraw(GroupId(group), older);
  pool_.residency.forgets(false);
}

void PublishedBlocks::forget(NodeId node, GroupId group, bool evicted) {
  for (const DroppedBlock& d : index_.detach(node, group, evicted)) {
    withdraw(d.group, d.head);
    if (evicted) ++num_evicted_;
  }
}

void PublishedBlocks::give_up_boundary(NodeId node) {
  budget_.give_up(node);
  for (const uint32_t g : facts_.state_groups) {
    // The node may go with its last state; it has no others then.
    if (index_.block_at(node, GroupId(g)).value != kNone) forget(node, GroupId(g), true);
  }
}

bool PublishedBlocks::forget_oldest_root() {
  const std::span<const DroppedBlock> dropped = index_.drop_oldest_root();
  for (const DroppedBlock& d : dropped) {
    withdraw(d.group, d.head);
    ++num_evicted_;
  }
  return !dropped.empty();
}

}  // namespace quire
