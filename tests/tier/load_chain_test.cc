// Fetches of prompts that are longer than a load may be.
#include <set>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

// One load after the other, where each may only be so long.
TEST(Fetch, GoesOnWithAnotherLoad) {
  const std::vector<std::vector<quire_layer>> models = {
      {full_layer()},
      {full_layer(), window_layer(40)},
      {full_layer(), chunked_layer(48)},
      {full_layer(), window_layer(20, 6)},
      {full_layer(), state_layer()},
      {full_layer(), state_layer(), window_layer(40), state_layer(), full_layer()},
  };
  for (size_t m = 0; m < models.size(); ++m) {
    for (const uint64_t hit : {uint64_t{0}, uint64_t{128}}) {
      SCOPED_TRACE(std::to_string(m) + " " + std::to_string(hit));
      EngineOptions o;
      o.layers = models[m];
      o.checkpoint_interval = 64;
      o.max_load_tokens = m < 4 ? 160 : 300;  // states are kept at multiples of 256
      Forgotten f(o, 840);
      auto& [clock, store, engine, text] = f;
      if (hit > 0) engine.compute({text.begin(), text.begin() + static_cast<long>(hit) + 1});
      engine.settle();
      const quire_sequence_id sequence = engine.open();
      const quire_fetch_result got = engine.fetch(sequence, text);
      EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
      EXPECT_GE(got.committed, 800U);
      EXPECT_GT(got.bytes, 0U);
      EXPECT_LE(got.hit_tokens, hit + 32);
      EXPECT_GE(got.hit_tokens, hit);
      EXPECT_EQ(engine.stats().outcomes[QUIRE_FETCH_DONE], 1U);
      EXPECT_EQ(engine.stats().tokens_fetched, got.committed - got.hit_tokens);
      engine.check(sequence, text);
      engine.go_on(sequence, text);
      engine.finish(sequence);
      engine.settle();
      engine.expect_nothing_left();
      EXPECT_TRUE(store.violations().empty());
    }
  }
}

// Where a load may be as long as the prompt, or what follows is known to be missing, nobody is asked again.
TEST(Fetch, AsksNoMoreThanItMust) {
  for (const uint64_t most : {uint64_t{0}, uint64_t{320}}) {
    SCOPED_TRACE(most);
    EngineOptions o;
    o.layers = {full_layer()};
    o.max_load_tokens = most;
    Clock clock;
    FakeStore store;
    Engine engine(clock, o, {&store});
    const Text text = count_text(1, 700);
    engine.compute({text.begin(), text.begin() + 201});  // three units of ten
    engine.settle();
    engine.forget_all();
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_result got = engine.fetch(sequence, text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(got.committed, 192U);
    EXPECT_EQ(store.counts().accepted[QUIRE_TICKET_LOOKUP], 1U);
  }
}

// What came before stays, whatever becomes of a later load.
TEST(Fetch, KeepsTheLoadsThatCame) {
  for (const bool damaged : {false, true}) {
    std::set<uint64_t> committed;
    for (size_t which = 0; which < 10; ++which) {
      SCOPED_TRACE(std::to_string(damaged) + " " + std::to_string(which));
      EngineOptions o;
      o.layers = {full_layer()};
      o.max_load_tokens = 128;
      Forgotten f(o, 700);
      auto& [clock, store, engine, text] = f;
      const std::vector<std::string> keys = store.keys();
      ASSERT_EQ(keys.size(), 10U);
      EXPECT_TRUE(damaged ? store.flip(keys[which], 40'000) : store.forget(keys[which]));
      const quire_sequence_id sequence = engine.open();
      const quire_fetch_result got = engine.fetch(sequence, text);
      committed.insert(got.committed);
      const quire_fetch_outcome without = got.committed > 0 ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING;
      EXPECT_EQ(got.outcome, damaged ? QUIRE_FETCH_FAILED : without);
      EXPECT_EQ(got.bytes > 0, got.committed > 0 || damaged);
      engine.go_on(sequence, text);
      engine.finish(sequence);
      engine.settle();
      engine.expect_nothing_left();
      EXPECT_TRUE(store.violations().empty());
    }
    EXPECT_EQ(committed, (std::set<uint64_t>{0, 64, 128, 192, 256, 320, 384, 448, 512, 576}));
  }
}

// Given up between two loads, or in one: the sequence has what came before.
TEST(Fetch, IsGivenUpInALaterLoad) {
  for (uint32_t calls = 0; calls < 40; ++calls) {
    SCOPED_TRACE(calls);
    FakeStoreOptions slow;
    slow.latency_ns = 1'000'000;
    EngineOptions o;
    o.layers = {full_layer(), window_layer(40)};
    o.max_load_tokens = 128;
    Forgotten f(o, 700, slow);
    auto& [clock, store, engine, text] = f;
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_id fetch = engine.begin(sequence, text);
    std::vector<quire_fetch_result> results;
    for (uint32_t i = 0; i < calls && results.empty(); ++i) {
      clock.now += 300'000;
      store.update();
      results = engine.run();
    }
    if (results.empty()) {
      ASSERT_EQ(quire_fetch_cancel(engine.tiers(), fetch, nullptr), QUIRE_OK);
      results = engine.run();
      ASSERT_EQ(results.size(), 1U);
      EXPECT_EQ(results[0].outcome, QUIRE_FETCH_CANCELLED);
    } else {
      EXPECT_EQ(results[0].outcome, QUIRE_FETCH_DONE);
      EXPECT_EQ(results[0].committed, 640U);
    }
    EXPECT_EQ(engine.info(sequence).committed, results[0].committed);
    engine.check(sequence, text);
    engine.go_on(sequence, text);
    engine.finish(sequence);
    engine.settle();
    engine.expect_nothing_left();
    EXPECT_TRUE(store.violations().empty());
  }
}

}  // namespace
}  // namespace quire::test
