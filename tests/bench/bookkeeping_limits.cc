// bookkeeping/worst_call and bookkeeping/probe_contention: what a serving loop feels, the longest call and not the mean.
// bookkeeping/create: how long the largest pools take to begin.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <thread>

#include "bookkeeping_rig.h"

namespace quire::bench {
namespace {

constexpr uint64_t kLongest = 131072;
constexpr int kRounds = 5;

void make_prompt(uint64_t number, uint64_t tokens, std::vector<quire_symbol>* prompt) {
  prompt->resize(tokens);
  for (uint64_t t = 0; t < tokens; ++t) (*prompt)[t] = replay::output_symbol(number, t);
}

// A pool of 10^7 blocks, full; then the trace with a prompt of 131,072 tokens behind every hundredth request, and a reset.
void worst_call(benchmark::State& state) {
  guarded(state, [&] {
    constexpr uint64_t kBlocks = 10'000'000;
    const client::Config config = plan_windows(1, kBlocks + 1);
    const client::Cache cache = make_cache(config.get(), 4, kLongest);
    const std::vector<replay::Request> requests = read_requests(2000);
    std::vector<quire_symbol> prompt;
    uint64_t number = 0;
    std::vector<double> maxima;
    std::vector<double> tails;
    double by_kind[Laps::kKinds] = {};
    uint64_t disturbed = 0;
    client::Error error;
    for (auto _ : state) {
      for (int round = 0; round < kRounds; ++round) {
        Laps filling;
        Client filler(cache.get(), &filling);
        for (uint64_t filled = 0; filled < kBlocks + kBlocks / 16; filled += kLongest / kBlockTokens) {
          make_prompt(number++, kLongest, &prompt);
          filler.serve(prompt);
        }
        const uint64_t youngest = number - 1;
        Laps laps;
        Client engine(cache.get(), &laps);
        for (size_t i = 0; i < requests.size(); ++i) {
          replay::prompt_symbols(requests[i], &prompt);
          prompt.resize(std::min<uint64_t>(prompt.size(), kLongest));
          engine.serve(prompt);
          if (i % 100 != 0) continue;
          // Every fifth is all new; the others begin with half of one of the youngest prompts.
          const bool cold = i / 100 % 5 == 4;
          make_prompt(youngest - i / 100, kLongest, &prompt);
          for (uint64_t t = cold ? 0 : kLongest / 2; t < kLongest; ++t) prompt[t] = replay::output_symbol(number, t);
          ++number;
          engine.serve(prompt);
        }
        laps.time(Laps::kReset, [&] { client::check(quire_cache_reset(cache.get(), &error), error); });
        maxima.push_back(laps.max_us());
        tails.push_back(laps.quantile_us(0.999));
        for (uint8_t k = 0; k < Laps::kKinds; ++k) by_kind[k] = std::max(by_kind[k], laps.max_us(static_cast<Laps::Kind>(k)));
        disturbed += laps.disturbed();
      }
    }
    std::sort(maxima.begin(), maxima.end());
    std::sort(tails.begin(), tails.end());
    state.counters["max_us"] = maxima[maxima.size() / 2];
    state.counters["p999_us"] = tails[tails.size() / 2];
    state.counters["probe_max_us"] = by_kind[Laps::kProbe];
    state.counters["reserve_max_us"] = by_kind[Laps::kReserve];
    state.counters["commit_max_us"] = by_kind[Laps::kCommit];
    state.counters["finish_max_us"] = by_kind[Laps::kFinish];
    state.counters["reset_max_us"] = by_kind[Laps::kReset];
    state.counters["disturbed"] = static_cast<double>(disturbed);
    state.SetLabel(trace_name());
  });
}

// Writes as many bytes of fresh memory. The first ones in a virtual machine's life can take ten times as long: the host provides them then.
void touch_fresh(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  munmap(memory, bytes);
}

// A pool of 10^7 pages, and memory of the same size that is only written, in turn.
void create(benchmark::State& state) {
  guarded(state, [&] {
    const client::Config config = plan_windows(state.range(0), 10'000'001);
    std::vector<double> times, ratios;
    uint64_t bytes = 0;
    client::Error error;
    for (auto _ : state) {
      const auto start = Clock::now();
      const client::Cache cache = make_cache(config.get(), 256, 8192);
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      state.SetIterationTime(times.back() * 1e-3);
      auto stats = client::sized<quire_cache_stats>();
      client::check(quire_cache_get_stats(cache.get(), &stats, &error), error);
      bytes = stats.host_bytes;
      const auto again = Clock::now();
      touch_fresh(bytes);
      ratios.push_back(times.back() / std::chrono::duration<double, std::milli>(Clock::now() - again).count());
    }
    std::sort(times.begin(), times.end());
    std::sort(ratios.begin(), ratios.end());
    state.counters["median_ms"] = times[times.size() / 2];
    state.counters["x_touch"] = ratios[ratios.size() / 2];
    state.counters["host_gb"] = static_cast<double>(bytes) * 1e-9;
  });
}

// What four other threads do while one serves.
enum class Others : uint8_t { kNothing, kRead, kProbe };

// Times of commits: those of prompts that nobody has seen, which publish into the tree, and of the same prompts again, which do not.
struct Commits {
  std::vector<double> publishing, again;

  static double p99(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times.empty() ? 0 : times[times.size() * 99 / 100];
  }
};

// The others probe without pause what is served, or read as many symbols and leave the cache alone: what those cost is the machine's, which
// has fewer cores than threads, or shares memory among them. `pass` makes the prompts others than those of other passes.
Commits commits_beside(quire_cache* cache, const std::vector<replay::Request>& requests, quire_symbol pass, Others what, uint64_t* probes) {
  constexpr uint32_t kThreads = 4;
  const auto make = [&](const replay::Request& request, std::vector<quire_symbol>* prompt) {
    replay::prompt_symbols(request, prompt);
    for (quire_symbol& symbol : *prompt) symbol ^= pass << 20;
  };
  alignas(64) std::atomic<bool> stop{false};  // each in a line of its own: the others' counting is not the cache's doing
  alignas(64) std::atomic<size_t> newest{0};
  alignas(64) std::atomic<uint64_t> done{0};
  std::vector<std::thread> others;
  others.reserve(kThreads);
  for (uint32_t i = 0; i < kThreads && what != Others::kNothing; ++i) {
    others.emplace_back([&, i] {
      std::vector<quire_symbol> prompt;
      client::Error error;
      auto result = client::sized<quire_probe_result>();
      for (size_t n = i; !stop; ++n) {
        make(requests[(newest + requests.size() - n % 64) % requests.size()], &prompt);
        for (int again = 0; again < 8 && !stop; ++again) {
          if (what == Others::kRead) {
            benchmark::DoNotOptimize(std::count(prompt.begin(), prompt.end(), quire_symbol{1}));
          } else if (quire_probe(cache, nullptr, prompt.data(), prompt.size(), &result, &error) != QUIRE_OK) {
            return;
          }
          ++done;
        }
      }
    });
  }
  std::vector<quire_symbol> prompt;
  Commits commits;
  for (size_t i = 0; i < requests.size(); ++i) {
    make(requests[i], &prompt);
    newest = i;
    for (std::vector<double>* times : {&commits.publishing, &commits.again}) {
      Laps laps;
      Client engine(cache, &laps);
      engine.serve(prompt);
      if (laps.max_us(Laps::kCommit) > 0) times->push_back(laps.max_us(Laps::kCommit));
    }
  }
  stop = true;
  for (std::thread& other : others) other.join();
  *probes += done;
  return commits;
}

void probe_contention(benchmark::State& state) {
  guarded(state, [&] {
    const client::Config config = plan_windows(1, 1u << 18);
    const std::vector<replay::Request> requests = read_requests(2000);
    const client::Cache cache = make_cache(config.get(), 8, kLongest);
    uint64_t probes = 0;
    uint64_t none = 0;
    Commits alone;
    Commits beside;
    Commits probed;
    for (auto _ : state) {
      for (const quire_symbol pass : {1, 2}) commits_beside(cache.get(), requests, pass, Others::kNothing, &none);  // full, and warm
      alone = commits_beside(cache.get(), requests, 3, Others::kNothing, &none);
      beside = commits_beside(cache.get(), requests, 4, Others::kRead, &none);
      probed = commits_beside(cache.get(), requests, 5, Others::kProbe, &probes);
    }
    const auto tell = [&](const char* suffix, std::vector<double> Commits::*kind) {
      const double p99[] = {Commits::p99(alone.*kind), Commits::p99(beside.*kind), Commits::p99(probed.*kind)};
      state.counters[std::string("p99_alone_us") + suffix] = p99[0];
      state.counters[std::string("p99_beside_work_us") + suffix] = p99[1];
      state.counters[std::string("p99_us") + suffix] = p99[2];
      state.counters[std::string("x_alone") + suffix] = p99[2] / p99[0];
      state.counters[std::string("x_beside_work") + suffix] = p99[2] / p99[1];
    };
    tell("", &Commits::publishing);
    tell("_again", &Commits::again);
    state.counters["probes"] = static_cast<double>(probes);
    state.SetLabel(trace_name());
  });
}

BENCHMARK(worst_call)->Name("bookkeeping/worst_call")->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(create)
    ->Name("bookkeeping/create")
    ->ArgName("groups")
    ->Arg(1)
    ->Arg(4)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);
BENCHMARK(probe_contention)->Name("bookkeeping/probe_contention")->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace quire::bench
