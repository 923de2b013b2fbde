// Blocks that requests hit are evicted after those that none did.
#include "states_fixture.h"

namespace quire {
namespace {

constexpr uint32_t kPromptTokens = 16;  // of a prompt that is cached: four blocks, and a token that is computed

std::vector<quire_symbol> prompt_of(uint32_t number) { return count_from(static_cast<quire_symbol>(1000 * number), kPromptTokens + 1); }

uint64_t ask(Fixture& f, uint32_t number) {
  const SequenceId id = f.open();
  const uint64_t hit = f.prefill(id, prompt_of(number));
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  return hit;
}

uint64_t cached(const Fixture& f, uint32_t number) {
  quire_probe_result probe{};
  EXPECT_TRUE(f.cache->probe(nullptr, prompt_of(number), &probe).ok());
  return probe.hit_tokens;
}

TEST(Protected, BlocksThatWereHitStayWhileOthersComeAndGo) {
  for (const bool strict : {false, true}) {
    SCOPED_TRACE(strict ? "by last use" : "default");
    Fixture f({kFull}, 33, 2, states_of(strict ? QUIRE_CACHE_STRICT_LRU : 0));  // eight prompts
    ask(f, 1);
    ask(f, 2);
    EXPECT_EQ(ask(f, 1), kPromptTokens);
    for (uint32_t other = 10; other < 40; ++other) ask(f, other);
    EXPECT_EQ(cached(f, 1), strict ? 0 : kPromptTokens);
    EXPECT_EQ(cached(f, 2), 0u);
  }
}

TEST(Protected, AThirdOfWhatIsCachedAtMost) {
  Fixture f({kFull}, 37);
  const uint32_t hit = 6;
  for (int i = 0; i < 2; ++i) {
    for (uint32_t number = 0; number < hit; ++number) ask(f, number);
  }
  for (uint32_t other = 10; other < 40; ++other) ask(f, other);
  uint32_t stayed = 0;
  for (uint32_t number = 0; number < hit; ++number) stayed += cached(f, number) == kPromptTokens ? 1 : 0;
  EXPECT_EQ(stayed, 3u) << "of nine prompts";
  EXPECT_EQ(cached(f, hit - 1), kPromptTokens) << "the one that was hit last";
}

TEST(Protected, WhatASequenceComputedItselfIsNoHit) {
  for (const bool preempted : {true, false}) {
    Fixture f({kFull}, 33);
    SequenceId id = f.open();
    f.prefill(id, prompt_of(1));
    ASSERT_TRUE((preempted ? f.cache->sequence_preempt(id) : f.cache->sequence_finish(id)).ok());
    if (!preempted) id = f.open();
    EXPECT_EQ(f.prefill(id, prompt_of(1)), kPromptTokens);
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    for (uint32_t other = 10; other < 40; ++other) ask(f, other);
    EXPECT_EQ(cached(f, 1), preempted ? 0 : kPromptTokens);
  }
}

TEST(Protected, AreEvictedWhereNothingElseIsLeft) {
  Fixture f({kFull}, 33);
  for (int i = 0; i < 2; ++i) {
    for (uint32_t number = 0; number < 7; ++number) ask(f, number);
  }
  const SequenceId id = f.open();
  EXPECT_EQ(f.prefill(id, count_from(1 << 20, 100)), 0u);
  EXPECT_EQ(cached(f, 4), 0u);
  EXPECT_EQ(cached(f, 6), kPromptTokens) << "the one that was hit last";
  EXPECT_EQ(f.prefill(f.open(), count_from(2 << 20, 20)), 0u);
  EXPECT_EQ(cached(f, 5), 0u);
  EXPECT_LT(cached(f, 6), kPromptTokens);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
}

// Attention without a state behind it is of no use, and states have to fit, too.
TEST(Protected, AnEighthWhereThereAreStates) {
  Fixture f({kFull, kState}, 161);
  for (int i = 0; i < 2; ++i) {
    for (uint32_t number = 0; number < 16; ++number) ask(f, number);
  }
  uint64_t before = 0, after = 0;
  for (uint32_t number = 0; number < 16; ++number) before += cached(f, number);
  for (uint32_t other = 20; other < 80; ++other) ask(f, other);
  for (uint32_t number = 0; number < 16; ++number) after += cached(f, number);
  EXPECT_EQ(before, 16 * kPromptTokens);
  EXPECT_GE(after, 3 * kPromptTokens);
  EXPECT_LE(after, 5 * kPromptTokens) << "20 pages are protected, four or five of each prompt";
}

}  // namespace
}  // namespace quire
