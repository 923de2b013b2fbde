// quire/session.h
#include <quire/session.h>

#include <algorithm>
#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/session/sequence_stream.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

Status read_place(const quire_cache& cache, const quire_session_options* options, quire::SessionPlace* out) {
  quire_session_options own{};
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own.flags, 0, "options.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(own.weights, "options.weights", c_api::kMaxWeightsBytes));
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(own.memories, "options.memories"));
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(own.streams, "options.streams"));
  for (size_t s = 0; s < cache.object->config().shards.size(); ++s) {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(own.memories[s], "options.memories[]"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(own.streams[s], "options.streams[]"));
    out->memories.push_back(own.memories[s]->object);
    out->streams.push_back(own.streams[s]->object);
  }
  out->weights = c_api::text_of(own.weights);
  return {};
}

// What the caller's function says of its failure.
Status status_of(quire_code code, const quire_error& err, const char* function) {
  if (code == QUIRE_OK) return {};
  const std::string_view said(err.message, strnlen(err.message, sizeof err.message));
  return Status(code, std::string(function) + ": " + (said.empty() ? "it failed" : std::string(said)));
}

quire_error no_error() {
  quire_error err{};
  err.struct_size = sizeof err;
  return err;
}

}  // namespace

quire_code quire_session_save(quire_cache* cache, quire_sequence_id sequence, const quire_session_options* options,
                              const quire_symbol* symbols, uint64_t num_symbols, quire_session_write_fn write, void* user,
                              quire_session_info* info, quire_error* err) {
  return c_api::with_cache(cache, err, [&](quire::Cache& /*object*/) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    if (write == nullptr) return quire::invalid("write is NULL, it must be a function");
    if (info != nullptr) QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire::SessionPlace place;
    QUIRE_RETURN_IF_ERROR(read_place(*cache, options, &place));
    quire_session_info own{};
    const quire::SessionWrite out = [&](std::span<const uint8_t> bytes) {
      quire_error error = no_error();
      return status_of(write(user, bytes.data(), bytes.size(), &error), error, "write");
    };
    QUIRE_RETURN_IF_ERROR(quire::save_session(cache->object, quire::SequenceId(sequence), place, {symbols, num_symbols}, out, &own));
    if (info != nullptr) c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_session_restore(quire_cache* cache, quire_sequence_id sequence, const quire_session_options* options,
                                 quire_session_read_fn read, void* user, quire_symbol* symbols, uint64_t capacity, quire_session_info* info,
                                 quire_error* err) {
  return c_api::with_cache(cache, err, [&](quire::Cache& /*object*/) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, capacity, "symbols"));
    if (read == nullptr) return quire::invalid("read is NULL, it must be a function");
    if (info != nullptr) QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire::SessionPlace place;
    QUIRE_RETURN_IF_ERROR(read_place(*cache, options, &place));
    quire_session_info own{};
    const quire::SessionRead in = [&](std::span<uint8_t> bytes) {
      quire_error error = no_error();
      return status_of(read(user, bytes.data(), bytes.size(), &error), error, "read");
    };
    QUIRE_RETURN_IF_ERROR(quire::restore_session(cache->object, quire::SequenceId(sequence), place, in, {symbols, capacity}, &own));
    if (info != nullptr) c_api::write_info(info, own);
    return {};
  });
}
