// The null connector, through the host side of connectors: what a template of connectors shows must be right.
#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <thread>

#include "tests/unit/connector/connector_rig.h"

namespace quire::test {
namespace {

bool is_readable(int fd) {
  struct pollfd readable = {fd, POLLIN, 0};
  return ::poll(&readable, 1, 0) == 1;
}

void add_any(Batch* batch, uint64_t number, uint8_t* bytes, uint64_t* size) {
  switch (number % 4) {
    case 0:
      batch->store(number, "key", bytes, 128);
      break;
    case 1:
      batch->load(number, "key", bytes, 128);
      break;
    case 2:
      batch->look_up(number, "key", 3, size);
      break;
    default:
      batch->remove(number, "key");
  }
}

TEST(NullConnector, EveryTicketEndsOnce) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  uint8_t bytes[128];
  std::vector<uint64_t> sizes(1000, 9);
  Batch batch;
  for (uint64_t i = 0; i < 1000; ++i) add_any(&batch, i, bytes, &sizes[i]);
  std::map<uint64_t, quire_completion> ends;
  size_t given = 0;
  while (ends.size() < batch.tickets.size()) {
    uint64_t accepted = 0;
    TicketBatch rest = batch.all();
    rest.tickets = rest.tickets.subspan(given);
    ASSERT_TRUE(connector->submit(rest, &accepted).ok());
    ASSERT_LE(accepted, connector->info().max_in_flight);
    given += accepted;
    const auto some = poll_now(*connector, 0, 100);
    ASSERT_FALSE(some.empty());
    for (const quire_completion& end : some) EXPECT_TRUE(ends.emplace(end.ticket, end).second) << end.ticket;
  }
  for (const auto& [number, end] : ends) {
    const bool missing = number % 4 == 1 || number % 4 == 3;
    EXPECT_EQ(end.code, missing ? QUIRE_NOT_FOUND : QUIRE_OK) << number;
    EXPECT_EQ(end.bytes, number % 4 == 0 ? 128U : 0U);
    EXPECT_EQ(sizes[number], number % 4 == 2 ? 0U : 9U);
  }
  EXPECT_TRUE(poll_now(*connector).empty());
  EXPECT_EQ(connector->stats().num_strays, 0U);
}

TEST(NullConnector, CancelEndsATicketEarlyAndOnce) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  uint8_t bytes[4];
  submit_all(*connector, Batch().store(5, "a", bytes, 4).load(6, "b", bytes, 4));
  EXPECT_TRUE(connector->cancel(5).ok());
  EXPECT_EQ(connector->cancel(7).code(), QUIRE_NOT_FOUND);
  const auto ends = poll_now(*connector);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].ticket, 5U);
  EXPECT_EQ(ends[0].code, QUIRE_CANCELLED);
  EXPECT_EQ(ends[1].code, QUIRE_NOT_FOUND);
  EXPECT_EQ(connector->cancel(5).code(), QUIRE_NOT_FOUND);
}

TEST(NullConnector, DescriptorIsReadableWhileCompletionsWait) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  auto fd = connector->descriptor();
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  EXPECT_FALSE(is_readable(*fd));
  submit_all(*connector, Batch().remove(1, "a").remove(2, "b"));
  EXPECT_TRUE(is_readable(*fd));
  EXPECT_EQ(poll_now(*connector, 0, 1).size(), 1U);
  EXPECT_TRUE(is_readable(*fd));
  EXPECT_EQ(poll_now(*connector, 0, 1).size(), 1U);
  EXPECT_FALSE(is_readable(*fd));
}

TEST(NullConnector, PollWaitsForWhatAnotherThreadSubmits) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  std::thread other([&] { submit_all(*connector, Batch().remove(1, "a")); });
  EXPECT_EQ(poll_now(*connector, 20'000'000'000).size(), 1U);
  other.join();
  EXPECT_TRUE(poll_now(*connector, 1'000'000).empty());
}

TEST(NullConnector, IsHealthyAndHasNothing) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  quire_connector_health health{};
  ASSERT_TRUE(connector->read_health(&health).ok());
  EXPECT_EQ(health.state, QUIRE_CONNECTOR_UP);
  EXPECT_EQ(health.num_objects, 0U);
  uint64_t cursor = 0;
  uint64_t count = 9;
  quire_object_entry items[2];
  uint8_t keys[8];
  ASSERT_TRUE(connector->list(&cursor, items, keys, &count).ok());
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(cursor, 0U);
  cursor = 3;
  EXPECT_EQ(connector->list(&cursor, items, keys, &count).code(), QUIRE_INVALID_ARGUMENT);
}

TEST(NullConnector, RegistersRegions) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  char bytes[64];
  auto first = connector->register_region(bytes, sizeof bytes, QUIRE_DEVICE_CPU, 0);
  auto second = connector->register_region(bytes, 32, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(connector->stats().num_regions, 2U);
  EXPECT_EQ(connector->register_region(bytes, UINT64_MAX, QUIRE_DEVICE_CPU, 0).status().code(), QUIRE_OUT_OF_RANGE);
  EXPECT_TRUE(connector->unregister_region(*first).ok());
  EXPECT_EQ(connector->unregister_region(*first).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(connector->stats().num_regions, 1U);
}

}  // namespace
}  // namespace quire::test
