// Method: policy auto next to policy vllm in the same bytes, in pools that hold a few conversations of a small hybrid model. Sums over
// sizes of the pool and traces: in one pool of a few pages the order of requests decides as much as the plan. Both were compared when plans
// of small pools were made (0082), and what both hit has grown since; the bars are what policy vllm hit then. What it hits
// now has grown more, so next to that auto has less room than it had (0093).
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "client/client.h"
#include "replay/replay.h"

namespace quire {
namespace {

// The model in the box (samples/lm/box) with keys, values and states of 32 bits.
constexpr const char* kModel =
    R"({"model_type":"lara_mini","architectures":["LaraMiniForCausalLM"],"hidden_size":160,"num_hidden_layers":5,"num_attention_heads":4,
    "num_key_value_heads":2,"head_dim":32,"sliding_window":64,"max_position_embeddings":8192,"linear_conv_kernel_dim":4,
    "linear_key_head_dim":32,"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_value_head_dim":32,"torch_dtype":"float32",
    "layer_types":["linear_attention","sliding_attention","linear_attention","full_attention","linear_attention"]})";

// 12 conversations of 4 turns, one turn of each after the other: the worst order for a cache that forgets what was used longest ago.
std::vector<replay::Request> conversations(uint32_t seed) {
  std::mt19937 draw(seed);
  std::vector<uint64_t> said(12);
  std::vector<replay::Request> trace;
  for (uint32_t turn = 0; turn < 4; ++turn) {
    for (uint64_t c = 0; c < said.size(); ++c) {
      replay::Request request;
      request.input_length = turn == 0 ? 820 + draw() % 80 : said[c] + 15 + draw() % 16;
      request.output_length = 20 + draw() % 41;
      request.block_tokens = 16;
      for (uint64_t i = 0; i < request.input_length; i += 16) request.hash_ids.push_back(1000 * c + i / 16);
      said[c] = request.input_length + request.output_length;
      trace.push_back(std::move(request));
    }
  }
  return trace;
}

uint64_t hit_tokens(const std::string& policy, uint64_t memory, const std::vector<replay::Request>& trace) {
  client::Error error;
  quire_model* model = nullptr;
  client::check(quire_model_from_json(client::to_str(kModel), &model, &error), error);
  const client::Model owned_model(model);
  auto plan = client::sized<quire_plan_options>();
  plan.policy = client::to_str(policy);
  plan.memory_bytes = &memory;
  plan.num_memory_bytes = 1;
  plan.max_model_len = replay::longest_request(trace);
  const client::Config config = client::plan(model, plan);
  auto limits = client::sized<quire_cache_options>();
  limits.max_sequences = 10;
  limits.max_tokens_per_step = 256;
  limits.hash_seed = 1;
  quire_cache* cache = nullptr;
  client::check(quire_cache_create(nullptr, config.get(), &limits, &cache, &error), error);
  const client::Cache owned(cache);
  replay::Options options;
  options.concurrency = 10;
  options.tokens_per_step = 256;
  const replay::Result result = replay::run(cache, trace, options);
  client::check(quire_cache_verify(cache, &error), error);
  return result.hit_tokens;
}

TEST(SmallPool, AutoHitsNoLessThanPagesOfOneStateDid) {
  uint64_t own = 0, other = 0, bars = 0;
  const struct {
    uint64_t mib, bar;
  } sizes[] = {{6, 3'312},    {8, 25'968},   {10, 78'816},  {12, 129'696}, {14, 129'696},
               {16, 129'696}, {20, 129'696}, {24, 129'696}, {32, 129'696}};
  for (const auto& [mib, bar] : sizes) {
    uint64_t own_here = 0, other_here = 0, prompts = 0;
    for (const uint32_t seed : {1, 2, 3, 4}) {
      const auto trace = conversations(seed);
      for (const replay::Request& request : trace) prompts += request.input_length;
      own_here += hit_tokens("auto", mib << 20, trace);
      other_here += hit_tokens("vllm", mib << 20, trace);
    }
    std::printf("%2llu MiB: auto %llu, vllm %llu tokens hit\n", static_cast<unsigned long long>(mib),
                static_cast<unsigned long long>(own_here), static_cast<unsigned long long>(other_here));
    EXPECT_GE(other_here, bar) << mib << " MiB";
    if (bar > prompts / 10) {
      EXPECT_GE(own_here, bar) << mib << " MiB";
      EXPECT_GE(own_here * 10, other_here * 8) << mib << " MiB";
    }
    own += own_here, other += other_here, bars += bar;
  }
  EXPECT_GE(own, bars);
  EXPECT_GE(own * 100, other * 98);
}

}  // namespace
}  // namespace quire
