// Method: the replay against arithmetic it must satisfy (every token is computed or hit, once), traces by example.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "client/client.h"
#include "replay/replay.h"

namespace quire {
namespace {

using replay::Request;

client::Config small_plan(uint64_t pages, uint64_t max_len) {
  auto layer = client::sized<quire_layer>();
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = 1;
  layer.num_q_heads = 1;
  layer.head_dim_k = layer.head_dim_v = 16;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  quire_model* model = nullptr;
  client::Error error;
  client::check(quire_model_create(&layer, sizeof layer, 1, 65536, &model, &error), error);
  const client::Model owned(model);
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str("vllm");
  options.num_pages = pages;
  options.max_model_len = max_len;
  return client::plan(model, options);
}

replay::Result run(const std::vector<Request>& trace, uint64_t pages, uint64_t max_len, replay::Options options) {
  const client::Config config = small_plan(pages, max_len);
  auto limits = client::sized<quire_cache_options>();
  limits.max_sequences = options.concurrency;
  limits.max_tokens_per_step = options.tokens_per_step;
  quire_cache* cache = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config.get(), &limits, &cache, &error), error);
  const client::Cache owned(cache);
  const replay::Result result = replay::run(cache, trace, options);
  client::check(quire_cache_verify(cache, &error), error);
  return result;
}

TEST(Replay, ComputesEveryTokenThatIsNotHit) {
  const auto trace = replay::generate_trace(100, 3);
  const replay::Result result = run(trace, 65536, 16384, {});
  uint64_t prompts = 0;
  uint64_t outputs = 0;
  for (const Request& request : trace) {
    prompts += request.input_length;
    outputs += request.output_length - 1;  // the last one is never fed back
  }
  EXPECT_EQ(result.requests, 100u);
  EXPECT_EQ(result.preemptions, 0u);
  EXPECT_EQ(result.prompt_tokens, prompts);
  EXPECT_GT(result.hit_tokens, prompts / 10);
  EXPECT_EQ(result.computed_tokens, prompts - result.hit_tokens + outputs);
}

TEST(Replay, FinishesWhereItMustPreempt) {
  const auto trace = replay::generate_trace(60, 3);
  const uint64_t longest = replay::longest_request(trace);
  replay::Options options;
  options.concurrency = 16;
  options.tokens_per_step = 512;
  options.whole_prompts = false;
  const replay::Result result = run(trace, longest / 16 * 2, longest, options);
  EXPECT_EQ(result.requests, 60u);
  EXPECT_GT(result.preemptions, 0u);
}

TEST(Replay, BeginsARequestWhereThereIsRoomForWhatTheRunningOnesWillGenerate) {
  std::vector<Request> trace;
  for (uint64_t i = 0; i < 200; ++i) {
    Request request;
    request.input_length = 160;
    request.output_length = 320;
    request.hash_ids = {i};
    trace.push_back(request);
  }
  replay::Options options;
  options.concurrency = 16;
  const replay::Result result = run(trace, 161, 2560, options);  // five whole requests, or 16 prompts
  EXPECT_EQ(result.requests, 200u);
  EXPECT_LE(result.preemptions, 16u) << "only before any has ended";
  options.whole_prompts = false;
  EXPECT_GT(run(trace, 161, 2560, options).preemptions, 100u);
}

// A turn stands behind the answer before it: it finds it, however many requests may run at once.
TEST(Replay, ATurnWaitsForTheOneBeforeIt) {
  std::vector<Request> trace;
  uint64_t prompts = 0;
  for (int i = 0; i < 10; ++i) {
    auto text = std::make_shared<std::vector<quire_symbol>>();
    for (int k = 0; k < 1000; ++k) text->push_back(i * 1000 + k);
    for (const uint64_t input : {200u, 500u, 800u}) {
      Request request;
      request.input_length = input;
      request.output_length = 100;
      request.text = text;
      request.continues = input != 200;
      trace.push_back(request);
      prompts += input;
    }
  }
  replay::Options options;
  options.concurrency = 64;
  const replay::Result result = run(trace, 4096, 1024, options);
  EXPECT_EQ(result.requests, 30u);
  EXPECT_GT(result.hit_tokens, 10 * (200u + 500u));
  EXPECT_LT(result.hit_tokens, prompts);
}

TEST(Replay, NamesTheRequestThatIsTooLong) {
  const std::vector<Request> trace = {{512, 1, {1}}, {4096, 1, {1, 2, 3, 4, 5, 6, 7, 8}}};
  try {
    run(trace, 1000, 1024, {});
    FAIL() << "a prompt of 4096 tokens passed max_model_len 1024";
  } catch (const client::Failure& failure) {
    EXPECT_EQ(failure.code(), QUIRE_OUT_OF_RANGE);
    EXPECT_NE(std::string(failure.what()).find("request 1"), std::string::npos) << failure.what();
  }
}

TEST(Trace, EqualIdsAreEqualTextAndOthersAreNot) {
  std::vector<quire_symbol> a;
  std::vector<quire_symbol> b;
  replay::prompt_symbols({1024, 1, {7, 8}}, &a);
  replay::prompt_symbols({1000, 1, {7, 9}}, &b);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 512, b.begin()));
  int equal = 0;
  for (size_t i = 512; i < 1000; ++i) equal += a[i] == b[i];
  EXPECT_EQ(equal, 0);
  for (const quire_symbol symbol : a) EXPECT_LT(symbol, 1u << 31);
}

TEST(Trace, TheGeneratorIsDeterministicAndFollowsItsFormat) {
  const auto first = replay::generate_trace(50, 1);
  const auto again = replay::generate_trace(50, 1);
  const auto other = replay::generate_trace(50, 2);
  bool differs = false;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].hash_ids, again[i].hash_ids);
    EXPECT_EQ(first[i].hash_ids.size(), (first[i].input_length + 511) / 512);
    differs = differs || first[i].input_length != other[i].input_length;
  }
  EXPECT_TRUE(differs);
}

std::string written(const std::string& text) {
  std::string path = ::testing::TempDir() + "quire_trace_test.jsonl";
  std::ofstream(path) << text;
  return path;
}

TEST(Trace, BadLinesAreNamed) {
  const std::string good = R"({"input_length": 5, "output_length": 2, "hash_ids": [1]})";
  EXPECT_EQ(replay::read_trace(written(good + "\n\n" + good)).size(), 2u);
  EXPECT_EQ(replay::read_trace(written(good + "\n" + good), {.limit = 1}).size(), 1u);
  for (const char* bad :
       {R"({"input_length": 0, "output_length": 2, "hash_ids": [1]})", R"({"input_length": -1, "output_length": 2, "hash_ids": [1]})",
        R"({"input_length": 99999999999, "output_length": 2, "hash_ids": [1]})",
        R"({"input_length": 513, "output_length": 2, "hash_ids": [1]})", R"({"output_length": 2, "hash_ids": [1]})",
        R"({"input_length": 5, "output_length": 2, "hash_ids": 1})", "[", "7"}) {
    try {
      replay::read_trace(written(good + "\n" + bad));
      ADD_FAILURE() << "accepted " << bad;
    } catch (const std::runtime_error& failure) {
      EXPECT_NE(std::string(failure.what()).find("line 2"), std::string::npos) << failure.what();
    }
  }
  EXPECT_THROW(replay::read_trace("/nonexistent/trace"), std::runtime_error);
  EXPECT_THROW(replay::read_trace(written("")), std::runtime_error);
}

TEST(Client, SizesAndTypesReadAsText) {
  EXPECT_EQ(client::bytes_text(17), "17 B");
  EXPECT_EQ(client::bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(client::bytes_text(80ull << 30), "80.00 GiB");
  EXPECT_EQ(client::dtype_of("fp8_e4m3").code, QUIRE_DTYPE_FLOAT8_E4M3FN);
  EXPECT_THROW(client::dtype_of("float"), std::invalid_argument);
}

TEST(Client, NumbersThatJsonDoesNotHaveAreWords) {
  EXPECT_EQ(client::with_words(R"({"a": [Infinity, -Infinity, NaN], "b": "Infinity", "c": "\" NaN"})"),
            R"({"a": ["Infinity", "Infinity", "NaN"], "b": "Infinity", "c": "\" NaN"})");
  EXPECT_EQ(client::with_words("-1"), "-1");
  EXPECT_EQ(client::with_words("Na"), "Na");
}

}  // namespace
}  // namespace quire
