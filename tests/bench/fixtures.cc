#include "fixtures.h"

#include "drivers/common/real.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace quire::bench {

void require(quire_code code, const quire_error& err) {
  if (code == QUIRE_OK) return;
  std::fprintf(stderr, "%s: %s\n", err.source, err.message);
  std::exit(1);
}

quire_error fresh_error() {
  quire_error err{};
  err.struct_size = sizeof err;
  return err;
}

Device::Device() {
  quire_error err = fresh_error();
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  require(quire_runtime_create(&options, &runtime, &err), err);
  require(quire_device_open(runtime, 0, &device, &err), err);
  require(quire_stream_create(device, 0, &stream, &err), err);
  quire_device_info info{};
  info.struct_size = sizeof info;
  require(quire_device_get_info(device, &info, &err), err);
  std::fprintf(stderr, "device: %s\n", info.name);  // the CPU driver names its kernels
}

Device::~Device() {
  quire_stream_release(stream);
  quire_device_release(device);
  quire_runtime_release(runtime);
}

Device& device() {
  static Device d;
  return d;
}

void finish() {
  quire_error err = fresh_error();
  require(quire_stream_synchronize(device().stream, -1, &err), err);
}

uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

std::vector<uint64_t> shuffled(uint64_t n, uint64_t seed) {
  std::vector<uint64_t> order(n);
  std::iota(order.begin(), order.end(), uint64_t{0});
  for (uint64_t i = n; i > 1; --i) std::swap(order[i - 1], order[next_random(&seed) % i]);
  return order;
}

Tensor::Tensor(quire_dtype dtype, const std::vector<int64_t>& shape, float low, float high) {
  quire_error err = fresh_error();
  tensor.dtype = dtype;
  tensor.ndim = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape);
  require(quire_buffer_create(device().device, &tensor, &buffer, &err), err);
  const auto elements = static_cast<uint64_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  // A megabyte of random numbers, then copies of it, each begun elsewhere.
  const uint64_t size = dtype.bits / 8;
  const uint64_t some = std::min<uint64_t>(elements, (uint64_t{1} << 20) - 37);
  uint64_t seed = elements;
  for (uint64_t i = 0; i < some; ++i) {
    const uint64_t r = next_random(&seed);
    const auto half = static_cast<uint16_t>((r & 0x8000) | (dtype.code == QUIRE_DTYPE_BFLOAT ? 0x3f00 : 0x3800) | (r & 0xff));
    const auto byte = static_cast<uint8_t>((r & 0x80) | 0x20 | (r & 0x1f));
    const float f = low + (high - low) * static_cast<float>(r & 0xffff) / 65536.0f;
    if (size == 4) memcpy(data() + 4 * i, &f, 4);
    if (size == 2) memcpy(data() + 2 * i, &half, 2);
    if (size == 1) memcpy(data() + i, &byte, 1);
  }
  for (uint64_t at = some; at < elements; at += some) {
    memcpy(data() + at * size, data(), std::min(some, elements - at) * size);
  }
}

Tensor::~Tensor() { quire_buffer_release(buffer); }

double magnitudes(const Tensor& outputs) {
  uint64_t elements = 1;
  for (int32_t d = 0; d < outputs.tensor.ndim; ++d) elements *= static_cast<uint64_t>(outputs.tensor.shape[d]);
  double sum = 0;
  for (uint64_t i = 0; i < elements; ++i) sum += std::fabs(drivers::load_real(drivers::Real::kBfloat16, outputs.data() + 2 * i));
  return sum;
}

void report(benchmark::State& state, Ceiling kind, const Pairs& pairs) {
  const Sample s = pairs.sample();
  const bool bytes = kind == Ceiling::kRead || kind == Ceiling::kCopy;
  state.counters[bytes ? "GBps" : "TFLOPs"] = s.best_rate;
  state.counters["ceiling"] = ceiling(kind);
  state.counters["of_ceiling"] = s.of_ceiling;
  state.counters["median_of_ceiling"] = s.median_ratio;
  if (kind == Ceiling::kRead) state.counters["median_of_paged"] = s.median_paged;
  state.counters["cpu_of_ceiling"] = s.cpu_of_ceiling;
}

}  // namespace quire::bench
