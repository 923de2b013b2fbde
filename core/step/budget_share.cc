#include "core/step/budget_share.h"

#include <algorithm>

namespace quire {

void BudgetShare::prepare(uint64_t pool, uint64_t page, uint64_t boundary) {
  boundary_ = static_cast<double>(boundary);
  bytes_ = std::max(2 * boundary_, static_cast<double>(pool) / kFirstShare);
  least_ = std::min(kLeastBoundaries * boundary_, bytes_);
  most_ = std::max(least_, static_cast<double>(pool));
  boundaries_ = std::max<uint64_t>(pool / kRemembered / boundary, 1);
  pages_ = std::max<uint64_t>(pool / kRemembered / page, 1);
  // About as many as can be recent on both sides.
  gone_.prepare(std::min<uint64_t>(pool / boundary * 4 / kRemembered + 64, kMostRemembered));
}

void BudgetShare::went(NodeId node, bool for_the_share) {
  if (!learns()) return;
  given_up_ += for_the_share ? 1 : 0;
  gone_.remember({index_.hash(node), now(for_the_share), for_the_share});
}

uint32_t BudgetShare::now(bool for_the_share) const {
  return static_cast<uint32_t>(for_the_share ? given_up_ / boundaries_ : evicted_pages_ / pages_) & GoneBoundaries::kClock;
}

void BudgetShare::learn(NodeId node, uint64_t hit, uint64_t seen, uint64_t evicted_pages) {
  if (!learns()) return;
  evicted_pages_ = evicted_pages;
  // Tokens that are computed again because a state was given up for the share, and because keys and values were evicted.
  uint64_t by_share = 0, by_pool = 0;
  const GoneBoundaries::Hints hints = gone_.hints();
  for (; index_.tokens(node) > hit && by_share == 0; node = index_.parent(node)) {
    const uint64_t hash = index_.hash(node);
    if (!hints.may_have(hash)) continue;
    const auto gone = gone_.find(hash);
    if (!gone || ((now(gone->for_the_share) - gone->when) & GoneBoundaries::kClock) > 1) continue;
    const uint64_t tokens = index_.tokens(node);
    if (gone->for_the_share && tokens <= seen) by_share = tokens - hit;
    if (!gone->for_the_share && tokens > seen && by_pool == 0) by_pool = tokens - hit;
  }
  const auto lost = static_cast<double>(std::max(by_share, by_pool));
  if (lost == 0) return;
  usual_loss_ += usual_loss_ == 0 ? lost : (lost - usual_loss_) / kMemory;
  const double gained = static_cast<double>(by_share) - static_cast<double>(by_pool);
  const double side = gained > 0 ? 1 : -1;
  side_.add(side, kAgreement);
  const double agreement = std::max(side_.mean * side, 0.0);
  const double step = boundary_ * kLeastStep * (1 + kMostAdded * agreement * agreement);
  bytes_ = std::clamp(bytes_ + step * gained / usual_loss_, least_, most_);
}

}  // namespace quire
