// What the pool loses while a fetch is on its way.
#include "tests/tier/rig.h"

namespace quire::test {
namespace {

// When it asked, the first half was here. When the answer came it was gone. The tier has it.
TEST(Fetch, BringsWhatWasEvictedWhileItAsked) {
  Clock clock;
  FakeStore store;
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40)};
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 500);
  engine.compute(text);
  engine.settle();
  engine.forget_all();
  engine.compute(Text(text.begin(), text.begin() + 256));
  engine.settle();
  const quire_sequence_id sequence = engine.open();
  const quire_fetch_id fetch = engine.begin(sequence, text);
  engine.forget_all();
  quire_fetch_result got{};
  for (int turns = 0; turns < 1000 && got.fetch == 0; ++turns) {
    const std::vector<quire_fetch_result> results = engine.run();
    if (!results.empty()) got = results[0];
    clock.now += 100'000;
  }
  EXPECT_EQ(got.fetch, fetch);
  EXPECT_EQ(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 448U);
  EXPECT_EQ(got.hit_tokens, 0U);
  engine.check(sequence, text);
  EXPECT_TRUE(store.violations().empty());
}

}  // namespace
}  // namespace quire::test
