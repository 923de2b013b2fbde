// The tickets in flight by number: open addressing over slots that are allocated once.
#pragma once

#include <quire/connector.h>

#include <cstdint>
#include <vector>

namespace quire {

struct TicketEntry {
  uint64_t ticket = 0;
  uint64_t submission = 0;   // the call that brought it
  uint64_t bytes = 0;        // of its runs
  uint64_t regions = 0;      // RegionTable: a bit for each that it uses
  int64_t submitted_ns = 0;  // the runtime's clock
  uint32_t num_keys = 0;
  quire_ticket_kind kind = 0;  // 0: the slot is free
};

// At most half of the slots are taken, so probes are short. An entry stays where it is until the
// next erase. The caller locks.
class TicketTable {
 public:
  explicit TicketTable(uint32_t capacity = 0);

  uint64_t size() const { return size_; }
  uint64_t room() const { return capacity_ - size_; }
  // NULL: there is none.
  TicketEntry* find(uint64_t ticket) {
    TicketEntry* const entry = &slots_[probe(ticket)];
    return entry->kind != 0 ? entry : nullptr;
  }
  // Enters the ticket, for which there must be room. False: its number is there already.
  bool insert(const TicketEntry& entry);
  void erase(TicketEntry* entry);

 private:
  uint64_t home(uint64_t ticket) const { return (ticket * 0x9E3779B97F4A7C15U) >> shift_; }
  // Where the ticket is, or where it would go.
  uint64_t probe(uint64_t ticket) const {
    uint64_t at = home(ticket);
    while (slots_[at].kind != 0 && slots_[at].ticket != ticket) at = (at + 1) & mask_;
    return at;
  }

  uint64_t capacity_;
  uint64_t size_ = 0;
  uint64_t mask_;
  int shift_;
  std::vector<TicketEntry> slots_;
};

}  // namespace quire
