// The differences of docs/differences-from-vllm.md, one test each: why ours is right. Numbers 10, 11 and 19 are tests of events and hashes.
#include "states_fixture.h"

namespace quire {
namespace {

uint64_t free_pages(const Fixture& f) { return f.stats().pages_free + f.stats().pages_evictable; }

TEST(Difference1, WindowsAreReleasedByTheCommitAndARefusedCallChangesNothing) {
  Fixture f({GroupSketch{LiveRange{.window = 4}, 4, 1, 1}}, 6);
  const SequenceId id = f.open();
  StepId step;
  f.reserve(id, count_from(1, 16), 16, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, id, 16).ok());
  EXPECT_EQ(free_pages(f), 4U);  // of 5: one block is live
  const quire_reserve_result refused = f.reserve(id, count_from(17, 24), 24, 0, &step);
  EXPECT_EQ(refused.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(free_pages(f), 4U);
}

TEST(Difference2, APrefixHasOneBlockAndTheSecondCopyTakesNoRoom) {
  Fixture f({kFull}, 9);
  const SequenceId a = f.open(), b = f.open();
  StepId first, second;
  f.reserve(a, count_from(1, 8), 8, QUIRE_ENTRY_MATCH, &first);
  f.reserve(b, count_from(1, 8), 8, QUIRE_ENTRY_MATCH, &second);  // at the same time: nothing to hit yet
  ASSERT_TRUE(f.commit(first, a, 8).ok());
  ASSERT_TRUE(f.commit(second, b, 8).ok());
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  EXPECT_EQ(f.stats().pages_evictable, 2U);
  EXPECT_EQ(f.stats().pages_free, 6U);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 9)), 8U);
}

TEST(Difference3, RejectedDraftsGiveTheirBlocksBack) {
  Fixture f({kFull}, 9);
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 4));
  StepId step;
  const quire_reserve_result r = f.reserve(id, count_from(5, 9), 9, 0, &step);
  ASSERT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(free_pages(f), 4U);
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  EXPECT_EQ(free_pages(f), 6U);
}

TEST(Difference4, ResetForgetsWhatNobodyUsesBesideRunningSequences) {
  Fixture f({kFull}, 16);
  const SequenceId running = f.open();
  f.prefill(running, count_from(1, 9));
  const SequenceId done = f.open();
  f.prefill(done, count_from(100, 9));
  ASSERT_TRUE(f.cache->sequence_finish(done).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  EXPECT_EQ(f.prefill(f.open(), count_from(100, 9)), 0U);
  EXPECT_EQ(f.info(running).committed, 9U);
}

TEST(Difference5, TextBeforeAPictureIsSharedAndAPictureNeverMeetsItsPlaceholder) {
  Fixture f({kFull}, 32);
  const uint8_t cat[32] = {1}, dog[32] = {2};
  quire_symbol c = 0, d = 0;
  ASSERT_TRUE(f.cache->add_media(cat, 4, &c).ok());
  ASSERT_TRUE(f.cache->add_media(dog, 4, &d).ok());
  auto prompt = [](quire_symbol picture) {
    return std::vector<quire_symbol>{1, 2, 3, 4, picture, picture + 1, picture + 2, picture + 3, 9, 9, 9, 9, 9};
  };
  f.prefill(f.open(), prompt(c));
  EXPECT_EQ(f.prefill(f.open(), prompt(d)), 4U);
  EXPECT_EQ(f.prefill(f.open(), prompt(c)), 12U);
  EXPECT_EQ(f.prefill(f.open(), {1, 2, 3, 4, 7, 7, 7, 7, 9, 9, 9, 9, 9}), 4U);
}

TEST(Difference7, TheDeepestBlocksAreEvictedFirst) {
  Fixture f({kFull, GroupSketch{LiveRange{.window = 64}, 4, 1, 1}}, 9);
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 16));
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  f.prefill(f.open(), count_from(100, 3));  // takes one page of each group
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 9)), 8U);
}

TEST(Difference8, WhatNobodyComputedIsNeverAHit) {
  Fixture f({GroupSketch{LiveRange{.chunk = 8}, 4, 1, 1}}, 16);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 20)), 0U);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 20)), 16U);
}

// A watermark keeps room for running sequences. Where none runs a lone request that fits is admitted.
TEST(Difference12, TheWatermarkNeverRefusesALoneRequest) {
  quire_cache_options options{};
  options.watermark_pages = 4;
  Fixture f({kFull}, 8, 2, options);
  StepId step;
  const SequenceId a = f.open();
  EXPECT_EQ(f.reserve(a, count_from(1, 24), 24, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  StepId second;
  EXPECT_EQ(f.reserve(f.open(), count_from(50, 4), 4, QUIRE_ENTRY_MATCH, &second).code, QUIRE_RESOURCE_EXHAUSTED);
}

TEST(Difference14, WhatWasComputedBehindAForgottenBlockIsForgotten) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(1, 12), 12, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  std::vector<int32_t> table(4, 0);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_RAW_TABLE;
  fill.destination = table.data();
  fill.capacity = fill.pitch = table.size();
  uint64_t written = 0, forgotten = 0;
  ASSERT_TRUE(f.cache->step_fill(step, fill, &written).ok());
  ASSERT_TRUE(f.commit(step, a, 12).ok());
  EXPECT_EQ(f.cache->forget_blocks(0, std::vector<int32_t>{999}, &forgotten).code(), QUIRE_OUT_OF_RANGE);
  ASSERT_TRUE(f.cache->forget_blocks(0, std::vector<int32_t>{table[1]}, &forgotten).ok());
  EXPECT_EQ(forgotten, 2U);
  // The sequence runs on and tells nobody of what follows from the block.
  ASSERT_EQ(f.reserve(a, count_from(13, 4), 4, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 4).ok());
  const SequenceId b = f.open();
  EXPECT_EQ(f.prefill(b, count_from(1, 16)), 4U);
  EXPECT_EQ(f.prefill(f.open(), count_from(1, 17)), 16U);
}

// A state is the largest block there is: a sequence owns one and one for each draft, whatever it computes, and the last one that is kept.
TEST(Difference15, ASequenceOwnsOneStateAndOneForEachDraft) {
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_STATES_IN_PLACE;
  options.num_state_branches = 2;
  options.keep_states = QUIRE_KEEP_ASKED;
  Fixture f({kState}, 16, 1, options);
  const SequenceId id = f.open();
  StepId step;
  for (uint32_t at = 0; at < 32; at += 8) {
    ASSERT_EQ(f.reserve(id, count_from(at + 1, 8), 8, 0, &step).code, QUIRE_OK);
    EXPECT_EQ(f.stats().pages_used, 3U) << at;
    ASSERT_TRUE(f.commit(step, id, 8).ok());
    EXPECT_EQ(f.stats().pages_used, 3U) << at;
  }
  ASSERT_EQ(f.reserve(id, count_from(33, 3), 3, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, id, 1).ok());  // two drafts rejected
  EXPECT_EQ(f.stats().pages_used, 3U);
}

// What is committed was computed: it can be hit at once.
TEST(Difference16, AStateIsHitAsSoonAsItIsCommitted) {
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_STATES_IN_PLACE;
  Fixture f({kFull, kState}, 32, 2, options);
  const SequenceId a = f.open(), b = f.open();
  StepId first, second;
  ASSERT_EQ(f.reserve(a, count_from(1, 8), 8, QUIRE_ENTRY_MATCH, &first).code, QUIRE_OK);
  EXPECT_EQ(f.reserve(b, count_from(1, 9), 9, QUIRE_ENTRY_MATCH, &second).hit_tokens, 0U);  // not computed yet
  ASSERT_TRUE(f.cache->abort(second, true).ok());
  ASSERT_TRUE(f.commit(first, a, 8).ok());
  EXPECT_EQ(f.reserve(b, count_from(1, 9), 9, QUIRE_ENTRY_MATCH, &second).hit_tokens, 8U);
  ASSERT_TRUE(f.commit(second, b, 1).ok());
}

// What a draft layer writes of a token depends on the next one, so a hit drops something of it. Where hits end inside blocks that is a
// block, too: what is left of the one that the hit ends in, and one more. So every hit has a complete block behind it.
TEST(Difference17, DraftsDropABlockWhereHitsEndInsideBlocks) {
  for (const uint32_t look_ahead : {0U, 1U}) {
    auto config = std::make_shared<Config>(
        *make_config({GroupSketch{LiveRange{}, 8, 1, 1, look_ahead}, GroupSketch{LiveRange{.state = true}, 8, 1, 1}}, 64, 128));
    config->match_unit_tokens = config->hit_alignment_tokens = 2;
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_tokens_per_step = 64;
    options.hash_seed = 7;
    Fixture f({kFull}, 8);
    options.keep_states = kKeepAll;
    f.cache = std::move(Cache::create(config, options).value());
    const SequenceId a = f.open();
    for (const uint32_t end : {4U, 10U, 16U, 28U}) {
      const auto done = static_cast<uint32_t>(f.info(a).committed);
      StepId step;
      ASSERT_EQ(f.reserve(a, count_from(done + 1, end - done), end - done, QUIRE_ENTRY_NO_STOP, &step).code, QUIRE_OK);
      ASSERT_TRUE(f.commit(step, a, end - done).ok());
    }
    EXPECT_EQ(f.prefill(f.open(), count_from(1, 17)), look_ahead == 0 ? 16U : 4U);
    EXPECT_EQ(f.prefill(f.open(), count_from(1, 29)), look_ahead == 0 ? 28U : 16U);
  }
}

// The 32 blocks of a sequence are all there are: nobody but the request itself could make room for a copy of the last one.
TEST(Difference18, ALoneRequestIsNotRefusedForWhatItsHitNeedsTwice) {
  Fixture f({kFull}, 33);
  hit_inside_blocks(&f, {kFull}, 33, 1, 2, {});
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 128));
  auto prompt = count_from(1, 126);
  prompt.resize(128, 999);
  const SequenceId b = f.open();
  StepId step;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f.reserve(b, prompt, 1, QUIRE_ENTRY_MATCH, &step).code, QUIRE_RESOURCE_EXHAUSTED) << "beside a";
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  EXPECT_EQ(f.prefill(b, prompt), 124U) << "and not 126, inside a block that is held with its copy";
}

TEST(Difference13, ARunningSequenceIsNotRefusedForItsCheckpoint) {
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_STATES_IN_PLACE;
  Fixture f({GroupSketch{LiveRange{}, 4, 4, 1}, kState}, 3, 1, options);
  const SequenceId id = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(id, count_from(1, 4), 4, QUIRE_ENTRY_MATCH, &step, 16).code, QUIRE_OK);  // the whole sequence fits
  ASSERT_TRUE(f.commit(step, id, 4).ok());
  EXPECT_EQ(f.stats().checkpoints, 1U);
  for (uint32_t at = 4; at < 16; ++at) {
    ASSERT_EQ(f.reserve(id, count_from(at + 1, 1), 1, 0, &step).code, QUIRE_OK);
    ASSERT_TRUE(f.commit(step, id, 1).ok());
  }
}

}  // namespace
}  // namespace quire
