#include "core/step/publishing.h"

#include <algorithm>

namespace quire {

Publishing::Publishing(const Facts& facts, Pool& pool, PrefixIndex& index, Sequences& sequences, const Blocks& blocks, Eviction& eviction,
                       PublishedBlocks& published)
    : facts_(facts),
      pool_(pool),
      index_(index),
      sequences_(sequences),
      blocks_(blocks),
      eviction_(eviction),
      published_(published),
      fronts_(facts.num_groups) {
  renews_ = !facts.strict_lru;
  if (facts.reuse) path_.reserve(facts.config->max_model_len / facts.config->match_unit_tokens + 1);
}

// How far a group's blocks are of use to a hit at a joint boundary. Beyond the last one they are not yet; what drafts wrote ahead of the
// tokens that are not known to follow is not final, and one block more is what a hit of such a group drops.
uint64_t Publishing::publish_end(const GroupFacts& group, uint64_t tokens) const {
  const uint64_t whole = facts_.joint.quotient(tokens) * facts_.config->hit_alignment_tokens;
  if (group.look_ahead == 0 || whole == 0) return whole;
  const uint64_t settled = tokens - std::min<uint64_t>(tokens, group.look_ahead - 1);
  return std::min(settled, facts_.joint.quotient(settled) * facts_.config->hit_alignment_tokens + group.block_tokens);
}

// Windows: blocks that no hit at a wanted boundary reaches back to only take room.
bool Publishing::worth_finding(const GroupFacts& group, uint64_t block, const Sequence& s) const {
  if (!group.sparse || block * group.block_tokens < group.live.sink) return true;
  const uint64_t shift = group.look_ahead > 0 ? 1 : 0;
  if (group.period != 0 && block >= shift && (block - shift) % group.period >= group.period - group.kept) return true;
  if (!group.chosen) return false;
  const auto before = [&](uint64_t tokens) {
    const uint64_t end = group.block.quotient(facts_.joint.quotient(tokens) * facts_.config->hit_alignment_tokens) + shift;
    return block < end && block + group.kept >= end;
  };
  return (s.prompt > 0 && before(s.prompt - 1)) || (s.branch_point > 0 && before(s.branch_point));
}

// Eviction of a duplicate may have taken the sequence's own published blocks off the path. Blocks behind a hole can never be hit, so what
// was taken off is put back before more is published. Nothing to do when the last unit is in place: then all before it are.
void Publishing::mend_path(uint32_t q) {
  const PrefixIndex& index = index_;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    if (!group.whole) continue;
    const uint64_t published = uint64_t{sequences_.holding(q, g).published_blocks} * group.block_tokens;
    for (NodeId n = sequences_.at(q).node; index.tokens(n) > 0; n = index.parent(n)) {
      uint64_t end = index.tokens(n);
      if (end > published || !group.block.divides(end)) continue;
      if (index.block_at(n, GroupId(g)).value != kNone) break;
      PartIndex head = blocks_.block_head(q, g, static_cast<uint32_t>(group.block.quotient(end)) - 1);
      if (head.value == kNone || pool_.node(head).value != kNone) break;
      published_.publish(q, n, g, head);
    }
  }
}

// A block that was found by a part of its tokens is complete: from now on it is found by all of them.
void Publishing::settle_tail(uint32_t q, uint32_t g, NodeId node, PartIndex head) {
  const NodeId tail = pool_.node(head);
  if (tail.value == kNone || tail == node || index_.tokens(tail) >= index_.tokens(node)) return;
  if (index_.block_at(node, GroupId(g)).value != kNone) return;
  published_.move(q, node, g, head);
}

// The group's next block ends at the node. A block that was computed again, because a window was missing or a prompt's end is never hit,
// takes the place of the older copy, unless somebody holds that: copies take the bytes twice, and the older one is the next to be evicted.
// Not what drafts wrote: it depends on the tokens that follow, so copies differ.
void Publishing::publish_next(uint32_t q, uint32_t g, NodeId node) {
  const GroupFacts& group = facts_.groups[g];
  Holding& h = sequences_.holding(q, g);
  const uint32_t block = h.published_blocks++;
  find_front(h, g);
  const PartIndex head = blocks_.block_head(q, g, block);
  if (facts_.fine && head.value != kNone) settle_tail(q, g, node, head);
  if (head.value == kNone || pool_.node(head).value != kNone) return;
  const PartIndex older = index_.block_at(node, GroupId(g));
  if (older.value != kNone) {
    const bool same = group.whole && group.look_ahead == 0;
    if (same && renews_ && !pool_.held(older)) published_.replace(q, node, g, head);
    return;
  }
  if (!group.sparse || worth_finding(group, block, sequences_.at(q))) published_.publish(q, node, g, head);
}

// The blocks that end at the node, of the groups that are so far and no farther.
void Publishing::publish_at(uint32_t q, NodeId node, uint64_t end) {
  const auto n = static_cast<uint32_t>(fronts_.size());
  for (uint32_t g = 0; g < n; ++g) {
    if (fronts_[g].next == end) publish_next(q, g, node);
  }
}

// Blocks at nodes that are there already, left out before because no joint boundary was behind them.
void Publishing::publish_behind(uint32_t q) {
  const Sequence& s = sequences_.at(q);
  uint64_t from = s.published;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].grows) continue;
    const uint64_t published = uint64_t{sequences_.holding(q, g).published_blocks} * facts_.groups[g].block_tokens;
    if (published + facts_.groups[g].block_tokens <= fronts_[g].end) from = std::min(from, published);
  }
  if (from == s.published) return;
  path_.clear();
  for (NodeId n = s.node; index_.tokens(n) > from; n = index_.parent(n)) path_.push_back(n);
  for (size_t i = path_.size(); i > 0; --i) publish_at(q, path_[i - 1], index_.tokens(path_[i - 1]));
}

void Publishing::publish_windows(uint32_t q, NodeId node) {
  const uint64_t end = index_.tokens(node), unit = facts_.config->match_unit_tokens;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].with_states) continue;
    const uint64_t tail = facts_.groups[g].live.tail_begin(end);
    path_.clear();
    NodeId at = node;
    for (uint64_t p = end; p > tail; p -= unit, at = index_.parent(at)) path_.push_back(at);
    // From above: the names of units for others are made one from the other.
    for (size_t i = path_.size(); i > 0; --i) {
      const uint64_t p = end - (i - 1) * unit;
      if (!facts_.groups[g].block.divides(p) || index_.block_at(path_[i - 1], GroupId(g)).value != kNone) continue;
      const PartIndex head = blocks_.block_head(q, g, static_cast<uint32_t>(facts_.groups[g].block.quotient(p)) - 1);
      if (head.value != kNone && pool_.node(head).value == kNone) published_.publish(q, path_[i - 1], g, head);
    }
  }
}

// The group's blocks that end at nodes which were made now, of the units behind `published`: they have no blocks yet.
void Publishing::publish_run(uint32_t q, uint32_t g, std::span<const NodeId> made) {
  const GroupFacts& group = facts_.groups[g];
  const Sequence& s = sequences_.at(q);
  const uint64_t unit = facts_.config->match_unit_tokens;
  Front& front = fronts_[g];
  const uint64_t end = std::min(front.end, s.published + made.size() * unit);
  if (front.next > end || front.next <= s.published) return;
  Holding& h = sequences_.holding(q, g);
  const auto last = static_cast<uint32_t>(group.block.quotient(end));
  if (group.with_states && uint64_t{h.published_blocks} * group.block_tokens >= group.live.sink) {
    h.published_blocks = last;
    return find_front(h, g);
  }
  const size_t stride = group.block_tokens / unit;
  const NodeId* node = made.data() + (front.next - s.published) / unit - 1;
  const int32_t* ids = sequences_.table(q, g, 0).data();
  {
    PrefixIndex::Attachments attachments(&index_);
    Pool& pool = pool_;
    const bool sparse = group.sparse;
    for (uint32_t block = h.published_blocks; block < last; ++block, node += stride) {
      const int32_t id = ids[block];
      if (id == 0 || (sparse && !worth_finding(group, block, s))) continue;
      const PartIndex head = pool.index_of(GroupId(g), PartId(id));
      if (pool.node(head).value != kNone) continue;
      attachments.attach(*node, GroupId(g), head);
      attachments.done(*node);
      pool.publish(head, *node);
    }
  }
  h.published_blocks = last;
  find_front(h, g);
}

// Groups of which a block ends at each of the nodes, and is worth finding, go together; the others one by one.
void Publishing::publish_made(uint32_t q, std::span<const NodeId> made) {
  const Sequence& s = sequences_.at(q);
  const uint64_t unit = facts_.config->match_unit_tokens;
  std::array<uint32_t, kMaxGroups> groups;
  std::array<const int32_t*, kMaxGroups> tables;
  uint32_t n = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    const Front& front = fronts_[g];
    const bool together = pool_.plain() && group.block_tokens == unit && !group.sparse && front.next == s.published + unit &&
                          front.end >= s.published + made.size() * unit;
    if (!together) {
      publish_run(q, g, made);
      continue;
    }
    Holding& h = sequences_.holding(q, g);
    groups[n] = g;
    tables[n++] = sequences_.table(q, g, 0).data() + h.published_blocks;
    h.published_blocks += static_cast<uint32_t>(made.size());
    find_front(h, g);
  }
  if (n == 0) return;
  PrefixIndex::Attachments attachments(&index_);
  pool_.publish_together(
      std::span(tables).first(n), made,
      [&](uint32_t t, NodeId node, PartIndex head) { attachments.attach(node, GroupId(groups[t]), head); },
      [&](NodeId node) { attachments.done(node); });
}

// Asks for what the pool keeps of blocks that will be replaced.
void Publishing::fetch_older(std::span<const NodeId> nodes) const {
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!renews_ || !facts_.groups[g].whole || facts_.groups[g].look_ahead > 0) continue;
    for (const NodeId node : nodes) {
      if (const PartIndex older = index_.block_at(node, GroupId(g)); older.value != kNone) pool_.fetch(older);
    }
  }
}

bool Publishing::publish_complete(uint32_t q) {
  Sequence& s = sequences_.at(q);
  const uint64_t unit = facts_.config->match_unit_tokens;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    fronts_[g].end = facts_.groups[g].grows ? publish_end(facts_.groups[g], s.committed) : 0;
    find_front(sequences_.holding(q, g), g);
  }
  mend_path(q);
  publish_behind(q);
  NodeId at = s.node;
  const std::span<const quire_symbol*> units(units_);
  const std::span<NodeId> nodes(made_);
  // New nodes have no blocks yet; where nothing else is to be done for a block, all of them are entered at once.
  const bool at_once = !facts_.fine && published_.is_plain();
  while (s.published + unit <= s.committed) {
    const uint64_t most = at_once ? std::min<uint64_t>((s.committed - s.published) / unit, kMostUnits) : 1;
    const auto next = units.first(sequences_.first_units(q, units.first(most)));
    Extended path = index_.extend(at, next, nodes);
    while (path.count == 0 && pool_.has_stale_page()) {  // they have units, too
      eviction_.empty_stale();
      path = index_.extend(at, next, nodes);
    }
    if (path.count == 0) break;
    at = nodes[path.count - 1];
    if (path.is_new && path.count > 1) {
      publish_made(q, nodes.first(path.count));
      sequences_.drop_units(q, path.count);
      continue;
    }
    if (!path.is_new) fetch_older(nodes.first(path.count));
    for (const NodeId node : nodes.first(path.count)) {
      sequences_.drop_units(q, 1);
      publish_at(q, node, s.published);
      if (facts_.first_state != kNone && index_.block_at(node, GroupId(facts_.first_state)).value != kNone)
        publish_windows(q, node);  // somebody else's
    }
  }
  index_.move_hold(s.node, at);
  s.node = at;
  return s.published + unit > s.committed;
}

void Publishing::silence(uint32_t q) {
  sequences_.drop_symbols(q);
  sequences_.at(q).publishing = false;
}

// Whether the sequence has the block in its table, or as its state.
bool Publishing::uses(uint32_t q, uint32_t group, PartIndex head) const {
  const Holding& h = sequences_.holding(q, group);
  if (facts_.groups[group].state) return h.current == head;
  if (!facts_.groups[group].grows) return false;
  const int32_t id = pool_.id_of(GroupId(group), head).value;
  const auto table = sequences_.table(q, group, 0).first(h.num_blocks);
  return std::find(table.begin(), table.end(), id) != table.end();
}

void Publishing::silence_users(uint32_t group, PartIndex head) {
  for (uint32_t q = 0; q < sequences_.capacity(); ++q) {
    const Sequence& s = sequences_.at(q);
    if (s.live && s.publishing && uses(q, group, head)) silence(q);
  }
}

}  // namespace quire
