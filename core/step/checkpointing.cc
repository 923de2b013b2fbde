#include "core/step/checkpointing.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

BoundaryKind kind_of(const Row& row, uint64_t end) { return row.kept.has(end) ? BoundaryKind::kAwaited : BoundaryKind::kPlace; }

}  // namespace

// A state is worth keeping where its boundary can be hit, and where one of the reasons of quire_cache_options.keep_states holds.
bool Checkpointing::worth_keeping(const Row& row, uint64_t end) {
  if (!facts_.joint.divides(end)) return false;
  if (row.kept.has(end)) return true;
  if ((facts_.limits.keep & QUIRE_KEEP_EVERY) != 0 && end % facts_.spacing == 0 && budget_.keeps_for_place()) return true;
  return end == row.position + row.num_tokens && (facts_.limits.keep & QUIRE_KEEP_CHUNK_END) != 0 && row.num_tokens > 1;
}

// Room for more bytes of kept states. False: what is left is pinned.
bool Checkpointing::make_room_to_keep(NodeId node, uint64_t bytes) {
  for (uint32_t left = budget_.most_to_give_up(); left > 0 && !budget_.has_room(bytes); --left) {
    const NodeId least = budget_.least([node](NodeId n) { return n != node; });
    if (least.value == kNone) return false;
    published_.give_up_boundary(least);
    budget_.count_given_up(least);
  }
  return true;
}

// Publishes the states that a row wrote at a boundary: state_of(group). True: one was not there before.
template <typename StateOf>
bool Checkpointing::keep_boundary(uint32_t q, NodeId node, BoundaryKind kind, StateOf state_of) {
  std::array<PartIndex, kMaxGroups> heads;
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    heads[g] = facts_.groups[g].state ? state_of(g) : PartIndex(kNone);
    if (heads[g].value == kNone) continue;
    if (pool_.node(heads[g]).value != kNone || index_.block_at(node, GroupId(g)).value != kNone) heads[g] = PartIndex(kNone);
    if (heads[g].value != kNone) bytes += facts_.groups[g].state_bytes;
  }
  if (bytes == 0) return false;
  if (!make_room_to_keep(node, bytes)) {
    budget_.count_declined();
    return false;
  }
  publishing_.publish_windows(q, node);
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (heads[g].value == kNone) continue;
    published_.publish(q, node, g, heads[g]);
    budget_.keep(node, g, kind);
  }
  return true;
}

// A state is kept inside blocks of groups that need everything: what they have of them so far can be hit, and is copied by who goes on.
void Checkpointing::publish_tails(uint32_t q) {
  const Sequence& s = sequences_.at(q);
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (!facts_.groups[g].whole || !facts_.groups[g].grows || facts_.groups[g].block.divides(s.committed)) continue;
    // A later row in flight may have replaced it by a copy that is not written yet.
    const PartIndex head = blocks_.committed_head(q, g, static_cast<uint32_t>(facts_.groups[g].block.quotient(s.committed)));
    if (head.value == kNone || pool_.node(head).value != kNone || index_.block_at(s.node, GroupId(g)).value != kNone) continue;
    published_.publish(q, s.node, g, head);
  }
}

void Checkpointing::publish_states(Step* step, size_t r) {
  const Row& row = step->rows[r];
  const uint32_t q = row.sequence;
  const Sequence& s = sequences_.at(q);
  if (!s.publishing || s.committed == 0) return;
  const bool last = worth_keeping(row, s.committed) && index_.tokens(s.node) == s.committed;
  // Boundaries that the row crossed; all groups write at the same ones. Their nodes are found from the end.
  const std::span<StateWrite> writes = step->writes_of(step->group(r, facts_.first_state));
  NodeId node = s.node;
  for (size_t i = writes.size(); i > 0; --i) {
    StateWrite& write = writes[i - 1];
    write.node = NodeId(kNone);
    if (write.part.value == kNone || write.end >= s.committed || !worth_keeping(row, write.end)) continue;
    while (index_.tokens(node) > write.end) node = index_.parent(node);
    if (index_.tokens(node) != write.end) continue;
    write.node = node;
  }
  // In the order in which they were computed, as if each were the end of a row: the last one, where the next request resumes, may take
  // the place of those before it and loses its own to none of them.
  bool kept = false;
  budget_.begin_row();
  for (size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].node.value == kNone) continue;
    const auto state_of = [&](uint32_t g) { return step->writes_of(step->group(r, g))[i].part; };
    kept = keep_boundary(q, writes[i].node, kind_of(row, writes[i].end), state_of) || kept;
  }
  const auto current = [&](uint32_t g) { return sequences_.holding(q, g).current; };
  if (last) kept = keep_boundary(q, s.node, kind_of(row, s.committed), current) || kept;
  budget_.end_row();
  if (kept) budget_.count_kept();
  if (last && facts_.fine) publish_tails(q);
}

}  // namespace quire
