// quire_cpp/sessions.hpp: sequences as bytes. Include quire.hpp.
#pragma once

#include <quire/session.h>

#include "cache.hpp"
#include "device.hpp"

namespace quire {
inline namespace QUIRE_CPP_MODE {

// Writes what the cache has of a sequence; symbols: at least those of its committed tokens. write
// is called with user until all is written. Errors: NOT_FOUND, FAILED_PRECONDITION (steps in
// flight), UNIMPLEMENTED, and those of write.
inline Returned<void> save_session(const Cache& cache, quire_sequence_id sequence, const quire_session_options& options,
                                   std::span<const quire_symbol> symbols, quire_session_write_fn write, void* user) {
  return detail::call(quire_session_save, cache.get(), sequence, &options, symbols.data(), uint64_t{symbols.size()}, write, user,
                      static_cast<quire_session_info*>(nullptr));
}
// Reads a session into an empty sequence, and its symbols into `symbols`; max_model_len of them
// are always enough. Errors: FAILED_PRECONDITION (another model or identity), OUT_OF_RANGE,
// DATA_LOSS, RESOURCE_EXHAUSTED, and those of read.
inline Returned<quire_session_info> restore_session(const Cache& cache, quire_sequence_id sequence, const quire_session_options& options,
                                                    quire_session_read_fn read, void* user, std::span<quire_symbol> symbols) {
  return detail::get<quire_session_info>(quire_session_restore, cache.get(), sequence, &options, read, user, symbols.data(),
                                         uint64_t{symbols.size()});
}

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
