// Tickets through the host side of connectors, with the null connector behind it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "core/tier/connector_host.h"
#include "drivers/common/note.h"

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
  wrong = ticket(1, QUIRE_TICKET_LOAD);
  wrong.deadline_ns = -2;
  EXPECT_EQ(connector->submit({{&wrong, 1}, kRuns, kKey}).status().message(), "tickets[0].deadline_ns is -2, -1 is none");
  const quire_ticket_run far[2] = {{0, UINT64_MAX - 4, 100}, {0, 0, 1}};
  wrong = ticket(1, QUIRE_TICKET_LOAD);
  EXPECT_EQ(connector->submit({{&wrong, 1}, far, kKey}).status().code(), QUIRE_OUT_OF_RANGE);
  // A wrong ticket behind good ones: none of them was started.
  const quire_ticket pair[2] = {ticket(1, QUIRE_TICKET_LOAD), ticket(2, 0)};
  EXPECT_EQ(connector->submit({pair, kRuns, kKey}).status().code(), QUIRE_INVALID_ARGUMENT);
  quire_completion none[1];
  EXPECT_EQ(*connector->poll(0, none), 0U);
  EXPECT_EQ(connector->poll(-1, none).status().code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(connector->stats().num_submitted, 0U);
}

TEST(NullConnector, CountsHowTicketsEnded) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  const quire_ticket tickets[3] = {ticket(5, QUIRE_TICKET_STORE), ticket(6, QUIRE_TICKET_LOAD), ticket(7, QUIRE_TICKET_STORE)};
  ASSERT_EQ(*connector->submit({tickets, kRuns, kKey}), 3U);
  EXPECT_EQ(connector->stats().num_in_flight, 3U);
  ASSERT_TRUE(connector->cancel(7).ok());
  quire_completion ends[4];
  ASSERT_EQ(*connector->poll(-1, ends), 3U);
  const quire_connector_stats now = connector->stats();
  EXPECT_EQ(now.num_submitted, 3U);
  EXPECT_EQ(now.num_in_flight, 0U);
  EXPECT_EQ(now.num_done, 1U);
  EXPECT_EQ(now.num_missing, 1U);
  EXPECT_EQ(now.num_cancelled, 1U);
  EXPECT_EQ(now.num_failed, 0U);
  EXPECT_EQ(now.num_bytes, 128U);
}

TEST(NullConnector, RegistersRegions) {
  auto connector = open_null();
  ASSERT_NE(connector, nullptr);
  char bytes[64];
  auto first = connector->register_region(bytes, sizeof bytes, QUIRE_DEVICE_CPU, 0);
  auto second = connector->register_region(bytes, 32, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(connector->register_region(bytes, UINT64_MAX, QUIRE_DEVICE_CPU, 0).status().code(), QUIRE_OUT_OF_RANGE);
  EXPECT_TRUE(connector->unregister_region(*first).ok());
  EXPECT_EQ(connector->unregister_region(*first).code(), QUIRE_NOT_FOUND);
}

// A connector without a file, which completes nothing: what is in flight when it goes is its own business, and it is asked to end it.
int local_closes = 0;

quire_code local_open(const quire_connector_options* options, quire_connector_instance** out, quire_error* err) {
  if (options->config.len != 2) {
    err->code = QUIRE_INVALID_ARGUMENT;
    std::strcpy(err->message, "config is not '{}'");
    return QUIRE_INVALID_ARGUMENT;
  }
  *out = reinterpret_cast<quire_connector_instance*>(new int(0));
  return QUIRE_OK;
}
void local_close(quire_connector_instance* instance) {
  ++local_closes;
  delete reinterpret_cast<int*>(instance);
}
quire_code local_info(quire_connector_instance*, quire_connector_info* info, quire_error*) {
  info->flags = QUIRE_CONNECTOR_REGISTERS;
  info->max_key_bytes = 2;
  return QUIRE_OK;
}
quire_code local_submit(quire_connector_instance*, const quire_ticket*, uint64_t n, const quire_ticket_run*, uint64_t, const uint8_t*,
                        uint64_t, uint64_t* accepted, quire_error*) {
  *accepted = n;
  return QUIRE_OK;
}
quire_code local_poll(quire_connector_instance*, int64_t, quire_completion*, uint64_t, uint64_t* count, quire_error*) {
  *count = 0;
  return QUIRE_OK;
}

quire_code local_query(const quire_query*, const quire_manifest** out, quire_error*) {
  static const quire_connector_api api = [] {
    quire_connector_api table{};
    table.struct_size = sizeof table;
    table.open = local_open;
    table.close = local_close;
    table.info = local_info;
    table.submit = local_submit;
    table.poll = local_poll;
    return table;
  }();
  static const quire_manifest manifest = {QUIRE_MODULE_MAGIC,
                                          sizeof(quire_manifest),
                                          QUIRE_MODULE_CONNECTOR,
                                          QUIRE_CONNECTOR_ABI_VERSION,
                                          "local",
                                          "1",
                                          QUIRE_MODULE_SANITIZERS,
                                          &api,
                                          nullptr};
  *out = &manifest;
  return QUIRE_OK;
}

TEST(RegisteredConnector, IsFoundProbedAndCheckedFor) {
  ASSERT_TRUE(register_module(ModuleKind::kConnector, local_query).ok());
  EXPECT_EQ(register_module(ModuleKind::kConnector, local_query).message(), "a connector named 'local' is registered already");
  EXPECT_EQ(register_module(ModuleKind::kDriver, local_query).code(), QUIRE_INCOMPATIBLE_ABI);
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV;
  auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime.ok());
  const auto reports = (*runtime)->probe();
  EXPECT_TRUE(std::any_of(reports.begin(), reports.end(), [](const quire_probe_info& r) {
    return r.kind == 2 && std::strcmp(r.name, "local") == 0 && r.code == QUIRE_OK;
  }));
  EXPECT_NE(Connector::open(*runtime, "local", "").status().message().find("config is not '{}'"), std::string::npos);
  {
    auto connector = Connector::open(*runtime, "local", "{}");
    ASSERT_TRUE(connector.ok()) << connector.status().message();
    quire_ticket t = ticket(1, QUIRE_TICKET_STORE);
    EXPECT_EQ((*connector)->submit({{&t, 1}, kRuns, kKey}).status().message(), "tickets[0].key_bytes is 3, connector local takes 2");
    t.key_bytes = 2;
    EXPECT_EQ((*connector)->submit({{&t, 1}, kRuns, kKey}).status().message(),
              "runs[0].region is 0, connector local wants registered bytes");
    const quire_ticket_run runs[2] = {{1, 4096, 100}, {1, 8192, 28}};
    EXPECT_EQ(*(*connector)->submit({{&t, 1}, runs, kKey}), 1U);
    char bytes[8];
    EXPECT_EQ((*connector)->register_region(bytes, 8, QUIRE_DEVICE_CPU, 0).status().code(), QUIRE_UNIMPLEMENTED);
    EXPECT_EQ((*connector)->cancel(1).code(), QUIRE_UNIMPLEMENTED);
    EXPECT_EQ((*connector)->cancel(2).code(), QUIRE_NOT_FOUND);
  }
  EXPECT_EQ(local_closes, 1);
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
