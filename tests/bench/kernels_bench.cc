// attention/, state/ and copy/: kernels of the selected driver over the C ABI, against the ceiling measured in the same process. Each call
// uses another part of a working set larger than the caches. Bytes are counted once: the keys and values attended, or the state read and
// written.
#include <benchmark/benchmark.h>
#include <quire/quire.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "ceilings.h"

namespace quire::bench {
namespace {

constexpr quire_dtype kBf16 = {QUIRE_DTYPE_BFLOAT, 16, 1};
constexpr quire_dtype kF32 = {QUIRE_DTYPE_FLOAT, 32, 1};
constexpr uint64_t kWorkingSet = uint64_t{256} << 20;

void require(quire_code code, const quire_error& err) {
  if (code == QUIRE_OK) return;
  std::fprintf(stderr, "%s: %s\n", err.source, err.message);
  std::exit(1);
}

// The device that the environment selects, and its stream.
struct Device {
  quire_runtime* runtime = nullptr;
  quire_device* device = nullptr;
  quire_stream* stream = nullptr;
  Device() {
    quire_error err{};
    err.struct_size = sizeof err;
    quire_runtime_options options{};
    options.struct_size = sizeof options;
    options.header_abi = QUIRE_ABI_VERSION;
    require(quire_runtime_create(&options, &runtime, &err), err);
    require(quire_device_open(runtime, 0, &device, &err), err);
    require(quire_stream_create(device, 0, &stream, &err), err);
  }
  ~Device() {
    quire_stream_release(stream);
    quire_device_release(device);
    quire_runtime_release(runtime);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
};

Device& device() {
  static Device d;
  return d;
}

uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

// Numbers in +-(0.5, 2): never zeros.
void fill_bf16(void* bytes, uint64_t n, uint64_t seed) {
  auto* p = static_cast<uint16_t*>(bytes);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t r = next_random(&seed);
    p[i] = static_cast<uint16_t>((r & 0x8000) | 0x3f00 | (r & 0xff));
  }
}

// A dense tensor made by the driver.
struct Tensor {
  quire_tensor tensor{};
  quire_memory* memory = nullptr;
  Tensor(quire_dtype dtype, std::vector<int64_t> shape) {
    quire_error err{};
    err.struct_size = sizeof err;
    tensor.dtype = dtype;
    tensor.ndim = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), tensor.shape);
    require(quire_tensor_create(device().device, &tensor, &memory, &err), err);
    const auto elements = static_cast<uint64_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    if (dtype.bits == 16) fill_bf16(tensor.data, elements, elements);
    uint64_t seed = elements;
    for (uint64_t i = 0; dtype.bits == 32 && i < elements; ++i) {
      static_cast<float*>(tensor.data)[i] = -0.05f - 0.1f * static_cast<float>(next_random(&seed) & 0xffff) / 65536.0f;
    }
  }
  ~Tensor() { quire_memory_release(memory); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
};

struct AttentionArgs {
  const char* order;  // LPBJKTHD: heads of a token together; LPBJKHTD: tokens of a head together
  uint32_t page, group, kv_tokens, queries;
};

void run_attention(benchmark::State& state, const AttentionArgs& a) {
  constexpr int64_t kHeads = 8;
  constexpr int64_t kDim = 128;
  const int64_t row_bytes = int64_t{a.kv_tokens} * kHeads * kDim * 2 * 2;
  const int64_t rows = a.queries > 1 ? 1 : std::max<int64_t>(1, static_cast<int64_t>(kWorkingSet) / row_bytes);
  const int64_t columns = (a.kv_tokens + a.page - 1) / a.page;
  const bool tokens_first = std::string(a.order) == "LPBJKTHD";
  Tensor pool(kBf16, {rows * columns, 2, tokens_first ? a.page : kHeads, tokens_first ? kHeads : int64_t{a.page}, kDim});
  Tensor query(kBf16, {rows * a.queries, kHeads * a.group, kDim});
  Tensor out(kBf16, {rows * a.queries, kHeads * a.group, kDim});
  std::vector<int32_t> table(static_cast<size_t>(rows * columns));
  std::iota(table.begin(), table.end(), 0);
  uint64_t seed = 5;
  for (size_t i = table.size() - 1; i > 0; --i) std::swap(table[i], table[next_random(&seed) % (i + 1)]);
  std::vector<int32_t> indptr;
  for (int64_t r = 0; r <= rows; ++r) indptr.push_back(static_cast<int32_t>(r * a.queries));
  const std::vector<int32_t> lengths(static_cast<size_t>(rows), static_cast<int32_t>(a.kv_tokens));
  quire_attention op{};
  op.struct_size = sizeof op;
  op.flags = QUIRE_ATTENTION_CAUSAL;
  op.kv.dtype = kBf16;
  op.kv.num_heads = kHeads;
  op.kv.block_tokens = a.page;
  op.kv.num_sides = 2;
  op.kv.num_ids = static_cast<uint64_t>(rows * columns);
  const int64_t* stride = pool.tensor.stride;
  for (int64_t s = 0; s < 2; ++s) {
    op.kv.side[s] = {static_cast<char*>(pool.tensor.data) + s * stride[1],
                     stride[0],
                     stride[tokens_first ? 2 : 3],
                     stride[tokens_first ? 3 : 2],
                     2,
                     kDim,
                     0};
  }
  op.query = query.tensor;
  op.out = out.tensor;
  op.table = table.data();
  op.table_pitch = static_cast<uint64_t>(columns);
  op.query_indptr = indptr.data();
  op.kv_len = lengths.data();
  op.num_rows = static_cast<uint32_t>(rows);
  quire_error err{};
  err.struct_size = sizeof err;
  for (auto _ : state) {
    require(quire_op_attention(device().stream, &op, &err), err);
    require(quire_stream_synchronize(device().stream, -1, &err), err);
  }
  using benchmark::Counter;
  const double calls = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(rows * row_bytes) * calls;
  const double n = a.queries;
  const double pairs = static_cast<double>(rows) * (n * a.kv_tokens - n * (n - 1) / 2) * kHeads * a.group;
  state.counters["GBps"] = Counter(bytes * 1e-9, Counter::kIsRate);
  state.counters["TFLOPs"] = Counter(4 * kDim * pairs * calls * 1e-12, Counter::kIsRate);
  state.counters["ceiling"] = a.queries > 1 ? ceilings().tflops : ceilings().read_gbps;
  const double done = a.queries > 1 ? 4 * kDim * pairs * calls * 1e-12 / ceilings().tflops : bytes * 1e-9 / ceilings().read_gbps;
  state.counters["of_ceiling"] = Counter(done, Counter::kIsRate);
}

void gated_delta(benchmark::State& state, quire_dtype dtype) {
  constexpr int64_t kHeads = 32;
  constexpr int64_t kDim = 128;
  const int64_t slot_bytes = kHeads * kDim * kDim * dtype.bits / 8;
  const int64_t rows = static_cast<int64_t>(kWorkingSet) / slot_bytes / 2;
  Tensor pool(dtype, {2 * rows, kHeads, kDim, kDim});
  Tensor query(kBf16, {rows, kHeads / 2, kDim});
  Tensor key(kBf16, {rows, kHeads / 2, kDim});
  Tensor value(kBf16, {rows, kHeads, kDim});
  Tensor gate(kF32, {rows, kHeads});
  Tensor beta(kF32, {rows, kHeads});
  Tensor out(kBf16, {rows, kHeads, kDim});
  for (int64_t i = 0; i < rows * kHeads; ++i) static_cast<float*>(beta.tensor.data)[i] *= -4.0f;
  std::vector<int32_t> indptr(static_cast<size_t>(rows) + 1);
  std::iota(indptr.begin(), indptr.end(), 0);
  std::vector<int32_t> read(static_cast<size_t>(rows));
  std::iota(read.begin(), read.end(), 0);
  std::vector<int32_t> write(static_cast<size_t>(rows));
  std::iota(write.begin(), write.end(), static_cast<int32_t>(rows));
  quire_gated_delta op{};
  op.struct_size = sizeof op;
  op.flags = QUIRE_GATED_DELTA_L2NORM;
  op.state.base = pool.tensor.data;
  op.state.unit = slot_bytes;
  op.state.dtype = dtype;
  op.state.ndim = 3;
  op.state.num_ids = static_cast<uint64_t>(2 * rows);
  for (int d = 0; d < 3; ++d) {
    op.state.shape[d] = static_cast<uint64_t>(pool.tensor.shape[d + 1]);
    op.state.stride[d] = pool.tensor.stride[d + 1];
  }
  op.query = query.tensor;
  op.key = key.tensor;
  op.value = value.tensor;
  op.gate = gate.tensor;
  op.beta = beta.tensor;
  op.out = out.tensor;
  op.query_indptr = indptr.data();
  op.num_rows = static_cast<uint32_t>(rows);
  quire_error err{};
  err.struct_size = sizeof err;
  for (auto _ : state) {
    op.state_read = read.data();
    op.state_write = write.data();
    require(quire_op_gated_delta(device().stream, &op, &err), err);
    require(quire_stream_synchronize(device().stream, -1, &err), err);
    std::swap(read, write);
  }
  using benchmark::Counter;
  const double bytes = static_cast<double>(2 * rows * slot_bytes) * static_cast<double>(state.iterations());
  state.counters["GBps"] = Counter(bytes * 1e-9, Counter::kIsRate);
  state.counters["ceiling"] = ceilings().copy_gbps;
  state.counters["of_ceiling"] = Counter(bytes * 1e-9 / ceilings().copy_gbps, Counter::kIsRate);
}

void copy_pages(benchmark::State& state, int64_t page_bytes) {
  const int64_t pages = static_cast<int64_t>(kWorkingSet) / page_bytes;
  Tensor pool(kBf16, {pages, page_bytes / 2});
  std::vector<quire_copy_run> runs;
  const auto base = reinterpret_cast<uintptr_t>(pool.tensor.data);
  std::vector<uint64_t> order(static_cast<size_t>(pages));
  std::iota(order.begin(), order.end(), uint64_t{0});
  uint64_t seed = 5;
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[next_random(&seed) % (i + 1)]);
  const auto bytes = static_cast<uint64_t>(page_bytes);
  for (size_t i = 0; i + 1 < order.size(); i += 2) runs.push_back({base + order[i] * bytes, base + order[i + 1] * bytes, bytes});
  quire_error err{};
  err.struct_size = sizeof err;
  for (auto _ : state) {
    require(quire_op_copy(device().stream, runs.data(), runs.size(), &err), err);
    require(quire_stream_synchronize(device().stream, -1, &err), err);
  }
  using benchmark::Counter;
  const double moved = 2 * static_cast<double>(runs.size()) * static_cast<double>(page_bytes) * static_cast<double>(state.iterations());
  state.counters["GBps"] = Counter(moved * 1e-9, Counter::kIsRate);
  state.counters["ceiling"] = ceilings().copy_gbps;
  state.counters["of_ceiling"] = Counter(moved * 1e-9 / ceilings().copy_gbps, Counter::kIsRate);
}

std::string name_of(const char* kind, const AttentionArgs& a) {
  return std::string("attention/") + kind + "/bf16/" + a.order + "/page:" + std::to_string(a.page) + "/G:" + std::to_string(a.group) +
         "/ctx:" + std::to_string(a.kv_tokens) + (a.queries > 1 ? "/M:" + std::to_string(a.queries) : "");
}

const bool kRegistered = [] {
  for (const char* order : {"LPBJKTHD", "LPBJKHTD"}) {
    for (uint32_t page : {16u, 528u}) {
      for (uint32_t group : {1u, 4u, 8u}) {
        const AttentionArgs a{order, page, group, 4096, 1};
        benchmark::RegisterBenchmark(name_of("decode", a).c_str(), run_attention, a)->UseRealTime()->Unit(benchmark::kMillisecond);
      }
    }
    const AttentionArgs p{order, 16, 4, 4096, 512};
    benchmark::RegisterBenchmark(name_of("prefill", p).c_str(), run_attention, p)->UseRealTime()->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("state/gdn/f32", gated_delta, kF32)->UseRealTime()->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("state/gdn/bf16", gated_delta, kBf16)->UseRealTime()->Unit(benchmark::kMillisecond);
  for (int64_t bytes : {16384, 2134016}) {
    benchmark::RegisterBenchmark(("copy/page/bytes:" + std::to_string(bytes)).c_str(), copy_pages, bytes)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace quire::bench
