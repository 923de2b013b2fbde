// What was computed once comes back through a store: all of it right, of every group what resuming needs, and no more.
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

EngineOptions hybrid() {
  EngineOptions o;
  o.layers = {full_layer(), state_layer(), window_layer(40), state_layer(), full_layer()};
  return o;
}

TEST(Fetch, BringsBackWhatWasForgotten) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer(), full_layer()};
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 300);
  engine.compute(text);
  engine.settle();
  EXPECT_EQ(engine.tier().objects_stored, 4U);
  EXPECT_EQ(engine.tier().units_stored, 4U);
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  engine.forget_all();
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_result got = engine.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 256U);
  EXPECT_EQ(got.hit_tokens, 0U);
  EXPECT_EQ(engine.tier().objects_loaded, 4U);
  engine.go_on(sequence, text);
  engine.finish(sequence);
  // Everything is here now.
  const quire_sequence_id again = engine.open();
  EXPECT_EQ(engine.fetch(again, text).outcome, QUIRE_FETCH_NOTHING);
  EXPECT_EQ(engine.stats().outcomes[QUIRE_FETCH_DONE], 1U);
  EXPECT_TRUE(store.violations().empty());
}

TEST(Fetch, BringsEveryKindOfGroup) {
  const std::vector<std::vector<quire_layer>> models = {
      {full_layer()},
      {window_layer(40)},
      {full_layer(), window_layer(100), window_layer(20, 6)},
      {full_layer(), chunked_layer(48)},
      {state_layer()},
      {full_layer(), state_layer()},
      {full_layer(), state_layer(), window_layer(40), state_layer(), full_layer()},
  };
  for (size_t m = 0; m < models.size(); ++m) {
    SCOPED_TRACE(m);
    EngineOptions o;
    o.layers = models[m];
    Forgotten f(o, 500);
    auto& [clock, store, engine, text] = f;
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_result got = engine.fetch(sequence, text);
    EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
    EXPECT_GE(got.committed, 432U);
    engine.go_on(sequence, text);
    EXPECT_TRUE(store.violations().empty());
  }
}

// With states a unit ends where one was kept, the first unit too.
TEST(Fetch, BringsLessThanAUnitOnlyWhereAStateWasKept) {
  for (const bool states : {false, true}) {
    SCOPED_TRACE(states);
    EngineOptions o;
    o.layers = {full_layer(), states ? state_layer() : full_layer()};
    o.unit = 256;
    Forgotten f(o, 200);
    auto& [clock, store, engine, text] = f;
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_result got = engine.fetch(sequence, text);
    EXPECT_EQ(got.outcome, states ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING);
    EXPECT_EQ(got.committed, states ? 192U : 0U);
    engine.finish(sequence);
  }
}

TEST(Fetch, IsReadByAnotherPlan) {
  Clock clock;
  FakeStore store;
  EngineOptions o = hybrid();
  o.layers[2] = window_layer(64);  // a multiple of all blocks
  Engine writer(clock, o, {&store});
  const Text text = count_text(1, 500);
  writer.compute(text);
  writer.settle();
  for (const uint32_t block : {16u, 32u, 64u}) {
    for (const char* layout : {"", "BPJKHTD", "BJPKTHD"}) {
      SCOPED_TRACE(std::to_string(block) + layout);
      o.block = block;
      o.layout = layout;
      Engine reader(clock, o, {&store});
      const quire_sequence_id sequence = reader.open();
      const quire_fetch_result got = reader.fetch(sequence, text);
      EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
      EXPECT_EQ(got.committed, block == 16 ? 496U : 256U);  // a state was kept at both, and 496 is no boundary of longer blocks
      reader.go_on(sequence, text);
    }
  }
  EXPECT_TRUE(store.violations().empty());
}

TEST(Fetch, IsNotReadByOtherWeights) {
  Clock clock;
  FakeStore store;
  Engine writer(clock, hybrid(), {&store});
  const Text text = count_text(1, 500);
  writer.compute(text);
  writer.settle();
  EngineOptions o = hybrid();
  o.weights = "other-weights";
  Engine reader(clock, o, {&store});
  EXPECT_EQ(reader.fetch(reader.open(), text).outcome, QUIRE_FETCH_NOTHING);
  EXPECT_EQ(reader.tier().keys_found, 0U);
}

TEST(Fetch, MovesOfAWindowItsTail) {
  EngineOptions o;
  o.layers = {full_layer(), window_layer(64)};
  o.pages = 400;
  Forgotten f(o, 1300);
  auto& [clock, store, engine, text] = f;
  const uint64_t before = store.counts().bytes_loaded;
  const quire_fetch_result got = engine.fetch(engine.open(), text);
  ASSERT_EQ(got.committed, 1280U);
  // A token of a layer has 2 sides of 2 heads of 8 elements of 2 bytes; headers have 4096 bytes.
  const uint64_t token = 2 * 2 * 8 * 2, headers = store.counts().accepted[QUIRE_TICKET_LOAD] * 4096;
  EXPECT_LE(store.counts().bytes_loaded - before - headers, token * (1280 + 64 + 64));
}

TEST(Fetch, MovesOnlyTheStateWhereAttentionIsHere) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer(), state_layer()};
  Engine writer(clock, o, {&store});
  const Text text = count_text(1, 500);
  writer.compute(text);
  writer.settle();
  o.keep = QUIRE_KEEP_ASKED;
  Engine reader(clock, o, {&store});
  reader.compute(text);
  const uint64_t loads = store.counts().accepted[QUIRE_TICKET_LOAD];
  const quire_sequence_id sequence = reader.open();
  const quire_fetch_result got = reader.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_GE(got.committed, 448U);
  EXPECT_EQ(store.counts().accepted[QUIRE_TICKET_LOAD] - loads, 1U);
  reader.go_on(sequence, text);
}

TEST(Fetch, OfDamagedRecordsIsNeverWrong) {
  for (const std::string what : {"flip", "truncate", "replace", "forget"}) {
    uint64_t damaged = 0;
    for (size_t which = 0; which < 12; ++which) {
      SCOPED_TRACE(what + std::to_string(which));
      Forgotten f(hybrid(), 300);
      const std::vector<std::string> keys = f.store.keys();
      const size_t n = which * keys.size() / 12;
      if (what == "flip") f.store.flip(keys[n], which * 3001 + 5);
      if (what == "truncate") f.store.truncate(keys[n], 5000 - which * 400);
      if (what == "replace") f.store.replace(keys[n], keys[(n + 1) % keys.size()]);
      if (what == "forget") f.store.forget(keys[n]);
      f.fetch_and_go_on();
      f.engine.settle();
      damaged += f.engine.tier().objects_damaged;
      EXPECT_TRUE(f.store.violations().empty());
    }
    EXPECT_EQ(damaged > 0, what != "forget") << what;
  }
}

TEST(Fetch, EndsByItsDeadlineAndKeepsWhatMayBeWritten) {
  EngineOptions o;
  o.layers = {full_layer()};
  o.pages = 24;
  o.max_len = 320;
  Forgotten f(o, 300);
  auto& [clock, store, engine, text] = f;
  std::vector<uint64_t> loads;
  store.set_script([&](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind != QUIRE_TICKET_LOAD) return;
    fate->held = fate->deaf = true;
    loads.push_back(seen.ticket.ticket);
  });
  const quire_sequence_id sequence = engine.open();
  const int64_t begun = clock.now;
  const quire_fetch_result got = engine.fetch(sequence, text, 200'000'000);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_LATE);
  EXPECT_EQ(got.committed, 0U);
  EXPECT_LE(clock.now - begun, 250'000'000);
  EXPECT_EQ(engine.stats().quarantined, 1U);
  EXPECT_EQ(engine.cache_stats().held_parts, 16U);
  // The request goes on in other blocks; what the transfers write meanwhile hurts nobody.
  const Text shorter = count_text(1, 90);
  const quire_sequence_id other = engine.open();
  engine.go_on(other, shorter);
  for (; loads.size() > 1; loads.pop_back()) store.release(loads.back());
  for (int turns = 0; turns < 10; ++turns) engine.run();
  EXPECT_EQ(engine.cache_stats().held_parts, 16U) << "the last one may still write";
  store.release_all();
  engine.settle();
  EXPECT_EQ(engine.stats().quarantined, 0U);
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  engine.check(other, count_text(1, 91));
  engine.finish(other);
  engine.go_on(sequence, text);
  EXPECT_TRUE(store.violations().empty());
}

TEST(Fetch, IsGivenUpWhenAsked) {
  Forgotten f(hybrid(), 300);
  auto& [clock, store, engine, text] = f;
  store.set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  for (int turns = 0; turns < 4; ++turns) {
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_id fetch = engine.begin(sequence, text);
    for (int i = 0; i < turns; ++i) {
      EXPECT_TRUE(engine.run().empty());
      if (i == 0) store.release_all();
    }
    quire_error err = QUIRE_INIT(quire_error);
    ASSERT_EQ(quire_fetch_cancel(engine.tiers(), fetch, &err), QUIRE_OK) << err.message;
    const std::vector<quire_fetch_result> results = engine.run();
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].outcome, QUIRE_FETCH_CANCELLED);
    EXPECT_EQ(quire_fetch_cancel(engine.tiers(), fetch, &err), QUIRE_NOT_FOUND);
    engine.finish(sequence);
    store.release_all();
    engine.settle();
    EXPECT_EQ(engine.stats().quarantined, 0U);
  }
}

// Asked to stop, a tier did nothing wrong.
TEST(Fetch, GivenUpSaysNothingOfTheTier) {
  Forgotten f(hybrid(), 500);
  auto& [clock, store, engine, text] = f;
  store.set_script([](const SeenTicket&, Fate* fate) { fate->delay_ns = 20'000; });
  const quire_sequence_id sequence = engine.open();
  for (int i = 0; i < 8; ++i) {
    const quire_fetch_id fetch = engine.begin(sequence, text);
    ASSERT_EQ(quire_fetch_cancel(engine.tiers(), fetch, nullptr), QUIRE_OK);
    EXPECT_EQ(engine.run().size(), 1U);
  }
  EXPECT_EQ(engine.tier().is_open, 1U);
  EXPECT_EQ(engine.fetch(sequence, text).outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(engine.tier().times_closed, 0U);
}

// Windows may keep more than resuming reads. Records do not have that, so whoever resumes before the window does not find it.
TEST(Fetch, GivesNobodyWhatNoRecordHas) {
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40)};
  o.policy = "vllm";
  o.retained = 96;
  Forgotten f(o, 300);
  auto& [clock, store, engine, text] = f;
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_result got = engine.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 256U);
  engine.go_on(sequence, text);
  for (size_t n = 260; n > 100; n -= 16) {  // what it reads is checked
    engine.compute(Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n)));
  }
  engine.verify();
}

// Of the first unit the sinks are needed and the last block, and nothing between them.
TEST(Fetch, BringsSinksAndTailOfOneUnit) {
  EngineOptions o;
  o.layers = {window_layer(70, 6)};
  Forgotten f(o, 130);
  auto& [clock, store, engine, text] = f;
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_result got = engine.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 128U);
  EXPECT_EQ(engine.tier().objects_damaged, 0U);
  engine.go_on(sequence, text);
}

// A slow tier holds up nobody: units wait in the cache, which lets them go where it needs their blocks.
TEST(Stores, WaitForASlowTierInTheCache) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer()};
  o.max_store_bytes = 20000;
  Engine engine(clock, o, {&store});
  store.set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  engine.compute(count_text(1, 500));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(engine.run().empty());
  EXPECT_EQ(engine.stats().units_in_flight, 2U);
  EXPECT_LE(engine.tier().bytes_in_flight, 20000U);
  for (quire_symbol first = 1000; first < 9000; first += 1000) engine.compute(count_text(first, 900));
  EXPECT_GT(engine.cache_stats().units_given_up, 0U);
  const uint64_t given_up = engine.cache_stats().units_given_up;
  store.set_script({});
  store.release_all();
  engine.settle();
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  EXPECT_EQ(engine.tier().bytes_in_flight, 0U);
  EXPECT_EQ(engine.tier().units_dropped, 0U);
  EXPECT_EQ(engine.tier().units_stored + given_up, 7U + 8 * 14U);
}

TEST(Stores, GoOnWhenAConnectorIsFullNoMore) {
  Clock clock;
  FakeStore store({.max_in_flight = 2});
  Engine engine(clock, hybrid(), {&store});
  store.set_script([](const SeenTicket&, Fate* fate) { fate->delay_ns = 20'000; });
  const Text text = count_text(1, 500);
  engine.compute(text);
  engine.settle();
  EXPECT_EQ(engine.tier().units_dropped, 0U);
  EXPECT_EQ(engine.tier().times_closed, 0U);
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  engine.forget_all();
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_result got = engine.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 496U);
  engine.go_on(sequence, text);
  EXPECT_EQ(engine.tier().objects_failed, 0U);
  EXPECT_TRUE(store.violations().empty());
}

TEST(Stores, FollowTheReasonsOfTheirTier) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer()};
  o.reasons = QUIRE_UNIT_HIT;
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 200);
  engine.compute(text);
  engine.settle();
  EXPECT_EQ(store.keys().size(), 0U);
  engine.compute(text);
  engine.settle();
  EXPECT_EQ(store.keys().size(), 3U);
  engine.compute(text);
  engine.settle();
  EXPECT_EQ(engine.tier().objects_stored, 3U);  // what is known to be there is not sent again
  EXPECT_EQ(store.counts().accepted[QUIRE_TICKET_STORE], 3U);
}

// What the cache evicts is written before it goes, and nothing else; so every text is found in one or the other.
TEST(Stores, WriteWhatTheCacheEvicts) {
  for (const bool hybrid_layers : {false, true}) {
    SCOPED_TRACE(hybrid_layers);
    Clock clock;
    FakeStore store;
    EngineOptions o;
    o.layers = {full_layer()};
    if (hybrid_layers) o = hybrid();
    o.pages = 240;
    o.flags = QUIRE_CACHE_STRICT_LRU;
    o.reasons = QUIRE_UNIT_EVICTING;
    Engine engine(clock, o, {&store});
    const auto text = [](uint32_t i) { return count_text(1 + 10'000 * i, 193); };
    uint32_t texts = 0;
    for (; engine.cache_stats().evicted_pages == 0; ++texts) {
      engine.compute(text(texts));
      engine.settle();
      ASSERT_LT(texts, 100U);
    }
    EXPECT_LE(engine.tier().units_stored, 3 * texts / 2) << "far more than what is evicted soon";
    for (const uint32_t most = 4 * texts; texts < most; ++texts) {
      engine.compute(text(texts));
      engine.settle();
    }
    const uint64_t stored = engine.tier().units_stored;
    uint64_t hit = 0, brought = 0;
    for (uint32_t i = texts; i > 0; --i) {
      const quire_sequence_id sequence = engine.open();
      const Text wanted = text(i - 1);
      quire_probe_result probe = QUIRE_INIT(quire_probe_result);
      ASSERT_EQ(quire_probe(engine.cache(), nullptr, wanted.data(), wanted.size(), &probe, nullptr), QUIRE_OK);
      const quire_fetch_result got = engine.fetch(sequence, wanted);
      EXPECT_TRUE(got.outcome == QUIRE_FETCH_DONE || got.outcome == QUIRE_FETCH_NOTHING) << got.outcome;
      hit += probe.hit_tokens;
      brought += got.outcome == QUIRE_FETCH_DONE ? got.committed - got.hit_tokens : 0;
      EXPECT_TRUE(got.outcome != QUIRE_FETCH_DONE || got.committed == 192) << got.committed;
      engine.go_on(sequence, wanted);
      engine.finish(sequence);
      engine.settle();
    }
    EXPECT_GE(hit + brought, uint64_t{192} * texts * 95 / 100) << hit << " hit, " << brought << " brought";
    EXPECT_GT(brought, uint64_t{192} * texts / 2);
    EXPECT_LE(stored, 3 * texts);
    EXPECT_EQ(engine.cache_stats().units_given_up, 0U);
    EXPECT_TRUE(store.violations().empty());
  }
}

TEST(Tiers, AreLeftAloneAfterFailures) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer()};
  Engine engine(clock, o, {&store});
  store.set_state(QUIRE_CONNECTOR_DOWN);
  engine.compute(count_text(1, 500));
  engine.settle();
  EXPECT_EQ(engine.tier().is_open, 0U);
  EXPECT_EQ(engine.tier().times_closed, 1U);
  const uint64_t asked = store.counts().submits;
  engine.compute(count_text(1000, 500));
  engine.settle();
  EXPECT_EQ(engine.fetch(engine.open(), count_text(1, 500)).outcome, QUIRE_FETCH_NOTHING);
  EXPECT_EQ(store.counts().submits, asked);
  store.set_state(QUIRE_CONNECTOR_UP);
  clock.now += 6'000'000'000;
  engine.compute(count_text(2000, 500));
  engine.settle();
  EXPECT_EQ(engine.tier().is_open, 1U);
  EXPECT_GT(engine.tier().objects_stored, 0U);
}

TEST(Tiers, TheNearestOneServes) {
  Clock clock;
  FakeStore near, far;
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40)};
  Engine engine(clock, o, {&near, &far});
  const Text text = count_text(1, 300);
  engine.compute(text);
  engine.settle();
  EXPECT_EQ(near.keys(), far.keys());
  engine.forget_all();
  // The near one forgets a part: the rest comes from the far one.
  std::vector<std::string> keys = near.keys();
  for (size_t i = 0; i < keys.size(); i += 2) near.forget(keys[i]);
  const quire_sequence_id sequence = engine.open();
  EXPECT_EQ(engine.fetch(sequence, text).committed, 256U);
  EXPECT_GT(engine.tier(0).objects_loaded, 0U);
  EXPECT_GT(engine.tier(1).objects_loaded, 0U);
}

TEST(Tiers, EndInWhateverTheyAreDoing) {
  Forgotten f(hybrid(), 300);
  auto& [clock, store, engine, text] = f;
  store.set_script([](const SeenTicket&, Fate* fate) { fate->polls = 3; });
  engine.begin(engine.open(), text);
  engine.compute(count_text(700, 200));
  engine.run();
  engine.run();
  engine.drop_tiers();
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  EXPECT_EQ(engine.cache_stats().loads, 0U);
  EXPECT_TRUE(store.violations().empty());
}

}  // namespace
}  // namespace quire::test
