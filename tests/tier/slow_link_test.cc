// A store behind a link of 100 Mbit/s that takes two seconds for every store. Requests of an engine in simulated time: what the tier costs
// each of them, when it is left alone, and what it costs requests that need nothing of it.
#include <algorithm>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr int64_t kTick = 20'000;  // how often the engine looks
constexpr uint64_t kLink = 12'500'000;
constexpr int64_t kStoring = 2'000'000'000;
constexpr size_t kPrompt = 1264;

struct Link {
  const char* name;
  int64_t answers_ns;  // beside the bytes: of look-ups and loads
  uint32_t reasons;    // 0: it is only read; otherwise stores are in the way of what is loaded
};
constexpr Link kLinks[] = {{"read, near", 0, 0},
                           {"read, 1 ms", 1'000'000, 0},
                           {"read, 100 ms", 100'000'000, 0},
                           {"near", 0, QUIRE_UNIT_COMMITTED},
                           {"1 ms", 1'000'000, QUIRE_UNIT_COMMITTED},
                           {"100 ms", 100'000'000, QUIRE_UNIT_COMMITTED}};

FakeStoreOptions slow_link() {
  FakeStoreOptions o;
  o.bytes_per_second = kLink;
  o.max_started = 1;
  return o;
}

void delay(FakeStore* store, const Link& link) {
  const int64_t answers = link.answers_ns;
  store->set_script(
      [answers](const SeenTicket& seen, Fate* fate) { fate->delay_ns += seen.ticket.kind == QUIRE_TICKET_STORE ? kStoring : answers; });
}

EngineOptions options(double ns_per_token) {
  EngineOptions o;
  o.layers = {full_layer(8, 32)};  // 1024 bytes of a token: 82 us on the link
  o.ns_per_token = ns_per_token;
  o.max_store_bytes = 0;
  return o;
}

struct Server {
  Clock& clock;
  Engine& engine;
  double ns_per_token;

  // Until its first token. Returns the time that it took.
  int64_t request(const Text& text, quire_fetch_result* got) {
    const int64_t begun = clock.now;
    const quire_sequence_id sequence = engine.open();
    *got = {};
    if (engine.tiers() != nullptr) {
      engine.begin(sequence, text);
      for (std::vector<quire_fetch_result> results = engine.run(); got->fetch == 0; results = engine.run()) {
        if (!results.empty()) *got = results[0];
        clock.now += results.empty() ? kTick : 0;
      }
    }
    const uint64_t fetched = engine.info(sequence).committed;
    engine.go_on(sequence, text);
    const uint64_t here = std::max(fetched, engine.info(sequence).hit_tokens);
    clock.now += static_cast<int64_t>(static_cast<double>(text.size() - here) * ns_per_token);
    if (engine.tiers() != nullptr) {
      EXPECT_TRUE(engine.run().empty());
    }
    const int64_t took = clock.now - begun;
    engine.finish(sequence);
    return took;
  }
};

Text prompt(size_t n) { return count_text(static_cast<quire_symbol>(1 + 10'000 * n), kPrompt); }

// The store has all prompts of others. They are computed faster than they come.
TEST(SlowLink, CostsARequestATenthAtMost) {
  constexpr double kNsPerToken = 20'000;
  constexpr size_t kPrompts = 12;
  for (const Link& link : kLinks) {
    SCOPED_TRACE(link.name);
    Clock clock;
    FakeStore store(slow_link());
    {
      FakeStore fast;
      Engine writer(clock, options(0), {&fast});
      for (size_t n = 0; n < kPrompts; ++n) {
        writer.compute(prompt(n));
        writer.settle();
      }
      for (const std::string& key : fast.keys()) store.put(key, *fast.get(key));
    }
    delay(&store, link);
    EngineOptions o = options(kNsPerToken);
    o.reasons = link.reasons;
    Engine engine(clock, o, {&store});
    Server server{clock, engine, kNsPerToken};
    const int64_t begun = clock.now;
    int64_t passed_over = 0;
    double most = 0;
    uint64_t late = 0;
    for (size_t n = 0; clock.now - begun < 11'000'000'000; ++n) {
      engine.forget_all();  // as if each came for the first time
      quire_fetch_result got{};
      const double took = static_cast<double>(server.request(prompt(n % kPrompts), &got)) / (kNsPerToken * kPrompt);
      EXPECT_LE(took, 1.1) << n << ", outcome " << got.outcome << ", " << got.elapsed_ns << " ns";
      most = std::max(most, took);
      const bool left_alone = got.outcome == QUIRE_FETCH_SLOWER || got.elapsed_ns <= kTick;  // or it is closed
      if (left_alone && passed_over == 0) passed_over = clock.now - begun;
      late += passed_over != 0 && !left_alone ? 1 : 0;
      if (took > 1.1) break;
    }
    std::printf("%s: %.3f of computing at most, left alone after %.3f s, asked %llu times after that\n", link.name, most,
                static_cast<double>(passed_over) * 1e-9, static_cast<unsigned long long>(late));
    EXPECT_GT(passed_over, 0);
    EXPECT_LE(passed_over, 10'000'000'000);
    EXPECT_LE(late, 440U / 45) << "it is tried again now and then";
    EXPECT_EQ(engine.stats().units_taken > 0, link.reasons != 0);
  }
}

// One that computes slowly is served by the same link.
TEST(SlowLink, ServesAnEngineThatIsSlower) {
  constexpr double kNsPerToken = 200'000;
  Clock clock;
  FakeStore store(slow_link());
  {
    FakeStore fast;
    Engine writer(clock, options(0), {&fast});
    writer.compute(prompt(0));
    writer.settle();
    for (const std::string& key : fast.keys()) store.put(key, *fast.get(key));
  }
  delay(&store, kLinks[0]);
  Engine engine(clock, options(kNsPerToken), {&store});
  Server server{clock, engine, kNsPerToken};
  quire_fetch_result got{};
  const int64_t took = server.request(prompt(0), &got);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_LE(static_cast<double>(took), 0.6 * kNsPerToken * kPrompt);
}

// A tier whose tickets fail, each after two seconds, is closed within ten.
TEST(SlowLink, ThatFailsIsClosed) {
  constexpr double kNsPerToken = 20'000;
  Clock clock;
  FakeStore store(slow_link());
  store.set_script([](const SeenTicket&, Fate* fate) {
    fate->delay_ns = kStoring;
    fate->code = QUIRE_UNAVAILABLE;
  });
  Engine engine(clock, options(kNsPerToken), {&store});
  Server server{clock, engine, kNsPerToken};
  const int64_t begun = clock.now;
  for (size_t n = 0; engine.tier().times_closed == 0 && clock.now - begun <= 10'000'000'000; ++n) {
    quire_fetch_result got{};
    const int64_t took = server.request(prompt(n), &got);
    EXPECT_LE(static_cast<double>(took), 1.1 * kNsPerToken * kPrompt) << n;
  }
  EXPECT_EQ(engine.tier().times_closed, 1U);
  EXPECT_LE(clock.now - begun, 10'000'000'000);
}

// The time of conversations that the pool keeps, and of new ones that nobody has. Without a store: no tiers.
int64_t time_of_conversations(FakeStore* store, uint32_t reasons, Clock& clock) {
  constexpr double kNsPerToken = 20'000;
  EngineOptions o = options(kNsPerToken);
  o.pages = 600;
  o.reasons = reasons;
  Engine engine(clock, o, store != nullptr ? std::vector<FakeStore*>{store} : std::vector<FakeStore*>{});
  Server server{clock, engine, kNsPerToken};
  std::vector<Text> texts(4);
  const int64_t begun = clock.now;
  quire_fetch_result got{};
  for (size_t turn = 0; turn < 200; ++turn) {
    Text& text = texts[turn % texts.size()];
    if (text.size() > kPrompt) text.clear();
    const Text more = count_text(static_cast<quire_symbol>(1 + 1000 * turn), 120);
    text.insert(text.end(), more.begin(), more.end());
    (void)server.request(text, &got);
  }
  return clock.now - begun;
}

// The tier has nothing for them, and takes no time.
void expect_no_loss(const char* name, FakeStore* store, uint32_t reasons, Clock& clock) {
  Clock own;
  const int64_t without = time_of_conversations(nullptr, reasons, own), with = time_of_conversations(store, reasons, clock);
  std::printf("%s: %.4f of the time without tiers\n", name, static_cast<double>(with) / static_cast<double>(without));
  EXPECT_LE(static_cast<double>(with) * 0.98, static_cast<double>(without)) << name;
}

TEST(SlowLink, TakesNothingFromWhatIsHere) {
  for (const Link& link : kLinks) {
    Clock clock;
    FakeStore store(slow_link());
    delay(&store, link);
    expect_no_loss(link.name, &store, link.reasons, clock);
  }
}

TEST(SlowLink, ThatIsDeadTakesNothing) {
  Clock clock;
  FakeStore dead;
  dead.set_state(QUIRE_CONNECTOR_DOWN);
  expect_no_loss("dead", &dead, QUIRE_UNIT_COMMITTED, clock);
  FakeStore silent;  // every ticket fails, after two seconds
  silent.set_script([](const SeenTicket&, Fate* fate) {
    fate->delay_ns = kStoring;
    fate->code = QUIRE_UNAVAILABLE;
  });
  expect_no_loss("silent", &silent, QUIRE_UNIT_COMMITTED, clock);
}

}  // namespace
}  // namespace quire::test
