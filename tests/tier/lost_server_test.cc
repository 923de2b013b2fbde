// Requests over a true redis-server that is killed at random points, or stopped while bytes move: each ends in time with
// the right bytes, no block is lost, and nothing is written late. The seed is printed; QUIRE_SEED chooses another, QUIRE_KILLS how many.
#include <array>
#include <random>
#include <thread>

#include "tests/tier/redis_tier.h"

namespace quire::test {
namespace {

constexpr size_t kPrompt = 1264;
constexpr size_t kPages = 370;
constexpr int64_t kMost = 250 * kMillisecond;

// A load of a prompt moves 10 MB.
EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(8, 128), full_layer(8, 128), window_layer(200), state_layer()};
  o.pages = kPages;
  o.max_store_bytes = 0;
  return o;
}

Text prompt(uint64_t n) { return count_text(static_cast<quire_symbol>(1 + 5000 * n), kPrompt); }

void pause(uint64_t microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }

enum Phase : uint8_t { kBefore, kLookUp, kLoad, kAfter, kPhases };

// One request, into which something happens once.
class Request {
 public:
  Request(RedisTier* f, Text text, int64_t deadline_ns = 0) : f_(*f), text_(std::move(text)), deadline_ns_(deadline_ns) {}

  // It happens in this phase, so many microseconds after that has begun.
  template <typename Happen>
  void run(Phase wanted, uint64_t microseconds, Happen happen) {
    Engine& engine = f_.engine;
    sequence_ = engine.open();
    const auto now = [&](Phase phase) {
      pause(microseconds);
      phase_ = phase;
      happened_ = f_.now();
      happen();
    };
    if (wanted == kBefore) now(kBefore);
    begun_ = f_.now();
    engine.begin(sequence_, text_, deadline_ns_);
    std::vector<quire_fetch_result> results;
    for (uint64_t n = 0; results.empty() && n < 100'000; ++n) {
      if (happened_ == 0 && wanted == (engine.cache_stats().loads > 0 ? kLoad : kLookUp)) now(wanted);
      results = engine.run();
    }
    ASSERT_EQ(results.size(), 1U);
    result_ = results[0];
    ended_ = f_.now();
    if (happened_ == 0) now(kAfter);
    engine.go_on(sequence_, text_);  // reads all that it was given, and computes the rest
    done_ = f_.now();
  }
  void finish() const { f_.engine.finish(sequence_); }

  Phase phase() const { return phase_; }
  const quire_fetch_result& result() const { return result_; }
  int64_t waited() const { return ended_ - begun_; }
  int64_t after_it_happened() const { return done_ - happened_; }

 private:
  RedisTier& f_;
  const Text text_;
  const int64_t deadline_ns_;
  quire_sequence_id sequence_ = 0;
  Phase phase_ = kPhases;
  quire_fetch_result result_{};
  int64_t happened_ = 0, begun_ = 0, ended_ = 0, done_ = 0;
};

Phase any_phase(std::mt19937_64& random) { return std::array<Phase, 6>{kBefore, kLookUp, kLookUp, kLoad, kLoad, kAfter}[random() % 6]; }

TEST(LostServer, KilledAtAnyPointDelaysNoRequest) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), kills = number_of("QUIRE_KILLS", 60);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  std::array<uint64_t, kPhases> killed{};
  int64_t longest = 0;
  uint64_t failed = 0;
  RedisTier f(options());
  for (uint64_t n = 0; n < kills && !HasFailure(); ++n) {
    SCOPED_TRACE("kill " + std::to_string(n));
    f.fill(prompt(2 * n));
    if (random() % 2 == 0) f.engine.compute(prompt(2 * n + 1));  // its units are being stored meanwhile
    Request request(&f, prompt(2 * n));
    request.run(any_phase(random), random() % 1000, [&] { f.server.kill(); });
    request.finish();
    ++killed[request.phase()];
    failed += request.result().outcome == QUIRE_FETCH_FAILED ? 1 : 0;
    longest = std::max(longest, request.after_it_happened());
    EXPECT_LE(request.after_it_happened(), kMost);
    f.engine.settle();
    f.engine.forget_all();
    f.engine.expect_nothing_left();
    EXPECT_EQ(f.engine.cache_stats().pages_used, 0U) << "a page is lost";
    f.server.start();
    f.clock.now += kAges;  // the tier is not left alone any more
    ASSERT_TRUE(kit::becomes_true([&] { return f.is_up(); }));
  }
  std::printf(
      "killed %llu times before a request, %llu in its look-up, %llu in its load, %llu after it; %llu fetches failed; %.1f ms at "
      "most until it was done\n",
      static_cast<unsigned long long>(killed[kBefore]), static_cast<unsigned long long>(killed[kLookUp]),
      static_cast<unsigned long long>(killed[kLoad]), static_cast<unsigned long long>(killed[kAfter]),
      static_cast<unsigned long long>(failed), static_cast<double>(longest) * 1e-6);
  if (kills < 60) return;
  for (const uint64_t times : killed) EXPECT_GT(times, kills / 30);
  EXPECT_GT(failed, kills / 10);
}

// A load is given up at its deadline. Its blocks go to other requests while the server is stopped, and not one byte arrives in them when it
// goes on.
TEST(LostServer, StoppedWhileBytesMoveWritesNothingLate) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), stops = number_of("QUIRE_KILLS", 10);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  constexpr int64_t kDeadline = 200 * kMillisecond;
  uint64_t late = 0;
  int64_t longest = 0;
  RedisTier f(options());
  const quire_sequence_id first = f.engine.open();
  f.engine.go_on(first, prompt(0));
  const uint64_t pages = f.engine.cache_stats().pages_used;  // of a prompt
  f.engine.finish(first);
  f.engine.settle();
  f.engine.forget_all();
  for (uint64_t n = 1; n <= stops && !HasFailure(); ++n) {
    SCOPED_TRACE("stop " + std::to_string(n));
    f.fill(prompt(10 * n));
    Request request(&f, prompt(10 * n), kDeadline);
    request.run(n % 4 == 0 ? kLookUp : kLoad, random() % 1000, [&] { f.server.stop(); });
    longest = std::max(longest, request.waited());
    EXPECT_LE(request.waited(), kDeadline + 50 * kMillisecond);
    late += request.phase() == kLoad && request.result().outcome == QUIRE_FETCH_LATE ? 1 : 0;
    request.finish();
    ASSERT_TRUE(kit::becomes_true([&] { return f.engine.run().empty() && f.engine.stats().quarantined == 0; }));
    f.engine.forget_all();
    std::vector<quire_sequence_id> others;
    for (uint64_t i = 0; i < 2; ++i) {
      others.push_back(f.engine.open());
      f.engine.go_on(others.back(), prompt(10 * n + 1 + i));
    }
    EXPECT_LT(f.engine.cache_stats().pages_total - f.engine.cache_stats().pages_used, pages) << "what was loaded is not used again";
    f.server.go_on();
    ASSERT_TRUE(kit::becomes_true([&] { return f.is_up(); }));
    f.engine.settle();
    f.clock.now += kAges;
    f.fill(count_text(static_cast<quire_symbol>(9'000'000 + 200 * n), 130));  // stored by the same connection: what was late has come
    for (uint64_t i = 0; i < 2; ++i) {
      Text longer = prompt(10 * n + 1 + i);
      longer.push_back(7);
      f.engine.check(others[i], longer);
      f.engine.finish(others[i]);
    }
    f.engine.settle();
    f.engine.forget_all();
    f.engine.expect_nothing_left();
  }
  std::printf("%llu loads were late, no request waited longer than %.1f ms\n", static_cast<unsigned long long>(late),
              static_cast<double>(longest) * 1e-6);
  if (stops >= 10) {
    EXPECT_GT(late, stops / 5);
  }
}

}  // namespace
}  // namespace quire::test
