// Every invariant, derived again from nothing: who references which part, which node names it, and what each table must hold.
#include <algorithm>
#include <mutex>

#include "core/base/checked.h"
#include "core/step/cache_impl.h"

namespace quire {

// References by part, and holds by node, as sequences and steps have them.
Status Cache::Impl::count_references(std::vector<uint32_t>* refs, std::vector<uint32_t>* holds_of) const {
  for (uint32_t q = 0; q < sequences.capacity(); ++q) {
    const Sequence& s = sequences.at(q);
    if (!s.live) continue;
    ++(*holds_of)[s.node.value];
    for (uint32_t g = 0; g < facts.num_groups; ++g) {
      const Holding& h = sequences.holding(q, g);
      if (h.current.value != kNone) ++(*refs)[h.current.value];
      for (uint32_t i = 0; i < h.num_spares; ++i) ++(*refs)[sequences.spares(q, g)[i].value];
      for (uint32_t b = 0; b < h.num_blocks; ++b) {
        PartIndex head = blocks.block_head(q, g, b);
        if (head.value != kNone) ++(*refs)[head.value];
      }
    }
  }
  pins.count_references(refs, holds_of);
  holds.count_references(refs);
  units.count_holds(holds_of);
  steps.count_references(refs);
  return {};
}

// A table holds exactly what the live ranges at the committed length ask for, and every column names the same block.
Status Cache::Impl::verify_sequence(uint32_t q) const {
  const Sequence& s = sequences.at(q);
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupPlan& group = facts.plan(g);
    const Holding& h = sequences.holding(q, g);
    if (group.is_state()) {
      if ((h.current.value == kNone) != (s.committed == 0))
        return fail(QUIRE_INTERNAL, "sequence %u group %u: state present or absent wrongly", q, g);
      if (s.reserved == 0 && h.num_spares > 0) return fail(QUIRE_INTERNAL, "sequence %u group %u: empty, with states of its own", q, g);
      continue;
    }
    if (group.live.fixed) {
      if (s.encoder > 0 && s.reserved == 0) return fail(QUIRE_INTERNAL, "sequence %u group %u: empty, with tokens of an encoder", q, g);
      if (h.num_blocks != ceil_div(s.encoder, group.block_tokens))
        return fail(QUIRE_INTERNAL, "sequence %u group %u: %u blocks of %u encoder tokens", q, g, h.num_blocks, s.encoder);
    } else if (h.num_blocks < ceil_div(s.reserved, group.block_tokens)) {
      return fail(QUIRE_INTERNAL, "sequence %u group %u: table too short", q, g);
    } else if (s.reserved < s.shown && (h.settled > h.num_blocks || h.settled != ceil_div(s.shown, group.block_tokens) ||
                                        h.settled != ceil_div(s.reserved + 1, group.block_tokens))) {
      return fail(QUIRE_INTERNAL, "sequence %u group %u: %u blocks shown, not those of tokens %llu to %llu", q, g, h.settled,
                  static_cast<unsigned long long>(s.reserved), static_cast<unsigned long long>(s.shown));
    }
    uint64_t live = group.live.tail_begin(s.committed) / group.block_tokens;
    if (group.live.retained > 0) live = std::clamp<uint64_t>(h.first_live, group.live.kept_begin(s.committed) / group.block_tokens, live);
    uint64_t sink = ceil_div(group.live.sink_end(s.committed), group.block_tokens);
    const Stretch dead = s.loading ? facts.groups[g].dead_blocks(s.reserved) : Stretch{};
    for (uint32_t b = 0; b < h.num_blocks; ++b) {
      if (b >= dead.first && b < dead.end && b >= ceil_div(s.committed, group.block_tokens)) {
        if (blocks.block_head(q, g, b).value != kNone)
          return fail(QUIRE_INTERNAL, "sequence %u group %u block %u: a load has no use for it", q, g, b);
        continue;
      }
      bool wanted = b >= live || b < sink;
      PartIndex part = blocks.block_head(q, g, b);
      if (wanted != (part.value != kNone))
        return fail(QUIRE_INTERNAL, "sequence %u group %u block %u: %s", q, g, b, wanted ? "missing" : "kept too long");
      for (uint32_t c = 0; c < group.ids_per_block && part.value != kNone; ++c, part = pool.next_in_block(part)) {
        if (sequences.table(q, g, c)[b] != pool.id_of(GroupId(g), part).value || pool.group_of(pool.page_of(part)).value != g) {
          return fail(QUIRE_INTERNAL, "sequence %u group %u block %u: column %u names another part", q, g, b, c);
        }
      }
    }
  }
  return {};
}

Status Cache::verify() const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  std::vector<uint32_t> refs(m.pool.num_part_slots(), 0);
  std::vector<uint32_t> holds(m.index.num_slots(), 0);
  QUIRE_RETURN_IF_ERROR(m.count_references(&refs, &holds));
  QUIRE_RETURN_IF_ERROR(m.pool.verify(refs, m.resume_points.spares()));
  QUIRE_RETURN_IF_ERROR(m.sequences.verify());
  uint64_t attached = 0;
  QUIRE_RETURN_IF_ERROR(m.index.verify([&](NodeId node, GroupId group, PartIndex head) -> Status {
    ++attached;
    if (m.pool.node(head) != node || m.pool.group_of(m.pool.page_of(head)) != group) {
      return fail(QUIRE_INTERNAL, "index node %u group %u: the block does not point back", node.value, group.value);
    }
    return {};
  }));
  if (attached != m.pool.num_published())
    return fail(QUIRE_INTERNAL, "index: %llu blocks attached, %llu published", static_cast<unsigned long long>(attached),
                static_cast<unsigned long long>(m.pool.num_published()));
  QUIRE_RETURN_IF_ERROR(m.budget.verify([&m](PartIndex head) { return m.pins.holding(head); }));
  for (uint32_t n = 0; n < holds.size(); ++n) {
    if (m.index.holds(NodeId(n)) != holds[n])
      return fail(QUIRE_INTERNAL, "index node %u: %u holds, %u sequences", n, m.index.holds(NodeId(n)), holds[n]);
  }
  uint32_t begun = 0;
  for (uint32_t q = 0; q < m.sequences.capacity(); ++q) {
    begun += m.sequences.at(q).live && m.sequences.at(q).reserved > 0 ? 1 : 0;
    if (m.sequences.at(q).live) QUIRE_RETURN_IF_ERROR(m.verify_sequence(q));
  }
  if (begun != m.sequences.num_begun()) return fail(QUIRE_INTERNAL, "%u sequences have tokens, %u counted", begun, m.sequences.num_begun());
  return {};
}

}  // namespace quire
