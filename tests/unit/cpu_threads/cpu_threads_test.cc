// The CPU driver's pool: every piece once, turns within their bounds, no scratch shared, whoever calls, awake or asleep. What pieces write
// is plain memory, so that ThreadSanitizer sees whether a job's end is one.
#include "drivers/cpu/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/unit/fork_when_quiet.h"

namespace quire::cpu {
namespace {

struct Turn {
  uint64_t first, last;
  uint32_t thread;
};

struct Count {
  std::vector<uint32_t> times;  // of each piece
  std::mutex lock;
  std::vector<Turn> turns;
  std::atomic<uint32_t> busy[32] = {};  // threads; no test has more
  bool shared = false;

  explicit Count(uint64_t pieces) : times(pieces) {}

  static void work(void* p, uint64_t first, uint64_t last, uint32_t thread) {
    Count& c = *static_cast<Count*>(p);
    const bool alone = c.busy[thread].fetch_add(1) == 0;
    for (uint64_t i = first; i < last; ++i) ++c.times[i];
    {
      const std::lock_guard<std::mutex> guard(c.lock);
      if (!alone) c.shared = true;
      c.turns.push_back({first, last, thread});
    }
    c.busy[thread].fetch_sub(1);
  }

  bool each_once() const { return times == std::vector<uint32_t>(times.size(), 1); }
};

TEST(CpuThreads, EveryPieceOnceInTurnsWithinTheirBounds) {
  for (uint32_t count : {1u, 2u, 3u, 8u}) {
    Threads threads;
    ASSERT_TRUE(threads.start(count, nullptr, 0));
    ASSERT_EQ(threads.count(), count);
    for (uint64_t pieces : {0, 1, 2, 15, 16, 17, 1000, 100000}) {
      for (Turns turns : {Turns{}, Turns{1, 7}, Turns{16, UINT64_MAX}, Turns{3, 64}, Turns{100, 100}}) {
        if (pieces / turns.most > 20000) continue;
        Count c(pieces);
        threads.run(pieces, turns, Count::work, &c);
        EXPECT_TRUE(c.each_once()) << count << " threads, " << pieces << " pieces, " << turns.least << " to " << turns.most;
        EXPECT_FALSE(c.shared);
        for (const Turn& t : c.turns) {
          EXPECT_LT(t.first, t.last);
          EXPECT_LT(t.thread, count);
          EXPECT_LE(t.last - t.first, turns.most);
          EXPECT_TRUE(t.last - t.first >= turns.least || t.last == pieces) << t.first << " to " << t.last;
        }
      }
    }
  }
}

// All begin at once and none is left with a large turn at the end.
TEST(CpuThreads, TurnsShrinkTowardsTheEnd) {
  Threads threads;
  ASSERT_TRUE(threads.start(4, nullptr, 0));
  Count c(4096);
  threads.run(4096, {}, Count::work, &c);
  uint64_t largest = 0;
  for (const Turn& t : c.turns) {
    largest = std::max(largest, t.last - t.first);
    EXPECT_LE((t.last - t.first) * 16, std::max<uint64_t>(4096 - t.first, 16)) << t.first;
  }
  EXPECT_EQ(largest, 4096u / 16);
  EXPECT_LT(c.turns.size(), 200u);
}

TEST(CpuThreads, JobsInSuccessionAndAfterSleep) {
  Threads threads;
  ASSERT_TRUE(threads.start(3, nullptr, 0));
  std::vector<uint64_t> squares(64);
  for (int round = 0; round < 2000; ++round) {
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::fill(squares.begin(), squares.end(), 0);
    threads.run(
        squares.size(), {1, 1}, [](void* p, uint64_t first, uint64_t, uint32_t) { static_cast<uint64_t*>(p)[first] = first * first; },
        squares.data());
    ASSERT_EQ(std::accumulate(squares.begin(), squares.end(), uint64_t{0}), 85344u) << round;
  }
}

TEST(CpuThreads, CallersTakeTurns) {
  Threads threads;
  ASSERT_TRUE(threads.start(2, nullptr, 0));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        Count c(100);
        threads.run(100, {1, 4}, Count::work, &c);
        if (!c.each_once() || c.shared) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

// A worker that is kept within a job is waited for, by a caller that fell asleep meanwhile.
TEST(CpuThreads, WaitsForThoseInside) {
  Threads threads;
  ASSERT_TRUE(threads.start(2, nullptr, 0));
  struct Slow {
    std::atomic<int> begun{0};
    int done[2] = {};
  };
  for (int round = 0; round < 20; ++round) {
    Slow slow;
    threads.run(
        2, {1, 1},
        [](void* p, uint64_t first, uint64_t, uint32_t thread) {
          Slow& s = *static_cast<Slow*>(p);
          ++s.begun;
          const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
          while (s.begun != 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();  // until both are inside
          if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));                // the caller sleeps meanwhile
          s.done[first] = 1;
        },
        &slow);
    ASSERT_EQ(slow.done[0] + slow.done[1], 2);
    ASSERT_EQ(slow.begun, 2);
  }
}

TEST(CpuThreads, PoolsThatNeverWorkEnd) {
  for (int round = 0; round < 50; ++round) {
    Threads threads;
    ASSERT_TRUE(threads.start(4, nullptr, 0));
  }
}

TEST(CpuThreads, AChildOfForkEndsItsCopyAlone) {
  Threads threads;
  ASSERT_TRUE(threads.start(24, nullptr, 0));  // more than the C library keeps stacks for
  const pid_t child = test::fork_when_quiet();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // a child that waits for the parent's threads is ended
    threads.~Threads();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  Count count(1000);
  threads.run(1000, {1, 4}, Count::work, &count);
  EXPECT_EQ(std::accumulate(count.times.begin(), count.times.end(), 0u), 1000u);
}

}  // namespace
}  // namespace quire::cpu
