// An engine with one tier over a redis-server of its own, in true time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/connectors/patience.h"
#include "tests/connectors/redis_server.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {

inline constexpr int64_t kMillisecond = 1'000'000;
// More than any tier is left alone.
inline constexpr int64_t kAges = 400'000 * kMillisecond;

inline EngineOptions over(const kit::RedisServer& server, EngineOptions options,  //
                          const std::string& fields = {}) {
  options.connector = "redis";
  options.settings = server.config(fields);
  return options;
}

struct RedisTier {
  kit::RedisServer server;
  Clock clock{true};
  Engine engine;

  explicit RedisTier(EngineOptions options, std::vector<std::string> of_server = {},  //
                     const std::string& fields = {})
      : server(std::move(of_server)), engine(clock, over(server, std::move(options), fields), {}) {}

  int64_t now() const { return clock.now + kit::clock_now(); }
  bool is_up() const {
    quire_connector_health health = QUIRE_INIT(quire_connector_health);
    EXPECT_EQ(quire_connector_get_health(engine.connector(0), &health, nullptr), QUIRE_OK);
    return health.state == QUIRE_CONNECTOR_UP;
  }
  uint64_t num_submitted() const {
    quire_connector_stats stats = QUIRE_INIT(quire_connector_stats);
    EXPECT_EQ(quire_connector_get_stats(engine.connector(0), &stats, nullptr), QUIRE_OK);
    return stats.num_submitted;
  }
  // The server has all units of the text, and the cache has none.
  void fill(const Text& text) {
    const uint64_t stored = engine.tier().objects_stored;
    engine.compute(text);
    engine.settle();
    ASSERT_GT(engine.tier().objects_stored, stored);
    engine.forget_all();
  }
};

}  // namespace quire::test
