// Plans of every sample model in several memories: never more bytes than given, and what is told is told of the pages that are made.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/checked.h"
#include "core/plan/capacity.h"
#include "plans.h"

namespace quire {
namespace {

using plans::kGiB;
using plans::Options;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string sample(const char* name) { return text_of(std::filesystem::path(QUIRE_SAMPLE_MODELS) / name); }

// Every shard in its memory; padding and capacity from the pages as they are, payload from the segments.
void expect_honest(const Config& config, uint64_t memory, uint32_t stages = 1) {
  for (size_t s = 0; s < config.shards.size(); ++s) {
    const ShardPlan& shard = config.shards[s];
    uint64_t bytes = 0;
    for (const quire_region_info& region : shard.regions) bytes += region.bytes;
    ASSERT_LE(bytes, memory) << "shard " << s;
    ASSERT_EQ(bytes, shard.page_bytes * config.num_pages) << "shard " << s;
    for (const quire_lowering& lowering : shard.lowering) ASSERT_LT(lowering.num_lowered_ids, uint64_t{1} << 31);
  }
  // Payload of a group: what its segments of one block say, in every stage.
  const auto ranks = static_cast<uint32_t>(config.shards.size()) / stages;
  double worst = 0;
  for (uint32_t g = 0; g < config.groups.size(); ++g) {
    const GroupPlan& group = config.groups[g];
    double payload = 0;
    double pages = 0;
    for (uint32_t stage = 0; stage < stages; ++stage) {
      const double before = payload;
      for (uint32_t column = 0; column < group.ids_per_block; ++column) {
        const auto runs = list_segments(config, stage * ranks, g, column, static_cast<int32_t>(group.parts_per_page));
        ASSERT_TRUE(runs.ok()) << runs.status().message();
        for (const quire_segment& run : runs.value()) payload += static_cast<double>(run.bytes);
      }
      if (payload == before) continue;  // a stage without layers of the group: unused, and no padding
      pages += static_cast<double>(config.shards[stage * ranks].page_bytes) * group.ids_per_block / group.parts_per_page;
    }
    worst = std::max(worst, 1 - payload / pages);
  }
  ASSERT_NEAR(config.padding_share, worst, 1e-9);
  ASSERT_LE(pages_of_one(config, config.capacity_tokens), config.num_pages);
}

// Little memory refuses some models; nothing else may.
TEST(Memory, NoPlanTakesMoreThanGiven) {
  uint64_t planned = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_SAMPLE_MODELS)) {
    if (entry.path().extension() != ".json") continue;
    const std::string text = text_of(entry.path());
    const auto model = text.find("\"specs\"") != std::string::npos ? read_layer_file(text) : read_hf_config(text);
    ASSERT_TRUE(model.ok()) << entry.path() << model.status().message();
    for (const char* policy : {"vllm", "auto"}) {
      for (const uint64_t memory : {24 * kGiB, 288 * kGiB, 1024 * kGiB, 4096 * kGiB + 12345}) {
        for (const bool contiguous : {false, true}) {
          Options options(policy, memory);
          options.raw.max_model_len = std::min<uint64_t>(model.value().max_model_len() != 0 ? model.value().max_model_len() : 8192, 8192);
          if (contiguous) options.raw.flags = QUIRE_PLAN_CONTIGUOUS;
          if (contiguous && options.policy == "vllm") options.layout = "BLPJKTHD";
          SCOPED_TRACE(entry.path().filename().string() + " " + policy + " " + std::to_string(memory) + (contiguous ? " contiguous" : ""));
          const auto config = plan(model.value(), options.get());
          if (!config.ok()) {
            EXPECT_EQ(config.status().code() == QUIRE_RESOURCE_EXHAUSTED || config.status().code() == QUIRE_NOT_REPRESENTABLE, true)
                << config.status().message();
            continue;
          }
          ++planned;
          expect_honest(*config.value(), memory);
        }
      }
    }
  }
  EXPECT_GT(planned, 200u);
}

Options zamba(uint64_t memory) {
  Options options("auto", memory);
  options.raw.tensor_parallel = 2;
  return options;
}

double share_used(const Config& config, uint64_t memory) {
  return static_cast<double>(config.num_pages * config.shards[0].page_bytes) / static_cast<double>(memory);
}

// Pages of whole huge pages, two stages of two ranks: padding is counted over all of it.
TEST(Memory, AlignedPagesOfStagesAreCountedAsTheyAre) {
  uint64_t planned = 0;
  for (const char* name : {"qwen3-next-80b.json", "gpt-oss-20b.json", "deepseek-v4-pro.json", "zamba2-7b.json", "gemma-3-4b.json"}) {
    const auto model = read_hf_config(sample(name));
    ASSERT_TRUE(model.ok()) << name << model.status().message();
    for (const char* policy : {"vllm", "auto"}) {
      for (const uint64_t alignment : {uint64_t{1}, uint64_t{4096}, uint64_t{2} << 20}) {
        for (const uint32_t stages : {1u, 2u, 3u}) {
          Options options(policy, 300 * kGiB);
          options.raw.max_model_len = 8192;
          options.raw.page_alignment = alignment;
          options.raw.pipeline_parallel = stages;
          options.raw.tensor_parallel = 2;
          SCOPED_TRACE(std::string(name) + " " + policy + " " + std::to_string(alignment) + " in " + std::to_string(stages));
          const auto config = plan(model.value(), options.get());
          ASSERT_TRUE(config.ok()) << config.status().message();
          ++planned;
          for (const ShardPlan& shard : config.value()->shards) ASSERT_EQ(shard.page_bytes % alignment, 0u);
          expect_honest(*config.value(), 300 * kGiB, stages);
        }
      }
    }
  }
  EXPECT_EQ(planned, 90u);
}

// Kernel blocks and pages are multiples of one step, so that ids of 31 bits reach every byte.
TEST(Memory, IdsReachAllOfIt) {
  const auto model = read_hf_config(sample("zamba2-7b.json"));
  ASSERT_TRUE(model.ok());
  for (const uint64_t memory : {64 * kGiB, 1024 * kGiB, 4096 * kGiB, 8192 * kGiB + 777}) {
    const auto config = plan(model.value(), zamba(memory).get());
    ASSERT_TRUE(config.ok()) << config.status().message();
    expect_honest(*config.value(), memory);
    EXPECT_GT(share_used(*config.value(), memory), 0.999);
    EXPECT_LT(config.value()->padding_share, 0.01);
    const uint64_t step = ceil_div(memory, uint64_t{1} << 31);
    for (const GroupPlan& group : config.value()->groups) {
      const PlaceViews& views = config.value()->shards[0].views[group.places[0]];
      EXPECT_GE(static_cast<uint64_t>(group.is_state() ? views.states[0].unit : views.kv.unit[0]), step);
    }
  }
}

// Lanes of two stages differ in length; both reach all of their memory.
TEST(Memory, IdsReachAllOfEveryStage) {
  const auto model = read_hf_config(sample("deepseek-v4-pro.json"));
  ASSERT_TRUE(model.ok());
  for (const uint64_t memory : {80 * kGiB, 1024 * kGiB}) {
    for (const uint32_t stages : {1u, 2u, 3u}) {
      Options options("auto", memory);
      options.raw.kv_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
      options.raw.pipeline_parallel = stages;
      options.raw.max_model_len = 65536;
      const auto config = plan(model.value(), options.get());
      ASSERT_TRUE(config.ok()) << config.status().message();
      expect_honest(*config.value(), memory, stages);
      EXPECT_EQ(config.value()->explanation_json.find("31 bits"), std::string::npos) << config.value()->explanation_json;
      uint64_t widest = 0;
      for (const ShardPlan& shard : config.value()->shards) widest = std::max(widest, shard.page_bytes);
      EXPECT_GE(config.value()->num_pages + 1, memory / widest);
    }
  }
}

// The same for a number of pages.
TEST(Memory, IdsReachAllPages) {
  const auto model = read_hf_config(sample("zamba2-7b.json"));
  ASSERT_TRUE(model.ok());
  Options options = zamba(0);
  options.memory.clear();
  options.raw.num_pages = 1000000;
  const auto config = plan(model.value(), options.get());
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config.value()->num_pages, 1000000u);
  EXPECT_LT(config.value()->padding_share, 0.01);
}

// Where the order asked for cuts kernel blocks, nothing can be rounded: there are fewer pages, and the explanation says so.
TEST(Memory, MorePagesThanIdsAreCappedAndSaidSo) {
  const auto model = read_hf_config(sample("zamba2-7b.json"));
  ASSERT_TRUE(model.ok());
  Options options = zamba(1024 * kGiB);
  options.layout = "BPKJTHD";
  const auto config = plan(model.value(), options.get());
  ASSERT_TRUE(config.ok()) << config.status().message();
  expect_honest(*config.value(), 1024 * kGiB);
  const std::string& words = config.value()->explanation_json;
  EXPECT_TRUE(words.find("lowered ids must fit 31 bits") != std::string::npos || words.find("is taken") != std::string::npos) << words;
  EXPECT_GT(share_used(*config.value(), 1024 * kGiB), 0.9);  // the cheapest candidate reaches half
}

}  // namespace
}  // namespace quire
