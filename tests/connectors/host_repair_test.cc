// Processes that die or stop at any instruction while they change a shared store. A child is run instruction by instruction (ptrace) and
// killed after a random number of them; what it leaves must be sound, with every object that was there before and was not removed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "plugins/host/host_instance.h"
#include "tests/connectors/host_store_rig.h"

namespace quire::host {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 20;  // of many more instructions
#else
constexpr int kRounds = 200;
#endif
constexpr uint64_t kChunks = 24;
constexpr uint64_t kRepairInstructions = 4000;  // about as many as a repair of so many chunks has
const Patience kPatient;

class SharedStore : public testing::Test {
 protected:
  SharedStore() : name_("repair-" + std::to_string(getpid())) { unlink(path().c_str()); }
  ~SharedStore() override { unlink(path().c_str()); }
  std::string path() const { return "/dev/shm/quire-" + name_; }

  // A child in which f() runs, once the store is open; it stops itself before and after.
  template <typename F>
  pid_t child(F f) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left of a test that fails
    StoreRig rig(kChunks, name_);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    f(rig);
    _exit(0);
  }

  std::string name_;
};

// The calls of a worker: a store that evicts, a load, a removal, a store that is given up, and a place that comes and goes.
void change_much(StoreRig& rig, uint64_t first_key) {
  Store& store = rig.store();
  store.lock(kPatient);
  Place* const place = store.claim();
  rig.put(place, first_key, 3 * kTestChunk);
  store.unlock();
  store.lock(kPatient);
  store.begin_load(place, rig.name(2), rig.use());
  store.unlock();
  store.lock(kPatient);
  store.remove(rig.name(2));
  store.end_load(place);
  store.unlock();
  store.lock(kPatient);
  rig.begin(place, first_key + 1, 7 * kTestChunk);
  store.unlock();
  store.lock(kPatient);
  store.abandon(place);
  rig.put(place, first_key + 2, 9 * kTestChunk);
  store.remove(rig.name(first_key));
  store.unlock();
  store.release(place);
}

// False: it ended before.
bool step(pid_t pid, long instructions) {
  int status = 0;
  for (long i = 0; i < instructions; ++i) {
    if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0 || waitpid(pid, &status, 0) != pid) return false;
    if (!WIFSTOPPED(status)) return false;
  }
  return true;
}

TEST_F(SharedStore, IsSoundAfterADeathAtAnyInstruction) {
  const char* given = std::getenv("QUIRE_SEED");  // NOLINT(concurrency-mt-unsafe)
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("QUIRE_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 rng(seed);
  long most = 0;
  int repairs = 0;
  for (int round = -1; round < kRounds; ++round) {
    unlink(path().c_str());
    StoreRig rig(kChunks, name_);
    Store& store = rig.store();
    ASSERT_EQ(store.lock(kPatient), Locked::kYes);
    Place* const place = store.claim();
    for (uint64_t key = 1; key <= 5; ++key) ASSERT_TRUE(rig.put(place, key, 2 * kTestChunk));
    store.lease(rig.find(5), INT64_MAX);
    store.unlock();
    const pid_t pid = child([](StoreRig& own) { change_much(own, 100); });
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process may be traced here";
    const long wanted = round < 0 ? 10'000'000 : static_cast<long>(rng() % static_cast<uint64_t>(most));
    if (round < 0) {  // how many there are
      while (step(pid, 1)) ++most;
      ASSERT_TRUE(most > 1000) << most;
      continue;
    }
    const bool alive = step(pid, wanted);
    kill(pid, SIGKILL);
    if (alive) waitpid(pid, &status, 0);
    if (rng() % 2 == 0) {  // whoever repairs it may die, too
      const pid_t other = child([](StoreRig& own) {
        own.store().lock(kPatient);
        own.store().unlock();
      });
      ASSERT_EQ(waitpid(other, &status, 0), other);
      const bool other_alive = step(other, static_cast<long>(rng() % kRepairInstructions));
      kill(other, SIGKILL);
      if (other_alive) waitpid(other, &status, 0);
    }
    ASSERT_EQ(store.lock(kPatient), Locked::kYes);
    store.reclaim();
    ASSERT_TRUE(rig.sound()) << "killed after " << wanted << " of " << most << " instructions";
    ASSERT_TRUE(rig.has(5)) << "it has a lease";
    for (uint64_t key = 1; key <= 5; ++key) {
      if (rig.has(key)) {
        ASSERT_EQ(store.record(rig.find(key)).object_bytes, 2 * kTestChunk);
      }
    }
    EXPECT_EQ(store.header().num_damaged, 0u);
    store.remove(rig.name(5));
    ASSERT_TRUE(rig.put(place, 7, kChunks * kTestChunk)) << "nothing is lost";
    repairs += store.unlock().made ? 1 : 0;
    store.release(place);
  }
  std::printf("%d of %d deaths were within a change, of %ld instructions\n", repairs, kRounds, most);
  EXPECT_GT(repairs, kRounds / 20);
}

// A repair keeps what threads of other processes are doing.
TEST_F(SharedStore, ARepairKeepsTheWorkOfTheLiving) {
  StoreRig rig(kChunks, name_);
  Store& store = rig.store();
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  Place* const writer = store.claim();
  Place* const reader = store.claim();
  Place* const other = store.claim();
  for (uint64_t key = 1; key <= 4; ++key) ASSERT_TRUE(rig.put(writer, key, 2 * kTestChunk));
  store.begin_load(reader, rig.name(2), rig.use());
  store.begin_load(other, rig.name(3), rig.use());
  ASSERT_TRUE(store.remove(rig.name(3))) << "it is on its way out";
  ASSERT_EQ(rig.begin(writer, 9, 4 * kTestChunk), Begun::kYes);
  store.unlock();
  const pid_t pid = child([](StoreRig& own) {
    own.store().lock(kPatient);
    _exit(0);
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process may be traced here";
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  EXPECT_EQ(store.header().free_chunks, kChunks - 12);
  EXPECT_EQ(store.record(rig.find(2)).readers, 1u);
  EXPECT_TRUE(rig.sound());
  EXPECT_EQ(rig.order(), (std::vector<uint64_t>{2, 4, 1}));
  store.end_load(reader);
  store.end_load(other);
  EXPECT_EQ(store.header().free_chunks, kChunks - 10) << "3 is gone";
  EXPECT_TRUE(store.publish(writer, rig.use()));
  EXPECT_TRUE(rig.has(9));
  EXPECT_TRUE(rig.sound());
  const Repair repair = store.unlock();
  EXPECT_TRUE(repair.made);
  EXPECT_EQ(repair.kept, 3u);
  EXPECT_EQ(repair.dropped, 0u);
  for (Place* const place : {writer, reader, other}) store.release(place);
}

// Records that contradict each other do not survive a repair, and take nothing with them.
TEST_F(SharedStore, ARepairDropsWhatIsDamaged) {
  StoreRig rig(kChunks, name_);
  Store& store = rig.store();
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  Place* const place = store.claim();
  for (uint64_t key = 1; key <= 6; ++key) ASSERT_TRUE(rig.put(place, key, 3 * kTestChunk));
  const auto damaged = [&](uint64_t key) -> Record& { return const_cast<Record&>(store.record(rig.find(key))); };
  damaged(1).next = 4'000'000'000;  // no chunk
  damaged(2).next = rig.find(3);    // a chunk of another
  damaged(4).object_bytes = 100;    // of fewer chunks
  damaged(5).key[0] ^= 1;           // not the key of its hash
  store.release(place);
  store.unlock();
  const pid_t pid = child([](StoreRig& own) {
    own.store().lock(kPatient);
    _exit(0);
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process may be traced here";
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  EXPECT_TRUE(rig.sound());
  EXPECT_EQ(store.header().num_damaged, 4u);
  EXPECT_TRUE(rig.has(3) && rig.has(6));
  EXPECT_EQ(store.header().num_objects, 2u);
  EXPECT_EQ(store.header().free_chunks, kChunks - 6);
  store.unlock();
}

// A process that is stopped while it has the lock: others wait as long as they have patience.
TEST_F(SharedStore, WaitsForAStoppedProcessWithPatience) {
  StoreRig rig(kChunks, name_);
  Store& store = rig.store();
  const pid_t pid = child([](StoreRig& own) {
    own.store().lock(kPatient);
    raise(SIGSTOP);
    own.store().unlock();
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process may be traced here";
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  int asked = 0;
  const Patience three{[](const void* of) { return ++*static_cast<int*>(const_cast<void*>(of)) > 3; }, &asked};
  EXPECT_EQ(store.lock(three), Locked::kGivenUp);
  EXPECT_EQ(asked, 4);
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  EXPECT_FALSE(store.unlock().made);
  waitpid(pid, &status, 0);
}

// What the library gives to a connector.
const quire_host_api kHost = {sizeof(quire_host_api),
                              0,
                              nullptr,
                              [](void*, quire_log_level, quire_str, quire_str) {},
                              nullptr,
                              nullptr,
                              [](void*) { return monotonic_now(); }};

quire_ticket look_up(uint64_t number, uint64_t* size, int64_t deadline) {
  quire_ticket ticket{};
  ticket.ticket = number;
  ticket.kind = QUIRE_TICKET_LOOKUP;
  ticket.num_keys = 1;
  ticket.key_bytes = 8;
  ticket.sizes = size;
  ticket.deadline_ns = deadline;
  return ticket;
}

quire_completion next_end(Instance& instance) {
  quire_completion end{};
  EXPECT_EQ(instance.tickets().poll(10'000'000'000, {&end, 1}), 1u) << "within ten seconds";
  return end;
}

// While a stopped process has the lock: deadlines end tickets, cancel does, and so does close. Opening fails after a while.
TEST_F(SharedStore, TicketsEndAlthoughAStoppedProcessHasTheLock) {
  const pid_t pid = child([](StoreRig& own) {
    own.store().lock(kPatient);
    raise(SIGSTOP);
    own.store().unlock();
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process may be traced here";
  InstanceOptions options;
  options.region.capacity = kChunks * kTestChunk;
  options.region.chunk_bytes = kTestChunk;
  options.region.shared = name_;
  std::unique_ptr<Instance> instance, other;
  ASSERT_TRUE(Instance::open(kHost, options, &instance).ok());
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  const uint8_t key[8] = {1};
  uint64_t sizes[4];
  uint64_t accepted = 0;
  const int64_t soon = monotonic_now() + 100'000'000;
  const quire_ticket tickets[] = {look_up(1, &sizes[0], soon), look_up(2, &sizes[1], soon), look_up(3, &sizes[2], -1),
                                  look_up(4, &sizes[3], -1)};
  ASSERT_TRUE(instance->submit(tickets, {}, key, &accepted).ok());
  ASSERT_EQ(accepted, 4u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next_end(*instance).code, QUIRE_DEADLINE_EXCEEDED);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // 3 waits for the lock now
  EXPECT_TRUE(instance->tickets().cancel(3));
  const quire_completion end = next_end(*instance);
  EXPECT_EQ(end.ticket, 3u);
  EXPECT_EQ(end.code, QUIRE_CANCELLED);
  const Outcome outcome = Instance::open(kHost, options, &other);
  EXPECT_EQ(outcome.code, QUIRE_UNAVAILABLE);
  EXPECT_NE(outcome.text.find("another process has held the lock of the store for 5 s"), std::string::npos) << outcome.text;
  const int64_t begin = monotonic_now();
  instance.reset();
  EXPECT_LT(monotonic_now() - begin, 5'000'000'000);
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  waitpid(pid, &status, 0);
  ASSERT_TRUE(Instance::open(kHost, options, &other).ok());
}

// The lock is taken away while bytes move: a load that has them ends when it is asked to, and its object is given free later.
TEST_F(SharedStore, ALoadWithAllItsBytesNeedsNoLock) {
  constexpr uint64_t kObject = 20 * kTestChunk;
  const pid_t pid = child([](StoreRig& own) {
    own.store().lock(kPatient);
    raise(SIGSTOP);
    own.store().unlock();
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process may be traced here";
  StoreRig rig(kChunks, name_);
  Store& store = rig.store();
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  Place* const place = store.claim();
  ASSERT_TRUE(rig.put(place, 1, kObject));
  store.unlock();
  InstanceOptions options;
  options.region.capacity = kChunks * kTestChunk;
  options.region.chunk_bytes = kTestChunk;
  options.region.shared = name_;
  std::unique_ptr<Instance> instance;
  ASSERT_TRUE(Instance::open(kHost, options, &instance).ok());
  std::vector<uint8_t> bytes(kObject);
  // Five million small pieces, from the last to the first, so that the load takes a while.
  constexpr uint64_t kPieces = kObject / 64;
  const uint64_t last = reinterpret_cast<uintptr_t>(bytes.data()) + kObject - 64;
  const std::vector<quire_ticket_run> runs(4000, quire_ticket_run{0, last, 64, kPieces, -64, 0, 64});
  quire_ticket ticket = look_up(1, nullptr, -1);
  ticket.kind = QUIRE_TICKET_LOAD;
  ticket.num_runs = static_cast<uint32_t>(runs.size());
  uint64_t accepted = 0;
  const uint8_t key[8] = {1};
  ASSERT_TRUE(instance->submit({&ticket, 1}, runs, key, &accepted).ok());
  const auto readers = [&] {
    EXPECT_EQ(store.lock(kPatient), Locked::kYes);
    const uint32_t now = store.record(rig.find(1)).readers;
    store.unlock();
    return now;
  };
  for (const int64_t begin = monotonic_now(); readers() == 0;) ASSERT_LT(monotonic_now() - begin, 10'000'000'000);
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(instance->tickets().cancel(1));
  const quire_completion end = next_end(*instance);
  EXPECT_TRUE(end.code == QUIRE_OK || end.code == QUIRE_CANCELLED) << end.code;
  EXPECT_EQ(store.record(rig.find(1)).readers, 1u) << "it is still written down";
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  waitpid(pid, &status, 0);
  uint64_t size = 0;
  const quire_ticket next = look_up(2, &size, -1);
  ASSERT_TRUE(instance->submit({&next, 1}, {}, key, &accepted).ok());
  EXPECT_EQ(next_end(*instance).code, QUIRE_OK);
  EXPECT_EQ(size, kObject);
  ASSERT_EQ(store.lock(kPatient), Locked::kYes);
  EXPECT_EQ(store.record(rig.find(1)).readers, 0u);
  EXPECT_TRUE(rig.sound());
  store.unlock();
  store.release(place);
}

}  // namespace
}  // namespace quire::host
