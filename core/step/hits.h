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
  for (uint32_t g = 0; g < num_groups(); ++g) {
    tail[g] = facts[g].state ? intent.position - 1 : facts[g].live.tail_begin(intent.position);
    sink[g] = facts[g].state ? 0 : facts[g].live.sink_end(intent.position);
  }
  const uint64_t unit = config->match_unit_tokens;
  uint64_t end = intent.position;
  for (uint32_t g = 0; fine && g < num_groups(); ++g) {
    if (!facts[g].whole || !facts[g].grows || facts[g].block.divides(end)) continue;
    visit(g, end, index.block_over(intent.found.node, GroupId(g)));
  }
  for (NodeId n = intent.found.node; end > 0; n = index.parent(n), end -= unit) {
    for (uint32_t g = 0; g < num_groups(); ++g) {
      if (fine && facts[g].grows && !facts[g].block.divides(end)) continue;
      if (end <= tail[g] && (sink[g] == 0 || end - facts[g].block_tokens >= sink[g])) continue;
      PartIndex head = index.block_at(n, GroupId(g));
      if (head.value != kNone) visit(g, end, head);
    }
  }
}

}  // namespace quire
