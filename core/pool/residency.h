// How long pages keep what is in them, counted of a sample: pages whose number is -1 modulo a power
// of two. A page lives from when a group takes it until its cached content is evicted. One that is
// released before anything of it was cached is not counted.
// The time is the caller's; nobody here reads a clock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/prefetch.h"

namespace quire {

class Residency {
 public:
  // Element i counts spans of less than 2^i milliseconds and not less than half of that; the last
  // one counts the rest, too.
  static constexpr size_t kSpans = 32;
  struct Spans {
    std::array<uint64_t, kSpans> counts{};
    uint64_t sum_ns = 0;
  };
  struct Counts {
    Spans lifetime;   // from taken to evicted
    Spans idle;       // from when nobody used it any more to evicted
    Spans reuse_gap;  // from when nobody used it any more to used again
  };

  void resize(uint64_t num_pages, size_t num_groups) {
    counts_.resize(num_groups);
    const uint64_t most = std::clamp<uint64_t>(num_pages / kFewest, 1, kMostPages);
    const uint64_t sample = std::bit_floor(most);
    mask_ = static_cast<uint32_t>(sample - 1);
    shift_ = static_cast<uint32_t>(std::countr_zero(sample));
    lives_.resize((num_pages >> shift_) + 1);
  }
  // One page in so many is counted.
  uint32_t sample() const { return mask_ + 1; }
  // Of one group's pages; of all pages.
  const Counts& counts(size_t group) const { return counts_[group]; }
  Counts counts() const;
  uint64_t host_bytes() const {  //
    return lives_.capacity() * sizeof(Life) + counts_.capacity() * sizeof(Counts);
  }

  // Nanoseconds; what happens from now on happens then.
  void set_time(int64_t now) { now_ = now; }

  // Of a page: a group took it; nobody uses it, but it is cached; it is used again; it is evicted.
  void took(uint32_t page, uint32_t group) {
    if (is_sampled(page)) [[unlikely]]
      lives_[page >> shift_] = {now_, kInUse, epoch_, group};
  }
  void idled(uint32_t page) {
    if (is_sampled(page)) [[unlikely]]
      lives_[page >> shift_].idle_since = now_;
  }
  void resumed(uint32_t page) {
    if (is_sampled(page)) [[unlikely]]
      count_resumed(&lives_[page >> shift_]);
  }
  void evicted(uint32_t page) {
    if (is_sampled(page)) [[unlikely]]
      count_evicted(&lives_[page >> shift_]);
  }
  // It is evicted, and taken at once.
  void replaced(uint32_t page, uint32_t group) {
    if (!is_sampled(page)) [[likely]]
      return;
    count_evicted(&lives_[page >> shift_]);
    took(page, group);
  }
  // Asks for what the next call for the page reads.
  void fetch(uint32_t page) const {
    if (is_sampled(page)) [[unlikely]]
      prefetch_to_write(&lives_[page >> shift_]);
  }
  // Pages that are cached now are not counted when they are evicted.
  void forget_all() { ++epoch_; }
  // Between true and false nothing that goes is counted: a reset forgets it, page by page.
  void forgets(bool begins) { forgets_ = begins; }

 private:
  static constexpr uint64_t kFewest = 1024, kMostPages = 64;  // counted ones; pages of which one is
  static constexpr int64_t kInUse = -1;
  struct Life {
    int64_t taken = 0;
    int64_t idle_since = kInUse;
    uint64_t epoch = UINT64_MAX;
    uint32_t group = 0;
  };

  bool is_sampled(uint32_t page) const { return (page & mask_) == mask_; }
  void add(int64_t since, Spans* spans) const;
  void count_resumed(Life* life);
  void count_evicted(Life* life);

  std::vector<Life> lives_;
  uint32_t mask_ = 0, shift_ = 0;
  int64_t now_ = 0;
  uint64_t epoch_ = 0;
  bool forgets_ = false;
  std::vector<Counts> counts_;  // [group]
};

}  // namespace quire
