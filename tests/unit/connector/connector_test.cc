// Opening connectors, and what else they are asked: properties, health, descriptor, listings, regions.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/connector/scripted_connector.h"

namespace quire::test {
namespace {

TEST(Open, FindsRegisteredOnesAndProbesThem) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  EXPECT_EQ(connector->name(), "scripted");
  EXPECT_EQ(register_module(ModuleKind::kConnector, scripted_query).message(), "a connector named 'scripted' is registered already");
  EXPECT_EQ(register_module(ModuleKind::kDriver, scripted_query).code(), QUIRE_INCOMPATIBLE_ABI);
  const auto reports = make_runtime()->probe();
  EXPECT_TRUE(std::any_of(reports.begin(), reports.end(), [](const quire_probe_info& r) {
    return r.kind == 2 && std::strcmp(r.name, "scripted") == 0 && r.code == QUIRE_OK;
  }));
  connector.reset();
  EXPECT_EQ(script().closes, 1U);
}

TEST(Open, UnknownNames) {
  EXPECT_EQ(Connector::open(make_runtime(), "nosuch", "").status().code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(Connector::open(make_runtime(), "../x", "").status().code(), QUIRE_INVALID_ARGUMENT);
}

TEST(Open, FailuresLeaveNothingOpen) {
  EXPECT_EQ(try_scripted("scripted", {}, "").status().message(), "connector scripted: config is not '{}'");
  EXPECT_EQ(script().closes, 0U);
  Script fails;
  fails.info = [](quire_connector_info*) { return QUIRE_UNAVAILABLE; };
  EXPECT_EQ(try_scripted("scripted", fails).status().code(), QUIRE_UNAVAILABLE);
  EXPECT_EQ(script().closes, 1U);
  Script opens_nothing;
  opens_nothing.opens_nothing = true;
  EXPECT_EQ(try_scripted("scripted", opens_nothing).status().message(), "connector scripted: open answered OK and NULL");
  EXPECT_EQ(script().closes, 0U);
}

TEST(Entries, ThatAreAbsentAreUnimplemented) {
  auto least = try_scripted("least");
  ASSERT_TRUE(least.ok()) << least.status().message();
  Connector& connector = **least;
  quire_connector_health health{};
  uint64_t cursor = 0;
  uint64_t count = 0;
  quire_object_entry items[1];
  char bytes[8];
  EXPECT_EQ(connector.read_health(&health).message(), "connector least: this connector has no entry 'health'");
  EXPECT_EQ(connector.descriptor().status().message(), "connector least: this connector has no entry 'get_fd'");
  EXPECT_EQ(connector.list(&cursor, items, {}, &count).message(), "connector least: this connector has no entry 'list'");
  EXPECT_EQ(connector.register_region(bytes, 8, QUIRE_DEVICE_CPU, 0).status().code(), QUIRE_UNIMPLEMENTED);
  EXPECT_EQ(connector.unregister_region(1).code(), QUIRE_NOT_FOUND);
  submit_all(connector, Batch().remove(1, "a"));
  EXPECT_EQ(connector.cancel(1).code(), QUIRE_UNIMPLEMENTED);
}

TEST(Health, IsWhatAConnectorSays) {
  FakeStoreOptions options;
  options.capacity_bytes = 100;
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  const uint8_t bytes[40] = {};
  store.put("a", bytes);
  for (const quire_connector_state state : {QUIRE_CONNECTOR_FULL, QUIRE_CONNECTOR_READ_ONLY, QUIRE_CONNECTOR_DOWN, QUIRE_CONNECTOR_UP}) {
    store.set_state(state);
    quire_connector_health health{};
    ASSERT_TRUE(connector->read_health(&health).ok());
    EXPECT_EQ(health.state, state);
    EXPECT_EQ(health.capacity_bytes, 100U);
    EXPECT_EQ(health.used_bytes, 40U);
    EXPECT_EQ(health.num_objects, 1U);
  }
  quire_connector_health health{};
  store.fail_next(StoreCall::kHealth, QUIRE_UNAVAILABLE);
  EXPECT_EQ(connector->read_health(&health).code(), QUIRE_UNAVAILABLE);
}

TEST(Health, OfAStateThatNobodyKnowsIsRefused) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  for (const int32_t state : {-1, 4, INT32_MAX}) {
    script().health = [state](quire_connector_health* health) {
      health->state = state;
      return QUIRE_OK;
    };
    quire_connector_health health{};
    health.num_objects = 7;
    EXPECT_EQ(connector->read_health(&health).code(), QUIRE_UNKNOWN);
    EXPECT_EQ(health.num_objects, 7U) << "written after an error";
  }
}

TEST(Descriptor, ThatIsNoneIsRefused) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  script().fd = [](int32_t* fd) {
    *fd = -1;
    return QUIRE_OK;
  };
  EXPECT_EQ(connector->descriptor().status().message(), "connector scripted gave the file descriptor -1");
}

struct Listed {
  std::vector<std::string> keys;
  std::vector<uint64_t> sizes;
};

// All objects, a few at a time.
Listed list_all(Connector& connector, size_t capacity, size_t key_bytes) {
  Listed listed;
  uint64_t cursor = 0;
  do {
    std::vector<quire_object_entry> items(capacity);
    std::vector<uint8_t> keys(key_bytes);
    uint64_t count = 0;
    const Status status = connector.list(&cursor, items, keys, &count);
    EXPECT_TRUE(status.ok()) << status.message();
    for (uint64_t i = 0; i < count; ++i) {
      listed.keys.emplace_back(reinterpret_cast<const char*>(keys.data()) + items[i].key_offset, items[i].key_bytes);
      listed.sizes.push_back(items[i].object_bytes);
    }
  } while (cursor != 0 && !testing::Test::HasFailure());
  return listed;
}

TEST(Listing, NamesEveryObjectOnce) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  EXPECT_TRUE(list_all(*connector, 4, 64).keys.empty());
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 20; ++i) {
    keys.push_back(std::string(i % 5 + 1, static_cast<char>('a' + i)));
    store.put(keys.back(), std::vector<uint8_t>(i + 1));
  }
  for (const size_t capacity : {1, 3, 20, 100}) {
    Listed listed = list_all(*connector, capacity, 7);
    EXPECT_EQ(listed.keys, keys);
    EXPECT_EQ(listed.sizes[19], 20U);
  }
  uint64_t cursor = 0;
  uint64_t count = 9;
  quire_object_entry items[4];
  uint8_t room[7];
  store.put("12345678", std::vector<uint8_t>(1));
  while (connector->list(&cursor, items, room, &count).ok()) continue;
  const Status status = connector->list(&cursor, items, room, &count);
  EXPECT_EQ(status.code(), QUIRE_OUT_OF_RANGE) << "the next key does not fit";
  EXPECT_EQ(connector->list(&cursor, {}, room, &count).message(), "capacity is 0: a listing would never end");
}

TEST(Listing, ThatCannotBeIsRefused) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  uint8_t keys[10];
  quire_object_entry items[2];
  const auto expect = [&](uint64_t next, uint64_t given, quire_object_entry item, const std::string& says) {
    script().list = [=](uint64_t* cursor, std::span<quire_object_entry> to, uint64_t* count) {
      *cursor = next;
      *count = given;
      for (quire_object_entry& each : to) each = item;
      return QUIRE_OK;
    };
    uint64_t cursor = 5;
    uint64_t count = 99;
    const Status status = connector->list(&cursor, items, keys, &count);
    EXPECT_EQ(status.code(), QUIRE_UNKNOWN);
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
    EXPECT_EQ(cursor, 5U);
    EXPECT_EQ(count, 99U);
  };
  expect(0, 3, {0, 1, 1, 0}, "listed 3 objects in 2 places");
  expect(7, 0, {}, "listed nothing and wants to go on at 7");
  expect(0, 1, {0, 0, 1, 0}, "a key of 0 bytes");
  expect(0, 2, {0, 11, 1, 0}, "a key of 11 bytes from byte 0 on, of 10");
  expect(0, 2, {5, 6, 1, 0}, "object 0 with a key of 6 bytes from byte 5 on, of 10");
  expect(0, 2, {UINT64_MAX, 2, 1, 0}, "from byte 18446744073709551615 on");
  expect(0, 2, {2, UINT64_MAX, 1, 0}, "a key of 18446744073709551615 bytes");
  expect(0, 1, {0, 1, 1, 1}, "object 0");
}

TEST(Regions, ThatATicketUsesCannotEnd) {
  FakeStoreOptions options;
  options.flags = QUIRE_CONNECTOR_REGISTERS;
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  store.set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  static uint8_t bytes[4096];
  auto one = connector->register_region(bytes, 2048, QUIRE_DEVICE_CPU, 0);
  auto two = connector->register_region(bytes + 2048, 2048, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(one.ok() && two.ok());
  Batch batch;
  EXPECT_EQ(refusal(*connector, Batch().load(1, "a", bytes, 64)).message(),
            "runs[0].region is 0, connector fake_store wants registered bytes");
  batch.load(1, "a", bytes, 64).runs[0].region = *one;
  batch.run(bytes + 2048, 64).region = *two;
  batch.run(bytes, 64).region = *one;  // twice the same: one use
  batch.load(2, "b", bytes + 64, 64).runs.back().region = *one;
  submit_all(*connector, batch);
  EXPECT_EQ(connector->unregister_region(*one).message(), "2 tickets in flight use region " + std::to_string(*one));
  EXPECT_EQ(connector->unregister_region(*two).code(), QUIRE_FAILED_PRECONDITION);
  store.release(1);
  EXPECT_EQ(connector->unregister_region(*two).code(), QUIRE_FAILED_PRECONDITION) << "until its completion was polled";
  EXPECT_EQ(poll_now(*connector).size(), 1U);
  EXPECT_TRUE(connector->unregister_region(*two).ok());
  EXPECT_EQ(connector->unregister_region(*one).message(), "1 tickets in flight use region " + std::to_string(*one));
  store.release(2);
  EXPECT_EQ(poll_now(*connector).size(), 1U);
  EXPECT_TRUE(connector->unregister_region(*one).ok());
  EXPECT_EQ(connector->stats().num_regions, 0U);
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

TEST(Regions, OfRefusedTicketsAreNotUsed) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  static uint8_t bytes[64];
  auto region = connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(region.ok());
  Batch batch;
  batch.load(1, "a", bytes, 64).runs[0].region = *region;
  batch.remove(1, "b");  // the number is taken
  EXPECT_EQ(refusal(*connector, batch).code(), QUIRE_INVALID_ARGUMENT);
  store.accept_next(0, QUIRE_OK);
  batch.tickets.pop_back();
  uint64_t accepted = 9;
  ASSERT_TRUE(connector->submit(batch.all(), &accepted).ok());
  EXPECT_EQ(accepted, 0U);
  EXPECT_TRUE(connector->unregister_region(*region).ok());
}

TEST(Regions, AreCheckedAsTheyAreNow) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  static uint8_t bytes[64];
  auto region = connector->register_region(bytes + 8, 48, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(region.ok());
  const auto load_from = [&](int at) {
    Batch batch;
    batch.load(1, "a", bytes + at, 8).runs[0].region = *region;
    return batch;
  };
  EXPECT_EQ(refusal(*connector, load_from(7)).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(refusal(*connector, load_from(49)).code(), QUIRE_OUT_OF_RANGE);
  submit_all(*connector, load_from(48));
  EXPECT_EQ(poll_now(*connector).size(), 1U);
  store.fail_next(StoreCall::kUnregister, QUIRE_INTERNAL);
  EXPECT_EQ(connector->unregister_region(*region).code(), QUIRE_INTERNAL);
  submit_all(*connector, load_from(8));  // it is still registered
  EXPECT_EQ(poll_now(*connector).size(), 1U);
  EXPECT_TRUE(connector->unregister_region(*region).ok());
  const Status status = refusal(*connector, load_from(8));
  EXPECT_EQ(status.message(), "runs[0].region is " + std::to_string(*region) + ", no region of that number is registered");
}

TEST(Regions, AreAtMost64) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  static uint8_t bytes[64];
  std::vector<uint64_t> regions(64);
  for (uint64_t& region : regions) region = *connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0);
  EXPECT_EQ(connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0).status().message(),
            "64 regions are registered with connector scripted already");
  EXPECT_EQ(script().regions, 64U) << "the connector was asked";
  EXPECT_EQ(connector->stats().num_regions, 64U);
  Batch batch;
  batch.load(1, "a", bytes, 1);
  for (int i = 1; i < 64; ++i) batch.run(bytes, 1);
  for (int i = 0; i < 64; ++i) batch.runs[i].region = regions[i];
  submit_all(*connector, batch);
  for (const uint64_t region : regions) EXPECT_EQ(connector->unregister_region(region).code(), QUIRE_FAILED_PRECONDITION);
  give({{1, QUIRE_NOT_FOUND, 0, 0, 0}});
  EXPECT_EQ(poll_now(*connector).size(), 1U);
  for (const uint64_t region : regions) EXPECT_TRUE(connector->unregister_region(region).ok());
  EXPECT_TRUE(connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0).ok());
}

TEST(Regions, WithANumberThatMeansSomethingElseAreRefused) {
  auto connector = open_scripted();
  ASSERT_NE(connector, nullptr);
  static uint8_t bytes[64];
  auto one = connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(one.ok());
  uint64_t number = 0;
  script().region_register = [&](uint64_t* region) {
    *region = number;
    return QUIRE_OK;
  };
  EXPECT_NE(connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0).status().message().find("region 0, which means none"),
            std::string::npos);
  number = *one;
  EXPECT_NE(connector->register_region(bytes, 64, QUIRE_DEVICE_CPU, 0).status().message().find("which means others"), std::string::npos);
  EXPECT_EQ(connector->stats().num_regions, 1U);
  EXPECT_EQ(connector->register_region(bytes, UINT64_MAX, QUIRE_DEVICE_CPU, 0).status().code(), QUIRE_OUT_OF_RANGE);
}

}  // namespace
}  // namespace quire::test
