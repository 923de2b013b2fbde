// Look-ups, leases, removal, listings, a store that is full.
#include <algorithm>
#include <chrono>
#include <thread>

#include "kit.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

TEST_P(ConnectorKit, LookUpsAnswerEachKeyInItsPlace) {
  Client client = open(16 * kMiB);
  std::vector<Key> keys;
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < 1500; ++i) {
    keys.push_back(key(i));
    sizes.push_back(i % 7 == 0 ? 1 + i * 3 : 0);
    if (sizes[i] != 0) {
      ASSERT_EQ(client.store(keys[i], content(i, sizes[i])).code, QUIRE_OK);
    }
  }
  quire_completion end{};
  EXPECT_EQ(client.sizes(keys, 0, &end), sizes);
  EXPECT_EQ(end.flags, 0u) << "no lease was asked for";
  std::reverse(keys.begin(), keys.end());
  std::reverse(sizes.begin(), sizes.end());
  EXPECT_EQ(client.sizes(keys), sizes);
  EXPECT_EQ(client.sizes({keys[0], key(0), keys[0], key(0)}), (std::vector<uint64_t>{sizes[0], 1, sizes[0], 1}));
}

TEST_P(ConnectorKit, RemovedObjectsAreGoneAndCanBeStoredAnew) {
  Client client = open(8 * kMiB);
  for (uint64_t round = 0; round < 20; ++round) {
    const Bytes object = content(round, 1 + round * 9999);
    ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
    ASSERT_TRUE(client.holds(key(1), object));
    EXPECT_EQ(client.remove(key(1)).code, QUIRE_OK);
    EXPECT_EQ(client.remove(key(1)).code, QUIRE_NOT_FOUND);
    Bytes out;
    EXPECT_EQ(client.load(key(1), 0, 1, &out).code, QUIRE_NOT_FOUND);
    EXPECT_FALSE(client.has(key(1)));
    EXPECT_TRUE(client.keeps({}));
  }
}

// A lease keeps an object from making room; whoever removes it knows what he does.
TEST_P(ConnectorKit, LeasesDoNotKeepFromRemoval) {
  Client client = open(kMiB);
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  client.sizes({key(1)}, 60 * kSecond);
  EXPECT_EQ(client.remove(key(1)).code, QUIRE_OK);
  EXPECT_FALSE(client.has(key(1)));
}

TEST_P(ConnectorKit, ListsEveryObjectOnce) {
  if (!GetParam().lists) GTEST_SKIP() << "it has no listing";
  Client client = open(32 * kMiB);
  std::map<Key, uint64_t> objects;
  for (uint64_t i = 0; i < 300; ++i) {
    const Key name = key(i, 1 + i % 32);
    if (!objects.emplace(name, 1 + i % 50).second) continue;
    ASSERT_EQ(client.store(name, content(i, 1 + i % 50)).code, QUIRE_OK);
  }
  EXPECT_EQ(client.list(1), objects);
  EXPECT_EQ(client.list(7), objects);
  EXPECT_EQ(client.list(1000), objects);
  const quire_connector_health health = client.health();
  if (health.num_objects != 0) {
    EXPECT_EQ(health.num_objects, objects.size());
  }
}

TEST_P(ConnectorKit, ListsOnlyWhatFitsAndSaysWhenNothingDoes) {
  if (!GetParam().lists) GTEST_SKIP() << "it has no listing";
  Client client = open(kMiB);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(client.store(key(i), content(i, 10)).code, QUIRE_OK);
  quire_object_entry items[10];
  uint8_t keys[100];
  uint64_t cursor = 0, count = 0, listed = 0;
  Error err;
  do {
    ASSERT_EQ(quire_connector_list(client.get(), &cursor, items, 10, &count, keys, sizeof keys, &err), QUIRE_OK) << err.message;
    EXPECT_LE(count, 3u) << "100 bytes hold three keys of 32";
    listed += count;
  } while (cursor != 0);
  EXPECT_EQ(listed, 10u);
  EXPECT_EQ(quire_connector_list(client.get(), &cursor, items, 10, &count, keys, 31, &err), QUIRE_OUT_OF_RANGE);
}

TEST_P(ConnectorKit, WithoutAListingItSaysSo) {
  if (GetParam().lists) GTEST_SKIP() << "it has one";
  Client client = open(kMiB);
  quire_object_entry item;
  uint8_t keys[64];
  uint64_t cursor = 0, count = 0;
  Error err;
  EXPECT_EQ(quire_connector_list(client.get(), &cursor, &item, 1, &count, keys, sizeof keys, &err), QUIRE_UNIMPLEMENTED);
  EXPECT_NE(std::string(err.message), "");
}

// Objects that are there all the time are listed once while others come and go.
TEST_P(ConnectorKit, ListingsHoldWhileObjectsComeAndGo) {
  if (!GetParam().lists) GTEST_SKIP() << "it has no listing";
  Client client = open(32 * kMiB);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(client.store(key(i), content(i, 100)).code, QUIRE_OK);
  for (uint64_t i = 1000; i < 1100; ++i) ASSERT_EQ(client.store(key(i), content(i, 100)).code, QUIRE_OK);
  std::map<Key, int> seen;
  quire_object_entry items[9];
  uint8_t keys[9 * 32];
  uint64_t cursor = 0;
  for (uint64_t round = 0;; ++round) {
    uint64_t count = 0;
    Error err;
    ASSERT_EQ(quire_connector_list(client.get(), &cursor, items, 9, &count, keys, sizeof keys, &err), QUIRE_OK) << err.message;
    for (uint64_t i = 0; i < count; ++i) {
      const uint8_t* const first = keys + items[i].key_offset;
      ++seen[Key(first, first + items[i].key_bytes)];
    }
    if (cursor == 0) break;
    for (uint64_t i = 0; i < 5; ++i) {
      client.remove(key(1000 + round * 5 + i));
      client.store(key(2000 + round * 5 + i), content(round, 50));
    }
  }
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(seen[key(i)], 1) << i;
}

// What a full store does: objects make room for others, or stores are refused. Never is an object wrong.
TEST_P(ConnectorKit, AFullStoreStaysRight) {
  constexpr uint64_t kObject = 64 * kKiB;
  constexpr uint64_t kObjects = 320;  // five times the capacity
  Client client = open(4 * kMiB);
  uint64_t refused = 0;
  for (uint64_t i = 0; i < kObjects; ++i) {
    const quire_completion end = client.store(key(i), content(i, kObject));
    ASSERT_TRUE(end.code == QUIRE_OK || end.code == QUIRE_RESOURCE_EXHAUSTED) << end.code;
    refused += end.code != QUIRE_OK ? 1 : 0;
    if (end.code == QUIRE_OK) {
      ASSERT_TRUE(client.holds(key(i), content(i, kObject))) << "the newest object is there";
    }
  }
  std::vector<Key> all;
  for (uint64_t i = 0; i < kObjects; ++i) all.push_back(key(i));
  const auto there = GetParam().lists ? client.list() : client.found(all);
  EXPECT_GE(there.size(), 64u) << "the capacity is what was asked for";
  EXPECT_LE(there.size(), 256u);
  EXPECT_EQ(refused == 0, GetParam().evicts);
  for (uint64_t i = 0; i < kObjects; ++i) {
    if (there.count(key(i)) != 0) {
      EXPECT_TRUE(client.holds(key(i), content(i, kObject))) << i;
    }
  }
  const quire_connector_health health = client.health();
  if (health.capacity_bytes != 0) {
    EXPECT_LE(health.used_bytes, health.capacity_bytes);
  }
  EXPECT_EQ(health.num_evicted, GetParam().evicts ? kObjects - there.size() : 0);
  if (GetParam().evicts) return;
  for (const auto& [name, size] : there) ASSERT_EQ(client.remove(name).code, QUIRE_OK);
  EXPECT_EQ(client.store(key(kObjects), content(1, kObject)).code, QUIRE_OK);
}

TEST_P(ConnectorKit, AnObjectLargerThanTheStoreIsRefused) {
  Client client = open(kMiB);
  ASSERT_EQ(client.store(key(1), content(1, 1000)).code, QUIRE_OK);
  const Bytes object = content(2, 5 * kMiB);
  Layout layout = dense(0, object.size());
  Memory memory(&layout);
  memory.fill(layout.runs, object);
  const uint64_t most = client.info().max_object_bytes;
  const Key name = key(2);
  quire_ticket ticket{};
  ticket.ticket = 1u << 30;
  ticket.kind = QUIRE_TICKET_STORE;
  ticket.num_runs = 1;
  ticket.num_keys = 1;
  ticket.key_bytes = 32;
  ticket.object_bytes = object.size();
  ticket.deadline_ns = -1;
  uint64_t accepted = 0;
  Error err;
  const quire_code code = quire_connector_submit(client.get(), &ticket, 1, layout.runs.data(), 1,
                                                 reinterpret_cast<const uint8_t*>(name.data()), 32, &accepted, &err);
  if (most != 0 && most < object.size()) {
    EXPECT_EQ(code, QUIRE_OUT_OF_RANGE);
    EXPECT_EQ(accepted, 0u);
  } else {
    ASSERT_EQ(code, QUIRE_OK) << err.message;
    EXPECT_EQ(client.wait(1)[ticket.ticket].code, QUIRE_RESOURCE_EXHAUSTED);
  }
  EXPECT_TRUE(memory.intact());
  EXPECT_FALSE(client.has(key(2)));
  EXPECT_TRUE(client.holds(key(1), content(1, 1000))) << "nothing made room for what cannot fit";
}

// Objects with a lease stay while everything else has to go, and can go when it has ended.
TEST_P(ConnectorKit, LeasedObjectsDoNotMakeRoom) {
  if (!GetParam().evicts || !GetParam().leases) GTEST_SKIP() << "it does not evict, or it grants no leases";
  constexpr uint64_t kObject = 64 * kKiB;
  Client client = open(4 * kMiB);
  std::vector<Key> leased;
  for (uint64_t i = 0; i < 8; ++i) {
    leased.push_back(key(i));
    ASSERT_EQ(client.store(leased[i], content(i, kObject)).code, QUIRE_OK);
  }
  quire_completion end{};
  const auto lease_end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  EXPECT_EQ(client.sizes(leased, 3 * kSecond, &end), std::vector<uint64_t>(8, kObject));
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
  for (uint64_t i = 100; i < 400; ++i) ASSERT_EQ(client.store(key(i), content(i, kObject)).code, QUIRE_OK) << i;
  const std::vector<uint64_t> there = client.sizes(leased);
  if (std::chrono::steady_clock::now() >= lease_end) GTEST_SKIP() << "300 stores of 64 KiB took longer than a lease of 3 s";
  EXPECT_EQ(there, std::vector<uint64_t>(8, kObject));
  for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(there[i] == 0 || client.holds(leased[i], content(i, kObject))) << i;
  std::this_thread::sleep_until(lease_end + std::chrono::milliseconds(100));
  for (uint64_t i = 400; i < 700; ++i) ASSERT_EQ(client.store(key(i), content(i, kObject)).code, QUIRE_OK) << i;
  EXPECT_EQ(client.sizes(leased), std::vector<uint64_t>(8, 0)) << "leases end";
}

}  // namespace
