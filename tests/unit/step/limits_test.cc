// What a cache refuses, scrubs and gives up when a limit is reached.
#include "tests/unit/step/fixture.h"

#include <array>
#include <string>
#include <utility>

namespace quire {
namespace {

TEST(Cache, BytesOfAnotherSaltAreZeroedThoughItsRootIsForgotten) {
  Fixture f({kFull}, 3);
  auto zeroes_for = [&f](std::string_view salt) {
    SequenceId a = f.open(salt, QUIRE_SEQUENCE_NO_PUBLISH);  // leaves no content: its root is forgotten, and the next one takes its place
    StepId step;
    f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step);
    const size_t n = f.cache->step_zeroes(step).value().size();
    EXPECT_TRUE(f.commit(step, a, 8).ok());
    EXPECT_TRUE(f.cache->sequence_finish(a).ok());
    return n;
  };
  EXPECT_EQ(zeroes_for("one"), 2u);
  EXPECT_EQ(zeroes_for("two"), 2u);
  EXPECT_EQ(zeroes_for("one"), 2u);
}

// States whose only boundary is the end of the longest sequence: nothing can be matched, so nothing is kept for it.
TEST(Cache, WithoutReuseNothingIsSizedByTheMatchUnit) {
  for (const bool told : {true, false}) {  // by the plan, or because the first boundary is too far
    Config config = *make_config({kState}, 1 << 16, 1 << 20);
    config.match_unit_tokens = config.hit_alignment_tokens = config.groups[0].block_tokens = 1 << 20;
    config.prefix_reuse = !told;
    quire_cache_options options{};
    options.struct_size = sizeof options;
    auto cache = Cache::create(std::make_shared<const Config>(config), options);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    quire_cache_stats stats{};
    (*cache)->stats(&stats);
    EXPECT_LT(stats.host_bytes, uint64_t{1} << 24);
    auto id = (*cache)->sequence_create(nullptr);
    const std::vector<quire_symbol> symbols = count_from(0, 4096);
    quire_reserve_entry entry{};
    entry.sequence = id->value;
    entry.num_symbols = entry.num_tokens = 4096;
    entry.flags = QUIRE_ENTRY_MATCH;
    quire_reserve_result result{};
    StepId step;
    ASSERT_TRUE((*cache)->reserve({&entry, 1}, symbols, {&result, 1}, &step).ok());
    EXPECT_EQ(result.code, QUIRE_OK);
    EXPECT_EQ(result.miss, QUIRE_MISS_DISABLED);
    quire_commit_entry done{};
    done.sequence = id->value;
    done.num_accepted = 4096;
    ASSERT_TRUE((*cache)->commit(step, {&done, 1}, {}).ok());
    EXPECT_TRUE((*cache)->verify().ok());
  }
}

TEST(Cache, ZeroesOfAnAbortedStepAreAskedForAgain) {
  Fixture f({kFull}, 3);
  SequenceId a = f.open("one"), b = f.open("two");
  StepId step;
  f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step);
  EXPECT_TRUE(f.commit(step, a, 0).ok());
  EXPECT_TRUE(f.cache->sequence_preempt(a).ok());
  for (int i = 0; i < 2; ++i) {
    f.reserve(b, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &step);
    EXPECT_EQ(f.cache->step_zeroes(step).value().size(), 2u) << "attempt " << i;
    ASSERT_TRUE(f.cache->abort(step).ok());
  }
}

TEST(Cache, NewIdentitiesEvictTheOldestWithoutSequences) {
  quire_cache_options options{};
  options.max_roots = 3;
  Fixture f({kFull}, 32, 2, options);
  const auto prompt = count_from(0, 9);
  auto serve = [&](std::string_view salt) {
    SequenceId a = f.open(salt);
    const uint64_t hit = f.prefill(a, prompt);
    EXPECT_TRUE(f.cache->sequence_finish(a).ok());
    return hit;
  };
  SequenceId live = f.open("live");
  f.prefill(live, prompt);
  EXPECT_EQ(serve("one"), 0u);
  EXPECT_EQ(serve("two"), 0u);
  EXPECT_EQ(serve("one"), 8u) << "used again, so two is the oldest now";
  EXPECT_EQ(serve("three"), 0u);
  EXPECT_EQ(serve("one"), 8u);
  EXPECT_EQ(serve("two"), 0u) << "evicted for three";
  EXPECT_EQ(serve("live"), 8u) << "a root with a sequence stays";
  SequenceId a = f.open("four"), b = f.open("five");
  quire_identity identity{};
  identity.struct_size = sizeof identity;
  identity.salt = {"six", 3};
  EXPECT_EQ(f.cache->sequence_create(&identity).status().code(), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(f.info(a).committed + f.info(b).committed, 0u);
}

TEST(Cache, SymbolsOfNoPictureAreRefused) {
  Fixture f({kFull});
  SequenceId a = f.open();
  const quire_symbol stranger = uint32_t{1} << 31;
  quire_reserve_entry e{};
  e.sequence = a.value;
  e.num_symbols = e.num_tokens = 1;
  quire_reserve_result r{};
  StepId step;
  EXPECT_EQ(f.cache->reserve({&e, 1}, {&stranger, 1}, {&r, 1}, &step).code(), QUIRE_INVALID_ARGUMENT);
  quire_symbol first = 0;
  const uint8_t digest[32] = {7};
  ASSERT_TRUE(f.cache->add_media(digest, 1, &first).ok());
  ASSERT_EQ(first, stranger);
  ASSERT_TRUE(f.cache->reserve({&e, 1}, {&stranger, 1}, {&r, 1}, &step).ok());
  EXPECT_EQ(f.commit(step, a, 1, {stranger + 1}).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(f.commit(step, a, 1).ok());
}

TEST(Cache, EvictingADuplicateLeavesNoHoleUnderAnotherSequence) {
  Fixture f({kFull}, 8);  // 7 usable blocks
  SequenceId a = f.open(), b = f.open();
  StepId one, two;
  f.reserve(a, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &one);
  f.reserve(b, count_from(0, 8), 8, QUIRE_ENTRY_MATCH, &two);  // not published yet: computed twice
  ASSERT_TRUE(f.commit(one, a, 8).ok());
  ASSERT_TRUE(f.commit(two, b, 8).ok());
  f.reserve(b, count_from(8, 4), 4, 0, &one);
  ASSERT_TRUE(f.commit(one, b, 4).ok());  // b's third block hangs below a's two
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  SequenceId c = f.open("other");
  f.reserve(c, count_from(500, 16), 16, QUIRE_ENTRY_MATCH, &one);  // takes the 2 free blocks and evicts a's
  ASSERT_TRUE(f.commit(one, c, 16).ok());
  ASSERT_TRUE(f.cache->sequence_finish(c).ok());
  quire_probe_result probe{};
  ASSERT_TRUE(f.cache->probe(nullptr, count_from(0, 17), &probe).ok());
  EXPECT_EQ(probe.hit_tokens, 0u) << "a's blocks are gone";
  f.reserve(b, count_from(12, 4), 4, 0, &one);
  ASSERT_TRUE(f.commit(one, b, 4).ok());
  ASSERT_TRUE(f.cache->probe(nullptr, count_from(0, 17), &probe).ok());
  EXPECT_EQ(probe.hit_tokens, 16u) << "b's own blocks took their place";
}

TEST(Cache, LimitsThatNoPoolCanMeetAreRefused) {
  const auto refused = [](quire_cache_options options) {
    options.struct_size = sizeof options;
    auto made = Cache::create(make_config({kFull}, 32, 128), options);
    return made.ok() ? std::string() : made.status().message();
  };
  quire_cache_options options{};
  options.watermark_pages = 31;
  EXPECT_EQ(refused(options), "");
  options.watermark_pages = 32;
  EXPECT_EQ(refused(options), "watermark_pages: 32, below the 32 pages of the plan");
  options.watermark_pages = 0;
  options.max_media = UINT64_MAX;
  EXPECT_EQ(refused(options), "max_media: 18446744073709551615, at most 16777216");
}

TEST(Cache, FillsWhoseSizeWrapsOrThatLieOddAreRefused) {
  Fixture f({kFull});
  quire_reserve_entry entries[4] = {};
  quire_reserve_result results[4] = {};
  auto symbols = count_from(0, 4);
  for (quire_reserve_entry& e : entries) {
    e.sequence = f.open().value;
    e.num_symbols = e.num_tokens = 4;
  }
  StepId step;
  ASSERT_TRUE(f.cache->reserve(entries, symbols, results, &step).ok());
  std::vector<int32_t> table(16, 77);
  quire_fill fill{};
  fill.kind = QUIRE_FILL_TABLE;
  fill.destination = table.data();
  fill.capacity = table.size();
  fill.pitch = uint64_t{1} << 62;  // times 4 rows is 0 in 64 bits
  uint64_t n = 0;
  Status refused = f.cache->step_fill(step, fill, &n);
  EXPECT_EQ(refused.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(refused.message().find("pitch: 4611686018427387904"), std::string::npos) << refused.message();
  fill.pitch = 4;
  fill.fill_value = int64_t{1} << 31;
  EXPECT_EQ(f.cache->step_fill(step, fill, &n).code(), QUIRE_OUT_OF_RANGE);
  fill.fill_value = -1;
  fill.destination = reinterpret_cast<char*>(table.data()) + 2;
  fill.capacity = 15;
  fill.pitch = 1;
  EXPECT_EQ(f.cache->step_fill(step, fill, &n).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(table, std::vector<int32_t>(16, 77));
  EXPECT_TRUE(f.cache->abort(step).ok());
}

// Claim: several arrays are written as one by one, and none of them where one cannot be. Method: every array of a step, then each with
// one element too few, the others complete.
TEST(Fill, WritesAllArraysOfACallOrNone) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(0, 9), 9, 0, &step).num_tokens, 9U);
  const std::array<int32_t, 5> kinds{QUIRE_FILL_TABLE, QUIRE_FILL_SLOTS, QUIRE_FILL_KV_LEN, QUIRE_FILL_QUERY_INDPTR, QUIRE_FILL_POSITIONS};
  const std::array<uint64_t, 5> needed{3, 9, 1, 2, 9};
  std::array<std::array<int64_t, 16>, 5> one{}, all{};
  const auto fill_of = [&](size_t i, std::array<std::array<int64_t, 16>, 5>& to) {
    quire_fill fill{};
    fill.kind = kinds[i];
    fill.destination = to[i].data();
    fill.capacity = needed[i];
    fill.pitch = i == 0 ? 3 : 0;
    return fill;
  };
  std::array<quire_fill, 5> fills{};
  std::array<uint64_t, 5> written{};
  for (size_t i = 0; i < 5; ++i) {
    fills[i] = fill_of(i, all);
    ASSERT_TRUE(f.cache->step_fill(step, fill_of(i, one), &written[i]).ok());
    EXPECT_EQ(written[i], needed[i]) << i;
  }
  for (size_t i = 0; i < 5; ++i) {
    written = {};
    --fills[i].capacity;
    const Status refused = f.cache->step_fill(step, std::span(std::as_const(fills)), written.data());
    ++fills[i].capacity;
    EXPECT_EQ(refused.code(), QUIRE_OUT_OF_RANGE);
    EXPECT_NE(refused.message().find("fills[" + std::to_string(i) + "].capacity"), std::string::npos) << refused.message();
    EXPECT_EQ(written, needed) << "all sizes are told at once";
    EXPECT_EQ(all, (std::array<std::array<int64_t, 16>, 5>{})) << i;
  }
  ASSERT_TRUE(f.cache->step_fill(step, std::span(std::as_const(fills)), written.data()).ok());
  EXPECT_EQ(all, one);
  EXPECT_TRUE(f.cache->abort(step).ok());
}

TEST(Limits, ARowThatOnlyGoesOnTakesNoMoreThanTheStepHasLeft) {
  Fixture f({kFull});  // 64 tokens a step, blocks of 4
  const SequenceId running = f.open();
  f.prefill(running, count_from(0, 5));  // three slots left in its block
  const SequenceId fresh = f.open();
  const auto prompt = count_from(100, 63);
  quire_reserve_entry entries[2]{};
  entries[0].sequence = fresh.value;
  entries[0].num_symbols = entries[0].num_tokens = 63;
  entries[0].flags = QUIRE_ENTRY_MATCH;
  entries[1].sequence = running.value;
  entries[1].num_tokens = 3;
  quire_reserve_result results[2]{};
  StepId step;
  ASSERT_TRUE(f.cache->reserve(entries, prompt, results, &step).ok());
  EXPECT_EQ(results[0].num_tokens, 63u);
  EXPECT_EQ(results[1].code, QUIRE_OK);
  EXPECT_EQ(results[1].num_tokens, 1u);
  ASSERT_TRUE(f.cache->abort(step).ok());
}

TEST(Limits, ARowThatOnlyGoesOnTakesNoRoomThatIsNotThere) {
  quire_cache_options options{};
  options.watermark_pages = 4;
  Fixture f({kFull}, 8, 2, options);  // 7 pages to be had, blocks of 4
  const SequenceId running = f.open();
  f.prefill(running, count_from(0, 5));
  StepId step;
  EXPECT_EQ(f.reserve(f.open(), {}, 8, 0, &step).code, QUIRE_RESOURCE_EXHAUSTED);  // begins: leaves four pages to the other
  ASSERT_EQ(f.reserve(running, {}, 16, 0, &step).code, QUIRE_OK);                  // four of five
  ASSERT_TRUE(f.cache->abort(step).ok());
  const quire_reserve_result refused = f.reserve(running, {}, 28, 0, &step);
  EXPECT_EQ(refused.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.missing_pages, 2u);
  ASSERT_EQ(f.reserve(running, {}, 23, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.cache->abort(step).ok());
}

TEST(Limits, WhatCanNeverFitIsToldFromWhatDoesNotFitNow) {
  Fixture f({kFull}, 6);  // 5 pages to be had, blocks of 4
  const SequenceId other = f.open(), a = f.open();
  f.prefill(other, count_from(0, 12));
  StepId step;
  // Not now: beside the other's three pages. With them it fits.
  quire_reserve_result r = f.reserve(a, count_from(100, 16), 16, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.flags, 0U);
  EXPECT_EQ(r.missing_pages, 2U);
  // Never: six pages, the pool has five. So many tokens at once, or as the length that the sequence will reach.
  for (const uint64_t full : {uint64_t{0}, uint64_t{24}}) {
    const uint32_t now = full == 0 ? 24 : 4;
    r = f.reserve(a, count_from(100, now), now, QUIRE_ENTRY_MATCH, &step, full);
    EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
    EXPECT_EQ(r.flags, QUIRE_RESULT_NEVER_FITS);
    EXPECT_EQ(r.missing_pages, 1U) << "of six";
    EXPECT_EQ(r.row, UINT32_MAX);
  }
  // The other goes on: three pages of its own and three more are one too many, whoever leaves.
  r = f.reserve(other, {}, 12, 0, &step);
  EXPECT_EQ(r.flags, QUIRE_RESULT_NEVER_FITS);
  EXPECT_EQ(r.missing_pages, 1U);
  EXPECT_EQ(f.info(a).reserved, 0U);
  EXPECT_EQ(f.stats().refused_entries, 4U);
  ASSERT_TRUE(f.cache->sequence_finish(other).ok());
  r = f.reserve(a, count_from(100, 24), 24, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.flags, QUIRE_RESULT_NEVER_FITS) << "alone";
  r = f.reserve(a, count_from(100, 16), 16, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(r.flags, 0U);
  ASSERT_TRUE(f.commit(step, a, 16).ok());
}

// The empty pool is asked as well: an entry is told that it can never fit exactly where that refuses it.
TEST(Limits, WhatCanNeverFitAnEmptyPoolRefusesToo) {
  const std::vector<std::vector<GroupSketch>> plans = {{kFull},
                                                       {kFull, {LiveRange{.window = 8}, 4, 1, 1}},
                                                       {kFull, {LiveRange{.sink = 4, .window = 6}, 4, 2, 2}, kState},
                                                       {{LiveRange{.chunk = 8}, 4, 1, 2}, kFull},
                                                       {{LiveRange{.window = 8}, 4, 1, 1}}};
  uint32_t never = 0, now = 0, admitted = 0;
  for (const auto& groups : plans) {
    for (uint64_t pages = 3; pages < 14; ++pages) {
      for (uint32_t tokens = 1; tokens <= 40; tokens += 3) {
        for (const uint64_t full : {0, 20, 60}) {
          Fixture busy(groups, pages), empty(groups, pages);
          const SequenceId holder = busy.open();
          StepId step;
          const bool holds = busy.reserve(holder, count_from(0, 5), 5, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step).code == QUIRE_OK;
          const uint32_t flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP;
          const SequenceId a = busy.open(), b = empty.open();
          const quire_reserve_result beside = busy.reserve(a, count_from(100, tokens), tokens, flags, &step, full);
          const quire_reserve_result alone = empty.reserve(b, count_from(100, tokens), tokens, flags, &step, full);
          const auto told = [&](const quire_reserve_result& r) { return (r.flags & QUIRE_RESULT_NEVER_FITS) != 0; };
          ASSERT_EQ(told(alone), alone.code != QUIRE_OK) << pages << " pages, " << tokens << " tokens of " << full;
          if (beside.code == QUIRE_OK) {
            ASSERT_EQ(alone.code, QUIRE_OK);
            ++admitted;
            continue;
          }
          ASSERT_EQ(beside.code, QUIRE_RESOURCE_EXHAUSTED);
          ASSERT_GT(beside.missing_pages, 0U);
          ASSERT_EQ(told(beside), alone.code != QUIRE_OK) << pages << " pages, " << tokens << " tokens of " << full;
          if (told(beside)) {
            ASSERT_EQ(beside.missing_pages, alone.missing_pages);
          }
          ++(told(beside) ? never : now);
          ASSERT_TRUE(holds || told(beside)) << "nobody is in its way";
        }
      }
    }
  }
  EXPECT_GT(never, 100U);
  EXPECT_GT(now, 100U);
  EXPECT_GT(admitted, 100U);
}

// What left a window is not counted again, and what others have may be given back.
TEST(Limits, ARunningSequenceFitsWhenTheOthersAreGone) {
  Fixture f({{LiveRange{.window = 8}, 4, 1, 1}}, 11);
  const SequenceId a = f.open(), b = f.open();
  StepId step;
  f.reserve(a, count_from(0, 40), 40, QUIRE_ENTRY_MATCH, &step);
  ASSERT_TRUE(f.commit(step, a, 40).ok());
  ASSERT_EQ(f.reserve(b, count_from(100, 24), 24, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  StepId none;
  quire_reserve_result r = f.reserve(a, {}, 1, 0, &none, 60);
  ASSERT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.flags, 0U);
  ASSERT_TRUE(f.commit(step, b, 24).ok());
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  r = f.reserve(a, {}, 1, 0, &step, 60);
  EXPECT_EQ(r.code, QUIRE_OK);
}

// Alone with what it has, and refused: it would be for ever.
TEST(Limits, ALoneSequenceThatIsRefusedIsToldThatItNeverFits) {
  StepId step;
  Fixture states({kFull, kState}, 7);
  const SequenceId a = states.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(states.reserve(a, count_from(4 * static_cast<quire_symbol>(i), 4), 4, QUIRE_ENTRY_NO_STOP, &step).code, QUIRE_OK);
    ASSERT_TRUE(states.commit(step, a, 4).ok());
  }
  quire_reserve_result r = states.reserve(a, {}, 1, 0, &step, 12);
  ASSERT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.flags, QUIRE_RESULT_NEVER_FITS);
  Fixture tail({kFull}, 6);  // the last block is found by others: who goes on inside copies it, and there is no page for the copy
  const SequenceId b = tail.open();
  tail.prefill(b, count_from(0, 20));
  ASSERT_TRUE(tail.cache->sequence_truncate(b, 18).ok());
  r = tail.reserve(b, {}, 1, 0, &step);
  ASSERT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.flags, 0U) << "anew it has nothing to copy";
  ASSERT_TRUE(tail.cache->sequence_preempt(b).ok());
  EXPECT_EQ(tail.reserve(b, count_from(0, 19), 19, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
}

TEST(Limits, OfSeveralGroupsTheOneThatNeedsMostIsNamed) {
  Fixture f({kFull, {LiveRange{}, 4, 1, 2}, kState}, 8);  // 7 pages to be had; two ids for a block of the second
  StepId step;
  const quire_reserve_result r = f.reserve(f.open(), count_from(0, 4), 4, QUIRE_ENTRY_MATCH, &step, 60);
  EXPECT_EQ(r.flags, QUIRE_RESULT_NEVER_FITS);
  EXPECT_EQ(r.group, 1U);
  EXPECT_EQ(r.missing_pages, 15U + 30U + 3U - 7U) << "blocks of 60 tokens, and the states of two steps in flight";
}

}  // namespace
}  // namespace quire
