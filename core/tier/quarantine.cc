#include "core/tier/quarantine.h"

#include <algorithm>

namespace quire {

void Quarantine::begin(quire_hold_id hold, size_t transfers) {
  held_.push_back({hold, transfers});
  ++state_.stats.quarantined;
  ++state_.stats.quarantined_ever;
}

void Quarantine::ended(quire_hold_id hold) {
  const auto held = std::find_if(held_.begin(), held_.end(), [hold](const Held& h) { return h.hold == hold; });
  if (held == held_.end() || --held->transfers > 0) return;
  (void)state_.cache->hold_end(hold);
  *held = held_.back();
  held_.pop_back();
  --state_.stats.quarantined;
}

}  // namespace quire
