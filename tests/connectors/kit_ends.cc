// How tickets end: cancelled, too late, at close; how ends are waited for; what is left when a store is opened again.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kit.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

using Clock = std::chrono::steady_clock;

bool is_readable(quire_connector* connector, int timeout_ms) {
  int32_t fd = -1;
  Error err;
  EXPECT_EQ(quire_connector_get_fd(connector, &fd, &err), QUIRE_OK) << err.message;
  pollfd readable = {fd, POLLIN, 0};
  return poll(&readable, 1, timeout_ms) == 1;
}

int64_t now() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

TEST_P(ConnectorKit, TheDescriptorIsReadableWhileEndsWait) {
  Client client = open(4 * kMiB);
  EXPECT_FALSE(is_readable(client.get(), 0));
  for (int round = 0; round < 20; ++round) {
    uint64_t sizes[3];
    Batch batch;
    for (uint64_t& size : sizes) batch.look_up({key(1)}, &size);
    ASSERT_EQ(client.submit(batch), 3u);
    uint64_t polled = 0;
    while (polled < 3) {
      ASSERT_TRUE(is_readable(client.get(), 10'000)) << "an end waits, or will";
      polled += client.poll(0, 1).size();
    }
    EXPECT_FALSE(is_readable(client.get(), 0));
  }
}

TEST_P(ConnectorKit, PollWaitsAsLongAsItIsTold) {
  Client client = open(4 * kMiB);
  auto begin = Clock::now();
  EXPECT_TRUE(client.poll(0).empty());
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(500));
  begin = Clock::now();
  EXPECT_TRUE(client.poll(30 * kMillisecond).empty());
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(30));
  uint64_t size = 0;
  Batch batch;
  batch.look_up({key(1)}, &size);
  ASSERT_EQ(client.submit(batch), 1u);
  EXPECT_EQ(client.poll(-1).size(), 1u);
}

// Wherever a ticket is when it is cancelled: it ends once; a store is whole or not there; after its end nothing touches the bytes.
TEST_P(ConnectorKit, CancelsAtEveryStage) {
  Rng rng(seed());
  Client client = open(160 * kMiB);
  constexpr uint64_t kObject = 1'200'000;
  ASSERT_EQ(client.store(key(0), content(0, kObject)).code, QUIRE_OK);
  // Look-ups that go first in every other round, so that the others wait for a while.
  const std::vector<Key> keys(1000, key(0));
  std::vector<uint64_t> sizes(100 * keys.size());
  uint64_t cancelled = 0;
  for (uint64_t round = 1; round <= 24 / kSlowness; ++round) {
    constexpr uint64_t kTickets = 12;
    std::vector<Layout> layouts(kTickets, dense(0, kObject));
    std::vector<Memory> memories;
    Batch batch, before;
    for (uint64_t i = 0; round % 2 == 0 && i < sizes.size(); i += keys.size()) before.look_up(keys, &sizes[i]);
    for (uint64_t i = 0; i < kTickets; ++i) {
      memories.emplace_back(&layouts[i], i);
      const bool stores = i % 2 == 0;
      if (stores) memories[i].fill(layouts[i].runs, content(round * 100 + i, kObject));
      stores ? batch.store(key(round * 100 + i), layouts[i].runs, kObject) : batch.load(key(0), layouts[i].runs);
    }
    const uint64_t num_before = before.tickets().size();
    if (num_before != 0) {
      ASSERT_EQ(client.submit(before), num_before);
    }
    ASSERT_EQ(client.submit(batch), kTickets);
    if (num_before == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 1500)));
    for (const quire_ticket& ticket : batch.tickets()) {
      if (below(&rng, 3) != 0) client.cancel(ticket.ticket);
    }
    Ends ends = client.wait(num_before + kTickets);
    for (uint64_t i = 0; i < kTickets; ++i) {
      const quire_completion& end = ends[batch.tickets()[i].ticket];
      ASSERT_TRUE(end.code == QUIRE_OK || end.code == QUIRE_CANCELLED) << end.code;
      cancelled += end.code == QUIRE_CANCELLED ? 1 : 0;
      if (i % 2 == 0) {
        const Key name = key(round * 100 + i);
        EXPECT_TRUE(end.code != QUIRE_OK || client.has(name));
        if (client.has(name)) {
          EXPECT_TRUE(client.holds(name, content(round * 100 + i, kObject)));
        }
        EXPECT_TRUE(memories[i].intact());
        client.remove(name);
      } else if (end.code == QUIRE_OK) {
        memories[i].expect(layouts[i].runs, content(0, kObject));
      } else {
        memories[i].forget(layouts[i].runs);
      }
    }
    for (const Memory& memory : memories) ASSERT_TRUE(memory.intact()) << "after the end";
  }
  EXPECT_TRUE(cancelled > 0 || GetParam().instant) << "of tickets of which two thirds were cancelled";
  Error err;
  EXPECT_EQ(quire_connector_cancel(client.get(), uint64_t{1} << 60, &err), QUIRE_NOT_FOUND);
}

TEST_P(ConnectorKit, WhatIsTooLateDoesNotBegin) {
  Client client = open(4 * kMiB);
  ASSERT_EQ(client.store(key(1), content(1, 1000)).code, QUIRE_OK);
  for (const bool late : {true, false}) {
    const int64_t deadline = late ? now() - kSecond : now() + 600 * kSecond;
    Layout read = dense(0, 1000), written = dense(0, 1000);
    Memory target(&read), source(&written);
    source.fill(written.runs, content(2, 1000));
    uint64_t size = 77;
    Batch batch;
    batch.load(key(1), read.runs).deadline_ns = deadline;
    batch.store(key(2), written.runs, 1000).deadline_ns = deadline;
    batch.look_up({key(1)}, &size).deadline_ns = deadline;
    for (const auto& [ticket, end] : client.run(batch)) EXPECT_EQ(end.code, late ? QUIRE_DEADLINE_EXCEEDED : QUIRE_OK) << ticket;
    if (!late) target.expect(read.runs, content(1, 1000));
    EXPECT_TRUE(target.intact());
    EXPECT_TRUE(source.intact());
    EXPECT_EQ(client.has(key(2)), !late);
  }
}

// Deadlines that pass while tickets wait or run: an end comes, and none is a wrong one.
TEST_P(ConnectorKit, DeadlinesThatPassMeanwhile) {
  Rng rng(seed());
  Client client = open(64 * kMiB);
  constexpr uint64_t kObject = 2'000'000;
  const Bytes object = content(0, kObject);
  ASSERT_EQ(client.store(key(0), object).code, QUIRE_OK);
  for (uint64_t round = 0; round < 15 / kSlowness; ++round) {
    std::vector<Layout> layouts(10, dense(0, kObject));
    std::vector<Memory> memories;
    Batch batch;
    for (Layout& layout : layouts) {
      memories.emplace_back(&layout);
      batch.load(key(0), layout.runs).deadline_ns = now() + static_cast<int64_t>(below(&rng, 2'000'000));
    }
    Ends ends = client.run(batch);
    for (size_t i = 0; i < memories.size(); ++i) {
      const quire_code code = ends[batch.tickets()[i].ticket].code;
      ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_DEADLINE_EXCEEDED) << code;
      code == QUIRE_OK ? memories[i].expect(layouts[i].runs, object) : memories[i].forget(layouts[i].runs);
    }
    for (const Memory& memory : memories) ASSERT_TRUE(memory.intact()) << "after the end";
  }
}

// After close() nothing touches the bytes of a ticket, and what was stored is whole or not there.
TEST_P(ConnectorKit, ClosesWithTicketsInFlight) {
  Rng rng(seed());
  constexpr uint64_t kObject = 900'000;
  for (uint64_t round = 0; round < 8 / kSlowness; ++round) {
    Client client = open(64 * kMiB);
    if (!client.has(key(0))) {
      ASSERT_EQ(client.store(key(0), content(0, kObject)).code, QUIRE_OK);
    }
    std::vector<Layout> layouts(16, dense(0, kObject));
    std::vector<Memory> memories;
    std::vector<uint64_t> sizes(1);
    Batch batch;
    for (uint64_t i = 0; i < layouts.size(); ++i) {
      memories.emplace_back(&layouts[i]);
      if (i % 2 == 0) memories[i].fill(layouts[i].runs, content(round * 100 + i, kObject));
      i % 2 == 0 ? batch.store(key(round * 100 + i), layouts[i].runs, kObject) : batch.load(key(0), layouts[i].runs);
    }
    batch.look_up({key(0)}, sizes.data());
    client.submit(batch);
    std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 1500)));
    client.close();
    for (uint64_t i = 1; i < memories.size(); i += 2) memories[i].forget(layouts[i].runs);
    Client again = open(64 * kMiB);
    for (uint64_t i = 0; i < memories.size(); i += 2) {
      const Key name = key(round * 100 + i);
      if (again.has(name)) {
        EXPECT_TRUE(again.holds(name, content(round * 100 + i, kObject)));
      }
      again.remove(name);
    }
    for (const Memory& memory : memories) ASSERT_TRUE(memory.intact()) << "after close";
  }
}

TEST_P(ConnectorKit, OpenedAgainItKeepsOrForgets) {
  std::map<Key, uint64_t> objects;
  bool persists = false;
  {
    Client client = open(16 * kMiB);
    persists = client.persists();
    for (uint64_t i = 0; i < 50; ++i) {
      ASSERT_EQ(client.store(key(i), content(i, 1 + i * 1777)).code, QUIRE_OK);
      objects[key(i)] = 1 + i * 1777;
    }
  }
  Client client = open(16 * kMiB);
  if (!persists) objects.clear();
  EXPECT_TRUE(client.keeps(objects));
  for (uint64_t i = 0; persists && i < 50; ++i) EXPECT_TRUE(client.holds(key(i), content(i, 1 + i * 1777))) << i;
}

TEST_P(ConnectorKit, WrongSettingsAreRefusedByName) {
  for (const std::string config : {"{\"no_such_field\": 1}", "[", "3", "{\"no_such_field\": {}}"}) {
    Error err;
    EXPECT_EQ(Client::try_open(GetParam(), config, &err), QUIRE_INVALID_ARGUMENT) << config;
    EXPECT_NE(std::string(err.message), "") << config;
  }
  Error err;
  Client::try_open(GetParam(), "{\"no_such_field\": 1}", &err);
  EXPECT_NE(std::string(err.message).find("no_such_field"), std::string::npos) << err.message;
}

}  // namespace
