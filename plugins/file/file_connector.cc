// The table of the connector: a store in a directory (worker.h), behind the C functions of connector.h.
#include <quire/connector.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/note.h"
#include "plugins/common/fail.h"
#include "plugins/file/config.h"
#include "plugins/file/mailbox.h"
#include "plugins/file/pieces.h"
#include "plugins/file/worker.h"

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
constexpr int32_t kErrnoDomain = 1;

quire_code fail(quire_error* err, const Outcome& outcome) {
  plugins::fail(err, kName, outcome.code, "%s", outcome.text.c_str());
  if (err != nullptr && outcome.native != 0) {
    err->native_code = outcome.native;
    err->native_domain = kErrnoDomain;
  }
  return outcome.code;
}

// No exception leaves the module.
template <typename Call>
quire_code guarded(quire_error* err, Call call) {
  try {
    const Outcome outcome = call();
    return outcome.ok() ? QUIRE_OK : fail(err, outcome);
  } catch (const std::bad_alloc&) {
    return plugins::fail(err, kName, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the connector");
  } catch (const std::exception& error) {
    return plugins::fail(err, kName, QUIRE_INTERNAL, "%s", error.what());
  }
}

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  return guarded(err, [&]() -> Outcome {
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

// Writes what the caller has room for.
template <typename Struct>
void give(Struct* to, Struct own) {
  own.struct_size = to->struct_size < sizeof own ? to->struct_size : static_cast<uint32_t>(sizeof own);
  std::memcpy(to, &own, own.struct_size);
}

quire_code info(quire_connector_instance* /*instance*/, quire_connector_info* info, quire_error* /*err*/) {
  quire_connector_info own = {};
  own.flags = QUIRE_CONNECTOR_PERSISTENT | QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_RANGES;
  own.max_in_flight = kMaxTickets;
  own.alignment = kPage;
  own.max_key_bytes = kMaxKeyBytes;
  own.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  own.best_object_bytes = kWindow;
  give(info, own);
  return QUIRE_OK;
}

std::string describe(uint64_t i, const std::string& what) { return "tickets[" + std::to_string(i) + "]: " + what; }

// Of what the host may get wrong, everything that would lead astray here.
Outcome check(const quire_ticket& t, uint64_t i, uint64_t num_runs, uint64_t num_key_bytes) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const bool moves = t.kind == QUIRE_TICKET_STORE || t.kind == QUIRE_TICKET_LOAD;
  if (t.kind < QUIRE_TICKET_STORE || t.kind > QUIRE_TICKET_REMOVE) {
    return {QUIRE_INVALID_ARGUMENT, 0, describe(i, "kind is " + std::to_string(t.kind) + ", it must be QUIRE_TICKET_*, 1 to 4")};
  }
  if (t.first_run > num_runs || t.num_runs > num_runs - t.first_run) {
    return {QUIRE_OUT_OF_RANGE, 0, describe(i, "its runs end behind num_runs " + number(num_runs))};
  }
  if (t.key_bytes == 0 || t.key_bytes > kMaxKeyBytes) {
    return {QUIRE_OUT_OF_RANGE, 0, describe(i, "key_bytes is " + number(t.key_bytes) + ", it must be 1 to " + number(kMaxKeyBytes))};
  }
  if (t.num_keys == 0 || (t.kind != QUIRE_TICKET_LOOKUP && t.num_keys != 1)) {
    return {QUIRE_INVALID_ARGUMENT, 0, describe(i, "num_keys is " + number(t.num_keys))};
  }
  if (t.key_offset > num_key_bytes || t.num_keys * t.key_bytes > num_key_bytes - t.key_offset) {
    return {QUIRE_OUT_OF_RANGE, 0, describe(i, "its keys end behind num_key_bytes " + number(num_key_bytes))};
  }
  if (moves != (t.num_runs != 0)) return {QUIRE_INVALID_ARGUMENT, 0, describe(i, "num_runs is " + number(t.num_runs))};
  if ((t.kind == QUIRE_TICKET_STORE) != (t.object_bytes != 0)) {
    return {QUIRE_INVALID_ARGUMENT, 0, describe(i, "object_bytes is " + number(t.object_bytes))};
  }
  if ((t.kind == QUIRE_TICKET_LOOKUP) != (t.sizes != nullptr)) {
    return {QUIRE_INVALID_ARGUMENT, 0, describe(i, "sizes must be there for a look-up, and only there")};
  }
  return {};
}

std::unique_ptr<Ticket> copy(const quire_ticket& t, const quire_ticket_run* runs, const uint8_t* keys) {
  auto ticket = std::make_unique<Ticket>();
  ticket->fields = t;
  if (t.num_runs != 0) ticket->runs.assign(runs + t.first_run, runs + t.first_run + t.num_runs);
  ticket->keys.assign(reinterpret_cast<const char*>(keys) + t.key_offset, t.num_keys * t.key_bytes);
  return ticket;
}

quire_code submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                  uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  *accepted = 0;
  return guarded(err, [&]() -> Outcome {
    const uint64_t most = n < kMaxTickets ? n : kMaxTickets;
    std::vector<std::unique_ptr<Ticket>> copies;
    copies.reserve(most);
    for (uint64_t i = 0; i < n; ++i) {
      if (Outcome outcome = check(tickets[i], i, num_runs, num_key_bytes); !outcome.ok()) return outcome;
      if (i >= most) continue;
      copies.push_back(copy(tickets[i], runs, keys));
      const std::string wrong = check_runs(copies.back()->runs, tickets[i].object_bytes);
      if (!wrong.empty()) return {QUIRE_INVALID_ARGUMENT, 0, describe(i, wrong)};
    }
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
            describe(*accepted, "ticket " + std::to_string(tickets[*accepted].ticket) + " is in flight already")};
  });
}

quire_code poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count,
                quire_error* /*err*/) {
  *count = instance->mailbox.receive(timeout_ns, {items, capacity});
  return QUIRE_OK;
}

quire_code cancel(quire_connector_instance* instance, uint64_t ticket, quire_error* err) {
  return guarded(err, [&]() -> Outcome {
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
  give(health, own);
  return QUIRE_OK;
}

quire_code list(quire_connector_instance* instance, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count,
                uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  *count = 0;
  return guarded(err, [&]() -> Outcome {
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

constexpr quire_manifest kManifest = {
    QUIRE_MODULE_MAGIC,
    sizeof(quire_manifest),
    QUIRE_MODULE_CONNECTOR,
    QUIRE_CONNECTOR_ABI_VERSION,
    "file",
    "0.2.0",
    QUIRE_MODULE_SANITIZERS,
    &kApi,
    nullptr,
};

}  // namespace
}  // namespace quire::file

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  if (query->abi_min > QUIRE_CONNECTOR_ABI_VERSION || query->abi_max < QUIRE_CONNECTOR_ABI_VERSION) {
    return quire::plugins::fail(err, "file", QUIRE_INCOMPATIBLE_ABI, "the file connector implements connector ABI 0.%u only",
                                QUIRE_CONNECTOR_ABI_VERSION & 0xffff);
  }
  *out = &quire::file::kManifest;
  return QUIRE_OK;
}
