// Holds, units and loads of quire.hpp: a hold ends with its object, a unit brings one, a load leaves one behind. Method: examples; what
// is held is counted by the cache.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "tests/bindings/cpp_rig.h"

namespace {

quire::Cache cache_of(uint64_t pages) {
  const quire_layer layer = rig_layer();
  return *quire::Cache::create({}, *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(pages)));
}

std::vector<quire_symbol> symbols_of(size_t n) {
  std::vector<quire_symbol> symbols(n);
  std::iota(symbols.begin(), symbols.end(), 1);
  return symbols;
}

// A sequence that has computed so many tokens.
quire::Sequence computed(const quire::Cache& cache, size_t n) {
  auto sequence = *cache.create_sequence();
  const std::vector<quire_symbol> symbols = symbols_of(n);
  quire_reserve_entry want{};
  want.sequence = sequence.id();
  want.num_symbols = want.num_tokens = static_cast<uint32_t>(n);
  quire_reserve_result got{};
  auto step = *cache.reserve({&want, 1}, symbols, {&got, 1});
  quire_commit_entry row{};
  row.sequence = sequence.id();
  row.num_accepted = want.num_tokens;
  EXPECT_TRUE(step.commit({&row, 1}));
  return sequence;
}

TEST(CppHolds, EndWithTheirObjects) {
  const quire::Cache cache = cache_of(9);
  auto sequence = computed(cache, 40);
  {
    auto hold = sequence.hold(16, 40);
    ASSERT_TRUE(hold) << hold.error().message();
    EXPECT_EQ(hold->info()->num_parts, 2U);
    const auto ids = hold->ids(0);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(ids->size(), 2U);
    EXPECT_NE((*ids)[0], 0);
    EXPECT_EQ(hold->ids(7).code(), QUIRE_OUT_OF_RANGE);
    ASSERT_TRUE(sequence.finish());
    EXPECT_EQ(cache.stats()->pages_used, 2U);
    EXPECT_EQ(cache.group_stats(0)->pages_used, 2U);
    EXPECT_EQ(cache.group_stats(99).code(), QUIRE_OUT_OF_RANGE);
    quire::Hold moved = std::move(*hold);
    EXPECT_FALSE(*hold);
    EXPECT_EQ(cache.stats()->holds, 1U);
    *hold = std::move(moved);
    EXPECT_EQ(cache.stats()->holds, 1U);
  }
  EXPECT_EQ(cache.stats()->holds, 0U);
  auto other = computed(cache, 20);
  auto hold = *other.hold(0, 20);
  const quire_hold_id id = hold.release();
  EXPECT_EQ(hold.end().code(), QUIRE_NOT_FOUND) << "it was given away";
  EXPECT_EQ(cache.stats()->holds, 1U);
  hold = cache.own_hold(id);
  EXPECT_TRUE(hold.end());
  EXPECT_EQ(cache.stats()->holds, 0U);
  EXPECT_EQ(other.hold(0, 21).code(), QUIRE_OUT_OF_RANGE);
}

TEST(CppHolds, UnitsBringTheirs) {
  const quire::Cache cache = cache_of(9);
  auto options = quire::make<quire_unit_options>();
  options.reasons = QUIRE_UNIT_COMMITTED;
  options.unit_tokens = 5;
  EXPECT_EQ(cache.watch_units(options).code(), QUIRE_INVALID_ARGUMENT);
  options.unit_tokens = 16;
  const auto watched = cache.watch_units(options);
  ASSERT_TRUE(watched) << watched.error().message();
  const auto sequence = computed(cache, 40);
  const std::array<uint64_t, 2> ends = {16, 32};
  const std::vector<quire_symbol> symbols = symbols_of(40);
  const auto digests = cache.prefix_digests(symbols, ends);
  ASSERT_TRUE(digests) << digests.error().message();
  {
    auto units = cache.take_units(8);
    ASSERT_TRUE(units) << units.error().message();
    ASSERT_EQ(units->size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      const quire::Unit& unit = (*units)[i];
      EXPECT_EQ(unit.facts.end_token, ends[i]);
      EXPECT_EQ(unit.facts.sequence, sequence.id());
      EXPECT_TRUE(std::equal((*digests)[i].begin(), (*digests)[i].end(), unit.facts.digest));
      EXPECT_EQ(unit.hold.id(), unit.facts.hold);
      EXPECT_EQ(unit.hold.ids(0)->size(), 1U);
    }
    EXPECT_EQ(cache.stats()->holds, 2U);
    EXPECT_TRUE(cache.take_units(8)->empty());
  }
  EXPECT_EQ(cache.stats()->holds, 0U);
  EXPECT_TRUE(cache.watch_no_units());
  const std::array<uint64_t, 1> far = {41};
  EXPECT_EQ(cache.prefix_digests(symbols, far).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_TRUE(cache.prefix_digests(symbols, {})->empty());
}

quire::Load load_of(const quire::Cache& cache, const quire::Sequence& sequence, uint32_t tokens) {
  quire_reserve_entry want{};
  want.sequence = sequence.id();
  want.num_symbols = tokens + 1;
  want.num_tokens = tokens;
  want.flags = QUIRE_ENTRY_MATCH;
  quire_reserve_result got{};
  auto load = cache.begin_load(want, symbols_of(tokens + 1), got);
  EXPECT_TRUE(load) << load.error().message();
  EXPECT_EQ(got.num_tokens, tokens);
  return std::move(*load);
}

TEST(CppHolds, ALoadLeavesWhatMayStillBeWritten) {
  const quire::Cache cache = cache_of(9);
  const auto sequence = *cache.create_sequence();
  auto load = load_of(cache, sequence, 40);
  std::array<uint64_t, 1> have{77};
  EXPECT_EQ(*load.have({}), 1U);
  EXPECT_EQ(*load.have(have), 1U);
  EXPECT_EQ(have[0], 0U) << "nothing is cached";
  EXPECT_EQ(cache.stats()->loads, 1U);
  const quire_load_failure wrong{9, 0, 0, 1}, lost{0, 0, 20, 4};
  EXPECT_EQ(load.end_late(cache, {&wrong, 1}).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_TRUE(load) << "it goes on after an error";
  {
    const auto ended = load.end_late(cache, {&lost, 1});
    ASSERT_TRUE(ended) << ended.error().message();
    EXPECT_FALSE(load);
    EXPECT_EQ(ended->committed, 20U);
    ASSERT_TRUE(ended->late);
    const std::vector<int32_t> ids = *ended->late.ids(0);
    ASSERT_EQ(ids.size(), 3U);
    EXPECT_EQ(ids[0], 0);
    EXPECT_NE(ids[1], 0);
    EXPECT_EQ(ids[2], 0);
    EXPECT_EQ(cache.stats()->holds, 1U);
  }
  EXPECT_EQ(cache.stats()->holds, 0U);
  const auto other = *cache.create_sequence();
  const auto all = load_of(cache, other, 15).end_late(cache, {});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->committed, 15U);
  EXPECT_FALSE(all->late);
}

TEST(CppHolds, ALoadIsAsLongAsTheOptionsSay) {
  auto options = quire::make<quire_cache_options>();
  options.max_load_tokens = 10;
  options.max_loads = 1;
  const quire_layer layer = rig_layer();
  const quire::Cache cache =
      *quire::Cache::create({}, *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(9)), options);
  const auto sequence = *cache.create_sequence(), other = *cache.create_sequence();
  auto load = load_of(cache, sequence, 10);
  quire_reserve_entry want{};
  want.sequence = other.id();
  want.num_tokens = want.num_symbols = 4;
  quire_reserve_result got{};
  EXPECT_EQ(cache.begin_load(want, symbols_of(4), got).code(), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(*load.end(), 10U);
}

}  // namespace
