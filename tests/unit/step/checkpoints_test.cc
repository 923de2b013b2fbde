// Which kept states go, for others within a budget of bytes or for room in the pool: examples. Plans made by hand have pages of one byte,
// so a state of one part is a byte. Every prefill of n tokens with kChunkEnd keeps one state, at the last multiple of the spacing below n.
#include "states_fixture.h"

namespace quire {
namespace {

quire_cache_options budget_of(uint64_t bytes, uint32_t flags = 0, uint32_t keep = QUIRE_KEEP_CHUNK_END) {
  quire_cache_options options{};
  options.checkpoint_bytes = bytes;
  options.flags = flags;
  options.keep_states = keep;
  return options;
}

void serve(Fixture* f, quire_symbol first, uint32_t tokens) {
  const SequenceId id = f->open();
  f->prefill(id, count_from(first, tokens));
  EXPECT_TRUE(f->cache->sequence_finish(id).ok());
  const Status ok = f->cache->verify();
  EXPECT_TRUE(ok.ok()) << ok.message();
}

uint64_t probe(const Fixture& f, quire_symbol first, uint32_t tokens) {
  quire_probe_result result{};
  EXPECT_TRUE(f.cache->probe(nullptr, count_from(first, tokens), &result).ok());
  return result.hit_tokens;
}

TEST(Checkpoints, ABudgetBelowOneBoundaryIsRefused) {
  quire_cache_options options = budget_of(2);
  options.struct_size = sizeof options;
  const auto two_groups = make_config({kFull, kState, GroupSketch{LiveRange{.state = true}, 4, 1, 2}}, 32, 128);
  const auto refused = Cache::create(two_groups, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(std::string_view(refused.status().message()), "checkpoint_bytes: 2, the states of one boundary take 3");
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{3}, UINT64_MAX - 1, UINT64_MAX}) {
    options.checkpoint_bytes = bytes;
    EXPECT_TRUE(Cache::create(two_groups, options).ok()) << bytes;
  }
  options.checkpoint_bytes = 1;
  EXPECT_TRUE(Cache::create(make_config({kFull}, 32, 128), options).ok()) << "nothing keeps states";
}

TEST(Checkpoints, BytesAreThoseOfTheShardWithTheLargestPages) {
  auto config = std::make_shared<Config>(*make_config({kFull, GroupSketch{LiveRange{.state = true}, 4, 2, 3}}, 32, 128));
  config->shards.resize(2);
  config->shards[0].page_bytes = 1000;
  config->shards[1].page_bytes = 1001;
  quire_cache_options options = budget_of(1501);
  options.struct_size = sizeof options;
  EXPECT_FALSE(Cache::create(config, options).ok()) << "three halves of a page, rounded up, are 1502 bytes";
  options.checkpoint_bytes = 1502;
  EXPECT_TRUE(Cache::create(config, options).ok());
}

TEST(Checkpoints, TheBudgetHoldsWhateverIsKept) {
  Fixture f({kFull, kState}, 64, 2, budget_of(3, 0, 0));
  for (quire_symbol user = 0; user < 6; ++user) {
    serve(&f, 1000 * user, 33);
    EXPECT_EQ(f.stats().checkpoint_bytes, std::min<uint64_t>(user + 1, 3));
  }
  EXPECT_EQ(f.stats().checkpoints_given_up, 3u);
  EXPECT_EQ(f.stats().checkpoints_declined, 0u);
  EXPECT_EQ(f.stats().evicted_pages, 0u) << "the pool had room";
}

TEST(Checkpoints, WhatCostsLeastRecomputeGoes) {
  for (const uint32_t flags : {0u, QUIRE_CACHE_STRICT_LRU}) {
    Fixture f({kFull, kState}, 64, 2, budget_of(2, flags));
    serve(&f, 0, 33);
    serve(&f, 1000, 9);
    serve(&f, 2000, 17);
    EXPECT_EQ(probe(f, 0, 33), flags == 0 ? 32u : 0u);
    EXPECT_EQ(probe(f, 1000, 9), flags == 0 ? 0u : 8u);
    EXPECT_EQ(probe(f, 2000, 17), 16u);
  }
}

TEST(Checkpoints, WhatIsNeverUsedGoesInTheEndHoweverMuchItCosts) {
  Fixture f({kFull, kState}, 128, 2, budget_of(2));
  serve(&f, 0, 33);
  for (quire_symbol user = 1; user <= 4; ++user) serve(&f, 1000 * user, 9);
  EXPECT_EQ(probe(f, 0, 33), 32u) << "four of eight tokens, one on top of the other, are as many";
  serve(&f, 5000, 9);
  EXPECT_EQ(probe(f, 0, 33), 0u);
}

TEST(Checkpoints, WhatIsUsedStays) {
  Fixture f({kFull, kState}, 128, 2, budget_of(2));
  serve(&f, 0, 9);
  for (quire_symbol user = 1; user <= 8; ++user) {
    serve(&f, 1000 * user, 9);
    serve(&f, 0, 10);
    EXPECT_EQ(probe(f, 0, 10), 8u);
  }
}

// 8 tokens that many requests begin with, and prompts of 32 that nobody asks for again.
TEST(Checkpoints, WhatIsUsedOftenOutlivesWhatCostsMoreEachTime) {
  for (const int uses : {0, 6, 7}) {
    Fixture f({kFull, kState}, 128, 2, budget_of(2, 0, QUIRE_KEEP_PROMPT_END));
    serve(&f, 0, 9);
    for (int i = 0; i < uses; ++i) serve(&f, 0, 10);
    for (quire_symbol user = 1; user <= 2; ++user) serve(&f, 1000 * user, 33);
    EXPECT_EQ(probe(f, 0, 10), uses < 7 ? 0u : 8u) << uses << " times half of 8 tokens, and 8 once";
    EXPECT_EQ(probe(f, 1000, 33), uses < 7 ? 32u : 0u);
    EXPECT_EQ(probe(f, 2000, 33), 32u);
  }
}

TEST(Checkpoints, ARequestThatIsPreemptedIsOneUse) {
  Fixture f({kFull, kState}, 128, 2, budget_of(2, 0, QUIRE_KEEP_PROMPT_END));
  serve(&f, 0, 9);
  const SequenceId id = f.open();
  for (int i = 0; i < 20; ++i) {
    StepId step;
    EXPECT_EQ(f.reserve(id, count_from(0, 10), 2, QUIRE_ENTRY_MATCH, &step).hit_tokens, 8u);
    EXPECT_TRUE((i % 2 == 0 ? f.commit(step, id, 2) : f.cache->abort(step)).ok());
    EXPECT_TRUE(f.cache->sequence_preempt(id).ok());
  }
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  for (quire_symbol user = 1; user <= 2; ++user) serve(&f, 1000 * user, 33);
  EXPECT_EQ(probe(f, 0, 10), 0u) << "8 tokens and half of them, not 11 times 8";
}

// Three in a row, 4 tokens apart: once the middle one is gone the last one costs 8.
TEST(Checkpoints, WhatTheLossOfOneCostsIsAddedToTheNext) {
  Fixture f({kFull, kState}, 128, 2, budget_of(3));
  const SequenceId id = f.open();
  StepId step;
  for (uint32_t done = 0; done < 12; done += 4) {
    f.reserve(id, count_from(done, 13 - done), 4, done == 0 ? QUIRE_ENTRY_MATCH : 0, &step);
    ASSERT_TRUE(f.commit(step, id, 4).ok());
  }
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  EXPECT_EQ(f.stats().checkpoint_bytes, 3u);
  serve(&f, 1000, 9);  // the first one goes, its successor would cost 8 then
  EXPECT_EQ(probe(f, 0, 5), 0u);
  EXPECT_EQ(probe(f, 0, 9), 8u);
  EXPECT_EQ(probe(f, 0, 13), 12u);
  serve(&f, 2000, 9);  // the last one's 4 tokens are the least now
  EXPECT_EQ(probe(f, 0, 9), 8u);
  EXPECT_EQ(probe(f, 0, 13), 8u);
  EXPECT_EQ(probe(f, 1000, 9), 8u);
}

TEST(Checkpoints, PinnedOnesStayAndNothingIsKeptWhereAllArePinned) {
  Fixture f({kFull, kState}, 64, 2, budget_of(1));
  serve(&f, 0, 9);
  quire_pin_options options{};
  options.struct_size = sizeof options;
  options.priority = QUIRE_PIN_HARD;
  uint64_t tokens = 0;
  auto pin = f.cache->pin(nullptr, count_from(0, 9), options, &tokens);
  ASSERT_TRUE(pin.ok());
  EXPECT_EQ(tokens, 8u);
  serve(&f, 1000, 33);
  EXPECT_EQ(f.stats().checkpoints_declined, 1u);
  EXPECT_EQ(probe(f, 0, 9), 8u);
  EXPECT_EQ(probe(f, 1000, 33), 0u);
  ASSERT_TRUE(f.cache->unpin(*pin).ok());
  serve(&f, 2000, 33);
  EXPECT_EQ(f.stats().checkpoints_given_up, 1u);
  EXPECT_EQ(probe(f, 0, 9), 0u);
  EXPECT_EQ(probe(f, 2000, 33), 32u);
}

TEST(Checkpoints, WhatIsNotPinnedGoesHoweverLittleThePinnedCost) {
  Fixture f({kFull, kState}, 64, 2, budget_of(2));
  serve(&f, 0, 9);
  serve(&f, 1000, 33);
  quire_pin_options options{};
  options.struct_size = sizeof options;
  uint64_t tokens = 0;
  ASSERT_TRUE(f.cache->pin(nullptr, count_from(0, 9), options, &tokens).ok());
  serve(&f, 2000, 17);
  EXPECT_EQ(probe(f, 0, 9), 8u);
  EXPECT_EQ(probe(f, 1000, 33), 0u);
  EXPECT_EQ(probe(f, 2000, 17), 16u);
  EXPECT_EQ(f.stats().checkpoints_declined, 0u);
}

TEST(Checkpoints, ABoundaryGoesWithTheStatesOfAllGroups) {
  Fixture f({kFull, kState, kState}, 64, 2, budget_of(4));
  for (quire_symbol user = 0; user < 3; ++user) serve(&f, 1000 * user, 9 + 8 * user);
  EXPECT_EQ(f.stats().checkpoint_bytes, 4u);
  EXPECT_EQ(f.stats().checkpoints_given_up, 1u);
  EXPECT_EQ(f.stats().evicted_blocks, 2u);
  EXPECT_EQ(probe(f, 0, 9), 0u);
}

TEST(Checkpoints, TheRunningSequenceGoesOnWhenItsStateIsNotKeptAnyMore) {
  Fixture f({kFull, kState}, 64, 2, budget_of(1));
  const SequenceId a = f.open(), b = f.open();
  StepId step;
  f.reserve(a, count_from(0, 9), 9, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, a, 8).ok());  // it stands behind its kept state
  EXPECT_EQ(probe(f, 0, 9), 8u);
  f.prefill(b, count_from(1000, 33));
  EXPECT_EQ(probe(f, 0, 9), 0u);
  ASSERT_EQ(f.reserve(a, {8}, 1, 0, &step).code, QUIRE_OK);
  EXPECT_TRUE(f.commit(step, a, 1).ok());
}

TEST(Checkpoints, AMatchCountsWhatItsStateSparedAndAnAbortTakesItBack) {
  Fixture f({kFull, kState}, 64, 2, budget_of(8));
  const SequenceId id = f.open();
  StepId step;
  for (uint32_t done = 0; done < 24; done += 8) {
    f.reserve(id, count_from(done, 25 - done), 8, done == 0 ? QUIRE_ENTRY_MATCH : 0, &step);
    ASSERT_TRUE(f.commit(step, id, 8).ok());
  }
  const SequenceId again = f.open();
  EXPECT_EQ(f.reserve(again, count_from(0, 25), 1, QUIRE_ENTRY_MATCH, &step).hit_tokens, 24u);
  EXPECT_EQ(f.stats().recompute_avoided, 8u) << "from the state at 16 on";
  ASSERT_TRUE(f.cache->abort(step).ok());
  EXPECT_EQ(f.stats().recompute_avoided, 0u);
}

// A row that crosses eight boundaries, within budgets of few of them.
TEST(Checkpoints, TheLastBoundaryOfARowWinsOverThoseBeforeIt) {
  for (const uint32_t flags : {0u, QUIRE_CACHE_STRICT_LRU}) {
    for (const uint32_t tokens : {32u, 33u, 35u}) {  // the row ends there, or goes on for a few tokens
      for (const uint64_t budget : {1u, 2u, 3u, 7u, 8u}) {
        Fixture f({kFull, kState}, 128, 2, budget_of(budget, QUIRE_CACHE_STATES_AT_BLOCKS | flags, 0));
        serve(&f, 0, tokens);
        EXPECT_EQ(probe(f, 0, 36), 32u) << tokens << " tokens, " << budget << " boundaries";
        EXPECT_EQ(f.stats().checkpoint_bytes, budget);
      }
    }
  }
}

// What is left of a row's boundaries lies apart: who turns off anywhere on the way finds one not far before.
TEST(Checkpoints, BoundariesOnTheWayLieApart) {
  Fixture f({kFull, kState}, 128, 2, budget_of(2, QUIRE_CACHE_STATES_AT_BLOCKS, 0));
  serve(&f, 0, 33);
  EXPECT_EQ(probe(f, 0, 33), 32u);
  EXPECT_EQ(probe(f, 0, 31), 16u);
}

// Somebody resumed at 8 of the first prompt: that is worth more than what nobody has used of another row.
TEST(Checkpoints, OnTheWayWhatIsWorthLessGoes) {
  Fixture f({kFull, kState}, 128, 2, budget_of(2, QUIRE_CACHE_STATES_AT_BLOCKS, 0));
  serve(&f, 0, 9);
  serve(&f, 0, 10);
  const uint64_t before = f.stats().checkpoints_given_up;
  serve(&f, 1000, 33);
  EXPECT_EQ(probe(f, 0, 10), 8u);
  EXPECT_EQ(probe(f, 1000, 33), 32u);
  EXPECT_GT(f.stats().checkpoints_given_up, before);
}

// The second prompt's row keeps seven boundaries for a moment each. That ages nobody: what was used stays for as many more rows.
TEST(Checkpoints, WhatWasKeptForAMomentAgesNobody) {
  Fixture f({kFull, kState}, 256, 2, budget_of(2, QUIRE_CACHE_STATES_AT_BLOCKS, QUIRE_KEEP_EVERY));
  serve(&f, 0, 33);
  serve(&f, 0, 34);
  for (quire_symbol user = 1; user <= 3; ++user) {
    serve(&f, 1000 * user, 33);
    EXPECT_EQ(probe(f, 1000 * user, 33), 32u);
    EXPECT_EQ(probe(f, 0, 34), 32u) << user;
  }
}

// A pool of seven pages for states alone. The first user's state was used, the others' never.
TEST(Checkpoints, InThePoolWhatWasNeverUsedGoesBeforeOlderOnes) {
  for (const uint32_t flags : {0u, QUIRE_CACHE_STRICT_LRU}) {
    Fixture f({GroupSketch{LiveRange{.state = true}, 4, 1, 1}}, 8, 1, budget_of(0, flags));
    serve(&f, 0, 33);
    serve(&f, 0, 34);
    for (quire_symbol user = 1; user <= 6; ++user) serve(&f, 1000 * user, 9);
    EXPECT_GT(f.stats().evicted_pages, 0u);
    EXPECT_EQ(f.stats().checkpoints_given_up, 0u) << "that is for the budget";
    EXPECT_EQ(probe(f, 0, 33), flags == 0 ? 32u : 0u);
    EXPECT_EQ(probe(f, 1000, 9), flags == 0 ? 0u : 8u);
    EXPECT_EQ(probe(f, 6000, 9), 8u);
  }
}

TEST(Checkpoints, WhatIsForgottenOrResetCountsNoMore) {
  Fixture f({kFull, kState}, 64, 2, budget_of(4));
  serve(&f, 0, 9);
  serve(&f, 1000, 9);
  EXPECT_EQ(f.stats().checkpoint_bytes, 2u);
  const SequenceId id = f.open();
  StepId step;
  f.reserve(id, count_from(0, 9), 1, QUIRE_ENTRY_MATCH, &step);
  int32_t read = 0;
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_STATE_READ;
  fill.group = 1;
  fill.destination = &read;
  fill.capacity = 1;
  uint64_t written = 0, forgotten = 0;
  ASSERT_TRUE(f.cache->step_fill(step, fill, &written).ok());
  ASSERT_TRUE(f.cache->commit(step, std::vector<quire_commit_entry>{{id.value, 0, 0, 0, 1}}, {}).ok());
  ASSERT_TRUE(f.cache->forget_blocks(1, std::span(&read, 1), &forgotten).ok());
  EXPECT_EQ(forgotten, 1u);
  EXPECT_EQ(f.stats().checkpoint_bytes, 1u);
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  EXPECT_EQ(f.stats().checkpoint_bytes, 0u);
  serve(&f, 1000, 9);
  EXPECT_EQ(f.stats().checkpoint_bytes, 1u);
}

// A prompt whose state had to go is computed again, then others evict what is oldest. How much of its attention is left.
uint64_t attention_left(uint64_t pages) {
  Fixture f({kFull, kState}, pages, 2, budget_of(1));
  serve(&f, 1, 41);
  serve(&f, 1001, 41);
  EXPECT_EQ(probe(f, 1, 41), 0u);
  serve(&f, 1, 41);
  const uint64_t evicted = f.stats().evicted_pages;
  for (quire_symbol other = 2; f.stats().evicted_pages == evicted; ++other) serve(&f, 1000 * other + 1, 41);
  quire_probe_result result{};
  EXPECT_TRUE(f.cache->probe(nullptr, count_from(1, 41), &result).ok());
  return result.full_hit_tokens;
}

TEST(Checkpoints, AttentionThatIsComputedAgainIsAsYoungAsItsNewState) {
  EXPECT_EQ(attention_left(400), 40u);
  EXPECT_EQ(attention_left(100), 40u);
}

}  // namespace
}  // namespace quire
