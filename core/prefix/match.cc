// The longest position that satisfies every group's live range: one walk down along the symbols, as far as the groups that need everything
// have their blocks, and from there a search upward. A window's hits are not downward closed; each of its blocks is looked at once.
#include <algorithm>
#include <array>

#include "core/base/checked.h"
#include "core/prefix/index.h"

namespace quire {

// How far the tree and the groups that need everything go.
struct PrefixIndex::Walk {
  uint32_t node = kNone;  // the deepest reached
  uint64_t link = 0;      // its
  uint64_t tokens = 0;    // there
  uint64_t end = 0;       // hits lie at or before: as far as every group which needs everything has blocks, and what it drops of them
  bool hole = false;      // such a block was missing
  bool evicted = false;   // the next unit was in the index once
  quire_miss lacking = QUIRE_MISS_NONE;      // why the deepest position of the full groups failed
  std::array<uint32_t, kMaxGroups> sinks{};  // blocks in a row from the start, as far as anybody asks

  // Goes on from the unit that ends at p, along nodes that lie one after the other and have a block of the group: where the first unit
  // ends that is not so. What the general step does, for most units of most prompts.
  uint64_t go_along(const PrefixIndex& index, uint32_t group, std::span<const quire_symbol> symbols, uint64_t p);
};

uint64_t PrefixIndex::Walk::go_along(const PrefixIndex& index, uint32_t group, std::span<const quire_symbol> symbols, uint64_t p) {
  const Shared<uint64_t>* const links = index.links_.data();
  const Shared<uint32_t>* const heads = index.heads_.data() + group;
  const quire_symbol* const all = index.symbols_.data();
  const size_t nodes = index.links_.size(), pitch = index.num_groups_;
  uint32_t at = node;
  uint64_t at_link = link;
  for (; p < symbols.size() && at + 1 < nodes; p += kUsualUnit) {
    const uint32_t next = at + 1;
    const uint64_t next_link = links[next];
    prefetch_to_read(all + (size_t{next} + kSoon) * kUsualUnit);  // most paths lie in a row
    if (parent_in(next_link) != at || !shared_equals(all + size_t{next} * kUsualUnit, &symbols[p - kUsualUnit], kUsualUnit)) break;
    if (links[next] != next_link || links[at] != at_link || heads[next * pitch] == kNone) break;
    at_link = next_link;
    at = next;
    tokens = p;
  }
  node = at;
  link = at_link;
  return p;
}

// The blocks of a group that are known to be in a row: those that end in (from, top].
struct PrefixIndex::Range {
  uint32_t node = kNone;  // at `from`
  uint64_t from = 0;
  uint64_t top = 0;
};

// Whether the unit behind the node was in the index once: the node remembers it, or one of the next units is remembered, which had it
// before.
bool PrefixIndex::was_evicted(uint32_t at, std::span<const quire_symbol> behind) const {
  const uint64_t unit = shape_.unit_tokens;
  uint64_t hash = nodes_[at].hash;
  for (uint32_t depth = nodes_[at].depth + 1; behind.size() > unit; ++depth) {
    hash = child_hash(hash, behind.first(unit));
    if (depth == nodes_[at].depth + 1 && nodes_[at].lost_child == mark_of(hash)) return true;
    if (depth % kRememberedDepth == 0) return evicted_[hash & (evicted_.size() - 1)] == hash;
    behind = behind.subspan(unit);
  }
  return false;
}

// Beside changes: a unit counts when its link was one while its symbols were compared and its parent was of the same life afterwards. So
// when the last unit was looked at it stood below all the others.
PrefixIndex::Walk PrefixIndex::walk(uint32_t top, uint64_t link, std::span<const quire_symbol> symbols) const {
  const uint64_t unit = shape_.unit_tokens;
  // Which groups the walk asks at every unit: most of the time one whose block is a unit.
  std::array<uint32_t, kMaxGroups> asked{};
  uint32_t num_asked = 0;
  uint64_t longest_sink = 0, most_dropped = 0;
  std::array<uint64_t, kMaxGroups> lost{};  // end of the first block that is missing
  for (uint32_t g = 0; g < num_groups_; ++g) {
    const LiveRange& live = shape_.groups[g].live;
    if (live.everything() && !live.fixed) asked[num_asked++] = g;
    most_dropped = std::max<uint64_t>(most_dropped, shape_.groups[g].drop_tokens);
    if (live.sink > 0) longest_sink = std::max(longest_sink, live.sink + shape_.groups[g].block_tokens);
  }
  Walk w;
  w.node = top;
  w.link = link;
  uint64_t stop = ~uint64_t{0};
  for (uint64_t p = unit; p < symbols.size(); p += unit) {
    if (unit == kUsualUnit && num_asked == 1 && p > longest_sink && stop == ~uint64_t{0}) {
      p = w.go_along(*this, asked[0], symbols, p);
      if (p >= symbols.size()) break;
    }
    auto symbols_of_unit = symbols.subspan(p - unit, unit);
    uint32_t next = find_next(w.node, symbols_of_unit);
    if (next == kNone) next = find_only(w.node, symbols_of_unit);
    if (next == kNone) {
      if (has_hashed(w.node)) next = find_child(w.node, child_hash(nodes_[w.node].hash, symbols_of_unit), symbols_of_unit, kLongList);
      if (next == kNone) {
        w.evicted = was_evicted(w.node, symbols.subspan(p - unit));
        break;
      }
    }
    const uint64_t next_link = links_[next];
    if (links_[w.node] != w.link || parent_in(next_link) != w.node) break;
    w.link = next_link;
    w.node = next;
    w.tokens = p;
    for (uint32_t i = 0; i < num_asked; ++i) {
      const uint32_t g = asked[i];
      if (heads_[slot(next, GroupId(g))] != kNone || p % shape_.groups[g].block_tokens != 0 || lost[g] != 0) continue;
      lost[g] = p;
      stop = std::min(stop, p + most_dropped);  // the others may have more, of which they drop some
    }
    for (uint32_t g = 0; p <= longest_sink && g < num_groups_; ++g) {
      const uint64_t bt = shape_.groups[g].block_tokens;
      if (p % bt == 0 && w.sinks[g] == p / bt - 1 && heads_[slot(next, GroupId(g))] != kNone) ++w.sinks[g];
    }
    if (p >= stop) break;
  }
  w.hole = stop != ~uint64_t{0};
  w.end = w.tokens;
  for (uint32_t i = 0; i < num_asked; ++i) {
    const IndexGroup& group = shape_.groups[asked[i]];
    uint64_t have = lost[asked[i]] != 0 ? lost[asked[i]] - 1 : w.tokens;
    if (group.drop_tokens != 0) have = have / group.block_tokens * group.block_tokens;
    w.end = std::min(w.end, have > group.drop_tokens ? have - group.drop_tokens : 0);
  }
  return w;
}

// The node that ends at or before p, at the end of a block of the group.
PrefixIndex::Range PrefixIndex::range_from(const Walk& walk, uint32_t g, uint64_t p) const {
  const uint64_t top = std::min(walk.tokens, p) / shape_.groups[g].block_tokens * shape_.groups[g].block_tokens;
  uint32_t node = walk.node;
  for (uint64_t t = walk.tokens; t > top; t -= shape_.unit_tokens) node = above(node);
  return {node, top, top};
}

// Whether the group has every block that computing token p needs, and what lies behind p if it drops that. Asked with falling p.
bool PrefixIndex::has_range(Range* range, uint32_t g, uint64_t p) const {
  const uint64_t bt = shape_.groups[g].block_tokens;
  const uint64_t unit = shape_.unit_tokens;
  const uint64_t first = shape_.groups[g].live.tail_begin(p) / bt * bt;
  const uint64_t end = p + shape_.groups[g].drop_tokens;
  if (end > range->top) return false;
  while (range->from > first) {
    const bool here = range->from > end || heads_[slot(range->node, GroupId(g))] != kNone;
    for (uint64_t t = 0; t < bt; t += unit) range->node = above(range->node);
    range->from -= bt;
    if (here) continue;
    range->top = range->from;
    return false;
  }
  return true;
}

// Depth first, as far as the block reaches; a place where many prompts part is not searched to the end.
PartIndex PrefixIndex::block_over(NodeId node, GroupId group) const {
  constexpr uint32_t kMostNodes = 64;
  const uint64_t last = ceil_div(tokens(node), shape_.groups[group.value].block_tokens) * shape_.groups[group.value].block_tokens;
  uint32_t n = node.value;
  for (uint32_t seen = 0; seen < kMostNodes; ++seen) {
    if (heads_[slot(n, group)] != kNone) return PartIndex(heads_[slot(n, group)]);
    uint32_t next = tokens(NodeId(n)) < last ? skip_barren(nodes_[n].first_child, kLongList) : kNone;
    for (; next == kNone && n != node.value; n = parent_of(n)) {
      if (n >= kGone) return PartIndex(kNone);
      next = skip_barren(nodes_[n].next_sibling, kLongList);
    }
    if (next == kNone) return PartIndex(kNone);
    n = next;
  }
  return PartIndex(kNone);
}

// Whether the groups that need everything have their tokens up to p, which may lie inside their blocks.
bool PrefixIndex::reaches_into(uint32_t node, uint64_t p) const {
  for (uint32_t g = 0; fine_ && g < num_groups_; ++g) {
    const IndexGroup& group = shape_.groups[g];
    if (!group.live.everything() || group.live.fixed || p % group.block_tokens == 0) continue;
    if (block_over(NodeId(node), GroupId(g)).value == kNone) return false;
  }
  return true;
}

// From p, where the groups that need everything could resume, to the first position where the others can, too.
bool PrefixIndex::search_down(uint32_t node, uint64_t p, const Walk& walk, Match* best) const {
  std::array<Range, kMaxGroups> ranges;
  for (uint32_t g = 0; g < num_groups_; ++g) {
    const uint64_t drop = shape_.groups[g].drop_tokens;
    ranges[g] = drop == 0 || shape_.groups[g].live.everything() ? Range{node, p, p} : range_from(walk, g, p + drop);
  }
  best->miss = QUIRE_MISS_NONE;
  for (bool deepest = true; p > 0; deepest = false) {
    bool all = reaches_into(node, p);
    for (uint32_t g = 0; g < num_groups_ && (all || deepest); ++g) {
      const IndexGroup& group = shape_.groups[g];
      if (group.live.everything() || group.live.fixed) continue;
      if (group.live.state) {
        if (heads_[slot(node, GroupId(g))] != kNone) continue;
        all = false;
        if (deepest) best->miss = QUIRE_MISS_NO_STATE;
        continue;
      }
      const uint64_t first = group.live.tail_begin(p) / group.block_tokens * group.block_tokens;
      const bool sunk = group.live.sink == 0 || uint64_t{walk.sinks[g]} * group.block_tokens >= std::min(group.live.sink_end(p), first);
      if (has_range(&ranges[g], g, p) && sunk) continue;
      all = false;
      if (deepest && best->miss == QUIRE_MISS_NONE) best->miss = QUIRE_MISS_WINDOW_HOLE;  // where no state is kept no window is
    }
    if (all) {
      best->hit_tokens = p;
      best->node = NodeId(node);
      return true;
    }
    for (uint64_t t = 0; t < shape_.hit_alignment_tokens; t += shape_.unit_tokens) node = above(node);
    p -= shape_.hit_alignment_tokens;
  }
  return false;
}

Match PrefixIndex::match_nothing(uint64_t num_symbols) const {
  Match none;
  none.miss = num_symbols <= shape_.hit_alignment_tokens ? QUIRE_MISS_BELOW_UNIT : QUIRE_MISS_UNKNOWN_PREFIX;
  return none;
}

Match PrefixIndex::match(uint32_t root, std::span<const quire_symbol> symbols) const {
  if (root == kNone) return match_nothing(symbols.size());
  const uint32_t top = roots_[root].node;
  bool intact = true;
  return match_below(top, links_[top], symbols, &intact);
}

Match PrefixIndex::match_lockfree(std::string_view identity, std::span<const quire_symbol> symbols) const {
  constexpr int kTries = 3;
  constexpr int kMostTries = 64;  // where the path that was found goes away before it is searched
  Match seen;
  bool intact = false;
  for (int i = 0; i < (intact ? kTries : kMostTries); ++i) {
    const uint64_t begun = changes_begun_;
    const bool quiet = changes_done_ == begun;
    uint32_t top = kNone;
    uint64_t link = 0;
    {
      const std::lock_guard lock(*naming_);
      const uint32_t root = find_root(identity);
      top = root == kNone ? kNone : roots_[root].node;
      if (top != kNone) link = links_[top];
    }
    intact = true;
    seen = top == kNone ? match_nothing(symbols.size()) : match_below(top, link, symbols, &intact);
    seen.node = seen.deepest = NodeId(kNone);
    if (quiet && changes_begun_ == begun) break;
  }
  return seen;
}

// Not intact: the deepest node that was reached was removed before the search was done, and the way up from it was lost.
Match PrefixIndex::match_below(uint32_t top, uint64_t link, std::span<const quire_symbol> symbols, bool* intact) const {
  Match best;
  Walk w = walk(top, link, symbols);
  best.node = NodeId(top);
  best.deepest = NodeId(w.node);
  best.was_longer = w.evicted || w.hole;
  best.full_hit_tokens = w.end / shape_.hit_alignment_tokens * shape_.hit_alignment_tokens;
  uint32_t node = w.node;
  for (uint64_t p = w.tokens; p > best.full_hit_tokens; p -= shape_.unit_tokens) node = above(node);
  while (best.full_hit_tokens > 0 && !reaches_into(node, best.full_hit_tokens)) {
    for (uint64_t t = 0; t < shape_.hit_alignment_tokens; t += shape_.unit_tokens) node = above(node);
    best.full_hit_tokens -= shape_.hit_alignment_tokens;
  }
  search_down(node, best.full_hit_tokens, w, &best);
  w.lacking = best.miss;
  best.miss = miss_reason(w, best, symbols.size());
  *intact = links_[w.node] == w.link;
  return best;
}

quire_miss PrefixIndex::miss_reason(const Walk& walk, const Match& match, uint64_t num_symbols) const {
  uint64_t align = shape_.hit_alignment_tokens;
  uint64_t possible = num_symbols == 0 ? 0 : (num_symbols - 1) / align * align;
  if (possible == 0) return QUIRE_MISS_BELOW_UNIT;
  if (match.hit_tokens == possible) return QUIRE_MISS_NONE;
  if (walk.hole) return QUIRE_MISS_EVICTED;
  if (match.full_hit_tokens > match.hit_tokens) return walk.lacking;
  return walk.evicted ? QUIRE_MISS_EVICTED : QUIRE_MISS_UNKNOWN_PREFIX;
}

uint64_t PrefixIndex::host_bytes() const {
  return nodes_.capacity() * sizeof(Node) + links_.capacity() * 8 + heads_.capacity() * 4 + symbols_.capacity() * sizeof(quire_symbol) +
         buckets_.capacity() * 4 + evicted_.capacity() * 8 + roots_.size() * sizeof(Root) + dropped_.capacity() * sizeof(DroppedBlock);
}

Status PrefixIndex::verify_links() const {
  uint64_t live = 0;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.live == (parent_of(n) == kGone)) return fail(QUIRE_INTERNAL, "index node %u: live and gone", n);
    if (!node.live) continue;
    ++live;
    uint32_t blocks = 0;
    for (uint32_t g = 0; g < num_groups_; ++g) blocks += heads_[slot(n, GroupId(g))] != kNone ? 1 : 0;
    if (blocks != node.blocks) return fail(QUIRE_INTERNAL, "index node %u: %u blocks counted, %u found", n, node.blocks, blocks);
    if (node.barren && (blocks > 0 || skip_barren(node.first_child) != kNone)) {
      return fail(QUIRE_INTERNAL, "index node %u: marked barren above blocks", n);
    }
    for (uint32_t c = node.first_child, prev = kNone; c != kNone; prev = c, c = nodes_[c].next_sibling) {
      const Node& child = nodes_[c];
      if (!child.live || parent_of(c) != n || child.prev_sibling != prev || child.depth != node.depth + 1 || child.root != node.root) {
        return fail(QUIRE_INTERNAL, "index node %u: child %u is not linked back", n, c);
      }
    }
    if (parent_of(n) == kNone) continue;
    if (node.blocks == 0 && node.first_child == kNone && node.holds == 0) return fail(QUIRE_INTERNAL, "index node %u: empty but kept", n);
    auto unit = symbols(NodeId(n));
    const uint32_t at = parent_of(n);
    const uint32_t found = in_run(n) ? find_next(at, unit) : node.hashed ? find_child(at, node.hash, unit) : find_only(at, unit);
    if (child_hash(nodes_[parent_of(n)].hash, unit) != node.hash || found != n) {
      return fail(QUIRE_INTERNAL, "index node %u: not found under its own symbols", n);
    }
  }
  if (live != num_nodes_)
    return fail(QUIRE_INTERNAL, "index: %llu nodes counted, %llu found", static_cast<unsigned long long>(num_nodes_),
                static_cast<unsigned long long>(live));
  return {};
}

}  // namespace quire
