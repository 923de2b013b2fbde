#include "core/tier/boundary.h"

namespace quire {

Candidates candidates_of(const TierPlan& plan, uint64_t hit, uint64_t longest) {
  Candidates c;
  for (uint64_t end = plan.unit_tokens(); end <= longest; end += plan.unit_tokens()) c.unit_ends.push_back(end);
  if (!plan.has_states()) {
    std::copy_if(c.unit_ends.begin(), c.unit_ends.end(), std::back_inserter(c.boundaries), [hit](uint64_t end) { return end > hit; });
    return c;
  }
  for (uint64_t end = (hit / plan.grid() + 1) * plan.grid(); end <= longest; end += plan.grid()) c.boundaries.push_back(end);
  return c;
}

void RecordTable::clear() {
  records_.clear();
  places_.clear();
}

void RecordTable::add(uint32_t part, uint64_t end, const PrefixNames& names) {
  if (!places_.try_emplace(place(part, end), static_cast<uint32_t>(records_.size())).second) return;
  records_.push_back(WantedRecord{part, end, plan_.key(plan_.parts()[part], end, names), 0, 0});
}

const WantedRecord* RecordTable::find(uint32_t part, uint64_t end) const {
  const auto found = places_.find(place(plan_.parts()[part].twin, end));
  return found == places_.end() ? nullptr : &records_[found->second];
}

bool RecordTable::is_there(uint64_t full_hit, uint64_t boundary, std::span<uint64_t> bytes) const {
  for (uint32_t p = 0; p < plan_.parts().size(); ++p) {
    const TierPart& part = plan_.parts()[p];
    const bool all = each_needed(part, part.live.everything() ? full_hit : 0, boundary, [&](uint64_t end) {
      const WantedRecord* const record = find(p, end);
      if (record == nullptr || record->size == 0) return false;
      bytes[record->tier] += record->size;
      return true;
    });
    if (!all) return false;
  }
  return true;
}

bool RecordTable::has_states(uint64_t boundary) const {
  for (uint32_t p = 0; p < plan_.parts().size(); ++p) {
    if (!plan_.parts()[p].is_state) continue;
    const WantedRecord* const record = find(p, boundary);
    if (record == nullptr || record->size == 0) return false;
  }
  return true;
}

}  // namespace quire
