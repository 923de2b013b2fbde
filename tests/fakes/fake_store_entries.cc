// The entries of the connector "fake_store".
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/note.h"
#include "tests/fakes/fake_store_impl.h"

namespace quire::test {
namespace {

using Lock = std::unique_lock<std::mutex>;

quire_code answer(quire_error* err, quire_code code, const std::string& message) {
  if (err == nullptr || err->struct_size < sizeof *err) return code;
  err->code = code;
  std::snprintf(err->source, sizeof err->source, "connector:fake_store");
  std::snprintf(err->message, sizeof err->message, "%s", message.c_str());
  return code;
}

quire_code told_to_fail(quire_error* err, quire_code code) { return answer(err, code, "the test wants it so"); }

StoreInstance* of(quire_connector_instance* instance) { return reinterpret_cast<StoreInstance*>(instance); }

// Writes as much of an info struct as its caller knows.
template <typename T>
void write_info(T* to, T own) {
  own.struct_size = std::min<uint32_t>(to->struct_size, sizeof own);
  std::memcpy(to, &own, own.struct_size);
}

quire_code open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  const std::string_view config(options->config.data, options->config.len);
  FakeStore::Impl* const store = find_store(config);
  if (store == nullptr) return answer(err, QUIRE_INVALID_ARGUMENT, "config: there is no store " + std::string(config));
  const Lock hold(store->lock);
  quire_code code = QUIRE_OK;
  if (store->fails(StoreCall::kOpen, &code)) return told_to_fail(err, code);
  auto instance = std::make_unique<StoreInstance>();
  instance->store = store;
  instance->host = options->host;
  instance->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (instance->event < 0) return answer(err, QUIRE_RESOURCE_EXHAUSTED, "no eventfd");
  store->instances.insert(instance.get());
  *out = reinterpret_cast<quire_connector_instance*>(instance.release());
  return QUIRE_OK;
}

void close(quire_connector_instance* instance) {
  const std::unique_ptr<StoreInstance> own(of(instance));
  const Lock hold(own->store->lock);
  own->store->counts.closed_over += own->by_number.size();
  if (own->polling) own->store->violate("closed while a thread polls");
  own->store->instances.erase(own.get());
  ::close(own->event);
}

quire_code info(quire_connector_instance* instance, quire_connector_info* info, quire_error*) {
  const Lock hold(of(instance)->store->lock);
  const FakeStoreOptions& options = of(instance)->store->options;
  quire_connector_info own{};
  own.flags = options.flags;
  own.max_in_flight = options.max_in_flight;
  own.alignment = options.alignment;
  own.max_key_bytes = options.max_key_bytes;
  own.device_types = uint64_t{1} << QUIRE_DEVICE_CPU;
  own.max_object_bytes = options.max_object_bytes;
  own.best_object_bytes = options.best_object_bytes;
  write_info(info, own);
  return QUIRE_OK;
}

quire_code region_register(quire_connector_instance* instance, void* address, uint64_t bytes, quire_device_type, int32_t, uint64_t* region,
                           quire_error* err) {
  const Lock hold(of(instance)->store->lock);
  quire_code code = QUIRE_OK;
  if (of(instance)->store->fails(StoreCall::kRegister, &code)) return told_to_fail(err, code);
  *region = of(instance)->next_region++;
  of(instance)->regions[*region] = {reinterpret_cast<uintptr_t>(address), bytes};
  return QUIRE_OK;
}

quire_code region_unregister(quire_connector_instance* instance, uint64_t region, quire_error* err) {
  StoreInstance* const own = of(instance);
  const Lock hold(own->store->lock);
  quire_code code = QUIRE_OK;
  if (own->store->fails(StoreCall::kUnregister, &code)) return told_to_fail(err, code);
  for (const auto& each : own->tickets) {
    const auto& runs = each.second.runs;
    if (std::any_of(runs.begin(), runs.end(), [&](const quire_ticket_run& run) { return run.region == region; })) {
      own->store->violate("region " + std::to_string(region) + " ends while ticket " + std::to_string(each.second.ticket.ticket) +
                          " uses it");
    }
  }
  if (own->regions.erase(region) == 0) return answer(err, QUIRE_NOT_FOUND, "no such region");
  return QUIRE_OK;
}

quire_code submit(quire_connector_instance* instance, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                  uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  FakeStore::Impl* const store = of(instance)->store;
  const Lock hold(store->lock);
  ++store->counts.submits;
  *accepted = 0;
  quire_code code = QUIRE_OK;
  if (store->fails(StoreCall::kSubmit, &code)) return told_to_fail(err, code);
  const FakeStore::Impl::Arrays arrays{tickets, n, runs, num_runs, keys, num_key_bytes};
  if (!store->inspect(*of(instance), arrays)) return answer(err, QUIRE_INVALID_ARGUMENT, store->violations.back());
  uint64_t most = n;
  if (!store->next_accepts.empty()) {
    most = std::min(n, store->next_accepts.front().first);
    code = store->next_accepts.front().second;
    store->next_accepts.pop_front();
  }
  *accepted = store->submit(of(instance), arrays, most);
  return code == QUIRE_OK ? code : told_to_fail(err, code);
}

quire_code poll(quire_connector_instance* instance, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count,
                quire_error* err) {
  FakeStore::Impl* const store = of(instance)->store;
  Lock hold(store->lock);
  ++store->counts.polls;
  quire_code code = QUIRE_OK;
  if (store->fails(StoreCall::kPoll, &code)) return told_to_fail(err, code);
  if (of(instance)->polling) store->violate("two threads poll");
  of(instance)->polling = true;
  *count = store->poll(of(instance), timeout_ns, {items, capacity}, &hold);
  of(instance)->polling = false;
  return QUIRE_OK;
}

quire_code cancel(quire_connector_instance* instance, uint64_t ticket, quire_error* err) {
  FakeStore::Impl* const store = of(instance)->store;
  const Lock hold(store->lock);
  ++store->counts.cancels;
  quire_code code = QUIRE_OK;
  if (store->fails(StoreCall::kCancel, &code)) return told_to_fail(err, code);
  const auto number = of(instance)->by_number.find(ticket);
  const auto found = number == of(instance)->by_number.end() ? of(instance)->tickets.end() : of(instance)->tickets.find(number->second);
  if (found == of(instance)->tickets.end()) return answer(err, QUIRE_NOT_FOUND, "no such ticket");
  found->second.cancelled = true;
  store->advance(of(instance), false);
  return QUIRE_OK;
}

quire_code get_fd(quire_connector_instance* instance, int32_t* fd, quire_error* err) {
  const Lock hold(of(instance)->store->lock);
  quire_code code = QUIRE_OK;
  if (of(instance)->store->fails(StoreCall::kFd, &code)) return told_to_fail(err, code);
  *fd = of(instance)->event;
  return QUIRE_OK;
}

quire_code health(quire_connector_instance* instance, quire_connector_health* health, quire_error* err) {
  FakeStore::Impl* const store = of(instance)->store;
  const Lock hold(store->lock);
  quire_code code = QUIRE_OK;
  if (store->fails(StoreCall::kHealth, &code)) return told_to_fail(err, code);
  quire_connector_health own{};
  own.state = store->state;
  own.capacity_bytes = store->options.capacity_bytes;
  own.used_bytes = store->used_bytes;
  own.num_objects = store->objects.size();
  own.num_evicted = store->counts.evicted;
  write_info(health, own);
  return QUIRE_OK;
}

quire_code list(quire_connector_instance* instance, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count,
                uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  FakeStore::Impl* const store = of(instance)->store;
  const Lock hold(store->lock);
  quire_code code = QUIRE_OK;
  if (store->fails(StoreCall::kList, &code)) return told_to_fail(err, code);
  std::map<uint64_t, decltype(store->objects)::const_iterator> left;  // by serial number: what comes later stands behind
  for (auto each = store->objects.cbegin(); each != store->objects.cend(); ++each) {
    if (each->second.serial > *cursor) left[each->second.serial] = each;
  }
  uint64_t n = 0;
  uint64_t used = 0;
  uint64_t next = 0;
  for (const auto& [serial, object] : left) {
    const std::string& key = object->first;
    if (n == capacity || key.size() > num_key_bytes - used) break;
    std::copy(key.begin(), key.end(), keys + used);
    items[n++] = {used, key.size(), object->second.bytes.size(), 0};
    used += key.size();
    next = serial;
  }
  if (n == 0 && !left.empty())
    return answer(err, QUIRE_OUT_OF_RANGE, "the next key has " + std::to_string(left.begin()->second->first.size()) + " bytes");
  *cursor = n == left.size() ? 0 : next;
  *count = n;
  return QUIRE_OK;
}

}  // namespace

quire_code fake_store_query(const quire_query* query, const quire_manifest** out, quire_error* err) {
  static const quire_connector_api api = {
      sizeof(quire_connector_api), 0, open, close, info, region_register, region_unregister, submit, poll, cancel, get_fd, health, list};
  static const quire_manifest manifest = {QUIRE_MODULE_MAGIC,
                                          sizeof(quire_manifest),
                                          QUIRE_MODULE_CONNECTOR,
                                          QUIRE_CONNECTOR_ABI_VERSION,
                                          "fake_store",
                                          "1",
                                          QUIRE_MODULE_SANITIZERS,
                                          &api,
                                          nullptr};
  if (query->abi_min > QUIRE_CONNECTOR_ABI_VERSION || query->abi_max < QUIRE_CONNECTOR_ABI_VERSION) {
    return answer(err, QUIRE_INCOMPATIBLE_ABI, "connector ABI 0.3 only");
  }
  *out = &manifest;
  return QUIRE_OK;
}

}  // namespace quire::test
