// Shards: one id row serves every rank, whatever part of the layers, heads or tokens it holds.
#include <random>

#include "core/layout/segments.h"
#include "core/plan/compare.h"
#include "plans.h"

namespace quire {
namespace {

using namespace plans;

const quire_layer kDelta = state(3, 12288, 64, 128, 128);

TEST(Shards, StagesOfSevenAndEightAttentionLayers) {
  for (const char* policy : {"vllm", "auto"}) {
    SCOPED_TRACE(policy);
    Options options(policy, 80 * kGiB);
    options.raw.pipeline_parallel = 2;
    const auto config = planned(mixed(attention(2, 256), 15, kDelta, 45), options);
    ASSERT_EQ(config->shards.size(), 2u);
    uint32_t held[2] = {0, 0};
    for (size_t i = 0; i < config->places.size(); ++i) {
      const CachePlace& place = config->places[i];
      for (uint32_t s = 0; s < 2; ++s) EXPECT_EQ(config->shards[s].views[i].empty(), s != place.stage);
      if (!config->groups[place.group.value].is_state()) ++held[place.stage];
    }
    EXPECT_EQ(held[0] + held[1], 15u);
    EXPECT_EQ(std::min(held[0], held[1]), 7u);
    for (size_t g = 0; g < config->groups.size(); ++g) {  // the same ids, page for page
      EXPECT_EQ(config->shards[0].lowering[g].parts_per_page, config->shards[1].lowering[g].parts_per_page);
    }
    EXPECT_EQ(config->num_pages, 80 * kGiB / std::max(config->shards[0].page_bytes, config->shards[1].page_bytes));
  }
}

TEST(Shards, TheTightestRankDecides) {
  Options options("auto", 0);
  options.memory = {80 * kGiB, 60 * kGiB};
  options.raw.tensor_parallel = 2;
  const auto config = planned(mixed(attention(2, 256), 15, kDelta, 45), options);
  EXPECT_EQ(config->num_pages, 60 * kGiB / config->shards[0].page_bytes);
}

// Every rank of four keeps a quarter of the tokens in rows of its own; a kernel block spans all their tokens.
TEST(Shards, ContextParallel) {
  Options one("auto", 80 * kGiB);
  Options four = one;
  four.raw.context_parallel = 4;
  const Model model = mixed(attention(2, 256), 12, kDelta, 36);
  const auto whole = planned(model, one);
  const auto parts = planned(model, four);
  ASSERT_EQ(parts->shards.size(), 4u);
  for (size_t g = 0; g < parts->groups.size(); ++g) {
    const GroupPlan& group = parts->groups[g];
    if (group.is_state()) {
      EXPECT_EQ(group.payload_bytes_per_block, whole->groups[g].payload_bytes_per_block);  // every rank has the state
      continue;
    }
    EXPECT_EQ(group.block_tokens, 64u);
    EXPECT_EQ(group.kernel_block_tokens, 64u);
    EXPECT_EQ(group.payload_bytes_per_block, whole->groups[g].payload_bytes_per_block);  // four times the tokens on four ranks
    const quire_kv_view& view = parts->shards[3].views[group.places[0]].kv;
    EXPECT_EQ(view.block_tokens, 16u);
  }
}

// Token s is on rank s % c, and views say which: plans of different c hold the same rows in other ranks.
TEST(Shards, ContextParallelPlansAreRearranged) {
  Options one("auto", 80 * kGiB);
  Options two = one;
  two.raw.context_parallel = 2;
  const Model model = mixed(attention(2, 256), 12, kDelta, 36);
  const Compatibility found = compare(*planned(model, one), *planned(model, two));
  EXPECT_EQ(found.level, QUIRE_COMPAT_REARRANGED) << found.reason;
  EXPECT_EQ(compare(*planned(model, two), *planned(model, two)).level, QUIRE_COMPAT_IDENTICAL);
}

// Attention in the first stage, states in the second: a group is told of where its layers are, and states weigh what they weigh undivided.
TEST(Shards, GroupsAreToldOfTheStagesThatHaveThem) {
  std::vector<quire_layer> layers(8, attention(2, 256));
  for (uint32_t l = 0; l < 8; ++l) {
    if (l >= 4) layers[l] = kDelta;
    layers[l].layer = l;
  }
  const auto model = Model::create(layers, 65536);
  ASSERT_TRUE(model.ok());
  for (const char* policy : {"vllm", "auto"}) {
    Options whole(policy, 80 * kGiB);
    Options stages = whole;
    stages.raw.pipeline_parallel = 2;
    const auto config = planned(model.value(), stages);
    for (const GroupPlan& group : config->groups) {
      EXPECT_GT(group.payload_bytes_per_block, 0u) << policy;
      EXPECT_LE(group.payload_bytes_per_block, group.page_bytes_per_block) << policy;
    }
    EXPECT_EQ(config->checkpoint_tokens, planned(model.value(), whole)->checkpoint_tokens) << policy;
  }
}

quire_layer mamba2(uint32_t groups) {
  quire_layer layer = state(3, 64 * 16 + 2 * groups * 32, 64, 16, 32);
  layer.state_kind = QUIRE_STATE_MAMBA2;
  layer.num_kv_heads = groups;
  layer.state_parts[0] = 64 * 16;
  layer.state_parts[1] = layer.state_parts[2] = groups * 32;
  return layer;
}

// With fewer groups than ranks every rank repeats its group of B and C: the convolution does not shrink to a share of them.
TEST(Shards, GroupsAreRepeated) {
  for (const uint32_t ranks : {1u, 2u, 4u, 8u}) {
    Options options("auto", 8 * kGiB);
    options.raw.tensor_parallel = ranks;
    const auto config = planned(mixed(attention(8, 64), 4, mamba2(2), 12, 4096), options);
    const GroupPlan& states = config->groups[0].is_state() ? config->groups[0] : config->groups[1];
    const quire_state_view& conv = config->shards[ranks - 1].views[states.places[0]].states[0];
    const uint64_t groups = std::max(1u, 2 / ranks);
    EXPECT_EQ(conv.shape[1], 64 * 16 / ranks + 2 * groups * 32) << ranks;
    uint64_t parts = 0;
    for (const uint32_t part : conv.shard_parts) parts += part;
    EXPECT_EQ(parts, conv.shape[1] * ranks);
  }
  Options three("auto", 8 * kGiB);
  three.raw.tensor_parallel = 3;
  EXPECT_NE(refused(mixed(attention(6, 64), 4, mamba2(2), 12, 4096), three).message().find("tensor_parallel = 3"), std::string::npos);
}

TEST(Shards, PreferencesOfTheDriver) {
  const Model model = mixed(attention(2, 256), 12, kDelta, 36);
  Options options("vllm", 80 * kGiB);
  const std::string orders[] = {"BJPKTHD", "LPBJKHTD"};  // the first has no lanes, which one id per block needs
  const quire_str wanted[] = {{orders[0].data(), orders[0].size()}, {orders[1].data(), orders[1].size()}};
  options.raw.preferred_layouts = wanted;
  options.raw.num_preferred_layouts = 2;
  const auto config = planned(model, options);
  EXPECT_NE(config->explanation_json.find("preferred layout BJPKTHD is not taken: layout = "), std::string::npos);
  const GroupPlan& tokens = config->groups[0].is_state() ? config->groups.back() : config->groups[0];
  EXPECT_EQ(tokens.order, "LPBJKHTD");
  options.layout = "BLPJKTHD";  // asked for: preferences are not read
  EXPECT_EQ(planned(model, options)->explanation_json.find("preferred"), std::string::npos);
  options.layout.clear();
  options.raw.num_preferred_layouts = 17;
  EXPECT_NE(refused(model, options).message().find("num_preferred_layouts = 17"), std::string::npos);
}

TEST(Shards, PagesAreAligned) {
  for (const char* policy : {"vllm", "auto"}) {
    Options options(policy, 80 * kGiB);
    options.raw.page_alignment = uint64_t{1} << 21;
    const auto config = planned(mixed(attention(2, 256), 12, kDelta, 36), options);
    EXPECT_EQ(config->shards[0].page_bytes % (uint64_t{1} << 21), 0u) << policy;
  }
}

// Rows of one token in 4 and in 128 share a table: kernel blocks are what both can be cut by.
TEST(Shards, CompressedRows) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 6; ++i) {
    layers.push_back(latent(512));
    layers.back().layer = i;
    layers.back().compress_ratio = i % 2 == 0 ? 4 : 128;
  }
  auto model = Model::create(layers, 65536);
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (const char* policy : {"vllm", "auto"}) {
    const auto config = planned(*model, Options(policy, kGiB));
    ASSERT_EQ(config->groups.size(), 1u);
    EXPECT_EQ(config->groups[0].block_tokens, 128u);
    EXPECT_EQ(config->groups[0].payload_bytes_per_block, 3u * 1024 * (32 + 1));
    EXPECT_EQ(config->shards[0].views[1].kv.block_tokens, 1u);
  }
}

TEST(Shards, EncoderTokens) {
  std::vector<quire_layer> layers{attention(2, 64), attention(2, 64)};
  layers[1].kind = QUIRE_LAYER_CROSS;
  layers[1].encoder_tokens = 1500;
  layers[1].sub = 1;
  auto model = Model::create(layers, 448);
  ASSERT_TRUE(model.ok()) << model.status().message();
  Options options("vllm", 0);
  options.memory.clear();
  options.raw.num_pages = 1 + 28 + 94;
  EXPECT_EQ(planned(*model, options)->capacity_tokens, 448u);
  options.raw.num_pages -= 1;
  EXPECT_EQ(refused(*model, options).code(), QUIRE_RESOURCE_EXHAUSTED);
  options.raw.encoder_tokens = 1480;  // 93 blocks
  EXPECT_EQ(planned(*model, options)->capacity_tokens, 448u);
}

TEST(Shards, DraftLayersLookAhead) {
  std::vector<quire_layer> layers{attention(2, 64), attention(2, 64)};
  layers[1].layer = 1;
  layers[1].flags = QUIRE_LAYER_DRAFT;
  layers[1].look_ahead = 3;
  auto model = Model::create(layers, 4096);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto config = planned(*model, Options("auto", kGiB));
  ASSERT_EQ(config->groups.size(), 2u);
  EXPECT_EQ(config->groups[0].look_ahead, 0u);
  EXPECT_EQ(config->groups[1].look_ahead, 3u);
}

}  // namespace
}  // namespace quire
