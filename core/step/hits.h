// What a hit is made of: for the sequence that takes it over, and for the pin that holds it.
#pragma once

#include <array>

#include "core/prefix/index.h"
#include "core/step/facts.h"

namespace quire {

// Every block that resuming at the node after `position` tokens references, the last one first:
// visit(group, end, head).
template <typename Visit>
void visit_hit(const Facts& facts, const PrefixIndex& index, NodeId node, uint64_t position, Visit visit) {
  if (position == 0) return;
  // A group needs the blocks that reach beyond `tail` or begin before `sink`.
  std::array<uint64_t, kMaxGroups> tail, sink;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    tail[g] = facts.groups[g].state ? position - 1 : facts.groups[g].live.tail_begin(position);
    sink[g] = facts.groups[g].state ? 0 : facts.groups[g].live.sink_end(position);
  }
  const uint64_t unit = facts.config->match_unit_tokens;
  uint64_t end = position;
  for (uint32_t g = 0; facts.fine && g < facts.num_groups; ++g) {
    if (!facts.groups[g].whole || !facts.groups[g].grows || facts.groups[g].block.divides(end)) continue;
    visit(g, end, index.block_over(node, GroupId(g)));
  }
  for (NodeId n = node; end > 0; n = index.parent(n), end -= unit) {
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      if (facts.fine && facts.groups[g].grows && !facts.groups[g].block.divides(end)) continue;
      if (end <= tail[g] && (sink[g] == 0 || end - facts.groups[g].block_tokens >= sink[g])) continue;
      PartIndex head = index.block_at(n, GroupId(g));
      if (head.value != kNone) visit(g, end, head);
    }
  }
}

}  // namespace quire
