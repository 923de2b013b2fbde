#include "core/step/checkpoint_budget.h"

#include <algorithm>

namespace quire {

Status CheckpointBudget::prepare(uint64_t bytes) {
  if (!facts_.has_states || !facts_.reuse) return {};
  const uint64_t boundary = facts_.boundary_bytes();
  uint64_t least = UINT64_MAX, most = 0;
  for (const uint32_t g : facts_.state_groups) {
    least = std::min(least, facts_.groups[g].state_bytes);
    most = std::max(most, pool_.num_pages() * facts_.plan(g).parts_per_page / facts_.plan(g).ids_per_block);
  }
  if (bytes != 0 && bytes < boundary) {
    return invalid("checkpoint_bytes: %llu, the states of one boundary take %llu", static_cast<unsigned long long>(bytes),
                   static_cast<unsigned long long>(boundary));
  }
  budget_ = bytes != 0 ? bytes : UINT64_MAX;
  // Where everything is states, or age alone decides, there is nothing to share.
  const bool others = std::any_of(facts_.groups.begin(), facts_.groups.end(), [](const GroupFacts& g) { return g.whole && g.grows; });
  if (bytes == 0 && others && !facts_.strict_lru) share_.prepare(facts_.page_bytes * pool_.num_pages(), facts_.page_bytes, boundary);
  if (others && facts_.learns_places) {
    const double fit = static_cast<double>(facts_.page_bytes) * static_cast<double>(pool_.num_pages()) / static_cast<double>(boundary);
    place_worth_.prepare(static_cast<double>(boundary) / facts_.token_bytes(), fit);
  }
  most = std::min(most, budget_ / least);
  checkpoints_ = Checkpoints::create(index_, most, facts_.strict_lru ? CheckpointOrder::by_use() : CheckpointOrder::by_cost());
  return {};
}

// As long as a good part of the pool is free nothing has to go for the share.
bool CheckpointBudget::has_room(uint64_t bytes) const {
  if (!share_.learns()) return bytes_ + bytes <= budget_;
  return bytes_ + bytes <= share_.bytes() || pool_.free_pages() > pool_.num_pages() / 16;
}

void CheckpointBudget::keep(NodeId node, uint32_t group, BoundaryKind kind) {
  bytes_ += facts_.groups[group].state_bytes;
  if (!checkpoints_.keep(node, kind) || !facts_.learns_places) return;
  const NodeId before = checkpoints_.superseded_by(node);
  if (before.value == kNone) return;
  const bool sample = superseded_worth_.samples_next();
  checkpoints_.supersede(before, sample ? BoundaryKind::kSample : BoundaryKind::kSuperseded, sample ? 1 : superseded_worth_.share());
}

// A boundary was used, or lost and spared nothing since it is what it is.
void CheckpointBudget::learn(BoundaryKind kind, uint64_t tokens) {
  if (kind == BoundaryKind::kAwaited) superseded_worth_.usual(tokens);
  if (kind == BoundaryKind::kSample) superseded_worth_.sampled(tokens);
  if (kind == BoundaryKind::kPlace && tokens > 0) place_worth_.used(tokens);
  if (kind == BoundaryKind::kPlace && tokens == 0) place_worth_.lost();
}

void CheckpointBudget::lose(NodeId node, uint32_t group) {
  if (!checkpoints_.has(node)) return;  // left over from before a reset
  bytes_ -= facts_.groups[group].state_bytes;
  if (group == facts_.first_state && !forgets_) {
    share_.went(node, false);
    learn(checkpoints_.kind(node), 0);
  }
  checkpoints_.lose(node, group == facts_.first_state);
}

uint64_t CheckpointBudget::use(NodeId node, bool first) {
  const BoundaryKind kind = checkpoints_.kind(node);
  const uint64_t tokens = checkpoints_.use(node, first);
  if (tokens > 0) learn(kind, tokens);
  return tokens;
}

void CheckpointBudget::set_pinned(PartIndex head, bool pinned) {
  if (!facts_.has_states || pool_.group_of(pool_.page_of(head)).value != facts_.first_state || pool_.node(head).value == kNone) return;
  pinned ? checkpoints_.pin(pool_.node(head)) : checkpoints_.unpin(pool_.node(head));
}

void CheckpointBudget::report(quire_cache_stats* stats) const {
  stats->checkpoint_bytes = bytes_;
  stats->checkpoints = kept_;
  stats->checkpoints_given_up = given_up_;
  stats->checkpoints_declined = declined_;
}

Status CheckpointBudget::verify_bytes(uint64_t* states) const {
  uint64_t bytes = 0;
  QUIRE_RETURN_IF_ERROR(index_.verify([&](NodeId node, GroupId group, PartIndex) -> Status {
    if (!facts_.groups[group.value].state || index_.is_stale(node)) return {};
    bytes += facts_.groups[group.value].state_bytes;
    ++*states;
    return {};
  }));
  if (bytes != bytes_)
    return fail(QUIRE_INTERNAL, "checkpoints: %llu bytes kept, counted %llu", static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(bytes_));
  if (bytes > budget_)
    return fail(QUIRE_INTERNAL, "checkpoints: %llu bytes kept, the budget is %llu", static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(budget_));
  return {};
}

}  // namespace quire
