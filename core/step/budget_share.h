// The adaptive limit of kept states where the caller gives none. Too low: states are computed again
// although their keys and values are cached. Too high: states outlive their keys and values. Both
// losses are seen: boundaries that lost their states are remembered for a while. When a prompt
// passes one of them, the share moves to the side that would have served it. Losses are few: a few
// hundred among ten thousand prompts. A loss moves the share by more if those before it agree.
#pragma once

#include <cstdint>

#include "core/prefix/index.h"
#include "core/step/gone_boundaries.h"
#include "core/step/moving_mean.h"

namespace quire {

class BudgetShare {
 public:
  // The index is borrowed.
  explicit BudgetShare(const PrefixIndex& index) : index_(index) {}
  // To be called once, or not at all: then there is nothing to share. Bytes of the pool, of a page,
  // and of the states of one boundary.
  void prepare(uint64_t pool, uint64_t page, uint64_t boundary);

  bool learns() const { return gone_.prepared(); }
  uint64_t bytes() const { return static_cast<uint64_t>(bytes_); }  // of states, at most
  // The boundary's states go, for want of room in the share or with what else is evicted.
  void went(NodeId node, bool for_the_share);
  // A prompt was computed, and the node is its last boundary. hit: tokens that it reused; seen:
  // tokens of which all blocks of full attention were cached; pages evicted so far.
  void learn(NodeId node, uint64_t hit, uint64_t seen, uint64_t evicted_pages);
  uint64_t host_bytes() const { return gone_.host_bytes(); }

 private:
  static constexpr double kFirstShare = 4;  // of the pool, one in so many
  // The share never falls below so many boundaries, or in a small pool below what it begins with.
  static constexpr double kLeastBoundaries = 48;
  static constexpr uint64_t kRemembered = 16;         // of the pool's bytes, on each side
  static constexpr uint64_t kMostRemembered = 32768;  // for pools with small states
  static_assert(kMostRemembered <= GoneBoundaries::kMost);
  static constexpr double kMemory = 100;  // losses that the usual one is the mean of
  // Of a boundary: a usual loss moves the share by a least step, and by kMostAdded such steps more
  // if all losses were on its side; in between, by the square of their mean.
  static constexpr double kLeastStep = 1. / 16, kMostAdded = 15;
  static constexpr uint64_t kAgreement = 8;  // losses that side_ is the mean of

  uint32_t now(bool for_the_share) const;

  const PrefixIndex& index_;
  double bytes_ = 0, least_ = 0, most_ = 0;
  double boundary_ = 0;                  // bytes
  double usual_loss_ = 0;                // tokens
  MovingMean side_;                      // 1: all losses were by the share; -1: all by the pool
  uint64_t boundaries_ = 1, pages_ = 1;  // that are remembered
  uint64_t given_up_ = 0, evicted_pages_ = 0;
  GoneBoundaries gone_;
};

}  // namespace quire
