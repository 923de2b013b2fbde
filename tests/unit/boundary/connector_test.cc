// Tickets through the host side of connectors, with the null connector behind it.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "core/tier/connector.h"

namespace quire {
namespace {

std::unique_ptr<Connector> open_null() {
  const std::string path = QUIRE_MODULES;
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV;
  options.connector_path = {path.data(), path.size()};
  auto runtime = Runtime::create(options);
  EXPECT_TRUE(runtime.ok());
  auto connector = Connector::open(*runtime, "null", "{}");
  EXPECT_TRUE(connector.ok()) << connector.status().message();
  return connector.ok() ? std::move(*connector) : nullptr;  // the runtime lives on behind it
}

quire_ticket ticket(uint64_t number, int32_t kind) {
  quire_ticket t{};
  t.ticket = number;
  t.kind = kind;
  t.num_runs = 2;
  t.key_bytes = 3;
  t.deadline_ns = -1;
  t.checksum = 77;
  return t;
}

const quire_ticket_run kRuns[2] = {{0, 4096, 100}, {0, 8192, 28}};
const uint8_t kKey[3] = {1, 2, 3};

TEST(NullConnector, EveryTicketEndsOnce) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  std::vector<quire_ticket> tickets;
  for (uint64_t i = 0; i < 1000; ++i) tickets.push_back(ticket(i + 1, static_cast<int32_t>(i % 4) + 1));
  std::map<uint64_t, quire_completion> ends;
  size_t given = 0;
  while (ends.size() < tickets.size()) {
    auto accepted = connector->submit({std::span(tickets).subspan(given), kRuns, kKey});
    ASSERT_TRUE(accepted.ok()) << accepted.status().message();
    ASSERT_LE(*accepted, connector->info().max_in_flight);
    given += *accepted;
    quire_completion items[100];
    auto count = connector->poll(0, items);
    ASSERT_TRUE(count.ok());
    ASSERT_GT(*count, 0U);
    for (uint64_t i = 0; i < *count; ++i) EXPECT_TRUE(ends.emplace(items[i].ticket, items[i]).second) << items[i].ticket;
  }
  for (const auto& [number, end] : ends) {
    const int32_t kind = tickets[number - 1].kind;
    EXPECT_EQ(end.code, kind == QUIRE_TICKET_STORE || kind == QUIRE_TICKET_REMOVE ? QUIRE_OK : QUIRE_NOT_FOUND);
    EXPECT_EQ(end.bytes, kind == QUIRE_TICKET_STORE ? 128U : 0U);
  }
  quire_completion none[1];
  EXPECT_EQ(*connector->poll(0, none), 0U);
}

TEST(NullConnector, CancelEndsATicketEarlyAndOnce) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  const quire_ticket tickets[2] = {ticket(5, QUIRE_TICKET_STORE), ticket(6, QUIRE_TICKET_LOAD)};
  ASSERT_EQ(*connector->submit({tickets, kRuns, kKey}), 2U);
  EXPECT_TRUE(connector->cancel(5).ok());
  EXPECT_EQ(connector->cancel(7).code(), QUIRE_NOT_FOUND);
  quire_completion ends[4];
  ASSERT_EQ(*connector->poll(0, ends), 2U);
  EXPECT_EQ(ends[0].ticket, 5U);
  EXPECT_EQ(ends[0].code, QUIRE_CANCELLED);
  EXPECT_EQ(ends[1].code, QUIRE_NOT_FOUND);
  EXPECT_EQ(connector->cancel(5).code(), QUIRE_NOT_FOUND);
}

TEST(NullConnector, RefusesTicketsOutsideTheirArrays) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  quire_ticket wrong = ticket(1, QUIRE_TICKET_STORE);
  wrong.first_run = UINT64_MAX;
  EXPECT_EQ(connector->submit({{&wrong, 1}, kRuns, kKey}).status().code(), QUIRE_OUT_OF_RANGE);
  wrong = ticket(1, QUIRE_TICKET_STORE);
  wrong.key_offset = 1;
  EXPECT_EQ(connector->submit({{&wrong, 1}, kRuns, kKey}).status().code(), QUIRE_OUT_OF_RANGE);
  wrong = ticket(1, 9);
  EXPECT_EQ(connector->submit({{&wrong, 1}, kRuns, kKey}).status().code(), QUIRE_INVALID_ARGUMENT);
  quire_completion none[1];
  EXPECT_EQ(*connector->poll(0, none), 0U);
}

TEST(Connector, UnknownNames) {
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV;
  auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime.ok());
  EXPECT_EQ(Connector::open(*runtime, "nosuch", "").status().code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(Connector::open(*runtime, "../x", "").status().code(), QUIRE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quire
