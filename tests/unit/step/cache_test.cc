// The cache by example: each test is a claim of quire/cache.h.
#include "core/step/kv_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/allocations.h"
#include "tests/unit/step/fixture.h"

namespace quire {
namespace {

using test::allocations;

TEST(Cache, SecondPromptReusesAllButTheLastToken) {
  Fixture f({kFull});
  auto prompt = count_from(100, 16);
  EXPECT_EQ(f.prefill(f.open(), prompt), 0u);
  EXPECT_EQ(f.prefill(f.open(), prompt), 12u) << "16 tokens are 4 blocks, one token must be computed";
  auto longer = prompt;
  longer.push_back(1);
  EXPECT_EQ(f.prefill(f.open(), longer), 16u);
}

TEST(Cache, SaltsAdaptersAndEpochsNeverShare) {
  Fixture f({kFull});
  auto prompt = count_from(100, 16);
  f.prefill(f.open("ab"), prompt);
  EXPECT_EQ(f.prefill(f.open("a"), prompt), 0u);
  EXPECT_EQ(f.prefill(f.open(), prompt), 0u);
  quire_identity id{};
  id.struct_size = sizeof id;
  id.salt = {"a", 1};
  id.adapter = {"b", 1};
  EXPECT_EQ(f.prefill(*f.cache->sequence_create(&id), prompt), 0u) << "crafted to concatenate alike";
  id = {};
  id.epoch = 1;
  EXPECT_EQ(f.prefill(*f.cache->sequence_create(&id), prompt), 0u);
  EXPECT_EQ(f.prefill(f.open("ab"), prompt), 12u);
}

TEST(Cache, StatesAreHitOnlyWhereACheckpointWasTaken) {
  Fixture f({kFull, kState});
  auto prompt = count_from(100, 18);
  EXPECT_EQ(f.prefill(f.open(), prompt), 0u);  // chunk stops at 16, then 2 more tokens
  auto fork_in_middle = count_from(100, 10);
  fork_in_middle.push_back(7);
  StepId step;
  SequenceId id = f.open();
  quire_reserve_result r = f.reserve(id, fork_in_middle, 11, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.hit_tokens, 0u);
  EXPECT_EQ(r.full_hit_tokens, 8u);
  EXPECT_EQ(r.miss, QUIRE_MISS_NO_STATE);
  EXPECT_EQ(r.num_tokens, 8u) << "stops where a checkpoint can be kept";
  EXPECT_EQ(r.flags, QUIRE_RESULT_CHUNK_STOP);
  ASSERT_TRUE(f.cache->abort(step).ok());
  EXPECT_EQ(f.prefill(f.open(), prompt), 16u);
}

TEST(Cache, TextBeforeAnotherPictureIsShared) {
  Fixture f({kFull});
  uint8_t cat[32] = {1}, dog[32] = {2};
  quire_symbol cat_at = 0, dog_at = 0, again = 0;
  ASSERT_TRUE(f.cache->add_media(cat, 6, &cat_at).ok());
  ASSERT_TRUE(f.cache->add_media(dog, 6, &dog_at).ok());
  ASSERT_TRUE(f.cache->add_media(cat, 6, &again).ok());
  EXPECT_EQ(cat_at, again);
  EXPECT_EQ(f.cache->add_media(cat, 7, &again).code(), QUIRE_INVALID_ARGUMENT);
  auto with = [](quire_symbol first) {
    auto v = count_from(100, 8);
    for (quire_symbol i = 0; i < 6; ++i) v.push_back(first + i);
    v.insert(v.end(), {1, 2, 3});
    return v;
  };
  f.prefill(f.open(), with(cat_at));
  EXPECT_EQ(f.prefill(f.open(), with(dog_at)), 8u);
  EXPECT_EQ(f.prefill(f.open(), with(cat_at)), 16u);
}

TEST(Cache, ARefusedEntryChangesNothing) {
  Fixture f({kFull}, 6);  // 5 usable blocks of 4 tokens
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 12));
  f.prefill(f.open(), count_from(50, 8));
  StepId step;
  quire_cache_stats before = f.stats();
  SequenceId c = f.open();
  quire_reserve_result r = f.reserve(c, count_from(0, 20), 20, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.group, 0u);
  EXPECT_EQ(r.missing_pages, 2u) << "3 blocks are hit, 2 more are needed, none is free";
  EXPECT_EQ(step.value, 0u);
  quire_cache_stats after = f.stats();
  EXPECT_EQ(before.pages_used, after.pages_used);
  EXPECT_EQ(before.pages_evictable, after.pages_evictable);
  EXPECT_EQ(before.evicted_pages, after.evicted_pages);
  EXPECT_EQ(f.info(c).reserved, 0u);
}

TEST(Cache, AbortRestoresAndLaterStepsGoWithIt) {
  Fixture f({kFull, kState});
  SequenceId a = f.open();
  auto prompt = count_from(0, 9);
  f.prefill(a, prompt);
  quire_cache_stats before = f.stats();
  StepId one, two;
  f.reserve(a, {9}, 1, 0, &one);
  SequenceId b = f.open();
  quire_reserve_result r = f.reserve(b, prompt, 9, QUIRE_ENTRY_MATCH, &two);
  EXPECT_EQ(r.hit_tokens, 8u);
  ASSERT_TRUE(f.cache->abort(one).ok());
  EXPECT_EQ(f.cache->abort(two).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.info(a).reserved, 9u);
  EXPECT_EQ(f.info(a).known, 9u);
  EXPECT_EQ(f.info(b).reserved, 0u);
  quire_cache_stats after = f.stats();
  EXPECT_EQ(after.hit_tokens, before.hit_tokens);
  EXPECT_EQ(after.matches, before.matches);
  EXPECT_EQ(after.aborted_steps, before.aborted_steps + 2);
  EXPECT_EQ(f.prefill(b, prompt), 8u) << "what was published stays";
}

TEST(Cache, BlocksOfASequenceFinishedInFlightAreNotReused) {
  Fixture f({kFull}, 4);  // 3 usable blocks
  SequenceId a = f.open();
  StepId step, other;
  f.reserve(a, count_from(0, 12), 12, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  SequenceId b = f.open();
  EXPECT_EQ(f.reserve(b, count_from(50, 4), 4, QUIRE_ENTRY_MATCH, &other).code, QUIRE_RESOURCE_EXHAUSTED)
      << "kernels may still write there";
  EXPECT_TRUE(f.commit(step, a, 12).ok()) << "the late result is dropped";
  EXPECT_EQ(f.reserve(b, count_from(50, 4), 4, QUIRE_ENTRY_MATCH, &other).code, QUIRE_OK);
}

TEST(Cache, ForksShareAndCopyOnWrite) {
  Fixture f({kFull});
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 10));
  SequenceId b = *f.cache->sequence_fork(a);
  EXPECT_EQ(f.info(b).committed, 10u);
  EXPECT_EQ(f.stats().parts_used, 3u) << "nothing was copied yet";
  StepId step;
  f.reserve(b, {77}, 1, 0, &step);
  auto copies = f.cache->step_copies(step);
  ASSERT_EQ(copies->size(), 1u);
  EXPECT_EQ((*copies)[0].first_token, 0u);
  EXPECT_EQ((*copies)[0].num_tokens, 2u) << "only the two written rows";
  EXPECT_TRUE(f.commit(step, b, 1).ok());
  f.reserve(a, {78}, 1, 0, &step);
  EXPECT_TRUE(f.cache->step_copies(step)->empty()) << "the parent is alone with its block again";
  EXPECT_TRUE(f.commit(step, a, 1).ok());
}

TEST(Cache, AForkCopiesTheBlockThatAStepOfItsFinishedParentStillWrites) {
  for (const bool finish : {true, false}) {
    Fixture f({kFull}, 16, 3);
    SequenceId a = f.open();
    f.prefill(a, count_from(0, 10));
    StepId flying, step, next;
    f.reserve(a, {76}, 1, 0, &flying);  // writes token 10 of the block that both will have
    SequenceId b = *f.cache->sequence_fork(a);
    ASSERT_TRUE((finish ? f.cache->sequence_finish(a) : f.cache->sequence_preempt(a)).ok());
    ASSERT_EQ(f.reserve(b, {77}, 1, 0, &step).code, QUIRE_OK);
    EXPECT_EQ(f.cache->step_copies(step)->size(), 1u) << "alone with it, but not before the step is done";
    ASSERT_TRUE(f.cache->verify().ok());
    ASSERT_TRUE(f.commit(flying, a, 1).ok());
    ASSERT_TRUE(f.commit(step, b, 1).ok());
    f.reserve(b, {78}, 1, 0, &next);
    EXPECT_TRUE(f.cache->step_copies(next)->empty());
    ASSERT_TRUE(f.commit(next, b, 1).ok());
    EXPECT_EQ(f.stats().parts_used, 3u) << "nothing of the parent is left";
  }
}

TEST(Cache, ABlockThatAStepOfAFinishedSequenceStillReadsIsCopiedByWhoGoesBackIntoIt) {
  Fixture f({kFull}, 16, 3);
  SequenceId a = f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);  // nothing but the fence protects the block that ends at 8
  f.prefill(a, count_from(0, 10));
  SequenceId b = *f.cache->sequence_fork(a);
  StepId flying, step;
  f.reserve(a, {76}, 1, 0, &flying);  // reads blocks that both have
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.cache->sequence_truncate(b, 7).ok());
  ASSERT_EQ(f.reserve(b, {77}, 1, 0, &step).code, QUIRE_OK);
  ASSERT_EQ(f.cache->step_copies(step)->size(), 1u);
  EXPECT_EQ((*f.cache->step_copies(step))[0].num_tokens, 3u);
  ASSERT_TRUE(f.commit(flying, a, 1).ok());
  ASSERT_TRUE(f.commit(step, b, 1).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Cache, WindowsReleaseByCommittedTokensOnly) {
  Fixture f({{LiveRange{.window = 4}, 4, 1, 1}}, 32, 2);
  SequenceId a = f.open();
  StepId one, two;
  f.reserve(a, count_from(0, 16), 16, QUIRE_ENTRY_MATCH, &one);
  f.reserve(a, count_from(16, 16), 16, 0, &two);
  EXPECT_EQ(f.info(a).num_parts, 8u);
  ASSERT_TRUE(f.commit(one, a, 16).ok());
  EXPECT_EQ(f.info(a).num_parts, 5u) << "token 16 needs [13, 16): block 3 stays, 0 to 2 are gone";
  ASSERT_TRUE(f.commit(two, a, 16).ok());
  EXPECT_EQ(f.info(a).num_parts, 1u);
}

// Draft modules behind each other read a little further back than the window; who resumes behind a hit has the window alone.
TEST(Cache, WindowsKeepWhatIsRetainedForDraftsAndHitsDoNotNeedIt) {
  Fixture f({kFull, {LiveRange{.window = 4, .retained = 5}, 4, 1, 1}}, 64, 2);
  SequenceId a = f.open();
  StepId step;
  f.reserve(a, count_from(0, 16), 16, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, a, 16).ok());
  EXPECT_EQ(f.info(a).num_parts, 4u + 2) << "token 16 needs [13, 16) and keeps [8, 16): blocks 2 and 3";
  f.reserve(a, count_from(16, 1), 1, 0, &step);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  EXPECT_EQ(f.info(a).num_parts, 5u + 3) << "token 17 keeps [9, 17): block 2 still";
  f.reserve(a, count_from(17, 3), 3, 0, &step);
  ASSERT_TRUE(f.commit(step, a, 3).ok());
  EXPECT_EQ(f.info(a).num_parts, 5u + 2) << "token 20 keeps [12, 20)";
  ASSERT_TRUE(f.cache->sequence_truncate(a, 16).ok()) << "block 3 is all that token 16 needs";
  EXPECT_EQ(f.info(a).num_parts, 4u + 1);
  ASSERT_TRUE(f.cache->verify().ok());
  SequenceId b = f.open();
  EXPECT_EQ(f.reserve(b, count_from(0, 17), 17, QUIRE_ENTRY_MATCH, &step).hit_tokens, 16u);
  EXPECT_EQ(f.info(b).num_parts, 5u + 2) << "the window's block 3 and a new one";
  ASSERT_TRUE(f.commit(step, b, 1).ok());
  EXPECT_EQ(f.info(b).num_parts, 5u + 2);
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Cache, WhatLeavesAWindowIsThereForTheNextStepWhileALaterOneIsInFlight) {
  Fixture f({{LiveRange{.window = 4}, 4, 1, 1}}, 1 + 8, 2);
  SequenceId a = f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
  StepId one, two, three;
  f.reserve(a, count_from(0, 16), 16, QUIRE_ENTRY_MATCH, &one);
  f.reserve(a, count_from(16, 16), 16, 0, &two);
  ASSERT_TRUE(f.commit(one, a, 16).ok());
  EXPECT_EQ(f.stats().pages_free, 3u) << "step two begins at 16: what it reads begins at 13";
  EXPECT_EQ(f.reserve(a, count_from(32, 12), 12, 0, &three).code, QUIRE_OK);
  ASSERT_TRUE(f.cache->verify().ok());
  ASSERT_TRUE(f.cache->abort(two).ok());
  EXPECT_EQ(f.info(a).reserved, 16u);
  EXPECT_EQ(f.info(a).num_parts, 1u);
  f.reserve(a, count_from(16, 16), 16, 0, &two);
  ASSERT_TRUE(f.commit(two, a, 16).ok());
}

// Three share a block; one of them finishes in flight, and then the others leave it behind, one after the other.
TEST(Cache, WhatLeavesAWindowStaysWhereAStepOfAFinishedSequenceHasIt) {
  Fixture f({{LiveRange{.window = 4}, 4, 1, 1}}, 32, 4);
  SequenceId a = f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
  StepId step, flying;
  f.reserve(a, count_from(0, 4), 4, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, a, 4).ok());
  SequenceId b = *f.cache->sequence_fork(a), c = *f.cache->sequence_fork(a);
  StepId of_b, of_c;
  f.reserve(b, count_from(4, 8), 8, 0, &of_b);
  f.reserve(c, count_from(4, 8), 8, 0, &of_c);
  f.reserve(a, count_from(4, 1), 1, 0, &flying);  // reads the block
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  const uint64_t free = f.stats().pages_free;
  ASSERT_TRUE(f.commit(of_b, b, 8).ok());
  EXPECT_EQ(f.stats().pages_free, free + 1) << "the block of tokens 4 to 7, which is its own";
  ASSERT_TRUE(f.commit(of_c, c, 8).ok());
  EXPECT_EQ(f.stats().pages_free, free + 2) << "nobody has the shared block, but a step in flight";
  ASSERT_TRUE(f.commit(flying, a, 1).ok());
  EXPECT_EQ(f.stats().pages_free, free + 4) << "that block, and the one which was its own";
}

TEST(Cache, SymbolsMayComeAfterTheTokensWereReserved) {
  Fixture f({kFull});
  SequenceId a = f.open();
  StepId prompt, one, two;
  f.reserve(a, count_from(0, 7), 7, QUIRE_ENTRY_MATCH, &prompt);
  quire_reserve_result r = f.reserve(a, {}, 1, 0, &one);  // token 7 is not sampled yet
  EXPECT_EQ(r.position, 7u);
  ASSERT_TRUE(f.commit(prompt, a, 7, {7}).ok());
  f.reserve(a, {}, 1, 0, &two);
  ASSERT_TRUE(f.commit(one, a, 1, {8}).ok());
  EXPECT_EQ(f.commit(two, a, 1, std::vector<quire_symbol>(9, 1)).code(), QUIRE_OUT_OF_RANGE) << "too far ahead";
  ASSERT_TRUE(f.commit(two, a, 1, {9}).ok());
  EXPECT_EQ(f.prefill(f.open(), count_from(0, 12)), 8u) << "generated tokens are published too";
}

TEST(Cache, CommitWithoutTheSymbolsOfItsTokensIsRefused) {
  Fixture f({kFull});
  SequenceId a = f.open();
  StepId step;
  f.reserve(a, {}, 5, 0, &step);
  EXPECT_EQ(f.commit(step, a, 5).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(f.commit(step, a, 5, count_from(0, 5)).ok());
}

TEST(Cache, RejectedDraftsAreRolledBack) {
  Fixture f({kFull});
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 7));
  StepId step;
  f.reserve(a, {7, 1000, 1001, 1002}, 4, 0, &step);
  EXPECT_EQ(f.info(a).num_parts, 3u);
  ASSERT_TRUE(f.commit(step, a, 2, {9}).ok());
  EXPECT_EQ(f.info(a).committed, 9u);
  EXPECT_EQ(f.info(a).known, 10u);
  EXPECT_EQ(f.info(a).num_parts, 3u);
  auto prompt = count_from(0, 8);
  prompt.push_back(1);
  EXPECT_EQ(f.prefill(f.open(), prompt), 8u);
  EXPECT_EQ(f.prefill(f.open(), {0, 1, 2, 3, 4, 5, 6, 7, 1000, 1001, 1002, 9, 1}), 8u) << "rejected drafts are never published";
}

TEST(Cache, StatesTakeAllOrNothingOfAStep) {
  Fixture f({kFull, kState});
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 5));
  StepId step;
  f.reserve(a, {5, 6}, 2, 0, &step);
  EXPECT_EQ(f.commit(step, a, 1).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(f.commit(step, a, 0).ok());
  EXPECT_EQ(f.info(a).committed, 5u);
  f.reserve(a, {5}, 1, 0, &step);
  EXPECT_TRUE(f.commit(step, a, 1).ok());
}

TEST(Cache, TruncateSaysWhereItCanResume) {
  Fixture f({kFull, {LiveRange{.window = 6}, 4, 1, 1}});
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 30));
  Status refused = f.cache->sequence_truncate(a, 12);
  EXPECT_EQ(refused.code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(refused.message().find("legal: 0 or at least 29"), std::string::npos) << refused.message();
  ASSERT_TRUE(f.cache->sequence_truncate(a, 29).ok());
  EXPECT_EQ(f.info(a).known, 29u);
  ASSERT_TRUE(f.cache->sequence_truncate(a, 0).ok());
  EXPECT_EQ(f.info(a).num_parts, 0u);
}

TEST(Cache, AdmitsOnlyWhatCanReachItsFullLength) {
  Fixture f({kFull}, 8);
  StepId step;
  SequenceId a = f.open();
  EXPECT_EQ(f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step, 29).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step, 28).code, QUIRE_OK);
}

TEST(Cache, BadInputIsRefusedAndChangesNothing) {
  Fixture f({kFull}, 32, 1);
  SequenceId a = f.open();
  f.prefill(a, count_from(0, 70));
  StepId step;
  EXPECT_EQ(f.reserve(a, {6}, 0, 0, &step).code, QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(f.reserve(SequenceId(a.value + (uint64_t{1} << 32)), {6}, 1, 0, &step).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(f.reserve(a, {6}, 1, QUIRE_ENTRY_MATCH, &step).code, QUIRE_INVALID_ARGUMENT) << "not empty";
  EXPECT_EQ(f.reserve(a, {}, 60, 0, &step).code, QUIRE_OUT_OF_RANGE) << "beyond max_model_len";
  quire_reserve_entry e{};
  e.sequence = a.value;
  e.num_tokens = 1;
  quire_reserve_entry twice[2] = {e, e};
  quire_reserve_result results[2];
  quire_symbol none = 0;
  ASSERT_TRUE(f.cache->reserve(twice, {&none, 0}, results, &step).ok());
  EXPECT_EQ(results[0].code, QUIRE_OK);
  EXPECT_EQ(results[1].code, QUIRE_ALREADY_EXISTS);
  StepId second;
  EXPECT_EQ(f.cache->reserve({&e, 1}, {}, results, &second).code(), QUIRE_FAILED_PRECONDITION) << "depth is 1";
  EXPECT_EQ(f.cache->sequence_truncate(a, 2).code(), QUIRE_FAILED_PRECONDITION) << "in flight";
  EXPECT_EQ(f.commit(StepId(step.value + 1), a, 1).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.commit(step, a, 2, {1, 2}).code(), QUIRE_OUT_OF_RANGE) << "more than reserved";
  EXPECT_EQ(f.commit(step, SequenceId(5), 1, {1}).code(), QUIRE_INVALID_ARGUMENT);
  e.symbols_offset = 5;
  EXPECT_EQ(f.info(a).reserved, 71u);
  ASSERT_TRUE(f.commit(step, a, 1, {6}).ok());
  EXPECT_EQ(f.commit(step, a, 1, {6}).code(), QUIRE_NOT_FOUND) << "twice";
  EXPECT_EQ(f.cache->reserve({&e, 1}, {&none, 1}, {results, 1}, &second).code(), QUIRE_OUT_OF_RANGE) << "offset outside symbols";
  quire_fill fill{};
  uint64_t n = 0;
  EXPECT_EQ(f.cache->step_fill(step, fill, &n).code(), QUIRE_NOT_FOUND);
}

TEST(Cache, SteadyStateAllocatesNothing) {
  Fixture f({kFull, {LiveRange{.window = 8}, 4, 2, 2}, kState}, 200, 2);
  std::vector<SequenceId> ids;
  for (quire_symbol i = 0; i < 4; ++i) {
    ids.push_back(f.open());
    f.prefill(ids[i], count_from(i * 50, 8));
  }
  std::vector<quire_reserve_entry> entries(4);
  std::vector<quire_commit_entry> commits(4);
  std::vector<quire_reserve_result> results(4);
  std::vector<quire_symbol> symbols(4, 3);
  std::vector<int32_t> table(4 * 64 * 2);
  uint64_t before = allocations;
  for (int step_number = 0; step_number < 100; ++step_number) {
    StepId step;
    for (size_t i = 0; i < 4; ++i) {
      entries[i] = quire_reserve_entry{};
      entries[i].sequence = ids[i].value;
      entries[i].symbols_position = 8 + static_cast<uint64_t>(step_number);
      entries[i].symbols_offset = i;
      entries[i].num_symbols = 1;
      entries[i].num_tokens = 1;
      commits[i] = quire_commit_entry{};
      commits[i].sequence = ids[i].value;
      commits[i].num_accepted = 1;
    }
    ASSERT_TRUE(f.cache->reserve(entries, symbols, results, &step).ok());
    quire_fill fill{};
    fill.kind = QUIRE_FILL_TABLE;
    fill.group = 1;
    fill.destination = table.data();
    fill.capacity = table.size();
    fill.pitch = 64;
    uint64_t written = 0;
    ASSERT_TRUE(f.cache->step_fill(step, fill, &written).ok());
    ASSERT_TRUE(f.cache->commit(step, commits, symbols).ok());
  }
  EXPECT_EQ(allocations - before, 0u);
}

TEST(Cache, ProbeAndStatsRunBesideSteps) {
  Fixture f({kFull, kState}, 64);
  auto prompt = count_from(0, 30);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        quire_probe_result r{};
        ASSERT_TRUE(f.cache->probe(nullptr, prompt, &r).ok());
        ASSERT_LE(r.hit_tokens, r.full_hit_tokens);
        f.stats();
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    SequenceId id = f.open();
    f.prefill(id, prompt);
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    if (i % 10 == 0) {
      ASSERT_TRUE(f.cache->reset().ok());
    }
  }
  stop = true;
  for (std::thread& t : readers) t.join();
}

TEST(Cache, ASecondPromptStopsWhereAttentionAloneWouldHaveHitAndTheThirdResumesThere) {
  Fixture f({kFull, kState}, 64);
  const auto with_end = [](quire_symbol end) {
    std::vector<quire_symbol> prompt = count_from(1, 12);
    for (quire_symbol s : count_from(end, 9)) prompt.push_back(s);
    return prompt;
  };
  EXPECT_EQ(f.prefill(f.open(), with_end(100)), 0u);
  const SequenceId second = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(second, with_end(200), 21, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.hit_tokens, 0u);
  EXPECT_EQ(r.full_hit_tokens, 12u);
  EXPECT_EQ(r.miss, QUIRE_MISS_NO_STATE);
  EXPECT_EQ(r.num_tokens, 12u);
  EXPECT_EQ(r.flags, QUIRE_RESULT_CHUNK_STOP);
  EXPECT_TRUE(f.commit(step, second, 12).ok());
  EXPECT_EQ(f.prefill(f.open(), with_end(300)), 12u);
}

}  // namespace
}  // namespace quire
