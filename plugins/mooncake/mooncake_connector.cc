// The mooncake connector: keeps objects in a store of Mooncake. The table, and the way from entries to the instance.
#include <quire/connector.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/note.h"
#include "plugins/common/entry.h"
#include "plugins/common/module.h"
#include "plugins/mooncake/config.h"
#include "plugins/mooncake/instance.h"

QUIRE_CONNECTOR_NOTE("mooncake");

struct quire_connector_instance {
  std::unique_ptr<quire::mooncake::Instance> own;
};

namespace quire::mooncake {
namespace {

constexpr char kName[] = "mooncake";

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  return plugins::guarded(err, kName, [&]() -> Outcome {
    Config config;
    const std::string_view json(options->config.data, options->config.data != nullptr ? options->config.len : 0);
    if (Outcome outcome = read_config(json, &config); !outcome.ok()) return outcome;
    auto instance = std::make_unique<quire_connector_instance>();
    Outcome outcome = Instance::open(*options->host, config, &instance->own);
    if (outcome.ok()) *out = instance.release();
    return outcome;
  });
}

void close(quire_connector_instance* instance) {
  if (!instance->own->leave_in_child()) delete instance;
}

quire_code info(quire_connector_instance* instance, quire_connector_info* info, quire_error* /*err*/) {
  plugins::give(info, instance->own->info());
  return QUIRE_OK;
}

// The library has checked tickets, runs and keys.
quire_code submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                  uint64_t /*num_runs*/, const uint8_t* keys, uint64_t /*num_key_bytes*/, uint64_t* accepted, quire_error* err) {
  *accepted = 0;
  return plugins::guarded(err, kName, [&]() -> Outcome {
    if (instance->own->tickets().submit({tickets, n}, runs, keys, accepted)) return {};
    return {QUIRE_INVALID_ARGUMENT, 0,
            "tickets[" + std::to_string(*accepted) + "].ticket is " + std::to_string(tickets[*accepted].ticket) + ", which is in flight"};
  });
}

quire_code poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count,
                quire_error* /*err*/) {
  *count = instance->own->tickets().poll(timeout_ns, {items, capacity});
  return QUIRE_OK;
}

quire_code cancel(quire_connector_instance* instance, uint64_t ticket, quire_error* err) {
  if (instance->own->tickets().cancel(ticket)) return QUIRE_OK;
  return plugins::fail(err, kName, QUIRE_NOT_FOUND, "ticket %llu is not in flight", static_cast<unsigned long long>(ticket));
}

quire_code get_fd(quire_connector_instance* instance, int32_t* fd, quire_error* /*err*/) {
  *fd = instance->own->tickets().fd();
  return QUIRE_OK;
}

quire_code health(quire_connector_instance* instance, quire_connector_health* health, quire_error* /*err*/) {
  plugins::give(health, instance->own->health());
  return QUIRE_OK;
}

// Runs name addresses; nothing has to be registered. Mooncake's C library cannot list.
constexpr quire_connector_api kApi = {
    sizeof(quire_connector_api), 0, open, close, info, nullptr, nullptr, submit, poll, cancel, get_fd, health, nullptr};

constexpr quire_manifest kManifest = plugins::manifest_of(kName, &kApi);

}  // namespace
}  // namespace quire::mooncake

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  return quire::plugins::answer(*query, quire::mooncake::kManifest, out, err);
}
