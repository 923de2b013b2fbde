// transfer/redis/: objects through the connector to a server on a Unix socket, beside a pipeline loop over hiredis with values of the same
// size, on the same server. The two take turns within one process, and which is first changes. of_hiredis is a speed, the median over these
// pairs: above 1 is faster. The loop sends a window of commands and then reads their answers; it neither gathers nor copies what it has
// read, which is more than a caller could use. Look-ups: 1,000 keys, half of them there, beside a pipeline of EXISTS.
#include <benchmark/benchmark.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fixtures.h"
#include "tests/connectors/redis_server.h"
#include "transfers.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kWindow = uint64_t{8} << 20;  // bytes; faster than all at once
constexpr uint64_t kLookUps = 1000;

class Loop {
 public:
  explicit Loop(const std::string& socket) : wire_(redisConnectUnix(socket.c_str())) {
    if (wire_ == nullptr || wire_->err != 0) fail();
  }
  ~Loop() { redisFree(wire_); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Seconds.
  double set(uint64_t objects, uint64_t bytes, uint64_t first_key) {
    return run(objects, bytes, [&](uint64_t i) {
      const std::string key = name(first_key + i, "loop:");
      const char* words[] = {"SET", key.data(), pool_.data + (first_key + i) * bytes % kPoolBytes, "NX"};
      const size_t sizes[] = {3, key.size(), bytes, 2};
      redisAppendCommandArgv(wire_, 4, words, sizes);
    });
  }
  double get(uint64_t objects, uint64_t bytes, uint64_t first_key) {
    return run(objects, bytes, [&](uint64_t i) { ask("GET", first_key + i); });
  }
  double exists(uint64_t keys, uint64_t first_key) {
    return run(keys, 1, [&](uint64_t i) { ask("EXISTS", first_key + i); });
  }
  void flush() {
    redisAppendCommand(wire_, "FLUSHALL");
    answer();
  }

 private:
  static std::string name(uint64_t number, const std::string& prefix) {
    std::string key = prefix + std::string(32, '\0');
    std::memcpy(key.data() + prefix.size(), &number, sizeof number);
    return key;
  }
  // Of a key of the connector.
  void ask(const char* command, uint64_t number) {
    const std::string key = name(number, "quire:");
    const char* words[] = {command, key.data()};
    const size_t sizes[] = {std::strlen(command), key.size()};
    redisAppendCommandArgv(wire_, 2, words, sizes);
  }
  template <typename Append>
  double run(uint64_t count, uint64_t bytes, Append append) {
    const auto begin = Clock::now();
    const uint64_t window = std::max<uint64_t>(1, kWindow / bytes);
    for (uint64_t i = 0; i < count;) {
      const uint64_t end = std::min(count, i + window);
      for (uint64_t k = i; k < end; ++k) append(k);
      for (; i < end; ++i) answer();
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  void answer() {
    void* reply = nullptr;
    if (redisGetReply(wire_, &reply) != REDIS_OK || static_cast<redisReply*>(reply)->type == REDIS_REPLY_ERROR) fail();
    freeReplyObject(reply);
  }
  void fail() const {
    std::fprintf(stderr, "hiredis: %s\n", wire_ != nullptr ? wire_->errstr : "no memory");
    std::exit(1);
  }

  redisContext* wire_;
  const Pages pool_;  // as that of the connector's objects: larger than caches
};

// Runs two functions that give seconds, in turn, and reports the median of second / first.
class Pairs {
 public:
  template <typename Ours, typename Theirs>
  void run(benchmark::State& state, Ours ours, Theirs theirs) {
    for (auto _ : state) {
      double other = 0;
      if (ratios_.size() % 2 == 0) other = theirs();
      const double own = ours();
      if (ratios_.size() % 2 != 0) other = theirs();
      ratios_.push_back(other / own);
      own_.push_back(own);
      other_.push_back(other);
      state.SetIterationTime(own);
    }
  }
  double ratio() { return median(ratios_); }
  double own() { return median(own_); }
  double other() { return median(other_); }

 private:
  std::vector<double> ratios_, own_, other_;
};

void transfer_redis(benchmark::State& state, Shape shape, quire_ticket_kind kind) {
  if (!kit::RedisServer::is_installed()) return state.SkipWithError("redis-server is not installed");
  const kit::RedisServer server;
  shape.config = server.config(shape.config);
  Transfers transfers(shape);
  Loop loop(server.socket());
  const uint64_t objects = shape.call_bytes / shape.object_bytes, pieces = shape.call_bytes / shape.piece_bytes;
  const bool stores = kind == QUIRE_TICKET_STORE;
  transfers.call(QUIRE_TICKET_STORE, 0, 0);
  uint64_t call = 1;
  Pairs pairs;
  pairs.run(
      state,
      [&] {
        if (stores) loop.flush();
        ++call;
        return transfers.call(kind, stores ? call * objects : 0, call * pieces);
      },
      [&] {
        if (stores) loop.flush();
        return stores ? loop.set(objects, shape.object_bytes, call * objects) : loop.get(objects, shape.object_bytes, 0);
      });
  state.counters["of_hiredis"] = pairs.ratio();
  state.counters["GBps"] = static_cast<double>(shape.call_bytes) / pairs.own() / 1e9;
  state.counters["hiredis_GBps"] = static_cast<double>(shape.call_bytes) / pairs.other() / 1e9;
}

void look_up_redis(benchmark::State& state, Shape shape) {
  if (!kit::RedisServer::is_installed()) return state.SkipWithError("redis-server is not installed");
  const kit::RedisServer server;
  shape.config = server.config(shape.config);
  Transfers transfers(shape);
  Loop loop(server.socket());
  transfers.call(QUIRE_TICKET_STORE, 0, 0);
  const uint64_t first = shape.call_bytes / shape.object_bytes - kLookUps / 2;
  Pairs pairs;
  pairs.run(
      state, [&] { return transfers.look_up(kLookUps, first); }, [&] { return loop.exists(kLookUps, first); });
  state.counters["of_batch"] = 1 / pairs.ratio();  // a time
  state.counters["us"] = pairs.own() * 1e6;
  state.counters["batch_us"] = pairs.other() * 1e6;
}

void add(const Shape& shape, const std::string& name = "redis") {
  for (const bool stores : {true, false}) {
    const std::string row = "transfer/" + name + (stores ? "/store" : "/load") + "/object:" + std::to_string(shape.object_bytes) +
                            "/piece:" + std::to_string(shape.piece_bytes);
    benchmark::RegisterBenchmark(row.c_str(), transfer_redis, shape, stores ? QUIRE_TICKET_STORE : QUIRE_TICKET_LOAD)
        ->UseManualTime()
        ->Iterations(21)
        ->Unit(benchmark::kMillisecond);
  }
}

const bool kRegistered = [] {
  constexpr uint64_t kMany = uint64_t{1000} * 32768;
  add({"redis", "", 2097152, 2097152});
  add({"redis", "", 2097152, 32768});
  add({"redis", "", 32768, 32768, kMany});
  add({"redis", ", \"connections\": 2", 2097152, 2097152}, "redis/two");
  benchmark::RegisterBenchmark("transfer/redis/lookup/keys:1000", look_up_redis, Shape{"redis", "", 32768, 32768, kMany})
      ->UseManualTime()
      ->Iterations(301)
      ->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace quire::bench
