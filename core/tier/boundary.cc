#include "core/tier/boundary.h"

namespace quire {

Candidates candidates_of(const TierPlan& plan, uint64_t hit, uint64_t longest) {
  Candidates c;
  for (uint64_t end = plan.unit_tokens(); end <= longest; end += plan.unit_tokens()) c.unit_ends.push_back(end);
  if (!plan.has_states() || plan.most_encoder() > 0) {  // then an offer says where else
    std::copy_if(c.unit_ends.begin(), c.unit_ends.end(), std::back_inserter(c.boundaries), [hit](uint64_t end) { return end > hit; });
    return c;
  }
  for (uint64_t end = (hit / plan.grid() + 1) * plan.grid(); end <= longest; end += plan.grid()) c.boundaries.push_back(end);
  return c;
}

void RecordTable::clear(uint64_t encoder) {
  encoder_ = encoder;
  records_.clear();
  places_.clear();
}

void RecordTable::add(uint32_t source, uint64_t end, const PrefixNames& names) {
  if (!places_.try_emplace(place(source, end), static_cast<uint32_t>(records_.size())).second) return;
  records_.push_back(WantedRecord{source, end, sources_.key(source, end, names), 0, 0});
}

const WantedRecord* RecordTable::find(uint32_t source, uint64_t end) const {
  const auto found = places_.find(place(sources_.all()[source].twin, end));
  return found == places_.end() ? nullptr : &records_[found->second];
}

void RecordTable::set_size(uint32_t source, uint64_t end, uint64_t size, uint32_t tier) {
  WantedRecord& record = records_[places_.at(place(sources_.all()[source].twin, end))];
  if (size == 0 || record.size != 0) return;
  record.size = size;
  record.tier = tier;
}

bool RecordTable::has_all(std::span<const uint32_t> set, uint64_t end) const {
  return std::all_of(set.begin(), set.end(), [&](uint32_t source) {
    const WantedRecord* const record = find(source, end);
    return record != nullptr && record->size != 0 && (sources_.all()[source].is_own || record->size <= kMostBytesBeside);
  });
}

std::span<const uint32_t> RecordTable::set_at(uint32_t family, uint64_t end) const {
  for (const std::vector<uint32_t>& set : sources_.sets(family)) {
    if (has_all(set, end)) return set;
  }
  return {};
}

bool RecordTable::is_there(uint64_t full_hit, uint64_t boundary, std::span<uint64_t> bytes) const {
  for (uint32_t f = 0; f < plan_.families().size(); ++f) {
    if (sources_.sets(f).empty()) continue;
    const TierPart& part = sources_.part_of(sources_.sets(f)[0][0]);
    const bool all = each_needed(part, part.live.everything() ? full_hit : 0, boundary, [&](uint64_t end) {
      const std::span<const uint32_t> set = set_at(f, end);
      for (const uint32_t source : set) {
        const WantedRecord* const record = find(source, end);
        bytes[record->tier] += record->size;
      }
      return !set.empty();
    });
    if (!all) return false;
  }
  return true;
}

bool RecordTable::has_states(uint64_t boundary) const {
  for (uint32_t f = 0; f < plan_.families().size(); ++f) {
    const auto sets = sources_.sets(f);
    if (!sets.empty() && sources_.part_of(sets[0][0]).is_state && set_at(f, boundary).empty()) return false;
  }
  return true;
}

}  // namespace quire
