// Entries of a connector's table that only pass on to instance->own, which has tickets().
#pragma once

#include <quire/connector.h>

#include <span>

#include "plugins/common/entry.h"

namespace quire::plugins {

template <typename Instance>
quire_code poll(Instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count, quire_error* /*err*/) {
  *count = instance->own->tickets().poll(timeout_ns, std::span<quire_completion>(items, capacity));
  return QUIRE_OK;
}

template <const char* kName, typename Instance>
quire_code cancel(Instance* instance, uint64_t ticket, quire_error* err) {
  if (instance->own->tickets().cancel(ticket)) return QUIRE_OK;
  return fail(err, kName, QUIRE_NOT_FOUND, "ticket %llu is not in flight", static_cast<unsigned long long>(ticket));
}

template <typename Instance>
quire_code get_fd(Instance* instance, int32_t* fd, quire_error* /*err*/) {
  *fd = instance->own->tickets().fd();
  return QUIRE_OK;
}

template <typename Instance>
quire_code health(Instance* instance, quire_connector_health* health, quire_error* /*err*/) {
  give(health, instance->own->health());
  return QUIRE_OK;
}

// The library has checked tickets, runs and keys. For tickets that say which number is in flight already.
template <const char* kName, typename Instance>
quire_code submit(Instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs, uint64_t /*num_runs*/,
                  const uint8_t* keys, uint64_t /*num_key_bytes*/, uint64_t* accepted, quire_error* err) {
  *accepted = 0;
  return guarded(err, kName, [&]() -> Outcome {
    if (instance->own->tickets().submit(std::span<const quire_ticket>(tickets, n), runs, keys, accepted)) return {};
    return {QUIRE_INVALID_ARGUMENT, 0,
            "tickets[" + std::to_string(*accepted) + "].ticket is " + std::to_string(tickets[*accepted].ticket) + ", which is in flight"};
  });
}

}  // namespace quire::plugins
