#include "core/connector/ticket_table.h"

#include <algorithm>
#include <bit>

namespace quire {

TicketTable::TicketTable(uint32_t capacity) : capacity_(capacity) {
  const uint64_t slots = std::bit_ceil(std::max<uint64_t>(2 * uint64_t{capacity}, 2));
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  slots_.resize(slots);
}

bool TicketTable::insert(const TicketEntry& entry) {
  TicketEntry* const slot = &slots_[probe(entry.ticket)];
  if (slot->kind != 0) return false;
  *slot = entry;
  ++size_;
  return true;
}

// Those behind it move up, as far as their own beginning allows: no slot is ever marked as left.
void TicketTable::erase(TicketEntry* entry) {
  uint64_t hole = static_cast<uint64_t>(entry - slots_.data());
  for (uint64_t at = (hole + 1) & mask_; slots_[at].kind != 0; at = (at + 1) & mask_) {
    if (((at - home(slots_[at].ticket)) & mask_) < ((at - hole) & mask_)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole].kind = 0;
  --size_;
}

}  // namespace quire
