// Rows of quire/session.h.
#include <quire/session.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "rows.h"

namespace quire::test {
namespace {

// A session in a buffer of a fixed size, so that the functions need no memory themselves. Writing and reading begin anew with a manifest.
struct Stream {
  std::array<uint8_t, 1 << 20> bytes{};
  size_t end = 0, at = 0;
  quire_code answer = QUIRE_OK;
};

quire_code put(void* user, const void* bytes, uint64_t num_bytes, quire_error* err) {
  auto* const stream = static_cast<Stream*>(user);
  const auto* const from = static_cast<const uint8_t*>(bytes);
  if (num_bytes >= 8 && std::memcmp(from, "quesess1", 8) == 0) stream->end = 0;
  std::copy_n(from, num_bytes, stream->bytes.begin() + static_cast<std::ptrdiff_t>(stream->end));
  stream->end += num_bytes;
  std::snprintf(err->message, sizeof err->message, "the disk is full");
  return stream->answer;
}

quire_code get(void* user, void* bytes, uint64_t num_bytes, quire_error* /*err*/) {
  auto* const stream = static_cast<Stream*>(user);
  if (num_bytes == 40) stream->at = 0;  // the beginning of a manifest
  if (num_bytes > stream->end - stream->at) return QUIRE_OUT_OF_RANGE;
  std::copy_n(stream->bytes.begin() + static_cast<std::ptrdiff_t>(stream->at), num_bytes, static_cast<uint8_t*>(bytes));
  stream->at += num_bytes;
  return stream->answer;
}

struct Session {
  quire_memory* memory = nullptr;
  quire_stream* stream = nullptr;
  quire_session_options options = sized<quire_session_options>();
  std::vector<quire_symbol> symbols = std::vector<quire_symbol>(40, 7);
  Stream bytes;

  explicit Session(const Rig& rig) : memory(rig.memory.get()), stream(rig.stream.get()) {
    options.weights = text("weights");
    options.memories = &memory;
    options.streams = &stream;
  }
  // A sequence of the symbols.
  quire_sequence_id computed(const Rig& rig) const {
    quire_reserve_entry entry{};
    EXPECT_WORKS(quire_sequence_create(rig.cache.get(), nullptr, &entry.sequence, err));
    entry.num_symbols = entry.num_tokens = static_cast<uint32_t>(symbols.size());
    entry.flags = QUIRE_ENTRY_MATCH;
    quire_reserve_result result{};
    quire_step step{};
    uint64_t committed = 0;
    EXPECT_WORKS(quire_load_begin(rig.cache.get(), &entry, symbols.data(), symbols.size(), &result, &step, err));
    EXPECT_WORKS(quire_load_end(step, nullptr, 0, &committed, nullptr, err));
    EXPECT_EQ(committed, symbols.size());
    return entry.sequence;
  }
};

quire_sequence_id opened(const Rig& rig) {
  quire_sequence_id sequence = 0;
  EXPECT_WORKS(quire_sequence_create(rig.cache.get(), nullptr, &sequence, err));
  return sequence;
}

ROW(quire_session_save) {
  Session session(rig);
  auto info = sized<quire_session_info>();
  const quire_sequence_id sequence = session.computed(rig);
  session.bytes.answer = QUIRE_UNAVAILABLE;
  EXPECT_FAILS(QUIRE_UNAVAILABLE, "write: the disk is full",
               quire_session_save(rig.cache.get(), sequence, &session.options, session.symbols.data(), session.symbols.size(), put,
                                  &session.bytes, &info, err));
  session.bytes.answer = QUIRE_OK;
  session.options.weights = {};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.weights",
               quire_session_save(rig.cache.get(), sequence, &session.options, session.symbols.data(), session.symbols.size(), put,
                                  &session.bytes, &info, err));
  session.options.weights = text("weights");
  call.null_is_legal({"info", "user"}).bad("num_symbols", {0, 39}, QUIRE_INVALID_ARGUMENT).bad("sequence", {0, 77}, QUIRE_NOT_FOUND);
  call(rig.cache.get(), sequence, &session.options, session.symbols.data(), uint64_t{session.symbols.size()}, put,
       static_cast<void*>(&session.bytes), &info);
  EXPECT_EQ(info.num_tokens, 40U);
  EXPECT_EQ(info.bytes, session.bytes.end);
}

ROW(quire_session_restore) {
  Session session(rig);
  auto info = sized<quire_session_info>();
  const quire_sequence_id saved = session.computed(rig);
  EXPECT_WORKS(quire_session_save(rig.cache.get(), saved, &session.options, session.symbols.data(), session.symbols.size(), put,
                                  &session.bytes, &info, err));
  EXPECT_WORKS(quire_sequence_finish(rig.cache.get(), saved, err));
  std::vector<quire_symbol> symbols(64);
  const quire_sequence_id sequence = opened(rig);
  session.bytes.answer = QUIRE_UNAVAILABLE;
  EXPECT_FAILS(
      QUIRE_UNAVAILABLE, "read: it failed",
      quire_session_restore(rig.cache.get(), sequence, &session.options, get, &session.bytes, symbols.data(), symbols.size(), &info, err));
  session.bytes.answer = QUIRE_OK;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity: 39, the session has 40 tokens",
               quire_session_restore(rig.cache.get(), sequence, &session.options, get, &session.bytes, symbols.data(), 39, &info, err));
  EXPECT_WORKS(quire_session_restore(rig.cache.get(), sequence, &session.options, get, &session.bytes, symbols.data(), 40, &info, err));
  EXPECT_EQ(info.num_tokens, 40U);
  EXPECT_EQ(info.committed, 40U);
  EXPECT_EQ(info.bytes, session.bytes.end);
  EXPECT_TRUE(std::equal(session.symbols.begin(), session.symbols.end(), symbols.begin()));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "it has 40 tokens",
               quire_session_restore(rig.cache.get(), sequence, &session.options, get, &session.bytes, symbols.data(), 40, &info, err));
  // Of no tokens: what begins a load and fails is counted.
  EXPECT_WORKS(quire_session_save(rig.cache.get(), opened(rig), &session.options, nullptr, 0, put, &session.bytes, &info, err));
  call.null_is_legal({"info", "user"}).any({"capacity"}).bad("sequence", {0, 77}, QUIRE_NOT_FOUND);
  call(rig.cache.get(), opened(rig), &session.options, get, static_cast<void*>(&session.bytes), symbols.data(), uint64_t{symbols.size()},
       &info);
  EXPECT_EQ(info.num_tokens, 0U);
}

}  // namespace
}  // namespace quire::test
