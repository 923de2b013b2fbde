// Reports of complete units: which there are, what their holds have, and what they are called.
#include <algorithm>
#include <cstring>
#include <map>

#include "hold_queries.h"
#include "states_fixture.h"
#include "tests/unit/allocations.h"

namespace quire {
namespace {

TEST(Units, AreReportedWhenTheirTokensAreComplete) {
  Fixture f({kFull}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open("tenant");
  f.prefill(a, count_from(1, 21));
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(units[i].sequence, a.value);
    EXPECT_EQ(units[i].first_token, 8 * i);
    EXPECT_EQ(units[i].end_token, 8 * i + 8);
    EXPECT_EQ(units[i].reason, QUIRE_UNIT_COMMITTED);
    EXPECT_EQ(units[i].flags, 0U);
    EXPECT_EQ(name_of(units[i]), digest(f, count_from(1, 8 * i + 8), "tenant"));
    EXPECT_EQ(std::memcmp(units[i].digest, units[i].ahead_digest, 32), 0);
    EXPECT_EQ(ids_of(f, units[i].hold, 0).size(), 2U);
  }
  end_all(f, units);
  StepId step;
  for (uint32_t n = 21; n < 24; ++n) {
    ASSERT_EQ(f.reserve(a, count_from(n + 1, 1), 1, 0, &step).code, QUIRE_OK);
    EXPECT_TRUE(take(f).empty());
    ASSERT_TRUE(f.commit(step, a, 1).ok());
  }
  units = take(f);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(1, 24), "tenant"));
  end_all(f, units);
  EXPECT_EQ(f.stats().holds, 0U);
}

// What a window loses as the sequence goes on is held from the commit on.
TEST(Units, HoldOfAWindowWhatTheirEndNeeds) {
  Fixture f({kFull, kWindow}, 64);
  watch(f, 16, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 49));
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 3U);
  std::map<int32_t, int> seen;
  for (const quire_unit& u : units) {
    const std::vector<int32_t> ids = ids_of(f, u.hold, 1);
    ASSERT_EQ(ids.size(), 4U);
    for (size_t b = 2; b < 4; ++b) EXPECT_NE(ids[b], 0) << u.end_token << " " << b;
    for (const int32_t id : ids) seen[id] += id != 0 ? 1 : 0;
  }
  for (const auto& [id, times] : seen) EXPECT_LE(times, 1) << id;
  end_all(f, units);
}

TEST(Units, EndWhereAStateIsKept) {
  Fixture f({kFull, kState}, 64);
  watch(f, 16, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 29));  // a state is kept at 28
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0].end_token, 16U);
  EXPECT_EQ(units[1].first_token, 16U);
  EXPECT_EQ(units[1].end_token, 28U);
  EXPECT_EQ(units[1].flags, QUIRE_UNIT_HAS_STATE);
  EXPECT_EQ(ids_of(f, units[1].hold, 0).size(), 3U);
  EXPECT_NE(ids_of(f, units[1].hold, 1)[0], 0);
  EXPECT_EQ(name_of(units[1]), digest(f, count_from(1, 28)));
  end_all(f, units);
}

TEST(Units, AreReportedAgainWhenTheyAreHitAndWhenASequenceEnds) {
  Fixture f({kFull}, 64);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 21));
  watch(f, 8, QUIRE_UNIT_HIT | QUIRE_UNIT_FINISHED);
  const SequenceId b = f.open();
  f.prefill(b, count_from(1, 30));
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0].reason, QUIRE_UNIT_HIT);
  EXPECT_EQ(name_of(units[1]), digest(f, count_from(1, 16)));
  end_all(f, units);
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  units = take(f);
  ASSERT_EQ(units.size(), 3U);
  for (const quire_unit& u : units) EXPECT_EQ(u.reason, QUIRE_UNIT_FINISHED);
  EXPECT_EQ(name_of(units[2]), digest(f, count_from(1, 24)));
  end_all(f, units);
}

// After a truncation the names are those of the new text.
TEST(Units, AreNamedByWhatTheSequenceHasNow) {
  Fixture f({kFull}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  end_all(f, take(f));
  ASSERT_TRUE(f.cache->sequence_truncate(a, 4).ok());
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(500, 20), 20, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 20).ok());
  const std::vector<quire_unit> units = take(f);
  std::vector<quire_symbol> text = count_from(1, 4);
  for (const quire_symbol s : count_from(500, 20)) text.push_back(s);
  ASSERT_EQ(units.size(), 3U);
  for (const quire_unit& u : units) {
    EXPECT_EQ(name_of(u), digest(f, std::vector<quire_symbol>(text.begin(), text.begin() + static_cast<long>(u.end_token))));
  }
  end_all(f, units);
}

TEST(Units, AreGivenUpBeforeAnythingIsRefused) {
  Fixture f({kFull}, 9);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 17));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  EXPECT_EQ(f.stats().holds, 2U);
  StepId step;
  const SequenceId b = f.open();
  EXPECT_EQ(f.reserve(b, count_from(100, 32), 32, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(f.stats().holds, 0U);
  EXPECT_EQ(f.stats().units_given_up, 2U);
  EXPECT_TRUE(take(f).empty());
}

// Where a chunk begins nothing is needed to resume there, and only the unit keeps the place. Who is admitted because the unit was given up
// still has its hit.
TEST(Units, KeepTheHitOfWhoTheyAreGivenUpFor) {
  Fixture f({{LiveRange{.chunk = 16}, 4, 1, 1}}, 21);
  watch(f, 64, QUIRE_UNIT_COMMITTED | QUIRE_UNIT_FINISHED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 65));
  end_all(f, take(f));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());  // its unit has no block
  const SequenceId other = f.open();
  f.prefill(other, count_from(1000, 80));  // in all pages; its unit holds 16 of them
  ASSERT_TRUE(f.cache->sequence_finish(other).ok());
  ASSERT_EQ(f.stats().held_parts, 16U);
  std::vector<quire_symbol> prompt = count_from(1, 64);
  const std::vector<quire_symbol> rest = count_from(2000, 60);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  quire_probe_result probe{};
  ASSERT_TRUE(f.cache->probe(nullptr, prompt, &probe).ok());
  ASSERT_EQ(probe.hit_tokens, 64U);
  StepId step;
  const SequenceId b = f.open();
  const quire_reserve_result r = f.reserve(b, prompt, 60, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(r.hit_tokens, 64U);
  EXPECT_EQ(f.stats().units_given_up, 3U);
  ASSERT_TRUE(f.cache->verify().ok());
  ASSERT_TRUE(f.commit(step, b, r.num_tokens).ok());
}

// A unit that waits keeps its path in the index, also where the blocks on it are gone: the index had no room left, and a sequence published
// nothing more.
TEST(Units, AreGivenUpBeforeTheIndexIsFull) {
  quire_cache_options options = {};
  options.max_sequences = 2;
  Fixture f({kFull}, 33, 2, options);
  watch(f, 16, QUIRE_UNIT_HIT);
  for (int i = 0; i < 2; ++i) {  // the second one hits
    const SequenceId a = f.open();
    f.prefill(a, count_from(1, 65));
    ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  }
  std::vector<quire_unit> units(3);  // the last one waits
  units.resize(f.cache->take_units(units));
  ASSERT_EQ(units.size(), 3U);
  end_all(f, units);
  for (quire_symbol first = 1000; first < 9000; first += 1000) {
    const SequenceId a = f.open();
    f.prefill(a, count_from(first, 64));
    ASSERT_TRUE(f.cache->sequence_finish(a).ok());
    quire_probe_result probe{};
    ASSERT_TRUE(f.cache->probe(nullptr, count_from(first, 65), &probe).ok());
    EXPECT_EQ(probe.hit_tokens, 64U) << first;
  }
  EXPECT_EQ(f.stats().units_given_up, 1U);
}

TEST(Units, MakeRoomForNewerOnes) {
  Fixture f({kFull}, 64);
  watch(f, 4, QUIRE_UNIT_COMMITTED, 3);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 21));
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(units[0].end_token, 12U);
  EXPECT_EQ(f.stats().units_given_up, 2U);
  // Holds that are not ended take room, too: three that were taken and three that wait.
  f.prefill(f.open(), count_from(100, 33));
  EXPECT_EQ(f.stats().holds, 6U);
  end_all(f, units);
  end_all(f, take(f));
}

TEST(Units, AreNamedWhenWhatDraftsReadIsKnown) {
  GroupSketch drafts = kFull;
  drafts.look_ahead = 2;
  Fixture f({kFull, drafts}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 9));
  EXPECT_TRUE(take(f).empty());
  EXPECT_EQ(f.stats().holds, 1U);
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(10, 7), 7, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 7).ok());
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(1, 8)));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(units[0].ahead_digest), 32), digest(f, count_from(1, 10)));
  end_all(f, units);
}

TEST(Units, RefuseWhatCannotBeStored) {
  Fixture f({kFull, {LiveRange{}, 8, 1, 1}}, 32);
  quire_unit_options options{};
  options.unit_tokens = 12;
  options.reasons = QUIRE_UNIT_COMMITTED;
  EXPECT_EQ(f.cache->watch_units(&options).message(), "options.unit_tokens: 12, a multiple of 8 up to 2^24 is wanted");
  options.unit_tokens = 8;
  options.reasons = 64;
  EXPECT_EQ(f.cache->watch_units(&options).code(), QUIRE_INVALID_ARGUMENT);
  options.reasons = 0;
  EXPECT_EQ(f.cache->watch_units(&options).message(), "options.reasons: none");
  quire_cache_options without{};
  without.flags = QUIRE_CACHE_NO_PREFIX_REUSE;
  Fixture g({kFull}, 32, 2, without);
  options.reasons = QUIRE_UNIT_HIT;
  EXPECT_EQ(g.cache->watch_units(&options).code(), QUIRE_FAILED_PRECONDITION);
}

std::string ahead_of(const quire_unit& unit) { return {reinterpret_cast<const char*>(unit.ahead_digest), 32}; }

void go_on(Fixture& f, SequenceId id, quire_symbol first, uint32_t tokens) {
  StepId step;
  ASSERT_EQ(f.reserve(id, count_from(first, tokens), tokens, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, id, tokens).ok());
}

// A unit keeps the name of what it has, whatever its sequence becomes before anybody takes it.
TEST(Units, AreNamedByWhatTheSequenceHadThen) {
  Fixture f({kFull}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  ASSERT_TRUE(f.cache->sequence_truncate(a, 12).ok());
  go_on(f, a, 500, 4);
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(name_of(units[1]), digest(f, count_from(1, 16)));
  std::vector<quire_symbol> other = count_from(1, 12);
  for (const quire_symbol s : count_from(500, 4)) other.push_back(s);
  EXPECT_EQ(units[2].end_token, 16U);
  EXPECT_EQ(name_of(units[2]), digest(f, other));
  end_all(f, units);
  f.prefill(f.open(), count_from(900, 8));
  ASSERT_TRUE(f.cache->sequence_preempt(a).ok());
  f.prefill(a, count_from(700, 24));
  units = take(f);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(900, 8)));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(name_of(units[i]), digest(f, count_from(700, 8 * i)));
  end_all(f, units);
}

// The name of another life is no beginning of this one's.
TEST(Units, OfAnEarlierLifeLeaveNoNameBehind) {
  Fixture f({kFull}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  ASSERT_TRUE(f.cache->sequence_preempt(a).ok());
  std::vector<quire_symbol> other = count_from(1, 8);
  for (const quire_symbol s : count_from(700, 16)) other.push_back(s);
  EXPECT_EQ(f.prefill(a, other), 8U);
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(name_of(units[1]), digest(f, count_from(1, 16)));
  EXPECT_EQ(name_of(units[2]), digest(f, std::vector<quire_symbol>(other.begin(), other.begin() + 16)));
  EXPECT_EQ(name_of(units[3]), digest(f, other));
  end_all(f, units);
}

GroupSketch drafting() {
  GroupSketch drafts = kFull;
  drafts.look_ahead = 2;
  return drafts;
}

TEST(Units, WhoseDraftsReadOtherTokensThanTheSequenceHasAreGivenUp) {
  Fixture f({kFull, drafting()}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 9));
  ASSERT_TRUE(f.cache->sequence_truncate(a, 4).ok());
  go_on(f, a, 500, 12);
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 1U);
  std::vector<quire_symbol> text = count_from(1, 4);
  for (const quire_symbol s : count_from(500, 12)) text.push_back(s);
  EXPECT_EQ(name_of(units[0]), digest(f, std::vector<quire_symbol>(text.begin(), text.begin() + 8)));
  EXPECT_EQ(ahead_of(units[0]), digest(f, std::vector<quire_symbol>(text.begin(), text.begin() + 10)));
  EXPECT_EQ(f.stats().units_given_up, 1U);
  EXPECT_EQ(f.stats().holds, 2U);  // of it, and of the one whose drafts wait for two more tokens
  end_all(f, units);
}

// The oldest comes first, also where it had to wait.
TEST(Units, ThatWaitForTokensKeepTheirPlace) {
  Fixture f({kFull, drafting()}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open(), b = f.open();
  f.prefill(a, count_from(1, 9));
  f.prefill(b, count_from(100, 29));
  std::vector<quire_unit> units = take(f, 1);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(units[0].sequence, b.value);
  go_on(f, a, 10, 7);
  const std::vector<quire_unit> more = take(f, 1);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].sequence, a.value);
  units.push_back(more[0]);
  for (const quire_unit& u : take(f)) units.push_back(u);
  ASSERT_EQ(units.size(), 4U);
  EXPECT_EQ(units[2].end_token, 16U);
  EXPECT_EQ(units[3].end_token, 24U);
  end_all(f, units);
}

TEST(Units, HaveAStateOnlyWhereEveryGroupHas) {
  Fixture f({kFull, kState, kState}, 64);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  go_on(f, a, 17, 1);
  auto hold = f.cache->hold_begin(a, 0, 16);
  ASSERT_TRUE(hold.ok());
  const std::vector<int32_t> state = ids_of(f, *hold, 2);
  ASSERT_TRUE(f.cache->hold_end(*hold).ok());
  ASSERT_NE(state[0], 0);
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(2, state, &forgotten).ok());
  ASSERT_EQ(forgotten, 1U);
  watch(f, 16, QUIRE_UNIT_FINISHED);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(units[0].end_token, 16U);
  EXPECT_EQ(units[0].flags, 0U);
  end_all(f, units);
}

// A state is kept inside a block, which the sequence fills on in a copy as long as the unit is held.
TEST(Units, EndInsideABlockThatNobodyWritesTo) {
  Fixture f({kFull}, 8);
  const GroupSketch wide{LiveRange{}, 16, 1, 1}, state{LiveRange{.state = true}, 16, 1, 1};
  hit_inside_blocks(&f, {wide, state}, 32, 2, 4, states_of(0));
  watch(f, 16, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 20));
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[1].end_token, 20U);
  StepId step = row(f, a, 21, 1);
  ASSERT_EQ(f.cache->step_copies(step)->size(), 1U);
  EXPECT_EQ((*f.cache->step_copies(step))[0].source, ids_of(f, units[1].hold, 0)[0]);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  end_all(f, units);
}

// Their holds are there before they are needed: no step allocates for them, and no other hold takes their place.
TEST(Units, HaveHoldsOfTheirOwn) {
  Fixture f({kFull}, 128);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 9));
  std::vector<quire_hold_id> mine;
  const auto hold = [&] {
    auto made = f.cache->hold_begin(a, 0, 1);
    ASSERT_TRUE(made.ok());
    mine.push_back(*made);
  };
  hold();
  watch(f, 4, QUIRE_UNIT_COMMITTED, 2);
  for (int i = 0; i < 4; ++i) hold();
  ASSERT_TRUE(f.cache->hold_end(mine[0]).ok());  // a short one is free now
  watch(f, 48, QUIRE_UNIT_COMMITTED, 2);
  std::vector<quire_unit> taken;
  for (quire_symbol i = 1; i <= 3; ++i) {
    const SequenceId b = f.open();
    StepId step;
    ASSERT_EQ(f.reserve(b, count_from(1000 * i, 48), 48, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
    const uint64_t before = test::allocations;
    ASSERT_TRUE(f.commit(step, b, 48).ok());
    EXPECT_EQ(test::allocations, before);
    for (const quire_unit& u : take(f)) taken.push_back(u);
    ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  }
  EXPECT_EQ(taken.size(), 3U);
  EXPECT_EQ(f.stats().units_given_up, 0U);
  end_all(f, taken);
  for (size_t i = 1; i < mine.size(); ++i) EXPECT_TRUE(f.cache->hold_end(mine[i]).ok());
}

// Nothing in flight has to do with what they hold: its pages can be had at once.
TEST(Units, MakeRoomWhileAStepIsInFlight) {
  Fixture f({kFull}, 9);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open(), b = f.open(), c = f.open();
  f.prefill(a, count_from(1, 17));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  StepId first, second;
  ASSERT_EQ(f.reserve(b, count_from(100, 4), 4, QUIRE_ENTRY_MATCH, &first).code, QUIRE_OK);
  EXPECT_EQ(f.reserve(c, count_from(200, 28), 28, QUIRE_ENTRY_MATCH, &second).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(first, b, 4).ok());
  ASSERT_TRUE(f.commit(second, c, 28).ok());
}

}  // namespace
}  // namespace quire
