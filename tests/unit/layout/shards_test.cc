// Plans of random models in random orders: over the whole pool, all groups and all shards, no byte has two owners, segments are the
// payload, and one row of ids serves every shard.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/layout/codec.h"
#include "core/layout/segments.h"
#include "core/model/dtype.h"
#include "core/plan/cache_config.h"

namespace quire {
namespace {

#if defined(NDEBUG)
constexpr int kRounds = 120;
#else
constexpr int kRounds = 40;  // of a binary with checks
#endif

quire_layer layer_of(quire_layer_kind kind, uint32_t index) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.layer = index;
  layer.dtype = kBFloat16;
  return layer;
}

quire_layer attention(uint32_t index, uint32_t heads, uint32_t width_k, uint32_t width_v) {
  quire_layer layer = layer_of(QUIRE_LAYER_FULL, index);
  layer.num_kv_heads = heads;
  layer.num_q_heads = 2 * heads;
  layer.head_dim_k = width_k;
  layer.head_dim_v = width_v;
  return layer;
}

quire_layer latent(uint32_t index) {  // 16 encoded bytes, a scale, 4 elements of rope
  quire_layer layer = layer_of(QUIRE_LAYER_MLA, index);
  layer.num_kv_heads = 1;
  layer.num_q_heads = 8;
  layer.head_dim_k = 20;
  layer.codec = QUIRE_CODEC_RECORD;
  layer.codec_params.data_bytes[0] = 16;
  layer.codec_params.scale_bytes[0] = 4;
  layer.codec_params.tail_bytes[0] = 8;
  layer.codec_params.data_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  layer.codec_params.scale_dtype = kFloat32;
  layer.codec_params.tail_dtype = kBFloat16;
  return layer;
}

quire_layer indexer(uint32_t index) {  // scales behind the block
  quire_layer layer = layer_of(QUIRE_LAYER_INDEXER, index);
  layer.sub = 1;
  layer.num_kv_heads = 1;
  layer.num_q_heads = 8;
  layer.head_dim_k = 8;
  layer.codec = QUIRE_CODEC_BLOCK_SPLIT;
  layer.codec_params.data_bytes[0] = 8;
  layer.codec_params.scale_bytes[0] = 4;
  layer.codec_params.data_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  layer.codec_params.scale_dtype = kFloat32;
  return layer;
}

quire_layer state(uint32_t index) {
  quire_layer layer = layer_of(QUIRE_LAYER_STATE, index);
  layer.num_state_tensors = 2;
  layer.state[0] = {kBFloat16, 2, {3, 24, 0, 0}};
  layer.state[1] = {kFloat32, 2, {4, 100, 0, 0}};
  layer.state_shard[0] = 2;
  layer.state_shard[1] = 1;
  return layer;
}

struct Wish {
  std::string policy = "vllm";
  std::string layout;
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  std::vector<uint64_t> memory;
  uint64_t num_pages = 0;
};

Result<std::shared_ptr<const Config>> plan_of(const std::vector<quire_layer>& layers, const Wish& wish) {
  const auto model = Model::create(layers, 64);
  if (!model.ok()) return Status(model.status().code(), model.status().message());
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {wish.policy.data(), wish.policy.size()};
  options.layout = {wish.layout.data(), wish.layout.size()};
  options.tensor_parallel = wish.tensor_parallel;
  options.pipeline_parallel = wish.pipeline_parallel;
  options.memory_bytes = wish.memory.data();
  options.num_memory_bytes = wish.memory.size();
  options.num_pages = wish.num_pages;
  options.max_tokens_in_flight = 16;
  return plan(model.value(), options);
}

// Bytes that one part of a cache keeps in one rank, from the description alone.
uint64_t naive_payload(const quire_layer& layer, uint32_t ranks, const GroupPlan& group) {
  if (layer.kind == QUIRE_LAYER_STATE) return (3 * 24 * 2 + 4 * 100 * 4) / ranks;
  const uint64_t heads = std::max(layer.num_kv_heads / ranks, 1u);
  const uint64_t row = layer.kind == QUIRE_LAYER_MLA       ? 28
                       : layer.kind == QUIRE_LAYER_INDEXER ? 12
                                                           : heads * (layer.head_dim_k + layer.head_dim_v) * 2;
  return row * group.block_tokens;
}

struct Slot {
  uint32_t group;
  uint32_t column;
  int32_t id;
};

// One owner for every page, one column for every part: what a pool can hand out at once, in all shards alike.
std::vector<Slot> hand_out(const Config& config, std::mt19937& random) {
  std::vector<Slot> slots;
  for (uint64_t page = 1; page < config.num_pages; ++page) {
    const uint32_t g = random() % static_cast<uint32_t>(config.groups.size());
    const GroupPlan& group = config.groups[g];
    for (uint32_t part = 0; part < group.parts_per_page; ++part) {
      slots.push_back({g, static_cast<uint32_t>(random() % group.ids_per_block), static_cast<int32_t>(page * group.parts_per_page + part)});
    }
  }
  return slots;
}

void expect_no_byte_twice(const Config& config, const std::vector<quire_layer>& layers, const Wish& wish, uint32_t shard,
                          const std::vector<Slot>& slots) {
  const ShardPlan& where = config.shards[shard];
  std::vector<std::vector<uint8_t>> owned;
  for (const quire_region_info& region : where.regions) owned.emplace_back(region.bytes, 0);
  for (const Slot& slot : slots) {
    const auto runs = list_segments(config, shard, slot.group, slot.column, slot.id);
    ASSERT_TRUE(runs.ok()) << runs.status().message();
    const GroupPlan& group = config.groups[slot.group];
    uint64_t payload = 0;
    for (const uint32_t place : group.places) {
      if (config.places[place].column != slot.column || where.views[place].empty()) continue;
      payload += naive_payload(layers[config.places[place].cache], wish.tensor_parallel, group);
    }
    uint64_t bytes = 0;
    for (const quire_segment& run : runs.value()) {
      bytes += run.bytes;
      const quire_region_info& region = where.regions[run.region];
      ASSERT_LE(run.offset + run.bytes, region.bytes);
      const uint64_t page = static_cast<uint64_t>(slot.id) / group.parts_per_page;
      ASSERT_EQ(run.offset % (region.page_stride * config.num_pages) / region.page_stride, page);
      ASSERT_EQ((run.offset + run.bytes - 1) % (region.page_stride * config.num_pages) / region.page_stride, page);
      for (uint64_t i = run.offset; i < run.offset + run.bytes; ++i) ASSERT_EQ(owned[run.region][i]++, 0);
    }
    ASSERT_EQ(bytes, payload) << "group " << slot.group << " id " << slot.id;
  }
}

void expect_lowering(const Config& config, uint32_t shard, const Slot& slot) {
  const quire_lowering& lowering = config.shards[shard].lowering[slot.group];
  const auto id = static_cast<uint64_t>(slot.id);
  ASSERT_EQ(lowering.parts_per_page, config.groups[slot.group].parts_per_page);
  for (uint64_t k = 0; k < lowering.kernel_blocks_per_part; ++k) {
    const uint64_t lowered = id / lowering.parts_per_page * lowering.page_factor + id % lowering.parts_per_page * lowering.part_factor +
                             k * lowering.block_factor;
    ASSERT_LT(lowered, lowering.num_lowered_ids);
    for (const uint32_t place : config.groups[slot.group].places) {
      const PlaceViews& views = config.shards[shard].views[place];
      const uint64_t block = id % lowering.parts_per_page * lowering.kernel_blocks_per_part + k;
      for (uint32_t side = 0; side < views.kv.num_sides; ++side) {
        ASSERT_EQ(lowered * static_cast<uint64_t>(views.kv.unit[side]),
                  id / lowering.parts_per_page * static_cast<uint64_t>(views.kv.stride_page[side]) +
                      block * static_cast<uint64_t>(views.kv.stride_block[side]));
      }
      for (const quire_state_view& tensor : views.states) {
        ASSERT_EQ(lowered * static_cast<uint64_t>(tensor.unit), id / lowering.parts_per_page * static_cast<uint64_t>(tensor.stride_page) +
                                                                    block * static_cast<uint64_t>(tensor.stride_part));
      }
    }
  }
}

// Every cache in exactly the stage that has it, in every rank of it; the same ids everywhere.
void expect_one_row(const Config& config, const Wish& wish) {
  for (size_t i = 0; i < config.places.size(); ++i) {
    for (uint32_t shard = 0; shard < config.shards.size(); ++shard) {
      ASSERT_EQ(config.shards[shard].views[i].empty(), shard / wish.tensor_parallel != config.places[i].stage);
    }
  }
  for (uint32_t shard = 0; shard < config.shards.size(); ++shard) {
    for (const quire_region_info& region : config.shards[shard].regions) {
      ASSERT_EQ(region.bytes, region.page_stride * region.num_planes * config.num_pages);
    }
    if (!wish.memory.empty()) {
      const uint64_t memory = wish.memory[wish.memory.size() == 1 ? 0 : shard];
      ASSERT_LE(config.shards[shard].page_bytes * config.num_pages, memory);
    }
  }
}

class Shards : public testing::Test {
 protected:
  Shards() : seed_(std::random_device{}()), random_(seed_) {}
  uint32_t pick(uint32_t low, uint32_t high) { return low + random_() % (high - low + 1); }

  void expect_sound(const Config& config, const std::vector<quire_layer>& layers, const Wish& wish) {
    expect_one_row(config, wish);
    const std::vector<Slot> slots = hand_out(config, random_);
    for (uint32_t shard = 0; shard < config.shards.size() && !HasFatalFailure(); ++shard) {
      expect_no_byte_twice(config, layers, wish, shard, slots);
      for (size_t i = 0; i < slots.size() && !HasFatalFailure(); i += 7) expect_lowering(config, shard, slots[i]);
    }
  }

  std::vector<quire_layer> random_model(uint32_t num_layers) {
    std::vector<quire_layer> layers;
    const uint32_t wide = pick(1, 2) * 16;
    const bool hybrid = pick(0, 1) == 1;
    const bool latents = pick(0, 3) == 0;
    const bool two_shapes = pick(0, 2) == 0;
    for (uint32_t l = 0; l < num_layers; ++l) {
      if (hybrid && pick(0, 1) == 1) {
        layers.push_back(state(l));
      } else if (latents) {
        layers.push_back(latent(l));
        layers.push_back(indexer(l));
      } else {
        const bool other = two_shapes && pick(0, 1) == 1;
        layers.push_back(attention(l, other ? 4 : 2, other ? 8 : 16, other ? 8 : wide));
        if (pick(0, 4) == 0) {
          layers.back().kind = QUIRE_LAYER_SLIDING_WINDOW;
          layers.back().window = 20;
        }
      }
    }
    return layers;
  }

  uint32_t seed_;
  std::mt19937 random_;
};

TEST_F(Shards, RandomModelsInRandomOrders) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  const std::vector<std::string> with_lanes{"",         "LPKBJTHD", "LPBJKTHD", "LPBJKHTD", "LBJPKTHD", "BLPKJTHD", "BJLPKTHD",
                                            "BJHLPKTD", "BJKHLPTD", "LPBJTHKD", "LPBJHTKD", "LBPJKTHD", "BJTHLPKD"};
  const std::vector<std::string> without{"", "BPJKTHD", "BJPKTHD", "BPJKHTD", "BJPHKTD", "BPJTHKD"};
  std::map<bool, int> outcomes;
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t ranks = pick(1, 2);
    const uint32_t stages = pick(1, 2);
    const std::vector<quire_layer> layers = random_model(stages * pick(2, 4));
    Wish wish;
    wish.policy = std::vector<std::string>{"vllm", "pack:2", "auto"}[pick(0, 2)];
    const auto& orders = wish.policy == "auto" ? without : with_lanes;
    wish.layout = orders[pick(0, static_cast<uint32_t>(orders.size()) - 1)];
    wish.tensor_parallel = ranks;
    wish.pipeline_parallel = stages;
    wish.num_pages = 60;
    SCOPED_TRACE("round " + std::to_string(round) + " " + wish.policy + " " + wish.layout + " TP" + std::to_string(ranks) + " PP" +
                 std::to_string(stages) + ", " + std::to_string(layers.size()) + " caches");
    const auto config = plan_of(layers, wish);
    ++outcomes[config.ok()];
    if (!config.ok()) {
      const std::string& says = config.status().message();
      ASSERT_TRUE(says.find("layer") != std::string::npos || says.find("pages") != std::string::npos) << says;
      continue;
    }
    expect_sound(*config.value(), layers, wish);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(outcomes[true], kRounds / 3);
}

// Two ranks with unequal memory: the smaller one says how many pages there are.
TEST_F(Shards, UnequalMemory) {
  const std::vector<quire_layer> layers{attention(0, 2, 16, 32), state(1), attention(2, 2, 16, 32), state(3)};
  for (const char* policy : {"vllm", "auto"}) {
    Wish wish;
    wish.policy = policy;
    wish.tensor_parallel = 2;
    wish.memory = {400000, 250000};
    const auto config = plan_of(layers, wish);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config.value()->num_pages, 250000 / config.value()->shards[1].page_bytes);
    EXPECT_EQ(config.value()->shards[0].views[0].kv.first_head, 0u);
    EXPECT_EQ(config.value()->shards[1].views[0].kv.first_head, 1u);
    expect_sound(*config.value(), layers, wish);
  }
}

// Odd rows in many pages: lowered ids would not fit 31 bits, so strips are wider than their payload, and the pages are counted with that
// width.
TEST_F(Shards, WiderStripsStillFitTheMemory) {
  quire_layer layer = attention(0, 1, 577, 577);
  layer.dtype = {QUIRE_DTYPE_UINT, 8, 1};
  std::vector<quire_layer> layers{layer, layer, state(2)};
  layers[1].layer = 1;
  Wish wish;
  wish.policy = "auto";
  for (const uint64_t bits : {20, 30, 36, 40}) {
    wish.memory = {(uint64_t{1} << bits) + 12345};
    const auto config = plan_of(layers, wish);
    ASSERT_TRUE(config.ok()) << config.status().message();
    expect_one_row(*config.value(), wish);
    EXPECT_LE(config.value()->num_pages * config.value()->shards[0].page_bytes, wish.memory[0]);
    const bool filled = (config.value()->num_pages + 2) * config.value()->shards[0].page_bytes * 100 > wish.memory[0] * 90;
    const bool said = config.value()->explanation_json.find("lowered ids must fit 31 bits") != std::string::npos;
    EXPECT_TRUE(filled || said) << bits;  // no width of strips brings so many ids into 31 bits
  }
}

// Fifteen attention layers in two stages, seven and eight: lanes of the shorter stage stay empty, ids are the same.
TEST_F(Shards, UnequalStages) {
  for (const char* policy : {"vllm", "pack:4", "auto"}) {
    std::vector<quire_layer> layers;
    for (uint32_t l = 0; l < 15; ++l) layers.push_back(attention(l, 2, 16, 16));
    Wish wish;
    wish.policy = policy;
    wish.pipeline_parallel = 2;
    wish.num_pages = 40;
    const auto config = plan_of(layers, wish);
    ASSERT_TRUE(config.ok()) << config.status().message();
    expect_sound(*config.value(), layers, wish);
    std::vector<size_t> held(2, 0);
    for (uint32_t shard = 0; shard < 2; ++shard) {
      for (const PlaceViews& views : config.value()->shards[shard].views) held[shard] += views.empty() ? 0 : 1;
    }
    std::sort(held.begin(), held.end());
    EXPECT_EQ(held, (std::vector<size_t>{7, 8})) << policy;
  }
}

// Two head shapes, K and V of different width, a latent cache and its index: what is stored is the payload, nothing is stretched.
TEST_F(Shards, MixedRowsStorePayloadOnly) {
  const std::vector<std::vector<quire_layer>> models{{attention(0, 2, 16, 16), attention(1, 4, 8, 8), attention(2, 2, 16, 16)},
                                                     {attention(0, 2, 24, 16), attention(1, 2, 24, 16)},
                                                     {latent(0), indexer(0), latent(1), indexer(1)}};
  for (const auto& layers : models) {
    for (const char* policy : {"vllm", "auto"}) {
      Wish wish;
      wish.policy = policy;
      wish.num_pages = 24;
      const auto config = plan_of(layers, wish);
      ASSERT_TRUE(config.ok()) << config.status().message();
      expect_sound(*config.value(), layers, wish);
    }
  }
}

}  // namespace
}  // namespace quire
