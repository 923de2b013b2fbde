// copy/: rows into their slots, pages to other pages, pages to staging memory. Bytes are those read plus those written.
#include <cstring>

#include "../kernels/conformance/with_batch.h"
#include "fixtures.h"

namespace quire::bench {
namespace {

void run_copies(benchmark::State& state, std::vector<quire_copy_run> runs, uint64_t run_bytes) {
  const uint64_t per_call = std::max<uint64_t>(1, (uint64_t{64} << 20) / run_bytes);
  Pairs pairs(Ceiling::kCopy, static_cast<double>(2 * run_bytes * per_call));
  uint64_t at = 0;
  auto call = [&] {
    if (at + per_call > runs.size()) at = 0;
    quire_error err = fresh_error();
    require(quire_op_copy(device().stream, runs.data() + at, per_call, &err), err);
    finish();
    at += per_call;
  };
  for (auto _ : state) state.SetIterationTime(pairs.run(call));
  report(state, Ceiling::kCopy, pairs);
}

void pages(benchmark::State& state, int64_t page_bytes) {
  const int64_t count = kWorkingSet / page_bytes;
  Tensor pool(kBf16, {count, page_bytes / 2});
  const std::vector<uint64_t> order = shuffled(static_cast<uint64_t>(count), 5);
  const auto base = reinterpret_cast<uintptr_t>(pool.tensor.data);
  const auto bytes = static_cast<uint64_t>(page_bytes);
  std::vector<quire_copy_run> runs;
  for (size_t i = 0; i + 1 < order.size(); i += 2) runs.push_back({base + order[i] * bytes, base + order[i + 1] * bytes, bytes});
  run_copies(state, std::move(runs), bytes);
}

// Runs of a pool in random order, one behind the other in staging memory.
void gather(benchmark::State& state, int64_t run_bytes) {
  const int64_t count = kWorkingSet / run_bytes;
  Tensor pool(kBf16, {count, run_bytes / 2});
  Tensor staging(kBf16, {count, run_bytes / 2});
  const auto from = reinterpret_cast<uintptr_t>(pool.tensor.data);
  const auto to = reinterpret_cast<uintptr_t>(staging.tensor.data);
  const auto bytes = static_cast<uint64_t>(run_bytes);
  std::vector<quire_copy_run> runs;
  for (uint64_t i : shuffled(static_cast<uint64_t>(count), 7)) runs.push_back({from + i * bytes, to + runs.size() * bytes, bytes});
  run_copies(state, std::move(runs), bytes);
}

// Pages of 16 tokens, 8 heads of 128, in random order to staging memory, where tokens lie within heads: runs of one row.
void transform(benchmark::State& state) {
  constexpr int64_t kTokens = 16;
  constexpr int64_t kHeads = 8;
  constexpr int64_t kRow = 256;
  constexpr int64_t kPage = kTokens * kHeads * kRow;
  constexpr int64_t kCount = kWorkingSet / kPage;
  Tensor pool(kBf16, {kCount, kPage / 2});
  Tensor staging(kBf16, {kCount, kPage / 2});
  auto to = reinterpret_cast<uintptr_t>(staging.tensor.data);
  std::vector<quire_copy_run> runs;
  for (uint64_t id : shuffled(static_cast<uint64_t>(kCount), 11)) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(pool.tensor.data) + id * kPage;
    for (uint64_t head = 0; head < kHeads; ++head) {
      for (uint64_t token = 0; token < kTokens; ++token, to += kRow) runs.push_back({from + (token * kHeads + head) * kRow, to, kRow});
    }
  }
  run_copies(state, std::move(runs), kRow);
}

// The rows of a prefill chunk, 8 heads of 128, both sides, into pages in random order.
void append(benchmark::State& state, bool heads_first) {
  constexpr int64_t kTokens = 8192;
  constexpr int64_t kHeads = 8;
  constexpr int64_t kDim = 128;
  constexpr int64_t kPage = 16;
  constexpr int64_t kRowBytes = kHeads * kDim * 2;
  constexpr int64_t kChunks = kWorkingSet / (kTokens * 2 * kRowBytes);
  constexpr int64_t kIds = kChunks * kTokens / kPage;
  Tensor pool(kBf16, {kIds, 2, kPage, kHeads, kDim});
  Tensor key(kBf16, {kChunks * kTokens, kHeads, kDim});
  Tensor value(kBf16, {kChunks * kTokens, kHeads, kDim});
  std::vector<int64_t> slots;
  for (uint64_t id : shuffled(static_cast<uint64_t>(kIds), 9)) {
    for (int64_t t = 0; t < kPage; ++t) slots.push_back(static_cast<int64_t>(id) * kPage + t);
  }
  WithBatch<quire_kv_append> op{};
  op.kv.dtype = kBf16;
  op.kv.num_heads = kHeads;
  op.kv.block_tokens = kPage;
  op.kv.num_sides = 2;
  op.kv.num_ids = kIds;
  const int64_t row = kDim * 2;
  for (int64_t s = 0; s < 2; ++s) {
    op.kv.side[s] = {pool.data() + s * kPage * kRowBytes,
                     2 * kPage * kRowBytes,
                     heads_first ? row : kRowBytes,
                     heads_first ? kPage * row : row,
                     2,
                     kDim,
                     0,
                     0,
                     0,
                     0,
                     0};
  }
  op.set_tokens(kTokens);
  Pairs pairs(Ceiling::kCopy, static_cast<double>(2 * kTokens * 2 * kRowBytes));
  int64_t chunk = 0;
  auto call = [&] {
    op.key = key.tensor;
    op.value = value.tensor;
    op.key.shape[0] = op.value.shape[0] = kTokens;
    op.key.data = key.data() + chunk * kTokens * kRowBytes;
    op.value.data = value.data() + chunk * kTokens * kRowBytes;
    op.arrays.slots = slots.data() + chunk * kTokens;
    quire_error err = fresh_error();
    require(quire_op_kv_append(device().stream, &op, &err), err);
    finish();
    chunk = (chunk + 1) % kChunks;
  };
  for (auto _ : state) state.SetIterationTime(pairs.run(call));
  report(state, Ceiling::kCopy, pairs);
}

template <typename F, typename... T>
void add(const std::string& name, F* function, T... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), function, arguments...)->UseManualTime()->Iterations(60)->Unit(benchmark::kMillisecond);
}

const bool kRegistered = [] {
  add("copy/append/bf16/LPBJKTHD/page:16", append, false);
  add("copy/append/bf16/LPBJKHTD/page:16", append, true);
  for (int64_t bytes : {65536, 2134016}) add("copy/page/bytes:" + std::to_string(bytes), pages, bytes);
  // 32 KiB: a page of 16 tokens, 8 heads of 128, bf16, of one side
  for (int64_t bytes : {256, 4096, 16384, 32768, 65536}) add("copy/gather/bytes:" + std::to_string(bytes), gather, bytes);
  add("copy/transform/LPBJKTHD/LPBJKHTD/page:16", transform);
  return true;
}();

}  // namespace
}  // namespace quire::bench
