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
  static constexpr uint16_t kMost = UINT16_MAX - 2;

  // Holds the last `count` losses, from 1 to kMost. To be called once, before the others;
  // allocates.
  void prepare(uint64_t count);
  bool prepared() const { return !slots_.empty(); }

  // Of a boundary that is here already the earlier loss is forgotten. O(1), expected.
  void remember(const Boundary& boundary);
  // None: it never went, or was forgotten. O(1), expected.
  std::optional<Boundary> find(uint64_t hash) const;
  // For lookups of many hashes in a row: a small table mostly says that there is none, and its
  // address stays in registers. To be asked for once this is prepared; valid as long as this is.
  class Hints {
   public:
    bool may_have(uint64_t hash) const { return (hint_of(hash) & ~hints_[hash & mask_]) == 0; }

   private:
    friend class GoneBoundaries;
    Hints(const uint16_t* hints, uint64_t mask) : hints_(hints), mask_(mask) {}
    const uint16_t* hints_;
    uint64_t mask_;
  };
  Hints hints() const { return {hints_.data(), hints_.size() - 1}; }

  uint64_t host_bytes() const;

 private:
  static constexpr uint16_t kNone = UINT16_MAX, kForgotten = UINT16_MAX - 1;
  static_assert(kMost <= kForgotten);
  struct Slot {
    uint64_t hash;
    uint32_t note;  // when, and for which side in the lowest bit
    uint16_t next;  // with the same bucket; kForgotten: it is in none
  };

  uint64_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  // Two bits, by others of the hash than those that choose its bucket: with as many boundaries as
  // buckets, one in 40 that never went is searched for.
  static uint16_t hint_of(uint64_t hash) {
    const uint32_t bits = 1u << (hash >> 60) | 1u << (hash >> 56 & 15);
    return static_cast<uint16_t>(bits);
  }
  uint16_t slot_of(uint64_t hash) const;
  void unlink(uint16_t slot);

  HugeVector<Slot> slots_;  // a ring
  HugeVector<uint16_t> buckets_;
  HugeVector<uint16_t> hints_;  // [bucket], of all boundaries in it
  uint16_t used_ = 0;           // slots
  uint16_t oldest_ = 0;         // once all are used
};

}  // namespace quire
