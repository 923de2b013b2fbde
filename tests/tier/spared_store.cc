#include "tests/tier/spared_store.h"

#include <cstdio>

#include "tests/fakes/fake_store.h"
#include "tests/unit/allocations.h"

namespace quire::test {
namespace {

const quire_connector_api* inner = nullptr;

class Spared {
 public:
  Spared() : was_armed_(armed.exchange(false)) {}
  ~Spared() { armed = was_armed_; }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  bool was_armed_;
};

quire_code submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                  uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  const Spared spared;
  return inner->submit(instance, tickets, n, runs, num_runs, keys, num_key_bytes, accepted, err);
}

quire_code poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count,
                quire_error* err) {
  const Spared spared;
  return inner->poll(instance, timeout_ns, items, capacity, count, err);
}

quire_code cancel(quire_connector_instance* instance, uint64_t ticket, quire_error* err) {
  const Spared spared;
  return inner->cancel(instance, ticket, err);
}

quire_code region_register(quire_connector_instance* instance, void* address, uint64_t bytes, quire_device_type type, int32_t device,
                           uint64_t* region, quire_error* err) {
  const Spared spared;
  return inner->region_register(instance, address, bytes, type, device, region, err);
}

quire_code region_unregister(quire_connector_instance* instance, uint64_t region, quire_error* err) {
  const Spared spared;
  return inner->region_unregister(instance, region, err);
}

}  // namespace

quire_code spared_store_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  static quire_connector_api api;
  static quire_manifest manifest;
  const quire_manifest* own = nullptr;
  const quire_code code = fake_store_query(query, &own, err);
  if (code != QUIRE_OK) return code;
  inner = static_cast<const quire_connector_api*>(own->api);
  api = *inner;
  api.submit = submit;
  api.poll = poll;
  api.cancel = cancel;
  api.region_register = region_register;
  api.region_unregister = region_unregister;
  manifest = *own;
  std::snprintf(manifest.name, sizeof manifest.name, "spared_store");
  manifest.api = &api;
  *out = &manifest;
  return QUIRE_OK;
}

}  // namespace quire::test
