// bookkeeping/: time inside the library per request, per step and per block, over the C ABI and without any device. The trace is
// QUIRE_TRACE (Mooncake's JSON lines, .gz allowed) or a built-in generator. groups:1 is a plain model, groups:2 alternates windows with
// full attention, groups:3 adds recurrent states.
#include <benchmark/benchmark.h>
#include <quire/quire.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "client/client.h"
#include "replay/replay.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxModelLen = 262144;

quire_layer token_layer(uint32_t index, quire_layer_kind kind, uint64_t window) {
  auto layer = client::sized<quire_layer>();
  layer.kind = kind;
  layer.layer = index;
  layer.num_kv_heads = 8;
  layer.num_q_heads = 32;
  layer.head_dim_k = layer.head_dim_v = 64;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  layer.window = window;
  return layer;
}

quire_layer state_layer(uint32_t index) {
  auto layer = client::sized<quire_layer>();
  layer.kind = QUIRE_LAYER_STATE;
  layer.layer = index;
  layer.state_kind = QUIRE_STATE_GENERIC;
  layer.num_state_tensors = 1;
  layer.state[0] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 3, {8, 64, 64, 0}};
  return layer;
}

client::Config make_plan(int64_t groups, uint64_t pages) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 24; ++i) {
    const uint32_t kind = i % static_cast<uint32_t>(groups);
    if (kind == 0) layers.push_back(token_layer(i, QUIRE_LAYER_FULL, 0));
    if (kind == 1) layers.push_back(token_layer(i, QUIRE_LAYER_SLIDING_WINDOW, 1024));
    if (kind == 2) layers.push_back(state_layer(i));
  }
  quire_model* model = nullptr;
  client::Error error;
  client::check(quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), kMaxModelLen, &model, &error), error);
  const client::Model owned(model);
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str("vllm");
  options.num_pages = pages;
  return client::plan(model, options);
}

client::Cache make_cache(quire_config* config, uint32_t sequences, uint64_t tokens_per_step) {
  auto options = client::sized<quire_cache_options>();
  options.max_sequences = sequences;
  options.max_tokens_per_step = static_cast<uint32_t>(tokens_per_step);
  quire_cache* cache = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config, &options, &cache, &error), error);
  return client::Cache(cache);
}

const std::vector<replay::Request>& the_trace() {
  static const std::vector<replay::Request> kTrace = [] {
    const char* path = std::getenv("QUIRE_TRACE");
    return path != nullptr && *path != '\0' ? replay::read_trace(path, 2000) : replay::generate_trace(2000, 7);
  }();
  return kTrace;
}

// Skips the benchmark with the library's own words when a call fails.
template <typename Body>
void guarded(benchmark::State& state, Body body) {
  try {
    body();
  } catch (const std::exception& failure) {
    state.SkipWithError(failure.what());
  }
}

void trace(benchmark::State& state) {
  guarded(state, [&] {
    const client::Config config = make_plan(state.range(0), 65536);
    replay::Options options;
    options.max_output = 32;
    replay::Result last;
    for (auto _ : state) {
      const client::Cache cache = make_cache(config.get(), options.concurrency, options.tokens_per_step);
      last = replay::run(cache.get(), the_trace(), options);
      state.SetIterationTime(last.seconds);
    }
    const auto requests = static_cast<double>(last.requests);
    state.counters["us_per_request"] = 1e6 * last.seconds / requests;
    state.counters["ns_per_block"] = 1e9 * last.seconds / (static_cast<double>(last.prompt_tokens) / 16);
    state.counters["hit_ratio"] = static_cast<double>(last.hit_tokens) / static_cast<double>(last.prompt_tokens);
    state.counters["max_us"] = last.max_us;
  });
}

// Sequences of `tokens` tokens each, ready to decode.
class Batch {
 public:
  Batch(quire_cache* cache, uint32_t sequences, uint32_t tokens) : cache_(cache) {
    std::vector<quire_symbol> symbols(tokens);
    for (uint32_t i = 0; i < sequences; ++i) {
      quire_reserve_entry entry{};
      client::check(quire_sequence_create(cache, nullptr, &entry.sequence, &error_), error_);
      for (uint32_t t = 0; t < tokens; ++t) symbols[t] = replay::output_symbol(i, t);
      entry.num_symbols = entry.num_tokens = tokens;
      entry.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
      entries_.push_back(entry);
      while (prefill(&entry, symbols, tokens)) {
      }
    }
    for (quire_reserve_entry& entry : entries_) {
      entry.flags = entry.num_symbols = 0;
      entry.symbols_offset = 0;
      entry.num_tokens = 1;
    }
    results_.resize(sequences);
    commits_.resize(sequences);
    for (uint32_t i = 0; i < sequences; ++i) commits_[i] = {entries_[i].sequence, i, 1, 1, 0};
    symbols_.assign(sequences, 1);
  }

  // One decode step of every sequence. Throws when one is refused.
  void decode() {
    quire_step_id step = 0;
    client::check(quire_reserve(cache_, entries_.data(), entries_.size(), nullptr, 0, results_.data(), &step, &error_), error_);
    for (const quire_reserve_result& result : results_) client::check(result.code, error_);
    client::check(quire_commit(cache_, step, commits_.data(), commits_.size(), symbols_.data(), symbols_.size(), &error_), error_);
  }

 private:
  bool prefill(quire_reserve_entry* entry, const std::vector<quire_symbol>& symbols, uint32_t tokens) {
    quire_reserve_result result{};
    quire_step_id step = 0;
    client::check(quire_reserve(cache_, entry, 1, symbols.data(), symbols.size(), &result, &step, &error_), error_);
    client::check(result.code, error_);
    const uint64_t end = result.position + result.num_tokens;
    const bool done = end >= tokens;
    const quire_symbol next = 1;
    const quire_commit_entry commit = {entry->sequence, 0, done ? 1u : 0u, result.num_tokens, 0};
    client::check(quire_commit(cache_, step, &commit, 1, &next, done ? 1 : 0, &error_), error_);
    entry->symbols_offset = end;
    entry->num_symbols = entry->num_tokens = static_cast<uint32_t>(tokens - end);
    entry->flags = QUIRE_ENTRY_PROMPT_END;
    return !done;
  }

  quire_cache* cache_;
  client::Error error_;
  std::vector<quire_reserve_entry> entries_;
  std::vector<quire_reserve_result> results_;
  std::vector<quire_commit_entry> commits_;
  std::vector<quire_symbol> symbols_;
};

void decode_step(benchmark::State& state) {
  constexpr uint32_t kSequences = 256;
  guarded(state, [&] {
    const client::Config config = make_plan(state.range(0), 262144);
    const client::Cache cache = make_cache(config.get(), kSequences, 8192);
    Batch batch(cache.get(), kSequences, 2048);
    double seconds = 0;
    double most = 0;
    for (auto _ : state) {
      const auto start = Clock::now();
      batch.decode();
      const double each = std::chrono::duration<double>(Clock::now() - start).count();
      state.SetIterationTime(each);
      seconds += each;
      most = std::max(most, each);
    }
    state.counters["us_per_request"] = 1e6 * seconds / static_cast<double>(state.iterations()) / kSequences;
    state.counters["max_us"] = 1e6 * most;
  });
}

void probe(benchmark::State& state) {
  constexpr uint32_t kTokens = 32768 + 16;  // a hit leaves at least one token to compute, so the last boundary lies before the end
  guarded(state, [&] {
    const client::Config config = make_plan(state.range(0), 65536);
    const client::Cache cache = make_cache(config.get(), 4, kTokens);
    Batch batch(cache.get(), 1, kTokens);
    std::vector<quire_symbol> symbols(kTokens);
    for (uint32_t t = 0; t < kTokens; ++t) symbols[t] = replay::output_symbol(0, t);
    auto result = client::sized<quire_probe_result>();
    client::Error error;
    double seconds = 0;
    for (auto _ : state) {
      const auto start = Clock::now();
      client::check(quire_probe(cache.get(), nullptr, symbols.data(), symbols.size(), &result, &error), error);
      const double each = std::chrono::duration<double>(Clock::now() - start).count();
      state.SetIterationTime(each);
      seconds += each;
    }
    state.counters["ns_per_block"] = 1e9 * seconds / static_cast<double>(state.iterations()) / (kTokens / 16.0);
    state.counters["hit_ratio"] = static_cast<double>(result.hit_tokens) / kTokens;
  });
}

BENCHMARK(trace)->Name("bookkeeping/trace")->ArgName("groups")->Arg(1)->Arg(2)->Arg(3)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(decode_step)
    ->Name("bookkeeping/decode_step")
    ->ArgName("groups")
    ->Arg(1)
    ->Arg(2)
    ->Arg(3)
    ->UseManualTime()
    ->Iterations(2000)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(probe)->Name("bookkeeping/probe")->ArgName("groups")->Arg(1)->Arg(2)->Arg(3)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::bench
