// What the bookkeeping/ benchmarks share: plans of plain and hybrid models, the trace, and a client that times every call of the library.
#pragma once

#include <benchmark/benchmark.h>
#include <quire/quire.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "replay/trace.h"

namespace quire::bench {

using Clock = std::chrono::steady_clock;

inline constexpr uint64_t kMaxModelLen = 262144;
inline constexpr uint32_t kBlockTokens = 16;

// groups: one group of full attention and groups - 1 of windows, policy vllm. 2 and 3 are windows of 1,024 and states, as engines mix them.
client::Config plan_windows(int64_t groups, uint64_t pages);
// Full attention, windows of 1,024 and recurrent states, policy auto.
client::Config plan_hybrid(uint64_t pages);
// The mixes of decode_step and probe: 1 = full, 2 = with windows, 3 = with windows and states; policy vllm.
client::Config plan_mixed(int64_t groups, uint64_t pages);

client::Cache make_cache(quire_config* config, uint32_t sequences, uint64_t tokens_per_step);

// QUIRE_TRACE (all of it, or `limit` requests), or the built-in generator.
std::vector<replay::Request> read_requests(uint64_t limit);
// "QUIRE_TRACE" or "generator", for labels.
const char* trace_name();

// Skips the benchmark with the library's own words when a call fails.
template <typename Body>
void guarded(benchmark::State& state, Body body) {
  try {
    body();
  } catch (const std::exception& failure) {
    state.SkipWithError(failure.what());
  }
}

// Times of single calls. Calls during which the scheduler took the CPU away are counted apart: they say nothing about the library.
class Laps {
 public:
  enum Kind : uint8_t { kCreate, kProbe, kReserve, kFill, kCommit, kFinish, kReset, kKinds };

  template <typename Call>
  void time(Kind kind, Call call) {
    const uint64_t switches = involuntary_switches();
    const auto start = Clock::now();
    call();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    add(kind, us, involuntary_switches() != switches);
  }
  double total_us() const;
  double total_us(Kind kind) const { return total_[kind]; }
  double max_us() const;
  double max_us(Kind kind) const { return max_[kind]; }
  double quantile_us(double q) const;  // of all undisturbed calls
  uint64_t disturbed() const { return disturbed_; }

 private:
  static uint64_t involuntary_switches();
  void add(Kind kind, double us, bool disturbed);

  double total_[kKinds] = {};
  double max_[kKinds] = {};
  std::vector<float> all_;
  uint64_t disturbed_ = 0;
};

// Tables and slots of all groups of token tables with one column, as engines ask for them.
class Fills {
 public:
  Fills(quire_config* config, uint64_t longest);
  void write(quire_step step);
  std::span<uint64_t> memory() { return memory_; }

 private:
  std::vector<quire_fill> fills_;
  std::vector<uint64_t> memory_, written_;
  client::Error error_;
};

// One request after another: probe, reserve the whole prompt, fill, commit, finish.
class Client {
 public:
  // fills: nullptr, or what is written for every step.
  Client(quire_cache* cache, Laps* laps, Fills* fills = nullptr);

  // Symbols are made before and outside the clock.
  void serve(const std::vector<quire_symbol>& prompt);
  uint64_t requests() const { return requests_; }
  uint64_t prompt_tokens() const { return prompt_tokens_; }
  uint64_t hit_tokens() const { return hit_tokens_; }

 private:
  // One chunk from `done` on; returns where it ended.
  uint64_t chunk(quire_sequence_id sequence, const std::vector<quire_symbol>& prompt, uint64_t done);

  quire_cache* cache_;
  Laps& laps_;
  Fills* fills_;
  client::Error error_;
  uint64_t requests_ = 0, prompt_tokens_ = 0, hit_tokens_ = 0;
};

// The least that any index could do for the same prompts: compare the symbols once and touch one cache line per block.
class Touch {
 public:
  explicit Touch(uint64_t blocks);
  void serve(const std::vector<quire_symbol>& prompt);
  double total_us() const { return total_us_; }

 private:
  std::vector<uint64_t> lines_;
  std::vector<quire_symbol> same_;
  size_t next_ = 0;
  double total_us_ = 0;
};

}  // namespace quire::bench
