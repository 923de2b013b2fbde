// What a connector's statistics say of tickets, and what is believed of a completion.
#pragma once

#include <quire/connector.h>

#include "core/connector/ticket_table.h"

namespace quire {

// Takes out of a completion what cannot be: codes and flags that nobody knows, more keys found than
// were asked for. A store or load that is said to be done and moved another number of bytes than
// its runs have ends with DATA_LOSS.
void correct_completion(const TicketEntry& ticket, quire_completion* end);

// The caller locks.
class TicketCounts {
 public:
  void submitted(uint64_t n) { stats_.num_submitted += n; }
  void stray() { ++stats_.num_strays; }
  void begin_bytes(uint64_t bytes) { stats_.bytes_in_flight += bytes; }
  void end_bytes(uint64_t bytes) { stats_.bytes_in_flight -= bytes; }
  // A ticket that took so long ended.
  void ended(const TicketEntry& ticket, const quire_completion& end, int64_t took_ns);
  // struct_size and num_regions are not written.
  quire_connector_stats read() const;

 private:
  quire_connector_stats stats_{};
};

}  // namespace quire
