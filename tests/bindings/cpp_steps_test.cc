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

constexpr size_t kRows = 4, kTokens = 64, kWidth = 16;  // 2 heads of 8

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
  const quire::Cache leader = *quire::Cache::create({}, config);
  const quire::Follower follower = *quire::Follower::create(config);
  const auto sequence = *leader.create_sequence();
  const auto want = entry_of(sequence, 20);
  quire_reserve_result got{};
  auto step = *leader.reserve({&want, 1}, {}, {&got, 1});
  const auto size = step.export_bytes({});
  ASSERT_TRUE(size) << size.error().message();
  std::vector<uint8_t> bytes(*size);
  EXPECT_EQ(step.export_bytes(std::span(bytes).first(3)).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(*step.export_bytes(bytes), bytes.size());
  const auto seen = follower.import(bytes);
  ASSERT_TRUE(seen) << seen.error().message();
  EXPECT_EQ(seen->id(), step.id());
  std::array<int32_t, 4> here{}, there{};
  EXPECT_TRUE(step.fill(QUIRE_FILL_TABLE, here, {.pitch = 4}));
  EXPECT_TRUE(seen->fill(QUIRE_FILL_TABLE, there, {.pitch = 4}));
  EXPECT_EQ(here, there);
  EXPECT_GT(here[0], 0);
  auto batch = *quire::Batch::create(config);
  ASSERT_TRUE(batch.fill(*seen));
  EXPECT_EQ(batch[0].table[0], here[0]);
  EXPECT_EQ(batch[0].kv_len[0], 20);
  EXPECT_EQ(follower.import(std::span(bytes).first(9)).code(), QUIRE_DATA_LOSS);
  EXPECT_EQ(quire::Step(leader.share(), seen->get()).abort().code(), QUIRE_FAILED_PRECONDITION) << "there is nothing to abort";
  EXPECT_TRUE(seen->info());
  step = quire::Step();
  EXPECT_EQ(leader.stats()->aborted_steps, 1U);
  EXPECT_TRUE(seen->info()) << "a follower keeps what it imported";
}

TEST(CppSteps, ABatchGrowsAndMemoryOfTheEngineDoesNot) {
  const quire_layer layer = rig_layer();
  const auto config = *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(9));
  const quire::Cache cache = *quire::Cache::create({}, config);
  const auto sequence = *cache.create_sequence();
  const auto want = entry_of(sequence, 20);
  quire_reserve_result got{};
  const auto step = *cache.reserve({&want, 1}, {}, {&got, 1});
  auto batch = *quire::Batch::create(config);
  EXPECT_EQ(batch.groups().size(), 1U);
  EXPECT_TRUE(batch.bytes().empty());
  ASSERT_TRUE(batch.fill(step));
  EXPECT_EQ(batch[0].num_rows, 1U);
  EXPECT_EQ(batch[0].num_tokens, 20U);
  EXPECT_EQ(batch[0].query_indptr[1], 20);
  EXPECT_EQ(batch[0].positions[19], 19);
  EXPECT_EQ(batch[0].slots[17], batch[0].table[1] * int64_t{16} + 1);
  const quire::Batch moved = std::move(batch);
  EXPECT_EQ(moved[0].positions[19], 19) << "the block moves along";
  EXPECT_EQ(batch.fill(step).code(), QUIRE_INVALID_ARGUMENT) << "an empty batch has no groups";  // NOLINT(bugprone-use-after-move)

  alignas(16) std::array<std::byte, 4096> own{};
  auto options = quire::make<quire_batch_options>();
  options.memory = own.data();
  options.bytes = 64;
  auto small = *quire::Batch::create(config, options);
  EXPECT_EQ(small.fill(step).code(), QUIRE_OUT_OF_RANGE);
  options.bytes = own.size();
  options.num_rows = 4;
  options.num_tokens = 32;
  options.flags = QUIRE_BATCH_MAX_PITCH;
  auto fixed = *quire::Batch::create(config, options);
  ASSERT_TRUE(fixed.fill(step));
  EXPECT_EQ(fixed[0].num_rows, 4U);
  EXPECT_EQ(fixed[0].table_pitch, 4U);
  EXPECT_EQ(fixed[0].slots[31], -1);
  EXPECT_EQ(fixed.bytes().data(), own.data());
  const auto at = reinterpret_cast<const std::byte*>(fixed[0].table) - own.data();
  std::array<std::byte, 16> device{};  // an address that only kernels would read
  fixed.set_address(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(device.data()) / 16 * 16));
  ASSERT_TRUE(fixed.fill(step));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(fixed[0].table), reinterpret_cast<uintptr_t>(device.data()) / 16 * 16 + static_cast<uintptr_t>(at));
  EXPECT_EQ(quire::Batch::create(quire::Config{}).code(), QUIRE_INVALID_ARGUMENT);
}

TEST(CppSteps, ALoadIsFilledLikeAStepAndEnds) {
  const quire::Cache cache = small_cache();
  const auto sequence = *cache.create_sequence();
  std::array<quire_symbol, 32> symbols{};
  auto want = entry_of(sequence, 32);
  want.num_symbols = 32;
  quire_reserve_result got{};
  auto load = cache.begin_load(want, symbols, got);
  ASSERT_TRUE(load) << load.error().message();
  ASSERT_TRUE(*load);
  std::array<int64_t, 32> slots{};
  EXPECT_TRUE(load->fill_slots(slots));
  EXPECT_GT(slots[0], 0);
  EXPECT_EQ(*load->end(), 32U);
  EXPECT_FALSE(*load);
  EXPECT_EQ(load->end().code(), QUIRE_INVALID_ARGUMENT);
}

TEST(CppSteps, AnAttentionTakesWhatItsLayerSays) {
  auto layer = rig_layer();
  layer.kind = QUIRE_LAYER_SLIDING_WINDOW;
  layer.window = 24;
  const auto op = quire::attention_of(layer);
  ASSERT_TRUE(op) << op.error().message();
  EXPECT_EQ(op->window, 24U);
  EXPECT_EQ(op->flags, QUIRE_ATTENTION_CAUSAL);
  layer.kind = QUIRE_LAYER_STATE;
  EXPECT_EQ(quire::attention_of(layer).code(), QUIRE_INVALID_ARGUMENT);
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
  EXPECT_EQ(*needed, 20U) << "the result has what is needed, too";
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
  const auto twice = parent.finish();
  EXPECT_EQ(twice.code(), QUIRE_NOT_FOUND);
  EXPECT_NE(std::string(twice.error().message()).find("it was finished"), std::string::npos) << twice.error().message();
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
  quire::Batch batch;
  std::array<float, kTokens * kWidth> query{}, key{}, value{}, out{};
  double worst = 0;

  Loop() {
    const quire_layer layer = rig_layer();
    const auto config = *quire::Config::create(*quire::Model::create({&layer, 1}, 64), rig_room(33));
    cache = *quire::Cache::create({}, config);
    memory = *quire::Memory::create(device, config);
    auto shape = quire::make<quire_batch_options>();
    shape.flags = QUIRE_BATCH_MAX_PITCH;  // so that the block does not grow with the sequences
    batch = *quire::Batch::create(config, shape);
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
    bool good = taken && batch.fill(*taken) && memory.prepare(*taken, stream);
    if (!good) return false;
    write_rows();
    const auto kv = memory.paged_kv(0);
    const int64_t tokens = batch[0].num_tokens;
    auto append = quire::make<quire_kv_append>();
    append.kv = *kv;
    append.batch = &batch[0];
    append.key = rows_of(key.data(), tokens), append.value = rows_of(value.data(), tokens);
    auto op = *quire::attention_of(rig_layer());
    op.kv = *kv;
    op.batch = &batch[0];
    op.query = rows_of(query.data(), tokens), op.out = rows_of(out.data(), tokens);
    good = kv && stream.kv_append(append) && stream.attention(op) && stream.synchronize();
    for (uint32_t s = 0; s < kRows; ++s) {
      rows[s] = {sequences[s].id(), got[s].position + got[s].num_tokens, s, 1, got[s].num_tokens};
      wants[s] = entry_of(sequences[s], 1);
    }
    return good && taken->commit(rows, symbols);
  }

  void write_rows() {
    for (uint32_t s = 0; s < kRows; ++s) {
      for (auto i = static_cast<uint32_t>(batch[0].query_indptr[s]); i < static_cast<uint32_t>(batch[0].query_indptr[s + 1]); ++i) {
        for (uint32_t x = 0; x < kWidth; ++x) {
          query[i * kWidth + x] = element(0, s, static_cast<uint32_t>(batch[0].positions[i]), x);
          key[i * kWidth + x] = element(1, s, static_cast<uint32_t>(batch[0].positions[i]), x);
          value[i * kWidth + x] = element(2, s, static_cast<uint32_t>(batch[0].positions[i]), x);
        }
      }
    }
  }

  void compare() {
    for (uint32_t s = 0; s < kRows; ++s) {
      for (auto i = static_cast<uint32_t>(batch[0].query_indptr[s]); i < static_cast<uint32_t>(batch[0].query_indptr[s + 1]); ++i) {
        for (uint32_t x = 0; x < kWidth; ++x) {
          worst = std::max(worst, std::abs(double{out[i * kWidth + x]} - plain(s, static_cast<uint32_t>(batch[0].positions[i]), x)));
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
  EXPECT_EQ(loop.batch[0].kv_len[3], 50) << "10 tokens of prompt and 40 more";
  EXPECT_LT(loop.worst, 1e-5);
  const uint64_t before = news;
  const auto sequence = loop.cache.share();
  EXPECT_EQ(news - before, 0U);
  const auto runtime = quire::Runtime::create(rig_options("null"));
  EXPECT_GT(news - before, 0U) << "the counter sees what the library allocates";
}

}  // namespace
