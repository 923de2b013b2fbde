// The engine's side of quire/connector.h.
#include <cinttypes>

#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxNameBytes = 4096;
constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
constexpr int32_t kDeviceTypes = 64;  // as many as quire_connector_info.device_types has bits for

template <typename Body>
quire_code with_connector(quire_connector* connector, quire_error* err, Body&& body) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(connector, "connector"));
    return body(*connector->object);
  });
}

// The same for its tickets.
template <typename Body>
quire_code with_tickets(quire_connector* connector, quire_error* err, Body&& body) {
  return with_connector(connector, err, [&](quire::Connector& object) -> Status {
    const c_api::Exclusive::Use use = connector->tickets.use();
    if (!use) return quire::fail(QUIRE_FAILED_PRECONDITION, "connector: tiers use it");
    return body(object);
  });
}

}  // namespace

quire_code quire_register_connector(quire_module_query_fn query, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    if (query == nullptr) return quire::invalid("query is NULL");
    return quire::register_module(quire::ModuleKind::kConnector, query);
  });
}

quire_code quire_connector_open(quire_runtime* runtime, quire_str name, quire_str config, quire_connector** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(runtime, "runtime"));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(name, "name", kMaxNameBytes));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(config, "config", kMaxConfigBytes));
    auto made = quire::Connector::open(runtime->object, std::string(c_api::text_of(name)), c_api::text_of(config));
    if (!made.ok()) return made.take_status();
    *out = new quire_connector(std::move(*made));
    return {};
  });
}

quire_connector* quire_connector_retain(quire_connector* connector) { return c_api::retain(connector); }

void quire_connector_release(quire_connector* connector) { c_api::release(connector); }

quire_code quire_connector_get_info(quire_connector* connector, quire_connector_info* info, quire_error* err) {
  return with_connector(connector, err, [&](const quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    c_api::write_info(info, object.info());
    return {};
  });
}

quire_code quire_connector_get_stats(quire_connector* connector, quire_connector_stats* stats, quire_error* err) {
  return with_connector(connector, err, [&](const quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    c_api::write_info(stats, object.stats());
    return {};
  });
}

quire_code quire_connector_get_health(quire_connector* connector, quire_connector_health* health, quire_error* err) {
  return with_connector(connector, err, [&](quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(health, "health"));
    quire_connector_health own{};
    QUIRE_RETURN_IF_ERROR(object.read_health(&own));
    c_api::write_info(health, own);
    return {};
  });
}

quire_code quire_connector_get_fd(quire_connector* connector, int32_t* fd, quire_error* err) {
  return with_connector(connector, err, [&](quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(fd, "fd"));
    auto own = object.descriptor();
    if (!own.ok()) return own.take_status();
    *fd = *own;
    return {};
  });
}

quire_code quire_connector_submit(quire_connector* connector, const quire_ticket* tickets, uint64_t n, const quire_ticket_run* runs,
                                  uint64_t num_runs, const uint8_t* keys, uint64_t num_key_bytes, uint64_t* accepted, quire_error* err) {
  return with_tickets(connector, err, [&](quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(accepted, "accepted"));
    *accepted = 0;
    QUIRE_RETURN_IF_ERROR(c_api::check_array(tickets, n, "tickets"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(runs, num_runs, "runs"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(keys, num_key_bytes, "keys"));
    return object.submit({{tickets, n}, {runs, num_runs}, {keys, num_key_bytes}}, accepted);
  });
}

quire_code quire_connector_poll(quire_connector* connector, int64_t timeout_ns, quire_completion* items, uint64_t capacity, uint64_t* count,
                                quire_error* err) {
  return with_tickets(connector, err, [&](quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(count, "count"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(items, capacity, "items"));
    if (timeout_ns < -1) return quire::invalid("timeout_ns is %" PRId64 ", the smallest legal one is -1 (forever)", timeout_ns);
    return object.poll(timeout_ns, {items, capacity}, count);
  });
}

quire_code quire_connector_cancel(quire_connector* connector, uint64_t ticket, quire_error* err) {
  return with_tickets(connector, err, [&](quire::Connector& object) { return object.cancel(ticket); });
}

quire_code quire_connector_list(quire_connector* connector, uint64_t* cursor, quire_object_entry* items, uint64_t capacity, uint64_t* count,
                                uint8_t* keys, uint64_t num_key_bytes, quire_error* err) {
  return with_connector(connector, err, [&](quire::Connector& object) -> Status {
    const c_api::Alone entered(connector);
    QUIRE_RETURN_IF_ERROR(entered.check("connector"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(cursor, "cursor"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(count, "count"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(items, capacity, "items"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(keys, num_key_bytes, "keys"));
    return object.list(cursor, {items, capacity}, {keys, num_key_bytes}, count);
  });
}

quire_code quire_connector_register_region(quire_connector* connector, void* address, uint64_t bytes, int32_t device_type,
                                           int32_t device_id, uint64_t* region, quire_error* err) {
  return with_connector(connector, err, [&](quire::Connector& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(address, "address"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(region, "region"));
    if (bytes == 0) return quire::invalid("bytes is 0");
    if (device_type < 0 || device_type >= kDeviceTypes) return quire::invalid("device_type is %d, a QUIRE_DEVICE_* is wanted", device_type);
    if (device_id < 0) return quire::invalid("device_id is %d", device_id);
    auto made = object.register_region(address, bytes, device_type == 0 ? QUIRE_DEVICE_CPU : device_type, device_id);
    if (!made.ok()) return made.take_status();
    *region = *made;
    return {};
  });
}

quire_code quire_connector_unregister_region(quire_connector* connector, uint64_t region, quire_error* err) {
  return with_connector(connector, err, [&](quire::Connector& object) { return object.unregister_region(region); });
}
