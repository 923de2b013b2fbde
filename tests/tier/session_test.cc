// Sessions: what one engine saves another one goes on from, whatever its blocks, orders and ranks; every byte is checked.
#include <algorithm>
#include <random>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

std::vector<quire_layer> hybrid() { return {full_layer(), state_layer(), full_layer(4, 16), state_layer()}; }
std::vector<quire_layer> windowed() { return {full_layer(), window_layer(96, 4), window_layer(96, 4)}; }
std::vector<quire_layer> all_kinds() { return {full_layer(), window_layer(96), chunked_layer(128), state_layer()}; }

EngineOptions of(std::vector<quire_layer> layers) {
  EngineOptions options;
  options.layers = std::move(layers);
  return options;
}

// A sequence that has computed the text but for its last token.
struct Writer {
  Clock clock;
  FakeStore store;
  Engine engine;
  const Text text;
  quire_sequence_id sequence;

  Writer(EngineOptions options, size_t tokens) : engine(clock, std::move(options), {&store}), text(count_text(1, tokens)) {
    engine.drop_tiers();
    sequence = engine.open();
    engine.go_on(sequence, text);
  }
};

struct Reader {
  Clock clock;
  FakeStore store;
  Engine engine;

  explicit Reader(EngineOptions options) : engine(clock, std::move(options), {&store}) { engine.drop_tiers(); }
};

Text with_more(Text text, size_t n) {
  for (size_t i = 0; i < n; ++i) text.push_back(static_cast<quire_symbol>(5000 + i));
  return text;
}

void expect_whole(const EngineOptions& from, const EngineOptions& to, size_t tokens) {
  Writer writer(from, tokens);
  const std::vector<uint8_t> session = writer.engine.save(writer.sequence, writer.text);
  writer.engine.go_on(writer.sequence, with_more(writer.text, 40));  // it goes on, too
  Reader reader(to);
  quire_session_info info{};
  const Text more = with_more(writer.text, 70);
  const quire_sequence_id sequence = reader.engine.restore(session, more, &info);
  EXPECT_EQ(info.num_tokens, tokens);
  EXPECT_EQ(info.committed, tokens);
  EXPECT_EQ(info.num_damaged, 0u);
  EXPECT_EQ(info.bytes, session.size());
  reader.engine.go_on(sequence, more);
  reader.engine.finish(sequence);
}

TEST(Session, GoesOnInAnotherCache) {
  for (const auto& layers : {hybrid(), windowed(), all_kinds()}) {
    for (const size_t tokens : {1, 15, 16, 17, 333, 1024}) {
      SCOPED_TRACE(tokens);
      expect_whole(of(layers), of(layers), tokens);
    }
  }
}

TEST(Session, GoesOnUnderAnotherPlan) {
  EngineOptions from = of(hybrid());
  for (const uint32_t ranks : {1, 2}) {
    for (const uint32_t block : {16, 32, 64}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, blocks of " + std::to_string(block));
      EngineOptions to = of(hybrid());
      to.ranks = ranks;
      to.block = block;
      to.unit = 64;
      expect_whole(from, to, 333);
      expect_whole(to, from, 333);
    }
  }
}

// Other groups and page orders, and more ranks than heads: ranks share them.
TEST(Session, GoesOnInPagesOfAnotherOrder) {
  const EngineOptions from = of(all_kinds());
  for (const char* layout : {"BPJKHTD", "BJPKTHD"}) {
    for (const uint32_t ranks : {1, 2, 4}) {
      SCOPED_TRACE(std::string(layout) + ", " + std::to_string(ranks) + " ranks");
      EngineOptions to = of(all_kinds());
      to.layout = layout;
      to.ranks = ranks;
      expect_whole(from, to, 333);
      expect_whole(to, from, 333);
    }
  }
}

// Blocks of a window that lack tokens nobody needs come whole or not at all (0060): a longer block of the reader is
// computed again, a shorter one is not.
TEST(Session, WindowsGoOnInShorterBlocks) {
  EngineOptions from = of(windowed()), to = of(windowed());
  from.block = 32;
  expect_whole(from, to, 333);
}

// From its first token of the window on a longer block has not all of its tokens: it does not come. Then the sequence
// begins anew, with right bytes.
TEST(Session, WindowsInLongerBlocksComeWholeOrNotAtAll) {
  EngineOptions from = of({full_layer(), window_layer(96)}), to = of({full_layer(), window_layer(96)});
  to.block = 64;
  uint64_t whole = 0, nothing = 0;
  for (size_t tokens = 300; tokens < 364; tokens += 7) {
    Writer writer(from, tokens);
    const std::vector<uint8_t> session = writer.engine.save(writer.sequence, writer.text);
    Reader reader(to);
    quire_session_info info{};
    const Text more = with_more(writer.text, 70);
    const quire_sequence_id sequence = reader.engine.restore(session, more, &info);
    EXPECT_EQ(info.num_damaged, 0u);
    (info.committed == tokens ? whole : nothing) += 1;
    EXPECT_TRUE(info.committed == tokens || info.committed == 0) << info.committed;
    reader.engine.go_on(sequence, more);
    reader.engine.finish(sequence);
    EXPECT_GT(reader.engine.compute(more), 0u);  // whoever finds it is given right bytes, too
  }
  EXPECT_GT(whole, 0u);
  EXPECT_GT(nothing, 0u);
}

TEST(Session, OfNoTokensIsOne) {
  Reader writer(of(hybrid())), reader(of(hybrid()));
  const std::vector<uint8_t> session = writer.engine.save(writer.engine.open(), {});
  quire_session_info info{};
  const quire_sequence_id sequence = reader.engine.restore(session, count_text(1, 50), &info);
  EXPECT_EQ(info.num_tokens, 0u);
  reader.engine.go_on(sequence, count_text(1, 50));
}

TEST(Session, AnotherModelIsNamed) {
  Writer writer(of(hybrid()), 200);
  const std::vector<uint8_t> session = writer.engine.save(writer.sequence, writer.text);
  const auto expect = [&](EngineOptions options, const char* what) {
    Reader reader(std::move(options));
    quire_session_info info{};
    std::string message;
    const quire_sequence_id sequence = reader.engine.open();
    EXPECT_EQ(reader.engine.try_restore(sequence, session, &info, &message), QUIRE_FAILED_PRECONDITION);
    EXPECT_NE(message.find(what), std::string::npos) << message;
    reader.engine.go_on(sequence, count_text(1, 30));
  };
  EngineOptions other = of(hybrid());
  other.weights = "other-weights";
  expect(other, "weights is other-weights here and test-weights there");
  expect(of({full_layer(), state_layer(), full_layer(4, 32), state_layer()}), "layer 2.0 is heads 4, width 32");
  expect(of({full_layer(), state_layer(), full_layer(4, 16)}), "layer 3.0 is missing here and ");
  expect(of({full_layer(), state_layer(), full_layer(4, 16), state_layer(), full_layer()}), " here and missing there");
}

// One byte at a time: an error, or the tokens that are whole; never a wrong byte.
TEST(Session, DamageIsFound) {
  Writer writer(of(all_kinds()), 300);
  const std::vector<uint8_t> session = writer.engine.save(writer.sequence, writer.text);
  Reader reader(of(all_kinds()));
  const Text more = with_more(writer.text, 20);
  std::mt19937_64 rng(11);
  uint64_t refused = 0, shorter = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<uint8_t> bytes = session;
    const size_t at = i < 100 ? static_cast<size_t>(i) * 7 : rng() % bytes.size();
    if (i % 10 == 9) {
      bytes.resize(at);
    } else {
      bytes[at] ^= static_cast<uint8_t>(1u << rng() % 8);
    }
    SCOPED_TRACE("byte " + std::to_string(at));
    quire_session_info info{};
    std::string message;
    const quire_sequence_id sequence = reader.engine.open();
    const quire_code code = reader.engine.try_restore(sequence, bytes, &info, &message);
    reader.engine.check(sequence, more);
    if (code != QUIRE_OK) {
      EXPECT_TRUE(code == QUIRE_DATA_LOSS || code == QUIRE_OUT_OF_RANGE || code == QUIRE_UNIMPLEMENTED) << code << " " << message;
      EXPECT_EQ(reader.engine.info(sequence).committed, 0u);
      ++refused;
    } else if (info.committed < info.num_tokens) {
      EXPECT_GT(info.num_damaged, 0u);
      ++shorter;
    }
    reader.engine.go_on(sequence, more);
    reader.engine.finish(sequence);
    reader.engine.forget_all();
  }
  EXPECT_GT(refused, 50u);
  EXPECT_GT(shorter, 50u);
}

TEST(Session, WhatCannotBeIsRefused) {
  Writer writer(of(hybrid()), 200);
  const std::vector<uint8_t> session = writer.engine.save(writer.sequence, writer.text);
  writer.engine.save(writer.sequence, count_text(1, 100), QUIRE_INVALID_ARGUMENT);
  writer.engine.save(12345, writer.text, QUIRE_NOT_FOUND);
  Reader reader(of(hybrid()));
  quire_session_info info{};
  std::string message;
  EXPECT_EQ(reader.engine.try_restore(77, session, &info, &message), QUIRE_NOT_FOUND);
  const quire_sequence_id sequence = reader.engine.open();
  EXPECT_EQ(reader.engine.try_restore(sequence, session, &info, &message, 199), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(message, "capacity: 199, the session has 200 tokens");
  EXPECT_EQ(reader.engine.try_restore(sequence, session, &info, &message, 200), QUIRE_OK) << message;
  EXPECT_EQ(reader.engine.try_restore(sequence, session, &info, &message), QUIRE_FAILED_PRECONDITION) << message;
  EngineOptions small = of(hybrid());
  small.pages = 98;
  small.may_refuse = true;
  Reader full(small);
  const quire_sequence_id large = full.engine.open(), other = full.engine.open();
  full.engine.go_on(large, count_text(7000, 1390));
  EXPECT_EQ(full.engine.try_restore(other, session, &info, &message), QUIRE_RESOURCE_EXHAUSTED) << message;
  full.engine.finish(large);
  EXPECT_EQ(full.engine.try_restore(other, session, &info, &message), QUIRE_OK) << message;
}

}  // namespace
}  // namespace quire::test
