// What the planner is told changes the plan: kernel blocks, layouts a driver prefers, page alignment, contiguous blocks. And what pads is
// told: rows of any shape store their payload and nothing else, or a note says why not.
#include <algorithm>

#include "core/base/checked.h"
#include "plans.h"

namespace quire {
namespace {

using namespace plans;

Model hybrid() { return mixed(attention(2, 256), 12, state(3, 8192, 32, 128, 128), 36); }

bool has_note(const Config& config, const std::string& words) { return config.explanation_json.find(words) != std::string::npos; }

TEST(Inputs, KernelsAskForLongerBlocks) {
  const auto plain = planned(hybrid(), Options("auto", 80 * kGiB));
  Options options("auto", 80 * kGiB);
  options.raw.kernel_block_tokens = 64;
  const auto longer = planned(hybrid(), options);
  EXPECT_EQ(plain->groups[1].kernel_block_tokens, 16u);
  EXPECT_EQ(longer->groups[1].kernel_block_tokens, 64u);
  EXPECT_EQ(longer->match_unit_tokens, 64u);
  EXPECT_EQ(longer->shards[0].views[longer->groups[1].places[0]].kv.block_tokens, 64u);
  EXPECT_LT(longer->padding_share, 0.01);
}

TEST(Inputs, BlocksAskedForAreNotReplaced) {
  Options options("auto", 80 * kGiB);
  options.raw.block_tokens = 128;
  const auto config = planned(hybrid(), options);
  EXPECT_EQ(config->groups[1].block_tokens, 128u);
  EXPECT_EQ(config->groups[1].kernel_blocks_per_part, 8u);
  EXPECT_EQ(config->match_unit_tokens, 128u);
}

TEST(Inputs, TheFirstPreferredLayoutThatSuits) {
  const char* const texts[] = {"BLPJKTHD", "BPJHKTD", "BPJKTHD"};  // lanes have ids of their own
  std::vector<quire_str> wanted;
  for (const char* text : texts) wanted.push_back({text, std::char_traits<char>::length(text)});
  Options options("auto", 80 * kGiB);
  options.raw.preferred_layouts = wanted.data();
  options.raw.num_preferred_layouts = wanted.size();
  const auto config = planned(hybrid(), options);
  EXPECT_EQ(config->groups[1].order, "BPJHKTD");
  EXPECT_TRUE(has_note(*config, "preferred layout BLPJKTHD is not taken"));
  EXPECT_EQ(planned(hybrid(), Options("auto", 80 * kGiB))->groups[1].order, "BPJKTHD");
}

// Pages of whole huge pages: the search knows, and takes pages that fill them.
TEST(Inputs, PageAlignmentIsPriced) {
  const uint64_t huge = uint64_t{2} << 20;
  Options options("auto", 80 * kGiB);
  options.raw.page_alignment = huge;
  const auto config = planned(hybrid(), options);
  EXPECT_EQ(config->shards[0].page_bytes % huge, 0u);
  EXPECT_LT(config->padding_share, 0.05);
  const auto plain = planned(hybrid(), Options("auto", 80 * kGiB));
  EXPECT_NE(plain->shards[0].page_bytes % huge, 0u);
}

TEST(Inputs, ContiguousTakesOneLane) {
  Options options("auto", 80 * kGiB);
  const auto apart = planned(hybrid(), options);
  options.raw.flags = QUIRE_PLAN_CONTIGUOUS;
  const auto together = planned(hybrid(), options);
  EXPECT_GT(list_segments(*apart, 0, 1, 0, 7).value().size(), 1u);
  EXPECT_EQ(together->groups[1].ids_per_block, 1u);
  EXPECT_EQ(list_segments(*together, 0, 1, 0, 7).value().size(), 1u);
}

Model made(const std::vector<quire_layer>& layers) {
  auto model = Model::create(layers, 65536);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

// Layer after layer.
Model of(std::vector<quire_layer> layers) {
  for (uint32_t i = 0; i < layers.size(); ++i) layers[i].layer = i;
  return made(layers);
}

quire_layer unequal_sides() {
  quire_layer layer = attention(4, 192);
  layer.head_dim_v = 128;
  return layer;
}

// K of 192 and V of 128 elements, latent rows beside index keys, two head shapes under one table: the payload and nothing else.
TEST(Padding, RowsOfAnyShapeStoreTheirPayload) {
  quire_layer keys = latent(128);
  keys.kind = QUIRE_LAYER_INDEXER;
  keys.sub = 1;
  std::vector<quire_layer> indexed;
  for (uint32_t i = 0; i < 8; ++i) {
    indexed.push_back(latent(576));
    indexed.back().layer = keys.layer = i;
    indexed.push_back(keys);
  }
  const std::pair<const char*, Model> models[] = {
      {"K and V", of({unequal_sides(), unequal_sides(), unequal_sides(), unequal_sides()})},
      {"latent and indexer", made(indexed)},
      {"two head shapes", of({attention(8, 128), attention(4, 64), attention(8, 128), attention(4, 64)})}};
  for (const auto& [name, model] : models) {
    for (const char* policy : {"auto", "vllm"}) {
      SCOPED_TRACE(std::string(name) + " " + policy);
      Options options(policy, 8 * kGiB);
      options.raw.page_alignment = 1;
      const auto config = planned(model, options);
      EXPECT_EQ(config->padding_share, 0);
      EXPECT_FALSE(has_note(*config, " pads ")) << config->explanation_json;
    }
  }
}

// Planes are equally long: where K and V lie in planes of their own, the narrower pads, and both the share and a note say so.
TEST(Padding, PlanesOfUnequalSidesAreTold) {
  Options options("vllm", 8 * kGiB);
  options.layout = "LPKBJTHD";
  const auto config = planned(of({unequal_sides(), unequal_sides()}), options);
  EXPECT_NEAR(config->padding_share, 1.0 - (192.0 + 128) / (2 * 192), 1e-12);
  EXPECT_TRUE(has_note(*config,
                       "group 0 pads 16.67 %: a block of 81920 bytes takes 98304 bytes of pages; layout LPKBJTHD gives K and V "
                       "planes of equal strips"))
      << config->explanation_json;
}

// Over pipeline stages payload and pages are summed; the note is of the stage that pads most.
TEST(Padding, StagesAreSummed) {
  std::vector<quire_layer> layers(15, attention(2, 128));
  Options options("vllm", 8 * kGiB);
  options.raw.pipeline_parallel = 2;
  const uint32_t stages[] = {8, 7};
  options.raw.stage_layers = stages;
  options.raw.num_stage_layers = 2;
  options.raw.page_alignment = 65536;
  const auto config = planned(of(layers), options);
  double payload = 0;
  double pages = 0;
  for (const ShardPlan& shard : config->shards) pages += static_cast<double>(shard.page_bytes);
  for (const uint32_t count : stages) payload += count * 16.0 * 2 * 128 * 2 * 2;
  EXPECT_NEAR(config->padding_share, 1 - payload / pages, 1e-12);
  const GroupPlan& group = config->groups[0];
  EXPECT_EQ(group.payload_bytes_per_block, 7u * 16 * 2 * 128 * 2 * 2);
  EXPECT_EQ(group.page_bytes_per_block, config->shards[1].page_bytes);
}

// Pages of a group in a stage that has no layer of it are unused. They are said apart.
TEST(Padding, StagesWithoutLayersAreUnused) {
  for (const char* policy : {"auto", "vllm"}) {
    Options options(policy, 8 * kGiB);
    options.raw.pipeline_parallel = 2;
    const uint32_t stages[] = {8, 9};
    options.raw.stage_layers = stages;
    options.raw.num_stage_layers = 2;
    const auto config = planned(mixed(attention(2, 128), 16, state(3, 4096, 16, 128, 128), 1), options);
    ASSERT_GE(config->groups.size(), 2u) << policy;
    double worst = 0;
    for (const GroupPlan& group : config->groups) {
      worst = std::max(worst, 1 - static_cast<double>(group.payload_bytes_per_block) / static_cast<double>(group.page_bytes_per_block));
    }
    EXPECT_LE(config->padding_share, worst + 1e-9) << policy;
    EXPECT_TRUE(has_note(*config, "of its pages unused, which is no padding: 1 of 2 stages")) << policy;
    EXPECT_FALSE(has_note(*config, "\"unused_share\": 0.000000")) << policy;
    if (std::string(policy) != "auto") continue;
    char padding[64];  // the search says the same of its choice
    std::snprintf(padding, sizeof padding, "candidates (padding %.4f %% over all stages, ", config->padding_share * 100);
    EXPECT_TRUE(has_note(*config, padding)) << padding << config->explanation_json;
    EXPECT_TRUE(has_note(*config, " % unused in stages without layers of a group"));
  }
  EXPECT_FALSE(has_note(*planned(hybrid(), Options("auto", 8 * kGiB)), "over all stages"));
  EXPECT_TRUE(has_note(*planned(hybrid(), Options("auto", 8 * kGiB)), "\"unused_share\": 0.000000"));
}

Model of_file(const std::string& specs, const std::string& layers) {
  auto model = read_layer_file(R"({"origin": "Made", "specs": [)" + specs + R"(], "layers": [)" + layers +
                               R"(], "options": {"max_model_len": 544}})");
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

// Hidden states get what fits the page of the others: 136 tokens, of which kernel blocks of 16 would reach 128 only.
TEST(Inputs, KernelBlocksDivideTheBlocksThatRulesCut) {
  const Model model = of_file(R"({"kind": "full", "block_size": 544, "num_kv_heads": 2, "head_size": 256, "dtype": "bf16"},
      {"kind": "mamba", "block_size": 544, "shapes": [[3, 8192], [32, 128, 128]], "dtypes": ["bf16", "bf16"], "mode": "align",
       "page_size_padded": 1114112},
      {"kind": "hidden_state", "block_size": 16, "num_kv_heads": 3, "head_size": 1024, "dtype": "bf16"})",
                              R"(["f", 0], ["m", 1], ["h", 2])");
  const auto config = planned(model, Options("vllm", kGiB));
  ASSERT_EQ(config->groups.size(), 3u);
  EXPECT_TRUE(has_note(*config, "layer 2: block of 136 tokens is no multiple of the kernel block of 16: its kernel block is 8"));
  for (const GroupPlan& group : config->groups) {
    EXPECT_EQ(group.kernel_block_tokens * group.kernel_blocks_per_part, group.block_tokens);
    if (group.is_state()) continue;
    const quire_kv_view& view = config->shards[0].views[group.places[0]].kv;
    EXPECT_EQ(view.block_tokens, group.kernel_block_tokens);
    EXPECT_EQ(view.blocks_per_page, group.kernel_blocks_per_part);
    EXPECT_LE(view.offset[0] + view.stride_block[0] * view.blocks_per_page, static_cast<int64_t>(config->shards[0].page_bytes));
  }
  Options asked("vllm", kGiB);
  asked.raw.kernel_block_tokens = 16;
  EXPECT_EQ(refused(model, asked).message(), "layer 2: block of 136 tokens is no multiple of the kernel block of 16 (kernel_block_tokens)");
}

TEST(Inputs, CachesOfOneLayerAreToldApart) {
  const Model model = of_file(R"({"kind": "full", "block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bf16"},
      {"kind": "mamba", "block_size": 16, "shapes": [[3, 1024], [8, 64, 128]], "dtypes": ["bf16", "fp32"], "mode": "align"})",
                              R"(["l.0.attn", 0], ["l.0.conv", 1], ["l.1.attn", 0])");
  const std::string message = refused(model, Options("vllm", kGiB)).message();
  EXPECT_EQ(message, "layer 0: caches 0 and 1: pages of 65536 and 268288 bytes, none a multiple of the other");
}

TEST(Inputs, AMatchUnitOfOneGroupDividesItsBlock) {
  const Model model = mixed(attention(2, 256), 4, state(3, 8192, 32, 128, 128), 0);
  Options options("vllm", 80 * kGiB);
  options.raw.vllm.match_unit_tokens = 8;
  EXPECT_EQ(planned(model, options)->match_unit_tokens, 8u);
  options.raw.vllm.match_unit_tokens = 24;
  const auto odd = planned(model, options);
  EXPECT_EQ(odd->match_unit_tokens, 16u);
  EXPECT_TRUE(has_note(*odd, "match_unit_tokens = 24 does not divide the block of 16 tokens of the only group, which stays the unit"));
}

TEST(Inputs, ContiguousSaysWhatStatesAre) {
  Options options("auto", 80 * kGiB);
  options.raw.flags = QUIRE_PLAN_CONTIGUOUS;
  EXPECT_TRUE(has_note(*planned(hybrid(), options), "every state is a run of its own"));
}

TEST(Inputs, MemoryWithoutItsCountNamesTheCount) {
  const uint64_t bytes = kGiB;
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.memory_bytes = &bytes;
  const auto made = plan(hybrid(), options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("num_memory_bytes = 0"), std::string::npos) << made.status().message();
}

TEST(Inputs, SizesAreThoseOfStages) {
  Options options("vllm", 80 * kGiB);
  options.raw.tensor_parallel = 2;
  options.raw.pipeline_parallel = 2;
  const auto config = planned(hybrid(), options);
  EXPECT_TRUE(has_note(*config, R"({"stage": 0, "ranks": 2, "needed_bytes")"));
  EXPECT_TRUE(has_note(*config, R"({"stage": 1, "ranks": 2, "needed_bytes")"));
}

}  // namespace
}  // namespace quire
