// Rows of quire/connector.h.
#include "rows.h"

namespace quire::test {
namespace {

Owned<quire_connector> opened(const Rig& rig) {
  quire_connector* out = nullptr;
  EXPECT_WORKS(quire_connector_open(rig.runtime.get(), text("null"), text("{}"), &out, err));
  return Owned<quire_connector>(out);
}

quire_ticket store(uint64_t number) {
  quire_ticket ticket{};
  ticket.ticket = number;
  ticket.kind = QUIRE_TICKET_STORE;
  ticket.num_runs = 1;
  ticket.num_keys = 1;
  ticket.key_bytes = 1;
  ticket.object_bytes = 64;
  ticket.deadline_ns = -1;
  return ticket;
}

const quire_ticket_run kRun = {0, 4096, 64, 1, 0, 0, 0};
const uint8_t kKey = 7;

quire_code answers_nothing(const quire_query*, const quire_manifest**, quire_error*) { return QUIRE_OK; }

ROW(quire_register_connector) {
  call.answers(QUIRE_INCOMPATIBLE_ABI);  // good ones: connector_test.cc
  call(static_cast<quire_module_query_fn>(&answers_nothing));
}

ROW(quire_connector_open) {
  quire_connector* out = nullptr;
  EXPECT_FAILS(QUIRE_NOT_FOUND, "libquire_connector_nosuch.so", quire_connector_open(rig.runtime.get(), text("nosuch"), {}, &out, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "connector ''", quire_connector_open(rig.runtime.get(), {}, {}, &out, err));
  call(rig.runtime.get(), text("null"), text("{}"), &out);
  quire_connector_release(out);
}

ROW(quire_connector_retain) { EXPECT_EQ(quire_connector_retain(nullptr), nullptr); }

ROW(quire_connector_release) { quire_connector_release(nullptr); }

ROW(quire_connector_get_info) {
  const auto connector = opened(rig);
  auto info = sized<quire_connector_info>();
  call(connector.get(), &info);
  EXPECT_GT(info.max_in_flight, 0U);
}

ROW(quire_connector_get_stats) {
  const auto connector = opened(rig);
  auto stats = sized<quire_connector_stats>();
  call(connector.get(), &stats);
  EXPECT_EQ(stats.num_submitted, 0U);
}

ROW(quire_connector_get_health) {
  const auto connector = opened(rig);
  auto health = sized<quire_connector_health>();
  health.num_objects = 1;
  call(connector.get(), &health);
  EXPECT_EQ(health.state, QUIRE_CONNECTOR_UP);
  EXPECT_EQ(health.num_objects, 0U);
}

ROW(quire_connector_get_fd) {
  const auto connector = opened(rig);
  int32_t fd = -1;
  call(connector.get(), &fd);
  EXPECT_GE(fd, 0);
}

ROW(quire_connector_list) {
  const auto connector = opened(rig);
  uint64_t cursor = 0;
  uint64_t count = 9;
  quire_object_entry item{};
  uint8_t key = 0;
  call.any({"num_key_bytes"});
  call(connector.get(), &cursor, &item, uint64_t{1}, &count, &key, uint64_t{1});
  EXPECT_EQ(cursor, 0U);
  EXPECT_EQ(count, 0U);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "capacity is 0", quire_connector_list(connector.get(), &cursor, &item, 0, &count, &key, 1, err));
  cursor = 5;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "cursor", quire_connector_list(connector.get(), &cursor, &item, 1, &count, &key, 1, err));
  EXPECT_EQ(cursor, 5U);
}

ROW(quire_connector_submit) {
  const auto connector = opened(rig);
  const quire_ticket ticket = store(1);
  uint64_t accepted = 99;
  call.any({"n"}).bad("num_runs", {0}, QUIRE_OUT_OF_RANGE, "num_runs is 0");
  call.bad("num_key_bytes", {0}, QUIRE_OUT_OF_RANGE, "num_key_bytes is 0");
  call(connector.get(), &ticket, uint64_t{1}, &kRun, uint64_t{1}, &kKey, uint64_t{1}, &accepted);
  EXPECT_EQ(accepted, 1U);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "tickets[0].ticket 1 is in flight already",
               quire_connector_submit(connector.get(), &ticket, 1, &kRun, 1, &kKey, 1, &accepted, err));
  EXPECT_EQ(accepted, 0U);  // says how many are in flight also after an error
}

ROW(quire_connector_poll) {
  const auto connector = opened(rig);
  const quire_ticket ticket = store(1);
  uint64_t accepted = 0;
  EXPECT_WORKS(quire_connector_submit(connector.get(), &ticket, 1, &kRun, 1, &kKey, 1, &accepted, err));
  quire_completion end{};
  uint64_t count = 0;
  call.bad("timeout_ns", {UINT64_MAX - 1, uint64_t{1} << 63}, QUIRE_INVALID_ARGUMENT);
  call(connector.get(), int64_t{0}, &end, uint64_t{1}, &count);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(end.ticket, 1U);
  EXPECT_EQ(end.bytes, 64U);
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "for ever", quire_connector_poll(connector.get(), -1, &end, 1, &count, err));
}

ROW(quire_connector_cancel) {
  const auto connector = opened(rig);
  const quire_ticket ticket = store(1);
  uint64_t accepted = 0;
  EXPECT_WORKS(quire_connector_submit(connector.get(), &ticket, 1, &kRun, 1, &kKey, 1, &accepted, err));
  call.bad("ticket", {0, 2, UINT64_MAX}, QUIRE_NOT_FOUND);
  call(connector.get(), uint64_t{1});
}

ROW(quire_connector_register_region) {
  const auto connector = opened(rig);
  static char bytes[64];
  uint64_t region = 0;
  call.bad("bytes", {0}, QUIRE_INVALID_ARGUMENT).bad("device_type", {UINT32_MAX, 64}, QUIRE_INVALID_ARGUMENT);
  call.bad("device_id", {UINT32_MAX}, QUIRE_INVALID_ARGUMENT);
  call(connector.get(), static_cast<void*>(bytes), uint64_t{64}, int32_t{QUIRE_DEVICE_CPU}, int32_t{0}, &region);
  EXPECT_NE(region, 0U);
}

ROW(quire_connector_unregister_region) {
  const auto connector = opened(rig);
  static char bytes[64];
  uint64_t region = 0;
  EXPECT_WORKS(quire_connector_register_region(connector.get(), bytes, 64, QUIRE_DEVICE_CPU, 0, &region, err));
  call.bad("region", {0, region + 1, UINT64_MAX}, QUIRE_NOT_FOUND);
  call(connector.get(), region);
}

}  // namespace
}  // namespace quire::test
