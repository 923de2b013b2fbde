// The prefix index against arithmetic on the trace's own ids: with memory for everything, a request hits exactly the leading blocks of 512
// tokens that an earlier one brought, less what leaves it a token to compute. QUIRE_TRACE names a
// trace file; without it conversations of our own are generated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>
#include <vector>

#include "client/client.h"
#include "replay/trace.h"

namespace quire {
namespace {

constexpr uint32_t kUnit = replay::kTraceBlockTokens;
constexpr size_t kPublishedRequests = 12031;  // of Mooncake's conversation trace, of which the shares below are known

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

// How the trace's last ids count, which mostly name less than 512 tokens. kComplete: not at all, as an index of 512-token blocks sees a
// prompt of input_length tokens. kIds: as units of their own, of which a hit counts the tokens that the prompt has, the last one excepted,
// which is always computed; how the reference figures were made.
enum class Units { kComplete, kIds };

// Leading ids that are known already, in tokens; ids are equal only where the whole prefix is.
uint64_t naive_hit(const std::unordered_set<uint64_t>& known, const replay::Request& request, Units units) {
  const uint64_t candidates = units == Units::kIds ? request.hash_ids.size() : (request.input_length - 1) / kUnit;
  uint64_t n = 0;
  while (n < candidates && known.contains(request.hash_ids[n])) ++n;
  return n * kUnit;
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
  quire_step step{};
  client::check(quire_reserve(cache, &entry, 1, prompt.data(), prompt.size(), &result, &step, &error), error);
  EXPECT_EQ(result.code, QUIRE_OK);
  EXPECT_EQ(result.hit_tokens, probed.hit_tokens);
  const quire_commit_entry accepted = {entry.sequence, 0, 0, 0, result.num_tokens};
  client::check(quire_commit(step, &accepted, 1, nullptr, 0, &error), error);
  client::check(quire_sequence_finish(cache, entry.sequence, &error), error);
  return result.hit_tokens;
}

// The symbols that quire sees: with kIds every id is a whole unit, and a symbol of the request's own behind them leaves one to compute.
void symbols_of(const replay::Request& request, uint64_t index, Units units, std::vector<quire_symbol>* prompt) {
  if (units == Units::kComplete) return replay::prompt_symbols(request, prompt);
  replay::Request whole = request;
  whole.input_length = request.hash_ids.size() * kUnit;
  replay::prompt_symbols(whole, prompt);
  prompt->push_back(replay::output_symbol(index, whole.input_length));
}

// The share of the trace's tokens that hit with memory for everything; every request's hit is what the naive model says.
double hit_share(const std::vector<replay::Request>& requests, Units units) {
  uint64_t longest = 0, blocks = 1;
  for (const replay::Request& r : requests) {
    longest = std::max(longest, r.hash_ids.size() * kUnit + 1);
    blocks += r.hash_ids.size() + 1;
  }
  const client::Config config = plan_of_units(blocks, longest);
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
  for (uint64_t i = 0; i < requests.size(); ++i) {
    const replay::Request& request = requests[i];
    symbols_of(request, i, units, &prompt);
    const uint64_t hit = serve(cache.get(), prompt);
    EXPECT_EQ(hit, naive_hit(known, request, units)) << "request " << i << " of " << request.input_length << " tokens";
    if (testing::Test::HasFailure()) return 0;
    const uint64_t n = units == Units::kIds ? request.hash_ids.size() : request.input_length / kUnit;
    known.insert(request.hash_ids.begin(), request.hash_ids.begin() + static_cast<long>(n));
    tokens += request.input_length;
    hits += std::min(hit, request.input_length - 1);
  }
  client::check(quire_cache_verify(cache.get(), &error), error);
  const double share = static_cast<double>(hits) / static_cast<double>(tokens);
  std::printf("%zu requests, %llu tokens, %s: hit share %.5f\n", requests.size(), static_cast<unsigned long long>(tokens),
              units == Units::kIds ? "every id a unit" : "complete units", share);
  return share;
}

TEST(Trace, HitsEqualTheNaiveModel) {
#ifdef NDEBUG
  constexpr uint64_t kRequests = 12000;
#else
  constexpr uint64_t kRequests = 1000;
#endif
  const char* path = std::getenv("QUIRE_TRACE");
  const std::vector<replay::Request> requests = path != nullptr ? replay::read_trace(path) : replay::generate_trace(kRequests, 1);
  const double ids = hit_share(requests, Units::kIds);
  const double complete = hit_share(requests, Units::kComplete);
  EXPECT_GE(ids, complete);
  EXPECT_GT(complete, 0.3);
  if (requests.size() != kPublishedRequests) return;
  EXPECT_NEAR(ids, 0.3736, 0.0002);
  EXPECT_NEAR(complete, 0.3734, 0.0001);
}

}  // namespace
}  // namespace quire
