// Reset of a cache where nothing is held: what was cached becomes stale at once, however much it is, and is emptied when its room is taken.
// Method: by example, and a cache with stale content beside one that never had any.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <random>

#include "fixture.h"

namespace quire {
namespace {

const GroupSketch kParts{LiveRange{}, 4, 4, 1};             // four blocks to a page
const GroupSketch kPairs{LiveRange{.window = 6}, 4, 4, 2};  // blocks of two parts, which may lie in two pages

void serve(Fixture& f, const std::vector<quire_symbol>& prompt, uint64_t hit, std::string_view salt = {}) {
  const SequenceId id = f.open(salt);
  EXPECT_EQ(f.prefill(id, prompt), hit);
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
}

void expect_empty(const Fixture& f) {
  const quire_cache_stats s = f.stats();
  EXPECT_EQ(s.pages_free, s.pages_total - 1);
  EXPECT_EQ(s.pages_evictable, 0u);
  EXPECT_EQ(s.parts_cached, 0u);
  EXPECT_EQ(s.part_holes, 0u);
  const Status ok = f.cache->verify();
  EXPECT_TRUE(ok.ok()) << ok.message();
}

quire_probe_result probe(const Fixture& f, const std::vector<quire_symbol>& prompt) {
  quire_probe_result r{};
  r.struct_size = sizeof r;
  EXPECT_TRUE(f.cache->probe(nullptr, prompt, &r).ok());
  return r;
}

TEST(Reset, LeavesNothingToFindAndEveryPageFree) {
  for (const std::vector<GroupSketch>& groups :
       {std::vector{kFull}, {kFull, kState}, {kParts}, {kParts, kPairs}, {kFull, kParts, kPairs}}) {
    Fixture f(groups, 40);
    serve(f, count_from(0, 33), 0);
    serve(f, count_from(100, 33), 0, "other");
    EXPECT_GT(f.stats().parts_cached, 0u);
    ASSERT_TRUE(f.cache->reset().ok());
    expect_empty(f);
    EXPECT_EQ(f.stats().index_units, 0u);
    EXPECT_EQ(probe(f, count_from(0, 33)).hit_tokens, 0u);
    serve(f, count_from(0, 33), 0);
    serve(f, count_from(0, 33), 32);
    EXPECT_EQ(probe(f, count_from(0, 33)).hit_tokens, 32u);
  }
}

// With pages of several parts and blocks of several pages, over and over: what is stale goes in other pages, too, and none of it counts
// as evicted.
TEST(Reset, WhatIsStaleGoesAsItsRoomIsTaken) {
  for (const std::vector<GroupSketch>& groups : {std::vector{kFull}, {kParts, kPairs}, {kFull, kState}}) {
    Fixture f(groups, 24);
    std::mt19937 rng(5);
    for (uint32_t round = 0; round < 60; ++round) {
      serve(f, count_from(1000 * round, 4 + rng() % 30), 0);
      if (rng() % 2 == 0) serve(f, count_from(1000 * round + 500, 4 + rng() % 12), 0);
      if (round % 3 == 0) continue;
      ASSERT_TRUE(f.cache->reset().ok());
      expect_empty(f);
    }
    EXPECT_EQ(f.stats().evicted_blocks, 0u) << "there was always room among free pages";
    EXPECT_EQ(f.stats().evicted_pages, 0u);
  }
}

TEST(Reset, ContentThatIsNewStaysBeforeAnythingIsEvicted) {
  Fixture f({kFull}, 17);
  serve(f, count_from(0, 64), 0);
  ASSERT_TRUE(f.cache->reset().ok());
  serve(f, count_from(100, 33), 0);
  serve(f, count_from(200, 29), 0);
  EXPECT_EQ(f.stats().evicted_blocks, 0u);
  serve(f, count_from(100, 33), 32);
  serve(f, count_from(200, 29), 28);
  serve(f, count_from(300, 5), 0);
  EXPECT_GT(f.stats().evicted_pages, 0u) << "all is taken by content that can be found";
}

TEST(Reset, SequencesWithoutBlocksGoOn) {
  Fixture f({kFull, kState});
  serve(f, count_from(0, 17), 0, "a");
  const SequenceId fresh = f.open("a");
  const SequenceId preempted = f.open("a");
  EXPECT_EQ(f.prefill(preempted, count_from(0, 17)), 16u);
  ASSERT_TRUE(f.cache->sequence_preempt(preempted).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  expect_empty(f);
  EXPECT_EQ(f.prefill(preempted, count_from(0, 17)), 0u);
  EXPECT_EQ(f.prefill(fresh, count_from(0, 17)), 16u) << "they have one identity, before and after";
  ASSERT_TRUE(f.cache->reset().ok()) << "what sequences hold stays";
  EXPECT_EQ(f.info(fresh).committed, 17u);
  ASSERT_TRUE(f.cache->sequence_finish(fresh).ok());
  ASSERT_TRUE(f.cache->sequence_finish(preempted).ok());
}

// Held content keeps a reset from being done at once: what is stale from the last one stays so.
TEST(Reset, OfACacheInUseForgetsWhatNobodyHolds) {
  Fixture f({kParts, kFull}, 60);
  serve(f, count_from(0, 33), 0);
  ASSERT_TRUE(f.cache->reset().ok());
  const SequenceId held = f.open();
  f.prefill(held, count_from(100, 18));
  serve(f, count_from(200, 18), 0);
  ASSERT_TRUE(f.cache->reset().ok());
  EXPECT_EQ(f.stats().parts_cached, 0u);
  EXPECT_EQ(probe(f, count_from(200, 18)).hit_tokens, 0u);
  serve(f, count_from(100, 18), 16);
  ASSERT_TRUE(f.cache->sequence_finish(held).ok());
  ASSERT_TRUE(f.cache->reset().ok());
  expect_empty(f);
}

TEST(Reset, AnIndexFullOfWhatIsStaleStillTakesUnits) {
  quire_cache_options options{};
  options.max_index_units = 16;
  Fixture f({kFull}, 64, 2, options);
  for (uint32_t round = 0; round < 20; ++round) {
    serve(f, count_from(100 * round, 61), 0);  // 15 units
    serve(f, count_from(100 * round, 61), 60);
    ASSERT_TRUE(f.cache->reset().ok());
  }
}

TEST(Reset, ComesWithAsManyIdentitiesAsThereMayBe) {
  quire_cache_options options{};
  options.max_roots = 3;
  Fixture f({kFull}, 64, 2, options);
  const char* salts[] = {"a", "b", "c", "d", "e"};
  for (uint32_t round = 0; round < 8; ++round) {
    for (const char* salt : salts) serve(f, count_from(10 * round, 9), 0, salt);
    const std::array<SequenceId, 3> open = {f.open("e"), f.open("x"), f.open("y")};
    ASSERT_TRUE(f.cache->reset().ok());
    for (SequenceId id : open) EXPECT_EQ(f.prefill(id, count_from(10 * round, 9)), 0u);
    for (SequenceId id : open) ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    serve(f, count_from(10 * round, 9), 8, "x");
    ASSERT_TRUE(f.cache->reset().ok());
  }
}

TEST(Reset, IsOneEventAndWhatIsStaleTellsNothing) {
  Fixture f({kFull}, 17);
  serve(f, count_from(0, 33), 0);
  ASSERT_TRUE(f.cache->reset().ok());
  quire_event_options events{};
  events.struct_size = sizeof events;
  events.algorithm = QUIRE_HASH_SHA256_CBOR;
  ASSERT_TRUE(f.cache->enable_events(events).ok()) << "nothing is cached";
  serve(f, count_from(100, 64), 0);
  const SequenceId fresh = f.open();
  ASSERT_TRUE(f.cache->reset().ok());
  std::array<quire_event, 64> out;
  std::vector<uint8_t> data(1 << 16);
  quire_event_batch batch{};
  batch.struct_size = sizeof batch;
  ASSERT_TRUE(f.cache->snapshot_events(out, data, &batch).ok());
  EXPECT_EQ(batch.num_events, 0u);
  EXPECT_EQ(f.prefill(fresh, count_from(200, 61)), 0u);
  ASSERT_TRUE(f.cache->sequence_finish(fresh).ok());
  batch = {};
  batch.struct_size = sizeof batch;
  ASSERT_TRUE(f.cache->read_events(0, out, data, &batch).ok());
  EXPECT_EQ(std::count_if(out.begin(), out.begin() + static_cast<long>(batch.num_events),
                          [](const quire_event& e) { return e.type == QUIRE_EVENT_CLEARED; }),
            1);
  for (uint64_t i = 0; i < batch.num_events; ++i) EXPECT_NE(out[i].type, QUIRE_EVENT_REMOVED);
}

// What is forgotten was not evicted, also where a sequence lives on and pages go one by one.
TEST(Reset, CountsNoResidency) {
  Fixture f({kFull}, 16);
  const SequenceId stays = f.open(), goes = f.open();
  f.prefill(stays, count_from(1, 8));
  f.prefill(goes, count_from(100, 8));
  ASSERT_TRUE(f.cache->sequence_finish(goes).ok());
  const auto lifetimes = [&] {
    const quire_cache_stats stats = f.stats();
    return std::accumulate(std::begin(stats.page_lifetime), std::end(stats.page_lifetime), uint64_t{0});
  };
  ASSERT_GT(f.stats().pages_evictable, 0U);
  ASSERT_TRUE(f.cache->reset().ok());
  EXPECT_EQ(f.stats().pages_evictable, 0U);
  EXPECT_EQ(lifetimes(), 0U);
  // From then on it counts again.
  ASSERT_TRUE(f.cache->sequence_finish(stays).ok());
  for (quire_symbol first = 200; first < 1000; first += 100) {
    const SequenceId next = f.open();
    f.prefill(next, count_from(first, 8));
    ASSERT_TRUE(f.cache->sequence_finish(next).ok());
  }
  EXPECT_GT(lifetimes(), 0U);
}

}  // namespace
}  // namespace quire
