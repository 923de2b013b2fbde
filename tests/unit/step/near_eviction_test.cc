// Units that are reported because they are evicted soon: which, when, and that nothing of them is evicted before.
#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "hold_queries.h"
#include "states_fixture.h"
#include "tests/unit/allocations.h"

namespace quire {
namespace {

uint64_t hit_of(const Fixture& f, std::vector<quire_symbol> prompt) {
  prompt.push_back(1 << 20);
  quire_probe_result probe{};
  EXPECT_TRUE(f.cache->probe(nullptr, prompt, &probe).ok());
  return probe.hit_tokens;
}

// A prompt that nobody goes on with.
void pass(Fixture& f, const std::vector<quire_symbol>& prompt) {
  const SequenceId a = f.open();
  f.prefill(a, prompt);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
}

TEST(NearEviction, LooksOnlyWhereAStepCouldEvict) {
  Fixture f({kFull}, 97);  // a step takes 64 / 4 pages, and one more for each of eight rows
  watch(f, 8, QUIRE_UNIT_EVICTING);
  pass(f, count_from(1, 64));
  for (quire_symbol first = 1000; first < 5000; first += 1000) {
    EXPECT_TRUE(take(f).empty()) << first;
    pass(f, count_from(first, 64));
  }
  const std::vector<quire_unit> units = take(f);  // 16 are free
  EXPECT_EQ(units.size(), 6U);                    // of an eighth of the pool
  end_all(f, units);
}

TEST(NearEviction, ReportsUnitsWhoseLastBlockIsNext) {
  Fixture f({kFull}, 33);  // it looks at four pages
  watch(f, 8, QUIRE_UNIT_EVICTING);
  pass(f, count_from(1, 64));
  pass(f, count_from(1000, 60));  // one page is free
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(units[i].sequence, 0U);
    EXPECT_EQ(units[i].reason, QUIRE_UNIT_EVICTING);
    EXPECT_EQ(units[i].flags, 0U);
    EXPECT_EQ(units[i].end_token, 64 - 8 * i);  // tails go first
    EXPECT_EQ(units[i].first_token, 56 - 8 * i);
    EXPECT_EQ(name_of(units[i]), digest(f, count_from(1, 64 - 8 * i)));
    for (const int32_t id : ids_of(f, units[i].hold, 0)) EXPECT_NE(id, 0);
  }
  EXPECT_TRUE(take(f).empty()) << "reported once";
  end_all(f, units);
  EXPECT_TRUE(take(f).empty());
  EXPECT_EQ(f.stats().units_given_up, 0U);
}

// What was copied goes before what was not, the end of the prompt first.
TEST(NearEviction, LeavesThePagesNextWhenTheHoldEnds) {
  for (const bool in_turn : {true, false}) {
    Fixture f({kFull}, 33);
    watch(f, 8, QUIRE_UNIT_EVICTING);
    pass(f, count_from(1, 64));
    pass(f, count_from(1000, 60));
    std::vector<quire_unit> units = take(f);
    ASSERT_EQ(units.size(), 2U);
    if (!in_turn) std::swap(units[0], units[1]);
    end_all(f, units);
    pass(f, count_from(2000, 4));  // in the free page
    for (uint64_t left = 60; left >= 48; left -= 4) {
      pass(f, count_from(3000 + 4 * static_cast<quire_symbol>(left), 4));
      const uint64_t hit = hit_of(f, count_from(1, 64));
      EXPECT_TRUE(in_turn ? hit == left : hit >= 48) << hit << " " << left;
    }
    EXPECT_EQ(hit_of(f, count_from(1, 64)), 48U);
    EXPECT_EQ(hit_of(f, count_from(1000, 60)), 60U);
    EXPECT_EQ(hit_of(f, count_from(2000, 4)), 4U);
  }
}

// A state is old, and the blocks before it were used a moment ago: these are not evicted next because they were copied with it.
TEST(NearEviction, LeavesWhatWasUsedSince) {
  Fixture f({kFull, kState}, 65, 2, states_of(QUIRE_CACHE_STRICT_LRU));
  watch(f, 16, QUIRE_UNIT_EVICTING);
  quire_symbol next = 1000;
  for (int i = 0; i < 4; ++i, next += 1000) pass(f, count_from(next, 17));
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 29));  // a state is kept at 28
  for (; f.stats().evicted_pages == 0; next += 1000)
    pass(f, count_from(next, 17));  // older than what a has at its end, younger than its state
  std::vector<quire_unit> copied;
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  for (const quire_symbol end = next + 20000; next < end && copied.empty(); next += 1000) {
    for (const quire_unit& unit : take(f)) {
      if (name_of(unit) == digest(f, count_from(1, 28))) copied.push_back(unit);
      EXPECT_TRUE(f.cache->hold_end(unit.hold).ok());
    }
    pass(f, count_from(next, 5));
  }
  ASSERT_FALSE(copied.empty());
  for (int i = 0; i < 4; ++i, next += 1000) pass(f, count_from(next, 5));
  quire_probe_result probe{};
  ASSERT_TRUE(f.cache->probe(nullptr, count_from(1, 29), &probe).ok());
  EXPECT_EQ(probe.full_hit_tokens, 28U);
}

// Where little else can be evicted, blocks that were hit are copied, too. They do not go first for that.
TEST(NearEviction, LeavesProtectedBlocksBehindOthers) {
  Fixture f({kFull}, 33);  // it looks at four pages
  pass(f, count_from(1000, 12));
  for (int i = 0; i < 2; ++i) pass(f, count_from(1, 5));
  const SequenceId running = f.open();
  f.prefill(running, count_from(5000, 112));
  ASSERT_EQ(f.stats().pages_evictable, 4U);
  ASSERT_EQ(f.stats().pages_free, 0U);
  watch(f, 4, QUIRE_UNIT_EVICTING);
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(name_of(units[3]), digest(f, count_from(1, 4)));
  end_all(f, units);
  ASSERT_TRUE(f.cache->sequence_finish(running).ok());
  for (quire_symbol first = 7000; first < 10000; first += 1000) pass(f, count_from(first, 28));
  EXPECT_EQ(hit_of(f, count_from(1, 4)), 4U);
  EXPECT_EQ(hit_of(f, count_from(1000, 12)), 0U);
}

// Whoever hits a unit while it is copied leaves its blocks as used last, whether it ends before the copy or after it.
class UsedMeanwhile : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ends, UsedMeanwhile, testing::Bool());

TEST_P(UsedMeanwhile, IsNotEvictedNext) {
  Fixture f({kFull}, 33);
  watch(f, 8, QUIRE_UNIT_EVICTING);
  pass(f, count_from(1, 64));
  pass(f, count_from(1000, 60));
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  const SequenceId again = f.open();
  EXPECT_EQ(f.prefill(again, count_from(1, 65)), 64U);
  if (GetParam()) (void)f.cache->sequence_finish(again);
  end_all(f, units);
  if (!GetParam()) (void)f.cache->sequence_finish(again);
  pass(f, count_from(2000, 32));
  EXPECT_EQ(hit_of(f, count_from(1, 64)), 64U);
  EXPECT_LT(hit_of(f, count_from(1000, 60)), 60U);
}

TEST(NearEviction, HasTheStateOfItsBoundary) {
  Fixture f({kFull, kState}, 33, 2, states_of(QUIRE_CACHE_STRICT_LRU));
  watch(f, 16, QUIRE_UNIT_EVICTING);
  pass(f, count_from(1, 29));  // states at 28 and perhaps before
  std::vector<quire_unit> units;
  for (quire_symbol first = 1000; first < 20000 && units.empty(); first += 1000) {
    pass(f, count_from(first, 5));
    units = take(f);
  }
  ASSERT_FALSE(units.empty());
  const auto unit = std::find_if(units.begin(), units.end(), [](const quire_unit& u) { return u.end_token == 28; });
  ASSERT_NE(unit, units.end());
  EXPECT_EQ(unit->first_token, 16U);
  EXPECT_EQ(unit->flags, QUIRE_UNIT_HAS_STATE);
  EXPECT_NE(ids_of(f, unit->hold, 1)[0], 0);
  EXPECT_EQ(name_of(*unit), digest(f, count_from(1, 28)));
  end_all(f, units);
}

// A block that a sequence still fills is not copied half.
TEST(NearEviction, LeavesOutBlocksThatSomebodyFills) {
  Fixture f({kFull}, 8);
  const GroupSketch wide{LiveRange{}, 16, 1, 1}, state{LiveRange{.state = true}, 16, 1, 1};
  hit_inside_blocks(&f, {wide, state}, 17, 2, 4, states_of(QUIRE_CACHE_STRICT_LRU));
  watch(f, 16, QUIRE_UNIT_EVICTING);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 20));
  StepId step = row(f, a, 21, 1);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  size_t num_units = 0;
  for (quire_symbol first = 1000; first < 12000; first += 1000) {
    pass(f, count_from(first, 17));
    const std::vector<quire_unit> units = take(f);
    for (const quire_unit& unit : units) {
      for (const int32_t id : ids_of(f, unit.hold, 0)) EXPECT_NE(id, 0);
      EXPECT_FALSE(unit.end_token == 20 && name_of(unit) == digest(f, count_from(1, 20)));
    }
    num_units += units.size();
    end_all(f, units);
  }
  EXPECT_GT(num_units, 0U);
}

TEST(NearEviction, HoldsNoMoreWhileUnitsWait) {
  Fixture f({kFull}, 65);  // looks at eight pages
  watch(f, 8, QUIRE_UNIT_EVICTING);
  for (quire_symbol first = 1000; first < 5000; first += 1000) pass(f, count_from(first, 64));
  std::vector<quire_unit> units = take(f, 1);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(f.stats().holds, 4U);
  for (quire_symbol first = 10000; first < 14000; first += 1000) {
    pass(f, count_from(first, 16));
    EXPECT_TRUE(take(f, 0).empty());
    EXPECT_EQ(f.stats().holds, 4U);
  }
  for (const quire_unit& unit : take(f, 3)) units.push_back(unit);
  EXPECT_EQ(units.size(), 4U);
  end_all(f, units);
}

TEST(NearEviction, GivesWayBeforeAnythingIsRefused) {
  Fixture f({kFull}, 33);
  watch(f, 8, QUIRE_UNIT_EVICTING);
  pass(f, count_from(1, 64));
  pass(f, count_from(1000, 60));
  EXPECT_TRUE(take(f, 0).empty());
  EXPECT_EQ(f.stats().holds, 2U);
  StepId step;
  const SequenceId b = f.open();
  ASSERT_EQ(f.reserve(b, count_from(5000, 60), 60, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);  // 15 pages, which there are
  EXPECT_EQ(f.stats().units_given_up, 0U);
  StepId other;
  const SequenceId c = f.open();
  ASSERT_EQ(f.reserve(c, count_from(7000, 60), 60, QUIRE_ENTRY_MATCH, &other).code, QUIRE_OK);  // only without the units
  EXPECT_EQ(f.stats().units_given_up, 2U);
  EXPECT_EQ(f.stats().holds, 0U);
  ASSERT_TRUE(f.cache->abort(other, 0).ok());
  ASSERT_TRUE(f.commit(step, b, 60).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

// A unit that made room for a newer one is still there, and comes again.
TEST(NearEviction, ReportsAgainWhatWasGivenUp) {
  Fixture f({kFull}, 33);
  pass(f, count_from(1, 64));
  pass(f, count_from(1000, 60));
  watch(f, 4, QUIRE_UNIT_EVICTING | QUIRE_UNIT_FINISHED, 2);
  const uint64_t before = f.stats().units_given_up;
  const SequenceId last = f.open();
  f.prefill(last, count_from(2000, 4));  // in the last free page
  EXPECT_TRUE(take(f, 0).empty());
  EXPECT_EQ(f.stats().holds, 2U);
  ASSERT_TRUE(f.cache->sequence_finish(last).ok());
  EXPECT_EQ(f.stats().units_given_up, before + 1);
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[1].reason, QUIRE_UNIT_FINISHED);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(1, 60)));
  end_all(f, units);
  units = take(f);
  ASSERT_FALSE(units.empty());
  EXPECT_EQ(units[0].reason, QUIRE_UNIT_EVICTING);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(1, 64)));
  end_all(f, units);
}

TEST(NearEviction, IsRefusedWithDrafts) {
  GroupSketch drafts = kFull;
  drafts.look_ahead = 2;
  Fixture f({kFull, drafts}, 64);
  quire_unit_options options{};
  options.unit_tokens = 8;
  options.reasons = QUIRE_UNIT_EVICTING | QUIRE_UNIT_COMMITTED;
  const Status refused = f.cache->watch_units(&options);
  EXPECT_EQ(refused.code(), QUIRE_UNIMPLEMENTED);
  EXPECT_EQ(refused.message(), "options.reasons: QUIRE_UNIT_EVICTING, and a group looks 2 tokens ahead");
}

// Whoever takes them after each commit, and has the time to copy them, misses nothing: each unit that was computed is in the cache or was
// reported. Prompts branch, are hit again, and are longer than what a look covers.
TEST(NearEviction, MissesNothing) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(rng() % n); };
    const GroupSketch packed{LiveRange{}, 4, 3, 1}, columns{LiveRange{}, 4, 1, 2};
    const std::vector<std::vector<GroupSketch>> shapes{{kFull}, {packed}, {columns}, {kFull, columns}};
    Fixture f(shapes[seed % shapes.size()], (129 + pick(200)) / shapes[seed % shapes.size()][0].parts_per_page, 2,
              states_of(seed <= 20 ? QUIRE_CACHE_STRICT_LRU : 0));
    watch(f, 16, QUIRE_UNIT_EVICTING);
    // With one group, by default: beside running sequences, so that few pages are not protected.
    const bool beside = seed > 20 && seed % shapes.size() == 0;
    for (uint32_t other = 0; beside && other < 6 && f.stats().pages_free > 65; ++other) {
      f.prefill(f.open(), count_from(static_cast<quire_symbol>((1 << 24) + 1000 * other), 120));
    }
    std::set<std::string> reported;
    std::vector<std::vector<quire_symbol>> prompts;
    std::vector<quire_unit> held;
    const auto take_all = [&] {
      for (const quire_unit& unit : take(f)) {
        EXPECT_EQ(unit.reason, QUIRE_UNIT_EVICTING);
        reported.insert(name_of(unit));
        held.push_back(unit);
      }
      while (held.size() > 4 || (!held.empty() && pick(2) == 0)) {
        EXPECT_TRUE(f.cache->hold_end(held.front().hold).ok());
        held.erase(held.begin());
      }
    };
    for (int n = 0; n < 120; ++n) {
      std::vector<quire_symbol> prompt;
      if (!prompts.empty() && pick(3) == 0) {
        const std::vector<quire_symbol>& other = prompts[pick(static_cast<uint32_t>(prompts.size()))];
        prompt.assign(other.begin(), other.begin() + pick(static_cast<uint32_t>(other.size())));
      }
      while (prompt.size() < 20 + pick(100)) prompt.push_back(1 + pick(1 << 20));
      const SequenceId a = f.open();
      for (uint64_t done = 0; done < prompt.size();) {  // a step takes no more than a look covers for the next one
        StepId step;
        const std::vector<quire_symbol> rest(prompt.begin() + static_cast<long>(done), prompt.end());
        const quire_reserve_result r =
            f.reserve(a, rest, std::min<uint32_t>(static_cast<uint32_t>(rest.size()), 8), done == 0 ? QUIRE_ENTRY_MATCH : 0, &step);
        ASSERT_EQ(r.code, QUIRE_OK);
        done = r.position + r.num_tokens;
        ASSERT_TRUE(f.commit(step, a, r.num_tokens).ok());
        take_all();
      }
      prompts.push_back(prompt);
      ASSERT_TRUE(f.cache->sequence_finish(a).ok());
      take_all();
    }
    ASSERT_GT(f.stats().evicted_blocks, 200U);
    uint64_t gone = 0, missed = 0;
    for (const std::vector<quire_symbol>& prompt : prompts) {
      for (uint64_t end = hit_of(f, prompt) / 16 * 16 + 16; end <= prompt.size(); end += 16, ++gone) {
        const std::string name = digest(f, std::vector<quire_symbol>(prompt.begin(), prompt.begin() + static_cast<long>(end)));
        missed += reported.count(name) == 0 ? 1 : 0;
      }
    }
    EXPECT_GT(gone, 100U);
    // Blocks are evicted in another order where they share a page with some that are in use, and where an older block of one group goes
    // that was computed again together with those of another group.
    const std::vector<GroupSketch>& shape = shapes[seed % shapes.size()];
    const uint64_t most = shape.size() == 1 && shape[0].parts_per_page == 1 ? 0 : gone / 8;
    EXPECT_LE(missed, most) << "of " << gone;
    EXPECT_EQ(f.stats().units_given_up, 0U);
    end_all(f, held);
  }
}

}  // namespace
}  // namespace quire
