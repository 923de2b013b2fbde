// quire/load.h
#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;

quire_code quire_load_begin(quire_cache* cache, const quire_reserve_entry* entry, const quire_symbol* symbols, uint64_t num_symbols,
                            quire_reserve_result* result, quire_step* step, quire_error* err) {
  return c_api::with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(entry, "entry"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(result, "result"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(step, "step"));
    quire::StepId id;
    QUIRE_RETURN_IF_ERROR(object.load_begin(*entry, {symbols, num_symbols}, result, &id));
    *step = c_api::step_of(cache, id);
    return {};
  });
}

quire_code quire_load_get_have(quire_step load, uint64_t* have_tokens, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::with_cache_step(load, err, [&](quire::Cache& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(count, "count"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(have_tokens, capacity, "have_tokens"));
    return object.load_have(id, {have_tokens, capacity}, count);
  });
}

quire_code quire_load_end(quire_step load, const quire_load_failure* failures, uint64_t n, uint64_t* committed, quire_hold_id* late,
                          quire_error* err) {
  return c_api::with_cache_step(load, err, [&](quire::Cache& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(failures, n, "failures"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(committed, "committed"));
    return object.load_end(id, {failures, n}, committed, late);
  });
}
