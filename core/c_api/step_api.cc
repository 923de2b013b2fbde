// quire/step.h
#include <array>
#include <cinttypes>
#include <cstdio>
#include <span>

#include "core/c_api/handles.h"
#include "core/step/refusal.h"

namespace c_api = quire::c_api;
using c_api::with_cache;
using quire::Status;

namespace {

quire::StepId step_of(quire_step_id id) { return quire::StepId(id); }

Status read_fill(const quire_fill* fill, quire_fill* own, const char* name) {
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(fill, own, name));
  if (own->destination != nullptr || own->capacity == 0) return {};
  std::array<char, 48> field{};
  (void)std::snprintf(field.data(), field.size(), "%s.destination", name);
  return c_api::check_array(own->destination, own->capacity, field.data());
}

Status read_fills(const quire_fill* fills, uint64_t stride, uint64_t n, std::span<quire_fill, QUIRE_MAX_FILLS> own) {
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(fills, "fills"));
  QUIRE_RETURN_IF_ERROR(c_api::check_stride(stride, c_api::kFirstBytes<quire_fill>));
  if (n == 0 || n > own.size()) return quire::invalid("n is %" PRIu64 ", the limits are 1 and %zu", n, own.size());
  const auto* bytes = reinterpret_cast<const unsigned char*>(fills);
  for (uint64_t i = 0; i < n; ++i) {
    std::array<char, 32> name{};
    (void)std::snprintf(name.data(), name.size(), "fills[%" PRIu64 "]", i);
    const auto* fill = reinterpret_cast<const quire_fill*>(bytes + i * stride);
    if (fill->struct_size > stride) {
      return quire::invalid("%s.struct_size is %u, the stride is %" PRIu64, name.data(), fill->struct_size, stride);
    }
    QUIRE_RETURN_IF_ERROR(read_fill(fill, &own[i], name.data()));
  }
  return {};
}

}  // namespace

quire_str quire_refusal_text(quire_refusal reason) {
  const std::string_view text = quire::refusal_text(reason);
  return {text.data(), text.size()};
}

quire_code quire_reserve(quire_cache* cache, const quire_reserve_entry* entries, uint64_t n, const quire_symbol* symbols,
                         uint64_t num_symbols, quire_reserve_result* results, quire_step_id* step, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(entries, n, "entries"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(results, n, "results"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(step, "step"));
    quire::StepId id;
    QUIRE_RETURN_IF_ERROR(object.reserve({entries, n}, {symbols, num_symbols}, {results, n}, &id));
    *step = id.value;
    return {};
  });
}

quire_code quire_commit(quire_cache* cache, quire_step_id step, const quire_commit_entry* entries, uint64_t n, const quire_symbol* symbols,
                        uint64_t num_symbols, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(entries, n, "entries"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    return object.commit(step_of(step), {entries, n}, {symbols, num_symbols});
  });
}

quire_code quire_abort(quire_cache* cache, quire_step_id step, uint32_t flags, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_flags(flags, QUIRE_ABORT_NOT_LAUNCHED, "flags"));
    return object.abort(step_of(step), (flags & QUIRE_ABORT_NOT_LAUNCHED) != 0);
  });
}

quire_code quire_step_get_info(quire_cache* cache, quire_step_id step, quire_step_info* info, quire_error* err) {
  return c_api::with_steps(cache, err, [&](quire::StepReader& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_step_info own{};
    own.struct_size = sizeof own;
    QUIRE_RETURN_IF_ERROR(object.step_info(step_of(step), &own));
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_step_fill(quire_cache* cache, quire_step_id step, const quire_fill* fills, uint64_t stride, uint64_t n, uint64_t* written,
                           quire_error* err) {
  return c_api::with_steps(cache, err, [&](quire::StepReader& object) -> Status {
    std::array<quire_fill, QUIRE_MAX_FILLS> own;
    QUIRE_RETURN_IF_ERROR(read_fills(fills, stride, n, own));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(written, "written"));
    return object.step_fill(step_of(step), std::span(own).first(n), written);
  });
}

quire_code quire_step_list_copies(quire_cache* cache, quire_step_id step, quire_copy* items, uint64_t capacity, uint64_t* count,
                                  quire_error* err) {
  return c_api::with_steps(cache, err, [&](quire::StepReader& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    auto copies = object.step_copies(step_of(step));
    if (!copies.ok()) return copies.take_status();
    return c_api::write_two_call(*copies, items, capacity, count);
  });
}

quire_code quire_step_list_zeroes(quire_cache* cache, quire_step_id step, quire_zero* items, uint64_t capacity, uint64_t* count,
                                  quire_error* err) {
  return c_api::with_steps(cache, err, [&](quire::StepReader& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    auto zeroes = object.step_zeroes(step_of(step));
    if (!zeroes.ok()) return zeroes.take_status();
    return c_api::write_two_call(*zeroes, items, capacity, count);
  });
}

quire_code quire_step_export(quire_cache* cache, quire_step_id step, void* bytes, uint64_t capacity, uint64_t* size, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(bytes, capacity, "bytes"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(size, "size"));
    return object.step_export(step_of(step), {static_cast<uint8_t*>(bytes), bytes == nullptr ? 0 : capacity}, size);
  });
}

quire_code quire_step_import(quire_cache* cache, const void* bytes, uint64_t size, quire_step_id* step, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(cache, "cache"));
    const c_api::Alone entered(cache);
    QUIRE_RETURN_IF_ERROR(entered.check("cache"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(bytes, "bytes"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(step, "step"));
    if (cache->follower == nullptr) {
      return quire::fail(QUIRE_FAILED_PRECONDITION, "cache makes its own steps: only one with QUIRE_CACHE_FOLLOWER imports any");
    }
    quire::StepId id;
    QUIRE_RETURN_IF_ERROR(cache->follower->step_import({static_cast<const uint8_t*>(bytes), size}, &id));
    *step = id.value;
    return {};
  });
}
