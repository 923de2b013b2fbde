// Planning: one plan of a large hybrid and of the models with the most caches, by policy.
#include <benchmark/benchmark.h>

#include <string>

#include "client/client.h"

namespace {

namespace client = quire::client;

constexpr const char* kModels[] = {"qwen3.5-122b-a10b", "nemotron-3-super-120b", "kimi-linear-48b", "deepseek-v4-pro", "inkling",
                                   "minimax-m3"};
constexpr uint64_t kMemory = uint64_t{512} << 30;

void plan(benchmark::State& state, const std::string& policy, const std::string& name) {
  const client::Model model = client::read_model(std::string(QUIRE_SAMPLE_MODELS) + "/" + name + ".json");
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str(policy);
  options.memory_bytes = &kMemory;
  options.num_memory_bytes = 1;
  for (auto _ : state) benchmark::DoNotOptimize(client::plan(model.get(), options));
}

const int kRegistered = [] {
  for (const char* policy : {"vllm", "auto"}) {
    for (const char* model : kModels) {
      const std::string name = std::string("bookkeeping/plan/") + policy + "/" + model;
      benchmark::RegisterBenchmark(name.c_str(), plan, std::string(policy), std::string(model))->Unit(benchmark::kMillisecond);
    }
  }
  return 0;
}();

}  // namespace
