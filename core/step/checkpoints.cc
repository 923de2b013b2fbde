// Which boundaries keep their states: room within the budget of bytes, and whose states go where the pool needs theirs.
#include <algorithm>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

Status Cache::Impl::prepare_checkpoints(uint64_t budget) {
  if (!facts.has_states || !facts.reuse) return {};
  uint64_t boundary = 0, least = UINT64_MAX, most = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].state) continue;
    boundary += facts.groups[g].state_bytes;
    least = std::min(least, facts.groups[g].state_bytes);
    most = std::max(most, pool.num_pages() * facts.plan(g).parts_per_page / facts.plan(g).ids_per_block);
  }
  if (budget != 0 && budget < boundary) {
    return invalid("checkpoint_bytes: %llu, the states of one boundary take %llu", static_cast<unsigned long long>(budget),
                   static_cast<unsigned long long>(boundary));
  }
  checkpoint_budget = budget != 0 ? budget : UINT64_MAX;
  most = std::min(most, checkpoint_budget / least);
  auto order = facts.strict_lru ? CheckpointOrder::by_use() : CheckpointOrder::by_cost();
  checkpoints = Checkpoints::create(index, most, std::move(order));
  return {};
}

void Cache::Impl::give_up_boundary(NodeId node) {
  checkpoints.went(node);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    // The node may go with its last state; it has no others then.
    if (facts.groups[g].state && index.block_at(node, GroupId(g)).value != kNone) forget_block(node, GroupId(g), true);
  }
}

// Room for more bytes of kept states. False: what is left is pinned.
bool Cache::Impl::make_room_to_keep(NodeId node, uint64_t bytes) {
  while (counters.checkpoint_bytes + bytes > checkpoint_budget) {
    const NodeId least = checkpoints.least([node](NodeId n) { return n != node; });
    if (least.value == kNone) return false;
    give_up_boundary(least);
    ++counters.checkpoints_given_up;
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
    ++counters.checkpoints_declined;
    return false;
  }
  publish_windows(q, node);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (states[g].value == kNone) continue;
    publish_block(q, node, g, states[g]);
    checkpoints.keep(node, cold);
  }
  counters.checkpoint_bytes += bytes;
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
  checkpoints.begin_row();
  for (size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].node.value == kNone) continue;
    const auto state_of = [&](uint32_t g) { return step->writes_of(step->group(r, g))[i].part; };
    kept = keep_boundary(q, writes[i].node, true, state_of) || kept;
  }
  const auto current = [&](uint32_t g) { return sequences.holding(q, g).current; };
  if (last) kept = keep_boundary(q, s.node, !asked_for(row, s.committed), current) || kept;
  checkpoints.end_row();
  if (kept) ++counters.checkpoints;
  if (last && facts.fine) publish_tails(q);
}

// A block of states is not published any more.
void Cache::Impl::lose_state(GroupId group, NodeId node) {
  if (!checkpoints.has(node)) return;  // left behind by a reset
  counters.checkpoint_bytes -= facts.groups[group.value].state_bytes;
  checkpoints.lose(node, group.value == facts.first_state);
}

void Cache::Impl::pin_state(PartIndex head, bool pinned) {
  if (!facts.has_states || pool.group_of(pool.page_of(head)).value != facts.first_state || pool.node(head).value == kNone) return;
  pinned ? checkpoints.pin(pool.node(head)) : checkpoints.unpin(pool.node(head));
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
  const NodeId least = checkpoints.least([&](NodeId node) {
    if (!checkpoints.cold(node) || index.block_at(node, group).value == kNone) return false;
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      const PartIndex head = facts.groups[g].state ? index.block_at(node, GroupId(g)) : PartIndex(kNone);
      if (head.value != kNone && pool.held(head)) return false;
    }
    return true;
  });
  if (least.value == kNone) return false;
  pool.take_place_of(pool.head_of(pool.first_part(page)), index.block_at(least, group));
  ++counters.evicted_pages;
  give_up_boundary(least);
  return pool.has_empty_page();
}

Status Cache::Impl::verify_checkpoints() const {
  if (!facts.has_states || !facts.reuse) return {};
  uint64_t bytes = 0, states = 0;
  QUIRE_RETURN_IF_ERROR(index.verify([&](NodeId node, GroupId group, PartIndex) -> Status {
    if (!facts.groups[group.value].state || index.is_stale(node)) return {};
    bytes += facts.groups[group.value].state_bytes;
    ++states;
    return {};
  }));
  if (bytes != counters.checkpoint_bytes)
    return fail(QUIRE_INTERNAL, "checkpoints: %llu bytes kept, counted %llu", static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(counters.checkpoint_bytes));
  if (bytes > checkpoint_budget)
    return fail(QUIRE_INTERNAL, "checkpoints: %llu bytes kept, the budget is %llu", static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(checkpoint_budget));
  const auto states_at = [this](NodeId node) {
    uint32_t n = 0;
    for (uint32_t g = 0; g < facts.num_groups; ++g) n += facts.groups[g].state && index.block_at(node, GroupId(g)).value != kNone ? 1 : 0;
    return n;
  };
  const auto pins_at = [this](NodeId node) {
    const PartIndex head = index.block_at(node, GroupId(facts.first_state));
    uint32_t n = 0;
    for (const Pin& pin : pins) n += head.value != kNone ? static_cast<uint32_t>(std::count(pin.heads.begin(), pin.heads.end(), head)) : 0;
    return n;
  };
  return checkpoints.verify(states, states_at, pins_at);
}

}  // namespace quire
