#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "core/layout/segments.h"
#include "core/model/dtype.h"
#include "core/plan/cache_config.h"
#include "core/plan/capacity.h"

namespace quire {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Model sample(const char* name) {
  auto made = read_hf_config(read_file(std::filesystem::path(QUIRE_SAMPLE_MODELS) / name));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

// 48 layers, every fourth attention; states in the model's bfloat16 unless `extra` says otherwise.
Model qwen_next(const char* extra = "") {
  const std::string text = std::string(R"({"architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 48, "full_attention_interval": 4,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144)") +
                           extra + "}";
  auto made = read_hf_config(text);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

struct Options {
  quire_plan_options raw{};
  std::vector<uint64_t> memory;

  explicit Options(uint64_t bytes) : memory{bytes} {
    raw.struct_size = sizeof raw;
    raw.policy = {"vllm", 4};
  }
  const quire_plan_options& get() {
    raw.memory_bytes = memory.data();
    raw.num_memory_bytes = memory.size();
    return raw;
  }
};

std::shared_ptr<const Config> planned(const Model& model, Options options) {
  auto made = plan(model, options.get());
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : std::make_shared<const Config>();
}

Status refused(const Model& model, Options options) {
  auto made = plan(model, options.get());
  EXPECT_FALSE(made.ok());
  return made.take_status();
}

// 60 layers, every fourth attention with 2 KV heads of 256, the others gated delta nets with 64 value heads and fp32 matrices.
Model large_hybrid() {
  std::vector<quire_layer> layers(60);
  for (uint32_t i = 0; i < 60; ++i) {
    quire_layer& layer = layers[i];
    layer.struct_size = sizeof layer;
    layer.layer = i;
    layer.dtype = kBFloat16;
    if (i % 4 == 3) {
      layer.kind = QUIRE_LAYER_FULL;
      layer.num_kv_heads = 2;
      layer.num_q_heads = 32;
      layer.head_dim_k = layer.head_dim_v = 256;
    } else {
      layer.kind = QUIRE_LAYER_STATE;
      layer.state_kind = QUIRE_STATE_GDN;
      layer.num_state_tensors = 2;
      layer.state[0] = {kBFloat16, 2, {3, 12288, 0, 0}};
      layer.state[1] = {kFloat32, 3, {64, 128, 128, 0}};
      layer.state_shard[0] = 2;
      layer.state_shard[1] = 1;
    }
  }
  auto made = Model::create(layers, 262144);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

TEST(Plan, LargeHybridAtTwoWayTensorParallelism) {
  Options options(80 * kGiB);
  options.raw.tensor_parallel = 2;
  const auto config = planned(large_hybrid(), options);
  ASSERT_EQ(config->groups.size(), 4u);  // three of 15 states, one of 15 attention layers, in order of appearance
  EXPECT_TRUE(config->groups[0].is_state());
  EXPECT_FALSE(config->groups[3].is_state());
  for (const GroupPlan& group : config->groups) {
    EXPECT_EQ(group.block_tokens, 2096u);
    EXPECT_EQ(group.num_lanes, 15u);
    EXPECT_EQ(group.ids_per_block, 1u);
  }
  EXPECT_EQ(config->groups[3].kernel_blocks_per_part, 131u);
  ASSERT_EQ(config->shards.size(), 2u);
  EXPECT_EQ(config->shards[0].page_bytes, 15u * 2146304);
  EXPECT_EQ(config->num_pages, 80 * kGiB / (15u * 2146304));
  EXPECT_EQ(config->match_unit_tokens, 2096u);
  EXPECT_EQ(config->hit_alignment_tokens, 2096u);
  EXPECT_EQ(config->groups[0].payload_bytes_per_block, 15u * 2134016);
  EXPECT_NEAR(config->padding_share, 12288.0 / 2146304, 1e-12);
  EXPECT_EQ(config->capacity_tokens, 262144u);
  const CachePlace* place = config->find(3, 0);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(place->group, GroupId(3));
  const PlaceViews& views = config->shards[1].views[static_cast<size_t>(place - config->places.data())];
  EXPECT_EQ(views.kv.num_heads, 1u);
  EXPECT_EQ(views.kv.group, 3u);
  EXPECT_EQ(config->find(60, 0), nullptr);
}

TEST(Plan, QwenNextGeometry) {
  const auto config = planned(qwen_next(), Options(40 * kGiB));
  ASSERT_EQ(config->groups.size(), 4u);
  for (const GroupPlan& group : config->groups) EXPECT_EQ(group.block_tokens, 544u);
  EXPECT_EQ(config->shards[0].page_bytes, 12u * 1114112);
  EXPECT_EQ(config->groups[3].order, "BLPJKTHD");
  EXPECT_EQ(config->groups[0].order, "BLPJ");
  ASSERT_EQ(config->shards[0].regions.size(), 1u);
  EXPECT_EQ(config->shards[0].regions[0].page_stride, 12u * 1114112);
  EXPECT_NE(config->explanation_json.find("\"match_unit_tokens\": 544"), std::string::npos) << config->explanation_json;
}

TEST(Plan, WiderStatesGrowTheBlock) {
  const auto config = planned(qwen_next(R"(, "mamba_ssm_dtype": "float32")"), Options(40 * kGiB));
  for (const GroupPlan& group : config->groups) EXPECT_EQ(group.block_tokens, 1056u);  // 49,152 + 2,097,152 bytes / 2,048 per token
  EXPECT_EQ(config->shards[0].page_bytes, 12u * 2162688);
}

TEST(Plan, WindowsRetainTokensForDrafts) {
  Options options(16 * kGiB);
  options.raw.policy = {"vllm", 4};
  options.raw.max_tokens_in_flight = 64;
  const auto without = planned(sample("gpt-oss-20b.json"), options);
  options.raw.vllm.retained_tokens = 40;
  const auto with = planned(sample("gpt-oss-20b.json"), options);
  ASSERT_EQ(with->groups.size(), 2u);
  EXPECT_EQ(without->groups[0].live.retained, 0u);
  EXPECT_EQ(with->groups[0].live.retained, 40u);
  EXPECT_EQ(with->groups[0].live.window, 128u);
  EXPECT_EQ(with->groups[1].live.retained, 0u) << "full attention keeps everything anyway";
  const auto blocks = [](const Config& c) { return blocks_needed(c.groups[0], c.max_tokens_in_flight, 4096); };
  EXPECT_EQ(blocks(*with), blocks(*without) + 3) << "127 + 64 tokens, and 40 more, in blocks of 16";
}

TEST(Plan, SampleModelsPlan) {
  for (const char* name : {"qwen3-next-80b.json", "llama-3.1-8b.json", "gpt-oss-20b.json"}) {
    EXPECT_FALSE(planned(sample(name), Options(80 * kGiB))->groups.empty()) << name;
  }
}

TEST(Plan, GptOssHasTwoGroupsOfTwelve) {
  const auto config = planned(sample("gpt-oss-20b.json"), Options(16 * kGiB));
  ASSERT_EQ(config->groups.size(), 2u);
  EXPECT_EQ(config->groups[0].live.window, 128u);
  EXPECT_EQ(config->groups[0].num_lanes, 12u);
  EXPECT_EQ(config->groups[1].num_lanes, 12u);
  EXPECT_TRUE(config->groups[1].live.everything());
  EXPECT_EQ(config->match_unit_tokens, 16u);
  EXPECT_EQ(config->shards[0].page_bytes, 12u * 16 * 8 * 128 * 2);
  EXPECT_EQ(config->padding_share, 0);
}

quire_layer attention(uint32_t index, uint64_t window) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.layer = index;
  layer.kind = window != 0 ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL;
  layer.window = window;
  layer.num_kv_heads = 2;
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype = kFloat32;
  return layer;
}

Model model_of(const std::vector<quire_layer>& layers, uint64_t length) {
  auto made = Model::create(layers, length);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

TEST(Plan, FiveWindowsToOneFull) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 34; ++i) layers.push_back(attention(i, i % 6 == 5 ? 0 : 1024));
  const auto config = planned(model_of(layers, 32768), Options(kGiB));
  ASSERT_EQ(config->groups.size(), 7u);
  EXPECT_EQ(config->groups[5].num_lanes, 4u);
  EXPECT_TRUE(config->groups[6].live.everything());
  EXPECT_EQ(config->shards[0].page_bytes, 5u * 16 * 2 * 16 * 4);
  EXPECT_NEAR(config->padding_share, 0.2, 1e-12);  // the group of 4 in a page for 5
  EXPECT_EQ(config->groups[6].places, (std::vector<uint32_t>{5, 11, 17, 23, 29}));
}

// A window: ceil((128 - 1 + 64) / 16) + 1 blocks; full: 1024 / 16; the null page.
TEST(Plan, FitCountsTheNullPageAndTheWorstCase) {
  const Model model = model_of({attention(0, 128), attention(1, 0)}, 1024);
  const uint64_t page = 16 * 2 * 16 * 4;
  const uint64_t needed = 1 + (12 + 1) + 64;
  Options options(needed * page);
  options.raw.max_tokens_in_flight = 64;
  auto config = planned(model, options);
  EXPECT_EQ(config->num_pages, needed);
  EXPECT_EQ(config->capacity_tokens, 1024u);
  options.memory[0] = needed * page - 1;
  const Status status = refused(model, options);
  EXPECT_EQ(status.code(), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_NE(status.message().find("needs 78 pages = 159744 bytes"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("given are 77 pages"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("1008 tokens would fit"), std::string::npos) << status.message();
  options.raw.max_model_len = 1008;
  config = planned(model, options);
  EXPECT_EQ(config->capacity_tokens, 1008u);
}

TEST(Plan, NumPagesOverridesMemory) {
  const Model model = model_of({attention(0, 0)}, 64);
  Options options(1000000);
  options.raw.num_pages = 9;
  EXPECT_EQ(planned(model, options)->num_pages, 9u);
  options.memory.clear();
  EXPECT_EQ(planned(model, options)->num_pages, 9u);
  options.memory = {9 * 2048 - 1};
  EXPECT_EQ(refused(model, options).code(), QUIRE_RESOURCE_EXHAUSTED);
  options.memory.clear();
  options.raw.num_pages = 0;
  EXPECT_EQ(refused(model, options).code(), QUIRE_INVALID_ARGUMENT);
}

TEST(Plan, StatesNeedFourSlots) {
  quire_layer state{};
  state.struct_size = sizeof state;
  state.layer = 1;
  state.kind = QUIRE_LAYER_STATE;
  state.num_state_tensors = 1;
  state.state[0] = {kFloat32, 1, {1000, 0, 0, 0}};
  const Model model = model_of({attention(0, 0), state}, 64);
  Options options(kGiB);
  options.raw.num_pages = 1 + 2 + 4;  // 4,000 bytes take 32 tokens of 128: two blocks for 64 tokens
  const auto config = planned(model, options);
  EXPECT_EQ(config->groups[0].block_tokens, 32u);
  options.raw.num_pages = 6;
  EXPECT_EQ(refused(model, options).code(), QUIRE_RESOURCE_EXHAUSTED);
  options.raw.num_pages = 7;
  options.raw.flags = QUIRE_PLAN_NO_PREFIX_REUSE;
  EXPECT_EQ(planned(model, options)->groups[1].block_tokens, 64u);  // one block longer than any sequence
}

TEST(Plan, PipelineStagesKeepAllGroups) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 6; ++i) layers.push_back(attention(i, i < 3 ? 32 : 0));
  Options options(0);
  options.raw.pipeline_parallel = 2;
  options.memory = {3000000, 2000000};
  const auto config = planned(model_of(layers, 256), options);
  ASSERT_EQ(config->shards.size(), 2u);
  EXPECT_EQ(config->num_pages, 2000000u / (3 * 2048));
  EXPECT_EQ(config->groups.size(), 2u);
  for (uint32_t i = 0; i < 6; ++i) {
    const uint32_t stage = i < 3 ? 0 : 1;
    EXPECT_EQ(config->places[i].stage, stage);
    EXPECT_FALSE(config->shards[stage].views[i].empty());
    EXPECT_TRUE(config->shards[1 - stage].views[i].empty());
  }
  const auto runs = list_segments(*config, 1, 0, 0, 3);  // the window group has nothing on the second stage
  ASSERT_TRUE(runs.ok());
  EXPECT_TRUE(runs.value().empty());
}

TEST(Plan, SharedCachesHaveTheirTargetsPlace) {
  std::vector<quire_layer> layers{attention(0, 0), attention(1, 64), attention(2, 0)};
  layers[2].shares_with = 1;
  const auto config = planned(model_of(layers, 256), Options(kGiB));
  ASSERT_EQ(config->places.size(), 3u);
  EXPECT_EQ(config->places[2].group, config->places[0].group);
  EXPECT_EQ(config->shards[0].views[2].kv.offset[1], config->shards[0].views[0].kv.offset[1]);
  EXPECT_EQ(config->groups[0].places, (std::vector<uint32_t>{0}));
  EXPECT_EQ(config->groups[0].payload_bytes_per_block, 2048u);
  Options options(kGiB);
  options.raw.pipeline_parallel = 3;
  EXPECT_EQ(refused(model_of(layers, 256), options).code(), QUIRE_INVALID_ARGUMENT);
}

TEST(Plan, LayoutsAreHonoured) {
  const Model model = model_of({attention(0, 0), attention(1, 0)}, 256);
  Options options(kGiB);
  const std::string lanes = "LPKBJTHD";
  options.raw.layout = {lanes.data(), lanes.size()};
  const auto config = planned(model, options);
  EXPECT_EQ(config->shards[0].regions.size(), 2u);
  EXPECT_EQ(config->shards[0].regions[0].num_planes, 2u);
  EXPECT_EQ(config->groups[0].order, lanes);
  options.raw.flags = QUIRE_PLAN_CONTIGUOUS;
  EXPECT_EQ(refused(model, options).code(), QUIRE_INVALID_ARGUMENT);
  // Beside states K moves into the page, and the plan says so.
  options.raw.flags = 0;
  const auto hybrid = planned(qwen_next(), [&] {
    Options large(40 * kGiB);
    large.raw.layout = options.raw.layout;
    return large;
  }());
  EXPECT_EQ(hybrid->groups[3].order, "LPBJKTHD");
  EXPECT_EQ(hybrid->shards[0].regions.size(), 12u);
  EXPECT_NE(hybrid->explanation_json.find("re-strided to LPBJKTHD"), std::string::npos);
}

TEST(Plan, RefusalsNameWhatIsWrong) {
  const Model model = model_of({attention(0, 0)}, 256);
  const auto message = [&](auto change, quire_code code) {
    Options options(kGiB);
    change(options);
    const Status status = refused(model, options);
    EXPECT_EQ(status.code(), code) << status.message();
    return status.message();
  };
  const auto text = [](const char* s) { return quire_str{s, std::char_traits<char>::length(s)}; };
  for (const char* bad : {"pack:", "pack:0", "pack:3x", "pack:-1", "pack:1025", "Auto"}) {
    EXPECT_NE(message([&](Options& o) { o.raw.policy = text(bad); }, QUIRE_INVALID_ARGUMENT).find(bad), std::string::npos);
  }
  EXPECT_NE(message([&](Options& o) { o.raw.policy = text("best"); }, QUIRE_INVALID_ARGUMENT).find("\"best\""), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.tensor_parallel = 3; }, QUIRE_INVALID_ARGUMENT).find("num_kv_heads = 2"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.pipeline_parallel = 2; }, QUIRE_INVALID_ARGUMENT).find("pipeline_parallel = 2"),
            std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.context_parallel = 2000; }, QUIRE_INVALID_ARGUMENT).find("context_parallel = 2000"),
            std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.block_tokens = 24; }, QUIRE_INVALID_ARGUMENT).find("block_tokens = 24"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.flags = 1u << 20; }, QUIRE_INVALID_ARGUMENT).find("flags = 0x100000"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.max_model_len = uint64_t{1} << 40; }, QUIRE_INVALID_ARGUMENT).find("max_model_len"),
            std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.kv_dtype = {9, 7, 1}; }, QUIRE_INVALID_ARGUMENT).find("kv_dtype"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.raw.vllm.state_mode = 7; }, QUIRE_INVALID_ARGUMENT).find("state_mode = 7"), std::string::npos);
  EXPECT_NE(message([&](Options& o) { o.raw.layout = text("BPJKTHD"); }, QUIRE_INVALID_ARGUMENT).find("letter L"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.memory = {1, 2, 3}; }, QUIRE_INVALID_ARGUMENT).find("num_memory_bytes = 3"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.memory[0] = 2 * 2048 - 1; }, QUIRE_RESOURCE_EXHAUSTED).find("need 4096 bytes"), std::string::npos);
  EXPECT_NE(message([](Options& o) { o.memory[0] = 0; }, QUIRE_RESOURCE_EXHAUSTED).find("memory_bytes of shard 0 is 0"), std::string::npos);
  message([](Options& o) { o.memory[0] = ~uint64_t{0}; }, QUIRE_OUT_OF_RANGE);
  message(
      [](Options& o) {
        o.memory.clear();
        o.raw.num_pages = uint64_t{1} << 60;
      },
      QUIRE_OUT_OF_RANGE);
}

TEST(Plan, KvDtypeReplacesTokenCachesOnly) {
  Options options(40 * kGiB);
  options.raw.kv_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  const auto config = planned(qwen_next(), options);
  EXPECT_EQ(config->groups[3].block_tokens, 1072u);  // 1,097,728 bytes of state / 1,024 per token
  EXPECT_EQ(config->shards[0].views[0].states[0].dtype.bits, 16);
  EXPECT_EQ(config->shards[0].views[3].kv.dtype.bits, 8);
}

// Random models: segments of all groups over randomly owned pages never meet, and cover the payload.
TEST(Plan, PagesOwnedAtRandomNeverOverlap) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const char* const layouts[] = {"", "LPBJKTHD", "LPKBJTHD", "BJLPKTHD", "BJHLPKTD", "LPBJTHKD", "LBJPKTHD", "BLPKJTHD"};
  for (int round = 0; round < 100; ++round) {
    std::vector<quire_layer> layers;
    const uint32_t count = 2 + random() % 8;
    for (uint32_t i = 0; i < count; ++i) {
      quire_layer layer = attention(i, random() % 3 == 0 ? 16 + random() % 40 : 0);
      if (random() % 3 == 0) {
        layer = quire_layer{};
        layer.struct_size = sizeof layer;
        layer.layer = i;
        layer.kind = QUIRE_LAYER_STATE;
        layer.num_state_tensors = 2;
        layer.state[0] = {kBFloat16, 2, {3, 50, 0, 0}};
        layer.state[1] = {kFloat32, 3, {2, 8, 16, 0}};
      }
      layers.push_back(layer);
    }
    Options options(0);
    options.memory.clear();
    options.raw.num_pages = 64;  // at most 10 groups of 5 blocks, and the null page
    const char* layout = layouts[random() % 8];
    options.raw.layout = {layout, std::char_traits<char>::length(layout)};
    options.raw.max_tokens_in_flight = 8;
    options.raw.kernel_block_tokens = options.raw.block_tokens = 4;
    const auto config = planned(model_of(layers, 20), options);
    if (config->groups.empty()) return;
    std::vector<std::vector<uint8_t>> owned;
    for (const quire_region_info& region : config->shards[0].regions) owned.emplace_back(region.bytes, 0);
    for (int32_t page = 0; page < 64; ++page) {
      const uint32_t g = random() % config->groups.size();
      const auto runs = list_segments(*config, 0, g, 0, page);
      ASSERT_TRUE(runs.ok());
      uint64_t bytes = 0;
      for (const quire_segment& run : runs.value()) {
        bytes += run.bytes;
        ASSERT_LE(run.offset + run.bytes, owned[run.region].size());
        for (uint64_t i = run.offset; i < run.offset + run.bytes; ++i) ASSERT_EQ(owned[run.region][i]++, 0);
      }
      ASSERT_EQ(bytes, config->groups[g].payload_bytes_per_block);
    }
  }
}

TEST(Plan, PublishedConfigs) {
  int plans = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_MODEL_CONFIGS)) {
    const auto model = read_hf_config(read_file(entry.path()));
    if (!model.ok()) continue;
    Options options(uint64_t{512} * kGiB);
    if (model.value().max_model_len() > 4'000'000) options = Options(uint64_t{4096} * kGiB);
    const auto config = planned(model.value(), options);
    ASSERT_FALSE(config->groups.empty()) << entry.path();
    EXPECT_EQ(config->capacity_tokens, model.value().max_model_len()) << entry.path();
    if (entry.path().filename() == "Qwen--Qwen3.5-397B-A17B_config.json") {
      options.raw.tensor_parallel = 2;
      const auto two = planned(model.value(), options);
      EXPECT_EQ(two->groups[0].block_tokens, 2096u);
      EXPECT_EQ(two->shards[0].page_bytes, 15u * 2146304);
    }
    ++plans;
  }
  EXPECT_GT(plans, 10);
}

}  // namespace
}  // namespace quire
