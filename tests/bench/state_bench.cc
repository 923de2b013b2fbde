// state/: recurrent states. A call of decode updates reads slots of a working set of 1 GiB, each once, and writes others; bytes are those
// of the states read and written. A prompt stays on one state.
#include <cstring>
#include <numeric>

#include "../kernels/conformance/with_batch.h"
#include "fixtures.h"

namespace quire::bench {
namespace {

struct Slots {
  std::vector<int32_t> read, write, indptr;
  explicit Slots(int64_t rows) : read(static_cast<size_t>(rows)), write(read), indptr(read.size() + 1) {
    std::iota(read.begin(), read.end(), 0);
    std::iota(write.begin(), write.end(), static_cast<int32_t>(rows));
    std::iota(indptr.begin(), indptr.end(), 0);
  }
};

// Dense states [heads, first, second] of a pool.
quire_paged_state paged(const Tensor& pool, int64_t slot_bytes) {
  quire_paged_state state{};
  state.base = pool.tensor.data;
  state.unit = slot_bytes;
  state.dtype = pool.tensor.dtype;
  state.ndim = 3;
  state.num_ids = static_cast<uint64_t>(pool.tensor.shape[0]);
  for (int d = 0; d < 3; ++d) {
    state.shape[d] = static_cast<uint64_t>(pool.tensor.shape[d + 1]);
    state.stride[d] = pool.tensor.stride[d + 1];
  }
  return state;
}

// Every call goes on to the next slots; those written lie half the pool further.
template <typename Run>
void measure(benchmark::State& state, Slots& at, int64_t slots, int64_t slot_bytes, const Tensor& outputs, Run&& run) {
  const auto rows = static_cast<int64_t>(at.read.size());
  Pairs pairs(Ceiling::kCopy, static_cast<double>(2 * rows * slot_bytes));
  int64_t first = 0;
  auto call = [&] {
    for (int64_t i = 0; i < rows; ++i) {
      at.read[static_cast<size_t>(i)] = static_cast<int32_t>((first + i) % slots);
      at.write[static_cast<size_t>(i)] = static_cast<int32_t>((first + slots / 2 + i) % slots);
    }
    first += rows;
    quire_error err = fresh_error();
    require(run(&err), err);
    finish();
  };
  for (auto _ : state) {
    state.SetIterationTime(pairs.run(call));
    if (first == rows) state.counters["sum"] = magnitudes(outputs);
  }
  report(state, Ceiling::kCopy, pairs);
}

// A gated delta layer of 32 heads of 128 over a pool of slots; rows of the op are left to fill in.
struct DeltaLayer {
  static constexpr int64_t kHeads = 32;
  static constexpr int64_t kDim = 128;
  int64_t slot_bytes;
  Tensor pool, query, key, value, gate, beta, out;
  WithBatch<quire_gated_delta> op{};

  DeltaLayer(quire_dtype dtype, int64_t slots, int64_t tokens)
      : slot_bytes(bytes_of_slot(dtype)),
        pool(dtype, {slots, kHeads, kDim, kDim}),
        query(kBf16, {tokens, kHeads / 2, kDim}),
        key(kBf16, {tokens, kHeads / 2, kDim}),
        value(kBf16, {tokens, kHeads, kDim}),
        gate(kF32, {tokens, kHeads}, -0.2f, -0.05f),
        beta(kF32, {tokens, kHeads}, 0.2f, 0.8f),
        out(kBf16, {tokens, kHeads, kDim}) {
    op.flags = QUIRE_GATED_DELTA_L2NORM;
    op.state = paged(pool, slot_bytes);
    op.query = query.tensor;
    op.key = key.tensor;
    op.value = value.tensor;
    op.gate = gate.tensor;
    op.beta = beta.tensor;
    op.out = out.tensor;
  }
  static int64_t bytes_of_slot(quire_dtype dtype) { return kHeads * kDim * kDim * dtype.bits / 8; }
};

void gated_delta(benchmark::State& state, quire_dtype dtype) {
  constexpr int64_t kRows = 8;  // of one call
  const int64_t slots = kWorkingSet / DeltaLayer::bytes_of_slot(dtype);
  DeltaLayer layer(dtype, slots, kRows);
  Slots at(kRows);
  layer.op.arrays.query_indptr = at.indptr.data();
  layer.op.arrays.state_read = at.read.data();
  layer.op.arrays.state_write = at.write.data();
  layer.op.arrays.num_rows = kRows;
  measure(state, at, slots, layer.slot_bytes, layer.out,
          [&](quire_error* err) { return quire_op_gated_delta(device().stream, &layer.op, err); });
}

// Prompts of 512 tokens; work is the four multiply-adds of each token on each element of the state, the ceiling that of fp32 in registers.
void gated_delta_prefill(benchmark::State& state, quire_dtype dtype) {
  constexpr int64_t kTokens = 512;
  DeltaLayer layer(dtype, 4, kTokens);
  const int32_t indptr[] = {0, kTokens};
  const int32_t read = 1;
  const int32_t write = 2;
  layer.op.arrays.query_indptr = indptr;
  layer.op.arrays.state_read = &read;
  layer.op.arrays.state_write = &write;
  layer.op.arrays.num_rows = 1;
  Pairs pairs(Ceiling::kFloat, static_cast<double>(8 * kTokens * DeltaLayer::kHeads * DeltaLayer::kDim * DeltaLayer::kDim));
  auto call = [&] {
    quire_error err = fresh_error();
    require(quire_op_gated_delta(device().stream, &layer.op, &err), err);
    finish();
  };
  for (auto _ : state) state.SetIterationTime(pairs.run(call));
  state.counters["sum"] = magnitudes(layer.out);  // each call's outputs are those of the first
  report(state, Ceiling::kFloat, pairs);
}

void mamba2(benchmark::State& state, quire_dtype dtype) {
  constexpr int64_t kHeads = 128;
  constexpr int64_t kGroups = 8;
  constexpr int64_t kDim = 64;
  constexpr int64_t kWidth = 128;
  constexpr int64_t kRows = 8;  // of one call
  const int64_t slot_bytes = kHeads * kDim * kWidth * dtype.bits / 8;
  const int64_t slots = kWorkingSet / slot_bytes;
  Tensor pool(dtype, {slots, kHeads, kDim, kWidth});
  Tensor x(kBf16, {kRows, kHeads, kDim});
  Tensor z(kBf16, {kRows, kHeads, kDim});
  Tensor dt(kBf16, {kRows, kHeads});
  Tensor a(kF32, {kHeads}, -1.0f, -0.1f);
  Tensor bias(kF32, {kHeads}, -2.0f, 1.0f);
  Tensor skip(kF32, {kHeads}, 0.5f, 1.0f);
  Tensor b(kBf16, {kRows, kGroups, kWidth});
  Tensor c(kBf16, {kRows, kGroups, kWidth});
  Tensor out(kBf16, {kRows, kHeads, kDim});
  Slots at(kRows);
  WithBatch<quire_selective_scan> op{};
  op.flags = QUIRE_SELECTIVE_SCAN_SOFTPLUS;
  op.state = paged(pool, slot_bytes);
  op.x = x.tensor;
  op.dt = dt.tensor;
  op.a = a.tensor;
  op.b = b.tensor;
  op.c = c.tensor;
  op.skip = skip.tensor;
  op.dt_bias = bias.tensor;
  op.z = z.tensor;
  op.out = out.tensor;
  op.arrays.query_indptr = at.indptr.data();
  op.arrays.state_read = at.read.data();
  op.arrays.state_write = at.write.data();
  op.arrays.num_rows = kRows;
  measure(state, at, slots, slot_bytes, out, [&](quire_error* err) { return quire_op_selective_scan(device().stream, &op, err); });
}

const bool kRegistered = [] {
  benchmark::RegisterBenchmark("state/gdn/f32/H:32/D:128", gated_delta, kF32)
      ->UseManualTime()
      ->Iterations(100)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("state/gdn/bf16/H:32/D:128", gated_delta, kBf16)
      ->UseManualTime()
      ->Iterations(100)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("state/gdn_prefill/f32/H:32/D:128/q:512", gated_delta_prefill, kF32)
      ->UseManualTime()
      ->Iterations(25)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("state/mamba2/f32/H:128/P:64/N:128", mamba2, kF32)
      ->UseManualTime()
      ->Iterations(100)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("state/mamba2/bf16/H:128/P:64/N:128", mamba2, kBf16)
      ->UseManualTime()
      ->Iterations(100)
      ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace quire::bench
