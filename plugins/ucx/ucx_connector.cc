// The ucx connector: reads the bytes of other processes, and gives its own. The table, and the way from entries to the instance.
#include <quire/connector.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/note.h"
#include "plugins/common/entry.h"
#include "plugins/common/module.h"
#include "plugins/common/tickets.h"
#include "plugins/ucx/ucx_config.h"
#include "plugins/ucx/ucx_instance.h"
#include "plugins/ucx/ucx_log.h"

QUIRE_CONNECTOR_NOTE("ucx");

struct quire_connector_instance {
  std::unique_ptr<quire::ucx::Instance> own;
};

namespace quire::ucx {
namespace {

constexpr char kName[] = "ucx";

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

quire_code info(quire_connector_instance* instance, quire_connector_info* info, quire_error* /*err*/) {
  plugins::give(info, instance->own->info());
  return QUIRE_OK;
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
                                      nullptr};

constexpr quire_manifest kManifest = plugins::manifest_of(kName, &kApi);

}  // namespace
}  // namespace quire::ucx

quire_code quire_connector_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  quire::ucx::give_signals_back();
  return quire::plugins::answer(*query, quire::ucx::kManifest, out, err);
}
