// Processes that die at random points: an owner while it is read, a reader while it reads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration span) { return std::chrono::duration<double, std::milli>(span).count(); }

void report(const char* what, std::vector<double> times) {
  ASSERT_FALSE(times.empty());
  std::sort(times.begin(), times.end());
  std::printf("%s, ms: %zu times, median %.1f, 99 %% %.1f, longest %.1f\n", what, times.size(), times[times.size() / 2],
              times[times.size() * 99 / 100], times.back());
}

constexpr uint64_t kObjects = 12;
constexpr uint64_t kBytes = 3'000'000;

struct Loads {
  explicit Loads(const OwnerProcess& owner, uint64_t offset = 0) {
    for (uint64_t i = 0; i < kObjects; ++i) {
      layouts.push_back(dense(0, kBytes));
      memories.emplace_back(&layouts.back(), i + offset);
      batch.load(owner.key(i), layouts.back().runs);
    }
  }
  std::vector<Layout> layouts;
  std::vector<Memory> memories;
  Batch batch;
};

class UcxKills : public UcxWays {};
QUIRE_UCX_WAYS(UcxKills);

// Every ticket ends at once; what is loaded is right; nothing is written after the end.
TEST_P(UcxKills, AnOwnerThatDiesIsNoticed) {
  Rng rng(seed());
  std::vector<Bytes> objects;
  for (uint64_t i = 0; i < kObjects; ++i) objects.push_back(content(i, kBytes));
  Client reader(ucx_subject(), ucx_config());
  std::vector<double> times, times_dead;
  uint64_t loaded = 0, lost = 0;
  for (uint64_t round = 0; round < kills(20) && !HasFailure(); ++round) {
    OwnerProcess owner(kObjects, kBytes);
    Loads loads(owner);
    ASSERT_EQ(reader.submit(loads.batch), kObjects);
    std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, is_near() ? 15'000 : 120'000)));
    const auto killed = Clock::now();
    owner.kill();
    const auto dead = Clock::now();
    Ends ends = reader.wait(kObjects);
    times.push_back(milliseconds(Clock::now() - killed));
    times_dead.push_back(milliseconds(Clock::now() - dead));
    for (uint64_t i = 0; i < kObjects; ++i) {
      const quire_code code = ends[loads.batch.tickets()[i].ticket].code;
      ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_UNAVAILABLE) << code;
      ++(code == QUIRE_OK ? loaded : lost);
      code == QUIRE_OK ? loads.memories[i].expect(loads.layouts[i].runs, objects[i]) : loads.memories[i].forget(loads.layouts[i].runs);
      EXPECT_TRUE(loads.memories[i].intact());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const Memory& memory : loads.memories) EXPECT_TRUE(memory.intact()) << "after the end";
  }
  report("from SIGKILL of an owner to the last end", times);
  report("from when the kernel has ended it", times_dead);
  std::printf("%llu loads were right, %llu were lost\n", static_cast<unsigned long long>(loaded), static_cast<unsigned long long>(lost));
  std::sort(times_dead.begin(), times_dead.end());
  EXPECT_LE(times_dead[times_dead.size() * 9 / 10], 100 * kSlowness);
  EXPECT_GT(lost, 0u);
}

// The owner serves others, gets its bytes back when it asks for them, and one lease later in any case.
TEST_P(UcxKills, AReaderThatDiesLeavesNothing) {
  constexpr uint64_t kCount = 4;
  Rng rng(seed());
  Owner short_leases(", \"lease\": \"600ms\""), long_leases(", \"lease\": \"60s\"");
  std::vector<double> times;
  for (uint64_t round = 0; round < kills(20) && !HasFailure(); ++round) {
    const bool cancels = round % 2 == 0;
    Owner& owner = cancels ? long_leases : short_leases;
    std::vector<uint64_t> tickets;
    for (uint64_t i = 0; i < kCount; ++i) tickets.push_back(owner.offer(ucx_key(i, i + 1), content(i, kBytes)));
    ReaderProcess reader(owner.address(), kCount, kBytes);
    std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 20'000)));
    const auto killed = Clock::now();
    reader.kill();
    for (const uint64_t ticket : tickets) {
      if (cancels) owner.client().cancel(ticket);
    }
    for (const auto& [ticket, end] : owner.client().wait(kCount)) EXPECT_EQ(end.code, cancels ? QUIRE_CANCELLED : QUIRE_OK);
    const double took = milliseconds(Clock::now() - killed);
    if (cancels) times.push_back(took);
    EXPECT_LE(took, 600 + 2000 * kSlowness);
    EXPECT_EQ(owner.client().health().used_bytes, 0u);
    for (const uint64_t ticket : tickets) EXPECT_TRUE(owner.memory(ticket).intact());
  }
  report("from a cancel after the death of a reader to the last end", times);
  std::sort(times.begin(), times.end());
  EXPECT_LE(times[times.size() * 9 / 10], 200 * kSlowness);
}

// A living reader that has named what it waits for keeps it, for many leases, although it loads nothing.
TEST_P(UcxKills, AReaderThatLivesKeepsItsLeases) {
  Owner owner(", \"lease\": \"300ms\"");
  const uint64_t kept = owner.offer(ucx_key(1, 1), content(1, 1000));
  const uint64_t forgotten = owner.offer(ucx_key(2, 2), content(2, 1000));
  {
    Client reader(ucx_subject(), ucx_config());
    quire_completion end{};
    EXPECT_EQ(reader.sizes({ucx_key(1, 1, owner.address())}, 60 * kSecond, &end)[0], 1000u);
    EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
    Ends ends = owner.client().wait(1);
    EXPECT_EQ(ends.count(forgotten), 1u);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_TRUE(owner.client().poll(0).empty());
    EXPECT_TRUE(reader.holds(ucx_key(1, 1, owner.address()), content(1, 1000)));
    EXPECT_FALSE(reader.has(ucx_key(2, 2, owner.address())));
  }
  const auto gone = Clock::now();
  EXPECT_EQ(owner.client().wait(1)[kept].code, QUIRE_OK);
  EXPECT_LE(milliseconds(Clock::now() - gone), 300 + 300 * kSlowness);
}

}  // namespace
