// What the kernel benchmarks share: the device that the environment selects, tensors of random numbers, and counters.
#pragma once

#include <benchmark/benchmark.h>
#include <quire/quire.h>

#include <cstdint>
#include <vector>

#include "ceilings.h"

namespace quire::bench {

inline constexpr quire_dtype kBf16 = {QUIRE_DTYPE_BFLOAT, 16, 1};
inline constexpr quire_dtype kF16 = {QUIRE_DTYPE_FLOAT, 16, 1};
inline constexpr quire_dtype kF32 = {QUIRE_DTYPE_FLOAT, 32, 1};
inline constexpr quire_dtype kE4m3 = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
inline constexpr quire_dtype kI8 = {QUIRE_DTYPE_INT, 8, 1};
inline constexpr int64_t kWorkingSet = int64_t{1} << 30;

void require(quire_code code, const quire_error& err);  // ends the process with the message unless OK
quire_error fresh_error();

struct Device {
  quire_runtime* runtime = nullptr;
  quire_device* device = nullptr;
  quire_stream* stream = nullptr;
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};
Device& device();
void finish();  // waits for the stream

uint64_t next_random(uint64_t* state);
std::vector<uint64_t> shuffled(uint64_t n, uint64_t seed);

// A dense tensor made by the driver and filled with random numbers: bf16 and fp16 in +-(0.5, 2), 8 bits without the codes of NaN, fp32 in
// [low, high). Never zeros.
struct Tensor {
  quire_tensor tensor{};
  quire_buffer* buffer = nullptr;
  Tensor(quire_dtype dtype, const std::vector<int64_t>& shape, float low = -1.0f, float high = 1.0f);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  char* data() const { return static_cast<char*>(tensor.data); }
};

// The magnitudes of the elements of a dense bf16 tensor, added up. Rows report that of the first
// call's outputs as `sum`: versions that compute the same report the same, up to rounding.
double magnitudes(const Tensor& outputs);

// of_ceiling, ceiling and the rate (GBps, or TFLOPs) of the best call; median_of_ceiling over the pairs (median_of_paged: of reads in
// random pages); cpu_of_ceiling by processor time.
void report(benchmark::State& state, Ceiling kind, const Pairs& pairs);

}  // namespace quire::bench
