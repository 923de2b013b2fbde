// One walk for all groups: the longest position that satisfies every group's live range. A window's hits are not downward closed, so
// every aligned position on the way is judged, and the last good one wins.
#include <algorithm>
#include <array>

#include "core/base/checked.h"
#include "core/prefix/index.h"

namespace quire {

struct PrefixIndex::Run {
  std::array<uint32_t, kMaxGroups> tail{};    // blocks in a row that end at the present position
  std::array<uint32_t, kMaxGroups> prefix{};  // blocks in a row from the start
  bool hole = false;                          // a group that needs everything has lost a block
  bool evicted = false;                       // the next unit was in the index once
  quire_miss lacking = QUIRE_MISS_NONE;       // why the best position of the full groups failed
};

namespace {

// Whether the blocks at hand are all that computing token p needs.
bool satisfied(const IndexGroup& group, uint32_t prefix, uint32_t tail, uint64_t p) {
  uint64_t bt = group.block_tokens;
  if (group.live.everything()) return prefix * bt == p;
  uint64_t first = group.live.tail_begin(p) / bt * bt;
  return tail * bt >= p - first && prefix * bt >= std::min(group.live.sink_end(p), first);
}

}  // namespace

Match PrefixIndex::match(uint32_t root, std::span<const quire_symbol> symbols) const {
  Match best;
  if (root == kNone) {
    best.miss = symbols.size() <= shape_.hit_alignment_tokens ? QUIRE_MISS_BELOW_UNIT : QUIRE_MISS_UNKNOWN_PREFIX;
    return best;
  }
  const uint64_t unit = shape_.unit_tokens;
  const uint32_t num_groups = static_cast<uint32_t>(shape_.groups.size());
  Run run;
  uint32_t at = roots_[root].node;
  best.node = NodeId(at);
  for (uint64_t p = unit; p < symbols.size() && !run.hole; p += unit) {
    auto symbols_of_unit = symbols.subspan(p - unit, unit);
    uint32_t next = find_next(at, symbols_of_unit);
    if (next == kNone) {
      uint64_t hash = child_hash(nodes_[at], symbols_of_unit);
      next = find_child(at, hash, symbols_of_unit);
      run.evicted = next == kNone && evicted_[hash & (evicted_.size() - 1)] == hash;
    }
    if (next == kNone) break;
    at = next;
    bool full = true, all = true;
    for (uint32_t g = 0; g < num_groups; ++g) {
      const IndexGroup& group = shape_.groups[g];
      if (group.live.fixed) continue;  // not along this axis
      if (p % group.block_tokens == 0) {
        bool here = heads_[slot(at, GroupId(g))] != kNone;
        if (here && run.prefix[g] == p / group.block_tokens - 1) ++run.prefix[g];
        run.tail[g] = here ? run.tail[g] + 1 : 0;
        run.hole = run.hole || (!here && group.live.everything());
      }
      if (p % shape_.hit_alignment_tokens != 0 || satisfied(group, run.prefix[g], run.tail[g], p)) continue;
      all = false;
      if (group.live.everything()) full = false;
      run.lacking = group.live.state ? QUIRE_MISS_NO_STATE : QUIRE_MISS_WINDOW_HOLE;
    }
    if (p % shape_.hit_alignment_tokens != 0) continue;
    if (full) best.full_hit_tokens = p;
    if (all) {
      best.hit_tokens = p;
      best.node = NodeId(at);
    }
  }
  best.miss = miss_reason(run, best, symbols.size());
  return best;
}

quire_miss PrefixIndex::miss_reason(const Run& run, const Match& match, uint64_t num_symbols) const {
  uint64_t align = shape_.hit_alignment_tokens;
  uint64_t possible = num_symbols == 0 ? 0 : (num_symbols - 1) / align * align;
  if (possible == 0) return QUIRE_MISS_BELOW_UNIT;
  if (match.hit_tokens == possible) return QUIRE_MISS_NONE;
  if (run.hole) return QUIRE_MISS_EVICTED;
  if (match.full_hit_tokens > match.hit_tokens) return run.lacking;
  return run.evicted ? QUIRE_MISS_EVICTED : QUIRE_MISS_UNKNOWN_PREFIX;
}

uint64_t PrefixIndex::host_bytes() const {
  return nodes_.capacity() * sizeof(Node) + heads_.capacity() * 4 + symbols_.capacity() * sizeof(quire_symbol) + buckets_.capacity() * 4 +
         evicted_.capacity() * 8 + roots_.capacity() * sizeof(Root) + dropped_.capacity() * sizeof(DroppedBlock);
}

Status PrefixIndex::verify_links() const {
  uint64_t live = 0;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (!node.live) continue;
    ++live;
    uint32_t blocks = 0;
    for (uint32_t g = 0; g < shape_.groups.size(); ++g) blocks += heads_[slot(n, GroupId(g))] != kNone ? 1 : 0;
    if (blocks != node.blocks) return fail(QUIRE_INTERNAL, "index node %u: %u blocks counted, %u found", n, node.blocks, blocks);
    if (node.barren && (blocks > 0 || skip_barren(node.first_child) != kNone)) {
      return fail(QUIRE_INTERNAL, "index node %u: marked barren above blocks", n);
    }
    for (uint32_t c = node.first_child, prev = kNone; c != kNone; prev = c, c = nodes_[c].next_sibling) {
      const Node& child = nodes_[c];
      if (!child.live || child.parent != n || child.prev_sibling != prev || child.depth != node.depth + 1 || child.root != node.root) {
        return fail(QUIRE_INTERNAL, "index node %u: child %u is not linked back", n, c);
      }
    }
    if (node.parent == kNone) continue;
    if (node.blocks == 0 && node.first_child == kNone && node.holds == 0) return fail(QUIRE_INTERNAL, "index node %u: empty but kept", n);
    auto unit = symbols(NodeId(n));
    if (child_hash(nodes_[node.parent], unit) != node.hash || find_child(node.parent, node.hash, unit) != n) {
      return fail(QUIRE_INTERNAL, "index node %u: not found under its own symbols", n);
    }
  }
  if (live != num_nodes_)
    return fail(QUIRE_INTERNAL, "index: %llu nodes counted, %llu found", static_cast<unsigned long long>(num_nodes_),
                static_cast<unsigned long long>(live));
  return {};
}

}  // namespace quire
