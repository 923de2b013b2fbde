// Requests over a true redis-server that is broken for some time or has wrong values: killed, stopped, another password, full, evicting,
// paused, values that are gone, cut, changed or another key's. Every request is right, and brings what a model says is left. The seed is
// printed; QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <algorithm>
#include <random>
#include <set>

#include "tests/tier/record_model.h"
#include "tests/tier/redis_tier.h"

namespace quire::test {
namespace {

constexpr size_t kPrompt = 640;

Text prompt(uint64_t n) { return count_text(static_cast<quire_symbol>(1 + 5000 * n), kPrompt); }

EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(8, 64), window_layer(200), state_layer()};
  o.max_store_bytes = 0;
  return o;
}

// A whole request, from which nothing is left in the cache. Returns how long it waited.
int64_t ask(RedisTier* f, const Text& text, quire_fetch_result* got) {
  const int64_t begun = f->now();
  const quire_sequence_id sequence = f->engine.open();
  *got = f->engine.fetch(sequence, text);
  const int64_t waited = f->now() - begun;
  f->engine.go_on(sequence, text);
  f->engine.finish(sequence);
  f->engine.settle();
  f->engine.forget_all();
  return waited;
}

enum class Fault { kKilled, kStopped, kPassword };

void begin_fault(RedisTier* f, Fault fault) {
  if (fault == Fault::kKilled) f->server.kill();
  if (fault == Fault::kStopped) f->server.stop();
  if (fault != Fault::kPassword) return;
  ASSERT_EQ(f->server.ask({"ACL", "SETUSER", "quire", "<secret", ">other"}), "OK");
  f->server.ask({"CLIENT", "KILL", "USER", "quire"});
}

void end_fault(RedisTier* f, Fault fault) {
  if (fault == Fault::kKilled) f->server.start();
  if (fault == Fault::kStopped) f->server.go_on();
  if (fault == Fault::kPassword) {
    ASSERT_EQ(f->server.ask({"ACL", "SETUSER", "quire", "<other", ">secret"}), "OK");
  }
}

// Nobody waits for it, it is left alone within ten seconds, and used again when it works.
TEST(BrokenServer, IsLeftAloneAndUsedAgain) {
  constexpr int64_t kTenSeconds = 10'000 * kMillisecond;
  for (const Fault fault : {Fault::kKilled, Fault::kStopped, Fault::kPassword}) {
    SCOPED_TRACE(static_cast<int>(fault));
    EngineOptions o = options();
    if (fault == Fault::kStopped) o.ns_per_token = 100'000;  // otherwise ten seconds are waited for a server that may be slow
    RedisTier f(o, {"--user", "quire", "on", ">secret", "~*", "+@all"}, R"(, "user": "quire", "password": "secret", "timeout_ms": 500)");
    f.fill(prompt(0));
    quire_fetch_result got{};
    // It works. On a busy machine a first answer may come later than computing a few tokens takes.
    ASSERT_TRUE(kit::becomes_true([&] {
      ask(&f, prompt(0), &got);
      return got.outcome == QUIRE_FETCH_DONE;
    }));
    begin_fault(&f, fault);
    const int64_t broken = f.now();
    int64_t longest = 0;
    uint64_t n = 1;
    for (; f.engine.tier().times_closed == 0 && f.now() - broken < kTenSeconds; ++n) {
      longest = std::max(longest, ask(&f, prompt(n % 2 == 0 ? 0 : n), &got));
      EXPECT_EQ(got.committed, 0U);
    }
    const int64_t closed = f.now();
    EXPECT_EQ(f.engine.tier().times_closed, 1U);
    EXPECT_EQ(f.engine.tier().is_open, 0U);
    EXPECT_LE(closed - broken, kTenSeconds);
    EXPECT_LE(longest, 250 * kMillisecond);
    const uint64_t submitted = f.num_submitted();
    for (int i = 0; i < 10; ++i) ask(&f, prompt(++n), &got);
    if (f.now() - closed < 5000 * kMillisecond) {
      EXPECT_EQ(f.num_submitted(), submitted) << "it is asked while it is left alone";
    }
    end_fault(&f, fault);
    const int64_t mended = f.now();
    ASSERT_TRUE(kit::becomes_true([&] { return f.is_up(); }));
    f.clock.now += 5001 * kMillisecond;  // so long it is left alone
    ASSERT_TRUE(kit::becomes_true([&] {
      ask(&f, prompt(++n), &got);  // stores it
      ask(&f, prompt(n), &got);
      return got.outcome == QUIRE_FETCH_DONE;
    }));
    EXPECT_EQ(f.engine.tier().is_open, 1U);
    std::printf("left alone %.3f s after it broke, no request waited longer than %.1f ms; used again %.3f s after it worked\n",
                static_cast<double>(closed - broken) * 1e-9, static_cast<double>(longest) * 1e-6,
                static_cast<double>(f.now() - mended) * 1e-9);
    EXPECT_LE(f.now() - mended, kTenSeconds);
    f.engine.expect_nothing_left();
  }
}

// Nobody answers for two seconds. A request gives up after a twentieth of computing, and the tier did not fail.
TEST(BrokenServer, ThatPausesIsNotWaitedFor) {
  EngineOptions o = options();
  o.ns_per_token = 2'000'000;  // 1.3 s for the prompt
  RedisTier f(o, {}, R"(, "timeout_ms": 5000)");
  f.fill(prompt(0));
  quire_fetch_result got{};
  const int64_t fast = ask(&f, prompt(0), &got);
  ASSERT_EQ(got.outcome, QUIRE_FETCH_DONE);
  ASSERT_EQ(f.server.ask({"CLIENT", "PAUSE", "2000", "ALL"}), "OK");
  const quire_sequence_id sequence = f.engine.open();
  got = f.engine.fetch(sequence, prompt(0));
  EXPECT_EQ(got.outcome, QUIRE_FETCH_LATE);
  EXPECT_EQ(got.committed, 0U);
  EXPECT_LE(got.elapsed_ns, static_cast<int64_t>(kPrompt) * 2'000'000 / 10);
  std::printf("%.1f ms without a pause, %.1f ms with it\n", static_cast<double>(fast) * 1e-6, static_cast<double>(got.elapsed_ns) * 1e-6);
  f.engine.go_on(sequence, prompt(0));
  f.engine.finish(sequence);
  f.engine.settle();
  EXPECT_EQ(f.engine.tier().times_closed, 0U);
  EXPECT_EQ(f.engine.tier().objects_failed, 0U);
  f.engine.forget_all();
  f.engine.expect_nothing_left();
}

using Bytes = std::vector<uint8_t>;

std::string name_of(const std::string& key) { return "quire:" + key; }
std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// Full, and it refuses: what it took is found, and what it did not take is computed.
TEST(BrokenServer, ThatIsFullKeepsWhatItTook) {
  RedisTier f(options(), {"--maxmemory", "6mb"});
  quire_fetch_result got{};
  constexpr uint64_t kPrompts = 12;  // of 1.5 MB
  for (uint64_t n = 0; n < kPrompts; ++n) {
    f.engine.compute(prompt(n));
    f.engine.settle();
    f.engine.forget_all();
  }
  EXPECT_GT(f.engine.tier().units_dropped, 0U);
  EXPECT_EQ(f.engine.tier().times_closed, 0U) << "a full server has not failed";
  uint64_t whole = 0, without = 0;
  for (uint64_t n = 0; n < kPrompts; ++n) {
    f.clock.now += kAges;
    EXPECT_LE(ask(&f, prompt(n), &got), 250 * kMillisecond);
    whole += got.committed >= kPrompt - 128 ? 1 : 0;
    without += got.committed == 0 ? 1 : 0;
  }
  EXPECT_GE(whole, 2U);
  EXPECT_GE(without, 2U);
  f.engine.expect_nothing_left();
}

class Values : public testing::Test {
 protected:
  // Engines over the server and over a fake store have the same records.
  void open(std::mt19937_64& random, std::vector<std::string> of_server = {}) {
    EngineOptions o;
    o.layers = any_layers(random);
    o.unit = 64 << random() % 2;
    o.max_len = 420;
    o.pages = 400;
    f_ = std::make_unique<RedisTier>(o, std::move(of_server));
    other_ = std::make_unique<Engine>(f_->clock, o, std::vector<FakeStore*>{&store_});
    model_ = std::make_unique<RecordModel>(f_->engine, o.layers);
  }
  void write(const Text& text) {
    for (Engine* each : {&f_->engine, other_.get()}) {
      each->compute(text);
      each->settle();
      each->forget_all();
    }
  }
  bool has(const std::string& key) const { return f_->server.ask({"EXISTS", name_of(key)}) == "1"; }
  // The model knows those that the server has and are not bad.
  void look(const std::set<std::string>& bad) {
    model_->add_all(store_);
    model_->forget();
    for (const std::string& key : store_.keys()) {
      if (bad.count(key) == 0 && has(key)) model_->add(*store_.get(key));
    }
  }

  FakeStore store_;
  std::unique_ptr<RedisTier> f_;
  std::unique_ptr<Engine> other_;
  std::unique_ptr<RecordModel> model_;
};

// A value goes, or becomes another one. False: it is what it was.
bool spoil(const kit::RedisServer& server, std::mt19937_64& random, const FakeStore& store, const std::string& key, uint64_t how) {
  Bytes value = *store.get(key);
  const std::vector<std::string> keys = store.keys();
  switch (how) {
    case 0:
      server.ask({"DEL", name_of(key)});
      return true;
    case 1:  // half written
      value.resize(1 + random() % (value.size() - 1));
      break;
    case 2:  // written, but the end is not there yet
      std::fill(value.begin() + static_cast<std::ptrdiff_t>(random() % (value.size() / 2)), value.end(), uint8_t{0});
      break;
    case 3:  // another key's, if there is one
      value = *store.get(keys[random() % keys.size()]);
      break;
    default:
      value.insert(value.end(), value.begin(), value.end());
  }
  if (value == *store.get(key)) return false;
  server.ask({"SET", name_of(key), text_of(value)});
  return true;
}

TEST_F(Values, ThatAreGoneOrWrongLeaveTheLargestBoundary) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", 40);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed + rounds - 1));
  uint64_t damaged = 0, left = 0, shorter = 0;
  for (uint64_t s = seed; s < seed + rounds && !HasFailure(); ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    std::mt19937_64 random(s);
    store_.forget_some(1000);
    open(random);
    const Text text = count_text(1, 200 + random() % 200);
    write(text);
    std::set<std::string> bad;
    look(bad);
    const uint64_t whole = model_->largest_boundary(text);
    for (const std::string& key : store_.keys()) {
      if (random() % 100 >= std::array<uint64_t, 3>{3, 15, 50}[s % 3] && (!bad.empty() || key != store_.keys().back())) continue;
      if (spoil(f_->server, random, store_, key, random() % 5)) bad.insert(key);
    }
    look(bad);
    const uint64_t boundary = model_->largest_boundary(text);
    quire_fetch_result got{};
    got.outcome = QUIRE_FETCH_FAILED;
    for (size_t turn = 0; turn <= bad.size() && got.outcome == QUIRE_FETCH_FAILED; ++turn) {
      f_->clock.now += kAges;
      const quire_sequence_id sequence = f_->engine.open();
      got = f_->engine.fetch(sequence, text);  // what came is checked
      EXPECT_LE(got.committed, whole);
      f_->engine.finish(sequence);
      f_->engine.settle();
      f_->engine.forget_all();
    }
    EXPECT_EQ(got.committed, boundary);
    EXPECT_EQ(got.outcome, boundary > 0 ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING);
    for (const std::string& key : store_.keys()) EXPECT_TRUE(bad.count(key) != 0 || has(key)) << "a good one went";
    damaged += f_->engine.tier().objects_damaged;
    left += boundary > 0 ? 1 : 0;
    shorter += boundary < whole ? 1 : 0;
    f_->engine.expect_nothing_left();
  }
  std::printf("%llu damaged values were found, %llu prompts came in part, %llu lost something\n", static_cast<unsigned long long>(damaged),
              static_cast<unsigned long long>(left), static_cast<unsigned long long>(shorter));
  if (rounds < 40) return;
  EXPECT_GT(damaged, rounds / 2);
  EXPECT_GT(left, rounds / 5);
  EXPECT_GT(shorter, rounds / 4);
}

// The server evicts by itself, heads of chains as well as their ends. A fetch brings no more than what is left, and at rest all of it.
TEST_F(Values, ThatTheServerEvictedAreMisses) {
  const uint64_t seed = number_of("QUIRE_SEED", 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  uint64_t headless = 0, came = 0;
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    store_.forget_some(1000);
    open(random, {"--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru"});
    constexpr uint64_t kPrompts = 30;
    for (uint64_t n = 0; n < kPrompts; ++n) write(count_text(static_cast<quire_symbol>(1 + 5000 * n), 400));
    f_->server.ask({"CONFIG", "SET", "maxmemory", "64mb"});  // and now no more
    look({});
    for (uint64_t n = 0; n < kPrompts; ++n) {
      const Text text = count_text(static_cast<quire_symbol>(1 + 5000 * n), 400);
      const uint64_t boundary = model_->largest_boundary(text);
      const quire_sequence_id sequence = f_->engine.open();
      const quire_fetch_result got = f_->engine.fetch(sequence, text);
      EXPECT_EQ(got.committed, boundary) << n;
      EXPECT_EQ(got.outcome, boundary > 0 ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING) << n;
      f_->engine.finish(sequence);
      f_->engine.forget_all();
      came += boundary > 0 ? 1 : 0;
      headless += boundary == 0 ? 1 : 0;
    }
    EXPECT_EQ(f_->engine.tier().objects_damaged + f_->engine.tier().objects_failed, 0U);
    EXPECT_EQ(f_->engine.tier().times_closed, 0U);
    f_->engine.expect_nothing_left();
  }
  std::printf("%llu prompts came, of %llu nothing was left that could be used\n", static_cast<unsigned long long>(came),
              static_cast<unsigned long long>(headless));
  EXPECT_GT(came, 3U);
  EXPECT_GT(headless, 3U);
}

}  // namespace
}  // namespace quire::test
