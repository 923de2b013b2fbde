// The prefix index against arithmetic on the trace's own ids: with memory for everything, a request hits exactly the leading blocks of 512
// tokens that an earlier one brought, less what leaves it a token to compute. Uses ../shared and says so when it is absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_set>
#include <vector>

#include "client/client.h"
#include "replay/trace.h"

namespace quire {
namespace {

constexpr uint32_t kUnit = replay::kTraceBlockTokens;

client::Config plan_of_units(uint64_t units, uint64_t longest) {
  auto layer = client::sized<quire_layer>();
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = layer.num_q_heads = 1;
  layer.head_dim_k = layer.head_dim_v = 16;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  quire_model* model = nullptr;
  client::Error error;
  client::check(quire_model_create(&layer, sizeof layer, 1, longest, &model, &error), error);
  const client::Model owned(model);
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str("vllm");
  options.num_pages = units;
  options.block_tokens = kUnit;
  return client::plan(model, options);
}

// Leading ids that are known already; ids are equal only where the whole prefix is.
uint64_t naive_hit(const std::unordered_set<uint64_t>& known, const replay::Request& request) {
  uint64_t units = 0;
  while ((units + 1) * kUnit < request.input_length && known.contains(request.hash_ids[units])) ++units;
  return units * kUnit;
}

// Probes, computes and finishes one request; the hit.
uint64_t serve(quire_cache* cache, const std::vector<quire_symbol>& prompt) {
  client::Error error;
  auto probed = client::sized<quire_probe_result>();
  client::check(quire_probe(cache, nullptr, prompt.data(), prompt.size(), &probed, &error), error);
  quire_reserve_entry entry{};
  client::check(quire_sequence_create(cache, nullptr, &entry.sequence, &error), error);
  entry.num_symbols = entry.num_tokens = static_cast<uint32_t>(prompt.size());
  entry.flags = QUIRE_ENTRY_MATCH;
  quire_reserve_result result{};
  quire_step_id step = 0;
  client::check(quire_reserve(cache, &entry, 1, prompt.data(), prompt.size(), &result, &step, &error), error);
  EXPECT_EQ(result.code, QUIRE_OK);
  EXPECT_EQ(result.hit_tokens, probed.hit_tokens);
  const quire_commit_entry accepted = {entry.sequence, 0, 0, result.num_tokens, 0};
  client::check(quire_commit(cache, step, &accepted, 1, nullptr, 0, &error), error);
  client::check(quire_sequence_finish(cache, entry.sequence, &error), error);
  return result.hit_tokens;
}

TEST(Trace, HitsEqualTheNaiveModel) {
  const char* shared = std::getenv("QUIRE_SHARED");
  const std::filesystem::path path =
      std::filesystem::path(shared != nullptr ? shared : "../shared") / "data/traces/mooncake/conversation_trace.jsonl.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
#ifdef NDEBUG
  constexpr uint64_t kRequests = 0;  // all
#else
  constexpr uint64_t kRequests = 1000;
#endif
  const std::vector<replay::Request> requests = replay::read_trace(path, kRequests);
  uint64_t longest = 0, units = 1;
  for (const replay::Request& r : requests) {
    longest = std::max(longest, r.input_length);
    units += r.hash_ids.size();
  }
  const client::Config config = plan_of_units(units, longest);
  auto options = client::sized<quire_cache_options>();
  options.max_sequences = 2;
  options.max_tokens_per_step = static_cast<uint32_t>(longest);
  quire_cache* created = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config.get(), &options, &created, &error), error);
  const client::Cache cache(created);
  std::unordered_set<uint64_t> known;
  uint64_t tokens = 0, hits = 0;
  std::vector<quire_symbol> prompt;
  for (const replay::Request& request : requests) {
    replay::prompt_symbols(request, &prompt);
    const uint64_t hit = serve(cache.get(), prompt);
    ASSERT_EQ(hit, naive_hit(known, request)) << "request of " << request.input_length << " tokens";
    known.insert(request.hash_ids.begin(), request.hash_ids.begin() + static_cast<long>(request.input_length / kUnit));
    tokens += request.input_length;
    hits += hit;
  }
  client::check(quire_cache_verify(cache.get(), &error), error);
  const double share = static_cast<double>(hits) / static_cast<double>(tokens);
  std::printf("%zu requests, %llu tokens, hit share %.5f\n", requests.size(), static_cast<unsigned long long>(tokens), share);
  // Of complete blocks; ids of incomplete last blocks, which no index of 512-token blocks can hit, would make it 0.3736.
  if (kRequests == 0) {
    EXPECT_NEAR(share, 0.3734, 0.0001);
  }
}

}  // namespace
}  // namespace quire
