// The host connector: keeps objects in host memory, of the process or of a node. The table, and the way from entries to the instance.
#include <quire/connector.h>

#include <memory>
#include <string_view>
#include <utility>

#include "common/note.h"
#include "plugins/common/entry.h"
#include "plugins/common/module.h"
#include "plugins/common/tickets.h"
#include "plugins/host/host_instance.h"

QUIRE_CONNECTOR_NOTE("host");

struct quire_connector_instance {
  std::unique_ptr<quire::host::Instance> own;
};

namespace quire::host {
namespace {

constexpr char kName[] = "host";

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  return plugins::guarded(err, kName, [&]() -> Outcome {
    InstanceOptions wanted;
    const std::string wrong = read_options({options->config.data, options->config.len}, &wanted);
    if (!wrong.empty()) return {QUIRE_INVALID_ARGUMENT, 0, wrong};
    auto instance = std::make_unique<quire_connector_instance>();
    Outcome outcome = Instance::open(*options->host, wanted, &instance->own);
    if (outcome.ok()) *out = instance.release();
    return outcome;
  });
}

void close(quire_connector_instance* instance) { delete instance; }

quire_code info(quire_connector_instance* instance, quire_connector_info* info, quire_error* /*err*/) {
  plugins::give(info, instance->own->info());
  return QUIRE_OK;
}

quire_code submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                  uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  *accepted = 0;
  return plugins::guarded(err, kName, [&] {
    return instance->own->submit({tickets, n}, {runs, num_runs}, {keys, num_key_bytes}, accepted);
  });
}

quire_code list(quire_connector_instance* instance, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count,
                uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  return plugins::guarded(err, kName, [&] { return instance->own->list(cursor, {items, capacity}, count, {keys, num_key_bytes}); });
}

// Runs name addresses; nothing has to be registered.
constexpr quire_connector_api kApi = {sizeof(quire_connector_api),
                                      0,
                                      open,
                                      close,
                                      info,
                                      nullptr,
                                      nullptr,
                                      submit,
                                      plugins::poll<quire_connector_instance>,
                                      plugins::cancel<kName, quire_connector_instance>,
                                      plugins::get_fd<quire_connector_instance>,
                                      plugins::health<quire_connector_instance>,
                                      list};

constexpr quire_manifest kManifest = plugins::manifest_of(kName, &kApi);

}  // namespace
}  // namespace quire::host

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  return quire::plugins::answer(*query, quire::host::kManifest, out, err);
}
