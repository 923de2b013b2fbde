// A memory of the last boundaries that lost their states, a fixed number of losses. The oldest loss
// makes room. The 64-bit hash of a prefix is treated as unique, so what is found does not depend on
// the key of the hash.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/huge_pages.h"

namespace quire {

class GoneBoundaries {
 public:
  struct Boundary {
    uint64_t hash = 0;
    uint32_t when = 0;  // on the clock of its side, which has 31 bits
    bool for_the_share = false;
  };

  static constexpr uint32_t kClock = UINT32_MAX >> 1;

  // Holds the last `count` losses, at least one. To be called once, before the others; allocates.
  void prepare(uint64_t count);
  bool prepared() const { return !slots_.empty(); }

  // Of a boundary that is here already the earlier loss is forgotten. O(1), expected.
  void remember(const Boundary& boundary);
  // None: it never went, or was forgotten. O(1), expected.
  std::optional<Boundary> find(uint64_t hash) const;

  uint64_t host_bytes() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kForgotten = UINT32_MAX - 1;
  struct Slot {
    uint64_t hash;
    uint32_t note;  // when, and for which side in the lowest bit
    uint32_t next;  // with the same bucket; kForgotten: it is in none
  };

  uint32_t& bucket_of(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  uint32_t slot_of(uint64_t hash) const;
  void unlink(uint32_t slot);

  HugeVector<Slot> slots_;  // a ring
  HugeVector<uint32_t> buckets_;
  uint32_t used_ = 0;    // slots
  uint32_t oldest_ = 0;  // once all are used
};

}  // namespace quire
