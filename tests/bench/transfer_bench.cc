// transfer/: objects through a connector, as the engine uses it, beside memcpy of the same pieces between the same pool and memory of the
// store's size. The two take turns within one process, and which is first changes. of_memcpy is the median over these pairs; it includes
// submission, the connector's thread and polling. GBps counts bytes once. Pieces lie in random order in a pool of 1 GiB.
#include <benchmark/benchmark.h>
#include <quire/connector.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "client/client.h"
#include "fixtures.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kPoolBytes = uint64_t{1} << 30;
constexpr uint64_t kCallBytes = uint64_t{128} << 20;
constexpr uint64_t kKeyBytes = 32;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Memory whose pages are in place.
struct Pages {
  char* data;
  Pages() {
    data = static_cast<char*>(mmap(nullptr, kPoolBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (data == MAP_FAILED) std::abort();
    uint64_t random = 1;
    for (uint64_t at = 0; at < kPoolBytes; at += 8) {
      const uint64_t word = next_random(&random);
      std::memcpy(data + at, &word, sizeof word);
    }
  }
  ~Pages() { munmap(data, kPoolBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
};

struct Shape {
  const char* connector;
  const char* config;
  uint64_t object_bytes;
  uint64_t piece_bytes;
  uint64_t call_bytes = kCallBytes;
};

// A connector and the tickets of one call after the other. Loads go over what the first calls stored.
class Transfers {
 public:
  explicit Transfers(const Shape& shape) : shape_(shape), order_(shuffled(kPoolBytes / shape.piece_bytes, 3)) {
    const std::string folder = QUIRE_MODULES;
    auto options = client::sized<quire_runtime_options>();
    options.header_abi = QUIRE_ABI_VERSION;
    options.connector_path = client::to_str(folder);
    quire_error err = fresh_error();
    require(quire_runtime_create(&options, &runtime_, &err), err);
    require(quire_connector_open(runtime_, client::to_str(shape.connector), client::to_str(shape.config), &connector_, &err), err);
  }
  ~Transfers() {
    quire_connector_release(connector_);
    quire_runtime_release(runtime_);
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Objects of one call, keys from `first_key` on, pieces from the piece of that number on.
  double call(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece) {
    const uint64_t objects = shape_.call_bytes / shape_.object_bytes;
    const uint64_t pieces = shape_.object_bytes / shape_.piece_bytes;
    tickets_.assign(objects, {});
    runs_.assign(objects * pieces, {});
    keys_.assign(objects * kKeyBytes, 0);
    for (uint64_t i = 0; i < objects; ++i) {
      const uint64_t key = first_key + i;
      std::memcpy(keys_.data() + i * kKeyBytes, &key, sizeof key);
      quire_ticket& t = tickets_[i];
      t.ticket = next_ticket_++;
      t.kind = kind;
      t.first_run = i * pieces;
      t.num_runs = static_cast<uint32_t>(pieces);
      t.num_keys = 1;
      t.key_offset = i * kKeyBytes;
      t.key_bytes = kKeyBytes;
      t.object_bytes = kind == QUIRE_TICKET_STORE ? shape_.object_bytes : 0;
      t.deadline_ns = -1;
      for (uint64_t p = 0; p < pieces; ++p) {
        quire_ticket_run& run = runs_[i * pieces + p];
        run.address = reinterpret_cast<uintptr_t>(piece(first_piece + i * pieces + p));
        run.bytes = shape_.piece_bytes;
        run.count = 1;
        run.object_offset = p * shape_.piece_bytes;
      }
    }
    const auto begin = Clock::now();
    submit_and_wait(shape_.object_bytes);
    return seconds_since(begin);
  }

  // One ticket with keys from `first_key` on.
  double look_up(uint64_t keys, uint64_t first_key) {
    keys_.assign(keys * kKeyBytes, 0);
    for (uint64_t i = 0; i < keys; ++i) {
      const uint64_t key = first_key + i;
      std::memcpy(keys_.data() + i * kKeyBytes, &key, sizeof key);
    }
    sizes_.resize(keys);
    tickets_.assign(1, {});
    tickets_[0].ticket = next_ticket_++;
    tickets_[0].kind = QUIRE_TICKET_LOOKUP;
    tickets_[0].num_keys = static_cast<uint32_t>(keys);
    tickets_[0].key_bytes = kKeyBytes;
    tickets_[0].sizes = sizes_.data();
    tickets_[0].deadline_ns = -1;
    const auto begin = Clock::now();
    submit_and_wait(0);
    return seconds_since(begin);
  }

  // The same pieces between the pool and the arena.
  double copy(quire_ticket_kind kind, uint64_t first_piece, uint64_t arena_at) {
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < shape_.call_bytes / shape_.piece_bytes; ++i) {
      char* const there = arena_.data + (arena_at + i * shape_.piece_bytes) % kPoolBytes;
      char* const here = piece(first_piece + i);
      kind == QUIRE_TICKET_STORE ? std::memcpy(there, here, shape_.piece_bytes) : std::memcpy(here, there, shape_.piece_bytes);
      benchmark::ClobberMemory();
    }
    return seconds_since(begin);
  }

 private:
  char* piece(uint64_t number) const { return pool_.data + order_[number % order_.size()] * shape_.piece_bytes; }

  void submit_and_wait(uint64_t bytes) {
    quire_error err = fresh_error();
    quire_completion ends[256];
    for (uint64_t given = 0, ended = 0; ended < tickets_.size();) {
      uint64_t n = 0;
      if (given < tickets_.size()) {
        require(quire_connector_submit(connector_, tickets_.data() + given, tickets_.size() - given, runs_.data(), runs_.size(),
                                       keys_.data(), keys_.size(), &n, &err),
                err);
        given += n;
      }
      require(quire_connector_poll(connector_, -1, ends, 256, &n, &err), err);
      ended += n;
      for (uint64_t i = 0; i < n; ++i) {
        if (ends[i].code != QUIRE_OK || ends[i].bytes != bytes) {
          std::fprintf(stderr, "ticket %llu ended with code %d\n", static_cast<unsigned long long>(ends[i].ticket), ends[i].code);
          std::exit(1);
        }
      }
    }
  }

  const Shape shape_;
  const std::vector<uint64_t> order_;
  Pages pool_, arena_;
  quire_runtime* runtime_ = nullptr;
  quire_connector* connector_ = nullptr;
  uint64_t next_ticket_ = 1;
  std::vector<quire_ticket> tickets_;
  std::vector<quire_ticket_run> runs_;
  std::vector<uint8_t> keys_;
  std::vector<uint64_t> sizes_;
};

void transfer(benchmark::State& state, Shape shape, quire_ticket_kind kind) {
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

// Look-ups of 1,000 keys, half of which are there.
void look_up(benchmark::State& state, Shape shape) {
  Transfers transfers(shape);
  transfers.call(QUIRE_TICKET_STORE, 0, 0);
  for (auto _ : state) state.SetIterationTime(transfers.look_up(1000, shape.call_bytes / shape.object_bytes - 500));
}

void add(const std::string& name, Shape shape) {
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
  benchmark::RegisterBenchmark("transfer/host/lookup/keys:1000", look_up, Shape{"host", kHost, 65536, 65536})
      ->UseManualTime()
      ->Iterations(300)
      ->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace quire::bench
