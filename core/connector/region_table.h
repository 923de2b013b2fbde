// The registered regions of a connector, and how many tickets in flight use each.
#pragma once

#include <quire/base.h>

#include <array>
#include <cstdint>

namespace quire {

struct Region {
  enum class State { kFree, kOpening, kOpen, kClosing };
  State state = State::kFree;
  uint64_t id = 0;  // the connector's
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t uses = 0;  // tickets in flight
};

// A region has a slot; a set of regions is a word with a bit for each. The caller locks.
class RegionTable {
 public:
  static constexpr int kMost = 64;

  // The slot of an open region; -1: there is none of that number.
  int find(uint64_t id) const {
    for (int slot = 0; slot < end_; ++slot) {
      if (regions_[slot].id == id && regions_[slot].state == Region::State::kOpen) return slot;
    }
    return -1;
  }
  const Region& at(int slot) const { return regions_[slot]; }
  // Open ones.
  uint32_t count() const;
  // Reserves a slot while the connector is asked; -1: all are taken.
  int begin_open();
  // What the connector answered.
  void end_open(int slot, uint64_t id, uint64_t address, uint64_t bytes);
  // From now on no ticket can use the region; it must be open and unused.
  void begin_close(int slot) { regions_[slot].state = Region::State::kClosing; }
  // The connector kept it.
  void cancel_close(int slot) { regions_[slot].state = Region::State::kOpen; }
  // Of a slot that is opening or closing.
  void free(int slot) { regions_[slot] = {}; }
  void use(uint64_t set);
  void give_back(uint64_t set);

 private:
  std::array<Region, kMost> regions_;
  int end_ = 0;  // slots from here on were never taken
};

}  // namespace quire
