// Copies between the runs of a ticket and the chunks of an object.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <span>
#include <vector>

#include "plugins/host/host_store.h"

namespace quire::host {

enum class Direction { kIntoObject, kFromObject };
using RunSpan = std::span<const quire_ticket_run>;

// Whether every piece lies within an object of that size. Nothing wraps.
bool runs_fit(RunSpan runs, uint64_t object_bytes);
// Nothing wraps if runs_fit.
uint64_t bytes_of(RunSpan runs);
// What a copy moves, between the runs and the chunks of an object in their order.
struct Copy {
  const std::vector<uint32_t>& chunks;
  RunSpan runs;
  Direction direction;
};
// False: `stop` became true before all was copied. In any case nothing more is written.
bool copy_runs(const Store& store, const Copy& copy, const std::atomic<bool>& stop);

}  // namespace quire::host
