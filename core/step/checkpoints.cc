// Which boundaries keep their states: room within the budget of bytes, and whose states go where the pool needs theirs.
#include <algorithm>

#include "core/base/checked.h"
#include "core/step/state.h"

namespace quire {

// AllocFrom for more bytes of kept states. False: what is left is pinned.
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
  std::array<PartIndex, kMaxGroups> heads;
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    heads[g] = facts.groups[g].state ? state_of(g) : PartIndex(kNone);
    if (heads[g].value == kNone) continue;
    if (pool.node(heads[g]).value != kNone || index.block_at(node, GroupId(g)).value != kNone) heads[g] = PartIndex(kNone);
    if (heads[g].value != kNone) bytes += facts.groups[g].state_bytes;
  }
  if (bytes == 0) return false;
  if (!make_room_to_keep(node, bytes)) {
    budget.count_declined();
    return false;
  }
  publish_windows(q, node);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (heads[g].value == kNone) continue;
    published.publish(q, node, g, heads[g]);
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

// A state is worth keeping where its boundary can be hit, and where one of the reasons of quire_cache_options.keep_states holds.
bool Cache::Impl::worth_keeping(const Row& row, uint64_t end) const {
  if (!facts.joint.divides(end)) return false;
  if ((facts.limits.keep & QUIRE_KEEP_EVERY) != 0 && end % facts.spacing == 0) return true;
  if (asked_for(row, end)) return true;
  return end == row.position + row.num_tokens && (facts.limits.keep & QUIRE_KEEP_CHUNK_END) != 0 && row.num_tokens > 1;
}

// By somebody who knows more than its place: the engine, or who was there before.
bool Cache::Impl::asked_for(const Row& row, uint64_t end) const {
  if (end != row.position + row.num_tokens) return false;
  return ((facts.limits.keep & QUIRE_KEEP_PROMPT_END) != 0 && row.prompt_end) ||
         ((facts.limits.keep & QUIRE_KEEP_JUNCTION) != 0 && row.junction) || ((facts.limits.keep & QUIRE_KEEP_ASKED) != 0 && row.keep);
}

// A state is kept inside blocks of groups that need everything: what they have of them so far can be hit, and is copied by who goes on.
void Cache::Impl::publish_tails(uint32_t q) {
  const Sequence& s = sequences.at(q);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    if (!facts.groups[g].whole || !facts.groups[g].grows || facts.groups[g].block.divides(s.committed)) continue;
    // A later row in flight may have replaced it by a copy that is not written yet.
    const PartIndex head = blocks.committed_head(q, g, static_cast<uint32_t>(facts.groups[g].block.quotient(s.committed)));
    if (head.value == kNone || pool.node(head).value != kNone || index.block_at(s.node, GroupId(g)).value != kNone) continue;
    published.publish(q, s.node, g, head);
  }
}

}  // namespace quire
