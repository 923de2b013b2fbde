#include "ceilings.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBytes = uint64_t{256} << 20;  // per thread: far beyond every cache
constexpr uint64_t kFlopRounds = 4000000;

uint32_t threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(std::max(1, CPU_COUNT(&set))) : 1;
}

// Best of three: seconds in which every thread has done its work once.
double best_seconds(const std::function<void(uint32_t)>& work) {
  double best = 1e30;
  for (int round = 0; round < 3; ++round) {
    const auto begin = Clock::now();
    std::vector<std::thread> all;
    for (uint32_t t = 0; t < threads(); ++t) all.emplace_back(work, t);
    for (std::thread& t : all) t.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

using Words = uint64_t __attribute__((vector_size(64)));
using Floats = float __attribute__((vector_size(32)));

uint64_t sum_of(const std::vector<uint64_t>& words) {
  Words sums[4] = {};
  for (uint64_t i = 0; i + 32 <= words.size(); i += 32) {
    for (uint64_t k = 0; k < 4; ++k) {
      Words w;
      memcpy(&w, &words[i + 8 * k], sizeof w);
      sums[k] += w;
    }
  }
  const Words all = sums[0] + sums[1] + sums[2] + sums[3];
  return all[0] ^ all[7];
}

#define QUIRE_BENCH_FLOPS(body)                                     \
  Floats acc[12];                                                   \
  for (int i = 0; i < 12; ++i) acc[i] = Floats{} + float(i) * seed; \
  const Floats factor = Floats{} + 0.999f;                          \
  for (uint64_t r = 0; r < kFlopRounds; ++r) {                      \
    for (int i = 0; i < 12; ++i) acc[i] = acc[i] * factor + seed;   \
  }                                                                 \
  Floats sum = {};                                                  \
  for (int i = 0; i < 12; ++i) sum += acc[i];                       \
  return sum[0] + sum[7]

float flops_portable(float seed) { QUIRE_BENCH_FLOPS(); }

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float flops_avx2(float seed) { QUIRE_BENCH_FLOPS(); }
#endif

float flops(float seed) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return flops_avx2(seed);
#endif
  return flops_portable(seed);
}

Ceilings measure() {
  Ceilings c{};
  const double n = threads();
  std::vector<std::vector<uint64_t>> source(threads(), std::vector<uint64_t>(kBytes / 8, 0x3f81a2b3c4d5e6f7ull));
  std::vector<std::vector<uint64_t>> target(threads(), std::vector<uint64_t>(kBytes / 8, 1));
  std::vector<uint64_t> sums(threads());
  c.read_gbps = n * static_cast<double>(kBytes) / best_seconds([&](uint32_t t) { sums[t] += sum_of(source[t]); }) * 1e-9;
  c.copy_gbps = 2 * n * static_cast<double>(kBytes) /
                best_seconds([&](uint32_t t) { memcpy(target[t].data(), source[t].data() + (sums[t] == 42 ? 1 : 0), kBytes - 8); }) * 1e-9;
  std::vector<float> results(threads());
  const double operations = n * static_cast<double>(kFlopRounds) * 12 * 8 * 2;
  c.tflops = operations / best_seconds([&](uint32_t t) { results[t] = flops(1e-3f + static_cast<float>(sums[t] & 1)); }) * 1e-12;
  if (results[0] == 42.0f) c.tflops *= 1.0000001;  // the results are used
  return c;
}

}  // namespace

const Ceilings& ceilings() {
  static const Ceilings measured = measure();
  return measured;
}

}  // namespace quire::bench
