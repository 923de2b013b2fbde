// Tiers that are released while a connector does not end what it has: nobody waits for it for ever, and no byte that it still writes is
// anybody else's.
#include <chrono>

#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

TEST(TiersRelease, DoesNotWaitForEver) {
  // These live as long as the connector: to the end.
  static auto* const kept_clock = new Clock;
  static auto* const kept_store = new FakeStore;
  Clock& clock = *kept_clock;
  FakeStore& store = *kept_store;
  EngineOptions o;
  o.layers = {full_layer(), window_layer(40), state_layer()};
  Engine engine(clock, o, {&store});
  const Text text = count_text(1, 300);
  engine.compute(text);
  engine.settle();
  engine.forget_all();
  store.set_script([](const SeenTicket& seen, Fate* fate) { fate->held = fate->deaf = seen.ticket.kind == QUIRE_TICKET_LOAD; });
  engine.begin(engine.open(), text);
  for (int turns = 0; turns < 100 && store.counts().accepted[QUIRE_TICKET_LOAD] == 0; ++turns) EXPECT_TRUE(engine.run().empty());
  ASSERT_GT(store.counts().accepted[QUIRE_TICKET_LOAD], 0U);
  const auto begun = std::chrono::steady_clock::now();
  engine.drop_tiers();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  std::printf("released after %.1f s\n", took.count());
  EXPECT_GT(took.count(), 4.5);
  EXPECT_LT(took.count(), 10.0);
  EXPECT_GT(engine.cache_stats().holds, 0U);
  EXPECT_EQ(engine.cache_stats().loads, 0U);
  engine.verify();
  // Whatever else the pool has is as it was after the connector has written.
  std::vector<std::pair<quire_sequence_id, Text>> others;
  for (quire_symbol first = 1000; first < 12000; first += 1000) {
    others.emplace_back(engine.open(), count_text(first, 280));
    engine.go_on(others.back().first, others.back().second);
  }
  store.release_all();
  for (const auto& [sequence, own] : others) {
    Text longer = own;
    longer.push_back(7);
    engine.check(sequence, longer);
  }
  EXPECT_GT(engine.cache_stats().holds, 0U) << "nobody knows when it ends";
}

}  // namespace
}  // namespace quire::test
