// quire/cache.h
#include <algorithm>
#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/prefix/identity.h"

namespace c_api = quire::c_api;
using c_api::with_cache;
using quire::Status;

Status c_api::read_identity(const quire_identity* identity, quire_identity* own) {
  *own = {};
  own->struct_size = sizeof *own;
  if (identity == nullptr) return {};
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(identity, own, "identity"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, QUIRE_SEQUENCE_NO_MATCH | QUIRE_SEQUENCE_NO_PUBLISH, "identity.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(own->salt, "identity.salt", quire::kMaxIdentityBytes));
  return c_api::check_text(own->adapter, "identity.adapter", quire::kMaxIdentityBytes);
}

Status c_api::read_cache_options(const quire_cache_options* options, quire_cache_options* own) {
  own->struct_size = sizeof *own;
  if (options != nullptr) QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, own, "options"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, quire::kCacheFlags, "options.flags"));
  return c_api::check_zero(own->reserved0, "options.reserved0");
}

namespace {

constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxConcurrency = uint64_t{1} << 24;

quire::SequenceId sequence_of(quire_sequence_id id) { return quire::SequenceId(id); }

// Runs a body on the cache for what any thread may ask at any time.
template <typename Body>
quire_code with_shared_cache(quire_cache* cache, quire_error* err, Body&& body) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(cache, "cache"));
    return body(*cache->object);
  });
}

}  // namespace

quire_code quire_config_get_capacity(quire_config* config, const quire_cache_options* options, uint64_t tokens, uint64_t concurrency,
                                     quire_capacity* capacity, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(config, "config"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(capacity, "capacity"));
    quire_cache_options read{};
    QUIRE_RETURN_IF_ERROR(c_api::read_cache_options(options, &read));
    if (tokens > kMaxTokens) return quire::fail(QUIRE_OUT_OF_RANGE, "tokens is %" PRIu64 ", the limit is %" PRIu64, tokens, kMaxTokens);
    if (concurrency > kMaxConcurrency) {
      return quire::fail(QUIRE_OUT_OF_RANGE, "concurrency is %" PRIu64 ", the limit is %" PRIu64, concurrency, kMaxConcurrency);
    }
    const quire::Config& plan = *config->object;
    auto found =
        quire::Cache::capacity(config->object, read, tokens != 0 ? tokens : plan.max_model_len, std::max(concurrency, uint64_t{1}));
    if (!found.ok()) return found.take_status();
    quire_capacity own{};
    own.tokens = found->tokens;
    own.concurrency = found->concurrency;
    own.guaranteed = found->guaranteed;
    own.decoding = found->decoding;
    own.resident = found->resident;
    own.longest = found->longest;
    own.pages_needed = found->pages_needed;
    own.bytes_needed = found->bytes_needed;
    own.kv_cache_tokens = plan.kv_cache_tokens;
    c_api::write_info(capacity, own);
    return {};
  });
}

quire_code quire_cache_create(quire_runtime* runtime, quire_config* config, const quire_cache_options* options, quire_cache** out,
                              quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(config, "config"));
    if (runtime != nullptr) QUIRE_RETURN_IF_ERROR(c_api::check_handle(runtime, "runtime"));
    quire_cache_options own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_cache_options(options, &own));
    quire::CacheClock clock;
    if (runtime != nullptr) clock = {quire::Runtime::host_now, runtime->object.get()};
    auto object = quire::Cache::create(config->object, own, clock);
    if (!object.ok()) return object.take_status();
    auto handle = std::make_unique<quire_cache>(std::move(*object), runtime == nullptr ? nullptr : runtime->object);
    handle->event_kinds = config->event_kinds;
    *out = handle.release();
    return {};
  });
}

quire_cache* quire_cache_retain(quire_cache* cache) { return c_api::retain(cache); }

void quire_cache_release(quire_cache* cache) { c_api::release(cache); }

quire_code quire_sequence_create(quire_cache* cache, const quire_identity* identity, quire_sequence_id* out, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    quire_identity own;
    QUIRE_RETURN_IF_ERROR(c_api::read_identity(identity, &own));
    auto sequence = object.sequence_create(&own);
    if (!sequence.ok()) return sequence.take_status();
    *out = sequence->value;
    return {};
  });
}

quire_code quire_sequence_finish(quire_cache* cache, quire_sequence_id sequence, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) { return object.sequence_finish(sequence_of(sequence)); });
}

quire_code quire_sequence_preempt(quire_cache* cache, quire_sequence_id sequence, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) { return object.sequence_preempt(sequence_of(sequence)); });
}

quire_code quire_sequence_truncate(quire_cache* cache, quire_sequence_id sequence, uint64_t tokens, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) { return object.sequence_truncate(sequence_of(sequence), tokens); });
}

quire_code quire_sequence_fork(quire_cache* cache, quire_sequence_id parent, quire_sequence_id* out, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    auto sequence = object.sequence_fork(sequence_of(parent));
    if (!sequence.ok()) return sequence.take_status();
    *out = sequence->value;
    return {};
  });
}

quire_code quire_sequence_get_info(quire_cache* cache, quire_sequence_id sequence, quire_sequence_info* info, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_sequence_info own{};
    own.struct_size = sizeof own;
    QUIRE_RETURN_IF_ERROR(object.sequence_info(sequence_of(sequence), &own));
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_cache_add_media(quire_cache* cache, const uint8_t* digest, uint32_t length, quire_symbol* first, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(digest, "digest"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(first, "first"));
    return object.add_media(digest, length, first);
  });
}

quire_code quire_probe(quire_cache* cache, const quire_identity* identity, const quire_symbol* symbols, uint64_t num_symbols,
                       quire_probe_result* result, quire_error* err) {
  return with_shared_cache(cache, err, [&](const quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(result, "result"));
    quire_identity who;
    QUIRE_RETURN_IF_ERROR(c_api::read_identity(identity, &who));
    quire_probe_result own{};
    own.struct_size = sizeof own;
    QUIRE_RETURN_IF_ERROR(object.probe(&who, {symbols, num_symbols}, &own));
    c_api::write_info(result, own);
    return {};
  });
}

quire_code quire_cache_get_stats(quire_cache* cache, quire_cache_stats* stats, quire_error* err) {
  return with_shared_cache(cache, err, [&](const quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    quire_cache_stats own{};
    own.struct_size = sizeof own;
    object.stats(&own);
    c_api::write_info(stats, own);
    return {};
  });
}

quire_code quire_cache_get_group_stats(quire_cache* cache, uint32_t group, quire_group_stats* stats, quire_error* err) {
  return with_shared_cache(cache, err, [&](const quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    quire_group_stats own{};
    own.struct_size = sizeof own;
    QUIRE_RETURN_IF_ERROR(object.group_stats(group, &own));
    c_api::write_info(stats, own);
    return {};
  });
}

quire_code quire_cache_forget_blocks(quire_cache* cache, uint32_t group, const int32_t* ids, uint64_t n, uint64_t* forgotten,
                                     quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(ids, n, "ids"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(forgotten, "forgotten"));
    return object.forget_blocks(group, {ids, n}, forgotten);
  });
}

quire_code quire_cache_reset(quire_cache* cache, quire_error* err) {
  return with_cache(cache, err, [&](quire::Cache& object) { return object.reset(); });
}

quire_code quire_cache_verify(quire_cache* cache, quire_error* err) {
  return with_cache(cache, err, [&](const quire::Cache& object) { return object.verify(); });
}
