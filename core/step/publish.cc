// What commit puts into the index: complete units, and of each group the blocks that a hit can use.
#include <algorithm>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

// How far a group's blocks are of use to a hit at a joint boundary. Beyond the last one they are not yet; what drafts wrote ahead of the
// tokens that are not known to follow is not final, and one block more is what a hit of such a group drops.
uint64_t Cache::Impl::publish_end(const GroupFacts& group, uint64_t tokens) const {
  const uint64_t whole = joint.quotient(tokens) * config->hit_alignment_tokens;
  if (group.look_ahead == 0 || whole == 0) return whole;
  const uint64_t settled = tokens - std::min<uint64_t>(tokens, group.look_ahead - 1);
  return std::min(settled, joint.quotient(settled) * config->hit_alignment_tokens + group.block_tokens);
}

// Windows: blocks that no hit at a wanted boundary reaches back to only take room.
bool Cache::Impl::worth_finding(const GroupFacts& group, uint64_t block, const Sequence& s) const {
  if (!group.sparse || block * group.block_tokens < group.live.sink) return true;
  const uint64_t shift = group.look_ahead > 0 ? 1 : 0;
  if (group.period != 0 && block >= shift && (block - shift) % group.period >= group.period - group.kept) return true;
  if (limits.window_interval == 0) return false;
  const auto before = [&](uint64_t tokens) {
    const uint64_t end = group.block.quotient(joint.quotient(tokens) * config->hit_alignment_tokens) + shift;
    return block < end && block + group.kept >= end;
  };
  return (s.prompt > 0 && before(s.prompt - 1)) || (s.junction > 0 && before(s.junction));
}

// Eviction of a duplicate may have taken the sequence's own published blocks off the path. Blocks behind a hole can never be hit, so what
// was taken off is put back before more is published. Nothing to do when the last unit is in place: then all before it are.
void Cache::Impl::mend_path(uint32_t q) {
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const GroupFacts& group = facts[g];
    if (!group.whole) continue;
    const uint64_t told = uint64_t{sequences.holding(q, g).told} * group.block_tokens;
    for (NodeId n = sequences.at(q).node; index.tokens(n) > 0; n = index.parent(n)) {
      uint64_t end = index.tokens(n);
      if (end > told || !group.block.divides(end)) continue;
      if (index.block_at(n, GroupId(g)).value != kNone) break;
      PartIndex head = block_head(q, g, static_cast<uint32_t>(group.block.quotient(end)) - 1);
      if (head.value == kNone || pool.node(head).value != kNone) break;
      publish_block(q, n, g, head);
    }
  }
}

// A block that was found by a part of its tokens is complete: from now on it is found by all of them.
void Cache::Impl::settle_tail(uint32_t q, uint32_t g, NodeId node, PartIndex head) {
  const NodeId tail = pool.node(head);
  if (tail.value == kNone || tail == node || index.tokens(tail) >= index.tokens(node)) return;
  if (index.block_at(node, GroupId(g)).value != kNone) return;
  if (events != nullptr) [[unlikely]]
    renounce(GroupId(g), head);
  index.move(tail, node, GroupId(g));
  pool.publish(head, node);
  if (events != nullptr) [[unlikely]]
    announce(q, node, g, head);
}

// The blocks that end at the node, of the groups that are so far and no farther.
void Cache::Impl::publish_at(uint32_t q, NodeId node, uint64_t end) {
  const Sequence& s = sequences.at(q);
  for (uint32_t g = 0; g < publish_ends.size(); ++g) {
    const GroupFacts& group = facts[g];
    if (end > publish_ends[g] || !group.block.divides(end)) continue;
    Holding& h = sequences.holding(q, g);
    const uint64_t block = group.block.quotient(end) - 1;
    if (block != h.told) continue;
    ++h.told;
    PartIndex head = block_head(q, g, static_cast<uint32_t>(block));
    if (fine && head.value != kNone) settle_tail(q, g, node, head);
    if (head.value == kNone || pool.node(head).value != kNone || index.block_at(node, GroupId(g)).value != kNone) continue;
    if (worth_finding(group, block, s)) publish_block(q, node, g, head);
  }
}

// Blocks at nodes that are there already, left out before because no joint boundary was behind them.
void Cache::Impl::publish_behind(uint32_t q) {
  const Sequence& s = sequences.at(q);
  uint64_t from = s.published;
  for (uint32_t g = 0; g < num_groups(); ++g) {
    if (!facts[g].grows) continue;
    const uint64_t told = uint64_t{sequences.holding(q, g).told} * facts[g].block_tokens;
    if (told + facts[g].block_tokens <= publish_ends[g]) from = std::min(from, told);
  }
  if (from == s.published) return;
  publish_path.clear();
  for (NodeId n = s.node; index.tokens(n) > from; n = index.parent(n)) publish_path.push_back(n);
  for (size_t i = publish_path.size(); i > 0; --i) publish_at(q, publish_path[i - 1], index.tokens(publish_path[i - 1]));
}

// Complete units of committed tokens go to the index, with the blocks that end there.
void Cache::Impl::publish_units(uint32_t q) {
  Sequence& s = sequences.at(q);
  const uint64_t unit = config->match_unit_tokens;
  if (!s.publishing || (s.published + unit > s.committed && !has_drafts)) return;
  for (uint32_t g = 0; g < num_groups(); ++g) publish_ends[g] = facts[g].grows ? publish_end(facts[g], s.committed) : 0;
  mend_path(q);
  publish_behind(q);
  NodeId at = s.node;
  while (s.published + unit <= s.committed) {
    NodeId node = index.extend(at, sequences.first_unit(q));
    while (node.value == kNone && pool.has_stale_page()) {  // they have units, too
      empty_stale();
      node = index.extend(at, sequences.first_unit(q));
    }
    if (node.value == kNone) {  // the index is full: this sequence publishes no more
      sequences.drop_symbols(q);
      s.publishing = false;
      break;
    }
    at = node;
    sequences.drop_unit(q);
    publish_at(q, node, s.published);
  }
  index.move_hold(s.node, at);
  s.node = at;
}

}  // namespace quire
