// state/: decode updates of recurrent states. Every call reads each slot of a working set of 1 GiB once and writes another one; bytes are
// those of the states read and written.
#include <cstring>
#include <numeric>

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

void gated_delta(benchmark::State& state, quire_dtype dtype) {
  constexpr int64_t kHeads = 32;
  constexpr int64_t kDim = 128;
  constexpr int64_t kRows = 8;  // of one call
  const int64_t slot_bytes = kHeads * kDim * kDim * dtype.bits / 8;
  const int64_t slots = kWorkingSet / slot_bytes;
  Tensor pool(dtype, {slots, kHeads, kDim, kDim});
  Tensor query(kBf16, {kRows, kHeads / 2, kDim});
  Tensor key(kBf16, {kRows, kHeads / 2, kDim});
  Tensor value(kBf16, {kRows, kHeads, kDim});
  Tensor gate(kF32, {kRows, kHeads}, -0.2f, -0.05f);
  Tensor beta(kF32, {kRows, kHeads}, 0.2f, 0.8f);
  Tensor out(kBf16, {kRows, kHeads, kDim});
  Slots at(kRows);
  quire_gated_delta op{};
  op.struct_size = sizeof op;
  op.flags = QUIRE_GATED_DELTA_L2NORM;
  op.state.base = pool.tensor.data;
  op.state.unit = slot_bytes;
  op.state.dtype = dtype;
  op.state.ndim = 3;
  op.state.num_ids = static_cast<uint64_t>(slots);
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
  op.query_indptr = at.indptr.data();
  op.state_read = at.read.data();
  op.state_write = at.write.data();
  op.num_rows = kRows;
  Pairs pairs(Ceiling::kCopy, static_cast<double>(2 * kRows * slot_bytes));
  int64_t first = 0;
  auto call = [&] {
    for (int64_t i = 0; i < kRows; ++i) {
      at.read[static_cast<size_t>(i)] = static_cast<int32_t>((first + i) % slots);
      at.write[static_cast<size_t>(i)] = static_cast<int32_t>((first + slots / 2 + i) % slots);
    }
    first += kRows;
    quire_error err = fresh_error();
    require(quire_op_gated_delta(device().stream, &op, &err), err);
    finish();
  };
  for (auto _ : state) state.SetIterationTime(pairs.run(call));
  report(state, Ceiling::kCopy, pairs);
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
  return true;
}();

}  // namespace
}  // namespace quire::bench
