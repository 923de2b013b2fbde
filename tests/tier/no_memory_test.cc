// Memory of the host that runs out inside a call of the tiers: every allocation fails once, or all from one on. Nothing wrong is read,
// nothing is left behind, every fetch ends, and the same works afterwards.
#include <algorithm>

#include "tests/tier/spared_store.h"
#include "tests/tier/tier_rig.h"
#include "tests/unit/allocations.h"
#include "tests/unit/full_size.h"

namespace quire::test {
namespace {

constexpr size_t kTurns = 400;
// Optimised builds let every allocation fail, others some of them.
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
constexpr int64_t kStep = 11;
#else
constexpr int64_t kStep = 1;
#endif

// To the next allocation that fails. Those from which on all fail are alike: every third of them.
int64_t step(bool for_ever) { return for_ever ? kStep * static_cast<int64_t>(full_or(1, 3)) : kStep; }

class Short {
 public:
  explicit Short(bool for_ever) : for_ever_(for_ever) {}

  // Makes a call in which the allocation of choice may fail.
  template <typename Call>
  quire_code operator()(Call call) {
    for_ever = for_ever_;
    until = left_;
    armed = true;
    const quire_code code = call();
    armed = false;
    left_ = until;
    return code;
  }
  void begin(int64_t after) {
    left_ = after;
    failed = 0;
  }

 private:
  bool for_ever_;
  int64_t left_ = 0;
};

// Before the first runtime. The library that stands in for a GPU's does not bear it.
bool is_registered() {
  static const bool kRegistered =
      quire_register_connector(spared_store_query, nullptr) == QUIRE_OK && (!is_on_device() || only_those_of("libquire.so"));
  return kRegistered;
}

struct Case {
  const char* name;
  EngineOptions writer, reader;
  uint32_t flags = QUIRE_CONNECTOR_RANGES;
};

std::vector<Case> cases() {
  EngineOptions plain;
  plain.connector = "spared_store";
  plain.layers = {full_layer(), state_layer(), window_layer(40, 4)};
  plain.event_ring_bytes = 1 << 17;
  EngineOptions other = plain;
  other.block = 32;
  other.layout = "BPJKHTD";
  EngineOptions ranks = plain, others = plain;
  ranks.layers[1] = others.layers[1] = cut_state_layer();
  ranks.ranks = 2;
  others.others = {2};
  return {{"as it is", plain, plain},
          {"from records of two ranks", ranks, others},
          {"from records that are arranged otherwise", plain, other},
          {"through regions", plain, other, QUIRE_CONNECTOR_RANGES | QUIRE_CONNECTOR_REGISTERS}};
}

// One fetch in which memory is short. False: no allocation failed, so all were tried.
bool fetch_once(Clock& clock, const Case& c, FakeStore& store, const Text& text, int64_t after, bool for_ever) {
  Engine engine(clock, c.reader, {&store});
  const quire_sequence_id sequence = engine.open();
  Short short_of(for_ever);
  short_of.begin(after);
  quire_fetch_id fetch = 0;
  quire_fetch_result got{};
  quire_code code = short_of([&] { return quire_fetch_begin(engine.tiers(), sequence, text.data(), text.size(), 0, &fetch, nullptr); });
  EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
  if (code != QUIRE_OK) fetch = engine.begin(sequence, text);
  for (size_t turn = 0; turn < kTurns && got.fetch == 0; ++turn) {
    uint64_t n = 0;
    const auto call = [&] { return quire_tiers_run(engine.tiers(), 0, &got, 1, &n, nullptr); };
    code = for_ever && turn > 6 ? call() : short_of(call);  // it comes back
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
    if (code != QUIRE_OK) got = {};
    clock.now += 100'000;
  }
  const bool any = failed > 0;
  EXPECT_EQ(got.fetch, fetch);
  EXPECT_EQ(got.committed, engine.info(sequence).committed);
  EXPECT_TRUE(any || got.outcome == QUIRE_FETCH_DONE) << got.outcome;
  if (got.committed > 0) engine.check(sequence, text);
  engine.go_on(sequence, text);
  engine.finish(sequence);
  engine.settle();
  engine.expect_nothing_left();
  engine.forget_all();
  const quire_sequence_id again = engine.open();
  EXPECT_GE(engine.fetch(again, text).committed, 256U);
  return any;
}

// One store in which memory is short.
bool store_once(Clock& clock, const Case& c, const Text& text, int64_t after, bool for_ever) {
  FakeStore store({.flags = c.flags});
  Engine engine(clock, c.writer, {&store});
  engine.compute(text);
  Short short_of(for_ever);
  short_of.begin(after);
  for (size_t turn = 0; turn < 6; ++turn) {
    uint64_t n = 0;
    const quire_code code = short_of([&] { return quire_tiers_run(engine.tiers(), 0, nullptr, 0, &n, nullptr); });
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
  }
  const bool any = failed > 0;
  engine.settle();
  const quire_tier_stats s = engine.tier();
  EXPECT_EQ(s.units_stored + s.units_dropped, engine.stats().units_taken);
  EXPECT_TRUE(any || s.units_dropped == 0) << s.units_dropped;
  engine.expect_nothing_left();
  for (const std::string& violation : store.violations()) ADD_FAILURE() << violation;
  engine.forget_all();
  const quire_sequence_id sequence = engine.open();
  engine.fetch(sequence, text);  // what came is checked
  engine.go_on(sequence, text);
  engine.finish(sequence);
  return any;
}

TEST(TierMemory, EveryAllocationOfAFetchFails) {
  ASSERT_TRUE(is_registered());
  for (const Case& c : cases()) {
    for (const bool for_ever : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (for_ever ? ", all from one on" : ""));
      Clock clock;
      FakeStore store({.flags = c.flags});
      const Text text = count_text(1, 300);
      {
        Engine engine(clock, c.writer, {&store});
        engine.compute(text);
        engine.settle();
      }
      int64_t after = 0;
      while (fetch_once(clock, c, store, text, after, for_ever) && !::testing::Test::HasFailure()) after += step(for_ever);
      EXPECT_GT(after, 20);
      for (const std::string& violation : store.violations()) ADD_FAILURE() << violation;
      if (HasFailure()) FAIL() << "allocation " << after;
    }
  }
}

TEST(TierMemory, EveryAllocationOfAStoreFails) {
  ASSERT_TRUE(is_registered());
  for (const Case& c : cases()) {
    for (const bool for_ever : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (for_ever ? ", all from one on" : ""));
      Clock clock;
      const Text text = count_text(1, 300);
      int64_t after = 0;
      while (store_once(clock, c, text, after, for_ever) && !::testing::Test::HasFailure()) after += step(for_ever);
      EXPECT_GT(after, 10);
      if (HasFailure()) FAIL() << "allocation " << after;
    }
  }
}

// One offer in which memory is short: there is none then, or it is whole. False: no allocation failed.
bool offer_once(Clock& clock, const Case& c, const Text& text, int64_t after, bool for_ever) {
  FakeStoreOptions peers;
  peers.offers = true;
  FakeStore store(peers);
  EngineOptions writer = c.writer, reader = c.reader;
  writer.is_peers = reader.is_peers = true;
  writer.event_ring_bytes = reader.event_ring_bytes = 0;
  Engine engine(clock, writer, {&store}), other(clock, reader, {&store});
  const quire_sequence_id sequence = engine.open();
  engine.go_on(sequence, Text(text.begin(), text.begin() + 288));
  Short short_of(for_ever);
  short_of.begin(after);
  quire_offer offer{};
  const quire_code code = short_of([&] { return engine.try_offer(sequence, text, &offer, nullptr); });
  EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
  for (size_t turn = 0; turn < 6; ++turn) {
    uint64_t n = 0;
    (void)short_of([&] { return quire_tiers_run(engine.tiers(), 0, nullptr, 0, &n, nullptr); });
  }
  const bool any = failed > 0, is_ready = code == QUIRE_OK && engine.is_ready(offer);
  EXPECT_TRUE(any || is_ready);
  if (!is_ready) {
    engine.settle();
    engine.expect_nothing_left();
    offer = engine.offer(sequence, text);
  }
  EXPECT_EQ(other.fetch_from(offer, other.open(), text).committed, 288U);
  engine.settle();
  engine.expect_nothing_left();
  for (const std::string& violation : store.violations()) ADD_FAILURE() << violation;
  return any;
}

// The same of one that grows, and of the fetch that waits for it: it brings all or less, and nothing is left.
bool grow_once(Clock& clock, const Case& c, const Text& text, int64_t after, bool for_ever) {
  FakeStoreOptions peers;
  peers.offers = true;
  FakeStore store(peers);
  EngineOptions writer = c.writer, reader = c.reader;
  writer.is_peers = reader.is_peers = reader.waits_for_offers = true;
  writer.event_ring_bytes = reader.event_ring_bytes = 0;
  Engine engine(clock, writer, {&store}), other(clock, reader, {&store});
  const quire_sequence_id source = engine.open(), sequence = other.open();
  const auto compute_to = [&](int64_t tokens) { engine.go_on(source, Text(text.begin(), text.begin() + tokens)); };
  quire_offer offer{};
  EXPECT_EQ(engine.try_offer(source, text, &offer, nullptr, 0, 288), QUIRE_OK);
  for (int turn = 0; turn < 4; ++turn) EXPECT_TRUE(engine.run().empty());
  quire_fetch_id fetch = 0;
  quire_fetch_result result{};
  uint64_t n = 0;
  Short short_of(for_ever);
  short_of.begin(after);
  const quire_code code = short_of([&] { return other.try_from(offer, sequence, text, &fetch); });
  EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
  for (int turn = 0; turn < 40; ++turn) {
    if (turn == 10) compute_to(150);
    if (turn == 20) compute_to(288);
    uint64_t m = 0;
    (void)short_of([&] { return quire_tiers_run(engine.tiers(), 0, nullptr, 0, &m, nullptr); });
    if (n == 0) (void)short_of([&] { return quire_tiers_run(other.tiers(), 0, &result, 1, &m, nullptr); });
    n += m;
    clock.now += 1'000'000;
  }
  const bool any = failed > 0;
  if (code == QUIRE_OK && n == 0) result = other.wait();
  EXPECT_TRUE(code != QUIRE_OK || other.info(sequence).committed == result.committed);
  EXPECT_TRUE(any || result.committed == 288);
  other.go_on(sequence, text);
  (void)engine.withdraw(offer);
  engine.settle();
  other.settle();
  engine.expect_nothing_left();
  other.expect_nothing_left();
  for (const std::string& violation : store.violations()) ADD_FAILURE() << violation;
  return any;
}

// once: as offer_once.
void fail_every_allocation(bool (*once)(Clock&, const Case&, const Text&, int64_t, bool)) {
  ASSERT_TRUE(is_registered());
  for (const Case& c : {cases()[0], cases()[1]}) {
    for (const bool for_ever : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (for_ever ? ", all from one on" : ""));
      Clock clock;
      const Text text = count_text(1, 300);
      int64_t after = 0;
      const int64_t next = is_on_device() ? std::max<int64_t>(kStep, 19) : step(for_ever);  // without a GPU this is slow
      while (once(clock, c, text, after, for_ever) && !::testing::Test::HasFailure()) after += next;
      EXPECT_GT(after, 10);
      if (::testing::Test::HasFailure()) FAIL() << "allocation " << after;
    }
  }
}

TEST(TierMemory, EveryAllocationOfAnOfferThatGrowsFails) { fail_every_allocation(grow_once); }

TEST(TierMemory, EveryAllocationOfAnOfferFails) { fail_every_allocation(offer_once); }

// One save, or one restore, in which memory is short. The same works afterwards.
bool save_once(Engine& engine, quire_sequence_id sequence, const Text& text, const std::vector<uint8_t>& expected, int64_t after,
               bool for_ever) {
  Short short_of(for_ever);
  short_of.begin(after);
  engine.around = short_of;
  std::vector<uint8_t> session;
  quire_session_info info{};
  std::string message;
  const quire_code code = engine.try_save(sequence, text, UINT64_MAX, &session, &info, &message);
  const bool any = failed > 0;
  engine.around = nullptr;
  EXPECT_EQ(code, any ? QUIRE_RESOURCE_EXHAUSTED : QUIRE_OK) << message;
  EXPECT_EQ(engine.cache_stats().holds, 0U);
  engine.verify();
  EXPECT_EQ(engine.save(sequence, text).size(), expected.size());
  return any;
}

bool restore_once(Engine& engine, const Text& text, const std::vector<uint8_t>& session, int64_t after, bool for_ever) {
  const quire_sequence_id sequence = engine.open();
  Short short_of(for_ever);
  short_of.begin(after);
  engine.around = short_of;
  quire_session_info info{};
  std::string message;
  const quire_code code = engine.try_restore(sequence, session, &info, &message);
  const bool any = failed > 0;
  engine.around = nullptr;
  EXPECT_EQ(code, any ? QUIRE_RESOURCE_EXHAUSTED : QUIRE_OK) << message;
  EXPECT_EQ(engine.cache_stats().loads, 0U);
  EXPECT_EQ(engine.info(sequence).reserved, any ? 0U : info.num_tokens);
  engine.verify();
  if (any) {
    EXPECT_EQ(engine.try_restore(sequence, session, &info, &message), QUIRE_OK) << message;
  }
  EXPECT_EQ(info.committed, info.num_tokens);
  engine.go_on(sequence, text);
  engine.finish(sequence);
  engine.forget_all();
  return any;
}

TEST(TierMemory, EveryAllocationOfASessionFails) {
  for (const Case& c : {cases()[0], cases()[2]}) {
    for (const bool for_ever : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (for_ever ? ", all from one on" : ""));
      Clock clock;
      const Text text = count_text(1, 300);
      Text more = text;
      for (quire_symbol s = 0; s < 20; ++s) more.push_back(5000 + s);
      Engine writer(clock, c.reader, {}), reader(clock, c.writer, {});  // its blocks are not longer
      const quire_sequence_id sequence = writer.open();
      writer.go_on(sequence, text);
      const std::vector<uint8_t> session = writer.save(sequence, text);
      int64_t after = 0;
      while (save_once(writer, sequence, text, session, after, for_ever) && !HasFailure()) after += step(for_ever);
      EXPECT_GT(after, 20);
      after = 0;
      while (restore_once(reader, more, session, after, for_ever) && !HasFailure()) after += step(for_ever);
      EXPECT_GT(after, 20);
      if (HasFailure()) FAIL() << "allocation " << after;
    }
  }
}

// The last reference goes while nothing can be allocated.
TEST(TierMemory, TiersEndWithoutMemory) {
  ASSERT_TRUE(is_registered());
  const Case c = cases()[0];
  Clock clock;
  FakeStore store;
  const Text text = count_text(1, 300);
  {
    Engine engine(clock, c.writer, {&store});
    engine.compute(text);
    engine.settle();
  }
  for (size_t turns = 0; turns < 8; ++turns) {
    Engine engine(clock, c.reader, {&store});
    const quire_sequence_id sequence = engine.open();
    engine.begin(sequence, text);
    for (size_t turn = 0; turn < turns; ++turn) engine.run();
    engine.compute(count_text(1000, 200));
    until = 0;
    for_ever = true;
    armed = true;
    engine.drop_tiers();
    armed = for_ever = false;
    EXPECT_EQ(engine.cache_stats().holds, 0U);
    EXPECT_EQ(engine.cache_stats().loads, 0U);
    engine.verify();
    if (engine.info(sequence).committed > 0) engine.check(sequence, text);
    engine.go_on(sequence, text);
  }
  for (const std::string& violation : store.violations()) ADD_FAILURE() << violation;
}

}  // namespace
}  // namespace quire::test
