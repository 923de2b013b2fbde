// The engine's sessions, in a vector of bytes.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

struct Input {
  const std::vector<uint8_t>& bytes;
  size_t at = 0;
};

struct Output {
  std::vector<uint8_t>* bytes;
  uint64_t room;
};

quire_code take(void* user, const void* bytes, uint64_t num_bytes, quire_error* err) {
  auto* const out = static_cast<Output*>(user);
  const auto* const from = static_cast<const uint8_t*>(bytes);
  EXPECT_LE(num_bytes, uint64_t{4} << 20);
  if (num_bytes > out->room - out->bytes->size()) {
    std::snprintf(err->message, sizeof err->message, "no room behind byte %zu", out->bytes->size());
    return QUIRE_UNAVAILABLE;
  }
  out->bytes->insert(out->bytes->end(), from, from + num_bytes);
  return QUIRE_OK;
}

quire_code give(void* user, void* bytes, uint64_t num_bytes, quire_error* err) {
  auto* const in = static_cast<Input*>(user);
  if (num_bytes > in->bytes.size() - in->at) {
    std::snprintf(err->message, sizeof err->message, "the input ends at byte %zu", in->bytes.size());
    return QUIRE_OUT_OF_RANGE;
  }
  std::copy_n(in->bytes.begin() + static_cast<std::ptrdiff_t>(in->at), num_bytes, static_cast<uint8_t*>(bytes));
  in->at += num_bytes;
  return QUIRE_OK;
}

// Pointers to the handles of an engine, as the options take them.
template <typename T, typename H>
std::vector<T*> pointers(const std::vector<H>& handles) {
  std::vector<T*> out;
  out.reserve(handles.size());
  for (const auto& handle : handles) out.push_back(handle.get());
  return out;
}

// What a call is told of an engine.
struct Told {
  std::vector<quire_memory*> memories;
  std::vector<quire_stream*> streams;
  quire_session_options options = QUIRE_INIT(quire_session_options);

  template <typename M, typename S>
  Told(const M& of_memories, const S& of_streams, const std::string& weights)
      : memories(pointers<quire_memory>(of_memories)), streams(pointers<quire_stream>(of_streams)) {
    options.weights = {weights.data(), weights.size()};
    options.memories = memories.data();
    options.streams = streams.data();
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
};

}  // namespace

quire_code Engine::try_save(quire_sequence_id sequence, const Text& text, uint64_t room, std::vector<uint8_t>* session,
                            quire_session_info* info, std::string* message) {
  quire_error err = QUIRE_INIT(quire_error);
  const Told told(memories_, streams_, options_.weights);
  session->clear();
  session->reserve(std::min(room, uint64_t{1} << 20));  // so that none is asked for in the call
  Output output{session, room};
  *info = QUIRE_INIT(quire_session_info);
  const std::function<quire_code()> call = [&] {
    return quire_session_save(cache(), sequence, &told.options, text.data(), text.size(), take, &output, info, &err);
  };
  const quire_code code = around ? around(call) : call();
  *message = err.message;
  return code;
}

std::vector<uint8_t> Engine::save(quire_sequence_id sequence, const Text& text, quire_code expected) {
  std::vector<uint8_t> out;
  quire_session_info info{};
  std::string message;
  EXPECT_EQ(try_save(sequence, text, UINT64_MAX, &out, &info, &message), expected) << message;
  if (expected == QUIRE_OK) {
    EXPECT_EQ(info.bytes, out.size());
    EXPECT_EQ(info.num_tokens, this->info(sequence).committed);
  }
  return out;
}

quire_code Engine::try_restore(quire_sequence_id sequence, const std::vector<uint8_t>& session, quire_session_info* info,
                               std::string* message, uint64_t capacity) {
  quire_error err = QUIRE_INIT(quire_error);
  const Told told(memories_, streams_, options_.weights);
  Text symbols(std::min(capacity, options_.max_len));
  Input input{session};
  *info = QUIRE_INIT(quire_session_info);
  const std::function<quire_code()> call = [&] {
    return quire_session_restore(cache(), sequence, &told.options, give, &input, symbols.data(), symbols.size(), info, &err);
  };
  const quire_code code = around ? around(call) : call();
  *message = err.message;
  if (code == QUIRE_OK) {
    symbols.resize(info->num_tokens);
    restored_ = symbols;
  }
  return code;
}

quire_sequence_id Engine::restore(const std::vector<uint8_t>& session, const Text& text, quire_session_info* info) {
  const quire_sequence_id sequence = open();
  std::string message;
  EXPECT_EQ(try_restore(sequence, session, info, &message), QUIRE_OK) << message;
  EXPECT_TRUE(std::equal(restored_.begin(), restored_.end(), text.begin()));
  EXPECT_EQ(this->info(sequence).committed, info->committed);
  check(sequence, text);
  return sequence;
}

}  // namespace quire::test
