// Exhaustive: tiny pools, every order of a few operations up to a depth, against the naive cache. The naive cache knows everything that the
// future depends on, so a state that was seen needs no second visit. After every operation all answers, counters and what can be found are
// compared, and verify() runs; in every state every kind of bad call is tried and must change nothing. Evicted blocks are predicted
// exactly, those of aborted steps, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <unordered_set>

#include "tests/model/exhaustive.h"
#include "tests/unit/full_size.h"

namespace quire::model {
namespace {

std::string spell(const std::vector<Op>& path) {
  std::string out;
  for (Op op : path) out += std::string(out.empty() ? "" : ", ") + kOpNames[op];
  return out;
}

// Breadth first, so that a failure is the shortest one.
void explore(const Tiny& tiny, size_t most_states, uint64_t least_cuts = 0, uint64_t least_shared_by_steps = 0) {
  std::unordered_set<std::string> seen;
  std::deque<std::vector<Op>> open = {{}};
  uint64_t transitions = 0, evictions = 0, cuts = 0, shared = 0, shared_by_steps = 0;
  size_t depth = 0;
  while (!open.empty() && seen.size() < most_states) {
    const std::vector<Op> path = std::move(open.front());
    open.pop_front();
    depth = path.size();
    for (int op = 0; op < (tiny.loads ? kNumOps : kLoadA); ++op) {
      std::vector<Op> longer = path;
      longer.push_back(static_cast<Op>(op));
      try {
        Pair pair(tiny);
        for (Op before : path) pair.apply(before);
        const uint64_t evicted = pair.evicted(), cut = pair.cut(), shares = pair.shared(), ahead = pair.shared_by_steps();
        if (!pair.apply(static_cast<Op>(op))) continue;
        ++transitions;
        pair.compare();
        evictions += pair.evicted() > evicted ? 1 : 0;
        cuts += pair.cut() > cut ? 1 : 0;
        shared += pair.shared() > shares ? 1 : 0;
        shared_by_steps += pair.shared_by_steps() > ahead ? 1 : 0;
        if (!seen.insert(pair.state()).second) continue;
        pair.try_bad_calls();
      } catch (const Wrong& wrong) {
        FAIL() << wrong.what() << "\n  after: " << spell(longer);
      }
      open.push_back(std::move(longer));
    }
  }
  std::printf(
      "%zu states up to depth %zu, %llu operations, %llu of them evicted, %llu cut a hit, %llu shared blocks of a load, "
      "%llu of a step\n",
      seen.size(), depth + 1, static_cast<unsigned long long>(transitions), static_cast<unsigned long long>(evictions),
      static_cast<unsigned long long>(cuts), static_cast<unsigned long long>(shared), static_cast<unsigned long long>(shared_by_steps));
  EXPECT_GT(evictions, 0u);
  EXPECT_GE(cuts, least_cuts);
  EXPECT_TRUE(!tiny.loads || shared > 0);
  EXPECT_GE(shared_by_steps, least_shared_by_steps);
}

size_t states_to_visit() {
#ifdef NDEBUG
  return test::full_or(40'000, 12'000);
#else
  return 3'000;
#endif
}

size_t states_with_loads() { return std::min<size_t>(states_to_visit(), test::full_or(10'000, 5'000)); }

TEST(Exhaustive, EveryOrderOfOperationsOnOneGroupIsPredicted) { explore({{{false, 2}}, 6, 2, 2}, states_to_visit()); }
TEST(Exhaustive, EveryOrderOfOperationsOnAttentionAndStatesIsPredicted) { explore({{{false, 2}, {true, 2}}, 9, 2, 2}, states_to_visit()); }
TEST(Exhaustive, EveryOrderOfOperationsOnStatesByAgeIsPredicted) {
  explore({{{false, 2}, {true, 2}}, 9, 2, 2, 2, true}, states_to_visit() / 4);
}
TEST(Exhaustive, EveryOrderOfOperationsOnABudgetOfOneStateIsPredicted) {
  explore({{{false, 2}, {true, 2}}, 12, 2, 2, 1}, states_to_visit() / 4);
}
TEST(Exhaustive, EveryOrderOfOperationsOnABudgetOfStatesIsPredicted) { explore({{{false, 2}, {true, 2}}, 11, 2, 2, 3}, states_to_visit()); }
TEST(Exhaustive, EveryOrderOfOperationsOnABudgetOfTwoGroupsOfStatesIsPredicted) {
  explore({{{false, 2}, {true, 2}, {true, 2}}, 15, 2, 2, 4}, states_to_visit());
}
TEST(Exhaustive, EveryOrderOfOperationsAndLoadsOnOneGroupIsPredicted) {
  explore({{{false, 2}}, 6, 2, 2, 0, false, true}, states_with_loads());
}
TEST(Exhaustive, EveryOrderOfOperationsAndLoadsOnAttentionAndStatesIsPredicted) {
  explore({{{false, 2}, {true, 2}}, 9, 2, 2, 2, false, true}, states_with_loads());
}
// Who is alone is cut to none where its hit's state and the next one have no room.
TEST(Exhaustive, EveryOrderOfOperationsAndLoadsOnOnePageTooFewForAHitsStateIsPredicted) {
  explore({{{false, 2}, {true, 2}}, 5, 2, 2, 0, true, true}, states_with_loads(), 1);
}
TEST(Exhaustive, EveryOrderOfOperationsOnTwoBlockSizesIsPredicted) { explore({{{false, 2}, {false, 4}}, 8, 2, 4}, states_to_visit()); }
TEST(Exhaustive, EveryOrderOfOperationsOnStatesOfAnotherSizeIsPredicted) {
  explore({{{true, 4}, {false, 2}}, 8, 2, 4}, states_to_visit() / 2);
}

}  // namespace
}  // namespace quire::model
