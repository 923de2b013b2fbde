// Method: the simulated tier between two bounds on a made trace. Without limits each prompt finds what a cache finds that evicts nothing,
// but for its last unit; a tier in which nothing fits changes next to nothing. In between its bytes stay below its size. Models with full
// attention alone, with windows, with states.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "replay/generate.h"
#include "replay/replay_oracle.h"
#include "replay/replay_tier.h"

namespace quire {
namespace {

constexpr uint32_t kConcurrency = 8;

struct Replayed {
  replay::Result result;
  replay::TierCounts tier;
  uint64_t kept_bytes = 0, evicted_units = 0;
  std::vector<uint32_t> infinite;  // tokens that each prompt finds where nothing is evicted
  uint64_t unit_tokens = 0;
};

Replayed replayed(const std::string& model_json, uint64_t memory, const std::vector<replay::Request>& trace, uint64_t capacity) {
  client::Error error;
  quire_model* model = nullptr;
  client::check(quire_model_from_json(client::to_str(model_json), &model, &error), error);
  const client::Model owned_model(model);
  auto plan = client::sized<quire_plan_options>();
  plan.policy = client::to_str("auto");
  plan.memory_bytes = &memory;
  plan.num_memory_bytes = 1;
  plan.max_model_len = replay::longest_request(trace);
  const client::Config config = client::plan(model, plan);
  auto limits = client::sized<quire_cache_options>();
  limits.max_sequences = kConcurrency;
  limits.max_tokens_per_step = 2048;
  limits.max_loads = 1;
  limits.max_load_tokens = plan.max_model_len;
  limits.hash_seed = 1;
  quire_cache* cache = nullptr;
  client::check(quire_cache_create(nullptr, config.get(), &limits, &cache, &error), error);
  const client::Cache owned(cache);
  replay::Options options;
  options.concurrency = kConcurrency;
  options.tokens_per_step = 2048;
  replay::UnitStore store(capacity);
  std::optional<replay::Tier> tier;
  if (capacity != 0) options.tier = &tier.emplace(cache, config.get(), &store);
  Replayed out;
  out.result = replay::run(cache, trace, options);
  client::check(quire_cache_verify(cache, &error), error);
  auto stats = client::sized<quire_cache_stats>();
  client::check(quire_cache_get_stats(cache, &stats, &error), error);
  EXPECT_EQ(stats.loads, 0u);
  if (tier) out.tier = tier->counts(), out.unit_tokens = tier->unit_tokens();
  out.kept_bytes = store.bytes(), out.evicted_units = store.num_evicted();
  const replay::Sizes sizes = replay::sizes_of(config.get());
  const replay::Content content = replay::content_of(trace, sizes.unit_tokens, options.max_output);
  out.infinite = replay::simulate(replay::Oracle::kInfinite, trace, content, sizes, replay::work_of(model, 0), options);
  return out;
}

struct Shape {
  const char* name;
  const char* json;
  uint64_t memory;
  double share;  // of what is found where nothing is evicted: states are kept at some boundaries only
};

constexpr Shape kShapes[] = {
    {"full", R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":512,"num_hidden_layers":8,"num_attention_heads":8,
      "num_key_value_heads":8,"head_dim":64,"max_position_embeddings":131072,"torch_dtype":"bfloat16"})",
     uint64_t{512} << 20, 0.97},
    {"windows", R"({"model_type":"gpt_oss","architectures":["GptOssForCausalLM"],"hidden_size":512,"num_hidden_layers":4,
      "num_attention_heads":8,"num_key_value_heads":8,"head_dim":64,"sliding_window":128,"layer_types":["sliding_attention",
      "full_attention","sliding_attention","full_attention"],"max_position_embeddings":131072,"torch_dtype":"bfloat16"})",
     uint64_t{192} << 20, 0.97},
    {"states", R"({"model_type":"qwen3_next","architectures":["Qwen3NextForCausalLM"],"dtype":"bfloat16","num_hidden_layers":8,
      "full_attention_interval":4,"hidden_size":512,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":128,
      "linear_num_key_heads":4,"linear_num_value_heads":8,"linear_key_head_dim":64,"linear_value_head_dim":64,
      "linear_conv_kernel_dim":4,"mamba_ssm_dtype":"float32","max_position_embeddings":131072})",
     uint64_t{192} << 20, 0.9},
};

class ReplayTier : public testing::TestWithParam<Shape> {};

TEST_P(ReplayTier, FindsWhatNothingEvictedWouldHave) {
  const auto trace = replay::make_trace("conversations:150", 5);
  const Replayed without = replayed(GetParam().json, GetParam().memory, trace, 0);
  const Replayed all = replayed(GetParam().json, GetParam().memory, trace, uint64_t{1} << 50);
  uint64_t found = 0, infinite = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    ASSERT_LE(all.result.found[i], all.infinite[i]) << "request " << i << " found what nobody has computed";
    found += all.result.found[i];
    infinite += all.infinite[i];
  }
  EXPECT_GE(static_cast<double>(found), GetParam().share * static_cast<double>(infinite));
  EXPECT_EQ(all.result.hit_tokens + all.result.tier_tokens, found);
  EXPECT_LT(static_cast<double>(without.result.hit_tokens), 0.8 * static_cast<double>(infinite)) << "the pool is too large for this test";
  EXPECT_EQ(all.evicted_units, 0u);
  EXPECT_LE(all.kept_bytes, all.tier.stored_bytes) << "a unit is stored again where its end has a state now";
  EXPECT_LT(all.result.computed_tokens, without.result.computed_tokens);
}

TEST_P(ReplayTier, WhereNothingFitsNothingChanges) {
  const auto trace = replay::make_trace("conversations:100", 5);
  const Replayed without = replayed(GetParam().json, GetParam().memory, trace, 0);
  const Replayed tiny = replayed(GetParam().json, GetParam().memory, trace, 1);
  // Until they are taken, units keep blocks of windows that the pool would have given away.
  const auto hits = static_cast<double>(without.result.hit_tokens);
  EXPECT_NEAR(static_cast<double>(tiny.result.hit_tokens), hits, 0.1 * hits);
  EXPECT_EQ(tiny.result.tier_tokens, 0u);
  EXPECT_EQ(tiny.tier.stored_units, 0u);
  EXPECT_EQ(tiny.tier.loads, 0u);
}

TEST_P(ReplayTier, KeepsToItsSize) {
  const auto trace = replay::make_trace("conversations:150", 5);
  const Replayed all = replayed(GetParam().json, GetParam().memory, trace, uint64_t{1} << 50);
  const Replayed half = replayed(GetParam().json, GetParam().memory, trace, all.kept_bytes / 2);
  EXPECT_GT(half.evicted_units, 0u);
  EXPECT_LE(half.kept_bytes, all.kept_bytes / 2);
  EXPECT_GT(half.result.tier_tokens, 0u);
  EXPECT_LE(half.result.hit_tokens + half.result.tier_tokens, all.result.hit_tokens + all.result.tier_tokens);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ReplayTier, testing::ValuesIn(kShapes), [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace quire
