// bookkeeping/decode_step and bookkeeping/probe: time inside the library per sequence and per block, over the C ABI, without any device.
// groups:1 is a plain model, groups:2 adds windows of 1,024, groups:3 recurrent states, groups:4 is full attention with three groups of
// windows.
#include <algorithm>
#include <vector>

#include "bookkeeping_rig.h"

namespace quire::bench {
namespace {

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
    for (uint32_t i = 0; i < sequences; ++i) commits_[i] = {entries_[i].sequence, uint64_t{tokens} + 1, i, 1, 1};
    symbols_.assign(sequences, 1);
  }

  // One decode step of every sequence. Throws when one is refused.
  void decode() {
    quire_step step{};
    client::check(quire_reserve(cache_, entries_.data(), entries_.size(), nullptr, 0, results_.data(), &step, &error_), error_);
    for (const quire_reserve_result& result : results_) client::check(result.code, error_);
    client::check(quire_commit(step, commits_.data(), commits_.size(), symbols_.data(), symbols_.size(), &error_), error_);
    for (quire_commit_entry& commit : commits_) ++commit.symbols_position;
  }

 private:
  bool prefill(quire_reserve_entry* entry, const std::vector<quire_symbol>& symbols, uint32_t tokens) {
    quire_reserve_result result{};
    quire_step step{};
    client::check(quire_reserve(cache_, entry, 1, symbols.data(), symbols.size(), &result, &step, &error_), error_);
    client::check(result.code, error_);
    const uint64_t end = result.position + result.num_tokens;
    const bool done = end >= tokens;
    const quire_symbol next = 1;
    const quire_commit_entry commit = {entry->sequence, result.position + result.num_tokens, 0, done ? 1u : 0u, result.num_tokens};
    client::check(quire_commit(step, &commit, 1, &next, done ? 1 : 0, &error_), error_);
    entry->symbols_position = entry->symbols_offset = end;
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

client::Config plan_of(int64_t groups, uint64_t pages) { return groups == 4 ? plan_windows(4, pages) : plan_mixed(groups, pages); }

// All sequences reach the ends of their blocks together: a step either takes or publishes a block in every sequence, or in none.
void decode_step(benchmark::State& state) {
  constexpr uint32_t kSequences = 256;
  guarded(state, [&] {
    const client::Config config = plan_of(state.range(0), 262144);
    const client::Cache cache = make_cache(config.get(), kSequences, 8192);
    Batch batch(cache.get(), kSequences, 2048);
    double seconds[3] = {};  // in the block, its first token, its last token
    uint64_t steps[3] = {};
    double most = 0;
    uint64_t position = 2048;
    for (auto _ : state) {
      const size_t kind = position % kBlockTokens == 0 ? 1 : position % kBlockTokens == kBlockTokens - 1 ? 2 : 0;
      ++position;
      const auto start = Clock::now();
      batch.decode();
      const double each = std::chrono::duration<double>(Clock::now() - start).count();
      state.SetIterationTime(each);
      seconds[kind] += each;
      ++steps[kind];
      most = std::max(most, each);
    }
    const auto ns = [&](size_t kind) { return 1e9 * seconds[kind] / static_cast<double>(std::max<uint64_t>(1, steps[kind])) / kSequences; };
    state.counters["ns_plain"] = ns(0);
    state.counters["ns_crossing"] = std::max(ns(1), ns(2));
    state.counters["us_per_request"] = 1e6 * (seconds[0] + seconds[1] + seconds[2]) / static_cast<double>(state.iterations()) / kSequences;
    state.counters["max_us"] = 1e6 * most;
  });
}

void probe(benchmark::State& state) {
  constexpr uint32_t kTokens = 32768 + 16;  // a hit leaves at least one token to compute, so the last boundary lies before the end
  guarded(state, [&] {
    const client::Config config = plan_of(state.range(0), 65536);
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

BENCHMARK(decode_step)
    ->Name("bookkeeping/decode_step")
    ->ArgName("groups")
    ->Arg(1)
    ->Arg(2)
    ->Arg(3)
    ->Arg(4)
    ->UseManualTime()
    ->Iterations(2000)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(probe)->Name("bookkeeping/probe")->ArgName("groups")->Arg(1)->Arg(2)->Arg(3)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::bench
