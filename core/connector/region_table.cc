#include "core/connector/region_table.h"

#include <algorithm>
#include <bit>

namespace quire {

uint32_t RegionTable::count() const {
  return static_cast<uint32_t>(
      std::count_if(regions_.begin(), regions_.end(), [](const Region& region) { return region.state == Region::State::kOpen; }));
}

int RegionTable::begin_open() {
  for (int slot = 0; slot < kMost; ++slot) {
    if (regions_[slot].state != Region::State::kFree) continue;
    regions_[slot].state = Region::State::kOpening;
    end_ = std::max(end_, slot + 1);
    return slot;
  }
  return -1;
}

void RegionTable::end_open(int slot, uint64_t id, uint64_t address, uint64_t bytes) {
  regions_[slot] = {Region::State::kOpen, id, address, bytes, 0};
}

void RegionTable::use(uint64_t set) {
  for (; set != 0; set &= set - 1) ++regions_[std::countr_zero(set)].uses;
}

void RegionTable::give_back(uint64_t set) {
  for (; set != 0; set &= set - 1) --regions_[std::countr_zero(set)].uses;
}

}  // namespace quire
