// Steps and sequences of quire.hpp: they end with their objects, an error changes nothing, the step loop allocates nothing (operator new is
// counted), and what it computes equals attention as it is defined. Method: examples, and a naive oracle in doubles.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "tests/bindings/cpp_rig.h"

extern std::atomic<uint64_t> news;

namespace {

constexpr size_t kRows = 4, kTokens = 64, kPitch = 4, kWidth = 16;  // 2 heads of 8

quire::Cache small_cache(uint64_t pages = 9) {
  const quire_layer layer = rig_layer();
  return *quire::Cache::create({}, *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(pages)));
}

quire_reserve_entry entry_of(const quire::Sequence& sequence, uint32_t tokens) {
  quire_reserve_entry entry{};
  entry.sequence = sequence.id();
  entry.num_tokens = tokens;
  return entry;
}

TEST(CppSteps, AFollowerAnswersLikeItsLeader) {
  const quire_layer layer = rig_layer();
  const auto config = *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(9));
  auto options = quire::make<quire_cache_options>();
  const quire::Cache leader = *quire::Cache::create({}, config, options);
  options.flags = QUIRE_CACHE_FOLLOWER;
  const quire::Cache follower = *quire::Cache::create({}, config, options);
  const auto sequence = *leader.create_sequence();
  const auto want = entry_of(sequence, 20);
  quire_reserve_result got{};
  const auto step = *leader.reserve({&want, 1}, {}, {&got, 1});
  const auto none = leader.export_step(step.id(), {});
  ASSERT_TRUE(none) << none.error().message();
  std::vector<uint8_t> bytes(*none);
  EXPECT_EQ(leader.export_step(step.id(), std::span(bytes).first(3)).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(*leader.export_step(step.id(), bytes), bytes.size());
  const auto seen = follower.import_step(bytes);
  ASSERT_TRUE(seen) << seen.error().message();
  std::array<int32_t, kPitch> here{}, there{};
  EXPECT_TRUE(leader.fill(step.id(), QUIRE_FILL_TABLE, here, {.pitch = kPitch}));
  EXPECT_TRUE(follower.fill(*seen, QUIRE_FILL_TABLE, there, {.pitch = kPitch}));
  EXPECT_EQ(here, there);
  EXPECT_GT(here[0], 0);
  EXPECT_EQ(follower.import_step(std::span(bytes).first(9)).code(), QUIRE_DATA_LOSS);
  EXPECT_EQ(leader.import_step(bytes).code(), QUIRE_FAILED_PRECONDITION);
}

TEST(CppSteps, ASequenceAndAStepEndWithTheirObjects) {
  const quire::Cache cache = small_cache();
  {
    const auto sequence = cache.create_sequence();
    ASSERT_TRUE(sequence);
    const auto want = entry_of(*sequence, 20);
    quire_reserve_result got{};
    {
      const auto step = cache.reserve({&want, 1}, {}, {&got, 1});
      ASSERT_TRUE(step) << step.error().message();
      EXPECT_EQ(sequence->info()->reserved, 20U);
      EXPECT_EQ(step->info()->num_tokens, 20U);
    }
    EXPECT_EQ(sequence->info()->reserved, 0U) << "a step that was not committed is aborted";
    EXPECT_EQ(cache.stats()->num_sequences, 1U);
  }
  EXPECT_EQ(cache.stats()->num_sequences, 0U);
  EXPECT_EQ(cache.stats()->pages_used, 0U);
  EXPECT_TRUE(cache.verify());
}

TEST(CppSteps, AWrongCommitLeavesTheStepInFlight) {
  const quire::Cache cache = small_cache();
  const auto sequence = cache.create_sequence();
  const auto want = entry_of(*sequence, 20);
  quire_reserve_result got{};
  auto step = *cache.reserve({&want, 1}, {}, {&got, 1});
  quire_commit_entry row{};
  row.sequence = sequence->id();
  row.num_accepted = 21;
  const auto refused = step.commit({&row, 1});
  EXPECT_FALSE(refused);
  EXPECT_NE(std::string(refused.error().message()).find("21"), std::string::npos) << refused.error().message();
  EXPECT_TRUE(step);
  EXPECT_EQ(sequence->info()->reserved, 20U);
  EXPECT_TRUE(step.abort(QUIRE_ABORT_NOT_LAUNCHED));
  EXPECT_FALSE(step);
  EXPECT_EQ(sequence->info()->reserved, 0U);
}

TEST(CppSteps, SpansThatDoNotFitAreRefusedBeforeTheCall) {
  const quire::Cache cache = small_cache();
  const auto sequence = cache.create_sequence();
  const auto want = entry_of(*sequence, 20);
  const auto step = cache.reserve({&want, 1}, {}, {});
  EXPECT_EQ(step.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(step.error().message()).find("results"), std::string::npos);
  EXPECT_EQ(sequence->info()->reserved, 0U);
  quire_reserve_result got{};
  const auto other = cache.reserve({&want, 1}, {}, {&got, 1});
  std::array<int32_t, 64> ids{};
  EXPECT_EQ(other->fill(QUIRE_FILL_SLOTS, ids).code(), QUIRE_INVALID_ARGUMENT);
  const auto needed = other->fill(QUIRE_FILL_POSITIONS, std::span(ids).first(3));
  EXPECT_EQ(needed.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(*needed, 20U) << "what is needed is told beside the error";
  EXPECT_EQ(ids[1], 0) << "nothing was written";
}

TEST(CppSteps, ArraysAreFilledTogetherOrNotAtAll) {
  const quire::Cache cache = small_cache();
  const auto sequence = cache.create_sequence();
  const auto want = entry_of(*sequence, 20);
  quire_reserve_result got{};
  const auto step = cache.reserve({&want, 1}, {}, {&got, 1});
  std::array<int32_t, 20> positions{};
  std::array<int64_t, 19> slots{};
  std::array<uint64_t, 2> needed{};
  const std::array fills{quire::array_of(QUIRE_FILL_POSITIONS, positions), quire::slots_of(slots)};
  const auto refused = step->fill_arrays(fills, needed);
  EXPECT_EQ(refused.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(std::string(refused.error().message()).find("fills[1].capacity"), std::string::npos) << refused.error().message();
  EXPECT_EQ(needed, (std::array<uint64_t, 2>{20, 20}));
  EXPECT_EQ(positions[19], 0);
  EXPECT_EQ(step->fill_arrays(fills, std::span(needed).first(1)).code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(step->fill_arrays(std::array{quire::array_of(QUIRE_FILL_SLOTS, positions)}).code(), QUIRE_INVALID_ARGUMENT)
      << "slots are int64";
  EXPECT_TRUE(step->fill_arrays(std::span(fills).first(1)));
  EXPECT_EQ(positions[19], 19);
}

TEST(CppSteps, AForkGoesItsOwnWay) {
  const quire::Cache cache = small_cache();
  auto parent = *cache.create_sequence();
  auto child = *parent.fork();
  EXPECT_NE(child.id(), parent.id());
  EXPECT_TRUE(parent.finish());
  EXPECT_FALSE(parent);
  EXPECT_EQ(parent.finish().code(), QUIRE_NOT_FOUND);
  EXPECT_TRUE(child.info());
  child = quire::Sequence();
  EXPECT_EQ(cache.stats()->num_sequences, 0U);
}

TEST(CppSteps, APinHoldsAPrefixUntilItIsUnpinned) {
  const quire::Cache cache = small_cache();
  std::array<quire_symbol, 40> symbols{};
  for (uint32_t i = 0; i < 40; ++i) symbols[i] = i;
  EXPECT_EQ(cache.pin(symbols).code(), QUIRE_NOT_FOUND);
  {
    const auto sequence = *cache.create_sequence();
    auto want = entry_of(sequence, 40);
    want.num_symbols = 40;
    want.flags = QUIRE_ENTRY_MATCH;
    quire_reserve_result got{};
    auto step = *cache.reserve({&want, 1}, symbols, {&got, 1});
    quire_commit_entry row{};
    row.sequence = sequence.id();
    row.num_accepted = got.num_tokens;
    ASSERT_TRUE(step.commit({&row, 1}));
  }
  auto options = quire::make<quire_pin_options>();
  options.priority = QUIRE_PIN_HARD;
  const auto pin = *cache.pin(symbols, options);
  EXPECT_EQ(pin.tokens, 32U) << "two blocks of 16";
  EXPECT_EQ(cache.pin_info(pin.id)->num_parts, 2U);
  EXPECT_EQ(cache.stats()->pinned_tokens, 32U);
  EXPECT_EQ(cache.stats()->pages_used, 2U);
  EXPECT_TRUE(cache.unpin(pin.id));
  EXPECT_EQ(cache.unpin(pin.id).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(cache.stats()->pages_used, 0U);
}

float element(uint32_t which, uint32_t s, uint32_t p, uint32_t x) {
  return static_cast<float>(static_cast<int>((which * 5 + s * 3 + p * 7 + x * 11) % 23) - 11) / 16;
}

double plain(uint32_t s, uint32_t p, uint32_t x) {
  double total = 0, sum = 0;
  for (uint32_t t = 0; t <= p; ++t) {
    double dot = 0;
    for (uint32_t i = x / 8 * 8; i < x / 8 * 8 + 8; ++i) dot += double{element(0, s, p, i)} * double{element(1, s, t, i)};
    const double weight = std::exp(dot / std::sqrt(8.0));
    total += weight;
    sum += weight * double{element(2, s, t, x)};
  }
  return sum / total;
}

quire_tensor rows_of(float* data, int64_t tokens) {
  return {data, {QUIRE_DTYPE_FLOAT, 32, 1}, QUIRE_DEVICE_CPU, 0, 3, {tokens, 2, 8}, {64, 32, 4}, 0};
}

// One engine whose arrays were made before.
struct Loop {
  quire::Device device = *quire::Device::open(*quire::Runtime::create(rig_options("cpu")));
  quire::Stream stream = *quire::Stream::create(device);
  quire::Cache cache;
  quire::Memory memory;
  std::array<quire::Sequence, kRows> sequences;
  std::array<quire_reserve_entry, kRows> wants{};
  std::array<quire_reserve_result, kRows> got{};
  std::array<quire_commit_entry, kRows> rows{};
  std::array<quire_symbol, kTokens> symbols{};
  std::array<int32_t, kRows * kPitch> table{};
  std::array<int32_t, kRows + 1> query_indptr{};
  std::array<int32_t, kRows> kv_len{};
  std::array<int32_t, kTokens> positions{};
  std::array<int64_t, kTokens> slots{};
  std::array<float, kTokens * kWidth> query{}, key{}, value{}, out{};
  double worst = 0;

  Loop() {
    const quire_layer layer = rig_layer();
    const auto config = *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(33));
    cache = *quire::Cache::create({}, config);
    memory = *quire::Memory::create(device, config);
    for (uint32_t s = 0; s < kRows; ++s) {
      sequences[s] = *cache.create_sequence();
      wants[s] = entry_of(sequences[s], 7 + s);
      wants[s].num_symbols = 7 + s;
      wants[s].symbols_offset = s;
    }
    for (uint32_t i = 0; i < kTokens; ++i) symbols[i] = i;
  }

  // Calls of one step; whether all succeeded.
  bool step() {
    auto taken = cache.reserve(wants, symbols, got);
    const std::array all{quire::array_of(QUIRE_FILL_TABLE, table, {.pitch = kPitch}), quire::slots_of(slots),
                         quire::array_of(QUIRE_FILL_QUERY_INDPTR, query_indptr), quire::array_of(QUIRE_FILL_KV_LEN, kv_len),
                         quire::array_of(QUIRE_FILL_POSITIONS, positions)};
    bool good = taken && taken->fill_arrays(all) && memory.prepare(*taken, stream);
    if (!good) return false;
    write_rows();
    auto append = quire::make<quire_kv_append>();
    const auto kv = memory.paged_kv(0);
    append.kv = *kv;
    append.slots = slots.data(), append.num_tokens = static_cast<uint64_t>(query_indptr[kRows]);
    append.key = rows_of(key.data(), query_indptr[kRows]), append.value = rows_of(value.data(), query_indptr[kRows]);
    auto op = quire::make<quire_attention>();
    op.kv = *kv, op.flags = QUIRE_ATTENTION_CAUSAL, op.num_rows = kRows;
    op.table = table.data(), op.table_pitch = kPitch, op.query_indptr = query_indptr.data(), op.kv_len = kv_len.data();
    op.query = rows_of(query.data(), query_indptr[kRows]), op.out = rows_of(out.data(), query_indptr[kRows]);
    good = kv && stream.kv_append(append) && stream.attention(op) && stream.synchronize();
    for (uint32_t s = 0; s < kRows; ++s) {
      rows[s] = {sequences[s].id(), got[s].position + got[s].num_tokens, s, 1, got[s].num_tokens};
      wants[s] = entry_of(sequences[s], 1);
    }
    return good && taken->commit(rows, symbols);
  }

  void write_rows() {
    for (uint32_t s = 0; s < kRows; ++s) {
      for (auto i = static_cast<uint32_t>(query_indptr[s]); i < static_cast<uint32_t>(query_indptr[s + 1]); ++i) {
        for (uint32_t x = 0; x < kWidth; ++x) {
          query[i * kWidth + x] = element(0, s, static_cast<uint32_t>(positions[i]), x);
          key[i * kWidth + x] = element(1, s, static_cast<uint32_t>(positions[i]), x);
          value[i * kWidth + x] = element(2, s, static_cast<uint32_t>(positions[i]), x);
        }
      }
    }
  }

  void compare() {
    for (uint32_t s = 0; s < kRows; ++s) {
      for (auto i = static_cast<uint32_t>(query_indptr[s]); i < static_cast<uint32_t>(query_indptr[s + 1]); ++i) {
        for (uint32_t x = 0; x < kWidth; ++x) {
          worst = std::max(worst, std::abs(double{out[i * kWidth + x]} - plain(s, static_cast<uint32_t>(positions[i]), x)));
        }
      }
    }
  }
};

TEST(CppSteps, TheStepLoopAllocatesNothingAndComputesAttention) {
  Loop loop;
  ASSERT_TRUE(loop.step()) << "the first step may allocate: the driver's threads, for example";
  loop.compare();
  for (int i = 0; i < 40; ++i) {
    const uint64_t before = news;
    const bool good = loop.step();
    const uint64_t after = news;
    ASSERT_TRUE(good) << "step " << i;
    EXPECT_EQ(after - before, 0U) << "step " << i;
    loop.compare();
  }
  EXPECT_EQ(loop.kv_len[3], 50) << "10 tokens of prompt and 40 more";
  EXPECT_LT(loop.worst, 1e-5);
  const uint64_t before = news;
  const auto sequence = loop.cache.share();
  EXPECT_EQ(news - before, 0U);
  const auto runtime = quire::Runtime::create(rig_options("null"));
  EXPECT_GT(news - before, 0U) << "the counter sees what the library allocates";
}

}  // namespace
