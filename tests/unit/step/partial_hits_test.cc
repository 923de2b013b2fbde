// Hits that end inside a block: who copies, who goes on in place, which states make them possible.
#include "states_fixture.h"

namespace quire {
namespace {

const std::vector<GroupSketch> kWide{GroupSketch{LiveRange{}, 16, 1, 1}, GroupSketch{LiveRange{.state = true}, 16, 1, 1}};

TEST(PartialHits, APromptIsHitInsideItsLastBlockAndCopiedByWhoGoesOn) {
  for (const uint32_t flags : {0U, QUIRE_CACHE_STATES_IN_PLACE}) {
    Fixture f({kFull}, 8);
    hit_inside_blocks(&f, kWide, 32, 2, 4, states_of(flags));
    const SequenceId a = f.open();
    f.prefill(a, count_from(1, 16));
    ASSERT_TRUE(f.commit(row(f, a, 17, 12), a, 12).ok());  // a chunk that ends at 28
    ASSERT_TRUE(f.commit(row(f, a, 29, 2), a, 2).ok());
    EXPECT_EQ(f.stats().checkpoints, 2U);
    auto prompt = count_from(1, 29);
    prompt.resize(34, 99);
    StepId step;
    const SequenceId b = f.open();
    const quire_reserve_result r = f.reserve(b, prompt, 4, QUIRE_ENTRY_MATCH, &step);
    EXPECT_EQ(r.hit_tokens, 28U);
    auto copies = f.cache->step_copies(step);
    ASSERT_EQ(copies->size(), 1U);
    EXPECT_EQ((*copies)[0].num_tokens, 12U);
    EXPECT_NE((*copies)[0].source, (*copies)[0].destination);
    ASSERT_TRUE(f.commit(step, b, 4).ok());
    // The first prompt goes on in its own block, which is found by all of its tokens then.
    step = row(f, a, 31, 2);
    EXPECT_TRUE(f.cache->step_copies(step)->empty());
    ASSERT_TRUE(f.commit(step, a, 2).ok());
    EXPECT_EQ(f.prefill(f.open(), count_from(1, 33)), 32U);
    EXPECT_EQ(f.prefill(f.open(), count_from(1, 30)), 28U);  // the state there is another part than what went on
  }
}

TEST(PartialHits, WhoHitInsideABlockGoesOnBehindItsOwnUnfinishedOneWithoutACopy) {
  Fixture f({kFull}, 8);
  hit_inside_blocks(&f, kWide, 32, 2, 4, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  ASSERT_TRUE(f.commit(row(f, a, 17, 4), a, 4).ok());
  auto prompt = count_from(1, 20);
  prompt.resize(28, 99);
  const SequenceId b = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(b, prompt, 4, QUIRE_ENTRY_MATCH, &step).hit_tokens, 20U);
  EXPECT_EQ(f.cache->step_copies(step)->size(), 1U);
  ASSERT_TRUE(f.commit(step, b, 4).ok());  // 24 tokens: a chunk's end, kept inside the block
  EXPECT_EQ(f.stats().checkpoints, 3U);
  step = row(f, b, 200, 2);
  EXPECT_TRUE(f.cache->step_copies(step)->empty());
  ASSERT_TRUE(f.commit(step, b, 2).ok());
  EXPECT_EQ(f.prefill(f.open(), prompt), 24U);
}

TEST(PartialHits, AnUnfinishedBlockThatAStepOfAFinishedSequenceStillWritesIsCopied) {
  Fixture f({kFull}, 8);
  hit_inside_blocks(&f, kWide, 32, 2, 4, states_of(QUIRE_CACHE_STATES_IN_PLACE));
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  ASSERT_TRUE(f.commit(row(f, a, 17, 4), a, 4).ok());
  const StepId flying = row(f, a, 300, 1);  // the row behind token 20 of the block that ends at 20 so far
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  auto prompt = count_from(1, 20);
  prompt.resize(28, 99);
  const SequenceId b = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(b, prompt, 4, QUIRE_ENTRY_MATCH, &step).hit_tokens, 20U);
  EXPECT_EQ(f.cache->step_copies(step)->size(), 1U);
  ASSERT_TRUE(f.commit(flying, a, 1).ok());
  ASSERT_TRUE(f.commit(step, b, 4).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(PartialHits, ABlockThatTheNextStepCopiesIsFoundWhereItWasWritten) {
  Fixture f({kFull}, 8);
  hit_inside_blocks(&f, kWide, 32, 2, 4, states_of(0));
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 18));
  const StepId chunk = row(f, a, 19, 6);  // writes tokens 18 to 23 of the second block
  ASSERT_TRUE(f.cache->sequence_fork(a).ok());
  const StepId next = row(f, a, 25, 2);  // shares that block with the fork now: goes on in a copy
  auto copies = f.cache->step_copies(next);
  ASSERT_EQ(copies->size(), 1U);
  const int32_t written = (*copies)[0].source;
  ASSERT_TRUE(f.commit(chunk, a, 6).ok());  // a chunk's end: its state is kept, and what the block has so far is found
  auto prompt = count_from(1, 24);
  prompt.resize(28, 99);
  StepId step;
  const SequenceId b = f.open();
  ASSERT_EQ(f.reserve(b, prompt, 4, QUIRE_ENTRY_MATCH, &step).hit_tokens, 24U);
  copies = f.cache->step_copies(step);
  ASSERT_EQ(copies->size(), 1U);
  EXPECT_EQ((*copies)[0].source, written);
  EXPECT_EQ((*copies)[0].num_tokens, 8U);
  ASSERT_TRUE(f.commit(next, a, 2).ok());
  ASSERT_TRUE(f.commit(step, b, 4).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(PartialHits, WhereNoStateIsKeptInsideTheBlockItsBeginningIsHit) {
  Fixture f({kFull}, 8);
  quire_cache_options options = states_of(0);
  options.keep_states = QUIRE_KEEP_EVERY;
  hit_inside_blocks(&f, kWide, 32, 2, 4, options);
  f.prefill(f.open(), count_from(1, 30));
  EXPECT_EQ(f.stats().checkpoints, 1U);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 30)), 16U);
}

TEST(PartialHits, TheEngineAsksForAState) {
  Fixture f({kFull}, 8);
  quire_cache_options options = states_of(0);
  options.keep_states = QUIRE_KEEP_ASKED;
  hit_inside_blocks(&f, kWide, 32, 2, 4, options);
  const SequenceId id = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(id, count_from(1, 23), 23, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_KEEP_STATE, &step);
  EXPECT_EQ(r.num_tokens, 20U);
  EXPECT_EQ(r.flags, QUIRE_RESULT_CHUNK_STOP);
  ASSERT_TRUE(f.commit(step, id, 20).ok());
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 30)), 20U);
}

}  // namespace
}  // namespace quire
