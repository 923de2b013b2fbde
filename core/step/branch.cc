// Fork and truncate: two ways for a sequence to share or give up what it has.
#include <algorithm>
#include <mutex>

#include "core/base/checked.h"
#include "core/step/cache_impl.h"

namespace quire {

Result<SequenceId> Cache::sequence_fork(SequenceId id) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t parent = m.sequences.find(id);
  if (parent == kNone) return not_live(id);
  if (m.states.overwrites_current(parent))
    return fail(QUIRE_FAILED_PRECONDITION, "parent: a step in flight writes its state in place; commit that step first");
  if (m.sequences.at(parent).loading) return fail(QUIRE_FAILED_PRECONDITION, "parent: a load of it is in progress; end it first");
  uint32_t child = m.sequences.open();
  if (child == kNone) return fail(QUIRE_RESOURCE_EXHAUSTED, "max_sequences: all %u are in use", m.sequences.capacity());
  Sequence& p = m.sequences.at(parent);
  Sequence& c = m.sequences.at(child);
  c.flags = p.flags;
  c.root = p.root;
  c.node = p.node;
  c.hit_tokens = p.hit_tokens;
  c.paused = p.paused = p.committed;  // others begin here
  c.prompt = p.prompt;
  c.shared = p.shared;
  c.prompt_end = p.prompt_end;
  c.branch_point = p.branch_point;
  c.committed = p.committed;
  c.encoder = p.committed > 0 ? p.encoder : 0;
  c.publishing = p.publishing;
  c.published = c.known = p.published;
  m.index.ref_root(c.root);
  m.index.hold(c.node);
  bool copied = true;
  if (p.publishing) {
    copied = m.sequences.copy_symbols(parent, child, p.committed);
  } else {
    c.known = std::min(p.known, p.committed);
  }
  if (!copied) {
    m.index.drop(c.node);
    m.index.close_root(c.root);
    m.sequences.close(child);
    return fail(QUIRE_INTERNAL, "fork: symbol chunks are used up");
  }
  m.sequences.set_reserved(&c, p.committed);
  p.may_share = c.may_share = true;
  m.units.begin_text(child);
  m.blocks.share_blocks(parent, child);
  ++m.counters.forks;
  return m.sequences.id(child);
}

Status Cache::Impl::check_truncate(uint32_t q, uint64_t tokens) const {
  const Sequence& s = sequences.at(q);
  if (tokens > s.committed) {
    return fail(QUIRE_OUT_OF_RANGE, "tokens: %llu, the sequence has %llu committed", static_cast<unsigned long long>(tokens),
                static_cast<unsigned long long>(s.committed));
  }
  if (s.loading) return fail(QUIRE_FAILED_PRECONDITION, "sequence: a load of it is in progress; end it first");
  if (s.in_flight > 0) return fail(QUIRE_FAILED_PRECONDITION, "sequence: %u steps of it are in flight", s.in_flight);
  if (tokens == s.committed || tokens == 0) return {};
  for (uint32_t g = 0; g < facts.num_groups; ++g) {
    const GroupPlan& group = facts.plan(g);
    if (group.is_state()) {
      return fail(QUIRE_FAILED_PRECONDITION, "tokens: %llu, group %u keeps a recurrent state at %llu only; legal: 0 or %llu",
                  static_cast<unsigned long long>(tokens), g, static_cast<unsigned long long>(s.committed),
                  static_cast<unsigned long long>(s.committed));
    }
    uint64_t gone = uint64_t{sequences.holding(q, g).first_live} * group.block_tokens;
    if (group.live.everything() || group.live.fixed || group.live.tail_begin(tokens) >= gone) continue;
    uint64_t legal = s.committed;
    while (legal > tokens && group.live.tail_begin(legal - 1) >= gone) --legal;
    return fail(QUIRE_FAILED_PRECONDITION, "tokens: %llu, group %u has released what token %llu needs; legal: 0 or at least %llu",
                static_cast<unsigned long long>(tokens), g, static_cast<unsigned long long>(tokens),
                static_cast<unsigned long long>(legal));
  }
  return {};
}

Status Cache::sequence_truncate(SequenceId id, uint64_t tokens) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  QUIRE_RETURN_IF_ERROR(m.check_truncate(q, tokens));
  Sequence& s = m.sequences.at(q);
  if (tokens == 0) {
    m.reset_sequence(q);
    return {};
  }
  for (uint32_t g = 0; g < m.facts.num_groups; ++g) {
    if (m.facts.plan(g).is_state() || m.facts.plan(g).live.fixed) continue;
    m.blocks.release_blocks_from(q, g, static_cast<uint32_t>(ceil_div(tokens, m.facts.plan(g).block_tokens)), true);
    Holding& h = m.sequences.holding(q, g);
    h.published_blocks = std::min(h.published_blocks, static_cast<uint32_t>(tokens / m.facts.plan(g).block_tokens));
  }
  m.units.begin_text(q);
  s.committed = s.reserved = s.paused = tokens;
  s.may_share = true;
  if (!s.publishing || tokens >= s.published) {
    m.sequences.cut_symbols(q, tokens);
    return {};
  }
  // The cursor climbs to the last whole unit; the symbols behind it come back from the node below.
  NodeId below = s.node;
  m.sequences.drop_symbols(q);
  while (m.index.tokens(m.index.parent(below)) > tokens) below = m.index.parent(below);
  NodeId at = m.index.tokens(below) > tokens ? m.index.parent(below) : below;
  m.index.hold(at);
  s.published = s.known = m.index.tokens(at);
  m.sequences.append_symbols(q, m.index.symbols(below).first(tokens - s.published));
  m.index.drop(s.node);
  s.node = at;
  return {};
}

}  // namespace quire
