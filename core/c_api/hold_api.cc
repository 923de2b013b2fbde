// quire/hold.h
#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using c_api::with_cache;
using quire::Status;

namespace {

// Runs a body that takes units, or says which.
template <typename Body>
quire_code with_units(quire_cache* cache, quire_error* err, Body&& body) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    const c_api::Exclusive::Use use = cache->units.use();
    if (!use) return quire::fail(QUIRE_FAILED_PRECONDITION, "cache: its units are taken by its tiers");
    return body(object);
  });
}

}  // namespace

quire_code quire_hold_begin(quire_cache* cache, quire_sequence_id sequence, uint64_t first_token, uint64_t end_token, quire_hold_id* out,
                            quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    auto hold = object.hold_begin(quire::SequenceId(sequence), first_token, end_token);
    if (!hold.ok()) return hold.take_status();
    *out = *hold;
    return {};
  });
}

quire_code quire_hold_end(quire_cache* cache, quire_hold_id hold, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) { return object.hold_end(hold); });
}

quire_code quire_hold_get_info(quire_cache* cache, quire_hold_id hold, quire_hold_info* info, quire_error* err) {
  return with_cache(cache, err, [&](const quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_hold_info own{};
    QUIRE_RETURN_IF_ERROR(object.hold_info(hold, &own));
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_hold_list_ids(quire_cache* cache, quire_hold_id hold, uint32_t group, int32_t* ids, uint64_t capacity, uint64_t* count,
                               quire_error* err) {
  return with_cache(cache, err, [&](const quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(count, "count"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(ids, capacity, "ids"));
    return object.hold_ids(hold, group, {ids, capacity}, count);
  });
}

quire_code quire_cache_watch_units(quire_cache* cache, const quire_unit_options* options, quire_error* err) {
  return with_units(cache, err, [&](quire::Cache& object) -> Status {
    if (options == nullptr) return object.watch_units(nullptr);
    quire_unit_options own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
    return object.watch_units(&own);
  });
}

quire_code quire_cache_take_units(quire_cache* cache, quire_unit* items, uint64_t capacity, uint64_t* count, quire_error* err) {
  return with_units(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(count, "count"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(items, capacity, "items"));
    *count = object.take_units({items, capacity});
    return {};
  });
}

quire_code quire_prefix_digests(quire_cache* cache, const quire_identity* identity, const quire_symbol* symbols, uint64_t num_symbols,
                                const uint64_t* ends, uint64_t n, uint8_t* digests, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(cache, "cache"));
    quire_identity who{};
    QUIRE_RETURN_IF_ERROR(c_api::read_identity(identity, &who));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(ends, n, "ends"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(digests, n, "digests"));
    return cache->object->prefix_digests(&who, {symbols, num_symbols}, {ends, n}, digests);
  });
}
