// Tiers that are slower than computing: what finding that out costs, that it is remembered and
// forgotten, and that tiers which are worth it are not taken for such.
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr int64_t kTick = 20'000;           // how often the engine looks
constexpr double kNsPerToken = 10'000;      // of computing
constexpr int64_t kComputing = 12'480'000;  // of the 1,248 tokens of 1,264 that 78 records of 16 have

// Full attention in units of one block: many records, whose progress shows.
EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(8, 32)};
  o.unit = 16;
  o.ns_per_token = kNsPerToken;
  return o;
}

// Bytes of a second at which the records of the text take `share` of computing, one after the other.
FakeStoreOptions speed(double share, int64_t latency_ns = 0) {
  constexpr double kRecord = 16.0 * 2 * 8 * 32 * 2 + 4096;
  FakeStoreOptions s;
  s.bytes_per_second = static_cast<uint64_t>(78 * kRecord / (share * static_cast<double>(kComputing) * 1e-9));
  s.latency_ns = latency_ns;
  s.max_started = 1;
  return s;
}

struct Slow : Forgotten {
  explicit Slow(const FakeStoreOptions& of_store, const EngineOptions& o = options()) : Forgotten(o, 1264, of_store) {}

  // A new request, whose tokens stay unknown to later ones.
  quire_fetch_result ask(int64_t deadline_ns = 0) { return ask_for(text, deadline_ns); }
  quire_fetch_result ask_for(const Text& prompt, int64_t deadline_ns = 0) {
    engine.forget_all();
    const quire_sequence_id sequence = engine.open();
    engine.begin(sequence, prompt, deadline_ns);
    std::vector<quire_fetch_result> results;
    for (int turns = 0; turns < 5000 && results.empty(); ++turns) {
      results = engine.run();
      clock.now += results.empty() ? kTick : 0;
    }
    EXPECT_EQ(results.size(), 1U);
    engine.finish(sequence);
    engine.settle();
    return results.empty() ? quire_fetch_result{} : results[0];
  }
};

TEST(SlowTier, IsFoundOutByATwentiethOfComputing) {
  Slow f(speed(3));
  const quire_fetch_result first = f.ask();
  EXPECT_EQ(first.outcome, QUIRE_FETCH_LATE);
  EXPECT_LE(first.elapsed_ns, kComputing / 20 + 5 * kTick);
  for (int i = 0; i < 10; ++i) {
    const quire_fetch_result next = f.ask();
    EXPECT_EQ(next.outcome, QUIRE_FETCH_SLOWER);
    EXPECT_LE(next.elapsed_ns, 5 * kTick);
  }
  EXPECT_EQ(f.engine.tier().times_closed, 0U) << "it is slow, it did not fail";
}

// One that answers nothing at all is as slow.
TEST(SlowTier, ThatBringsNothingIsFoundOut) {
  Slow f({});
  f.store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = seen.ticket.kind == QUIRE_TICKET_LOAD; });
  const quire_fetch_result first = f.ask();
  EXPECT_EQ(first.outcome, QUIRE_FETCH_LATE);
  EXPECT_LE(first.elapsed_ns, kComputing / 20 + 5 * kTick);
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_SLOWER);
}

// A look-up without an answer is late, whether the connector says that its deadline passed, or the tiers see it first.
TEST(SlowTier, ThatDoesNotAnswerIsLate) {
  for (const bool deaf : {false, true}) {
    for (const int64_t deadline : {int64_t{0}, kComputing / 40}) {
      SCOPED_TRACE(std::to_string(deaf) + ", deadline " + std::to_string(deadline));
      Slow f({});
      f.store.set_script([&](const SeenTicket& seen, Fate* fate) {
        if (seen.ticket.kind != QUIRE_TICKET_LOOKUP) return;
        if (deaf) {
          fate->delay_ns = kComputing;
        } else {
          fate->held = true;
        }
        fate->deaf = deaf;
      });
      const quire_fetch_result got = f.ask(deadline);
      EXPECT_EQ(got.outcome, QUIRE_FETCH_LATE);
      EXPECT_EQ(got.committed, 0U);
      EXPECT_EQ(f.engine.stats().outcomes[QUIRE_FETCH_LATE], 1U);
    }
  }
}

// It may have become faster: asked often enough, it is tried again, as carefully as at first.
TEST(SlowTier, IsTriedAgain) {
  Slow f(speed(20));
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_LATE);
  int passed = 0;
  quire_fetch_result next = f.ask();
  for (; passed < 200 && next.outcome == QUIRE_FETCH_SLOWER; ++passed) next = f.ask();
  EXPECT_GE(passed, 50);
  EXPECT_LT(passed, 200) << "one bad moment excludes it for no longer than this";
  EXPECT_EQ(next.outcome, QUIRE_FETCH_LATE);
  EXPECT_LE(next.elapsed_ns, kComputing / 20 + 5 * kTick);
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_SLOWER);
}

// Nothing is known of it, and its progress says that it is worth it.
TEST(SlowTier, ThatIsFasterThanComputingIsUsedFromTheBeginning) {
  for (const double share : {0.1, 0.3, 0.6}) {
    Slow f(speed(share));
    const quire_fetch_result first = f.ask();
    EXPECT_EQ(first.outcome, QUIRE_FETCH_DONE) << share;
    EXPECT_EQ(first.committed, 1248U);
    EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_DONE) << share;
  }
}

// What the first answer brought is not lost because a second one does not come in time, or there is no time to ask for it.
TEST(SlowTier, ThatAnswersOneQuestionInTimeIsUsed) {
  for (const int64_t first_ns : {50'000, 400'000}) {
    SCOPED_TRACE(first_ns);
    EngineOptions o = options();
    o.others = {2};
    Slow f({}, o);
    bool is_second = false;
    f.store.set_script([&](const SeenTicket& seen, Fate* fate) {
      if (seen.ticket.kind != QUIRE_TICKET_LOOKUP) return;
      fate->delay_ns = is_second ? 2'000'000 : first_ns;
      fate->deaf = true;  // its deadline does not end it
      is_second = true;
    });
    Text longer = f.text;
    for (quire_symbol i = 0; i < 100; ++i) longer.push_back(900'000 + i);
    for (int i = 0; i < (first_ns == 50'000 ? 1 : 4); ++i) {  // then the tier counts as one that answers slowly
      is_second = false;
      const quire_fetch_result got = f.ask_for(longer);
      EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE) << i;
      EXPECT_EQ(got.committed, 1264U) << i;
      EXPECT_LE(got.elapsed_ns, static_cast<int64_t>(kNsPerToken * 1364 / 20) + 5 * kTick) << i;
    }
    EXPECT_EQ(f.engine.tier().times_closed, 0U);
  }
}

// Our own records are not there, and whether those of other sizes are nobody has said in time.
TEST(SlowTier, ThatDoesNotAnswerForOthersIsLate) {
  EngineOptions o = options();
  o.others = {2};
  Slow f({}, o);
  int lookups = 0;
  f.store.set_script([&](const SeenTicket& seen, Fate* fate) {
    if (seen.ticket.kind != QUIRE_TICKET_LOOKUP) return;
    fate->delay_ns = ++lookups == 1 ? 50'000 : 2'000'000;
    fate->deaf = true;
  });
  EXPECT_EQ(f.ask_for(count_text(500'000, 1264)).outcome, QUIRE_FETCH_LATE);
  EXPECT_EQ(lookups, 2);
}

// Where a near tier has everything nobody waits for one that is far away; where it lacks something they do.
TEST(SlowTier, IsNotWaitedForWhereANearerOneHasAll) {
  Clock clock;
  FakeStore near;
  FakeStore far;
  EngineOptions o = options();
  o.ns_per_token = 0;  // it would have ten seconds
  Engine engine(clock, o, {&near, &far});
  const Text text = count_text(1, 1264);
  engine.compute(text);
  engine.settle();
  constexpr int64_t kLong = 5'000'000;
  const auto delays = [](FakeStore* store, int64_t ns) {
    store->set_script([ns](const SeenTicket& seen, Fate* fate) { fate->delay_ns = seen.ticket.kind == QUIRE_TICKET_LOOKUP ? ns : 0; });
  };
  enum class Case { kFarIsSlow, kNearIsSlow, kNearLacksOne };
  for (const Case of : {Case::kFarIsSlow, Case::kNearIsSlow, Case::kNearLacksOne}) {
    SCOPED_TRACE(static_cast<int>(of));
    delays(&near, of == Case::kNearIsSlow ? kLong : 0);
    delays(&far, of == Case::kNearIsSlow ? 0 : kLong);
    const bool lacks = of == Case::kNearLacksOne;
    if (lacks) {
      ASSERT_TRUE(near.forget(near.keys()[0]));
    }
    engine.forget_all();
    const quire_sequence_id sequence = engine.open();
    engine.begin(sequence, text);
    std::vector<quire_fetch_result> results;
    for (int turns = 0; turns < 5000 && results.empty(); ++turns) {
      results = engine.run();
      clock.now += results.empty() ? kTick : 0;
    }
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].outcome, QUIRE_FETCH_DONE);
    EXPECT_EQ(results[0].committed, 1248U);
    EXPECT_EQ(results[0].tier, 0U);
    if (of == Case::kFarIsSlow) {
      EXPECT_LE(results[0].elapsed_ns, 10 * kTick);
    } else {
      EXPECT_GE(results[0].elapsed_ns, kLong);
    }
    EXPECT_EQ(engine.tier(1).objects_loaded, lacks ? 1U : 0U);
    engine.check(sequence, text);
    engine.finish(sequence);
    engine.settle();
  }
  EXPECT_EQ(engine.tier(1).times_closed, 0U);
  engine.expect_nothing_left();
}

// A load of one record shows no progress before its end. A tier that was measured is believed.
TEST(SlowTier, ThatWasMeasuredIsTrustedForAsLongAsItShouldTake) {
  Slow f(speed(0.6));
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_DONE);
  const Text shorter(f.text.begin(), f.text.begin() + 20);
  const quire_fetch_result one = f.ask_for(shorter);
  EXPECT_EQ(one.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(one.committed, 16U);
  EXPECT_GT(one.elapsed_ns, static_cast<int64_t>(kNsPerToken) * 16 / 20);
}

// A moment in which a fast tier stands still does not exclude it.
TEST(SlowTier, ThatWasFastMayStandStillOnce) {
  Slow f(speed(0.05));
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_DONE);
  f.store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = seen.ticket.kind == QUIRE_TICKET_LOAD; });
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_LATE);
  f.store.set_script({});
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_DONE);
}

// Look-ups that take longer than a twentieth of computing cost that once; then it is not asked.
TEST(SlowTier, ThatIsFarIsNotAsked) {
  Slow f(speed(0.1, kComputing));
  const quire_fetch_result first = f.ask();
  EXPECT_NE(first.outcome, QUIRE_FETCH_DONE);
  EXPECT_LE(first.elapsed_ns, kComputing / 20 + 5 * kTick);
  const uint64_t asked = f.store.counts().accepted[QUIRE_TICKET_LOOKUP];
  for (int i = 0; i < 5; ++i) {
    const quire_fetch_result next = f.ask();
    EXPECT_EQ(next.outcome, QUIRE_FETCH_SLOWER);
    EXPECT_LE(next.elapsed_ns, 2 * kTick);
  }
  EXPECT_EQ(f.store.counts().accepted[QUIRE_TICKET_LOOKUP], asked);
  EXPECT_EQ(f.engine.tier().times_closed, 0U);
}

// An engine that has no time says nothing of the tier.
TEST(SlowTier, IsNotWhatAnImpatientEngineSays) {
  Slow f(speed(0.5));
  EXPECT_EQ(f.ask(kComputing / 40).outcome, QUIRE_FETCH_LATE);
  EXPECT_EQ(f.engine.tier().ns_per_mib, 0U);
  EXPECT_EQ(f.ask().outcome, QUIRE_FETCH_DONE);
}

}  // namespace
}  // namespace quire::test
