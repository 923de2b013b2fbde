// transfer/ttft/peer/: the time from a request to its last computed token, where another process computes all of the prompt but its end and
// offers it from the beginning, against the time in which that process alone computes the whole prompt. Both in turn, one thread each.
//   of_prefill: that ratio, the larger one of two rounds.
//   after_prefill: the same, where the offer begins when the prompt is complete, in the first round only.
//   prefill_s: seconds of computing alone. The first round takes three times as long, the second one twice.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hybrid_engine.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kTokens = 32769;
constexpr size_t kFew = 2049;  // to warm up
constexpr int kRounds = 2;

enum class Way : char { kWarm, kAlone, kGrows, kAfter, kEnd };

HybridOptions options_of() {
  HybridOptions options;
  options.pool_bytes = uint64_t{640} << 20;
  options.max_len = kTokens + 256;
  options.threads = 1;
  return options;
}

template <typename T>
void put(int fd, const T& value) {
  if (write(fd, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(1);
}
template <typename T>
T get(int fd) {
  T value{};
  if (read(fd, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(1);
  return value;
}

// The process that computes. It says of each round its offer, or how long it took.
void prefill(const std::string& port_file, int in, int out) {
  HybridEngine engine(options_of());
  engine.open_tier({"ucx", R"({"trusted": true, "listen": "127.0.0.1:0", "lease": "60s", "port_file": ")" + port_file + "\"}", 0, true});
  put(out, 'r');
  for (Way way = get<Way>(in); way != Way::kEnd; way = get<Way>(in)) {
    const bool alone = way == Way::kWarm || way == Way::kAlone;
    const HybridEngine::Prompt prompt = hybrid_prompt(1, way == Way::kWarm ? kFew : kTokens);
    const HybridEngine::Prompt most(prompt.begin(), prompt.end() - 1);
    engine.forget();
    const auto begin = Clock::now();
    const quire_sequence_id sequence = engine.open();
    quire_offer offer{};
    if (way == Way::kGrows) put(out, offer = engine.offer(sequence, prompt, kTokens - 1));
    engine.compute(sequence, alone ? prompt : most);
    if (way == Way::kAfter) offer = engine.offer(sequence, prompt, kTokens - 1);
    if (!alone) engine.complete(offer);
    if (way == Way::kAfter) put(out, offer);
    if (alone) put(out, std::chrono::duration<double>(Clock::now() - begin).count());
    engine.finish(sequence);
    while (engine.tiers_stats().offers_in_progress > 0) engine.run_tiers_once();
  }
}

void first_token(benchmark::State& state) {
  int to[2], from[2];
  if (pipe(to) != 0 || pipe(from) != 0) return state.SkipWithError("no pipes");
  const std::string port_file = std::filesystem::temp_directory_path() / ("quire-ttft-" + std::to_string(getpid()));
  const pid_t child = fork();  // before this process has threads
  close(child == 0 ? to[1] : to[0]);
  close(child == 0 ? from[0] : from[1]);
  if (child == 0) {
    prefill(port_file, to[0], from[1]);
    _exit(0);
  }
  get<char>(from[0]);
  std::string address;
  std::ifstream(port_file) >> address;
  HybridEngine engine(options_of());
  engine.open_tier({"ucx", R"({"trusted": true})", 0, true});
  const HybridEngine::Prompt prompt = hybrid_prompt(1, kTokens);
  const auto answer = [&](Way way) {
    engine.forget();
    const auto begin = Clock::now();
    put(to[1], way);
    auto peer = client::sized<quire_peer>();
    const quire_offer offer = get<quire_offer>(from[0]);
    std::memcpy(peer.handle, offer.handle, sizeof peer.handle);
    peer.end_token = offer.end_token;
    peer.address = client::to_str(address);
    peer.flags = way == Way::kGrows ? QUIRE_PEER_GROWS : 0;
    const quire_sequence_id sequence = engine.open();
    const quire_fetch_result got = engine.fetch_from(peer, sequence, prompt);
    if (got.committed != kTokens - 1) state.SkipWithError("not all tokens came");
    engine.compute(sequence, prompt);
    engine.finish(sequence);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto alone = [&](Way way) {
    put(to[1], way);
    return get<double>(from[0]);
  };
  std::vector<double> grows, after, computing;
  alone(Way::kWarm);
  while (state.KeepRunning()) {
    for (int round = 0; round < kRounds; ++round) {
      const double computes = alone(Way::kAlone);
      computing.push_back(computes);
      grows.push_back(answer(Way::kGrows) / computes);
      if (round == 0) after.push_back(answer(Way::kAfter) / computes);
    }
    state.SetIterationTime(median(computing));
  }
  put(to[1], Way::kEnd);
  waitpid(child, nullptr, 0);
  unlink(port_file.c_str());
  close(to[1]);
  close(from[0]);
  state.counters["of_prefill"] = median(grows);
  state.counters["after_prefill"] = median(after);
  state.counters["prefill_s"] = median(computing);
}

const bool kRegistered = [] {
  benchmark::RegisterBenchmark("transfer/ttft/peer/layers:4/tokens:32769", first_token)
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace quire::bench
