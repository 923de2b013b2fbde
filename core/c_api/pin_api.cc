// quire/pin.h
#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using c_api::with_cache;
using quire::Status;

quire_code quire_pin(quire_cache* cache, const quire_identity* identity, const quire_symbol* symbols, uint64_t num_symbols,
                     const quire_pin_options* options, uint64_t* tokens, quire_pin_id* out, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    quire_identity who{};
    QUIRE_RETURN_IF_ERROR(c_api::read_identity(identity, &who));
    QUIRE_RETURN_IF_ERROR(c_api::check_flags(who.flags, 0, "identity.flags"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    quire_pin_options own{};
    own.struct_size = sizeof own;
    if (options != nullptr) QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(tokens, "tokens"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    auto pin = object.pin(&who, {symbols, num_symbols}, own, tokens);
    if (!pin.ok()) return pin.take_status();
    *out = *pin;
    return {};
  });
}

quire_code quire_unpin(quire_cache* cache, quire_pin_id pin, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) { return object.unpin(pin); });
}

quire_code quire_pin_get_info(quire_cache* cache, quire_pin_id pin, quire_pin_info* info, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_pin_info own{};
    QUIRE_RETURN_IF_ERROR(object.pin_info(pin, &own));
    c_api::write_info(info, own);
    return {};
  });
}
