// Several servers, of which one is lost; the ring that says which server has a key; several processes on one server, killed at random; a
// child of fork().
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "plugins/redis/shards.h"
#include "redis_server.h"
#include "tests/unit/fork_when_quiet.h"
#include "worker_process.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

std::vector<redis::Address> addresses(const std::vector<std::string>& names) {
  std::vector<redis::Address> all(names.size());
  for (size_t i = 0; i < names.size(); ++i) all[i].text = names[i];
  return all;
}

TEST(RedisShards, KeysAreSpreadEvenlyAndStayWhereTheyAre) {
  const std::vector<std::string> names = {"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "/run/redis.sock"};
  const redis::Shards all(addresses(names));
  const redis::Shards turned(addresses({names[3], names[1], names[0], names[2]}));
  const std::vector<uint32_t> turned_numbers = {3, 1, 0, 2};
  const redis::Shards fewer(addresses({names[0], names[1], names[2]}));
  constexpr uint64_t kKeys = 20'000;
  std::vector<uint64_t> shares(names.size());
  uint64_t moved = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const uint32_t server = all.of(key(i));
    ++shares[server];
    ASSERT_EQ(turned_numbers[turned.of(key(i))], server) << "the order of the list does not matter";
    if (server == 3) continue;
    moved += fewer.of(key(i)) != server ? 1 : 0;
  }
  EXPECT_EQ(moved, 0u) << "only keys of the server that went go elsewhere";
  for (const uint64_t share : shares) {
    EXPECT_GT(share, kKeys / 4 * 3 / 4);
    EXPECT_LT(share, kKeys / 4 * 5 / 4);
  }
}

// Where a key lies is part of what is stored: another version of the connector must find it there.
TEST(RedisShards, TheRingIsTheOneOfTheFirstVersion) {
  const redis::Shards all(addresses({"a:1", "b:2", "c:3"}));
  std::string servers;
  for (int i = 0; i < 40; ++i) servers += std::to_string(all.of("key" + std::to_string(i)));
  EXPECT_EQ(servers, "1000111220112110011011211110121222220212");
}

class Three {
 public:
  Three() {
    std::string list;
    for (auto& server : servers_) {
      server = std::make_unique<RedisServer>();
      list += (list.empty() ? "" : ", ") + server->socket();
    }
    config_ = "{\"servers\": \"" + list + "\"";
    Error err;
    redis::Config config;
    EXPECT_TRUE(redis::read_config(config_ + "}", &config).ok());
    shards_ = std::make_unique<redis::Shards>(config.servers);
  }
  Client open(const std::string& fields = "") const { return {redis_subject(), config_ + fields + "}"}; }
  RedisServer& server(size_t i) { return *servers_[i]; }
  uint32_t of(const Key& name) const { return shards_->of(name); }

 private:
  std::unique_ptr<RedisServer> servers_[3];
  std::string config_;
  std::unique_ptr<redis::Shards> shards_;
};

TEST(RedisShards, ALostServerIsAMissForLookUpsAndAnErrorForStores) {
  Three three;
  Client client = three.open();
  std::vector<Key> keys;
  std::vector<uint64_t> all, without;
  for (uint64_t i = 0; i < 120; ++i) {
    keys.push_back(key(i));
    ASSERT_EQ(client.store(keys[i], content(i, 100 + i)).code, QUIRE_OK);
    all.push_back(100 + i);
    without.push_back(three.of(keys[i]) == 1 ? 0 : 100 + i);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(three.server(i).ask({"DBSIZE"}), "0");
  EXPECT_EQ(client.sizes(keys), all);
  three.server(1).kill();
  EXPECT_TRUE(becomes_true([&] { return client.sizes(keys) == without; })) << "the others go on";
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP);
  for (uint64_t i = 0; i < 240; ++i) {
    const bool is_lost = three.of(key(i)) == 1;
    if (i >= 120) {
      EXPECT_EQ(client.store(key(i), content(i, 100 + i)).code, is_lost ? QUIRE_UNAVAILABLE : QUIRE_OK) << i;
    }
    Bytes out;
    EXPECT_EQ(client.load(key(i), 0, 100, &out).code, is_lost ? QUIRE_UNAVAILABLE : QUIRE_OK) << i;
  }
  quire_object_entry items[4];
  uint8_t names[1000];
  uint64_t cursor = 0, count = 0;
  Error err;
  EXPECT_EQ(quire_connector_list(client.get(), &cursor, items, 4, &count, names, sizeof names, &err), QUIRE_UNAVAILABLE);
  EXPECT_NE(std::string(err.message).find(three.server(1).socket()), std::string::npos) << err.message;
  Client second = three.open();  // one that is opened now works with the two that are there
  EXPECT_EQ(second.sizes(keys), without);
  three.server(1).start();
  for (uint64_t i = 0; i < 120; ++i) {
    if (three.of(key(i)) != 1) continue;
    EXPECT_TRUE(becomes_true([&] { return client.store(key(i), content(i, 100 + i)).code == QUIRE_OK; })) << "it is back";
  }
  EXPECT_EQ(client.sizes(keys), all);
  for (size_t i = 0; i < 3; ++i) three.server(i).kill();
  uint64_t size = 0;
  Batch batch;
  const uint64_t ticket = batch.look_up({key(1)}, &size).ticket;
  EXPECT_EQ(client.run(batch)[ticket].code, QUIRE_UNAVAILABLE) << "nobody is there to ask";
}

// A stopped server holds up nothing that is for the others, and a look-up no longer than its deadline.
TEST(RedisShards, AStoppedServerHoldsUpNobodyElse) {
  Three three;
  Client client = three.open();
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 60; ++i) {
    keys.push_back(key(i));
    ASSERT_EQ(client.store(keys[i], content(i, 1000)).code, QUIRE_OK);
  }
  three.server(0).stop();
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < 60; ++i) {
    if (three.of(keys[i]) == 0) continue;
    EXPECT_TRUE(client.holds(keys[i], content(i, 1000)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  std::vector<uint64_t> sizes(keys.size(), 77);
  Batch batch;
  quire_ticket& ticket = batch.look_up(keys, sizes.data());
  ticket.deadline_ns = clock_now() + 100 * kMillisecond;
  EXPECT_EQ(client.run(batch)[ticket.ticket].code, QUIRE_DEADLINE_EXCEEDED);
  sizes.assign(keys.size(), 88);
  three.server(0).go_on();
  EXPECT_TRUE(becomes_true([&] { return client.has(keys[0]) && client.has(keys[1]); }));
  EXPECT_EQ(sizes, std::vector<uint64_t>(keys.size(), 88)) << "sizes of a look-up that has ended";
}

TEST(RedisShards, ObjectsAreWholeWhenProcessesAreKilled) {
  Rng rng(seed());
  RedisServer server;
  for (uint64_t round = 0; round < 12 / kSlowness; ++round) {
    {
      const WorkerProcess first(QUIRE_REDIS_WORKER, server.socket(), below(&rng, 1 << 30));
      const WorkerProcess second(QUIRE_REDIS_WORKER, server.socket(), below(&rng, 1 << 30));
      std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 200'000)));
    }
    Client client(redis_subject(), server.config());
    std::map<Key, uint64_t> numbers;
    for (uint64_t i = 0; i < kWorkerKeys + 2; ++i) numbers[key(i)] = i;
    const auto there = client.list();
    EXPECT_FALSE(there.empty());
    for (const auto& [name, bytes] : there) {
      const auto number = numbers.find(name);
      ASSERT_NE(number, numbers.end());
      ASSERT_TRUE(client.holds(name, worker_object(number->second))) << number->second;
      ASSERT_EQ(bytes, worker_object(number->second).size());
    }
  }
}

TEST(RedisShards, OneProcessFindsWhatAnotherStored) {
  RedisServer server;
  Client first(redis_subject(), server.config());
  Client second(redis_subject(), server.config());
  Client other(redis_subject(), server.config(", \"prefix\": \"other:\""));
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(first.store(key(i), worker_object(i)).code, QUIRE_OK);
    EXPECT_TRUE(second.holds(key(i), worker_object(i)));
    EXPECT_EQ(second.store(key(i), content(1, 1)).flags, QUIRE_COMPLETION_EXISTED);
  }
  EXPECT_TRUE(other.list().empty()) << "another prefix is another store";
  EXPECT_EQ(second.list().size(), 20u);
}

TEST(RedisShards, AChildOfForkGivesBackWhatItInherited) {
  RedisServer server;
  Client client(redis_subject(), server.config());
  ASSERT_EQ(client.store(key(1), content(1, 1000)).code, QUIRE_OK);
  const pid_t child = test::fork_when_quiet();
  if (child == 0) {
    client.close();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(client.holds(key(1), content(1, 1000)));
}

}  // namespace
}  // namespace quire
