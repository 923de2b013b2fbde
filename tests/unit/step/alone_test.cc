// A sequence that is alone runs to its end, wherever the blocks of its hit lie.
#include "states_fixture.h"

namespace quire {
namespace {

// Two blocks of attention in a page of one group, one in a page of the other: a sequence of 128 tokens takes 16 and 32 pages, all there
// are.
const std::vector<GroupSketch> kPairs{GroupSketch{LiveRange{}, 4, 2, 1}, kFull};
constexpr uint64_t kAllPages = 49;

// Leaves the first `blocks` blocks of count_from(1, 128) in pages of which each keeps a block of another prompt, too.
void scatter(Fixture& f, uint32_t blocks) {
  const SequenceId other = f.open("other");
  f.prefill(other, count_from(9000, 4));
  for (uint32_t i = 0; i < blocks; ++i) {
    auto prompt = count_from(1, size_t{4} * (i + 1));
    for (quire_symbol symbol = 0; symbol < 4; ++symbol) prompt.push_back(1000 + 10 * i + symbol);
    const SequenceId id = f.open();
    EXPECT_EQ(f.prefill(id, prompt), 4U * i);
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  }
  ASSERT_TRUE(f.cache->sequence_finish(other).ok());
}

TEST(Alone, GrowsIntoThePagesOfItsHit) {
  Fixture f(kPairs, kAllPages);
  scatter(f, 12);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 128)), 48U);
}

TEST(Alone, AHitEndsWhereTheRestWouldHaveNoRoom) {
  for (const uint32_t blocks : {16U, 17U, 20U}) {
    Fixture f(kPairs, kAllPages);
    scatter(f, blocks);
    EXPECT_EQ(f.prefill(f.open(), count_from(1, 128)), 64U) << "blocks in more than 16 pages of the first group";
  }
}

TEST(Alone, APageMoreIsABlockMore) {
  Fixture f(kPairs, kAllPages + 1);
  scatter(f, 20);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 128)), 68U);
}

TEST(Alone, WhatIsCutOffWasThereAndGoes) {
  Fixture f(kPairs, kAllPages);
  scatter(f, 20);
  StepId step;
  const quire_reserve_result r = f.reserve(f.open(), count_from(1, 81), 1, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.hit_tokens, 64U);
  EXPECT_EQ(r.full_hit_tokens, 80U);
  EXPECT_EQ(r.miss, QUIRE_MISS_EVICTED);
  ASSERT_TRUE(f.cache->abort(step).ok());
  EXPECT_EQ(f.stats().miss_reasons[QUIRE_MISS_EVICTED], 0U);
}

// Each of 18 blocks lies in a page of its own, one more than there is room for, and states are kept behind 32 and 72 tokens. Where the hit
// was cut no prompts part: nobody stops there, and no state is kept.
TEST(Alone, WhereAHitIsCutIsNoJunction) {
  quire_cache_options options{};
  options.keep_states = QUIRE_KEEP_ASKED | QUIRE_KEEP_JUNCTION;
  Fixture f({GroupSketch{LiveRange{}, 4, 2, 1}, kState}, 22, 2, options);
  SequenceId id = f.open();
  f.prefill(id, count_from(1, 4));
  for (quire_symbol block = 1; block < 18; ++block) {
    const SequenceId child = *f.cache->sequence_fork(id);
    const uint32_t keep = block == 7 || block == 17 ? QUIRE_ENTRY_KEEP_STATE : 0;
    ASSERT_TRUE(f.commit(row(f, child, 1 + 4 * block, 4, keep), child, 4).ok()) << "block " << block;
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    id = child;
  }
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  StepId step;
  const quire_reserve_result r = f.reserve(f.open(), count_from(1, 128), 60, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.hit_tokens, 32U);
  EXPECT_EQ(r.full_hit_tokens, 72U);
  EXPECT_EQ(r.miss, QUIRE_MISS_EVICTED);
  EXPECT_EQ(r.num_tokens, 60U);
  EXPECT_EQ(r.flags, 0U);
}

// Not the hit is cut but the prompt: what is asked for may be shorter, the rest may follow.
TEST(Alone, TheRoomIsThatOfTheLongestSequence) {
  Fixture f(kPairs, kAllPages);
  scatter(f, 20);
  const SequenceId id = f.open();
  EXPECT_EQ(f.prefill(id, count_from(1, 81)), 64U);
  for (quire_symbol next = 82; next <= 128; ++next) {
    StepId step;
    ASSERT_EQ(f.reserve(id, {next}, 1, 0, &step).code, QUIRE_OK) << "token " << next;
    ASSERT_TRUE(f.commit(step, id, 1).ok());
  }
}

TEST(Alone, BesideOthersAHitIsTakenWhole) {
  Fixture f(kPairs, kAllPages);
  scatter(f, 20);
  f.prefill(f.open("other"), count_from(9000, 4));
  StepId step;
  const quire_reserve_result r = f.reserve(f.open(), count_from(1, 81), 1, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(r.hit_tokens, 80U);
}

// A pool of the 32 blocks that a sequence gets, all of them cached: there is none for a copy of the block that the hit ends inside.
TEST(Alone, AHitThatEndsInsideABlockIsCutWhereThereIsNoRoomForTheCopy) {
  Fixture f({kFull}, 33);
  hit_inside_blocks(&f, {kFull}, 33, 2, 2, {});
  const SequenceId a = f.open(), b = f.open();
  f.prefill(a, count_from(1, 128));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  auto prompt = count_from(1, 126);
  prompt.resize(128, 999);
  StepId step;
  const quire_reserve_result r = f.reserve(b, prompt, 64, QUIRE_ENTRY_MATCH, &step);
  ASSERT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(r.hit_tokens, 124U);
  EXPECT_EQ(r.full_hit_tokens, 126U);
  EXPECT_EQ(r.miss, QUIRE_MISS_EVICTED);
  EXPECT_EQ(r.missing_pages, 0U);
  EXPECT_TRUE(f.cache->step_copies(step)->empty());
  ASSERT_TRUE(f.commit(step, b, 4).ok());
}

// States in place, four drafts: a sequence has five states and no page is left beside its longest. A hit's state would be the sixth.
TEST(Alone, AHitIsCutWhereThereIsNoRoomForItsState) {
  Fixture f({kFull, kState}, 38, 1, states_of(QUIRE_CACHE_STATES_IN_PLACE, 4));
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 124));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  const SequenceId b = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(b, count_from(1, 128), 64, QUIRE_ENTRY_MATCH, &step);
  ASSERT_EQ(r.code, QUIRE_OK);
  EXPECT_LT(r.hit_tokens, 124U);
  EXPECT_EQ(r.miss, QUIRE_MISS_EVICTED);
  EXPECT_EQ(f.cache->verify().message(), "");
  ASSERT_TRUE(f.commit(step, b, r.num_tokens).ok());
  for (uint64_t done = r.position + r.num_tokens; done < 128;) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(64, 128 - done));
    const quire_reserve_result next = f.reserve(b, count_from(static_cast<quire_symbol>(1 + done), n), n, 0, &step);
    ASSERT_EQ(next.code, QUIRE_OK) << done;
    done += next.num_tokens;
    ASSERT_TRUE(f.commit(step, b, next.num_tokens).ok());
  }
}

// Steps that are undone leave pages half full.
TEST(Alone, UndoneStepsCostNoPages) {
  Fixture f(kPairs, kAllPages);
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 4));
  for (quire_symbol block = 1; block < 32; ++block) {
    StepId step = row(f, id, 1 + 4 * block, std::min(12U, 128 - 4 * block));
    ASSERT_TRUE(f.cache->abort(step, true).ok());
    ASSERT_TRUE(f.commit(row(f, id, 1 + 4 * block, 4), id, 4).ok()) << "block " << block;
  }
}

}  // namespace
}  // namespace quire
