// What the host checks of tickets and their runs before a connector sees them.
#pragma once

#include <quire/connector.h>

#include <span>
#include <string>

#include "core/base/status.h"
#include "core/connector/region_table.h"

namespace quire {

// The arrays of a submission: tickets index runs and keys.
struct TicketBatch {
  std::span<const quire_ticket> tickets;
  std::span<const quire_ticket_run> runs;
  std::span<const uint8_t> keys;
};

// What the checks have to know of a connector.
struct TicketRules {
  const quire_connector_info& info;
  const std::string& name;
  const RegionTable& regions;
};

// What a ticket uses until it ends.
struct TicketUse {
  uint64_t bytes = 0;    // of its runs
  uint64_t regions = 0;  // RegionTable: a bit for each
};

// Checks every field of ticket i, its runs and its keys, but not whether its number is in flight.
// Errors: INVALID_ARGUMENT, OUT_OF_RANGE.
Status check_ticket(const TicketBatch& batch, uint64_t i, const TicketRules& rules, TicketUse* use);

}  // namespace quire
