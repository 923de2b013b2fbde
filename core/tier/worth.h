// Whether a fetch is worth it: what it should take, as far as the tiers are known, against
// computing. A tier whose speed is a guess has to show early that it gets there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tier/connector_tier.h"
#include "core/tier/fetch.h"

namespace quire {

class Worth {
 public:
  using Tiers = std::vector<std::unique_ptr<Tier>>;

  // tiers: borrowed. ns_per_token: of computing a prompt; 0: unknown, and everything is worth it.
  Worth(const Tiers& tiers, double ns_per_token) : tiers_(tiers), ns_per_token_(ns_per_token) {}

  bool is_known() const { return ns_per_token_ > 0; }
  // ns that look-ups of a prompt may take which ends there.
  double lookup_ns(const Fetch& f, uint64_t end) const;
  // Whether the tier's answer to what is asked now would come too late to be of use.
  bool is_too_far(const Fetch& f, const Tier& tier, int64_t now) const;
  // What fetching so many bytes, by tier, saves, in ns of computing, or in tokens where computing
  // has no price; 0: it is not worth it.
  double saves(const Fetch& f, uint64_t boundary, std::span<const uint64_t> bytes) const;
  // The fair deadline and the patience of such a load, which begins at `now`.
  void limit_load(Fetch* f, uint64_t boundary, std::span<const uint64_t> bytes, int64_t now) const;
  // ns that a peer may take to compute what is waited for, and to send it.
  double growing_ns(const Fetch& f, uint64_t boundary) const;
  // When a load in progress is too slow if nothing more comes; INT64_MAX: never.
  int64_t too_slow_at(const Fetch& f) const;
  // The load was given up for that; tiers: bits of those that had not brought all.
  void learn_from_slow(const Fetch& f, uint32_t tiers, int64_t now) const;

 private:
  double compute_ns(const Fetch& f, uint64_t boundary) const;
  // What is not known counts as nothing.
  double expected_ns(std::span<const uint64_t> bytes) const;

  const Tiers& tiers_;
  double ns_per_token_;
};

}  // namespace quire
