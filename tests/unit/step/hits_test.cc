// Which blocks can be found again, and what draft layers and intervals of windows change about hits. Method: example.
#include <numeric>

#include "fixture.h"

namespace quire {
namespace {

const GroupSketch kWindow{LiveRange{.window = 5}, 4, 1, 1};

// Publishes the prompt and ends its sequence.
void leave(Fixture& f, const std::vector<quire_symbol>& prompt) {
  const SequenceId id = f.open();
  f.prefill(id, prompt);
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
}

uint64_t hit_of(Fixture& f, std::vector<quire_symbol> prompt) {
  quire_probe_result r{};
  r.struct_size = sizeof r;
  EXPECT_TRUE(f.cache->probe(nullptr, prompt, &r).ok());
  return r.hit_tokens;
}

TEST(Windows, AreHitAtEveryBoundary) {
  Fixture f({kFull, GroupSketch{LiveRange{.window = 5}, 4, 1, 1}}, 256);
  f.prefill(f.open(), count_from(1, 33));
  auto fork = count_from(1, 33);
  for (size_t cut = 8; cut < 32; cut += 4) {
    auto prompt = fork;
    for (size_t i = cut; i < prompt.size(); ++i) prompt[i] = static_cast<quire_symbol>(1000 + cut * 40 + i);
    EXPECT_EQ(f.prefill(f.open(), prompt), cut);
  }
}

// Groups of 4 and 16 tokens meet every 16: of four blocks of the window one is of use, of the full group none beyond the last boundary.
TEST(Windows, KeepOnlyBlocksThatAJointBoundaryReachesBackTo) {
  Fixture f({GroupSketch{LiveRange{}, 16, 1, 1}, kWindow}, 64);
  leave(f, count_from(1, 44));
  EXPECT_EQ(f.stats().parts_cached, 4U);  // two of each
  EXPECT_EQ(hit_of(f, count_from(1, 45)), 32U);
}

quire_cache_options every(uint64_t tokens) {
  quire_cache_options options{};
  options.checkpoint_interval = tokens;
  return options;
}

quire_cache_options keeping(uint32_t states, uint32_t flags) {
  quire_cache_options options{};
  options.keep_states = states;
  options.flags = flags;
  return options;
}

TEST(Windows, KeepWhatMultiplesOfTheIntervalAndTheEndOfThePromptNeed) {
  Fixture f({kFull, kWindow}, 64, 2, every(16));
  leave(f, count_from(1, 41));
  EXPECT_EQ(f.stats().parts_cached, 10U + 3U);  // blocks that end at 16, 32 and 40
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 40U);
  EXPECT_EQ(hit_of(f, count_from(1, 40)), 32U);
  EXPECT_EQ(hit_of(f, count_from(1, 30)), 16U);
}

TEST(Windows, KeepEndsOfPromptsAndJunctionsOnly) {
  Fixture f({kFull, kWindow}, 64, 2, keeping(QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION, 0));
  leave(f, count_from(1, 41));
  EXPECT_EQ(f.stats().parts_cached, 10U + 1U);
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 40U);
  auto other = count_from(1, 41);
  for (size_t i = 24; i < other.size(); ++i) other[i] += 1000;
  EXPECT_EQ(hit_of(f, other), 0U);
  leave(f, other);  // parts at 24: the second request that comes by leaves the window there
  auto third = other;
  for (size_t i = 24; i < third.size(); ++i) third[i] += 1000;
  EXPECT_EQ(hit_of(f, third), 24U);
}

// Blocks of 4 tokens, a window of 5: its block before a boundary is what resuming there needs.
TEST(Windows, AreFoundWhereStatesAreKept) {
  const std::vector<GroupSketch> hybrid = {kFull, kWindow, kState};
  Fixture f(hybrid, 64, 2, keeping(QUIRE_KEEP_CHUNK_END, 0));
  leave(f, count_from(1, 41));
  EXPECT_EQ(f.stats().parts_cached, 10U + 1U + 1U);  // the full group's, the window's last one, the state
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 40U);
  EXPECT_EQ(hit_of(f, count_from(1, 40)), 0U);
  Fixture strict(hybrid, 64, 2, keeping(QUIRE_KEEP_CHUNK_END, QUIRE_CACHE_STRICT_LRU));
  leave(strict, count_from(1, 41));
  EXPECT_EQ(strict.stats().parts_cached, 10U + 1U + 1U) << "the window's before the end of the prompt";
  Fixture all(hybrid, 64, 2, keeping(QUIRE_KEEP_EVERY, QUIRE_CACHE_STRICT_LRU));
  leave(all, count_from(1, 41));
  EXPECT_EQ(all.stats().parts_cached, 10U + 10U + 1U);
}

TEST(Windows, AStateThatIsAskedForBringsItsOwn) {
  Fixture f({kFull, kWindow, kState}, 64, 2, keeping(QUIRE_KEEP_ASKED, 0));
  const SequenceId id = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(id, count_from(1, 41), 12, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_KEEP_STATE, &step);
  ASSERT_EQ(r.num_tokens, 12U);
  ASSERT_TRUE(f.commit(step, id, 12).ok());
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 12U);
}

TEST(Windows, OfSeveralBlocksAndWithSinksAreFoundWhole) {
  Fixture f({kFull, GroupSketch{LiveRange{.sink = 4, .window = 10}, 4, 1, 1}, kState}, 64, 2, keeping(QUIRE_KEEP_CHUNK_END, 0));
  leave(f, count_from(1, 41));
  EXPECT_EQ(f.stats().parts_cached, 10U + 1U + 3U + 1U);  // the sink, and the window's from 28 on: token 40 needs 31 to 39
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 40U);
  Fixture chunked({kFull, GroupSketch{LiveRange{.chunk = 12}, 4, 1, 1}, kState}, 64, 2, keeping(QUIRE_KEEP_CHUNK_END, 0));
  leave(chunked, count_from(1, 33));
  EXPECT_EQ(chunked.stats().parts_cached, 8U + 2U + 1U);  // from 24 on
  EXPECT_EQ(hit_of(chunked, count_from(1, 33)), 32U);
}

TEST(Windows, AreFoundAtEveryStateThatARowCrosses) {
  Fixture f({kFull, kWindow, kState}, 64, 2, keeping(QUIRE_KEEP_EVERY, QUIRE_CACHE_STATES_AT_BLOCKS));
  leave(f, count_from(1, 41));
  for (const uint64_t end : {12U, 24U, 40U}) EXPECT_EQ(hit_of(f, count_from(1, end + 1)), end);
}

// A row of 64 tokens passes the state at 40, whose window's block is gone.
TEST(Windows, ComeBackToAStateThatIsPassed) {
  Fixture f({kFull, kWindow, kState}, 128, 2, keeping(QUIRE_KEEP_CHUNK_END, 0));
  leave(f, count_from(1, 41));
  leave(f, count_from(1, 81));
  std::vector<int32_t> ids(127);
  std::iota(ids.begin(), ids.end(), 1);
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(1, ids, &forgotten).ok());
  ASSERT_EQ(hit_of(f, count_from(1, 81)), 0U);
  const SequenceId id = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(id, count_from(1, 81), 64, QUIRE_ENTRY_MATCH, &step);
  ASSERT_EQ(r.num_tokens, 64U);
  ASSERT_TRUE(f.commit(step, id, 64).ok());
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 40U);
}

// The window's blocks are gone, the state is not: who computes the same again leaves them with it once more.
TEST(Windows, ComeBackToAStateThatIsStillKept) {
  Fixture f({kFull, kWindow, kState}, 64, 2, keeping(QUIRE_KEEP_CHUNK_END, 0));
  leave(f, count_from(1, 41));
  ASSERT_EQ(hit_of(f, count_from(1, 41)), 40U);
  std::vector<int32_t> ids(63);
  std::iota(ids.begin(), ids.end(), 1);
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(1, ids, &forgotten).ok());
  EXPECT_EQ(forgotten, 1U);
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 0U);
  leave(f, count_from(1, 41));
  EXPECT_EQ(hit_of(f, count_from(1, 41)), 40U);
}

TEST(Windows, AnIntervalThatTheWindowCoversKeepsEverything) {
  Fixture f({kFull, GroupSketch{LiveRange{.window = 18}, 4, 1, 1}}, 64, 2, every(16));
  leave(f, count_from(1, 41));
  EXPECT_EQ(f.stats().parts_cached, 20U);
}

TEST(Windows, RefuseAnIntervalBeyondTheLimit) {
  quire_cache_options options = every((uint64_t{1} << 40) + 1);
  options.struct_size = sizeof options;
  const auto made = Cache::create(make_config({kFull}, 8, 64), options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("checkpoint_interval: 1099511627777"), std::string::npos);
}

TEST(Drafts, AHitDropsTheLastBlockOfTheGroupsThatTheyWrite) {
  GroupSketch full = kFull, drafted = kFull;
  drafted.look_ahead = 1;
  Fixture f({full, drafted}, 64);
  leave(f, count_from(1, 17));
  EXPECT_EQ(hit_of(f, count_from(1, 17)), 12U);
  EXPECT_EQ(hit_of(f, count_from(1, 13)), 8U);
  EXPECT_EQ(hit_of(f, count_from(1, 5)), 0U);
  Fixture plain({full, full}, 64);
  leave(plain, count_from(1, 17));
  EXPECT_EQ(hit_of(plain, count_from(1, 17)), 16U);
}

// A window under drafts needs its blocks back from the hit and the one behind it.
TEST(Drafts, AWindowNeedsOneBlockMore) {
  GroupSketch window = kWindow;
  window.look_ahead = 1;
  Fixture f({kFull, window}, 64);
  leave(f, count_from(1, 33));
  EXPECT_EQ(hit_of(f, count_from(1, 33)), 28U);
  auto parted = count_from(1, 33);
  for (size_t i = 18; i < parted.size(); ++i) parted[i] += 1000;
  EXPECT_EQ(hit_of(f, parted), 12U);
}

// Joint boundaries every 8: the drafted group publishes one block beyond the last one, or a hit there could never drop it.
TEST(Drafts, PublishOneBlockBeyondTheBoundary) {
  GroupSketch drafted = kFull;
  drafted.look_ahead = 1;
  Fixture f({GroupSketch{LiveRange{}, 8, 1, 1}, drafted}, 64);
  leave(f, count_from(1, 24));
  EXPECT_EQ(hit_of(f, count_from(1, 24)), 16U);
  leave(f, count_from(100, 22));
  EXPECT_EQ(hit_of(f, count_from(100, 22)), 16U);
}

// With three modules the last two tokens' drafts are not final until more tokens are known.
TEST(Drafts, SeveralTokensAheadHoldBackWhatIsNotFinal) {
  GroupSketch drafted = kFull;
  drafted.look_ahead = 3;
  Fixture f({drafted}, 64);
  const SequenceId id = f.open();
  f.prefill(id, count_from(1, 9));
  EXPECT_EQ(hit_of(f, count_from(1, 13)), 0U);  // one block, which a hit drops
  StepId step;
  ASSERT_EQ(f.reserve(id, {10}, 1, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  EXPECT_EQ(hit_of(f, count_from(1, 13)), 4U);
}

TEST(Drafts, HitsEqualTheNaiveSearch) {
  uint64_t seed = 20261121;
  model::Rng rng(seed);
  for (int round = 0; round < 60; ++round) {
    GroupSketch full = kFull, window = kWindow, coarse{LiveRange{.window = 1 + model::pick(rng, 30)}, 8, 1, 1};
    full.look_ahead = model::chance(rng, 50) ? 1 : 0;
    window.look_ahead = model::chance(rng, 50) ? 1 : 0;
    Fixture f({full, window, coarse}, 400);
    const size_t length = 10 + model::pick(rng, 100);
    leave(f, count_from(1, length));
    // Nothing is evicted: all that was complete at the last joint boundary is there, drafted groups have one block more if it is full.
    const uint64_t joint = length / 8 * 8;
    const size_t asked = 1 + model::pick(rng, length + 10);
    uint64_t expected = 0;
    for (uint64_t p = 8; p < asked; p += 8) {
      bool all = p <= joint;
      for (const GroupSketch* g : {&full, &window}) {
        if (g->look_ahead == 0) continue;
        all = all && p + 4 <= std::min<uint64_t>(length, joint + 4) && p + 4 < asked;
      }
      if (all) expected = p;
    }
    auto prompt = count_from(1, length);
    for (size_t i = length; i < asked; ++i) prompt.push_back(5000 + static_cast<quire_symbol>(i));
    prompt.resize(asked);
    EXPECT_EQ(hit_of(f, prompt), expected) << "seed " << seed << " round " << round << " length " << length << " asked " << asked;
  }
}

TEST(Hits, WhatDiffersInOneSymbolSharesNothingFromItsBlockOnAndIsFoundAsItIs) {
  const auto prompt = count_from(100, 17);
  for (size_t at = 0; at < 16; ++at) {
    Fixture f({kFull});
    f.prefill(f.open(), prompt);
    auto other = prompt;
    other[at] += 1000;
    EXPECT_EQ(f.prefill(f.open(), other), at / 4 * 4) << "symbol " << at;
    EXPECT_EQ(f.prefill(f.open(), other), 16u) << "symbol " << at;
    EXPECT_EQ(f.prefill(f.open(), prompt), 16u) << "symbol " << at;
  }
}

}  // namespace
}  // namespace quire
