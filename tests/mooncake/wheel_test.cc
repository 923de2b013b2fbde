// The mooncake connector over a true store, which wheel.sh starts. The tests go on where the one before ended; the last one ends the store.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "plugins/mooncake/mooncake_library.h"
#include "plugins/mooncake/mooncake_worker.h"
#include "tests/connectors/kit.h"
#include "tests/connectors/patience.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? value : "";
}

class MooncakeWheel : public testing::Test {
 protected:
  void SetUp() override {
    if (environment("QUIRE_WHEEL_LIBRARY").empty()) GTEST_SKIP() << "wheel.sh starts this program";
    std::istringstream(environment("QUIRE_PEER")) >> host_ >> metadata_ >> master_;
  }
  Client open(const std::string& fields = "") const {
    Subject subject;
    subject.connector = "mooncake";
    subject.lists = false;
    return {subject, "{\"library\": \"" + environment("QUIRE_WHEEL_LIBRARY") + "\", \"host\": \"" + host_ + "\", \"metadata\": \"" +
                         metadata_ + "\", \"master\": \"" + master_ + "\"" + fields + "}"};
  }
  // What another process says.
  static std::string ask(const std::string& words) {
    FILE* const pipe = popen((environment("QUIRE_PEER_COMMAND") + " " + words + " 2>/dev/null").c_str(), "r");
    std::string answer;
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
      if (c > ' ') answer += static_cast<char>(c);
    }
    EXPECT_EQ(pclose(pipe), 0) << words;
    return answer;
  }
  static void send(const char* process, int signal) { ASSERT_EQ(kill(std::atoi(environment(process).c_str()), signal), 0); }

  std::string host_, metadata_, master_;
};

TEST_F(MooncakeWheel, KeepsObjects) {
  Client client = open();
  for (const uint64_t bytes : {1, 100, 4096, 65'537, 1'000'000, 8'000'000}) {
    const Key name = key(bytes);
    EXPECT_EQ(client.store(name, content(bytes, bytes)).flags, 0u);
    EXPECT_TRUE(client.holds(name, content(bytes, bytes))) << bytes;
    EXPECT_EQ(client.store(name, content(1, 5)).flags, QUIRE_COMPLETION_EXISTED);
  }
  Bytes out;
  EXPECT_EQ(client.load(key(1'000'000), 300'000, 1000, &out).code, QUIRE_OK);
  const Bytes whole = content(1'000'000, 1'000'000);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), whole.begin() + 300'000));
  EXPECT_EQ(client.load(key(100), 50, 51, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(client.load(key(5), 0, 1, &out).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(client.remove(key(5)).code, QUIRE_NOT_FOUND);
  Client other = open();
  EXPECT_EQ(other.sizes({key(1), key(5), key(100), key(8'000'000)}), (std::vector<uint64_t>{1, 0, 100, 8'000'000}));
  EXPECT_EQ(other.remove(key(100)).code, QUIRE_OK) << "although a look-up has just leased it";
  EXPECT_FALSE(client.has(key(100)));
  EXPECT_EQ(client.store(key(100), content(7, 70)).flags, 0u);
  EXPECT_TRUE(other.holds(key(100), content(7, 70)));
}

// Values of the first version, written and read by another process with Mooncake's own Python client.
TEST_F(MooncakeWheel, ValuesAreTheSameBytesForOthers) {
  const std::string hex = "616e206f626a65637471756972654d43310900000000000000f0cabeddbc2dab802671e78ea0a5a33f67a25d67e59afb45";
  const std::string text = "an object";
  const Bytes object(text.begin(), text.end());
  Client client = open();
  EXPECT_EQ(ask("put quire:61206b6579 " + hex), "0");
  EXPECT_TRUE(client.holds("a key", object));
  EXPECT_EQ(client.remove("a key").code, QUIRE_OK);
  EXPECT_EQ(ask("get quire:61206b6579"), "-704");
  ASSERT_EQ(client.store("a key", object).code, QUIRE_OK);
  EXPECT_EQ(ask("get quire:61206b6579"), hex);
}

TEST_F(MooncakeWheel, ForeignValuesAreDataLossAndAreRemoved) {
  Client client = open();
  const std::string name = mooncake::name_of_key("quire:", key(50));
  for (const std::string& hex : {std::string("00"), std::string("616e206f626a656374"), std::string(400, 'a')}) {
    EXPECT_EQ(ask("put " + name + " " + hex), "0");
    Bytes out;
    EXPECT_EQ(client.load(key(50), 0, 1, &out).code, QUIRE_DATA_LOSS);
    EXPECT_EQ(ask("get " + name), "-704");
  }
  EXPECT_EQ(client.health().num_damaged, 3u);
  EXPECT_EQ(client.store(key(50), content(1, 100)).flags, 0u);
  EXPECT_TRUE(client.holds(key(50), content(1, 100)));
}

// Mooncake evicts, or refuses while everything is leased. What is there is right.
TEST_F(MooncakeWheel, AFullStoreStaysRight) {
  Client client = open();
  uint64_t refused = 0, there = 0;
  constexpr uint64_t kObject = 4'000'000;
  for (uint64_t i = 0; i < 90; ++i) {
    const quire_code code = client.store(key(1000 + i), content(i, kObject)).code;
    ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
    refused += code == QUIRE_OK ? 0 : 1;
  }
  for (uint64_t i = 0; i < 90; ++i) {
    Bytes out;
    const quire_code code = client.load(key(1000 + i), 0, kObject, &out).code;
    ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_NOT_FOUND) << code;
    if (code != QUIRE_OK) continue;
    ASSERT_EQ(out, content(i, kObject));
    ++there;
    EXPECT_EQ(client.remove(key(1000 + i)).code, QUIRE_OK);
  }
  std::printf("of 90 objects of 4 MB in 192 MiB %llu were refused, and %llu are there\n", static_cast<unsigned long long>(refused),
              static_cast<unsigned long long>(there));
  EXPECT_GT(there, 10u);
  EXPECT_LT(there, 50u);
}

// Objects of 2 MiB through the connector, and the library's calls for values of the same size by one thread: how fast both are, in turn.
TEST_F(MooncakeWheel, TakesItsTime) {
  mooncake::Library library;
  ASSERT_TRUE(mooncake::load_library(environment("QUIRE_WHEEL_LIBRARY"), &library).ok());
  void* const store = library.create();
  ASSERT_EQ(library.setup(store, host_.c_str(), metadata_.c_str(), 0, 0, "tcp", "", master_.c_str()), 0);
  constexpr uint64_t kObject = 2 * kMiB, kObjects = 24;
  Bytes bytes(kObject + 40, 1);
  ASSERT_EQ(library.register_buffer(store, bytes.data(), bytes.size()), 0);
  Client one = open(", \"threads\": 1"), client = open(", \"threads\": 4");
  std::vector<Bytes> objects;
  std::vector<Key> keys;
  for (uint64_t i = 0; i < kObjects; ++i) {
    objects.push_back(content(i, kObject));
    keys.push_back(key(2000 + i));
  }
  const auto seconds = [](auto call) {
    const auto begin = Clock::now();
    call();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto batch = [&](Client& by, bool loads) {
    Batch all;
    for (uint64_t i = 0; i < kObjects; ++i) {
      Layout layout = dense(0, kObject);
      layout.runs[0].address = reinterpret_cast<uintptr_t>(objects[i].data());
      loads ? all.load(keys[i], layout.runs) : all.store(keys[i], layout.runs, kObject);
    }
    for (const auto& [ticket, end] : by.run(all)) EXPECT_EQ(end.code, QUIRE_OK);
  };
  const auto direct = [&](bool gets) {
    for (uint64_t i = 0; i < kObjects; ++i) {
      const std::string name = "direct" + std::to_string(i);
      gets ? library.get_into(store, name.c_str(), bytes.data(), bytes.size())
           : library.put_from(store, name.c_str(), bytes.data(), bytes.size(), nullptr);
    }
  };
  double best[6] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
  for (int turn = 0; turn < 6; ++turn) {
    for (const bool gets : {false, true}) best[gets ? 1 : 0] = std::min(best[gets ? 1 : 0], seconds([&] { direct(gets); }));
    for (uint64_t i = 0; i < kObjects; ++i) library.remove(store, ("direct" + std::to_string(i)).c_str(), 1);
    for (const bool loads : {false, true}) best[loads ? 3 : 2] = std::min(best[loads ? 3 : 2], seconds([&] { batch(one, loads); }));
    for (const Key& name : keys) one.remove(name);
    for (const bool loads : {false, true}) best[loads ? 5 : 4] = std::min(best[loads ? 5 : 4], seconds([&] { batch(client, loads); }));
    for (const Key& name : keys) client.remove(name);
  }
  const double gigabytes = static_cast<double>(kObjects * kObject) / 1e9;
  std::printf("GB/s of 24 objects of 2 MiB, best of 6: put %.2f by calls, %.2f and %.2f by the connector with 1 and 4 threads\n",
              gigabytes / best[0], gigabytes / best[2], gigabytes / best[4]);
  std::printf("get %.2f by calls, %.2f and %.2f\n", gigabytes / best[1], gigabytes / best[3], gigabytes / best[5]);
  std::vector<Key> many;
  std::vector<std::string> names;
  std::vector<const char*> texts;
  for (uint64_t i = 0; i < 1000; ++i) {
    many.push_back(key(5000 + i));
    names.push_back(mooncake::name_of_key("quire:", many[i]));
    texts.push_back(names[i].c_str());
  }
  for (uint64_t i = 0; i < 1000; i += 2) ASSERT_EQ(client.store(many[i], content(i, 100)).code, QUIRE_OK);
  Client fresh = open();
  std::vector<int> results(1000);
  const double first = seconds([&] { fresh.sizes(many); });
  double again = 1e9, call = 1e9;
  for (int turn = 0; turn < 5; ++turn) {
    call = std::min(call, seconds([&] { library.batch_is_exist(store, texts.data(), 1000, results.data()); }));
    again = std::min(again, seconds([&] { fresh.sizes(many); }));
  }
  std::printf("look-up of 1,000 keys, half of them there: %.2f ms at first, then %.2f ms; by a call %.2f ms\n", first * 1e3, again * 1e3,
              call * 1e3);
  library.destroy(store);
}

// The process that has the bytes is stopped in the middle of loads. They end at their deadline, their memory is used again, the process
// goes on: not one byte comes late.
TEST_F(MooncakeWheel, NothingIsWrittenLateWhenAStoppedHolderGoesOn) {
  Rng rng(seed());
  Client client = open();
  constexpr uint64_t kObject = 8'000'000;
  constexpr size_t kLoads = 4;
  ASSERT_EQ(client.store(key(7), content(7, kObject)).code, QUIRE_OK);
  uint64_t overdue = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<Bytes> memories(kLoads, Bytes(kObject, 0));
    Batch batch;
    for (Bytes& memory : memories) {
      Layout layout = dense(0, kObject);
      layout.runs[0].address = reinterpret_cast<uintptr_t>(memory.data());
      batch.load(key(7), layout.runs).deadline_ns = clock_now() + 200 * kMillisecond;
    }
    if (round == 0) send("QUIRE_HOLDER", SIGSTOP);
    ASSERT_EQ(client.submit(batch), kLoads);
    std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 10'000)));
    if (round != 0) send("QUIRE_HOLDER", SIGSTOP);
    const auto begin = Clock::now();
    Ends ends = client.wait(kLoads);
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1000));
    for (size_t i = 0; i < kLoads; ++i) {
      const quire_code code = ends[batch.tickets()[i].ticket].code;
      EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_DEADLINE_EXCEEDED) << code;
      overdue += code == QUIRE_OK ? 0 : 1;
      std::memset(memories[i].data(), static_cast<int>(i), memories[i].size());
    }
    send("QUIRE_HOLDER", SIGCONT);
    EXPECT_TRUE(becomes_true([&] { return client.holds(key(7), content(7, kObject)); }));
    for (size_t i = 0; i < kLoads; ++i) {
      ASSERT_EQ(std::count_if(memories[i].begin(), memories[i].end(), [&](uint8_t byte) { return byte != i; }), 0) << "late bytes";
    }
  }
  std::printf("%llu of 24 loads were overdue\n", static_cast<unsigned long long>(overdue));
  EXPECT_GT(overdue, 0u);
}

TEST_F(MooncakeWheel, ALostMasterIsAnError) {
  Client client = open();
  ASSERT_EQ(client.store(key(9), content(9, 100)).code, QUIRE_OK);
  send("QUIRE_MASTER", SIGKILL);
  const auto begin = Clock::now();
  Bytes out;
  EXPECT_EQ(client.load(key(9), 0, 10, &out).code, QUIRE_UNAVAILABLE);
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_DOWN; }));
  std::printf("the lost master was noticed after %.0f ms\n", std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  EXPECT_EQ(client.store(key(10), content(9, 100)).code, QUIRE_UNAVAILABLE);
}

}  // namespace
}  // namespace quire::test
