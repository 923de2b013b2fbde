// The host connector's own rules, by example: order of eviction, priorities, health, settings.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "tests/connectors/kit.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

constexpr uint64_t kObject = 65536;

Subject host() {
  Subject subject;
  subject.connector = "host";
  return subject;
}

Client open(const std::string& fields) { return {host(), "{" + fields + "}"}; }

// Stores objects under these numbers, one submission.
void store_all(Client& client, const std::vector<uint64_t>& numbers, uint64_t bytes = kObject) {
  std::vector<Layout> layouts(numbers.size(), dense(0, bytes));
  std::vector<Memory> memories;
  Batch batch;
  for (size_t i = 0; i < numbers.size(); ++i) {
    memories.emplace_back(&layouts[i]);
    batch.store(key(numbers[i]), layouts[i].runs, bytes);
  }
  ASSERT_EQ(client.submit(batch), numbers.size());
  for (const auto& [ticket, end] : client.wait(numbers.size())) ASSERT_EQ(end.code, QUIRE_OK);
}

std::vector<uint64_t> numbers(uint64_t first, uint64_t count) {
  std::vector<uint64_t> all(count);
  for (uint64_t i = 0; i < count; ++i) all[i] = first + i;
  return all;
}

// What is left of a chain, which must be its beginning. The listing does not count as a use.
uint64_t rest_of_chain(Client& client, const std::vector<uint64_t>& chain) {
  const auto there = client.list();
  uint64_t rest = 0;
  while (rest < chain.size() && there.count(key(chain[rest])) != 0) ++rest;
  for (uint64_t i = rest; i < chain.size(); ++i) EXPECT_EQ(there.count(key(chain[i])), 0u) << "a hole at " << rest << ", but " << i;
  return rest;
}

// Fills a store of 64 objects with strangers, one by one, until nothing is left of the chain.
void expect_to_lose_its_end_first(Client& client, const std::vector<uint64_t>& chain) {
  uint64_t rest = rest_of_chain(client, chain);
  ASSERT_EQ(rest, chain.size());
  for (uint64_t stranger = 10'000; rest != 0; ++stranger) {
    ASSERT_LT(stranger, 10'200u);
    store_all(client, {stranger});
    const uint64_t now = rest_of_chain(client, chain);
    ASSERT_TRUE(now == rest || now + 1 == rest) << rest << " were left, then " << now;
    rest = now;
  }
}

class HostEviction : public testing::TestWithParam<int> {
 protected:
  Client open() const { return quire::open("\"bytes\": \"4MiB\", \"threads\": " + std::to_string(GetParam())); }
};

TEST_P(HostEviction, AChainStoredAtOnceLosesItsEndFirst) {
  Client client = open();
  store_all(client, numbers(0, 40));
  expect_to_lose_its_end_first(client, numbers(0, 40));
}

TEST_P(HostEviction, ALookUpMakesAChainOfWhatWasStoredInAnyOrder) {
  Client client = open();
  std::vector<uint64_t> order = numbers(0, 40);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  for (const uint64_t number : order) store_all(client, {number});
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 50; ++i) keys.push_back(key(i));  // the last ten are not there
  client.sizes(keys);
  expect_to_lose_its_end_first(client, numbers(0, 40));
}

TEST_P(HostEviction, LoadsOfOneSubmissionKeepTheChain) {
  Client client = open();
  std::vector<uint64_t> order = numbers(0, 40);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(4));
  for (const uint64_t number : order) store_all(client, {number});
  std::vector<Layout> layouts(40, dense(0, kObject));
  std::vector<Memory> memories;
  Batch batch;
  for (uint64_t i = 0; i < 40; ++i) {
    memories.emplace_back(&layouts[i]);
    batch.load(key(i), layouts[i].runs).priority = static_cast<int32_t>(i % 5);  // they start in another order
  }
  client.run(batch);
  expect_to_lose_its_end_first(client, numbers(0, 40));
}

// Two chains that begin alike: the beginning, of which both are in need, goes last.
TEST_P(HostEviction, ASharedBeginningGoesLast) {
  Client client = open();
  store_all(client, numbers(0, 10));
  store_all(client, numbers(100, 10));
  store_all(client, numbers(200, 10));
  for (const uint64_t branch : {100, 200, 100}) {
    std::vector<Key> keys;
    for (const uint64_t number : numbers(0, 10)) keys.push_back(key(number));
    for (const uint64_t number : numbers(branch, 10)) keys.push_back(key(number));
    client.sizes(keys);
  }
  uint64_t stranger = 10'000;
  for (uint64_t rest = 10; rest != 0; ++stranger) {
    ASSERT_LT(stranger, 10'200u);
    store_all(client, {stranger});
    const auto there = client.list();
    rest = rest_of_chain(client, numbers(0, 10));
    const bool both_gone = there.count(key(100)) == 0 && there.count(key(200)) == 0;
    if (rest < 10) {
      EXPECT_TRUE(both_gone);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, HostEviction, testing::Values(1, 3));

TEST(HostConnector, HigherPrioritiesStartFirst) {
  Client client = open("\"bytes\": \"4MiB\"");
  std::mt19937_64 rng(5);
  std::vector<uint64_t> sizes(200);
  Batch batch;
  std::map<uint64_t, int32_t> priorities;
  for (uint64_t& size : sizes) {
    quire_ticket& ticket = batch.look_up({key(1)}, &size);
    ticket.priority = static_cast<int32_t>(rng() % 7) - 3;
    priorities[ticket.ticket] = ticket.priority;
  }
  ASSERT_EQ(client.submit(batch), sizes.size());
  std::vector<uint64_t> order;
  while (order.size() < sizes.size()) {
    for (const quire_completion& end : client.poll(kSecond)) order.push_back(end.ticket);
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(), [&](uint64_t a, uint64_t b) {
    return priorities[a] != priorities[b] ? priorities[a] > priorities[b] : a < b;  // equal ones in order of submission
  }));
}

TEST(HostConnector, ReportsChunksObjectsAndWhetherItIsFull) {
  Client client = open("\"bytes\": \"1MiB\"");
  quire_connector_health health = client.health();
  EXPECT_EQ(health.state, QUIRE_CONNECTOR_UP);
  EXPECT_EQ(health.capacity_bytes, kMiB);
  EXPECT_EQ(health.used_bytes, 0u);
  ASSERT_EQ(client.store(key(1), content(1, 1)).code, QUIRE_OK);
  ASSERT_EQ(client.store(key(2), content(2, kObject + 1)).code, QUIRE_OK);
  health = client.health();
  EXPECT_EQ(health.used_bytes, 3 * kObject) << "chunks, not bytes";
  EXPECT_EQ(health.num_objects, 2u);
  store_all(client, numbers(10, 13));
  std::vector<Key> keys = {key(1), key(2)};
  for (const uint64_t number : numbers(10, 13)) keys.push_back(key(number));
  quire_completion end{};
  client.sizes(keys, kSecond / 2, &end);
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
  EXPECT_EQ(client.store(key(3), content(3, 1)).code, QUIRE_RESOURCE_EXHAUSTED);
  health = client.health();
  EXPECT_EQ(health.state, QUIRE_CONNECTOR_FULL);
  EXPECT_EQ(health.num_evicted, 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP);
  EXPECT_EQ(client.store(key(3), content(3, 1)).code, QUIRE_OK);
  EXPECT_EQ(client.health().num_evicted, 1u);
}

TEST(HostConnector, PromisesNoLeaseBeyondAnHour) {
  Client client = open("\"bytes\": \"1MiB\"");
  ASSERT_EQ(client.store(key(1), content(1, 1)).code, QUIRE_OK);
  quire_completion end{};
  EXPECT_EQ(client.sizes({key(1)}, 3601 * kSecond, &end), (std::vector<uint64_t>{1}));
  EXPECT_EQ(end.flags, 0u);
  client.sizes({key(1)}, 3600 * kSecond, &end);
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
  client.sizes({key(2)}, kSecond, &end);
  EXPECT_EQ(end.flags, 0u) << "nothing was found";
}

TEST(HostConnector, SaysWhatItIs) {
  Client client = open("\"bytes\": 1000000, \"chunk_bytes\": \"16KiB\", \"huge_pages\": true, \"threads\": 2");
  const quire_connector_info& info = client.info();
  EXPECT_EQ(info.flags, QUIRE_CONNECTOR_RANGES | QUIRE_CONNECTOR_STAGES);
  EXPECT_EQ(info.device_types, uint64_t{1} << QUIRE_DEVICE_CPU);
  EXPECT_EQ(info.max_object_bytes, 61u * 16384) << "whole chunks";
  EXPECT_EQ(info.best_object_bytes, 16384u);
  EXPECT_EQ(info.max_key_bytes, 128u);
  const Bytes object = content(1, info.max_object_bytes);
  EXPECT_EQ(client.store(key(1), object).code, QUIRE_OK);
  EXPECT_TRUE(client.holds(key(1), object));
}

TEST(HostConnector, RefusesWrongSettingsByName) {
  const struct {
    const char* fields;
    quire_code code;
    const char* part;
  } cases[] = {
      {"", QUIRE_INVALID_ARGUMENT, "config field bytes is missing"},
      {"\"byts\": 5", QUIRE_INVALID_ARGUMENT, "unknown field \"byts\"; known: chunk_bytes, bytes, huge_pages, shared, threads"},
      {"\"bytes\": 5", QUIRE_INVALID_ARGUMENT, "config field bytes is 5, it must be 65536 to"},
      {"\"bytes\": -5", QUIRE_INVALID_ARGUMENT, "config field bytes is -5, it must be a whole number"},
      {"\"bytes\": 1e9", QUIRE_INVALID_ARGUMENT, "config field bytes is 1e9, it must be a whole number"},
      {"\"bytes\": 1.5", QUIRE_INVALID_ARGUMENT, "config field bytes is 1.5, it must be"},
      {"\"bytes\": 99999999999999999999999", QUIRE_INVALID_ARGUMENT, "config field bytes is 99999999999999999999999, it must be"},
      {"\"bytes\": 1e999", QUIRE_INVALID_ARGUMENT, "config field \"bytes\" is a number beyond 64 bits"},
      {"\"bytes\": \"2 gallons\"", QUIRE_INVALID_ARGUMENT, "config field bytes is \"2 gallons\", it must be"},
      {"\"bytes\": \"20000000TiB\"", QUIRE_INVALID_ARGUMENT, "config field bytes is \"20000000TiB\", it must be"},
      {"\"bytes\": \"1.5GiB\"", QUIRE_INVALID_ARGUMENT, "config field bytes is \"1.5GiB\", it must be"},
      {"\"bytes\": null", QUIRE_INVALID_ARGUMENT, "config field bytes is null, it must be"},
      {"\"bytes\": [1]", QUIRE_INVALID_ARGUMENT, "config field \"bytes\" is an array"},
      {"\"bytes\": {}", QUIRE_INVALID_ARGUMENT, "config field \"bytes\" is an object"},
      {"\"bytes\": \"1MiB\", \"bytes\": 7", QUIRE_INVALID_ARGUMENT, "has the field \"bytes\" twice"},
      {"\"bytes\": \"1MiB\", \"chunk_bytes\": 5000", QUIRE_INVALID_ARGUMENT, "chunk_bytes is 5000, it must be a power of two"},
      {"\"bytes\": \"1MiB\", \"chunk_bytes\": 2048", QUIRE_INVALID_ARGUMENT, "chunk_bytes is 2048, it must be 4096 to 1073741824"},
      {"\"bytes\": \"1MiB\", \"chunk_bytes\": \"2MiB\"", QUIRE_INVALID_ARGUMENT, "config field bytes is \"1MiB\", it must be 2097152 to"},
      {"\"bytes\": \"60000TiB\", \"chunk_bytes\": 4096", QUIRE_INVALID_ARGUMENT, "at most 4294967294 chunks of 4096 bytes"},
      {"\"bytes\": \"1MiB\", \"threads\": 0", QUIRE_INVALID_ARGUMENT, "config field threads is 0, it must be 1 to 64"},
      {"\"bytes\": \"1MiB\", \"threads\": 65", QUIRE_INVALID_ARGUMENT, "config field threads is 65, it must be 1 to 64"},
      {"\"bytes\": \"1MiB\", \"threads\": \"2\"", QUIRE_INVALID_ARGUMENT, "config field threads is \"2\", it must be a whole number"},
      {"\"bytes\": \"1MiB\", \"huge_pages\": 1", QUIRE_INVALID_ARGUMENT, "config field huge_pages is 1, it must be true or false"},
      {"\"bytes\": \"1MiB\", \"shared\": true", QUIRE_INVALID_ARGUMENT, "config field shared is true, it must be a text"},
      {"\"bytes\": \"1MiB\", \"shared\": \"\"", QUIRE_INVALID_ARGUMENT, "config field shared must be 1 to 64 characters"},
      {"\"bytes\": \"1MiB\", \"shared\": \"../x\"", QUIRE_INVALID_ARGUMENT, "config field shared must be 1 to 64 characters"},
      {"\"bytes\": \"1MiB\", \"shared\": \"a\\u0000b\"", QUIRE_INVALID_ARGUMENT, "config field shared must be 1 to 64 characters"},
      {"\"bytes\": \"1000TiB\", \"chunk_bytes\": \"1GiB\"", QUIRE_RESOURCE_EXHAUSTED, "the store needs 1099"},
      {"\"bytes\": \"1000TiB\", \"chunk_bytes\": \"1GiB\", \"shared\": \"x\"", QUIRE_RESOURCE_EXHAUSTED, ", the machine has "},
  };
  for (const auto& each : cases) {
    Error err;
    EXPECT_EQ(Client::try_open(host(), std::string("{") + each.fields + "}", &err), each.code) << each.fields;
    EXPECT_NE(std::string(err.message).find(each.part), std::string::npos) << each.fields << ": " << err.message;
  }
  for (const char* config : {"", "[]", "1", "null", "\"text\"", "{", "{\"bytes\": 1", "{} {}", "{\"bytes\": \"\xff\"}", "{'bytes': 1}"}) {
    Error err;
    EXPECT_EQ(Client::try_open(host(), config, &err), QUIRE_INVALID_ARGUMENT) << config;
    EXPECT_NE(std::string(err.message).find("config "), std::string::npos) << config << ": " << err.message;
  }
  Error err;
  EXPECT_EQ(Client::try_open(host(), "{\"bytes\": 1, \"x\": \"" + std::string(70'000, 'y') + "\"}", &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("config has 70"), std::string::npos) << err.message;
}

}  // namespace
}  // namespace quire
