// The redis connector: keeps objects in servers that speak the protocol of Redis. The table, and the way from entries to the instance.
#include <quire/connector.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/note.h"
#include "plugins/common/entry.h"
#include "plugins/common/module.h"
#include "plugins/common/tickets.h"
#include "plugins/redis/redis_config.h"
#include "plugins/redis/redis_instance.h"

QUIRE_CONNECTOR_NOTE("redis");

struct quire_connector_instance {
  std::unique_ptr<quire::redis::Instance> own;
};

namespace quire::redis {
namespace {

constexpr char kName[] = "redis";

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  return plugins::guarded(err, kName, [&]() -> Outcome {
    Config config;
    const std::string_view json(options->config.data, options->config.data != nullptr ? options->config.len : 0);
    if (Outcome outcome = read_config(json, &config); !outcome.ok()) return outcome;
    auto instance = std::make_unique<quire_connector_instance>();
    Outcome outcome = Instance::open(*options->host, std::move(config), &instance->own);
    if (outcome.ok()) *out = instance.release();
    return outcome;
  });
}

void close(quire_connector_instance* instance) {
  if (!instance->own->leave_in_child()) delete instance;
}

quire_code info(quire_connector_instance* /*instance*/, quire_connector_info* info, quire_error* /*err*/) {
  plugins::give(info, Instance::info());
  return QUIRE_OK;
}

quire_code list(quire_connector_instance* instance, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count,
                uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  *count = 0;
  return plugins::guarded(err, kName, [&] {
    return instance->own->listing().next(cursor, {items, capacity}, count, {keys, num_key_bytes});
  });
}

// Runs name addresses; nothing has to be registered.
constexpr quire_connector_api kApi = {sizeof(quire_connector_api),
                                      0,
                                      open,
                                      close,
                                      info,
                                      nullptr,
                                      nullptr,
                                      plugins::submit<kName, quire_connector_instance>,
                                      plugins::poll<quire_connector_instance>,
                                      plugins::cancel<kName, quire_connector_instance>,
                                      plugins::get_fd<quire_connector_instance>,
                                      plugins::health<quire_connector_instance>,
                                      list};

constexpr quire_manifest kManifest = plugins::manifest_of(kName, &kApi);

}  // namespace
}  // namespace quire::redis

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  return quire::plugins::answer(*query, quire::redis::kManifest, out, err);
}
