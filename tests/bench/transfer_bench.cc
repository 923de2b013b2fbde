// transfer/: objects through a connector, as the engine uses it, beside memcpy of the same pieces between the same pool and memory of the
// store's size. The two take turns within one process, and which is first changes. of_memcpy is the median over these pairs; it includes
// submission, the connector's thread and polling. GBps counts bytes once. Pieces lie in random order in a pool of 1 GiB.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "fixtures.h"
#include "transfers.h"

namespace quire::bench {
namespace {

void transfer(benchmark::State& state, const Shape& shape, quire_ticket_kind kind) {
  Transfers transfers(shape);
  const uint64_t objects = shape.call_bytes / shape.object_bytes;
  const uint64_t pieces = shape.call_bytes / shape.piece_bytes;
  constexpr uint64_t kFillCalls = 10;  // more than the store holds, so that stores evict from now on
  for (uint64_t call = 0; call < kFillCalls; ++call) transfers.call(QUIRE_TICKET_STORE, call * objects, call * pieces);
  std::vector<double> ratios;
  double best = 0, best_copy = 0;
  uint64_t call = kFillCalls;
  for (auto _ : state) {
    // Loads: one of the four newest calls. Stores: new keys.
    const uint64_t first_key = (kind == QUIRE_TICKET_STORE ? call : kFillCalls - 1 - call % 4) * objects;
    double copied = 0;
    if (call % 2 == 0) copied = transfers.copy(kind, call * pieces, call * shape.call_bytes);
    const double moved = transfers.call(kind, first_key, call * pieces);
    if (call % 2 != 0) copied = transfers.copy(kind, call * pieces, call * shape.call_bytes);
    ratios.push_back(copied / moved);
    best = std::max(best, static_cast<double>(shape.call_bytes) / moved / 1e9);
    best_copy = std::max(best_copy, static_cast<double>(shape.call_bytes) / copied / 1e9);
    state.SetIterationTime(moved);
    ++call;
  }
  state.counters["of_memcpy"] = median(ratios);
  state.counters["GBps"] = best;
  state.counters["memcpy_GBps"] = best_copy;
}

// Object by object, with XXH3-64 of each piece beside the same without. of_plain is the median over
// the pairs.
void with_sums(benchmark::State& state, const Shape& shape, quire_ticket_kind kind) {
  Transfers transfers(shape);
  const uint64_t objects = shape.call_bytes / shape.object_bytes, pieces = shape.call_bytes / shape.piece_bytes;
  uint64_t call = 0;
  for (; call < 10; ++call) transfers.call(QUIRE_TICKET_STORE, call * objects, call * pieces);
  std::vector<double> ratios;
  for (auto _ : state) {
    double seconds[2] = {};  // without, with
    for (uint64_t turn = 0; turn < 2; ++turn) {
      const bool sums = turn == ratios.size() % 2;
      const uint64_t first_key = (kind == QUIRE_TICKET_STORE ? call : 9 - call % 4) * objects;
      seconds[sums] = transfers.call_each(kind, first_key, call * pieces, sums);
      ++call;
    }
    ratios.push_back(seconds[0] / seconds[1]);
    state.SetIterationTime(seconds[1]);
  }
  state.counters["of_plain"] = median(ratios);
}

// Look-ups of 1,000 keys, half of which are there.
void look_up(benchmark::State& state, const Shape& shape) {
  Transfers transfers(shape);
  transfers.call(QUIRE_TICKET_STORE, 0, 0);
  for (auto _ : state) state.SetIterationTime(transfers.look_up(1000, shape.call_bytes / shape.object_bytes - 500));
}

void add(const std::string& name, const Shape& shape) {
  for (const bool stores : {true, false}) {
    const std::string row = "transfer/" + name + (stores ? "/store" : "/load") + "/object:" + std::to_string(shape.object_bytes) +
                            "/piece:" + std::to_string(shape.piece_bytes);
    benchmark::RegisterBenchmark(row.c_str(), transfer, shape, stores ? QUIRE_TICKET_STORE : QUIRE_TICKET_LOAD)
        ->UseManualTime()
        ->Iterations(30)
        ->Unit(benchmark::kMillisecond);
  }
}

const bool kRegistered = [] {
  constexpr const char* kHost = R"({"bytes": "1GiB"})";
  add("host", {"host", kHost, 2097152, 2097152});
  add("host", {"host", kHost, 2097152, 32768});
  add("host", {"host", kHost, 65536, 32768});
  add("host", {"host", kHost, 2097152, 4096});
  add("host", {"host", kHost, 4096, 4096, 4194304});  // what a ticket costs
  add("host/huge_pages", {"host", R"({"bytes": "1GiB", "huge_pages": true})", 2097152, 2097152});
  for (const uint64_t piece : {2097152, 32768}) {
    for (const bool stores : {true, false}) {
      const std::string row =
          std::string("transfer/host/sums/") + (stores ? "store" : "load") + "/object:2097152/piece:" + std::to_string(piece);
      benchmark::RegisterBenchmark(row.c_str(), with_sums, Shape{"host", kHost, 2097152, piece},
                                   stores ? QUIRE_TICKET_STORE : QUIRE_TICKET_LOAD)
          ->UseManualTime()
          ->Iterations(30)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("transfer/host/lookup/keys:1000", look_up, Shape{"host", kHost, 65536, 65536})
      ->UseManualTime()
      ->Iterations(300)
      ->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace quire::bench
