// What commit puts into the index: complete units, and of each group the blocks that a hit can use.
#include <algorithm>
#include <array>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

// How far a group's blocks are of use to a hit at a joint boundary. Beyond the last one they are not yet; what drafts wrote ahead of the
// tokens that are not known to follow is not final, and one block more is what a hit of such a group drops.
uint64_t Cache::Impl::publish_end(const GroupFacts& group, uint64_t tokens) const {
  const uint64_t whole = facts.joint.quotient(tokens) * facts.config->hit_alignment_tokens;
  if (group.look_ahead == 0 || whole == 0) return whole;
  const uint64_t settled = tokens - std::min<uint64_t>(tokens, group.look_ahead - 1);
  return std::min(settled, facts.joint.quotient(settled) * facts.config->hit_alignment_tokens + group.block_tokens);
}

// Windows: blocks that no hit at a wanted boundary reaches back to only take room.
bool Cache::Impl::worth_finding(const GroupFacts& group, uint64_t block, const Sequence& s) const {
  if (!group.sparse || block * group.block_tokens < group.live.sink) return true;
  const uint64_t shift = group.look_ahead > 0 ? 1 : 0;
  if (group.period != 0 && block >= shift && (block - shift) % group.period >= group.period - group.kept) return true;
  if (facts.limits.window_interval == 0) return false;
  const auto before = [&](uint64_t tokens) {
    const uint64_t end = group.block.quotient(facts.joint.quotient(tokens) * facts.config->hit_alignment_tokens) + shift;
    return block < end && block + group.kept >= end;
  };
  return (s.prompt > 0 && before(s.prompt - 1)) || (s.junction > 0 && before(s.junction));
}

// Eviction of a duplicate may have taken the sequence's own published blocks off the path. Blocks behind a hole can never be hit, so what
// was taken off is put back before more is published. Nothing to do when the last unit is in place: then all before it are.
void Cache::Impl::mend_path(uint32_t q) {
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupFacts& group = facts.groups[g];
    if (!group.whole) continue;
    const uint64_t told = uint64_t{sequences.holding(q, g).told} * group.block_tokens;
    for (NodeId n = sequences.at(q).node; index.tokens(n) > 0; n = index.parent(n)) {
      uint64_t end = index.tokens(n);
      if (end > told || !group.block.divides(end)) continue;
      if (index.block_at(n, GroupId(g)).value != kNone) break;
      PartIndex head = blocks.block_head(q, g, static_cast<uint32_t>(group.block.quotient(end)) - 1);
      if (head.value == kNone || pool.node(head).value != kNone) break;
      published.publish(q, n, g, head);
    }
  }
}

// A block that was found by a part of its tokens is complete: from now on it is found by all of them.
void Cache::Impl::settle_tail(uint32_t q, uint32_t g, NodeId node, PartIndex head) {
  const NodeId tail = pool.node(head);
  if (tail.value == kNone || tail == node || index.tokens(tail) >= index.tokens(node)) return;
  if (index.block_at(node, GroupId(g)).value != kNone) return;
  published.move(q, node, g, head);
}

// The group's next block ends at the node.
void Cache::Impl::publish_next(uint32_t q, uint32_t g, NodeId node) {
  const GroupFacts& group = facts.groups[g];
  Holding& h = sequences.holding(q, g);
  const uint32_t block = h.told++;
  find_front(h, g);
  const PartIndex head = blocks.block_head(q, g, block);
  if (facts.fine && head.value != kNone) settle_tail(q, g, node, head);
  if (head.value == kNone || pool.node(head).value != kNone || index.block_at(node, GroupId(g)).value != kNone) return;
  if (!group.sparse || worth_finding(group, block, sequences.at(q))) published.publish(q, node, g, head);
}

// The blocks that end at the node, of the groups that are so far and no farther.
void Cache::Impl::publish_at(uint32_t q, NodeId node, uint64_t end) {
  const auto n = static_cast<uint32_t>(publish_fronts.size());
  for (uint32_t g = 0; g < n; ++g) {
    if (publish_fronts[g].next == end) publish_next(q, g, node);
  }
}

// Blocks at nodes that are there already, left out before because no joint boundary was behind them.
void Cache::Impl::publish_behind(uint32_t q) {
  const Sequence& s = sequences.at(q);
  uint64_t from = s.published;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].grows) continue;
    const uint64_t told = uint64_t{sequences.holding(q, g).told} * facts.groups[g].block_tokens;
    if (told + facts.groups[g].block_tokens <= publish_fronts[g].end) from = std::min(from, told);
  }
  if (from == s.published) return;
  publish_path.clear();
  for (NodeId n = s.node; index.tokens(n) > from; n = index.parent(n)) publish_path.push_back(n);
  for (size_t i = publish_path.size(); i > 0; --i) publish_at(q, publish_path[i - 1], index.tokens(publish_path[i - 1]));
}

// At the node states are kept: what windows need to resume there is found from now on. Elsewhere nothing resumes.
void Cache::Impl::publish_windows(uint32_t q, NodeId node) {
  const uint64_t end = index.tokens(node), unit = facts.config->match_unit_tokens;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].with_states || !facts.groups[g].sparse) continue;
    const uint64_t tail = facts.groups[g].live.tail_begin(end);
    publish_path.clear();
    NodeId at = node;
    for (uint64_t p = end; p > tail; p -= unit, at = index.parent(at)) publish_path.push_back(at);
    // From above: the names of units for others are made one from the other.
    for (size_t i = publish_path.size(); i > 0; --i) {
      const uint64_t p = end - (i - 1) * unit;
      if (!facts.groups[g].block.divides(p) || index.block_at(publish_path[i - 1], GroupId(g)).value != kNone) continue;
      const PartIndex head = blocks.block_head(q, g, static_cast<uint32_t>(facts.groups[g].block.quotient(p)) - 1);
      if (head.value != kNone && pool.node(head).value == kNone) published.publish(q, publish_path[i - 1], g, head);
    }
  }
}

// The group's blocks that end at nodes which were made now, of the units behind `published`: they have no blocks yet.
void Cache::Impl::publish_run(uint32_t q, uint32_t g, std::span<const NodeId> made) {
  const GroupFacts& group = facts.groups[g];
  const Sequence& s = sequences.at(q);
  const uint64_t unit = facts.config->match_unit_tokens;
  Front& front = publish_fronts[g];
  const uint64_t end = std::min(front.end, s.published + made.size() * unit);
  if (front.next > end || front.next <= s.published) return;
  Holding& h = sequences.holding(q, g);
  const auto last = static_cast<uint32_t>(group.block.quotient(end));
  if (group.only_with_states && uint64_t{h.told} * group.block_tokens >= group.live.sink) {
    h.told = last;
    return find_front(h, g);
  }
  const size_t stride = group.block_tokens / unit;
  const NodeId* node = made.data() + (front.next - s.published) / unit - 1;
  const int32_t* ids = sequences.table(q, g, 0).data();
  for (uint32_t block = h.told; block < last; ++block, node += stride) {
    if (ids[block] == 0 || (group.sparse && !worth_finding(group, block, s))) continue;
    const PartIndex head = pool.index_of(GroupId(g), PartId(ids[block]));
    if (pool.node(head).value != kNone) continue;
    index.attach(*node, GroupId(g), head);
    pool.publish(head, *node);
  }
  h.told = last;
  find_front(h, g);
}

// As much as goes on where nobody has been, with the blocks that end there. 0: not so simple, and nothing was done.
uint32_t Cache::Impl::publish_new(uint32_t q, NodeId* at) {
  constexpr size_t kMost = 32;
  const Sequence& s = sequences.at(q);
  const uint64_t units = (s.committed - s.published) / facts.config->match_unit_tokens;
  if (units < 2 || facts.fine || !published.is_plain() || !index.is_leaf(*at)) return 0;
  std::array<const quire_symbol*, kMost> symbols;
  std::array<NodeId, kMost> made;
  const uint32_t given = sequences.first_units(q, std::span(symbols).first(std::min<uint64_t>(units, kMost)));
  const uint32_t n = index.extend_leaf(*at, std::span(symbols).first(given), made);
  if (n == 0) return 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) publish_run(q, g, std::span(made).first(n));
  sequences.drop_units(q, n);
  *at = made[n - 1];
  return n;
}

// Complete units of committed tokens go to the index, with the blocks that end there.
void Cache::Impl::publish_units(uint32_t q) {
  Sequence& s = sequences.at(q);
  const uint64_t unit = facts.config->match_unit_tokens;
  if (!s.publishing || (s.published + unit > s.committed && !facts.has_drafts)) return;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    publish_fronts[g].end = facts.groups[g].grows ? publish_end(facts.groups[g], s.committed) : 0;
    find_front(sequences.holding(q, g), g);
  }
  mend_path(q);
  publish_behind(q);
  NodeId at = s.node;
  while (s.published + unit <= s.committed) {
    if (publish_new(q, &at) > 0) continue;
    NodeId node = index.extend(at, sequences.first_unit(q));
    while (node.value == kNone && pool.has_stale_page()) {  // they have units, too
      eviction.empty_stale();
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
    if (facts.first_state != kNone && index.block_at(node, GroupId(facts.first_state)).value != kNone)
      publish_windows(q, node);  // somebody else's
  }
  index.move_hold(s.node, at);
  s.node = at;
}

}  // namespace quire
