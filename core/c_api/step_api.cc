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

constexpr uintptr_t kBatchAlignment = 16;

Status read_batch_options(const quire_batch_options* options, quire_batch_options* own) {
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, own, "options"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, QUIRE_BATCH_MAX_PITCH, "options.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_zero(own->reserved0, "options.reserved0"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own->memory, own->bytes, "options.memory"));
  for (const void* address : {static_cast<const void*>(own->memory), own->address}) {
    if (reinterpret_cast<uintptr_t>(address) % kBatchAlignment != 0) {
      return quire::invalid("options: %p is not aligned to %zu bytes", address, static_cast<size_t>(kBatchAlignment));
    }
  }
  return {};
}

// The caller's array of batches.
struct Batches {
  unsigned char* first;
  uint64_t stride;
  static void put(void* user, uint32_t group, const quire_batch& batch) {
    const auto* to = static_cast<const Batches*>(user);
    auto* out = reinterpret_cast<quire_batch*>(to->first + group * to->stride);
    out->struct_size = static_cast<uint32_t>(to->stride);
    c_api::write_info(out, batch);
  }
};

}  // namespace

Status c_api::find_owner(const quire_step& step, StepOwner* owner) {
  QUIRE_RETURN_IF_ERROR(check_pointer(step.owner, "step.owner"));
  uint32_t tag = 0;  // stands first in a handle
  std::memcpy(&tag, step.owner, sizeof tag);
  void* handle = const_cast<void*>(step.owner);
  if (tag == quire_cache::kOwnTag) {
    owner->cache = static_cast<quire_cache*>(handle);
  } else if (tag == quire_follower::kOwnTag) {
    owner->follower = static_cast<quire_follower*>(handle);
  } else {
    return quire::invalid(kChecked && tag == kReleasedTag ? "step.owner was released before" : "step.owner is not a cache or a follower");
  }
  return {};
}

quire_str quire_refusal_text(quire_refusal reason) {
  const std::string_view text = quire::refusal_text(reason);
  return {text.data(), text.size()};
}

quire_code quire_reserve(quire_cache* cache, const quire_reserve_entry* entries, uint64_t n, const quire_symbol* symbols,
                         uint64_t num_symbols, quire_reserve_result* results, quire_step* step, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(entries, n, "entries"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(results, n, "results"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(step, "step"));
    quire::StepId id;
    QUIRE_RETURN_IF_ERROR(object.reserve({entries, n}, {symbols, num_symbols}, {results, n}, &id));
    *step = c_api::step_of(cache, id);
    return {};
  });
}

quire_code quire_commit(quire_step step, const quire_commit_entry* entries, uint64_t n, const quire_symbol* symbols, uint64_t num_symbols,
                        quire_error* err) {
  return c_api::with_cache_step(step, err, [&](quire::Cache& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(entries, n, "entries"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    return object.commit(id, {entries, n}, {symbols, num_symbols});
  });
}

quire_code quire_abort(quire_step step, uint32_t flags, quire_error* err) {
  return c_api::with_cache_step(step, err, [&](quire::Cache& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_flags(flags, QUIRE_ABORT_NOT_LAUNCHED, "flags"));
    return object.abort(id, (flags & QUIRE_ABORT_NOT_LAUNCHED) != 0);
  });
}

quire_code quire_step_get_info(quire_step step, quire_step_info* info, quire_error* err) {
  return c_api::with_step(step, err, [&](quire::StepReader& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_step_info own{};
    own.struct_size = sizeof own;
    QUIRE_RETURN_IF_ERROR(object.step_info(id, &own));
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_step_get_batch(quire_step step, const quire_batch_options* options, quire_batch* batches, uint64_t stride, uint64_t n,
                                uint64_t* bytes, quire_error* err) {
  return c_api::with_step(step, err, [&](quire::StepReader& object, quire::StepId id) -> Status {
    quire_batch_options own{};
    QUIRE_RETURN_IF_ERROR(read_batch_options(options, &own));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(bytes, "bytes"));
    Batches out{reinterpret_cast<unsigned char*>(batches), stride};
    if (own.memory != nullptr || own.bytes != 0) {
      QUIRE_RETURN_IF_ERROR(c_api::check_pointer(batches, "batches"));
      QUIRE_RETURN_IF_ERROR(c_api::check_stride(stride, c_api::kFirstBytes<quire_batch>));
      const size_t groups = object.config().groups.size();
      if (n != groups) return quire::fail(QUIRE_OUT_OF_RANGE, "n is %" PRIu64 ", the plan has %zu groups", n, groups);
    }
    uint64_t needed = *bytes;
    Status status = object.step_batch(id, own, Batches::put, &out, &needed);
    *bytes = needed;
    return status;
  });
}

quire_code quire_step_fill(quire_step step, const quire_fill* fills, uint64_t stride, uint64_t n, uint64_t* written, quire_error* err) {
  return c_api::with_step(step, err, [&](quire::StepReader& object, quire::StepId id) -> Status {
    std::array<quire_fill, QUIRE_MAX_FILLS> own;
    QUIRE_RETURN_IF_ERROR(read_fills(fills, stride, n, own));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(written, "written"));
    return object.step_fill(id, std::span(own).first(n), written);
  });
}

quire_code quire_step_list_copies(quire_step step, quire_copy* items, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::with_step(step, err, [&](quire::StepReader& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    auto copies = object.step_copies(id);
    if (!copies.ok()) return copies.take_status();
    return c_api::write_two_call(*copies, items, capacity, count);
  });
}

quire_code quire_step_list_zeroes(quire_step step, quire_zero* items, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::with_step(step, err, [&](quire::StepReader& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    auto zeroes = object.step_zeroes(id);
    if (!zeroes.ok()) return zeroes.take_status();
    return c_api::write_two_call(*zeroes, items, capacity, count);
  });
}

quire_code quire_step_export(quire_step step, void* bytes, uint64_t capacity, uint64_t* size, quire_error* err) {
  return c_api::with_cache_step(step, err, [&](quire::Cache& object, quire::StepId id) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(bytes, capacity, "bytes"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(size, "size"));
    return object.step_export(id, {static_cast<uint8_t*>(bytes), bytes == nullptr ? 0 : capacity}, size);
  });
}

quire_code quire_follower_create(quire_config* config, const quire_cache_options* options, quire_follower** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(config, "config"));
    quire_cache_options own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_cache_options(options, &own));
    auto object = quire::Follower::create(config->object, own);
    if (!object.ok()) return object.take_status();
    *out = new quire_follower(std::move(*object));
    return {};
  });
}

quire_follower* quire_follower_retain(quire_follower* follower) { return c_api::retain(follower); }

void quire_follower_release(quire_follower* follower) { c_api::release(follower); }

quire_code quire_follower_import(quire_follower* follower, const void* bytes, uint64_t size, quire_step* step, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(follower, "follower"));
    const c_api::Alone entered(follower);
    QUIRE_RETURN_IF_ERROR(entered.check("follower"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(bytes, "bytes"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(step, "step"));
    quire::StepId id;
    QUIRE_RETURN_IF_ERROR(follower->object->step_import({static_cast<const uint8_t*>(bytes), size}, &id));
    *step = c_api::step_of(follower, id);
    return {};
  });
}
