#include "tests/unit/connector/scripted_connector.h"

#include "drivers/common/note.h"

namespace quire::test {
namespace {

quire_code answer(quire_error* err, quire_code code) {
  if (code != QUIRE_OK) std::strcpy(err->message, "scripted");
  return code;
}

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  if (options->config.len != 2) {
    std::strcpy(err->message, "config is not '{}'");
    return QUIRE_INVALID_ARGUMENT;
  }
  static int instance;
  *out = script().opens_nothing ? nullptr : reinterpret_cast<quire_connector_instance*>(&instance);
  return QUIRE_OK;
}

void close(quire_connector_instance*) { ++script().closes; }

quire_code info(quire_connector_instance*, quire_connector_info* info, quire_error* err) {
  return answer(err, script().info ? script().info(info) : QUIRE_OK);
}

quire_code region_register(quire_connector_instance*, void*, uint64_t, quire_device_type, int32_t, uint64_t* region, quire_error* err) {
  *region = ++script().regions;
  return answer(err, script().region_register ? script().region_register(region) : QUIRE_OK);
}

quire_code region_unregister(quire_connector_instance*, uint64_t region, quire_error* err) {
  return answer(err, script().region_unregister ? script().region_unregister(region) : QUIRE_OK);
}

quire_code submit(quire_connector_instance*, const quire_ticket*, uint64_t n, const quire_ticket_run*, uint64_t, const uint8_t*, uint64_t,
                  uint64_t* accepted, quire_error* err) {
  *accepted = n;
  return answer(err, script().submit ? script().submit(n, accepted) : QUIRE_OK);
}

quire_code poll(quire_connector_instance*, int64_t, quire_completion* items, uint64_t capacity, uint64_t* count, quire_error* err) {
  *count = 0;
  return answer(err, script().poll ? script().poll({items, capacity}, count) : QUIRE_OK);
}

quire_code cancel(quire_connector_instance*, uint64_t ticket, quire_error* err) {
  return answer(err, script().cancel ? script().cancel(ticket) : QUIRE_OK);
}

quire_code get_fd(quire_connector_instance*, int32_t* fd, quire_error* err) {
  return answer(err, script().fd ? script().fd(fd) : QUIRE_OK);
}

quire_code health(quire_connector_instance*, quire_connector_health* health, quire_error* err) {
  return answer(err, script().health ? script().health(health) : QUIRE_OK);
}

quire_code list(quire_connector_instance*, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count, uint8_t*,
                uint64_t, quire_error* err) {
  *cursor = *count = 0;
  return answer(err, script().list ? script().list(cursor, {items, capacity}, count) : QUIRE_OK);
}

const quire_connector_api kWhole = {
    sizeof(quire_connector_api), 0, open, close, info, region_register, region_unregister, submit, poll, cancel, get_fd, health, list};
const quire_connector_api kLeast = {
    sizeof(quire_connector_api), 0, open, close, info, nullptr, nullptr, submit, poll, nullptr, nullptr, nullptr, nullptr};

quire_manifest manifest_of(const char* name, const quire_connector_api* api) {
  quire_manifest manifest{};
  manifest.magic = QUIRE_MODULE_MAGIC;
  manifest.struct_size = sizeof manifest;
  manifest.kind = QUIRE_MODULE_CONNECTOR;
  manifest.abi_version = QUIRE_CONNECTOR_ABI_VERSION;
  std::strcpy(manifest.name, name);
  std::strcpy(manifest.version, "1");
  manifest.sanitizers = QUIRE_MODULE_SANITIZERS;
  manifest.api = api;
  return manifest;
}

quire_code least_query(const quire_query*, const quire_manifest** out, quire_error*) {
  static const quire_manifest manifest = manifest_of("least", &kLeast);
  *out = &manifest;
  return QUIRE_OK;
}

}  // namespace

quire_code scripted_query(const quire_query*, const quire_manifest** out, quire_error*) {
  static const quire_manifest manifest = manifest_of("scripted", &kWhole);
  *out = &manifest;
  return QUIRE_OK;
}

Result<std::unique_ptr<Connector>> try_scripted(const std::string& name, const Script& wanted, std::string_view config) {
  static const bool registered =
      register_module(ModuleKind::kConnector, &scripted_query).ok() && register_module(ModuleKind::kConnector, &least_query).ok();
  EXPECT_TRUE(registered);
  script() = wanted;
  return Connector::open(make_runtime(), name, config);
}

Connected open_scripted(const Script& wanted) {
  auto connector = try_scripted("scripted", wanted);
  EXPECT_TRUE(connector.ok()) << connector.status().message();
  return connector.ok() ? std::move(*connector) : nullptr;
}

}  // namespace quire::test
