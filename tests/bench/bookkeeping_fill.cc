// bookkeeping/fill: the arrays of a step, written into the caller's memory. A prompt of 12,036 tokens by quire_step_fill (tables and slots
// of all groups), and a decode step of 256 sequences by quire_step_get_batch. The ceiling is memcpy of as many bytes in the same round.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "bookkeeping_rig.h"

namespace quire::bench {
namespace {

constexpr uint32_t kPrompt = 12036;

double seconds_of(auto call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rounds of the call and of a copy of what it wrote, in turns; the best of each.
class Rounds {
 public:
  // What the call writes.
  explicit Rounds(std::span<std::byte> written) : written_(written), copy_(written.size()) {}
  void run(benchmark::State& state, auto call) {
    const double each = seconds_of(call);
    std::memcpy(copy_.data(), written_.data(), copy_.size());
    const double copy = seconds_of([&] { std::memcpy(written_.data(), copy_.data(), copy_.size()); });
    state.SetIterationTime(each);
    best_ = std::min(best_, each);
    best_copy_ = std::min(best_copy_, copy);
  }
  // units: what `per` counts.
  void report(benchmark::State& state, const char* per, double units) const {
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= written_.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, &written_[i], 8);
      sum = sum * 31 + word;
    }
    state.counters["us_per_request"] = 1e6 * best_;
    state.counters[per] = 1e9 * best_ / units;
    state.counters["of_ceiling"] = best_copy_ / best_;
    state.counters["sum"] = static_cast<double>(sum % 1000003);  // the same before and after a change
  }

 private:
  std::span<std::byte> written_;
  std::vector<std::byte> copy_;
  double best_ = 1e9, best_copy_ = 1e9;
};

quire_step reserve(quire_cache* cache, quire_sequence_id sequence, const std::vector<quire_symbol>& symbols) {
  client::Error error;
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  entry.num_symbols = entry.num_tokens = static_cast<uint32_t>(symbols.size());
  entry.flags = QUIRE_ENTRY_NO_STOP;
  quire_reserve_result result{};
  quire_step step{};
  client::check(quire_reserve(cache, &entry, 1, symbols.data(), symbols.size(), &result, &step, &error), error);
  client::check(result.code, error);
  return step;
}

void prefill(benchmark::State& state) {
  guarded(state, [&] {
    const client::Config config = plan_windows(state.range(0), 65536);
    const client::Cache cache = make_cache(config.get(), 4, kPrompt);
    client::Error error;
    quire_sequence_id sequence = 0;
    client::check(quire_sequence_create(cache.get(), nullptr, &sequence, &error), error);
    std::vector<quire_symbol> prompt(kPrompt);
    for (uint32_t t = 0; t < kPrompt; ++t) prompt[t] = replay::output_symbol(1, t);
    const quire_step step = reserve(cache.get(), sequence, prompt);
    Fills fills(config.get(), kPrompt);
    Rounds rounds(std::as_writable_bytes(fills.memory()));
    for (auto _ : state) rounds.run(state, [&] { fills.write(step); });
    rounds.report(state, "ns_per_token", kPrompt);
  });
}

void decode(benchmark::State& state) {
  constexpr uint32_t kSequences = 256, kTokens = 2040;
  guarded(state, [&] {
    const client::Config config = plan_mixed(state.range(0), 262144);
    const client::Cache cache = make_cache(config.get(), kSequences, 8192);
    client::Error error;
    std::vector<quire_reserve_entry> entries(kSequences);
    std::vector<quire_symbol> symbols(kTokens);
    for (uint32_t i = 0; i < kSequences; ++i) {
      client::check(quire_sequence_create(cache.get(), nullptr, &entries[i].sequence, &error), error);
      for (uint32_t t = 0; t < kTokens; ++t) symbols[t] = replay::output_symbol(i, t);
      const quire_step step = reserve(cache.get(), entries[i].sequence, symbols);
      const quire_commit_entry commit = {entries[i].sequence, kTokens, 0, 0, kTokens};
      client::check(quire_commit(step, &commit, 1, nullptr, 0, &error), error);
      entries[i].symbols_position = kTokens;
      entries[i].num_tokens = 1;
    }
    std::vector<quire_reserve_result> results(kSequences);
    quire_step step{};
    client::check(quire_reserve(cache.get(), entries.data(), entries.size(), nullptr, 0, results.data(), &step, &error), error);
    for (const quire_reserve_result& result : results) client::check(result.code, error);
    auto info = client::sized<quire_config_info>();
    client::check(quire_config_get_info(config.get(), &info, &error), error);
    std::vector<quire_batch> batches(info.num_groups, client::sized<quire_batch>());
    auto options = client::sized<quire_batch_options>();
    uint64_t bytes = 0;
    const auto get = [&] {
      client::check(quire_step_get_batch(step, &options, batches.data(), sizeof(quire_batch), batches.size(), &bytes, &error), error);
    };
    get();
    std::vector<std::max_align_t> memory(bytes / sizeof(std::max_align_t) + 1);
    options.memory = memory.data();
    options.bytes = bytes;
    Rounds rounds(std::as_writable_bytes(std::span(memory)).first(bytes));
    for (auto _ : state) rounds.run(state, get);
    rounds.report(state, "ns_per_row", kSequences);
  });
}

BENCHMARK(prefill)->Name("bookkeeping/fill/prefill")->ArgName("groups")->Arg(1)->Arg(4)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(decode)->Name("bookkeeping/fill/decode")->ArgName("groups")->Arg(1)->Arg(3)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::bench
