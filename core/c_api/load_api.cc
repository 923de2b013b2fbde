// quire/load.h
#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;

quire_code quire_load_begin(quire_cache* cache, const quire_reserve_entry* entry, const quire_symbol* symbols, uint64_t num_symbols,
                            quire_reserve_result* result, quire_step_id* step, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_cache(cache));
    const c_api::Alone entered(cache);
    QUIRE_RETURN_IF_ERROR(entered.check("cache"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(entry, "entry"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(result, "result"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(step, "step"));
    quire::StepId id;
    QUIRE_RETURN_IF_ERROR(cache->object->load_begin(*entry, {symbols, num_symbols}, result, &id));
    *step = id.value;
    return {};
  });
}

quire_code quire_load_end(quire_cache* cache, quire_step_id step, const quire_load_failure* failures, uint64_t n, uint64_t* committed,
                          quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_cache(cache));
    const c_api::Alone entered(cache);
    QUIRE_RETURN_IF_ERROR(entered.check("cache"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(failures, n, "failures"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(committed, "committed"));
    return cache->object->load_end(quire::StepId(step), {failures, n}, committed);
  });
}
