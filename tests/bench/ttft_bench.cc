// transfer/ttft/: the time from asking for a prompt to its last computed token, through a tier that
// has all of it, against computing it without one. Both in turn in one process, by engines of the
// same layers (hybrid_engine.h). The one with the tier asks, waits, and computes what did not come.
//   first_of_computing: the median over rounds of that ratio, of the first request of a new tier,
//     of which nothing is known.
//   of_computing: the same of later requests, when its speed is known.
//   computing_s, fetched: seconds of the other, and how many tokens came.
// Prompts are not multiples of a unit: the state at the end of the last whole one is stored, too.
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <vector>

#include "hybrid_engine.h"
#include "tests/fakes/fake_store.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  std::string connector;
  std::string config;
  size_t tokens = 0;
  int rounds = 0;
  int fetches = 0;  // of a round, the first of them of a new tier
};

struct Taken {
  double seconds = 0;
  quire_fetch_result fetch{};
};

// A request with this prompt, from its arrival to its last computed token.
Taken answer(HybridEngine& engine, const HybridEngine::Prompt& prompt, bool asks) {
  Taken taken;
  engine.forget();
  const auto begin = Clock::now();
  const quire_sequence_id sequence = engine.open();
  if (asks) taken.fetch = engine.fetch(sequence, prompt);
  engine.compute(sequence, prompt);
  taken.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  engine.finish(sequence);
  return taken;
}

// The connector keeps what it has while a tier comes and goes, where its config names a store; host memory is lost with it.
void first_token(benchmark::State& state, const Case& c) {
  HybridOptions options;
  options.pool_bytes = uint64_t{640} << 20;
  options.max_len = c.tokens + 256;
  HybridEngine plain(options), tiered(options);
  const HybridEngine::Prompt prompt = hybrid_prompt(1, c.tokens);
  answer(plain, hybrid_prompt(2, 2048), false);
  HybridTier tier{c.connector, c.config};
  const auto computes = [&] {
    const double seconds = answer(plain, prompt, false).seconds;
    tier.ns_per_token = seconds * 1e9 / static_cast<double>(c.tokens);
    return seconds;
  };
  const auto store = [&] {
    answer(tiered, prompt, false);
    tiered.settle();
  };
  computes();
  const bool keeps = c.connector != "host";
  if (keeps) {
    tiered.open_tier(tier);
    store();
    tiered.close_tier();
  }
  std::vector<double> first, later, computing;
  uint64_t fetched = 0;
  for (auto _ : state) {
    for (int round = 0; round < c.rounds; ++round) {
      tiered.open_tier(tier);
      if (!keeps) store();
      for (int i = 0; i < c.fetches; ++i) {
        computing.push_back(computes());
        const Taken taken = answer(tiered, prompt, true);
        (i == 0 ? first : later).push_back(taken.seconds / computing.back());
        fetched = taken.fetch.committed;
        tiered.settle();
      }
      tiered.close_tier();
    }
    state.SetIterationTime(median(computing));
  }
  state.counters["first_of_computing"] = median(first);
  state.counters["of_computing"] = median(later);
  state.counters["computing_s"] = median(computing);
  state.counters["fetched"] = static_cast<double>(fetched);
}

// A store that lies elsewhere, of 12 MB/s, one object at a time; what is stored is there at once.
void slow(benchmark::State& state, int64_t latency_ns) {
  test::FakeStoreOptions options;
  options.bytes_per_second = 12'000'000;
  options.latency_ns = latency_ns;
  options.max_started = 1;
  options.watches = false;
  test::FakeStore store(options);
  store.set_script([](const test::SeenTicket& seen, test::Fate* fate) {
    if (seen.ticket.kind == QUIRE_TICKET_STORE) fate->delay_ns = 0;
  });
  first_token(state, {"fake_store", store.config(), 4500, 15, 2});
}

const bool kRegistered = [] {
  (void)quire_register_connector(test::fake_store_query, nullptr);
  const auto row = [](const char* name, auto body) {
    benchmark::RegisterBenchmark(name, body)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  };
  row("transfer/ttft/host/layers:4/tokens:33000", [](benchmark::State& state) {
    first_token(state, {"host", R"({"bytes": "1GiB"})", 33000, 1, 2});
  });
  row("transfer/ttft/slow/layers:4/tokens:4500", [](benchmark::State& state) { slow(state, 0); });
  row("transfer/ttft/slow/latency:2s/layers:4/tokens:4500", [](benchmark::State& state) { slow(state, 2'000'000'000); });
  return true;
}();

}  // namespace
}  // namespace quire::bench
