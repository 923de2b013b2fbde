#include "core/step/cached_ahead.h"

#include <algorithm>
#include <array>

namespace quire {

CachedAhead::CachedAhead(const Facts& facts, PrefixIndex& index, const Sequences& sequences)
    : facts_(facts), index_(index), sequences_(sequences) {
  if (!facts.reuse) return;
  const Limits& limits = facts.limits;
  uint64_t most = 0;
  for (const GroupFacts& g : facts.groups) {
    if (g.grows) most += g.block.ceil(std::max<uint64_t>(limits.max_load_tokens, limits.max_tokens)) + 1;
  }
  adopted_.reserve(most);
  if (!facts.has_states && !facts.has_falling) return;
  // What is in flight, and what there is of a unit at both ends.
  const uint64_t in_flight = std::min(uint64_t{limits.max_tokens} * limits.depth, facts.config->max_model_len);
  text_.reserve(in_flight + 2 * uint64_t{facts.config->match_unit_tokens});
}

bool CachedAhead::may_find(const EntryPlan& plan) const {
  if (!facts_.reuse || plan.found.miss == QUIRE_MISS_DISABLED) return false;
  if (plan.load) return plan.match;
  const Sequence& s = sequences_.at(plan.sequence);
  const uint64_t cached = plan.match ? plan.branch_point : s.branch_point;
  return cached > plan.position && !facts_.strict_lru && (plan.match || s.publishing);
}

CachedAhead::Text CachedAhead::text_of(std::span<const quire_symbol> symbols, const EntryPlan& plan, uint64_t end) {
  if (plan.match) return {plan.found.node, plan.position, {}, symbols.first(end).subspan(plan.position)};
  const Sequence& s = sequences_.at(plan.sequence);
  auto given = symbols.first(std::min<uint64_t>(symbols.size(), end - std::min(end, s.known)));
  text_.clear();
  const uint64_t unit = facts_.config->match_unit_tokens, kept = s.known - s.published;
  if (kept == 0) return {s.node, s.published, {}, given};
  if (kept + (unit - kept % unit) % unit > text_.capacity()) return {};  // a bound was wrong: nothing is shared
  sequences_.read_symbols(plan.sequence, &text_);
  const uint64_t missing = std::min<uint64_t>((unit - kept % unit) % unit, given.size());
  text_.insert(text_.end(), given.begin(), given.begin() + static_cast<std::ptrdiff_t>(missing));
  return {s.node, s.published, text_, given.subspan(missing)};
}

uint32_t CachedAhead::first_block(const EntryPlan& plan, uint32_t g) const {
  const GroupFacts& group = facts_.groups[g];
  if (!group.grows || group.look_ahead > 0) return kNone;
  if (plan.load) return group.block.divides(plan.position) ? static_cast<uint32_t>(group.block.quotient(plan.position)) : kNone;
  const auto first = static_cast<uint32_t>(group.block.ceil(plan.position));
  // An earlier row may have taken more, for drafts.
  const bool next = plan.match || sequences_.holding(plan.sequence, g).num_blocks == first;
  return group.whole && next ? first : kNone;
}

std::span<const Adopted> CachedAhead::find(std::span<const quire_symbol> symbols, const EntryPlan& plan) {
  adopted_.clear();
  if (!may_find(plan)) return {};
  const uint64_t unit = facts_.config->match_unit_tokens, end = plan.position + plan.num_tokens;
  std::array<uint32_t, kMaxGroups> next{};  // block; kNone: no more
  std::array<Stretch, kMaxGroups> dead{};
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    next[g] = first_block(plan, g);
    if (plan.load) dead[g] = facts_.groups[g].dead_blocks(end);
  }
  const Text text = text_of(symbols, plan, end);
  NodeId node = text.node;
  const uint64_t units = text.kept.size() / unit + text.given.size() / unit;
  for (uint64_t u = 0, at = 0; u < units; ++u, at += unit) {
    const bool is_kept = at < text.kept.size();
    node = index_.child(node, is_kept ? text.kept.subspan(at, unit) : text.given.subspan(at - text.kept.size(), unit));
    if (node.value == kNone) break;
    const uint64_t tokens = text.begin + at + unit;
    if (tokens > end) break;  // symbols may be known ahead of the row
    bool more = false;
    for (uint32_t g = 0; g < facts_.num_groups; ++g) {
      const GroupFacts& group = facts_.groups[g];
      more = more || next[g] != kNone;
      if (next[g] == kNone || !group.block.divides(tokens) || group.block.quotient(tokens) <= next[g]) continue;
      const PartIndex head = index_.block_at(node, GroupId(g));
      if (next[g] >= dead[g].first && next[g] < dead[g].end) {
        ++next[g];
      } else if (head.value == kNone) {
        next[g] = kNone;
      } else {
        adopted_.push_back(Adopted{g, next[g]++, head});
      }
    }
    if (!more) break;
  }
  // Only those of several groups are not in order.
  const auto before = [](const Adopted& a, const Adopted& b) { return a.group != b.group ? a.group < b.group : a.block < b.block; };
  if (!std::is_sorted(adopted_.begin(), adopted_.end(), before)) std::sort(adopted_.begin(), adopted_.end(), before);
  return adopted_;
}

}  // namespace quire
