// The counters of a connector, with a clock that the test moves.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/connector/connector_rig.h"

namespace quire::test {
namespace {

uint64_t sum(const uint64_t (&latencies)[32]) { return std::accumulate(latencies, latencies + 32, uint64_t{0}); }

TEST(Stats, CountHowTicketsEnd) {
  Clock clock;
  FakeStore store;
  auto connector = open_store(store, &clock);
  ASSERT_NE(connector, nullptr);
  uint8_t bytes[100] = {};
  uint64_t sizes[3] = {};
  store.put("there", std::vector<uint8_t>(100));
  Batch batch;
  batch.store(1, "new", bytes, 100).store(2, "there", bytes, 60);
  batch.load(3, "there", bytes, 40).load(4, "gone", bytes + 40, 40).load(5, "there", bytes + 80, 20, 90);
  batch.look_up(6, "newnewold", 3, sizes);
  batch.remove(7, "there").remove(8, "held");
  store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = seen.key == "held"; });
  submit_all(*connector, batch);
  quire_connector_stats now = connector->stats();
  EXPECT_EQ(now.num_submitted, 8U);
  EXPECT_EQ(now.num_in_flight, 8U);
  EXPECT_EQ(now.bytes_in_flight, 100U + 60 + 40 + 40 + 20);
  ASSERT_TRUE(connector->cancel(8).ok());
  EXPECT_EQ(poll_now(*connector).size(), 8U);
  now = connector->stats();
  EXPECT_EQ(now.num_in_flight, 0U);
  EXPECT_EQ(now.num_done, 5U);
  EXPECT_EQ(now.num_missing, 1U);
  EXPECT_EQ(now.num_failed, 1U) << "out of the object's range";
  EXPECT_EQ(now.num_cancelled, 1U);
  EXPECT_EQ(now.num_submitted, now.num_in_flight + now.num_done + now.num_missing + now.num_failed + now.num_cancelled);
  EXPECT_EQ(now.bytes_stored, 100U);
  EXPECT_EQ(now.bytes_loaded, 40U);
  EXPECT_EQ(now.bytes_in_flight, 0U);
  EXPECT_EQ(now.num_existed, 1U);
  EXPECT_EQ(now.keys_looked_up, 3U);
  EXPECT_EQ(now.keys_found, 2U);
  EXPECT_EQ(sizes[0], 100U);
  EXPECT_EQ(sizes[2], 0U);
  EXPECT_EQ(sum(now.store_latency), 2U);
  EXPECT_EQ(sum(now.load_latency), 3U);
  EXPECT_EQ(sum(now.lookup_latency), 1U);
}

TEST(Stats, SortLatenciesIntoPowersOfTwo) {
  Clock clock;
  FakeStore store;
  auto connector = open_store(store, &clock);
  ASSERT_NE(connector, nullptr);
  uint64_t number = 0;
  const auto element = [&](int64_t took_ns) {
    uint8_t byte = 0;
    const quire_connector_stats before = connector->stats();
    submit_all(*connector, Batch().load(++number, "gone", &byte, 1));
    clock.now += took_ns;
    EXPECT_EQ(poll_now(*connector).size(), 1U);
    const quire_connector_stats after = connector->stats();
    for (int i = 0; i < 32; ++i) {
      if (after.load_latency[i] != before.load_latency[i]) return i;
    }
    return -1;
  };
  EXPECT_EQ(element(0), 0);
  EXPECT_EQ(element(999), 0);
  EXPECT_EQ(element(1'000), 1);
  EXPECT_EQ(element(1'999), 1);
  EXPECT_EQ(element(2'000), 2);
  EXPECT_EQ(element(1'023'999), 10);
  EXPECT_EQ(element(1'024'000), 11);
  EXPECT_EQ(element(int64_t{1} << 50), 31);
  EXPECT_EQ(element(-5'000), 0) << "a clock that goes backwards";
}

}  // namespace
}  // namespace quire::test
