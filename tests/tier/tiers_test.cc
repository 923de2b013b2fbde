// What tiers are created from, and what they refuse.
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

TEST(Tiers, RefuseWhatTheyCannotServe) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer()};
  Engine engine(clock, o, {&store});
  quire_error err = QUIRE_INIT(quire_error);
  quire_fetch_id fetch = 0;
  const Text text = count_text(1, 100);
  EXPECT_EQ(quire_fetch_begin(engine.tiers(), 99, text.data(), text.size(), 0, &fetch, &err), QUIRE_NOT_FOUND);
  const quire_sequence_id sequence = engine.open();
  engine.go_on(sequence, text);
  EXPECT_EQ(quire_fetch_begin(engine.tiers(), sequence, text.data(), text.size(), 0, &fetch, &err), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(quire_fetch_begin(engine.tiers(), engine.open(), text.data(), 0, 0, &fetch, &err), QUIRE_INVALID_ARGUMENT);
  quire_tier_stats stats = QUIRE_INIT(quire_tier_stats);
  EXPECT_EQ(quire_tiers_get_tier_stats(engine.tiers(), 1, &stats, &err), QUIRE_OUT_OF_RANGE);
}

// A store that takes small objects only gets shorter units; all of them fit.
TEST(Tiers, UnitsAreAsShortAsAStoreWants) {
  Clock clock;
  const Text text = count_text(1, 700);
  for (const uint64_t most : {16384U, 24576U, 65536U}) {
    SCOPED_TRACE(most);
    FakeStore small({.max_object_bytes = most}), large;
    EngineOptions o;
    o.layers = {full_layer(), window_layer(40, 4), full_layer()};
    o.unit = 0;
    Engine engine(clock, o, {&large, &small});
    EXPECT_LT(engine.stats().unit_tokens, 4096U);
    engine.compute(text);
    engine.settle();
    EXPECT_GT(engine.tier(1).objects_stored, 0U);
    EXPECT_EQ(engine.tier(1).units_dropped, 0U);
    EXPECT_EQ(engine.tier(1).times_closed, 0U);
    for (const std::string& key : small.keys()) EXPECT_LE(small.get(key)->size(), most);
    engine.forget_all();
    EXPECT_GT(engine.fetch(engine.open(), text).committed, 500U);
  }
}

TEST(Tiers, RefuseUnitsThatAStoreCannotTake) {
  Clock clock;
  FakeStore store({.max_object_bytes = 8192});
  EngineOptions o;
  o.layers = {full_layer(8, 64)};
  o.tiers_may_fail = true;
  o.unit = 64;
  const Engine given(clock, o, {&store});
  EXPECT_EQ(given.tiers_error().code, QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(given.tiers_error().message).find("at most 8192"), std::string::npos) << given.tiers_error().message;
  o.unit = 0;  // one block alone is too much
  const Engine chosen(clock, o, {&store});
  EXPECT_EQ(chosen.tiers_error().code, QUIRE_UNIMPLEMENTED);
  EXPECT_EQ(chosen.tiers(), nullptr);
}

// Records of shorter blocks can lack tokens of a block of ours that a window or its sinks do not need. Whoever resumes elsewhere needs
// them.
TEST(Tiers, NobodyFindsABlockOfWhichAPartCame) {
  for (const uint32_t sinks : {0U, 10U}) {
    SCOPED_TRACE(sinks);
    Clock clock;
    FakeStore store;
    EngineOptions o;
    o.layers = {window_layer(48, sinks)};
    const Text text = count_text(1, 300);
    Engine writer(clock, o, {&store});
    writer.compute(text);
    writer.settle();
    o.block = 32;
    Engine reader(clock, o, {&store});
    uint64_t bytes = 0;
    for (int turns = 0; turns < 3; ++turns) {
      const quire_sequence_id sequence = reader.open();
      const quire_fetch_result got = reader.fetch(sequence, text);
      // Of 256 tokens the window begins at 209, the record at 208, the block at 192. Of 64 sinks and window are all.
      EXPECT_LE(got.committed, sinks == 0 ? 0U : 64U);
      reader.finish(sequence);
      EXPECT_TRUE(turns == 0 || sinks != 0 || reader.tier().bytes_loaded == bytes) << "it asks for what it cannot use";
      bytes = reader.tier().bytes_loaded;
    }
    EXPECT_EQ(reader.tier().objects_missing, 1U);
    const Text own = count_text(5000, 300);  // its own records are read nevertheless
    reader.compute(own);
    reader.settle();
    reader.forget_all();
    EXPECT_EQ(reader.fetch(reader.open(), own).committed, 256U);
    for (size_t n = 290; n > 60; n -= 32) reader.compute(Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n)));
    EXPECT_TRUE(store.violations().empty());
  }
}

// A store that takes no more just now works; nothing is lost, and it is not closed.
TEST(Tiers, AskAgainWhereAStoreIsFull) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer()};
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 700);
  engine.compute(text);
  for (int turns = 0; turns < 12; ++turns) {
    store.accept_next(0, QUIRE_RESOURCE_EXHAUSTED);
    engine.run();
  }
  engine.settle();
  EXPECT_EQ(engine.tier().units_stored, 10U);
  EXPECT_EQ(engine.tier().units_dropped, 0U);
  EXPECT_EQ(engine.tier().times_closed, 0U);
}

// Units that meet a full connector count until they are written.
TEST(Tiers, HoldNoMoreThanTheyMay) {
  Clock clock;
  FakeStore store({.max_in_flight = 2});
  store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = seen.ticket.kind == QUIRE_TICKET_STORE; });
  EngineOptions o;
  o.layers = {full_layer()};
  o.max_store_bytes = 40'000;
  Engine engine(clock, o, {&store});
  engine.compute(count_text(1, 1300));  // 20 units of 8 KiB and more
  for (int turns = 0; turns < 10; ++turns) engine.run();
  EXPECT_LE(engine.tier().bytes_in_flight, 40'000U);
  EXPECT_LE(engine.stats().units_in_flight, 6U);
  store.set_script(nullptr);
  for (int turns = 0; turns < 100; ++turns) {
    store.release_all();
    engine.run();
  }
  engine.settle();
  EXPECT_EQ(engine.tier().bytes_in_flight, 0U);
  EXPECT_EQ(engine.tier().units_dropped, 0U);
  EXPECT_EQ(engine.cache_stats().holds, 0U);
}

// However many records it had on their way.
TEST(Tiers, CountALateFetchOnce) {
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40), full_layer()};
  o.pages = 1500;  // those of late transfers are not there
  Forgotten f(o, 1300);
  auto& [clock, store, engine, text] = f;
  store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = fate->deaf = seen.ticket.kind == QUIRE_TICKET_LOAD; });
  for (int fetches = 1; fetches <= 5; ++fetches) {
    engine.begin(engine.open(), text);
    const uint64_t loads = store.counts().accepted[QUIRE_TICKET_LOAD];
    for (int turns = 0; turns < 1000 && store.counts().accepted[QUIRE_TICKET_LOAD] == loads; ++turns) EXPECT_TRUE(engine.run().empty());
    clock.now += 11'000'000'000;  // nothing is known of tier and model
    const std::vector<quire_fetch_result> results = engine.run();
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].outcome, QUIRE_FETCH_LATE);
    EXPECT_EQ(engine.tier().times_closed, fetches < 5 ? 0U : 1U) << fetches;
  }
  store.release_all();
  engine.settle();
  EXPECT_EQ(engine.stats().quarantined, 0U);
}

// The last bit of each payload: the header is whole. What is damaged is removed.
TEST(Tiers, SeeOneBitOfThePayload) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer()};
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 300);
  engine.compute(text);
  engine.settle();
  const std::vector<std::string> keys = store.keys();
  ASSERT_EQ(keys.size(), 4U);
  for (const std::string& key : keys) EXPECT_TRUE(store.flip(key, 8 * store.get(key)->size() - 1));
  engine.forget_all();
  const quire_fetch_result got = engine.fetch(engine.open(), text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_FAILED);
  EXPECT_EQ(got.committed, 0U);
  EXPECT_EQ(engine.tier().objects_damaged, 4U);
  engine.settle();
  EXPECT_TRUE(store.keys().empty());
}

TEST(Tiers, LeaveATokenToCompute) {
  EngineOptions o;
  o.layers = {full_layer()};
  Forgotten f(o, 256);
  auto& [clock, store, engine, text] = f;
  EXPECT_EQ(engine.fetch(engine.open(), text).committed, 192U);
}

}  // namespace
}  // namespace quire::test
