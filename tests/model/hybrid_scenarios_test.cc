// Bugs that other systems had, as examples: several groups, identities, media, tables. docs/scenarios.md numbers them.
#include <gtest/gtest.h>

#include "tests/unit/step/fixture.h"

namespace quire {
namespace {

GroupSketch window(uint64_t tokens, uint32_t block_tokens = 4, uint32_t parts = 1, uint64_t sink = 0) {
  return {LiveRange{.sink = sink, .window = tokens}, block_tokens, parts, 1};
}

struct Who {
  std::string_view salt = {}, adapter = {};
  uint64_t epoch = 0;
};

SequenceId open_as(Fixture& f, Who who) {
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  identity.salt = {who.salt.data(), who.salt.size()};
  identity.adapter = {who.adapter.data(), who.adapter.size()};
  identity.epoch = who.epoch;
  return *f.cache->sequence_create(&identity);
}

uint64_t serve(Fixture& f, Who who, const std::vector<quire_symbol>& prompt) {
  SequenceId id = open_as(f, who);
  const uint64_t hit = f.prefill(id, prompt);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  return hit;
}

TEST(Scenario19And20, APageThatGoesToAnotherGroupIsZeroedBeforeAnybodyReadsIt) {
  Fixture f({{LiveRange{}, 4, 4, 1}, kState}, 4, 1);  // 3 usable pages: 4 blocks of tokens or one state
  serve(f, {}, count_from(0, 4));
  ASSERT_TRUE(f.cache->reset().ok());
  SequenceId a = f.open();
  StepId step;
  uint64_t zeroed = 0;
  f.reserve(a, count_from(50, 8), 8, QUIRE_ENTRY_MATCH, &step);
  const std::span<const quire_zero> zeroes = f.cache->step_zeroes(step).value();
  for (const quire_zero& z : zeroes) zeroed += z.group == kNone ? 1 : 0;
  EXPECT_EQ(zeroed, 2u) << "one page of tokens and one of states: each was used by the other group or by nobody";
  EXPECT_TRUE(f.commit(step, a, 8).ok());
}

TEST(Scenario22, TheBlockOfATokenIsFoundWithItsOwnGroupsBlockSize) {
  Fixture f({kFull, {LiveRange{}, 16, 1, 1}}, 64);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 50));
  StepId step;
  f.reserve(a, {1}, 1, 0, &step);
  for (uint32_t g = 0; g < 2; ++g) {
    const uint64_t bt = g == 0 ? 4 : 16, blocks = ceil_div(51, bt);
    int64_t slot = 0;
    std::vector<int32_t> ids(blocks);
    quire_fill fill{};
    fill.group = g;
    uint64_t written = 0;
    fill.kind = QUIRE_FILL_SLOTS;
    fill.destination = &slot;
    fill.capacity = fill.pitch = 1;
    ASSERT_TRUE(f.cache->step_fill(step, fill, &written).ok());
    fill.kind = QUIRE_FILL_RAW_TABLE;
    fill.destination = ids.data();
    fill.capacity = fill.pitch = blocks;
    ASSERT_TRUE(f.cache->step_fill(step, fill, &written).ok());
    EXPECT_EQ(slot, ids[50 / bt] * static_cast<int64_t>(bt) + static_cast<int64_t>(50 % bt)) << "group " << g;
  }
  ASSERT_TRUE(f.commit(step, a, 1).ok());
}

TEST(Scenario24, AHitEndsWhereTwoConversationsPart) {
  Fixture f({kFull, {LiveRange{}, 8, 1, 1}}, 64);
  auto one = count_from(0, 21), two = one;
  for (size_t i = 17; i < two.size(); ++i) two[i] += 500;
  serve(f, {}, one);
  EXPECT_EQ(serve(f, {}, two), 16u) << "17 tokens are equal, the blocks end at 16";
  two[15] += 500;
  EXPECT_EQ(serve(f, {}, two), 8u);
}

TEST(Scenario25And32, TheShorterGroupDecidesAndTheLossIsLessThanOneCommonBlock) {
  for (uint32_t other : {4u, 8u, 16u}) {
    for (size_t shared = 1; shared <= 40; ++shared) {
      Fixture f({kFull, {LiveRange{}, other, 1, 1}}, 64);
      auto one = count_from(0, 45), two = count_from(0, 45);
      for (size_t i = shared; i < two.size(); ++i) two[i] += 500;
      serve(f, {}, one);
      EXPECT_EQ(serve(f, {}, two), shared / other * other) << "block " << other << ", " << shared << " tokens shared";
    }
  }
}

TEST(Scenario27, WhatAWriterKeepsIsWhatAReaderNeeds) {
  for (uint64_t span = 1; span <= 12; ++span) {
    for (size_t n = 1; n <= 33; ++n) {
      Fixture f({window(span)}, 64);
      const auto prompt = count_from(0, n);
      serve(f, {}, prompt);
      EXPECT_EQ(serve(f, {}, prompt), (n - 1) / 4 * 4) << "window " << span << ", " << n << " tokens";
      auto longer = prompt;
      longer.push_back(777);
      EXPECT_EQ(serve(f, {}, longer), n / 4 * 4) << "window " << span << ", " << n << " tokens and one more";
    }
  }
}

TEST(Scenario29, AWindowAsksForItsOwnBlocksAndNotForThoseOfThePrompt) {
  Fixture f({window(8)}, 24, 1);  // 23 blocks; 128 tokens would be 32
  SequenceId a = f.open();
  StepId step;
  const auto text = count_from(0, 128);
  for (uint64_t done = 0; done < 120;) {
    const std::vector<quire_symbol> rest(text.begin() + static_cast<long>(done), text.end());
    const uint32_t chunk = static_cast<uint32_t>(std::min<uint64_t>(24, 120 - done));
    const quire_reserve_result r = f.reserve(a, rest, chunk, done == 0 ? QUIRE_ENTRY_MATCH : 0, &step, done == 0 ? 120 : 0);
    ASSERT_EQ(r.code, QUIRE_OK) << "at " << done;
    ASSERT_TRUE(f.commit(step, a, r.num_tokens).ok());
    done += r.num_tokens;
    EXPECT_LE(f.info(a).num_parts, 3u);
  }
}

TEST(Scenario30, OnlyAStateThatWasWrittenIsKept) {
  Fixture f({kFull, kState}, 32, 2);
  SequenceId a = f.open();
  StepId step;
  f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, a, 0).ok()) << "nothing was computed";
  EXPECT_EQ(f.stats().checkpoints, 0u);
  ASSERT_TRUE(f.cache->sequence_preempt(a).ok());
  f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.commit(step, a, 8).ok());
  EXPECT_EQ(f.stats().checkpoints, 0u) << "nobody is left to have computed it";
}

TEST(Scenario69To71, IdentitiesThatLookAlikeNeverShare) {
  Fixture f({kFull}, 128);
  const auto prompt = count_from(0, 9);
  const std::string zero(1, '\0');
  const std::string eight = {1, 0, 0, 0, 0, 0, 0, 0};
  const Who all[] = {{},
                     {"X", ""},
                     {"", "X"},
                     {"XX", ""},
                     {"X", "X"},
                     {"", "XX"},
                     {"ab", "c"},
                     {"a", "bc"},
                     {"abc", ""},
                     {"", "abc"},
                     {"X", "", 1},
                     {"", "X", 1},
                     {zero, ""},
                     {"", zero},
                     {zero, zero},
                     {eight, ""},
                     {"", eight},
                     {"", "", 1},
                     {"", "", 256},
                     {"a\n", "b"},
                     {"a", "\nb"},
                     {std::string_view("a\0b", 3), ""}};
  for (const Who& who : all) EXPECT_EQ(serve(f, who, prompt), 0u) << "salt '" << who.salt << "' adapter '" << who.adapter << "'";
  for (const Who& who : all) EXPECT_EQ(serve(f, who, prompt), 8u) << "salt '" << who.salt << "' adapter '" << who.adapter << "'";
}

TEST(Scenario72, TokensWhoseSumsAndMixesAreEqualAreStillDifferent) {
  Fixture f({kFull}, 64);
  const std::vector<quire_symbol> prompt = {65, 321, 100, 7, 9};
  serve(f, {}, prompt);
  const std::vector<quire_symbol> alike[] = {{65 + 1, 321 - 31, 100, 7, 9},
                                             {65 + 31, 321 - 1, 100, 7, 9},

                                             {65 + 256, 321 - 256, 100, 7, 9},
                                             {65, 321, 7, 100, 9}};
  for (const auto& other : alike) EXPECT_EQ(serve(f, {}, other), 0u);
  EXPECT_EQ(serve(f, {}, prompt), 4u);
}

TEST(Scenario73, TheSamePictureElsewhereIsAnotherPrefixAndTheTextBeforeADifferentOneIsShared) {
  Fixture f({kFull, window(6)}, 128);
  const uint8_t cat[32] = {1}, dog[32] = {2};
  quire_symbol cat_at = 0, dog_at = 0;
  ASSERT_TRUE(f.cache->add_media(cat, 5, &cat_at).ok());
  ASSERT_TRUE(f.cache->add_media(dog, 5, &dog_at).ok());
  const auto with = [](size_t text, quire_symbol first) {
    auto prompt = count_from(100, text);
    for (quire_symbol i = 0; i < 5; ++i) prompt.push_back(first + i);
    for (quire_symbol i = 0; i < 8; ++i) prompt.push_back(i);
    return prompt;
  };
  EXPECT_EQ(serve(f, {}, with(12, cat_at)), 0u);
  EXPECT_EQ(serve(f, {}, with(12, dog_at)), 12u) << "same text, different image: the text is shared";
  EXPECT_EQ(serve(f, {}, with(8, cat_at)), 8u) << "the text before it, not the picture that stands elsewhere";
  EXPECT_EQ(serve(f, {}, with(12, cat_at)), 24u);
  EXPECT_EQ(serve(f, {}, with(12, dog_at)), 24u);
}

TEST(Scenario74, AfterAResetNothingIsFoundAndAnEpochNeedsNone) {
  Fixture f({kFull, kState}, 64);
  const auto prompt = count_from(0, 9);
  serve(f, {}, prompt);
  EXPECT_EQ(serve(f, {"", "", 1}, prompt), 0u) << "new weights under the same name";
  StepId step;
  SequenceId a = f.open();
  f.reserve(a, prompt, 9, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(f.cache->reset().code(), QUIRE_FAILED_PRECONDITION) << "not while a step may publish old content";
  ASSERT_TRUE(f.cache->abort(step).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  EXPECT_EQ(serve(f, {}, prompt), 0u);
}

TEST(Scenario75, AConversationThatComesBackTakesOnlyWhatIsEqual) {
  Fixture f({kFull, kState}, 64);
  auto talk = count_from(0, 24);
  serve(f, {}, talk);
  talk[10] = 999;
  EXPECT_EQ(serve(f, {}, talk), 0u) << "8 tokens are equal, but no state was kept there";
  EXPECT_EQ(serve(f, {"s", ""}, talk), 0u);
  EXPECT_EQ(serve(f, {}, talk), 8u) << "this time it was kept where they part";
  EXPECT_EQ(serve(f, {}, talk), 20u);
}

TEST(Scenario77, ARowLongerThanTheCallersTableIsRefused) {
  Fixture f({kFull}, 32);
  SequenceId a = f.open();
  StepId step;
  f.reserve(a, count_from(0, 40), 40, QUIRE_ENTRY_MATCH, &step);
  std::vector<int32_t> ids(10, 77);
  quire_fill fill{};
  fill.kind = QUIRE_FILL_TABLE;
  fill.destination = ids.data();
  fill.capacity = ids.size();
  fill.pitch = 9;
  uint64_t written = 0;
  EXPECT_EQ(f.cache->step_fill(step, fill, &written).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(ids, std::vector<int32_t>(10, 77));
  fill.pitch = 10;
  EXPECT_TRUE(f.cache->step_fill(step, fill, &written).ok());
  EXPECT_TRUE(f.commit(step, a, 40).ok());
}

TEST(Scenario79, ARecurrentStateGoesBackToWhereItWasKeptOrNowhere) {
  Fixture f({kFull, kState}, 32);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 12));
  for (uint64_t to = 1; to < 12; ++to) EXPECT_EQ(f.cache->sequence_truncate(a, to).code(), QUIRE_FAILED_PRECONDITION) << to;
  ASSERT_TRUE(f.cache->sequence_truncate(a, 0).ok());
  EXPECT_EQ(f.prefill(a, count_from(0, 13)), 12u);
}

TEST(Scenario81, RangesThatEndBeforeTheyBeginAreRefused) {
  Fixture f({kFull}, 32);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 12));
  EXPECT_EQ(f.cache->sequence_truncate(a, 13).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(f.cache->sequence_truncate(a, UINT64_MAX).code(), QUIRE_OUT_OF_RANGE);
  quire_reserve_entry e{};
  e.sequence = a.value;
  e.num_tokens = 1;
  e.num_symbols = 2;
  e.symbols_offset = UINT64_MAX;
  quire_reserve_result r{};
  StepId step;
  const quire_symbol one[1] = {1};
  EXPECT_EQ(f.cache->reserve({&e, 1}, one, {&r, 1}, &step).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(f.info(a).committed, 12u);
}

// Prompts that come again and again: the share that is hit is that of the tokens, however many layers a page packs.
TEST(RepeatedPrompt, TheHitShareDoesNotDependOnThePack) {
  std::vector<uint64_t> hits;
  for (uint32_t pack = 1; pack <= 15; ++pack) {
    Fixture f({{LiveRange{}, 4, pack, 1}, {LiveRange{.window = 12}, 4, pack, 1}}, 200);
    uint64_t hit = 0;
    for (int turn = 0; turn < 6; ++turn) {
      for (quire_symbol who = 0; who < 3; ++who) hit += serve(f, {}, count_from(who * 1000, 30 + static_cast<size_t>(turn) * 4));
    }
    hits.push_back(hit);
  }
  EXPECT_GT(hits[0], 0u);
  EXPECT_EQ(hits, std::vector<uint64_t>(15, hits[0]));
}

}  // namespace
}  // namespace quire
