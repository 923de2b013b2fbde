// Through every connector that keeps something: random prompts under random plans of all kinds come back with every byte right, and as
// long as the model of their records says. The records that the model reads are those of a fake store beside it. The seed is printed;
// QUIRE_SEED and QUIRE_ROUNDS choose others.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#if defined(QUIRE_REDIS)
#include "tests/connectors/redis_server.h"
#endif
#include "tests/tier/record_model.h"
#include "tests/unit/full_size.h"

namespace quire::test {
namespace {

constexpr uint64_t kPromptsOfAPlan = 100;

std::string folder() {
  const char* const memory = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : nullptr;
  const std::string top = memory != nullptr ? memory : std::filesystem::temp_directory_path().string();
  return top + "/quire-round-trip-" + std::to_string(getpid());
}

std::vector<quire_layer> layers_of(std::mt19937_64& random) {
  std::vector<quire_layer> layers = any_layers(random);
  if (random() % 4 == 0) layers.push_back(chunked_layer(16 * (2 + random() % 8)));
  return layers;
}

// Many begin as an earlier one does, and go on otherwise.
Text prompt(std::mt19937_64& random, std::vector<Text>* earlier) {
  Text text;
  if (!earlier->empty() && random() % 4 != 0) {
    text = (*earlier)[random() % earlier->size()];
    text.resize(1 + random() % text.size());
  }
  for (uint64_t n = 1 + random() % 180; n > 0 && text.size() < 300; --n) text.push_back(static_cast<quire_symbol>(random() % 1000));
  earlier->push_back(text);
  if (earlier->size() > 8) earlier->erase(earlier->begin());
  return text;
}

class RoundTrip : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder()); }

  std::string settings() const {
    if (std::string(QUIRE_CONNECTOR) == "host") return R"({"bytes": "64MiB"})";
#if defined(QUIRE_FAKE_MOONCAKE)
    std::filesystem::create_directories(folder());
    return std::string(R"({"library": ")") + QUIRE_FAKE_MOONCAKE + R"(", "master": ")" + folder() + "\"}";
#endif
#if defined(QUIRE_REDIS)
    return server_.config();
#endif
    return "{\"directory\": \"" + folder() + "\", \"bytes\": \"1GiB\", \"sync\": false}";
  }

  // Prompts of one plan. Returns how many tokens came.
  uint64_t run_plan(uint64_t seed, uint64_t prompts) {
    std::mt19937_64 random(seed);
    EngineOptions o;
    o.layers = layers_of(random);
    o.ranks = 1 + random() % 2;
    o.unit = 64 << random() % 2;
    o.block = 16 << random() % 2;
    o.max_len = 320;
    o.pages = 300;
    Clock clock;
    FakeStore beside;
    Engine other(clock, o, {&beside});
    o.connector = QUIRE_CONNECTOR;
    o.settings = settings();
    Engine engine(clock, o, {});
    RecordModel model(engine, o.layers);
    std::vector<Text> earlier;
    uint64_t came = 0;
    for (uint64_t n = 0; n < prompts && !HasFailure(); ++n) {
      SCOPED_TRACE("prompt " + std::to_string(n));
      const Text text = prompt(random, &earlier);
      for (Engine* each : {&other, &engine}) {
        each->forget_all();
        each->compute(text);
        each->settle();
        each->forget_all();
      }
      model.add_all(beside);
      const uint64_t expected = model.largest_boundary(text);
      const quire_sequence_id sequence = engine.open();
      const quire_fetch_result got = engine.fetch(sequence, text);
      EXPECT_EQ(got.committed, expected);
      EXPECT_EQ(got.outcome, expected > 0 ? QUIRE_FETCH_DONE : QUIRE_FETCH_NOTHING);
      engine.go_on(sequence, text);
      engine.finish(sequence);
      came += got.committed;
    }
    engine.settle();
    engine.expect_nothing_left();
#if defined(QUIRE_REDIS)
    EXPECT_EQ(server_.ask({"FLUSHALL"}), "OK");  // records do not name the plan: the next one begins with none
#endif
    EXPECT_EQ(engine.tier().objects_damaged + engine.tier().objects_failed + engine.tier().objects_missing, 0U);
    EXPECT_EQ(engine.tier().times_closed, 0U);
    std::filesystem::remove_all(folder());
    return came;
  }

#if defined(QUIRE_REDIS)
 private:
  kit::RedisServer server_;
#endif
};

TEST_F(RoundTrip, OfPromptsUnderAnyPlan) {
  const uint64_t seed = number_of("QUIRE_SEED", 1), rounds = number_of("QUIRE_ROUNDS", full_or(10'000, 2'500));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  uint64_t came = 0;
  for (uint64_t n = 0, s = seed; n < rounds && !HasFailure(); n += kPromptsOfAPlan, ++s) {
    SCOPED_TRACE("seed " + std::to_string(s));
    came += run_plan(s, std::min(kPromptsOfAPlan, rounds - n));
  }
  std::printf("%llu tokens of %llu prompts came back\n", static_cast<unsigned long long>(came), static_cast<unsigned long long>(rounds));
  EXPECT_GT(came, 30 * rounds);
}

}  // namespace
}  // namespace quire::test
