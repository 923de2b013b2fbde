// Threads that submit, cancel and ask while one polls. ThreadSanitizer watches.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "tests/unit/connector/scripted_connector.h"

namespace quire::test {
namespace {

constexpr uint64_t kThreads = 3;
constexpr uint64_t kTickets = 600;  // of a thread

uint64_t number_of(uint64_t thread, uint64_t i) { return thread << 32 | i; }

// Tickets of one thread, a few at a time, each on bytes of its own.
void submit_many(Connector& connector, uint64_t thread, std::vector<uint8_t>* bytes, std::vector<uint64_t>* sizes) {
  std::mt19937_64 random(thread);
  for (uint64_t next = 0; next < kTickets;) {
    Batch batch;
    for (uint64_t i = next; i < std::min(next + 7, kTickets); ++i) {
      uint8_t* const own = bytes->data() + 16 * i;
      const std::string key = "key " + std::to_string(random() % 40);
      switch (random() % 4) {
        case 0:
          batch.store(number_of(thread, i), key, own, 16);
          break;
        case 1:
          batch.load(number_of(thread, i), key, own, 16);
          break;
        case 2:
          batch.look_up(number_of(thread, i), key, key.size(), &(*sizes)[i]);
          break;
        default:
          batch.remove(number_of(thread, i), key);
      }
    }
    uint64_t accepted = 0;
    const Status status = connector.submit(batch.all(), &accepted);
    ASSERT_TRUE(status.ok()) << status.message();
    next += accepted;
    if (accepted == 0) std::this_thread::yield();
    if (random() % 3 == 0 && next != 0) (void)connector.cancel(number_of(thread, random() % next));
  }
}

struct Workload {
  std::array<std::vector<uint8_t>, kThreads> bytes;
  std::array<std::vector<uint64_t>, kThreads> sizes;
  std::array<std::vector<uint32_t>, kThreads> ends;  // how often each ended

  Workload() {
    for (uint64_t t = 0; t < kThreads; ++t) {
      bytes[t].resize(16 * kTickets);
      sizes[t].resize(kTickets);
      ends[t].resize(kTickets);
    }
  }

  void run(Connector& connector) {
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { submit_many(connector, t, &bytes[t], &sizes[t]); });
    threads.emplace_back([&] {
      static uint8_t region_bytes[64];
      while (!over) {
        auto region = connector.register_region(region_bytes, 64, QUIRE_DEVICE_CPU, 0);
        quire_connector_health health{};
        EXPECT_TRUE(connector.read_health(&health).ok());
        const quire_connector_stats now = connector.stats();
        EXPECT_GE(now.num_submitted, now.num_done + now.num_missing + now.num_failed + now.num_cancelled);
        EXPECT_TRUE(region.ok() && connector.unregister_region(*region).ok());
        std::this_thread::yield();
      }
    });
    for (uint64_t left = kThreads * kTickets; left != 0 && !testing::Test::HasFailure();) {
      const Ends some = poll_now(connector, 1'000'000, 16);
      for (const quire_completion& end : some) ++ends[end.ticket >> 32][end.ticket & UINT32_MAX];
      left -= some.size();
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
  }

  void expect_each_once() const {
    for (uint64_t t = 0; t < kThreads; ++t) {
      for (uint64_t i = 0; i < kTickets; ++i) EXPECT_EQ(ends[t][i], 1U) << "ticket " << i << " of thread " << t;
    }
  }
};

TEST(Parallel, TicketsOfAStoreEndOnce) {
  FakeStoreOptions options;
  options.max_in_flight = 50;
  options.waits = true;
  options.reorders = true;
  options.odds = {.late = 300, .fail = 50, .twice = 100, .max_delay_ns = 20'000};
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  Workload work;
  work.run(*connector);
  work.expect_each_once();
  while (!poll_now(*connector).empty()) continue;
  const quire_connector_stats now = connector->stats();
  EXPECT_EQ(now.num_in_flight, 0U);
  EXPECT_EQ(now.num_submitted, kThreads * kTickets);
  EXPECT_GT(now.num_strays, 0U);
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

TEST(Parallel, TicketsOfTheNullConnectorEndOnce) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  Workload work;
  work.run(*connector);
  work.expect_each_once();
  EXPECT_EQ(connector->stats().num_strays, 0U);
}

TEST(Parallel, OneThreadPolls) {
  FakeStoreOptions options;
  options.waits = true;
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = seen.key == "held"; });
  submit_all(*connector, Batch().remove(1, "held"));
  std::thread other([&] {
    const Ends ends = poll_now(*connector, -1, 1);
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0].ticket, 2U);
  });
  while (store.counts().polls == 0) std::this_thread::yield();
  quire_completion item;
  uint64_t count = 9;
  const Status status = connector->poll(0, {&item, 1}, &count);
  EXPECT_EQ(status.code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(status.message(), "another thread polls connector fake_store: one at a time does");
  EXPECT_EQ(store.counts().polls, 1U);
  submit_all(*connector, Batch().remove(2, "other"));  // while it polls, and it wakes up
  other.join();
  store.release_all();
  EXPECT_EQ(poll_now(*connector).size(), 1U);
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

// A connector completes a ticket on a thread of its own before it says whether it accepted it.
void complete_inside_submit(uint64_t accepted_in_the_end) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  std::atomic<bool> inside{false};
  std::atomic<bool> given{false};
  script().submit = [&](uint64_t, uint64_t* accepted) {
    inside = true;
    while (!given) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the poller waits meanwhile
    *accepted = accepted_in_the_end;
    return QUIRE_OK;
  };
  script().poll = [&](std::span<quire_completion> items, uint64_t* count) {
    items[0] = {2, QUIRE_OK, 0, 0, 0};
    items[1] = {77, QUIRE_OK, 0, 0, 0};
    *count = 2;
    given = true;
    return QUIRE_OK;
  };
  std::thread other([&] {
    Batch batch;
    uint64_t accepted = 9;
    EXPECT_TRUE(connector->submit(batch.remove(1, "a").remove(2, "b").all(), &accepted).ok());
    EXPECT_EQ(accepted, accepted_in_the_end);
  });
  while (!inside) std::this_thread::yield();
  const Ends ends = poll_now(*connector);
  other.join();
  const bool known = accepted_in_the_end == 2;
  EXPECT_EQ(ends.size(), known ? 1U : 0U);
  EXPECT_EQ(connector->stats().num_strays, known ? 1U : 2U);
  EXPECT_EQ(connector->stats().num_in_flight, 1U);
  EXPECT_EQ(connector->stats().num_done, known ? 1U : 0U);
}

TEST(Parallel, ACompletionWaitsUntilItsTicketIsAccepted) { complete_inside_submit(2); }

TEST(Parallel, ACompletionOfATicketThatIsNotAcceptedIsAStray) { complete_inside_submit(1); }

}  // namespace
}  // namespace quire::test
