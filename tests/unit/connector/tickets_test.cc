// Every ticket ends exactly once, whatever a connector says: by example, with connectors that are full, fail half way or lie.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/allocations.h"
#include "tests/unit/connector/scripted_connector.h"

namespace quire::test {
namespace {

quire_completion ended(uint64_t ticket, quire_code code = QUIRE_OK, uint64_t bytes = 0) { return {ticket, code, 0, bytes, 0}; }

std::vector<uint64_t> numbers_of(const Ends& ends) {
  std::vector<uint64_t> numbers;
  for (const quire_completion& end : ends) numbers.push_back(end.ticket);
  return numbers;
}

using Numbers = std::vector<uint64_t>;

TEST(Tickets, AConnectorThatIsFullTakesTheRestLater) {
  FakeStoreOptions options;
  options.max_in_flight = 3;
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  store.set_script([](const SeenTicket&, Fate* fate) { fate->polls = 1; });
  Batch batch;
  for (uint64_t i = 0; i < 5; ++i) batch.remove(i, "k");
  uint64_t accepted = 0;
  ASSERT_TRUE(connector->submit(batch.all(), &accepted).ok());
  EXPECT_EQ(accepted, 3U);
  // The host's table has no room either: nothing is looked at, so nothing is refused.
  Batch wrong;
  wrong.remove(0, "k").tickets[0].kind = 77;
  ASSERT_TRUE(connector->submit(wrong.all(), &accepted).ok());
  EXPECT_EQ(accepted, 0U);
  EXPECT_TRUE(poll_now(*connector).empty());
  EXPECT_EQ(poll_now(*connector, 0, 2).size(), 2U);
  TicketBatch rest = batch.all();
  rest.tickets = rest.tickets.subspan(3);
  ASSERT_TRUE(connector->submit(rest, &accepted).ok());
  EXPECT_EQ(accepted, 2U);
  EXPECT_EQ(connector->stats().num_in_flight, 3U);
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

TEST(Tickets, WithoutALimitThereIsRoomFor16384) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  Batch batch;
  for (uint64_t i = 0; i < Connector::kTicketsWithoutLimit + 5; ++i) batch.remove(i * 1'000'003, "k");
  uint64_t accepted = 0;
  ASSERT_TRUE(connector->submit(batch.all(), &accepted).ok());
  EXPECT_EQ(accepted, Connector::kTicketsWithoutLimit);
  EXPECT_EQ(connector->stats().num_in_flight, Connector::kTicketsWithoutLimit);
}

TEST(Tickets, ALimitThatNobodyHasIsCut) {
  Script lies;
  lies.info = [](quire_connector_info* info) {
    info->max_in_flight = UINT32_MAX;
    return QUIRE_OK;
  };
  auto connector = open_scripted(lies);
  ASSERT_NE(connector, nullptr);
  Batch batch;
  for (uint64_t i = 0; i < Connector::kMostTickets + 1; ++i) batch.remove(i, "k");
  uint64_t accepted = 0;
  ASSERT_TRUE(connector->submit(batch.all(), &accepted).ok());
  EXPECT_EQ(accepted, Connector::kMostTickets);
}

TEST(Tickets, OfASubmissionThatFailsHalfWayWereStarted) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  store.accept_next(2, QUIRE_UNAVAILABLE);
  uint8_t bytes[3] = {1, 2, 3};
  Batch batch;
  batch.store(1, "a", bytes, 3).store(2, "b", bytes, 3).store(3, "c", bytes, 3);
  uint64_t accepted = 0;
  const Status status = connector->submit(batch.all(), &accepted);
  EXPECT_EQ(status.code(), QUIRE_UNAVAILABLE);
  EXPECT_EQ(status.message(), "connector fake_store: the test wants it so");
  EXPECT_EQ(accepted, 2U);
  EXPECT_EQ(connector->stats().num_submitted, 2U);
  EXPECT_EQ(connector->stats().bytes_in_flight, 6U);
  EXPECT_EQ(numbers_of(poll_now(*connector)), (Numbers{1, 2}));
  EXPECT_EQ(connector->stats().num_strays, 0U);
  // The third was not: its number is free.
  store.fail_next(StoreCall::kSubmit, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refusal(*connector, Batch().remove(3, "c")).code(), QUIRE_RESOURCE_EXHAUSTED);
  submit_all(*connector, Batch().remove(3, "c"));
  EXPECT_EQ(poll_now(*connector)[0].code, QUIRE_NOT_FOUND);
}

TEST(Tickets, AcceptedBeyondTheirNumberAreAllStarted) {
  Script lies;
  lies.submit = [](uint64_t n, uint64_t* accepted) {
    *accepted = n + 1;
    return QUIRE_OK;
  };
  auto connector = open_scripted(lies);
  ASSERT_NE(connector, nullptr);
  Batch batch;
  uint64_t accepted = 0;
  const Status status = connector->submit(batch.remove(1, "a").remove(2, "b").all(), &accepted);
  EXPECT_EQ(status.code(), QUIRE_UNKNOWN);
  EXPECT_EQ(status.message(), "connector scripted accepted 3 of 2 tickets");
  EXPECT_EQ(accepted, 2U);
  EXPECT_EQ(connector->stats().num_in_flight, 2U);
}

TEST(Tickets, CompletionsOfOthersAreStrays) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  submit_all(*connector, Batch().remove(1, "a").remove(2, "b").remove(3, "c"));
  give({ended(9), ended(2), ended(2), ended(1), ended(2), ended(UINT64_MAX)});
  EXPECT_EQ(numbers_of(poll_now(*connector)), (Numbers{2, 1}));
  const quire_connector_stats now = connector->stats();
  EXPECT_EQ(now.num_strays, 4U);
  EXPECT_EQ(now.num_in_flight, 1U);
  EXPECT_EQ(now.num_done, 2U);
}

TEST(Tickets, AreAwaitedAlthoughStraysCome) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  submit_all(*connector, Batch().remove(1, "a"));
  for (const int64_t timeout_ns : {int64_t{-1}, int64_t{1'000'000'000'000}}) {
    int polls = 0;
    script().poll = [&](std::span<quire_completion> items, uint64_t* count) {
      items[0] = ended(++polls < 3 ? 77 : 1);
      *count = 1;
      return QUIRE_OK;
    };
    EXPECT_EQ(numbers_of(poll_now(*connector, timeout_ns)), (Numbers{1}));
    EXPECT_EQ(polls, 3);
    submit_all(*connector, Batch().remove(1, "a"));
  }
  // Strays without an end do not hold up a poll that has one.
  script().poll = [](std::span<quire_completion> items, uint64_t* count) {
    items[0] = ended(77);
    *count = 1;
    return QUIRE_OK;
  };
  EXPECT_TRUE(poll_now(*connector, 0).empty());
  EXPECT_TRUE(poll_now(*connector, 1'000'000).empty());
}

TEST(Tickets, PollRefusesWhatCannotBe) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  quire_completion items[2];
  uint64_t count = 99;
  const Status for_ever = connector->poll(-1, items, &count);
  EXPECT_EQ(for_ever.code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(for_ever.message().find("no ticket is in flight"), std::string::npos);
  submit_all(*connector, Batch().remove(1, "a"));
  script().poll = [](std::span<quire_completion> given, uint64_t* n) {
    *n = given.size() + 1;
    return QUIRE_OK;
  };
  EXPECT_EQ(connector->poll(0, items, &count).message(), "connector scripted gave 3 completions for 2 places");
  script().poll = [](std::span<quire_completion>, uint64_t*) { return QUIRE_DATA_LOSS; };
  EXPECT_EQ(connector->poll(0, items, &count).message(), "connector scripted: scripted");
  script().poll = [](std::span<quire_completion>, uint64_t*) { return quire_code{4711}; };
  EXPECT_EQ(connector->poll(0, items, &count).code(), QUIRE_UNKNOWN);
  EXPECT_EQ(count, 99U) << "written after an error";
  EXPECT_TRUE(connector->poll(0, {}, &count).ok());
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(connector->stats().num_in_flight, 1U);
}

TEST(Tickets, WhatCannotBeTrueOfACompletionIsCorrected) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  uint8_t bytes[64];
  uint64_t sizes[2];
  Batch batch;
  batch.load(1, "a", bytes, 64).load(2, "a", bytes, 64).load(3, "a", bytes, 64).load(4, "a", bytes, 64);
  batch.store(5, "a", bytes, 64).store(6, "b", bytes, 64).look_up(7, "ab", 1, sizes).remove(8, "a");
  submit_all(*connector, batch);
  give({{1, QUIRE_OK, UINT32_MAX, 64, 5},
        {2, QUIRE_OK, 0, 63, 0},
        {3, QUIRE_OK, 0, 65, 0},
        {4, 12345, 0, UINT64_MAX, 0},
        {5, QUIRE_OK, UINT32_MAX, 0, 0},
        {6, QUIRE_OK, 0, 0, 0},
        {7, QUIRE_OK, UINT32_MAX, 9, 3},
        {8, QUIRE_CANCELLED, UINT32_MAX, 9, 9}});
  const Ends ends = poll_now(*connector);
  ASSERT_EQ(ends.size(), 8U);
  const auto expect = [&](size_t i, quire_code code, uint32_t flags, uint64_t moved, uint64_t found) {
    EXPECT_EQ(ends[i].code, code) << i;
    EXPECT_EQ(ends[i].flags, flags) << i;
    EXPECT_EQ(ends[i].bytes, moved) << i;
    EXPECT_EQ(ends[i].num_found, found) << i;
  };
  expect(0, QUIRE_OK, 0, 64, 0);
  expect(1, QUIRE_DATA_LOSS, 0, 63, 0);  // less than all of its runs
  expect(2, QUIRE_DATA_LOSS, 0, 64, 0);  // more
  expect(3, QUIRE_UNKNOWN, 0, 64, 0);
  expect(4, QUIRE_OK, QUIRE_COMPLETION_EXISTED, 0, 0);
  expect(5, QUIRE_DATA_LOSS, 0, 0, 0);
  expect(6, QUIRE_OK, QUIRE_COMPLETION_LEASED, 0, 2);
  expect(7, QUIRE_CANCELLED, 0, 0, 0);
}

TEST(Tickets, AreCancelledOnceAndEndOnce) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  store.set_script([](const SeenTicket& seen, Fate* fate) {
    fate->held = true;
    fate->deaf = seen.key == "deaf";
  });
  submit_all(*connector, Batch().remove(1, "a").remove(2, "deaf"));
  EXPECT_EQ(connector->cancel(3).message(), "ticket 3 is not in flight");
  EXPECT_TRUE(connector->cancel(1).ok());
  EXPECT_TRUE(connector->cancel(1).ok()) << "over for the connector, but not polled: it still is in flight";
  EXPECT_TRUE(connector->cancel(2).ok());
  const Ends ends = poll_now(*connector);
  ASSERT_EQ(numbers_of(ends), (Numbers{1}));
  EXPECT_EQ(ends[0].code, QUIRE_CANCELLED);
  EXPECT_EQ(connector->cancel(1).code(), QUIRE_NOT_FOUND);
  store.release(2);
  EXPECT_EQ(poll_now(*connector)[0].code, QUIRE_NOT_FOUND) << "it does not listen";
  submit_all(*connector, Batch().remove(4, "a"));
  store.fail_next(StoreCall::kCancel, QUIRE_INTERNAL);
  EXPECT_EQ(connector->cancel(4).code(), QUIRE_INTERNAL);
}

TEST(Tickets, InFlightAtTheEndAreClosedOver) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  store.set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  std::vector<uint8_t> bytes(100, 7);
  submit_all(*connector, Batch().store(1, "a", bytes.data(), 100).load(2, "b", bytes.data(), 100));
  connector.reset();
  bytes.assign(100, 8);
  EXPECT_EQ(store.counts().closed_over, 2U);
  EXPECT_EQ(store.num_in_flight(), 0U);
  EXPECT_EQ(store.keys(), std::vector<std::string>());
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

TEST(Tickets, OfAnEmptySubmissionAreNone) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  script().submit = [](uint64_t, uint64_t*) { return QUIRE_INTERNAL; };
  uint64_t accepted = 9;
  EXPECT_TRUE(connector->submit({}, &accepted).ok());
  EXPECT_EQ(accepted, 0U);
}

TEST(Tickets, TakeNoMemoryOnceTheConnectorIsOpen) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  uint8_t bytes[64];
  uint64_t size = 0;
  Batch batch;
  for (uint64_t i = 0; i < 100; ++i) batch.store(4 * i, "k", bytes, 64).load(4 * i + 1, "k", bytes, 64).look_up(4 * i + 2, "k", 1, &size);
  quire_completion items[64];
  const uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    uint64_t accepted = 0;
    uint64_t count = 0;
    ASSERT_TRUE(connector->submit(batch.all(), &accepted).ok());
    ASSERT_EQ(accepted, 256U);
    for (uint64_t left = accepted; left != 0; left -= count) ASSERT_TRUE(connector->poll(0, items, &count).ok());
    (void)connector->stats();
  }
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace quire::test
