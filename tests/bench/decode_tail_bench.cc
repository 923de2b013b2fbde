// transfer/decode_p99: how long decode steps take while stores are behind, against steps without
// tiers. A step is a token for each of 8 sequences of 512 to 750 tokens: reserve, arrays,
// kernels of all layers, commit, quire_tiers_run. The pool holds 1.2 times what the sequences need,
// so that later ones evict what earlier ones left, whether it is stored or not. Rounds with and
// without a tier take turns in one process and on one cache; which is first changes.
//   p99_of_without: of all steps of one kind, against all of the other.
//   cpu_p99_of_without: the same of the processor time of the thread that runs the steps. Other work
//   on the machine adds nothing to it.
//   median_of_without: of the times of the steps.
//   given_up, dropped: units that were never written. late: of the rounds with a tier, those at
//   whose last step stores were still waiting or in flight.
//   speed_of_without: the time of all steps without a tier, by the time of all with one.
//   tenth_of_without: of the times that a tenth of the steps keep to, which other work seldom disturbs.
//   tiers_share: of the time of all steps with a tier, what quire_tiers_run took.
// dead: the tier is a redis-server that is killed when it has been opened.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <numeric>

#include "hybrid_engine.h"
#include "tests/fakes/fake_store.h"
#if defined(QUIRE_BENCH_REDIS)
#include "tests/connectors/redis_server.h"
#endif

namespace quire::bench {
namespace {

constexpr uint32_t kSequences = 8;
constexpr size_t kPrompt = 512, kLonger = 16;  // tokens of the first, and of each further one
constexpr int kSteps = 100;
constexpr int kRounds = 3;

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Steps {
  std::vector<double> seconds, cpu_seconds;
};

double quantile(std::vector<double> values, double q) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// What happens to a store before its tier is opened, and after that.
struct Life {
  std::function<void()> begins = [] {}, ends = [] {};
};

class Rounds {
 public:
  explicit Rounds(uint64_t pool_bytes) : engine_(options(pool_bytes)) {}

  // Appends what each step took.
  void run(const HybridTier* tier, Steps* steps, const Life& life = {}) {
    if (tier != nullptr) {
      life.begins();
      engine_.open_tier(*tier);
      life.ends();
    }
    const uint64_t given_up = engine_.cache_stats().units_given_up;
    std::vector<quire_sequence_id> sequences;
    for (uint32_t i = 0; i < kSequences; ++i) {
      sequences.push_back(engine_.open());
      engine_.compute(sequences.back(), hybrid_prompt(next_prompt_++, kPrompt + i * kLonger), false);
    }
    const double in_tiers = engine_.tiers_seconds();
    for (int step = 0; step < kSteps; ++step) {
      const double begin = seconds_of(CLOCK_MONOTONIC), cpu_begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      engine_.decode(sequences);
      steps->cpu_seconds.push_back(seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_begin);
      steps->seconds.push_back(seconds_of(CLOCK_MONOTONIC) - begin);
    }
    tiers_seconds += engine_.tiers_seconds() - in_tiers;
    used_pages = engine_.cache_stats().pages_used;
    num_pages = engine_.cache_stats().pages_total;
    if (tier != nullptr) {
      late += engine_.tiers_stats().units_in_flight != 0 ? 1 : 0;
      units_given_up += engine_.cache_stats().units_given_up - given_up;
      units_dropped += engine_.tier_stats().units_dropped;
      units_stored += engine_.tier_stats().units_stored;
      engine_.close_tier();
    }
    for (const quire_sequence_id sequence : sequences) engine_.finish(sequence);
  }

  uint64_t used_pages = 0, num_pages = 0;
  double tiers_seconds = 0;
  uint64_t units_given_up = 0, units_dropped = 0, units_stored = 0, late = 0;

 private:
  static HybridOptions options(uint64_t pool_bytes) {
    HybridOptions o;
    o.pool_bytes = pool_bytes;
    o.max_len = kPrompt + kSequences * kLonger + kSteps + 64;
    o.sequences = kSequences;
    o.chunk = 1024;
    o.threads = 1;  // the other core is the connector's
    return o;
  }

  HybridEngine engine_;
  uint64_t next_prompt_ = 1;
};

void decode_p99(benchmark::State& state, const HybridTier& tier, const Life& life = {}) {
  constexpr uint64_t kPlenty = uint64_t{1} << 30;
  uint64_t pool = 0;
  {
    Steps ignored;
    Rounds alone(kPlenty);
    alone.run(nullptr, &ignored);
    pool = static_cast<uint64_t>(1.2 * static_cast<double>(kPlenty) * static_cast<double>(alone.used_pages) /
                                 static_cast<double>(alone.num_pages));
  }
  Rounds rounds(pool);
  Steps ignored, with, without;
  rounds.run(nullptr, &ignored);
  for (auto _ : state) {
    for (int pair = 0; pair < kRounds; ++pair) {
      if (pair % 2 == 0) rounds.run(nullptr, &without);
      rounds.run(&tier, &with, life);
      if (pair % 2 != 0) rounds.run(nullptr, &without);
    }
    state.SetIterationTime(quantile(with.seconds, 0.99));
  }
  state.counters["p99_of_without"] = quantile(with.seconds, 0.99) / quantile(without.seconds, 0.99);
  state.counters["cpu_p99_of_without"] = quantile(with.cpu_seconds, 0.99) / quantile(without.cpu_seconds, 0.99);
  state.counters["median_of_without"] = quantile(with.seconds, 0.5) / quantile(without.seconds, 0.5);
  state.counters["speed_of_without"] = sum(without.seconds) / sum(with.seconds);
  state.counters["cpu_speed_of_without"] = sum(without.cpu_seconds) / sum(with.cpu_seconds);
  state.counters["tenth_of_without"] = quantile(with.seconds, 0.1) / quantile(without.seconds, 0.1);
  state.counters["tiers_share"] = rounds.tiers_seconds / sum(with.seconds);
  state.counters["p99_without_ms"] = quantile(without.seconds, 0.99) * 1e3;
  state.counters["median_without_ms"] = quantile(without.seconds, 0.5) * 1e3;
  state.counters["given_up"] = static_cast<double>(rounds.units_given_up);
  state.counters["dropped"] = static_cast<double>(rounds.units_dropped);
  state.counters["stored"] = static_cast<double>(rounds.units_stored);
  state.counters["late"] = static_cast<double>(rounds.late);
  state.counters["pool_MiB"] = static_cast<double>(pool >> 20);
}

const bool kRegistered = [] {
  const auto row = [](const char* name, auto body) {
    benchmark::RegisterBenchmark(name, body)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  };
  row("transfer/decode_p99/behind", [](benchmark::State& state) {
    test::FakeStoreOptions options;
    options.bytes_per_second = 500'000;
    options.max_started = 1;
    options.watches = false;
    options.capacity_bytes = uint64_t{512} << 20;
    options.evicts = true;
    const test::FakeStore store(options);
    decode_p99(state, {"fake_store", store.config()});
  });
  row("transfer/decode_p99/host", [](benchmark::State& state) { decode_p99(state, {"host", R"({"bytes": "512MiB"})"}); });
#if defined(QUIRE_BENCH_REDIS)
  row("transfer/decode_p99/dead", [](benchmark::State& state) {
    if (!kit::RedisServer::is_installed()) return state.SkipWithError("redis-server is not installed");
    kit::RedisServer server;
    server.kill();
    decode_p99(state, {"redis", server.config()}, {[&] { server.start(); }, [&] { server.kill(); }});
  });
#endif
  return true;
}();

}  // namespace
}  // namespace quire::bench
