// Calls that hang, and calls that go on writing after they answered: tickets end in time, not one byte arrives late in memory that is used
// again, and staging memory that may still be written is not used.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mooncake_rig.h"
#include "plugins/mooncake/answers.h"
#include "tests/unit/fork_when_quiet.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

extern "C" {
void* mooncake_store_create();
void mooncake_store_destroy(void* store);
int mooncake_store_setup(void* store, const char* host, const char* metadata, uint64_t segment, uint64_t local, const char* protocol,
                         const char* device, const char* master);
int mooncake_store_register_buffer(void* store, void* buffer, size_t bytes);
int64_t mooncake_store_get_into(void* store, const char* key, void* buffer, size_t bytes);
}

namespace quire::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kObject = 2 * kMiB;

// Bytes that are not as they were filled.
int64_t late_bytes(const Bytes& memory, uint8_t filled) {
  return std::count_if(memory.begin(), memory.end(), [&](uint8_t byte) { return byte != filled; });
}

class MooncakeLate : public MooncakeTest {
 protected:
  // Loads of key 1, with a deadline or none.
  static Batch loads(std::vector<Bytes>* memories, int64_t deadline_ns) {
    Batch batch;
    for (Bytes& memory : *memories) {
      Layout layout = dense(0, memory.size());
      layout.runs[0].address = reinterpret_cast<uintptr_t>(memory.data());
      batch.load(key(1), layout.runs).deadline_ns = deadline_ns;
    }
    return batch;
  }
  void all_gets(const Act& act) {
    fake().set_script([act](Call call, const std::string&) { return call == Call::kGet ? act : Act{}; });
  }
};

// The memory of loads that hang is used again at once. When they go on, not one byte of theirs arrives in it.
TEST_F(MooncakeLate, NothingIsWrittenWhenCallsThatHungGoOn) {
  for (const bool cancels : {false, true}) {
    Client client = open(", \"threads\": 3");
    ASSERT_EQ(client.store(key(1), content(1, kObject)).code, QUIRE_OK);
    all_gets({.waits = true});
    std::vector<Bytes> memories(6, Bytes(kObject, 0));
    const Batch batch = loads(&memories, cancels ? -1 : clock_now() + kSecond);
    const auto begin = Clock::now();
    ASSERT_EQ(client.submit(batch), memories.size());
    ASSERT_TRUE(becomes_true([&] { return fake().num_waiting() == 3; }));
    if (cancels) {
      for (const quire_ticket& ticket : batch.tickets()) client.cancel(ticket.ticket);
    }
    for (const auto& [ticket, end] : client.wait(memories.size())) EXPECT_EQ(end.code, cancels ? QUIRE_CANCELLED : QUIRE_DEADLINE_EXCEEDED);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));
    for (size_t i = 0; i < memories.size(); ++i) std::memset(memories[i].data(), static_cast<int>(i), memories[i].size());
    fake().reset();
    ASSERT_TRUE(becomes_true([&] { return fake().num_waiting() == 0; }));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.holds(key(1), content(1, kObject)));
    for (size_t i = 0; i < memories.size(); ++i) EXPECT_EQ(late_bytes(memories[i], static_cast<uint8_t>(i)), 0) << i;
  }
}

// What Mooncake does when a peer is stopped: -800 after a time, and the bytes later. They arrive in quarantined memory.
TEST_F(MooncakeLate, NothingIsWrittenAfterACallThatFailed) {
  Client client = open(", \"threads\": 1, \"buffers\": 3");
  ASSERT_EQ(client.store(key(1), content(1, kObject)).code, QUIRE_OK);
  ASSERT_EQ(client.store(key(2), content(2, kObject)).code, QUIRE_OK);
  all_gets({.answer = -800, .writes_late = true});
  std::vector<Bytes> memories(2, Bytes(kObject, 0));
  const Batch batch = loads(&memories, -1);
  for (const auto& [ticket, end] : client.run(batch)) EXPECT_EQ(end.code, QUIRE_UNAVAILABLE);
  fake().set_script(nullptr);
  for (Bytes& memory : memories) std::memset(memory.data(), 7, memory.size());
  // While another load is checked and copied, the late bytes of key 1 come.
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    fake().go_on();
  });
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(client.holds(key(2), content(2, kObject)));
  late.join();
  EXPECT_EQ(fake().num_late_bytes(), 2 * (kObject + 40));
  for (const Bytes& memory : memories) EXPECT_EQ(late_bytes(memory, 7), 0);
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP) << "the master answers, and one buffer is left";
}

// The control: a reader without staging, given up as a deadline would, and its memory used again. The late bytes are seen.
TEST_F(MooncakeLate, ADirectReadWouldBeSeen) {
  Client client = open();
  ASSERT_EQ(client.store(key(1), content(1, kObject)).code, QUIRE_OK);
  void* const store = mooncake_store_create();
  ASSERT_EQ(mooncake_store_setup(store, "", "", 0, 0, "", "", directory().c_str()), 0);
  Bytes memory(kObject + 40, 0);
  ASSERT_EQ(mooncake_store_register_buffer(store, memory.data(), memory.size()), 0);
  all_gets({.waits = true});
  int64_t answer = 0;
  std::thread reader([&] { answer = mooncake_store_get_into(store, name_of(key(1)).c_str(), memory.data(), memory.size()); });
  ASSERT_TRUE(becomes_true([&] { return fake().num_waiting() == 1; }));
  std::memset(memory.data(), 7, memory.size());
  fake().reset();
  reader.join();
  EXPECT_EQ(answer, static_cast<int64_t>(memory.size()));
  EXPECT_GT(late_bytes(memory, 7), static_cast<int64_t>(kObject) / 2);
  mooncake_store_destroy(store);
}

// The memory of stores that hang is used again. What the store has in the end is the old bytes, whole, or nothing.
TEST_F(MooncakeLate, NothingIsReadWhenStoresThatHungGoOn) {
  Client client = open(", \"threads\": 2");
  fake().set_script([](Call call, const std::string&) { return Act{.waits = call == Call::kPut}; });
  std::vector<Bytes> memories = {content(1, kObject), content(2, kObject), content(3, kObject)};
  Batch batch;
  for (size_t i = 0; i < memories.size(); ++i) {
    Layout layout = dense(0, kObject);
    layout.runs[0].address = reinterpret_cast<uintptr_t>(memories[i].data());
    batch.store(key(1 + i), layout.runs, kObject).deadline_ns = clock_now() + kSecond;
  }
  ASSERT_EQ(client.submit(batch), memories.size());
  ASSERT_TRUE(becomes_true([&] { return fake().num_waiting() == 2; }));
  for (const auto& [ticket, end] : client.wait(memories.size())) EXPECT_EQ(end.code, QUIRE_DEADLINE_EXCEEDED);
  for (Bytes& memory : memories) std::memset(memory.data(), 0xee, memory.size());
  fake().reset();
  ASSERT_TRUE(becomes_true([&] { return client.has(key(1)) && client.has(key(2)); }));
  for (uint64_t i = 1; i <= 2; ++i) EXPECT_TRUE(client.holds(key(i), content(i, kObject)));
  EXPECT_FALSE(client.has(key(3))) << "it never began";
}

// Every worker is in a call that does not return.
TEST_F(MooncakeLate, WhenAllCallsHangTicketsFailAtOnce) {
  Client client = open(", \"threads\": 2, \"timeout_ms\": 300");
  ASSERT_EQ(client.store(key(1), content(1, 1000)).code, QUIRE_OK);
  fake().set_script([](Call, const std::string&) { return Act{.waits = true}; });
  std::vector<Bytes> memories(5, Bytes(1000, 0));
  const Batch batch = loads(&memories, clock_now() + 10 * kSecond);
  ASSERT_EQ(client.submit(batch), memories.size());
  for (const auto& [ticket, end] : client.wait(memories.size())) ASSERT_EQ(end.code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_DOWN);
  const auto begin = Clock::now();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(look_up_code(client, key(1)), QUIRE_UNAVAILABLE);
    EXPECT_EQ(client.store(key(2), content(2, 10)).code, QUIRE_UNAVAILABLE);
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_EQ(fake().num_waiting(), 2u) << "no more threads than settings say";
  fake().reset();
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP; }));
  EXPECT_TRUE(client.holds(key(1), content(1, 1000)));
}

// One call that hangs holds up nobody but itself.
TEST_F(MooncakeLate, OneHungCallLeavesTheOthers) {
  Client client = open(", \"threads\": 2, \"timeout_ms\": 60000");
  for (uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(client.store(key(i), content(i, kObject)).code, QUIRE_OK);
  fake().set_script(
      [hung = name_of(key(1))](Call call, const std::string& name) { return Act{.waits = call == Call::kGet && name == hung}; });
  std::vector<Bytes> memories(1, Bytes(kObject, 0));
  const Batch batch = loads(&memories, clock_now() + 50 * kMillisecond);
  EXPECT_EQ(client.run(batch).begin()->second.code, QUIRE_DEADLINE_EXCEEDED);
  const auto begin = Clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(client.holds(key(2), content(2, kObject)));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20)) << "not timeout_ms";
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP);
  fake().reset();
}

// All staging memory may still be written by failed transfers: only the end of the client proves that it is not, so a new one is made.
TEST_F(MooncakeLate, WhenAllStagingIsQuarantinedTheStoreIsOpenedAnew) {
  Client client = open(", \"threads\": 2, \"buffers\": 2");
  ASSERT_EQ(client.store(key(1), content(1, kObject)).code, QUIRE_OK);
  const uint64_t setups = fake().num_calls(Call::kSetup), late = fake().num_late_bytes();
  bool refuses = true;
  fake().set_script([&refuses](Call call, const std::string&) {
    if (call == Call::kSetup && refuses) return Act{.answer = -900};
    return call == Call::kGet ? Act{.answer = -800, .writes_late = true} : Act{};
  });
  std::vector<Bytes> memories(2, Bytes(kObject, 0));
  for (const auto& [ticket, end] : client.run(loads(&memories, -1))) EXPECT_EQ(end.code, QUIRE_UNAVAILABLE);
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_DOWN; }));
  const auto begin = Clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.run(loads(&memories, -1)).begin()->second.code, QUIRE_UNAVAILABLE);
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(200)) << "tickets fail at once";
  EXPECT_TRUE(becomes_true([&] { return fake().num_calls(Call::kSetup) > setups && fake().num_stores() == 0; })) << "the old one has ended";
  fake().set_script([](Call, const std::string&) { return Act{}; });
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP; }));
  fake().go_on();
  EXPECT_EQ(fake().num_late_bytes(), late) << "the client that would have written has ended";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(client.holds(key(1), content(1, kObject)));
  EXPECT_EQ(fake().num_stores(), 1u);
}

// No new store while a call of the old one has not returned: staging memory has a bound.
TEST_F(MooncakeLate, AHungCallKeepsTheOldStoreAndItsMemory) {
  Client client = open(", \"threads\": 2, \"buffers\": 2, \"timeout_ms\": 500");
  for (uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(client.store(key(i), content(i, 5000)).code, QUIRE_OK);
  const uint64_t setups = fake().num_calls(Call::kSetup);
  fake().set_script([hung = name_of(key(2))](Call call, const std::string& name) {
    if (call != Call::kGet) return Act{};
    return name == hung ? Act{.answer = -800, .waits = true} : Act{.answer = -800};
  });
  Bytes out;
  EXPECT_EQ(client.load(key(2), 0, 10, &out).code, QUIRE_UNAVAILABLE) << "after timeout_ms";
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_UNAVAILABLE) << "no buffer is free";
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_DOWN; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // tries fail meanwhile
  EXPECT_EQ(fake().num_calls(Call::kSetup), setups);
  fake().reset();
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP; }));
  EXPECT_TRUE(client.holds(key(2), content(2, 5000)));
}

// Closing does not wait for a call that hangs. Its thread ends when the call does, and the store with it.
TEST_F(MooncakeLate, ClosingLeavesACallThatHangs) {
  std::vector<Bytes> memories(3, Bytes(kObject, 0));
  {
    Client client = open(", \"threads\": 2");
    ASSERT_EQ(client.store(key(1), content(1, kObject)).code, QUIRE_OK);
    all_gets({.waits = true});
    const Batch batch = loads(&memories, -1);
    ASSERT_EQ(client.submit(batch), memories.size());
    ASSERT_TRUE(becomes_true([&] { return fake().num_waiting() == 2; }));
    const auto begin = Clock::now();
    client.close();
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(2500));
  }
  for (Bytes& memory : memories) std::memset(memory.data(), 7, memory.size());
  EXPECT_EQ(fake().num_stores(), 1u);
  fake().reset();
  EXPECT_TRUE(becomes_true([&] { return fake().num_stores() == 0; }));
  for (const Bytes& memory : memories) EXPECT_EQ(late_bytes(memory, 7), 0);
}

// A process that ends while a thread is left in a call waits for it: the library would be cleaned up under it.
TEST_F(MooncakeLate, TheEndOfAProcessWaitsForAThreadThatWasLeft) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows a child no threads";
#endif
  const std::string done = directory() + "/done";
  const pid_t child = fork_when_quiet();
  if (child == 0) {
    fake().set_script([done](Call call, const std::string&) {
      if (call == Call::kGet) {  // a call that takes three seconds, and then says that it was there
        std::this_thread::sleep_for(std::chrono::seconds(3));
        std::ofstream(done) << "done";
      }
      return Act{};
    });
    {
      Client client = open(", \"threads\": 1");
      std::vector<Bytes> memories(1, Bytes(10, 0));
      client.submit(loads(&memories, -1));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(std::filesystem::exists(done));
}

// Errors, waits and late bytes at random, tickets cancelled and overdue: each ends once, what is loaded is right, and nothing is late.
TEST_F(MooncakeLate, AnythingAtAnyTime) {
  Rng rng(seed());
  Client client = open(", \"threads\": 3, \"buffers\": 4, \"timeout_ms\": 30");
  constexpr uint64_t kKeys = 12, kBytes = 40'000;
  std::atomic<uint64_t> dice{seed()};
  fake().set_script([&dice](Call call, const std::string&) {
    if (call == Call::kSetup || call == Call::kRegister) return Act{};
    const uint64_t n = (dice += 0x9e3779b97f4a7c15) >> 33;
    Act act;
    act.waits = n % 23 == 0;
    if (n % 17 == 0) act.answer = std::array<int64_t, 6>{-800, -900, -707, -200, -12345, -1}[n % 6];
    // Not after answers that come when no byte moves any more.
    act.writes_late = act.answer && call == Call::kGet && !mooncake::is_settled(*act.answer);
    if (n % 19 == 0) act.alters = [n](std::string* value) { (*value)[n % value->size()] ^= 4; };
    return act;
  });
  std::atomic<bool> over{false};
  std::thread mover([&] {
    while (!over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      fake().go_on();
    }
  });
  uint64_t right = 0;
  // Until enough loads worked: while the store is lost, all fail at once.
  const auto limit = Clock::now() + std::chrono::minutes(1);
  for (uint64_t round = 0; (round < 60 / kSlowness || right <= 10) && Clock::now() < limit && !HasFailure(); ++round) {
    std::vector<Layout> layouts(8, dense(0, kBytes));
    std::vector<Memory> memories;
    std::vector<uint64_t> numbers;
    Batch batch;
    for (size_t i = 0; i < layouts.size(); ++i) {
      memories.emplace_back(&layouts[i], i);
      numbers.push_back(below(&rng, kKeys));
      if (i % 3 == 0) memories[i].fill(layouts[i].runs, content(numbers[i], kBytes));
      quire_ticket& ticket =
          i % 3 == 0 ? batch.store(key(numbers[i]), layouts[i].runs, kBytes) : batch.load(key(numbers[i]), layouts[i].runs);
      if (below(&rng, 3) == 0) ticket.deadline_ns = clock_now() + static_cast<int64_t>(below(&rng, 10'000'000));
    }
    ASSERT_EQ(client.submit(batch), layouts.size());
    Error err;
    if (below(&rng, 2) == 0) quire_connector_cancel(client.get(), batch.tickets()[below(&rng, 8)].ticket, &err);
    Ends ends = client.wait(layouts.size());
    for (size_t i = 0; i < layouts.size(); ++i) {
      const quire_code code = ends[batch.tickets()[i].ticket].code;
      if (i % 3 == 0) continue;
      code == QUIRE_OK ? memories[i].expect(layouts[i].runs, content(numbers[i], kBytes)) : memories[i].forget(layouts[i].runs);
      right += code == QUIRE_OK ? 1 : 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(below(&rng, 4)));
    for (const Memory& memory : memories) ASSERT_TRUE(memory.intact()) << "round " << round;
  }
  over = true;
  mover.join();
  fake().reset();
  EXPECT_GT(right, 10u);
  EXPECT_TRUE(becomes_true([&] { return client.health().state != QUIRE_CONNECTOR_DOWN; })) << "it may be called full";
  client.remove(key(1));
  ASSERT_EQ(client.store(key(1), content(1, kBytes)).code, QUIRE_OK);
  EXPECT_TRUE(client.holds(key(1), content(1, kBytes)));
}

}  // namespace
}  // namespace quire::test
