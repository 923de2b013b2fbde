// What the pool loses while a fetch is on its way, and what a fetch from two tiers says of each.
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

// When it asked, the first half was here. When the answer came it was gone. The tier has it.
TEST(Fetch, BringsWhatWasEvictedWhileItAsked) {
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40)};
  Forgotten f(o, 500);
  auto& [clock, store, engine, text] = f;
  engine.compute(Text(text.begin(), text.begin() + 256));
  engine.settle();
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_id fetch = engine.begin(sequence, text);
  engine.forget_all();
  const quire_fetch_result got = engine.wait();
  EXPECT_EQ(got.fetch, fetch);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 448U);
  EXPECT_EQ(got.hit_tokens, 0U);
  engine.check(sequence, text);
  EXPECT_TRUE(store.violations().empty());
}

// Half of a prompt comes at once, half of it late: only the tier that was late is slow.
TEST(Tiers, AreAsFastAsTheirOwnBytes) {
  Clock clock;
  FakeStoreOptions slow;
  slow.bytes_per_second = 10'000'000;
  FakeStore near, far(slow);
  EngineOptions o;
  o.layers = {full_layer(16, 64)};
  Engine engine(clock, o, {&near, &far});
  const Text text = count_text(1, 300);
  engine.compute(text);
  engine.settle();
  engine.forget_all();
  const std::vector<std::string> keys = near.keys();
  for (size_t i = 0; i < keys.size() / 2; ++i) near.forget(keys[i]);
  engine.begin(engine.open(), text);
  EXPECT_EQ(engine.wait().outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(engine.tier(0).objects_loaded, engine.tier(1).objects_loaded);
  EXPECT_GT(engine.tier(0).ns_per_mib, 0U);
  EXPECT_LT(engine.tier(0).ns_per_mib, 1'000'000U);
  EXPECT_GT(engine.tier(1).ns_per_mib, 40'000'000U);
}

}  // namespace
}  // namespace quire::test
