// Rows of recurrent states: decode steps over slots of a working set that no cache holds, each read once and written once to another; and
// one long prompt, of which the state is a thousandth of the work.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/conformance/with_batch.h"
#include "tests/kernels/gpu/gpu_bench.h"

namespace quire::conformance {
namespace {

// The arrays of a step in the device's memory: `rows` rows of as many tokens each.
struct Step {
  std::unique_ptr<Block> indptr, read, write;

  Step(int32_t rows, int32_t tokens) {
    std::vector<int32_t> ends(static_cast<size_t>(rows) + 1), from(static_cast<size_t>(rows)), to(from.size());
    for (size_t r = 0; r < ends.size(); ++r) ends[r] = static_cast<int32_t>(r) * tokens;
    std::iota(from.begin(), from.end(), 0);
    std::iota(to.begin(), to.end(), rows);
    indptr = put(ends.data(), ends.size() * 4);
    read = put(from.data(), from.size() * 4);
    write = put(to.data(), to.size() * 4);
  }
  void give(int32_t rows, quire_batch* batch) const {
    batch->query_indptr = reinterpret_cast<const int32_t*>(indptr->data());
    batch->state_read = reinterpret_cast<const int32_t*>(read->data());
    batch->state_write = reinterpret_cast<const int32_t*>(write->data());
    batch->num_rows = static_cast<uint32_t>(rows);
  }
};

// Tensors and their memory.
class Tensors {
 public:
  quire_tensor make(quire_dtype dtype, const std::vector<int64_t>& shape, float factor = 1.0f) {
    int64_t bytes = dtype.bits / 8;
    for (const int64_t n : shape) bytes *= n;
    blocks_.push_back(std::make_unique<Block>(static_cast<uint64_t>(bytes)));
    randomise(*blocks_.back(), dtype, factor);
    return dense(*blocks_.back(), dtype, shape);
  }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

quire_paged_state paged(const quire_tensor& pool) {
  quire_paged_state state{};
  state.base = pool.data;
  state.unit = pool.stride[0];
  state.dtype = pool.dtype;
  state.ndim = 3;
  state.num_ids = static_cast<uint64_t>(pool.shape[0]);
  for (int d = 0; d < 3; ++d) {
    state.shape[d] = static_cast<uint64_t>(pool.shape[d + 1]);
    state.stride[d] = pool.stride[d + 1];
  }
  return state;
}

// Rows of a decode step whose states, read and written, are a working set.
int32_t rows_of(int64_t slot_bytes) {
  return static_cast<int32_t>(std::max<int64_t>(1, static_cast<int64_t>(scale().set) / slot_bytes / 2));
}

// Qwen3-Next's layer: 32 heads of V over 16 of K, 128 wide.
void gated_delta(const std::string& name, int32_t rows, int32_t tokens) {
  if (!want(name)) return;
  constexpr int64_t kHeads = 32, kDim = 128;
  const int64_t all = int64_t{rows} * tokens;
  Tensors own;
  const Step step(rows, tokens);
  WithBatch<quire_gated_delta> op{};
  op.flags = QUIRE_GATED_DELTA_L2NORM;
  op.state = paged(own.make(kFloat, {2 * int64_t{rows}, kHeads, kDim, kDim}));
  op.query = own.make(kBf16, {all, kHeads / 2, kDim});
  op.key = own.make(kBf16, {all, kHeads / 2, kDim});
  op.value = own.make(kBf16, {all, kHeads, kDim});
  op.gate = own.make(kFloat, {all, kHeads}, -0.1f);
  op.beta = own.make(kFloat, {all, kHeads}, 0.4f);
  op.out = own.make(kBf16, {all, kHeads, kDim});
  step.give(rows, &op.arrays);
  const auto call = [&] {
    quire_error err = fresh_error();
    require(api().gated_delta(driver().stream, &op, &err), "gated_delta", err);
  };
  const double state = static_cast<double>(kHeads * kDim * kDim);
  print(name, measure(call, scale().rounds), tokens == 1 ? 2.0 * rows * state * 4 : 0,
        tokens == 1 ? 0 : 8.0 * static_cast<double>(all) * state);
}

// Mamba2: 128 heads of 64 in 8 groups, states 128 wide.
void mamba2(const std::string& name, int32_t rows, int32_t tokens) {
  if (!want(name)) return;
  constexpr int64_t kHeads = 128, kGroups = 8, kDim = 64, kWidth = 128;
  const int64_t all = int64_t{rows} * tokens;
  Tensors own;
  const Step step(rows, tokens);
  WithBatch<quire_selective_scan> op{};
  op.flags = QUIRE_SELECTIVE_SCAN_SOFTPLUS;
  op.state = paged(own.make(kFloat, {2 * int64_t{rows}, kHeads, kDim, kWidth}));
  op.x = own.make(kBf16, {all, kHeads, kDim});
  op.dt = own.make(kBf16, {all, kHeads});
  op.a = own.make(kFloat, {kHeads}, -0.3f);
  op.b = own.make(kBf16, {all, kGroups, kWidth});
  op.c = own.make(kBf16, {all, kGroups, kWidth});
  op.skip = own.make(kFloat, {kHeads});
  op.dt_bias = own.make(kFloat, {kHeads}, -1.0f);
  op.z = own.make(kBf16, {all, kHeads, kDim});
  op.out = own.make(kBf16, {all, kHeads, kDim});
  step.give(rows, &op.arrays);
  const auto call = [&] {
    quire_error err = fresh_error();
    require(api().selective_scan(driver().stream, &op, &err), "selective_scan", err);
  };
  const double state = static_cast<double>(kHeads * kDim * kWidth);
  print(name, measure(call, scale().rounds), tokens == 1 ? 2.0 * rows * state * 4 : 0,
        tokens == 1 ? 0 : 6.0 * static_cast<double>(all) * state);
}

}  // namespace

void state_rows() {
  gated_delta("state/gdn/f32/H:32/D:128/decode", rows_of(32 * 128 * 128 * 4), 1);
  gated_delta("state/gdn/f32/H:32/D:128/q:8192", 1, scale().tokens(8192));
  mamba2("state/mamba2/f32/H:128/P:64/N:128/decode", rows_of(128 * 64 * 128 * 4), 1);
  mamba2("state/mamba2/f32/H:128/P:64/N:128/q:8192", 1, scale().tokens(8192));
}

}  // namespace quire::conformance
