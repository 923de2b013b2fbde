// The table of the connector: a store in a directory (file_worker.h), behind the C functions of connector.h.
#include <quire/connector.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/note.h"
#include "plugins/common/entry.h"
#include "plugins/common/module.h"
#include "plugins/file/file_config.h"
#include "plugins/file/file_worker.h"
#include "plugins/file/mailbox.h"

QUIRE_CONNECTOR_NOTE("file");

struct quire_connector_instance {
  quire_connector_instance(quire::file::Config settings, const quire_host_api* host)
      : config(std::move(settings)), worker(config, host, &mailbox, quire::file::make_ring_kernel) {}

  const pid_t process = getpid();
  quire::file::Config config;
  quire::file::Mailbox mailbox;
  quire::file::Worker worker;
};

namespace quire::file {
namespace {

constexpr char kName[] = "file";

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  return plugins::guarded(err, kName, [&]() -> Outcome {
    Config config;
    const std::string_view json(options->config.data, options->config.data != nullptr ? options->config.len : 0);
    if (Outcome outcome = read_config(json, &config); !outcome.ok()) return outcome;
    auto instance = std::make_unique<quire_connector_instance>(std::move(config), options->host);
    if (Outcome outcome = instance->mailbox.open(); !outcome.ok()) return outcome;
    if (Outcome outcome = instance->worker.open(); !outcome.ok()) return outcome;
    *out = instance.release();
    return {};
  });
}

// A child of fork() has no thread that would end what is under way: it closes its files and leaves the memory alone.
void close(quire_connector_instance* instance) {
  if (instance->process == getpid()) {
    delete instance;
    return;
  }
  instance->worker.leave();
  instance->mailbox.leave();
}

quire_code info(quire_connector_instance* /*instance*/, quire_connector_info* info, quire_error* /*err*/) {
  quire_connector_info own = {};
  own.flags = QUIRE_CONNECTOR_PERSISTENT | QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_RANGES;
  own.max_in_flight = kMaxTickets;
  own.alignment = kPage;
  own.max_key_bytes = kMaxKeyBytes;
  own.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  own.best_object_bytes = kWindow;
  plugins::give(info, own);
  return QUIRE_OK;
}

std::unique_ptr<Ticket> copy(const quire_ticket& t, const quire_ticket_run* runs, const uint8_t* keys) {
  auto ticket = std::make_unique<Ticket>();
  ticket->fields = t;
  if (t.num_runs != 0) ticket->runs.assign(runs + t.first_run, runs + t.first_run + t.num_runs);
  ticket->keys.assign(reinterpret_cast<const char*>(keys) + t.key_offset, t.num_keys * t.key_bytes);
  return ticket;
}

// The library has checked tickets, runs and keys.
quire_code submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                  uint64_t /*num_runs*/, const uint8_t* keys, uint64_t /*num_key_bytes*/, uint64_t* accepted, quire_error* err) {
  *accepted = 0;
  return plugins::guarded(err, kName, [&]() -> Outcome {
    std::vector<std::unique_ptr<Ticket>> copies;
    const uint64_t most = std::min<uint64_t>(n, kMaxTickets);
    copies.reserve(most);
    for (uint64_t i = 0; i < most; ++i) copies.push_back(copy(tickets[i], runs, keys));
    bool is_new = true;
    try {
      is_new = instance->mailbox.send(copies, accepted);
    } catch (...) {
      instance->worker.wake();  // some may have been accepted
      throw;
    }
    instance->worker.wake();
    if (is_new) return {};
    return {QUIRE_INVALID_ARGUMENT, 0,
            "tickets[" + std::to_string(*accepted) + "].ticket is " + std::to_string(tickets[*accepted].ticket) + ", which is in flight"};
  });
}

quire_code poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count,
                quire_error* /*err*/) {
  *count = instance->mailbox.receive(timeout_ns, {items, capacity});
  return QUIRE_OK;
}

quire_code cancel(quire_connector_instance* instance, uint64_t ticket, quire_error* err) {
  return plugins::guarded(err, kName, [&]() -> Outcome {
    if (!instance->mailbox.cancel(ticket)) return {QUIRE_NOT_FOUND, 0, "ticket " + std::to_string(ticket) + " is not in flight"};
    instance->worker.wake();
    return {};
  });
}

quire_code get_fd(quire_connector_instance* instance, int32_t* fd, quire_error* /*err*/) {
  *fd = instance->mailbox.file();
  return QUIRE_OK;
}

quire_code health(quire_connector_instance* instance, quire_connector_health* health, quire_error* /*err*/) {
  const Shown& shown = instance->worker.shown();
  quire_connector_health own = {};
  own.state = shown.state;
  own.capacity_bytes = instance->config.quota;
  own.used_bytes = shown.used_bytes;
  own.num_objects = shown.num_objects;
  own.num_evicted = shown.num_evicted;
  own.num_damaged = shown.num_damaged;
  plugins::give(health, own);
  return QUIRE_OK;
}

quire_code list(quire_connector_instance* instance, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count,
                uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  *count = 0;
  return plugins::guarded(err, kName, [&]() -> Outcome {
    Listing listing;
    listing.cursor = *cursor;
    listing.items = {items, capacity};
    listing.keys = {keys, num_key_bytes};
    instance->mailbox.send_listing(&listing);
    instance->worker.wake();
    instance->mailbox.await_listing(&listing);
    if (!listing.outcome.ok()) return listing.outcome;
    *cursor = listing.cursor;
    *count = listing.count;
    return {};
  });
}

constexpr quire_connector_api kApi = {
    sizeof(quire_connector_api), 0, open, close, info, nullptr, nullptr, submit, poll, cancel, get_fd, health, list,
};

constexpr quire_manifest kManifest = plugins::manifest_of(kName, &kApi);

}  // namespace
}  // namespace quire::file

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  return quire::plugins::answer(*query, quire::file::kManifest, out, err);
}
