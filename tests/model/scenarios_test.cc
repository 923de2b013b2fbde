// Bugs that other systems had, as examples: free lists, counts, publication order, steps in flight. docs/scenarios.md numbers them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/step/fixture.h"

namespace quire {
namespace {

std::vector<quire_symbol> join(std::vector<quire_symbol> a, const std::vector<quire_symbol>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

uint64_t probe(const Fixture& f, const std::vector<quire_symbol>& prompt, std::string_view salt = {}) {
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  identity.salt = {salt.data(), salt.size()};
  quire_probe_result result{};
  EXPECT_TRUE(f.cache->probe(&identity, prompt, &result).ok());
  return result.hit_tokens;
}

std::vector<int32_t> table(const Fixture& f, StepId step, uint32_t group, uint64_t blocks) {
  std::vector<int32_t> ids(blocks, -1);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_RAW_TABLE;
  fill.group = group;
  fill.destination = ids.data();
  fill.capacity = fill.pitch = blocks;
  uint64_t written = 0;
  EXPECT_TRUE(f.cache->step_fill(step, fill, &written).ok());
  return ids;
}

TEST(Scenario1, WhatDoesNotFitIsRefusedBeforeAnythingIsTaken) {
  Fixture f({kFull}, 4);
  SequenceId a = f.open();
  StepId step;
  const quire_cache_stats before = f.stats();
  const quire_reserve_result r = f.reserve(a, count_from(0, 16), 16, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.missing_pages, 1u) << "4 blocks, 3 pages";
  EXPECT_EQ(f.stats().pages_free, before.pages_free);
  EXPECT_EQ(f.reserve(a, count_from(0, 12), 12, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK) << "all three are still there";
  EXPECT_TRUE(f.cache->abort(step).ok());
}

TEST(Scenario2And3, EveryHolderGivesItsBlocksBackOnce) {
  Fixture f({kFull}, 8);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 9));
  SequenceId b = *f.cache->sequence_fork(a);
  ASSERT_TRUE(f.cache->sequence_preempt(a).ok());
  ASSERT_TRUE(f.cache->sequence_preempt(a).ok()) << "empty already";
  EXPECT_EQ(f.stats().pages_used, 3u) << "the fork's";
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  EXPECT_EQ(f.cache->sequence_finish(a).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.cache->sequence_preempt(a).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.stats().pages_used, 3u);
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  EXPECT_EQ(f.stats().pages_used, 0u);
}

TEST(Scenario6, ASequenceThatGoesBeforeItsCommitLeavesNothingToFind) {
  Fixture f({kFull}, 8);
  SequenceId a = f.open();
  StepId step;
  f.reserve(a, count_from(0, 12), 12, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.commit(step, a, 12).ok());
  EXPECT_EQ(probe(f, count_from(0, 13)), 0u);
  EXPECT_EQ(f.stats().pages_free, 7u);
}

TEST(Scenario7, AnInnerBlockGoesOnlyWithWhatHangsBelow) {
  Fixture f({kFull}, 9);  // 8 usable blocks
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 12));
  SequenceId b = f.open();
  f.prefill(b, join(count_from(0, 12), count_from(90, 5)));  // shares three, adds two
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());             // b still reads the inner ones
  SequenceId c = f.open("other");
  StepId step;
  EXPECT_EQ(f.reserve(c, count_from(500, 12), 12, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(probe(f, join(count_from(0, 12), count_from(90, 5))), 16u) << "nothing that b reads was evicted";
  ASSERT_TRUE(f.commit(step, c, 12).ok());
  SequenceId d = f.open("third");
  EXPECT_EQ(f.reserve(d, count_from(900, 4), 4, QUIRE_ENTRY_MATCH, &step).code, QUIRE_RESOURCE_EXHAUSTED);
}

TEST(Scenario8, HitsInTheFreeListAreNotRoomForTheRest) {
  Fixture f({kFull}, 6);  // 5 usable blocks
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 12));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  SequenceId other = f.open();
  f.prefill(other, count_from(50, 8));
  SequenceId b = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(b, count_from(0, 16), 16, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED) << "three evictable blocks are the hit itself";
  EXPECT_EQ(r.missing_pages, 1u);
  EXPECT_EQ(probe(f, count_from(0, 13)), 12u) << "nothing was evicted for it";
  EXPECT_EQ(f.stats().pages_evictable, 3u) << "and nothing is held";
}

TEST(Scenario9, AProbeHoldsNothingAndTheMatchLooksAgain) {
  Fixture f({kFull}, 4);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 12));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_EQ(probe(f, count_from(0, 12)), 8u);
  SequenceId b = f.open();
  f.prefill(b, count_from(50, 8));  // evicts what was seen
  SequenceId c = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(c, count_from(0, 4), 4, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.hit_tokens, 0u);
  EXPECT_EQ(r.code, QUIRE_OK);
  EXPECT_TRUE(f.cache->abort(step).ok());
}

TEST(Scenario10, TwoRequestsOfOneStepDoNotHitEachOther) {
  Fixture f({kFull}, 16);
  const SequenceId a = f.open(), b = f.open();
  const auto prompt = count_from(0, 9);
  quire_reserve_entry entries[2] = {};
  quire_reserve_result results[2] = {};
  for (int i = 0; i < 2; ++i) {
    entries[i].sequence = (i == 0 ? a : b).value;
    entries[i].num_symbols = entries[i].num_tokens = 9;
    entries[i].flags = QUIRE_ENTRY_MATCH;
  }
  StepId step;
  ASSERT_TRUE(f.cache->reserve(entries, prompt, results, &step).ok());
  EXPECT_EQ(results[1].hit_tokens, 0u) << "what the first one has not written yet";
  const quire_commit_entry done[2] = {{a.value, 0, 0, 0, 9}, {b.value, 0, 0, 0, 9}};
  ASSERT_TRUE(f.cache->commit(step, done, {}).ok());
  EXPECT_EQ(probe(f, prompt), 8u);
}

TEST(Scenario11, AKeyNeverNamesWhatWasWrittenOverIt) {
  Fixture f({kFull}, 16);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 8));
  ASSERT_TRUE(f.cache->sequence_truncate(a, 6).ok());
  StepId step;
  f.reserve(a, {70, 71}, 2, 0, &step);
  const std::vector<int32_t> now = table(f, step, 0, 2);
  ASSERT_TRUE(f.commit(step, a, 2).ok());
  SequenceId b = f.open();
  f.reserve(b, count_from(0, 9), 9, QUIRE_ENTRY_MATCH, &step);
  EXPECT_NE(table(f, step, 0, 3)[1], now[1]) << "the old key still names the old bytes";
  EXPECT_EQ(f.info(b).hit_tokens, 8u);
  ASSERT_TRUE(f.cache->abort(step).ok());
  SequenceId c = f.open();
  f.reserve(c, {0, 1, 2, 3, 4, 5, 70, 71, 1}, 9, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(table(f, step, 0, 3)[1], now[1]);
  ASSERT_TRUE(f.cache->abort(step).ok());
}

TEST(Scenario12, FinishingInFlightAndTheLateResultReleaseOnce) {
  Fixture f({kFull, kState}, 16, 3);
  SequenceId a = f.open();
  StepId one, two;
  f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &one);
  f.reserve(a, {8}, 1, 0, &two);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.commit(one, a, 8).ok());
  ASSERT_TRUE(f.commit(two, a, 1).ok());
  EXPECT_EQ(f.stats().pages_free, 15u);
}

TEST(Scenario13, APageIsCountedOnceHoweverManyBlocksItHolds) {
  Fixture f({{LiveRange{}, 4, 4, 1}}, 8);
  SequenceId a = f.open(), b = f.open();
  f.prefill(a, count_from(0, 8));
  f.prefill(b, join(count_from(0, 8), count_from(80, 5)));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  const quire_cache_stats s = f.stats();
  EXPECT_EQ(s.pages_used + s.pages_free + s.pages_evictable + 1, s.pages_total);
  EXPECT_EQ(s.parts_used, 4u);
  EXPECT_EQ(s.pages_used, 2u);
}

TEST(Scenario14, ACopyIsNotTakenForAnEntryThatDoesNotFit) {
  Fixture f({kFull, kState}, 8);  // 7 usable
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 10));
  SequenceId b = *f.cache->sequence_fork(a);
  const quire_cache_stats before = f.stats();
  StepId step;
  EXPECT_EQ(f.reserve(b, count_from(60, 20), 20, QUIRE_ENTRY_NO_STOP, &step).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(f.stats().pages_used, before.pages_used);
  EXPECT_EQ(f.stats().copies, before.copies);
  EXPECT_EQ(f.info(b).reserved, 10u);
}

TEST(Scenario16, APlaceThatWasEvictedIsFilledAgainWithTheNewBlock) {
  Fixture f({kFull}, 5);  // 4 usable
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 9));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  SequenceId b = f.open();
  f.prefill(b, count_from(50, 13));  // evicts both
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  ASSERT_EQ(probe(f, count_from(0, 9)), 0u);
  SequenceId c = f.open();
  StepId step;
  f.reserve(c, count_from(0, 9), 9, QUIRE_ENTRY_MATCH, &step);
  const std::vector<int32_t> mine = table(f, step, 0, 3);
  ASSERT_TRUE(f.commit(step, c, 9).ok());
  SequenceId d = f.open();
  ASSERT_TRUE(f.cache->sequence_preempt(d).ok());
  f.reserve(d, count_from(0, 9), 9, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(table(f, step, 0, 3)[0], mine[0]);
  EXPECT_EQ(table(f, step, 0, 3)[1], mine[1]);
  ASSERT_TRUE(f.cache->abort(step).ok());
}

TEST(Scenario17, WithoutRoomForAnotherStateTheRequestWaitsAndGoesOnLater) {
  Fixture f({kState}, 5, 1);
  std::vector<SequenceId> running;
  StepId step;
  while (true) {
    SequenceId id = f.open();
    const quire_reserve_result r = f.reserve(id, {quire_symbol(running.size())}, 1, QUIRE_ENTRY_MATCH, &step);
    if (r.code == QUIRE_RESOURCE_EXHAUSTED) {
      EXPECT_EQ(r.group, 0u);
      ASSERT_GE(running.size(), 2u);
      ASSERT_TRUE(f.cache->sequence_finish(running[0]).ok());
      EXPECT_EQ(f.reserve(id, {9}, 1, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
      ASSERT_TRUE(f.commit(step, id, 1).ok());
      return;
    }
    ASSERT_TRUE(f.commit(step, id, 1).ok());
    running.push_back(id);
  }
}

TEST(Scenario18, TwoConversationsThatTakeTurnsKeepTheirPrefixes) {
  Fixture f({kFull}, 64);
  std::vector<quire_symbol> talks[2] = {count_from(0, 16), count_from(1000, 16)};
  for (int turn = 0; turn < 10; ++turn) {
    auto& talk = talks[turn % 2];
    SequenceId id = f.open();
    const uint64_t hit = f.prefill(id, talk);
    if (turn >= 2) {
      EXPECT_GE(hit, talk.size() - 8) << "turn " << turn;
    }
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    for (quire_symbol i = 0; i < 4; ++i) talk.push_back(static_cast<quire_symbol>(5000 + turn * 4) + i);
  }
}

TEST(Scenario35, ABlockOfAFinishedRequestIsFencedUntilTheLastStepThatMayTouchIt) {
  Fixture f({kFull}, 4, 3);  // 3 usable
  SequenceId a = f.open(), b = f.open(), c = f.open();
  StepId one, two, three;
  f.reserve(a, count_from(0, 4), 4, QUIRE_ENTRY_MATCH, &one);
  f.reserve(a, count_from(4, 4), 4, 0, &two);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  f.reserve(b, count_from(50, 4), 4, QUIRE_ENTRY_MATCH, &three);  // the last free one
  ASSERT_TRUE(f.commit(one, a, 4).ok());
  StepId none;
  EXPECT_EQ(f.reserve(c, {7}, 1, QUIRE_ENTRY_MATCH, &none).code, QUIRE_RESOURCE_EXHAUSTED) << "step two still runs";
  ASSERT_TRUE(f.commit(two, a, 4).ok());
  EXPECT_EQ(f.reserve(c, {7}, 1, QUIRE_ENTRY_MATCH, &none).code, QUIRE_OK);
  ASSERT_TRUE(f.cache->abort(three).ok());
}

TEST(Scenario36, WindowsAreReleasedByWhatIsComputedNotByWhatIsScheduled) {
  Fixture f({{LiveRange{.window = 4}, 4, 1, 1}}, 16, 3);
  SequenceId a = f.open();
  StepId one, two;
  f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &one);
  f.reserve(a, count_from(8, 8), 8, 0, &two);
  EXPECT_EQ(f.info(a).num_parts, 4u) << "nothing is computed yet";
  ASSERT_TRUE(f.commit(one, a, 8).ok());
  EXPECT_EQ(f.info(a).num_parts, 3u) << "tokens 5 to 7 are read by the step that runs";
  const std::vector<int32_t> ids = table(f, two, 0, 4);
  EXPECT_NE(ids[1], 0);
  ASSERT_TRUE(f.commit(two, a, 8).ok());
}

TEST(Scenario37, FencedVictimsAreNoGainAndPreemptingMoreDoesNotHelp) {
  Fixture f({kFull}, 5, 2);  // 4 usable
  SequenceId a = f.open(), b = f.open(), c = f.open();
  StepId one, none;
  quire_reserve_entry entries[2] = {};
  quire_reserve_result results[2] = {};
  const auto text = count_from(0, 8);
  for (int i = 0; i < 2; ++i) {
    entries[i].sequence = (i == 0 ? a : b).value;
    entries[i].num_symbols = entries[i].num_tokens = 8;
    entries[i].flags = QUIRE_ENTRY_MATCH;
  }
  ASSERT_TRUE(f.cache->reserve(entries, text, results, &one).ok());
  for (SequenceId victim : {a, b}) {
    ASSERT_TRUE(f.cache->sequence_preempt(victim).ok());
    const quire_reserve_result r = f.reserve(c, {7}, 1, QUIRE_ENTRY_MATCH, &none);
    EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
    EXPECT_EQ(r.missing_pages, 1u);
  }
  EXPECT_EQ(f.stats().pages_used, 4u) << "fenced";
  const quire_commit_entry done[2] = {{a.value, 0, 0, 0, 8}, {b.value, 0, 0, 0, 8}};
  ASSERT_TRUE(f.cache->commit(one, done, {}).ok());
  EXPECT_EQ(f.reserve(c, {7}, 1, QUIRE_ENTRY_MATCH, &none).code, QUIRE_OK) << "the fence has passed";
  EXPECT_TRUE(f.cache->abort(none).ok());
}

TEST(Scenario41, LateDraftsOfAPreemptedRequestAreDroppedOnceHoweverOftenItHappens) {
  for (const bool states : {false, true}) {
    Fixture f(states ? std::vector<GroupSketch>{kFull, kState} : std::vector<GroupSketch>{kFull}, 32, 2);
    SequenceId a = f.open();
    const auto prompt = count_from(0, 9);
    for (int round = 0; round < 20; ++round) {
      f.prefill(a, prompt);
      StepId one, two;
      f.reserve(a, {50, 51, 52}, 3, 0, &one);  // drafts
      ASSERT_TRUE(f.cache->sequence_preempt(a).ok());
      const quire_reserve_result r = f.reserve(a, prompt, 9, QUIRE_ENTRY_MATCH, &two);
      EXPECT_EQ(r.hit_tokens, 8u);
      ASSERT_TRUE(f.commit(one, a, 1).ok()) << "the late result says that two were rejected: nobody asks";
      EXPECT_EQ(f.info(a).steps_in_flight, 1u);
      EXPECT_EQ(f.info(a).committed, 8u);
      ASSERT_TRUE(f.commit(two, a, 1).ok());
      EXPECT_EQ(f.info(a).committed, 9u);
      ASSERT_TRUE(f.cache->sequence_preempt(a).ok());
    }
    EXPECT_EQ(f.stats().pages_used, 0u);
    EXPECT_EQ(probe(f, join(prompt, {50, 51, 52, 1})), 8u) << "drafts are never found";
  }
}

TEST(Fork, SharesWhatIsCommittedAndNotACopyThatIsNotWritten) {
  Fixture f({kFull}, 16, 2);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 6));
  SequenceId b = *f.cache->sequence_fork(a);
  StepId step;
  f.reserve(a, {60}, 1, 0, &step);  // copies the block that b reads
  ASSERT_EQ(f.cache->step_copies(step)->size(), 1u);
  const int32_t copy = f.cache->step_copies(step)->front().destination, original = f.cache->step_copies(step)->front().source;
  SequenceId c = *f.cache->sequence_fork(a);
  ASSERT_TRUE(f.cache->abort(step, true).ok());
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  f.reserve(c, {70}, 1, 0, &step);
  EXPECT_EQ(table(f, step, 0, 2)[1], original) << "not " << copy << ", which nobody wrote";
  EXPECT_TRUE(f.commit(step, c, 1).ok());
}

// Where hits end inside blocks: what is found at a boundary was written, however many rows were in flight behind it.
TEST(HitsInside, NeverFindTheCopyThatALaterStepMeansToMake) {
  Fixture f({kFull});
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 4;
  options.max_tokens_per_step = 64;
  options.keep_states = QUIRE_KEEP_ASKED;
  auto made = Cache::create(make_config({{LiveRange{}, 8, 1, 1}, {LiveRange{.state = true}, 2, 1, 1}}, 32, 128, 2), options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  f.cache = std::move(made.value());
  SequenceId a = f.open();
  StepId one, two, three;
  ASSERT_EQ(f.reserve(a, {0, 1, 2}, 3, QUIRE_ENTRY_NO_STOP, &one).num_tokens, 3u);
  ASSERT_TRUE(f.commit(one, a, 3).ok());
  ASSERT_TRUE(f.cache->sequence_finish(*f.cache->sequence_fork(a)).ok());
  f.reserve(a, {3}, 1, QUIRE_ENTRY_KEEP_STATE | QUIRE_ENTRY_NO_STOP, &one);
  ASSERT_EQ(f.reserve(a, {4, 5}, 2, QUIRE_ENTRY_KEEP_STATE | QUIRE_ENTRY_NO_STOP, &two).num_tokens, 2u);
  ASSERT_TRUE(f.commit(one, a, 1).ok());  // the unfinished block is found at 4 from now on
  EXPECT_EQ(probe(f, count_from(0, 7)), 4u);
  f.reserve(a, {60}, 1, 0, &three);
  EXPECT_TRUE(f.cache->step_copies(three)->empty()) << "behind what is found of the block its only user goes on";
  const int32_t written = table(f, three, 0, 1)[0];
  ASSERT_TRUE(f.commit(two, a, 2).ok());
  ASSERT_TRUE(f.cache->abort(three, true).ok());
  SequenceId b = f.open();
  const quire_reserve_result r = f.reserve(b, count_from(0, 7), 1, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &one);
  EXPECT_GE(r.hit_tokens, 4u);
  ASSERT_EQ(f.cache->step_copies(one)->size(), 1u);
  EXPECT_EQ(f.cache->step_copies(one)->front().source, written);
  EXPECT_TRUE(f.commit(one, b, 1).ok());
}

}  // namespace
}  // namespace quire
