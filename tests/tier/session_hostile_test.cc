// Sessions whose stream is not what was saved, and caches and sequences in whatever state: never a wrong byte, and nothing left behind.
#include <algorithm>
#include <array>
#include <random>

#include "tests/tier/tier_rig.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quire::test {
namespace {

EngineOptions of(std::vector<quire_layer> layers, uint32_t ranks = 1) {
  EngineOptions options;
  options.layers = std::move(layers);
  options.ranks = ranks;
  return options;
}

std::vector<quire_layer> all_kinds() { return {full_layer(), window_layer(96), chunked_layer(128), state_layer()}; }

struct Party {
  Clock clock;
  Engine engine;

  explicit Party(EngineOptions options) : engine(clock, std::move(options), {}) {}
  std::vector<uint8_t> save(const Text& text) {
    const quire_sequence_id sequence = engine.open();
    engine.go_on(sequence, text);
    std::vector<uint8_t> session = engine.save(sequence, text);
    engine.finish(sequence);
    return session;
  }
};

uint64_t number_at(const std::vector<uint8_t>& bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[at + i]} << 8 * i;
  return value;
}

// The manifest and each record.
std::vector<std::vector<uint8_t>> cut(const std::vector<uint8_t>& session) {
  std::vector<std::vector<uint8_t>> parts;
  for (size_t at = 0, end = number_at(session, 16, 8); at < session.size(); at = end) {
    if (at > 0) end = at + number_at(session, at + 12, 4) + number_at(session, at + 24, 8);
    parts.emplace_back(session.begin() + static_cast<std::ptrdiff_t>(at), session.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return parts;
}

std::vector<uint8_t> join(const std::vector<std::vector<uint8_t>>& parts) {
  std::vector<uint8_t> session;
  for (const auto& part : parts) session.insert(session.end(), part.begin(), part.end());
  return session;
}

Text with_more(Text text, size_t n) {
  for (size_t i = 0; i < n; ++i) text.push_back(static_cast<quire_symbol>(5000 + i));
  return text;
}

void go_on_from(Party& party, quire_sequence_id sequence, const Text& text) {
  party.engine.check(sequence, text);
  party.engine.go_on(sequence, text);
  party.engine.finish(sequence);
  EXPECT_EQ(party.engine.cache_stats().loads, 0U);
  EXPECT_EQ(party.engine.cache_stats().holds, 0U);
  party.engine.verify();
}

// Ranks that share heads of one layer and not of another have records that overlap: what comes twice is not what is missing.
TEST(SessionHostile, HeadsThatComeTwiceAreNoOthers) {
  const std::vector<quire_layer> layers = {full_layer(2, 8), full_layer(4, 8)};
  const Text text = count_text(1, 200), more = with_more(text, 20);
  Party writer(of(layers, 4));
  const auto parts = cut(writer.save(text));
  for (size_t i = 1; i < parts.size(); ++i) {
    SCOPED_TRACE("record " + std::to_string(i) + " of " + std::to_string(parts.size() - 1));
    auto damaged = parts;
    damaged[i].back() ^= 1;
    for (uint32_t ranks : {1, 2}) {
      Party reader(of(layers, ranks));
      quire_session_info info{};
      std::string message;
      const quire_sequence_id sequence = reader.engine.open();
      EXPECT_EQ(reader.engine.try_restore(sequence, join(damaged), &info, &message), QUIRE_OK) << message;
      EXPECT_EQ(info.num_damaged, 1U);
      EXPECT_LT(info.committed, 200U);
      go_on_from(reader, sequence, more);
    }
  }
}

// One record in the place of another.
TEST(SessionHostile, RecordsThatStandTwice) {
  const Text text = count_text(1, 200), more = with_more(text, 20);
  Party writer(of({full_layer(), state_layer()}, 2));
  const auto parts = cut(writer.save(text));
  for (size_t i = 1; i < parts.size(); ++i) {
    for (size_t k = 1; k < parts.size(); ++k) {
      SCOPED_TRACE("record " + std::to_string(i) + " is " + std::to_string(k));
      auto other = parts;
      other[i] = parts[k];
      Party reader(of({full_layer(), state_layer()}));
      quire_session_info info{};
      std::string message;
      const quire_sequence_id sequence = reader.engine.open();
      EXPECT_EQ(reader.engine.try_restore(sequence, join(other), &info, &message), i == k ? QUIRE_OK : QUIRE_DATA_LOSS) << message;
      go_on_from(reader, sequence, more);
    }
  }
}

TEST(SessionHostile, RecordsOfAnotherConversation) {
  const Text text = count_text(1, 200), more = with_more(text, 20);
  Party writer(of(all_kinds()));
  const auto parts = cut(writer.save(text)), others = cut(writer.save(count_text(3000, 200)));
  ASSERT_EQ(parts.size(), others.size());
  for (size_t i = 1; i < parts.size(); ++i) {
    SCOPED_TRACE("record " + std::to_string(i));
    auto mixed = parts;
    mixed[i] = others[i];
    Party reader(of(all_kinds()));
    quire_session_info info{};
    std::string message;
    const quire_sequence_id sequence = reader.engine.open();
    EXPECT_EQ(reader.engine.try_restore(sequence, join(mixed), &info, &message), QUIRE_DATA_LOSS) << message;
    go_on_from(reader, sequence, more);
  }
}

// What the cache has is not read again, or is written with the same bytes.
TEST(SessionHostile, WhatIsCachedAlready) {
  const Text text = count_text(1, 333), more = with_more(text, 20);
  using Layers = std::vector<quire_layer>;
  for (const Layers& layers : {all_kinds(), Layers{full_layer()}, {full_layer(), window_layer(96, 4)}, {full_layer(), state_layer()}}) {
    Party writer(of(layers));
    const std::vector<uint8_t> session = writer.save(text);
    for (const size_t cached : {0, 16, 100, 320, 332, 333, 400}) {
      SCOPED_TRACE(cached);
      Party reader(of(layers));
      Text first = with_more(text, 100);
      first.resize(cached);
      if (cached > 0) reader.engine.compute(first);
      const quire_sequence_id live = reader.engine.open();  // it has the same blocks meanwhile
      reader.engine.go_on(live, first);
      for (int i = 0; i < 2; ++i) {
        quire_session_info info{};
        const quire_sequence_id sequence = reader.engine.restore(session, more, &info);
        EXPECT_EQ(info.committed, 333U);
        go_on_from(reader, sequence, more);
      }
      reader.engine.go_on(live, with_more(first, 30));
      reader.engine.finish(live);
    }
  }
}

TEST(SessionHostile, OtherPolicies) {
  const Text text = count_text(1, 333), more = with_more(text, 20);
  EngineOptions plain = of({full_layer(), window_layer(96)}), retained = plain, keeps = of(all_kinds());
  retained.policy = "vllm";
  retained.retained = 64;
  keeps.keep = 3;
  for (const EngineOptions* from : {&plain, &retained}) {
    for (const EngineOptions* to : {&plain, &retained}) {
      Party writer(*from), reader(*to);
      const std::vector<uint8_t> session = writer.save(text);
      quire_session_info info{};
      const quire_sequence_id sequence = reader.engine.restore(session, more, &info);
      EXPECT_EQ(info.committed, 333U) << (from == &plain) << (to == &plain);
      go_on_from(reader, sequence, more);
    }
  }
}

TEST(SessionHostile, LongestSequence) {
  EngineOptions options = of(all_kinds());
  options.max_len = 400;
  Party writer(options), reader(options);
  const Text text = count_text(1, 400);
  const std::vector<uint8_t> session = writer.save(text);
  quire_session_info info{};
  std::string message;
  const quire_sequence_id sequence = reader.engine.open();
  EXPECT_EQ(reader.engine.try_restore(sequence, session, &info, &message), QUIRE_OK) << message;
  EXPECT_EQ(info.committed, 400U);
  reader.engine.finish(sequence);
}

TEST(SessionHostile, SequencesInEveryState) {
  Party writer(of(all_kinds())), reader(of(all_kinds()));
  const Text text = count_text(1, 333), more = with_more(text, 20);
  quire_error err = QUIRE_INIT(quire_error);
  const quire_sequence_id sequence = writer.engine.open();
  writer.engine.go_on(sequence, text);
  quire_sequence_id fork = 0;
  must(quire_sequence_fork(writer.engine.cache(), sequence, &fork, &err), err, "fork");
  const auto go_on = [&](quire_sequence_id from, const Text& of_it) {
    const std::vector<uint8_t> session = writer.engine.save(from, of_it);
    quire_session_info info{};
    Text longer = of_it;
    longer.resize(writer.engine.info(from).committed);
    Text then = with_more(longer, 30);
    const quire_sequence_id restored = reader.engine.restore(session, then, &info);
    EXPECT_EQ(info.committed, longer.size());
    go_on_from(reader, restored, then);
    reader.engine.forget_all();
  };
  go_on(fork, text);
  writer.engine.go_on(fork, more);
  go_on(fork, more);
  go_on(sequence, text);
  must(quire_sequence_preempt(writer.engine.cache(), sequence, &err), err, "preempt");
  const std::vector<uint8_t> none = writer.engine.save(sequence, text);
  EXPECT_LT(none.size(), 4096U);
  writer.engine.go_on(sequence, text);
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  entry.num_tokens = 1;
  entry.num_symbols = 1;
  entry.symbols_position = 333;
  quire_reserve_result result{};
  quire_step step{};
  const quire_symbol symbol = 5;
  must(quire_reserve(writer.engine.cache(), &entry, 1, &symbol, 1, &result, &step, &err), err, "reserve");
  writer.engine.save(sequence, more, QUIRE_FAILED_PRECONDITION);
  must(quire_abort(step, QUIRE_ABORT_NOT_LAUNCHED, &err), err, "abort");
  go_on(sequence, text);
}

// What is left of a sequence that was cut, in windows as well.
TEST(SessionHostile, TruncatedSequences) {
  for (const auto& layers : {std::vector<quire_layer>{full_layer()}, {full_layer(), window_layer(96, 4)}}) {
    Party writer(of(layers)), reader(of(layers));
    const Text text = count_text(1, 353);
    quire_error err = QUIRE_INIT(quire_error);
    const quire_sequence_id sequence = writer.engine.open();
    writer.engine.go_on(sequence, text);
    for (const uint64_t length : {352U, 340U, 320U, 200U, 100U, 0U}) {
      const quire_code code = quire_sequence_truncate(writer.engine.cache(), sequence, length, &err);
      SCOPED_TRACE("to " + std::to_string(length) + ": " + std::to_string(code));
      Text left = text;
      left.resize(writer.engine.info(sequence).committed);
      const std::vector<uint8_t> session = writer.engine.save(sequence, text);
      const Text more = with_more(left, 30);
      quire_session_info info{};
      const quire_sequence_id restored = reader.engine.restore(session, more, &info);
      EXPECT_EQ(info.committed, left.size());
      go_on_from(reader, restored, more);
      reader.engine.forget_all();
    }
  }
}

// Both ends of the stream fail at any byte.
TEST(SessionHostile, StreamsThatEnd) {
  Party writer(of(all_kinds(), 2)), reader(of(all_kinds()));
  const Text text = count_text(1, 333), more = with_more(text, 20);
  const quire_sequence_id sequence = writer.engine.open();
  writer.engine.go_on(sequence, text);
  const auto parts = cut(writer.engine.save(sequence, text));
  const std::vector<uint8_t> session = join(parts);
  std::vector<uint64_t> ends = {0, 39, 40};
  for (uint64_t at = 0, i = 0; i < parts.size(); at += parts[i++].size()) {
    for (const uint64_t end : {at, at + 1, at + 32, at + 4096, at + parts[i].size() - 1}) ends.push_back(std::min(end, session.size() - 1));
  }
  for (const uint64_t end : ends) {
    SCOPED_TRACE(end);
    quire_session_info info{};
    std::string message;
    std::vector<uint8_t> begun(session.begin(), session.begin() + static_cast<std::ptrdiff_t>(end));
    const quire_sequence_id restored = reader.engine.open();
    EXPECT_EQ(reader.engine.try_restore(restored, begun, &info, &message), QUIRE_OUT_OF_RANGE) << message;
    EXPECT_EQ(message.rfind("read: the input ends at byte ", 0), 0U) << message;
    EXPECT_EQ(reader.engine.info(restored).reserved, 0U);
    go_on_from(reader, restored, more);
    reader.engine.forget_all();
    EXPECT_EQ(writer.engine.try_save(sequence, text, end, &begun, &info, &message), QUIRE_UNAVAILABLE) << message;
    EXPECT_EQ(message.rfind("write: no room behind byte ", 0), 0U) << message;
    EXPECT_EQ(writer.engine.cache_stats().holds, 0U);
  }
  EXPECT_EQ(writer.engine.save(sequence, text).size(), session.size());
}

// Sequences that do not take part in prefix reuse, and an identity that is another one.
TEST(SessionHostile, SequencesOfAnyIdentity) {
  Party writer(of(all_kinds())), reader(of(all_kinds()));
  const Text text = count_text(1, 333), more = with_more(text, 20);
  const std::vector<uint8_t> session = writer.save(text);
  reader.engine.compute(text);
  quire_error err = QUIRE_INIT(quire_error);
  const auto open = [&](uint32_t flags, quire_str salt) {
    quire_identity identity = QUIRE_INIT(quire_identity);
    identity.flags = flags;
    identity.salt = salt;
    quire_sequence_id sequence = 0;
    must(quire_sequence_create(reader.engine.cache(), &identity, &sequence, &err), err, "sequence");
    return sequence;
  };
  quire_session_info info{};
  std::string message;
  for (const uint32_t flags : {QUIRE_SEQUENCE_NO_MATCH, QUIRE_SEQUENCE_NO_PUBLISH, QUIRE_SEQUENCE_NO_MATCH | QUIRE_SEQUENCE_NO_PUBLISH}) {
    SCOPED_TRACE(flags);
    const quire_sequence_id sequence = open(flags, {});
    ASSERT_EQ(reader.engine.try_restore(sequence, session, &info, &message), QUIRE_OK) << message;
    EXPECT_EQ(info.committed, 333U);
    EXPECT_EQ(info.hit_tokens > 0, (flags & QUIRE_SEQUENCE_NO_MATCH) == 0);
    const std::vector<uint8_t> again = reader.engine.save(sequence, text);
    go_on_from(reader, sequence, more);
    go_on_from(writer, writer.engine.restore(again, more, &info), more);
  }
  const quire_sequence_id other = open(0, {"salt", 4});
  EXPECT_EQ(reader.engine.try_restore(other, session, &info, &message), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(message, "session: it was saved under another identity (salt, adapter or epoch) than the sequence has");
  go_on_from(reader, other, more);
}

// A state that is longer than what is written at once (the engine sees to that), and than what is read at once.
TEST(SessionHostile, LargeStatesGoInPieces) {
  quire_layer large = state_layer();
  large.num_state_tensors = 1;
  large.state[0] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 2, {1200, 1024, 0, 0}};
  EngineOptions options = of({full_layer(), large});
  options.pages = 8;
  Party writer(options), reader(options);
  const Text text = count_text(1, 40), more = with_more(text, 3);
  const std::vector<uint8_t> session = writer.save(text);
  quire_session_info info{};
  const quire_sequence_id sequence = reader.engine.restore(session, more, &info);
  EXPECT_EQ(info.committed, 40U);
  EXPECT_GT(info.bytes, uint64_t{4800} << 10);
  go_on_from(reader, sequence, more);
}

// Media have other numbers in another cache.
TEST(SessionHostile, MediaAreTheSameElsewhere) {
  Party writer(of(all_kinds())), reader(of(all_kinds()));
  const auto add = [](Party& party, uint8_t digest, uint32_t length) {
    std::array<uint8_t, 32> bytes{};
    bytes.fill(digest);
    quire_symbol first = 0;
    quire_error err = QUIRE_INIT(quire_error);
    must(quire_cache_add_media(party.engine.cache(), bytes.data(), length, &first, &err), err, "media");
    return first;
  };
  const auto text_in = [&](Party& party) {
    Text text = count_text(1, 50);
    for (const uint8_t digest : {1, 2, 1}) {
      const uint32_t length = digest * 40U;
      const quire_symbol first = add(party, digest, length);
      for (quire_symbol i = 0; i < length; ++i) text.push_back(first + i);
      text.push_back(77);
    }
    return text;
  };
  const Text text = text_in(writer);
  add(reader, 3, 1000);
  add(reader, 2, 80);
  const std::vector<uint8_t> session = writer.save(text);
  quire_session_info info{};
  std::string message;
  const quire_sequence_id sequence = reader.engine.open();
  ASSERT_EQ(reader.engine.try_restore(sequence, session, &info, &message), QUIRE_OK) << message;
  EXPECT_EQ(info.committed, text.size());
  EXPECT_EQ(reader.engine.restored(), text_in(reader));
  reader.engine.finish(sequence);
  go_on_from(writer, writer.engine.restore(session, with_more(text, 9), &info), with_more(text, 9));
}

TEST(SessionHostile, CachesThatFindNothing) {
  EngineOptions alone = of(all_kinds());
  alone.flags = QUIRE_CACHE_NO_PREFIX_REUSE;
  const Text text = count_text(1, 333), more = with_more(text, 20);
  for (const bool both : {false, true}) {
    Party writer(both ? alone : of(all_kinds())), reader(alone);
    const std::vector<uint8_t> session = writer.save(text);
    for (int i = 0; i < 2; ++i) {
      quire_session_info info{};
      const quire_sequence_id sequence = reader.engine.restore(session, more, &info);
      EXPECT_EQ(info.committed, 333U);
      EXPECT_EQ(info.hit_tokens, 0U);
      go_on_from(reader, sequence, more);
    }
  }
}

void put(uint64_t value, size_t at, std::vector<uint8_t>* bytes) {
  for (size_t i = 0; i < 8; ++i) (*bytes)[at + i] = static_cast<uint8_t>(value >> 8 * i);
}

// Headers that somebody made up, with checksums that fit: an error or not, but nothing is read or written that is not there.
TEST(SessionHostile, NumbersThatWereMadeUp) {
  Party writer(of(all_kinds())), reader(of(all_kinds(), 2));
  const auto parts = cut(writer.save(count_text(1, 200)));
  std::mt19937_64 rng(3);
  uint64_t refused = 0;
  for (int i = 0; i < 1000; ++i) {
    auto made = parts;
    std::vector<uint8_t>& part = made[rng() % made.size()];
    const bool is_manifest = &part == made.data();
    const size_t header = is_manifest ? part.size() : number_at(part, 12, 4);
    // Numbers of all sizes, in the places of numbers and elsewhere.
    const uint64_t numbers[] = {0, 1, rng() % 64, rng() % 70'000, uint64_t{1} << rng() % 64, ~(rng() % 64), rng()};
    for (uint64_t n = 1 + rng() % 2; n > 0; --n) {
      const size_t at = 24 + rng() % (std::min<size_t>(header, 700) - 32);
      if (rng() % 2 == 0) {
        part[at] = static_cast<uint8_t>(rng());
      } else {
        put(numbers[rng() % 7], at / 8 * 8, &part);
      }
    }
    if (is_manifest) {
      put(XXH3_64bits(part.data() + 40, part.size() - 40), 24, &part);
    } else {
      put(0, 16, &part);
      put(XXH3_64bits(part.data(), header), 16, &part);
    }
    SCOPED_TRACE(i);
    quire_session_info info{};
    std::string message;
    const quire_sequence_id sequence = reader.engine.open();
    const quire_code code = reader.engine.try_restore(sequence, join(made), &info, &message);
    EXPECT_NE(code, QUIRE_INTERNAL) << message;
    EXPECT_TRUE(code == QUIRE_OK || reader.engine.info(sequence).reserved == 0);
    refused += code == QUIRE_OK ? 0 : 1;
    reader.engine.finish(sequence);
    EXPECT_EQ(reader.engine.cache_stats().loads, 0U);
    reader.engine.forget_all();
  }
  EXPECT_GT(refused, 300U);
}

// Any plan to any other one, damaged or not, into a cache that has any part of it: right bytes, and all of them where nothing lacks.
TEST(SessionHostile, AnyPlanToAnyOther) {
  std::mt19937_64 rng(5);
  const auto one_of = [&](auto... values) {
    const std::array all = {values...};
    return all[rng() % all.size()];
  };
  uint64_t whole = 0, shorter = 0;
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const bool alike = rng() % 2 == 0;  // then one order is for all layers
    std::vector<quire_layer> layers = {full_layer(2, alike ? 8 : one_of(8U, 16U))};
    for (uint64_t n = rng() % 4; n > 0; --n) {
      const std::array<quire_layer, 4> kinds = {alike ? full_layer() : full_layer(4, one_of(8U, 16U)),
                                                window_layer(one_of(40U, 96U, 128U), rng() % 2 * 4), chunked_layer(128), state_layer()};
      layers.push_back(kinds[rng() % 4]);
      const bool can_draft = layers.back().kind == QUIRE_LAYER_FULL || layers.back().kind == QUIRE_LAYER_SLIDING_WINDOW;
      if (!can_draft || rng() % 3 != 0) continue;
      layers.back().flags = QUIRE_LAYER_DRAFT;
      layers.back().look_ahead = 1 + rng() % 3;
    }
    const auto plan = [&] {
      EngineOptions options = of(layers, one_of(1, 2, 4));
      options.block = one_of(16, 32, 64);
      if (alike) options.layout = one_of("", "BPJKHTD", "BJPKTHD");
      options.pages = 640;
      return options;
    };
    const EngineOptions from = plan(), to = plan();
    SCOPED_TRACE(std::to_string(i) + ": " + std::to_string(from.ranks) + " x " + std::to_string(from.block) + " " + from.layout + " to " +
                 std::to_string(to.ranks) + " x " + std::to_string(to.block) + " " + to.layout);
    Party writer(from), reader(to);
    const Text text = count_text(1, 1 + rng() % 500), more = with_more(text, 40);
    auto parts = cut(writer.save(text));
    const bool is_damaged = rng() % 2 == 0;
    for (size_t k = 1; is_damaged && k < parts.size(); ++k) {
      const size_t payload = number_at(parts[k], 24, 8);
      if (rng() % 2 == 0) parts[k][parts[k].size() - 1 - rng() % payload] ^= 4;
    }
    if (rng() % 3 == 0) reader.engine.compute(Text(more.begin(), more.begin() + 1 + static_cast<std::ptrdiff_t>(rng() % text.size())));
    quire_session_info info{};
    const quire_sequence_id sequence = reader.engine.restore(join(parts), more, &info);
    EXPECT_EQ(info.num_tokens, text.size());
    EXPECT_TRUE(is_damaged || info.num_damaged == 0);
    (info.committed == text.size() ? whole : shorter) += 1;
    EXPECT_TRUE(is_damaged || to.block > 16 || info.committed == text.size()) << info.committed;
    go_on_from(reader, sequence, more);
    reader.engine.compute(more);  // what others find is right, too
  }
  EXPECT_GT(whole, 50U);
  EXPECT_GT(shorter, 50U);
}

}  // namespace
}  // namespace quire::test
