// What a hit is made of: for who takes it up, and for who pins it.
#pragma once

#include <array>

#include "core/step/state.h"

namespace quire {

// Every block that the hit's sequence will reference, the last one first: visit(group, end, head).
template <typename Visit>
void Cache::Impl::visit_hit(const Intent& intent, Visit visit) const {
  if (intent.position == 0) return;
  // A group needs the blocks that reach beyond `tail` or begin before `sink`.
  std::array<uint64_t, kMaxGroups> tail, sink;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    tail[g] = facts.groups[g].state ? intent.position - 1 : facts.groups[g].live.tail_begin(intent.position);
    sink[g] = facts.groups[g].state ? 0 : facts.groups[g].live.sink_end(intent.position);
  }
  const uint64_t unit = facts.config->match_unit_tokens;
  uint64_t end = intent.position;
  for (uint32_t g = 0; facts.fine && g < facts.num_groups; ++g) {
    if (!facts.groups[g].whole || !facts.groups[g].grows || facts.groups[g].block.divides(end)) continue;
    visit(g, end, index.block_over(intent.found.node, GroupId(g)));
  }
  for (NodeId n = intent.found.node; end > 0; n = index.parent(n), end -= unit) {
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      if (facts.fine && facts.groups[g].grows && !facts.groups[g].block.divides(end)) continue;
      if (end <= tail[g] && (sink[g] == 0 || end - facts.groups[g].block_tokens >= sink[g])) continue;
      PartIndex head = index.block_at(n, GroupId(g));
      if (head.value != kNone) visit(g, end, head);
    }
  }
}

}  // namespace quire
