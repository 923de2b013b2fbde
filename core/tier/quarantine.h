// Blocks of loads that were given up while transfers may still write there. They are held apart
// from the pool until the last of these has ended.
#pragma once

#include <vector>

#include "core/tier/tier_state.h"

namespace quire {

class Quarantine {
 public:
  // state: borrowed. most: loads that may be in it.
  Quarantine(TierState& state, size_t most) : state_(state) { held_.reserve(most); }

  // There must be room.
  void begin(quire_hold_id hold, size_t transfers);
  // One of these transfers has ended.
  void ended(quire_hold_id hold);

 private:
  struct Held {
    quire_hold_id hold = 0;
    size_t transfers = 0;
  };
  TierState& state_;
  std::vector<Held> held_;
};

}  // namespace quire
