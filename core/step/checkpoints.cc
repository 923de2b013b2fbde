// Which boundaries keep their states: room within the budget of bytes, and whose states go where the pool needs theirs.
#include <algorithm>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

// Room for more bytes of kept states. False: what is left is pinned.
bool Cache::Impl::make_room_to_keep(NodeId node, uint64_t bytes) {
  while (!budget.has_room(bytes)) {
    const NodeId least = budget.least([node](NodeId n) { return n != node; });
    if (least.value == kNone) return false;
    published.give_up_boundary(least);
    budget.count_given_up();
  }
  return true;
}

// Publishes the states that a row wrote at a boundary: state_of(group). True: one was not there before.
template <typename StateOf>
bool Cache::Impl::keep_boundary(uint32_t q, NodeId node, bool cold, StateOf state_of) {
  std::array<PartIndex, kMaxGroups> states;
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    states[g] = facts.groups[g].state ? state_of(g) : PartIndex(kNone);
    if (states[g].value == kNone) continue;
    if (pool.node(states[g]).value != kNone || index.block_at(node, GroupId(g)).value != kNone) states[g] = PartIndex(kNone);
    if (states[g].value != kNone) bytes += facts.groups[g].state_bytes;
  }
  if (bytes == 0) return false;
  if (!make_room_to_keep(node, bytes)) {
    budget.count_declined();
    return false;
  }
  publish_windows(q, node);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (states[g].value == kNone) continue;
    published.publish(q, node, g, states[g]);
    budget.keep(node, g, cold);
  }
  return true;
}

void Cache::Impl::publish_states(Step* step, size_t r) {
  const Row& row = step->rows[r];
  const uint32_t q = row.sequence;
  const Sequence& s = sequences.at(q);
  if (!s.publishing || s.committed == 0) return;
  const bool last = worth_keeping(row, s.committed) && index.tokens(s.node) == s.committed;
  // Boundaries that the row crossed; all groups write at the same ones. Their nodes are found from the end.
  const std::span<StateWrite> writes = step->writes_of(step->group(r, facts.first_state));
  NodeId node = s.node;
  for (size_t i = writes.size(); i > 0; --i) {
    StateWrite& write = writes[i - 1];
    write.node = NodeId(kNone);
    if (write.part.value == kNone || write.end >= s.committed || !worth_keeping(row, write.end)) continue;
    while (index.tokens(node) > write.end) node = index.parent(node);
    if (index.tokens(node) != write.end) continue;
    write.node = node;
  }
  // In the order in which they were computed, as if each were the end of a row: the last one, where the next request resumes, may take
  // the place of those before it and loses its own to none of them.
  bool kept = false;
  budget.begin_row();
  for (size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].node.value == kNone) continue;
    const auto state_of = [&](uint32_t g) { return step->writes_of(step->group(r, g))[i].part; };
    kept = keep_boundary(q, writes[i].node, true, state_of) || kept;
  }
  const auto current = [&](uint32_t g) { return sequences.holding(q, g).current; };
  if (last) kept = keep_boundary(q, s.node, !asked_for(row, s.committed), current) || kept;
  budget.end_row();
  if (kept) budget.count_kept();
  if (last && facts.fine) publish_tails(q);
}

// Where a state is the next to go from the pool, one that was kept for its place alone and never used goes before it, if nobody reads it:
// as many states go as by age, but others. Only age decides among the rest: what a state is good for ages with the blocks of attention
// before it, and where costlier but older ones stay those go first. Only where a page is of one state: others would go with their
// neighbours.
bool Cache::Impl::give_up_least() {
  if (!facts.has_states || facts.strict_lru) return false;
  const PageId page = pool.oldest_evictable();
  if (page.value == kNone) return false;
  const GroupId group = pool.group_of(page);
  if (!facts.groups[group.value].state || pool.parts_per_page(group) != 1) return false;
  const NodeId least = budget.least([&](NodeId node) {
    if (!budget.cold(node) || index.block_at(node, group).value == kNone) return false;
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      const PartIndex head = facts.groups[g].state ? index.block_at(node, GroupId(g)) : PartIndex(kNone);
      if (head.value != kNone && pool.held(head)) return false;
    }
    return true;
  });
  if (least.value == kNone) return false;
  pool.take_place_of(pool.head_of(pool.first_part(page)), index.block_at(least, group));
  ++counters.evicted_pages;
  published.give_up_boundary(least);
  return pool.has_empty_page();
}

}  // namespace quire
