// What can happen to a real server under the redis connector: it is killed, stopped, full, evicts, refuses the password, has values of
// another kind, closes connections. Every ticket ends with the code that the documentation names; no byte moves after an end.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "plugins/redis/listing.h"
#include "redis_server.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

Client open(const std::string& config) { return {redis_subject(), config}; }

std::string refusal(const std::string& config, quire_code code) {
  Error err;
  EXPECT_EQ(Client::try_open(redis_subject(), config, &err), code) << err.message;
  return err.message;
}

uint64_t num_failed(const Client& client) {
  auto stats = QUIRE_INIT(quire_connector_stats);
  Error err;
  EXPECT_EQ(quire_connector_get_stats(client.get(), &stats, &err), QUIRE_OK);
  return stats.num_failed;
}

// A look-up of one key that may fail.
quire_code look_up_code(Client& client, const Key& name) {
  uint64_t size = 0;
  Batch batch;
  const uint64_t ticket = batch.look_up({name}, &size).ticket;
  return client.run(batch)[ticket].code;
}

TEST(RedisFaults, AKilledServerIsAnErrorAtOnceUntilItIsBack) {
  RedisServer server;
  Client client = open(server.config());
  ASSERT_EQ(client.store(key(1), content(1, 5000)).code, QUIRE_OK);
  server.kill();
  Bytes out;
  const auto begin = Clock::now();
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(client.store(key(2), content(2, 5000)).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(look_up_code(client, key(1)), QUIRE_UNAVAILABLE);
  EXPECT_EQ(client.remove(key(1)).code, QUIRE_UNAVAILABLE);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_DOWN; }));
  EXPECT_GE(num_failed(client), 4u);
  server.start();
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP; }));
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_NOT_FOUND) << "it kept nothing";
  EXPECT_EQ(client.store(key(2), content(2, 5000)).code, QUIRE_OK);
  EXPECT_TRUE(client.holds(key(2), content(2, 5000)));
}

TEST(RedisFaults, TicketsInFlightEndWhenTheServerIsKilled) {
  RedisServer server;
  Client client = open(server.config());
  const Bytes object = content(1, 4 * kMiB);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  std::vector<Layout> layouts(32, dense(0, object.size()));
  std::vector<Memory> memories;
  Batch batch;
  for (size_t i = 0; i < layouts.size(); ++i) {
    memories.emplace_back(&layouts[i], i);
    batch.load(key(1), layouts[i].runs);
  }
  ASSERT_EQ(client.submit(batch), layouts.size());
  server.kill();
  Ends ends = client.wait(layouts.size());
  for (size_t i = 0; i < layouts.size(); ++i) {
    const quire_code code = ends[batch.tickets()[i].ticket].code;
    ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_UNAVAILABLE) << code;
    code == QUIRE_OK ? memories[i].expect(layouts[i].runs, object) : memories[i].forget(layouts[i].runs);
    EXPECT_TRUE(memories[i].intact());
  }
}

// The memory of loads that were given up is used again at once. When the server goes on, not one byte of theirs arrives in it.
TEST(RedisFaults, NothingIsWrittenLateWhenAStoppedServerGoesOn) {
  Rng rng(seed());
  for (const bool cancels : {false, true}) {
    for (int round = 0; round < 6; ++round) {
      RedisServer server;
      Client client = open(server.config(", \"connections\": 2"));
      const Bytes object = content(1, 2 * kMiB);
      ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
      constexpr size_t kLoads = 24;
      std::vector<Bytes> memories(kLoads, Bytes(object.size(), 0));
      Batch batch;
      for (Bytes& memory : memories) {
        Layout layout = round % 2 == 0 ? dense(0, object.size()) : Layout{{{0, 0, 1000, 2000, 1000, 0, 1000}}, 0};
        layout.runs[0].address = reinterpret_cast<uintptr_t>(memory.data());
        batch.load(key(1), layout.runs).deadline_ns = cancels ? -1 : clock_now() + 200 * kMillisecond;
      }
      if (round == 0) server.stop();
      ASSERT_EQ(client.submit(batch), kLoads);
      std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 8000)));
      if (round != 0) server.stop();
      const auto begin = Clock::now();
      if (cancels) {
        Error err;
        for (const quire_ticket& ticket : batch.tickets()) quire_connector_cancel(client.get(), ticket.ticket, &err);  // or it has ended
      }
      Ends ends = client.wait(kLoads);
      EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1000)) << "deadlines of 200 ms";
      for (size_t i = 0; i < kLoads; ++i) {
        const quire_code code = ends[batch.tickets()[i].ticket].code;
        EXPECT_TRUE(code == QUIRE_OK || code == (cancels ? QUIRE_CANCELLED : QUIRE_DEADLINE_EXCEEDED)) << code;
        std::memset(memories[i].data(), static_cast<int>(i), memories[i].size());
      }
      server.go_on();
      EXPECT_TRUE(becomes_true([&] { return client.holds(key(1), object); })) << "it works again";
      for (size_t i = 0; i < kLoads; ++i) {
        const auto late = std::count_if(memories[i].begin(), memories[i].end(), [&](uint8_t byte) { return byte != i; });
        ASSERT_EQ(late, 0) << "late bytes in memory " << i << " of round " << round;
      }
    }
  }
}

// The control: a reader that waits in another thread and is given up as at a deadline. Its memory is used again, and the late bytes are
// seen.
TEST(RedisFaults, ADirectReadWouldBeSeen) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "it is a race: that is what it shows";
#endif
  RedisServer server;
  Client client = open(server.config());
  const Bytes object = content(1, 2 * kMiB);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  const int wire = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, server.socket().c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(connect(wire, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string name = "quire:" + key(1);
  const std::string command = "*2\r\n$3\r\nGET\r\n$" + std::to_string(name.size()) + "\r\n" + name + "\r\n";
  server.stop();
  ASSERT_EQ(write(wire, command.data(), command.size()), static_cast<ssize_t>(command.size()));
  Bytes memory(object.size(), 0);
  std::atomic<size_t> got{0};
  std::thread reader([&] {
    for (ssize_t n = 1; n > 0 && got < memory.size(); got += static_cast<size_t>(n)) {
      n = read(wire, memory.data() + got, memory.size() - got);
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its deadline
  std::memset(memory.data(), 7, memory.size());
  server.go_on();
  reader.join();
  close(wire);
  const auto late = std::count_if(memory.begin(), memory.end(), [](uint8_t byte) { return byte != 7; });
  EXPECT_GT(late, static_cast<int64_t>(object.size()) / 2);
}

// Stores that were given up while the server was stopped, some of them half sent: their memory is used again, and what the server has
// in the end is the old bytes, whole, or nothing.
TEST(RedisFaults, NothingIsReadLateWhenAStoppedServerGoesOn) {
  RedisServer server;
  Client client = open(server.config());
  constexpr size_t kStores = 6;
  constexpr uint64_t kObject = 3 * kMiB;
  for (int round = 0; round < 4; ++round) {
    std::vector<Bytes> memories;
    Batch batch;
    const uint64_t first = static_cast<uint64_t>(round) * 100;
    for (size_t i = 0; i < kStores; ++i) {
      memories.push_back(content(first + i, kObject));
      Layout layout = dense(0, kObject);
      layout.runs[0].address = reinterpret_cast<uintptr_t>(memories[i].data());
      batch.store(key(first + i), layout.runs, kObject).deadline_ns = clock_now() + 150 * kMillisecond;
    }
    server.stop();
    ASSERT_EQ(client.submit(batch), kStores);
    const auto begin = Clock::now();
    for (const auto& [ticket, end] : client.wait(kStores)) EXPECT_EQ(end.code, QUIRE_DEADLINE_EXCEEDED) << ticket;
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1000));
    for (Bytes& memory : memories) std::memset(memory.data(), 0xee, memory.size());
    server.go_on();
    EXPECT_TRUE(becomes_true([&] { return look_up_code(client, key(1)) == QUIRE_OK; }));
    for (size_t i = 0; i < kStores; ++i) {
      if (client.has(key(first + i))) {
        EXPECT_TRUE(client.holds(key(first + i), content(first + i, kObject)));
      }
    }
  }
}

// No call waits for a stopped server, and tickets without a deadline end after timeout_ms.
TEST(RedisFaults, AStoppedServerIsLostAfterTheTimeout) {
  RedisServer server;
  Client client = open(server.config(", \"timeout_ms\": 300, \"connect_timeout_ms\": 200"));
  ASSERT_EQ(client.store(key(1), content(1, 1000)).code, QUIRE_OK);
  server.stop();
  auto begin = Clock::now();
  EXPECT_EQ(look_up_code(client, key(1)), QUIRE_UNAVAILABLE);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(300));
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1500));
  begin = Clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(look_up_code(client, key(1)), QUIRE_UNAVAILABLE);
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(500)) << "a lost server is not waited for";
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_DOWN);
  server.go_on();
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP; }));
  EXPECT_TRUE(client.holds(key(1), content(1, 1000)));
  server.stop();
  uint64_t size = 0;
  Batch batch;
  batch.look_up({key(1)}, &size);
  ASSERT_EQ(client.submit(batch), 1u);
  begin = Clock::now();
  client.close();
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(250)) << "closing does not wait for it";
}

TEST(RedisFaults, AServerThatCannotBeReachedIsToldWhenItIsOpened) {
  const TemporaryFolder folder;
  const auto begin = Clock::now();
  const std::string nobody = refusal("{\"servers\": \"" + folder.path() + "/nobody.sock\"}", QUIRE_UNAVAILABLE);
  EXPECT_NE(nobody.find("nobody.sock"), std::string::npos) << nobody;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  RedisServer server;
  server.stop();
  const std::string stopped = refusal(server.config(", \"connect_timeout_ms\": 200"), QUIRE_UNAVAILABLE);
  EXPECT_NE(stopped.find("connect_timeout_ms"), std::string::npos) << stopped;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
}

// Full, with noeviction: stores are refused and loads work, those of several ranges, too. Such a server can promise leases.
TEST(RedisFaults, AFullServerRefusesStoresAndGoesOnLoading) {
  RedisServer server({"--maxmemory", "12mb"});
  Client client = open(server.config());
  const Bytes object = content(1, 200 * kKiB);
  uint64_t stored = 0;
  quire_code code = QUIRE_OK;
  for (; stored < 1000 && code == QUIRE_OK; ++stored) code = client.store(key(stored), object).code;
  EXPECT_EQ(code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_GE(stored, 20u);
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_FULL);
  EXPECT_TRUE(client.holds(key(0), object));
  // Two pieces that lie far apart, from a server that is full beyond doubt.
  ASSERT_EQ(server.ask({"CONFIG", "SET", "maxmemory", "1mb"}), "OK");
  Layout layout = {{{0, 0, 100, 2, 100, 0, 150'000}}, 200};
  Memory memory(&layout);
  memory.expect(layout.runs, object);
  Batch batch;
  const uint64_t ticket = batch.load(key(0), layout.runs).ticket;
  EXPECT_EQ(client.run(batch)[ticket].code, QUIRE_OK);
  EXPECT_TRUE(memory.intact());
  quire_completion end = {};
  client.sizes({key(0), key(1)}, kSecond, &end);
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
  client.sizes({key(5000)}, kSecond, &end);
  EXPECT_EQ(end.flags, 0u) << "nothing was found";
  ASSERT_EQ(server.ask({"CONFIG", "SET", "maxmemory", "12mb"}), "OK");
  for (uint64_t i = 0; i < stored / 2; ++i) EXPECT_EQ(client.remove(key(i)).code, QUIRE_OK);
  EXPECT_EQ(client.store(key(2000), object).code, QUIRE_OK);
}

TEST(RedisFaults, WhatTheServerEvictsIsAMiss) {
  RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"});
  Client client = open(server.config());
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 100; ++i) {
    keys.push_back(key(i));
    ASSERT_EQ(client.store(keys[i], content(i, 200 * kKiB)).code, QUIRE_OK);
  }
  quire_completion end = {};
  const std::vector<uint64_t> sizes = client.sizes(keys, kSecond, &end);
  EXPECT_EQ(end.flags, 0u) << "it cannot promise a lease";
  uint64_t lost = 0;
  for (uint64_t i = 0; i < keys.size(); ++i) {
    Bytes out;
    const quire_code code = client.load(keys[i], 0, 200 * kKiB, &out).code;
    ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_NOT_FOUND) << code;
    if (code == QUIRE_OK) {
      EXPECT_EQ(out, content(i, 200 * kKiB));
    }
    if (sizes[i] == 0) {
      EXPECT_EQ(code, QUIRE_NOT_FOUND);
    }
    lost += code == QUIRE_NOT_FOUND ? 1 : 0;
  }
  EXPECT_GT(lost, 40u);
  EXPECT_LT(lost, 100u);
}

TEST(RedisFaults, UserAndPasswordAreChecked) {
  RedisServer server({"--requirepass", "open sesame"});
  EXPECT_NE(refusal(server.config(), QUIRE_PERMISSION_DENIED).find("NOAUTH"), std::string::npos);
  const std::string wrong = refusal(server.config(", \"password\": \"sesame\""), QUIRE_PERMISSION_DENIED);
  EXPECT_NE(wrong.find("WRONGPASS"), std::string::npos) << wrong;
  EXPECT_EQ(wrong.find("\"sesame\""), std::string::npos) << "a password is not shown";
  EXPECT_EQ(open(server.config(", \"password\": \"open sesame\"")).store(key(1), content(1, 10)).code, QUIRE_OK);
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/password") << "open sesame\n";
  Client client = open(server.config(", \"password_file\": \"" + folder.path() + "/password\", \"user\": \"default\""));
  EXPECT_TRUE(client.holds(key(1), content(1, 10)));
  refusal(server.config(", \"user\": \"nobody\", \"password\": \"open sesame\""), QUIRE_PERMISSION_DENIED);
}

// A user who may read and not write; then the password changes while the connector is open.
TEST(RedisFaults, WhatAUserMayNotDoIsDenied) {
  RedisServer server;
  ASSERT_EQ(server.ask({"ACL", "SETUSER", "reader", "on", ">secret", "~quire:*", "+strlen", "+getrange", "+ping", "+multi", "+exec"}),
            "OK");
  ASSERT_EQ(server.ask({"SET", "quire:" + key(1), "0123456789"}), "OK");
  Client client = open(server.config(", \"user\": \"reader\", \"password\": \"secret\""));
  EXPECT_EQ(client.store(key(2), content(2, 1000)).code, QUIRE_PERMISSION_DENIED);
  EXPECT_EQ(client.remove(key(1)).code, QUIRE_PERMISSION_DENIED);
  const std::string value = "0123456789";
  EXPECT_TRUE(client.holds(key(1), Bytes(value.begin(), value.end())));
  ASSERT_EQ(server.ask({"ACL", "SETUSER", "reader", "<secret", ">other"}), "OK");
  server.ask({"CLIENT", "KILL", "USER", "reader"});
  EXPECT_TRUE(becomes_true([&] { return look_up_code(client, key(1)) == QUIRE_PERMISSION_DENIED; }));
}

TEST(RedisFaults, AValueOfAnotherKindIsDamagedAndAMiss) {
  RedisServer server;
  Client client = open(server.config());
  ASSERT_EQ(server.ask({"LPUSH", "quire:" + key(1), "element"}), "1");
  ASSERT_EQ(client.store(key(2), content(2, 100)).code, QUIRE_OK);
  const uint64_t failed = num_failed(client);
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_DATA_LOSS);
  EXPECT_EQ(out, Bytes(10, 0));
  EXPECT_EQ(num_failed(client), failed + 1);
  EXPECT_EQ(client.sizes({key(1), key(2)}), (std::vector<uint64_t>{0, 100}));
  EXPECT_EQ(client.store(key(1), content(1, 10)).flags, QUIRE_COMPLETION_EXISTED) << "nothing is written over it";
  EXPECT_EQ(client.remove(key(1)).code, QUIRE_OK);
  EXPECT_EQ(client.store(key(1), content(1, 10)).flags, 0u);
}

TEST(RedisFaults, AValueOfAnotherSizeIsReadAsFarAsItGoes) {
  RedisServer server;
  Client client = open(server.config());
  ASSERT_EQ(server.ask({"SET", "quire:" + key(1), "0123456789"}), "OK");
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 11, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(out, Bytes(11, 0)) << "what is too short is not written";
  ASSERT_EQ(client.load(key(1), 2, 3, &out).code, QUIRE_OK);
  EXPECT_EQ(out, (Bytes{'2', '3', '4'}));
  EXPECT_EQ(client.sizes({key(1)})[0], 10u);
}

TEST(RedisFaults, ObjectsExpireUnlessTheyAreUsed) {
  RedisServer server;
  Client client = open(server.config(", \"ttl_ms\": 1500"));
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(client.store(key(i), content(i, 100)).code, QUIRE_OK);
  quire_completion end = {};
  client.sizes({key(0)}, 2 * kSecond, &end);
  EXPECT_EQ(end.flags, 0u) << "a lease that is longer than the time to live";
  const auto begin = Clock::now();
  Bytes out;
  while (Clock::now() - begin < std::chrono::milliseconds(2200)) {
    client.sizes({key(0)}, kSecond, &end);
    EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
    ASSERT_EQ(client.load(key(1), 0, 100, &out).code, QUIRE_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(client.sizes({key(0), key(1), key(2)}), (std::vector<uint64_t>{100, 100, 0}));
}

// Servers close connections that nobody uses; that is no failure.
TEST(RedisFaults, AConnectionThatTheServerClosedIsMadeAgain) {
  RedisServer server;
  Client client = open(server.config(", \"connections\": 2"));
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(client.store(key(i), content(i, 1000)).code, QUIRE_OK);
    ASSERT_EQ(client.load(key(i), 0, 1, std::make_unique<Bytes>().get()).code, QUIRE_OK);
    server.ask({"CLIENT", "KILL", "TYPE", "normal"});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP);
  }
  EXPECT_EQ(num_failed(client), 0u);
}

// The threads of this process, by number, and whether they can get SIGPIPE.
std::map<std::string, bool> threads_by_pipe_signal() {
  std::map<std::string, bool> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      threads[entry.path().filename()] = (std::stoull(line.substr(7), nullptr, 16) >> (SIGPIPE - 1) & 1) == 0;
    }
  }
  return threads;
}

// hiredis writes without MSG_NOSIGNAL. A server that goes away between two writes must not end the process by SIGPIPE.
TEST(RedisFaults, ThreadsDoNotGetTheSignalOfABrokenPipe) {
  const RedisServer server;
  const auto before = threads_by_pipe_signal();
  const Client client = open(server.config(", \"connections\": 2"));
  int own = 0;
  for (const auto& [thread, gets_it] : threads_by_pipe_signal()) {
    if (before.contains(thread)) continue;
    ++own;
    EXPECT_FALSE(gets_it);
  }
  EXPECT_EQ(own, 2);
  EXPECT_TRUE(threads_by_pipe_signal().at(std::to_string(getpid()))) << "the caller's signals are its own";
}

// A listing writes in the thread of the caller. Whether the server is gone before that is chance, each time.
TEST(RedisFaults, AServerThatHangsUpEndsNoListingByASignal) {
  FakeServer server([](const auto&) { return FakeServer::Answer{"CLOSE"}; });
  server.hang_up_after_greeting();
  redis::Config config;
  ASSERT_TRUE(redis::read_config(server.config(), &config).ok());
  redis::Listing listing(config);
  for (int i = 0; i < 300; ++i) {
    uint64_t cursor = 0, count = 0;
    quire_object_entry item = {};
    EXPECT_EQ(listing.next(&cursor, {&item, 1}, &count, {}).code, QUIRE_UNAVAILABLE);
  }
  EXPECT_TRUE(threads_by_pipe_signal().at(std::to_string(getpid()))) << "the caller's signals are its own";
}

TEST(RedisFaults, ObjectsBeyondWhatAServerTakesAreRefused) {
  RedisServer server;
  Client client = open(server.config());
  EXPECT_EQ(client.info().max_object_bytes, 512 * kMiB);
  Layout layout = dense(0, 512 * kMiB + 1);
  layout.runs[0].address = 4096;  // nobody looks at it
  Batch batch;
  batch.store(key(1), layout.runs, 512 * kMiB + 1);
  uint64_t accepted = 0;
  Error err;
  EXPECT_EQ(client.try_submit(batch, &accepted, &err), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(accepted, 0u);
}

TEST(RedisFaults, WrongSettingsAreNamed) {
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal("{}", QUIRE_INVALID_ARGUMENT), "servers"));
  for (const std::string servers : {"", "host:0", "host:70000", "host:12x", "a, ,b", "a:1,a:1", "[::1"}) {
    EXPECT_TRUE(has(refusal(R"({"servers": ")" + servers + R"("})", QUIRE_INVALID_ARGUMENT), "servers")) << servers;
  }
  const auto with = [&](const std::string& field) { return refusal(R"({"servers": "a", )" + field + "}", QUIRE_INVALID_ARGUMENT); };
  EXPECT_TRUE(has(with(R"("colour": 1)"), "colour"));
  EXPECT_TRUE(has(with(R"("connections": 0)"), "connections"));
  EXPECT_TRUE(has(with(R"("password": "a", "password_file": "b")"), "password_file"));
  EXPECT_TRUE(has(with(R"("password_file": "/nonexistent")"), "/nonexistent"));
  EXPECT_TRUE(has(with(R"("user": "a")"), "user"));
  EXPECT_TRUE(has(with(R"("tls_ca": "/a")"), "tls_ca"));
  EXPECT_TRUE(has(with(R"("ttl_ms": -1)"), "ttl_ms"));
}

}  // namespace
}  // namespace quire
