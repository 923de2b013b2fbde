// Tiers of a pool on a device: a GPU's driver over a library without a GPU, whose memory the host cannot read. What is copied runs when it
// is asked whether it is done, and not before. The other tests of tiers run there, too; these are those of failing devices.
#include "tests/tier/faked_gpu.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40), state_layer()};
  return o;
}

TEST(OnADevice, AStoreThatCannotBeCopiedIsDropped) {
  Clock clock;
  FakeStore store;
  Engine engine(clock, options(), {&store});
  engine.compute(count_text(1, 300));
  fail_launch(1, 2);
  engine.settle();
  EXPECT_EQ(engine.tier().units_dropped, 1U);
  EXPECT_GT(engine.tier().units_stored, 2U);
  engine.expect_nothing_left();
  EXPECT_EQ(engine.tier().times_closed, 0U);
}

TEST(OnADevice, ALoadThatCannotBeCopiedIsNotTheTiersFault) {
  Forgotten f(options(), 300);
  for (int fetches = 0; fetches < 8; ++fetches) {
    const quire_sequence_id sequence = f.engine.open();
    f.engine.begin(sequence, f.text);
    for (int turns = 0; turns < 100 && f.store.counts().accepted[QUIRE_TICKET_LOAD] == 0; ++turns) EXPECT_TRUE(f.engine.run().empty());
    fail_launch(1, 2);
    const quire_fetch_result got = f.engine.wait();
    EXPECT_EQ(got.outcome, QUIRE_FETCH_FAILED) << fetches;
    EXPECT_LT(got.committed, 256U);
    if (got.committed > 0) f.engine.check(sequence, f.text);
    f.engine.finish(sequence);
    f.engine.forget_all();
  }
  EXPECT_EQ(f.engine.tier().times_closed, 0U);
  EXPECT_EQ(f.engine.tier().objects_failed, 8U);
  f.engine.expect_nothing_left();
  EXPECT_EQ(f.fetch().outcome, QUIRE_FETCH_DONE);
}

// A copy is queued, and the driver does not say when it is done: nobody else has its blocks before that.
TEST(OnADevice, ACopyThatCannotBeFollowedHarmsNobody) {
  EngineOptions o;
  o.layers = {full_layer()};
  o.pages = 60;
  o.max_len = 300;
  Forgotten f(o, 70);  // one record
  const quire_sequence_id sequence = f.engine.open();
  f.engine.begin(sequence, f.text);
  for (int turns = 0; turns < 100 && f.store.counts().accepted[QUIRE_TICKET_LOAD] == 0; ++turns) EXPECT_TRUE(f.engine.run().empty());
  hold(true);  // what is queued runs late
  fail_call("cuEventRecord", "hipEventRecord", 1, 2);
  std::vector<quire_fetch_result> results;
  for (int turns = 0; turns < 10 && results.empty(); ++turns) results = f.engine.run();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outcome, QUIRE_FETCH_FAILED);
  f.engine.finish(sequence);
  f.engine.forget_all();
  std::vector<std::pair<quire_sequence_id, Text>> others;
  for (quire_symbol first = 1000; first < 9000; first += 1000) {
    others.emplace_back(f.engine.open(), count_text(first, 100));
    f.engine.go_on(others.back().first, others.back().second);
  }
  hold(false);
  f.engine.settle();
  for (auto& [other, text] : others) {
    text.push_back(7);
    f.engine.check(other, text);
    f.engine.finish(other);
  }
  f.engine.expect_nothing_left();
}

// The request goes on at once; its blocks are free when the device has proved that it writes them no more.
TEST(OnADevice, WhatIsGivenUpDuringItsCopyIsQuarantined) {
  Forgotten f(options(), 300);
  const quire_sequence_id sequence = f.engine.open();
  const quire_fetch_id fetch = f.engine.begin(sequence, f.text);
  for (int turns = 0; turns < 100 && f.engine.stats().quarantined == 0; ++turns) {
    if (f.store.counts().accepted[QUIRE_TICKET_LOAD] > 0) break;
    EXPECT_TRUE(f.engine.run().empty());
  }
  hold(true);
  for (int turns = 0; turns < 10; ++turns) EXPECT_TRUE(f.engine.run().empty());
  EXPECT_EQ(quire_fetch_cancel(f.engine.tiers(), fetch, nullptr), QUIRE_OK);
  const std::vector<quire_fetch_result> results = f.engine.run();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outcome, QUIRE_FETCH_CANCELLED);
  EXPECT_GT(f.engine.stats().quarantined, 0U);
  EXPECT_GT(f.engine.cache_stats().holds, 0U);
  for (int turns = 0; turns < 10; ++turns) EXPECT_TRUE(f.engine.run().empty());
  EXPECT_GT(f.engine.stats().quarantined, 0U);
  hold(false);
  f.engine.settle();
  f.engine.expect_nothing_left();
  f.engine.finish(sequence);
  EXPECT_EQ(f.fetch().outcome, QUIRE_FETCH_DONE);
}

// Nothing is stored before the device says that it was copied, and nothing is lost by that.
TEST(OnADevice, CopiesAreWaitedFor) {
  Clock clock;
  FakeStore store;
  Engine engine(clock, options(), {&store});
  const Text text = count_text(1, 300);
  engine.compute(text);
  hold(true);
  for (int turns = 0; turns < 20; ++turns) {
    engine.run();
    // The kernels are done; copies have a stream of their own.
    EXPECT_EQ(quire_stream_synchronize(engine.stream(0), -1, nullptr), QUIRE_OK);
  }
  EXPECT_EQ(store.counts().accepted[QUIRE_TICKET_STORE], 0U);
  EXPECT_GT(engine.stats().units_in_flight, 2U);
  hold(false);
  engine.settle();
  EXPECT_EQ(engine.tier().units_dropped, 0U);
  engine.forget_all();
  EXPECT_EQ(engine.fetch(engine.open(), text).outcome, QUIRE_FETCH_DONE);
}

TEST(OnADevice, WithoutPinnedMemoryUnitsAreDroppedAndFetchesFail) {
  Clock clock;
  FakeStore store;
  const Text text = count_text(1, 300);
  {
    Engine engine(clock, options(), {&store});
    engine.compute(text);
    fail_pinned(1);
    engine.settle();
    EXPECT_GT(engine.tier().units_dropped, 0U);
    EXPECT_GT(engine.tier().units_stored, 0U);
    engine.expect_nothing_left();
    engine.forget_all();
    engine.compute(text);  // and this time all
    engine.settle();
  }
  Engine other(clock, options(), {&store});
  fail_pinned(1);
  const quire_sequence_id sequence = other.open();
  const quire_fetch_result got = other.fetch(sequence, text);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_FAILED);
  EXPECT_EQ(other.tier().times_closed, 0U);
  other.finish(sequence);
  other.forget_all();
  EXPECT_EQ(other.fetch(other.open(), text).outcome, QUIRE_FETCH_DONE);
  other.expect_nothing_left();
}

// One rank wrote what two read. There is room on the way to both devices before the record is read, or it is not read.
TEST(OnADevice, ARecordForTwoDevicesIsReadWhenThereIsRoomForBoth) {
  EngineOptions o;
  o.layers = {full_layer(2)};
  Forgotten writer(o, 70);  // one record
  o.ranks = 2;
  o.others = {1, 2};
  o.reasons = 0;
  Engine reader(writer.clock, o, {&writer.store});  // which has no pinned memory yet
  for (const uint32_t nth : {1U, 2U}) {
    SCOPED_TRACE(nth);
    fail_pinned(nth);
    const quire_sequence_id sequence = reader.open();
    EXPECT_EQ(reader.fetch(sequence, writer.text).outcome, QUIRE_FETCH_FAILED);
    EXPECT_EQ(writer.store.counts().accepted[QUIRE_TICKET_LOAD], 0U);
    reader.finish(sequence);
    reader.expect_nothing_left();
  }
  EXPECT_EQ(reader.fetch(reader.open(), writer.text).outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(writer.store.counts().accepted[QUIRE_TICKET_LOAD], 1U);
  reader.expect_nothing_left();
}

// A device that is lost takes no request and no tier with it.
TEST(OnADevice, ALostDeviceEndsEverything) {
  for (const uint32_t nth : {1U, 2U, 3U, 5U}) {
    SCOPED_TRACE(nth);
    Clock clock;
    FakeStore store;
    {
      Engine engine(clock, options(), {&store});
      engine.compute(count_text(1, 300));
      fail_call("work", "work", nth, 700);
      for (int turns = 0; turns < 50; ++turns) engine.run();
      EXPECT_EQ(engine.stats().units_in_flight, 0U);
      EXPECT_EQ(engine.cache_stats().holds, 0U);
      EXPECT_GT(engine.tier().units_dropped, 0U);
    }
    revive();
  }
}

TEST(OnADevice, TiersAreReleasedDuringCopies) {
  for (int runs = 0; runs < 6; ++runs) {
    Clock clock;
    FakeStore store;
    Engine engine(clock, options(), {&store});
    const Text text = count_text(1, 300);
    engine.compute(text);
    for (int turns = 0; turns < runs; ++turns) engine.run();
    engine.drop_tiers();
    EXPECT_EQ(engine.cache_stats().holds, 0U);
    Forgotten f(options(), 300);
    f.engine.begin(f.engine.open(), text);
    for (int turns = 0; turns < runs; ++turns) f.engine.run();
    f.engine.drop_tiers();
    EXPECT_EQ(f.engine.cache_stats().holds, 0U);
    EXPECT_EQ(f.engine.cache_stats().loads, 0U);
  }
}

}  // namespace
}  // namespace quire::test
