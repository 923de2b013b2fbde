#include "core/connector/ticket_counts.h"

#include <algorithm>

#include "core/base/latency.h"
#include "core/modules/module_search.h"

namespace quire {
namespace {

uint32_t flags_of(quire_ticket_kind kind) {
  if (kind == QUIRE_TICKET_STORE) return QUIRE_COMPLETION_EXISTED;
  return kind == QUIRE_TICKET_LOOKUP ? QUIRE_COMPLETION_LEASED : 0;
}

}  // namespace

void correct_completion(const TicketEntry& ticket, quire_completion* end) {
  end->code = known_code(end->code);
  end->flags = end->code == QUIRE_OK ? end->flags & flags_of(ticket.kind) : 0;
  end->num_found = std::min<uint64_t>(end->num_found, ticket.kind == QUIRE_TICKET_LOOKUP ? ticket.num_keys : 0);
  const bool moved = end->bytes == ticket.bytes || (end->flags & QUIRE_COMPLETION_EXISTED) != 0;
  if (end->code == QUIRE_OK && ticket.bytes != 0 && !moved) end->code = QUIRE_DATA_LOSS;
  end->bytes = std::min(end->bytes, ticket.bytes);
}

void TicketCounts::ended(const TicketEntry& ticket, const quire_completion& end, int64_t took_ns) {
  uint64_t* const kind = end.code == QUIRE_OK          ? &stats_.num_done
                         : end.code == QUIRE_NOT_FOUND ? &stats_.num_missing
                         : end.code == QUIRE_CANCELLED ? &stats_.num_cancelled
                                                       : &stats_.num_failed;
  ++*kind;
  end_bytes(ticket.bytes);
  uint64_t *latency = nullptr, *sum = nullptr;
  if (ticket.kind == QUIRE_TICKET_STORE) {
    latency = stats_.store_latency, sum = &stats_.store_ns;
    if (end.code == QUIRE_OK) stats_.bytes_stored += end.bytes;
    if ((end.flags & QUIRE_COMPLETION_EXISTED) != 0) ++stats_.num_existed;
  } else if (ticket.kind == QUIRE_TICKET_LOAD) {
    latency = stats_.load_latency, sum = &stats_.load_ns;
    if (end.code == QUIRE_OK) stats_.bytes_loaded += end.bytes;
  } else if (ticket.kind == QUIRE_TICKET_LOOKUP) {
    latency = stats_.lookup_latency, sum = &stats_.lookup_ns;
    if (end.code == QUIRE_OK) {
      stats_.keys_looked_up += ticket.num_keys;
      stats_.keys_found += end.num_found;
    }
  }
  if (latency == nullptr) return;
  ++latency[latency_element(took_ns)];
  *sum += static_cast<uint64_t>(std::max<int64_t>(took_ns, 0));
}

quire_connector_stats TicketCounts::read() const {
  quire_connector_stats now = stats_;
  now.num_in_flight = now.num_submitted - now.num_done - now.num_missing - now.num_failed - now.num_cancelled;
  return now;
}

}  // namespace quire
