// The fleet's subscriber and index against a cache that publishes: the router expects what the cache really has. Method: random
// operations; for random prompts the hit of the index is compared with quire_probe. Two models: windows, and recurrent states.
#include "samples/fleet/subscriber.h"

#include <gtest/gtest.h>

#include "tests/zmq/zmq_rig.h"

namespace fleet {
namespace {

namespace wire = quire::wire;

constexpr const char* kStates =
    R"({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 16,
        "max_position_embeddings": 320, "torch_dtype": "bfloat16"})";

Layout layout_of_config(quire_config* config) {
  wire::Error err;
  quire_config_info info = QUIRE_INIT(quire_config_info);
  EXPECT_EQ(quire_config_get_info(config, &info, &err), QUIRE_OK) << err.message;
  Layout layout;
  layout.unit = info.match_unit_tokens;
  layout.salts = {""};
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    quire_group_info group = QUIRE_INIT(quire_group_info);
    EXPECT_EQ(quire_config_get_group(config, g, &group, &err), QUIRE_OK) << err.message;
    layout.groups.push_back({group.block_tokens, group.is_state != 0, group.window, group.chunk, group.sink_tokens});
  }
  return layout;
}

uint64_t probed(const wire::Engine& engine, const std::vector<quire_symbol>& prompt) {
  wire::Error err;
  quire_probe_result found = QUIRE_INIT(quire_probe_result);
  EXPECT_EQ(quire_probe(engine.cache(), nullptr, prompt.data(), prompt.size(), &found, &err), QUIRE_OK) << err.message;
  return found.hit_tokens;
}

uint64_t expected(const View& view, const Layout& layout, const std::vector<quire_symbol>& prompt) {
  const std::vector<int64_t> tokens(prompt.begin(), prompt.end());
  return view.index().hit(layout.names(tokens, 0), tokens.size());
}

struct Rig {
  Rig(const char* model, uint64_t seed, uint64_t pages, const quire_event_publisher_options& options)
      : random(seed), engine(0, pages, model), publisher(options), layout(layout_of_config(engine.config())), view(layout) {}

  void connect() { subscriber = std::make_unique<Subscriber>(sockets, publisher.endpoint(), publisher.replay_endpoint(), &view); }
  void steps(int n) {
    for (int i = 0; i < n; ++i) engine.step(&random), publisher.follow(engine.cache());
  }
  // What an engine says with an answer; then all that it published is known, or given up.
  void catch_up() {
    view.expect(publisher.stats().next_number);
    ASSERT_TRUE(wire::becomes_true([this] {
      subscriber->follow();
      return !view.has_gap();
    }));
  }

  std::mt19937_64 random;
  wire::Engine engine;
  wire::Publisher publisher;
  Layout layout;
  View view;
  Sockets sockets;
  std::unique_ptr<Subscriber> subscriber;
};

void expects_what_is_there(const char* model, uint64_t seed, uint64_t pages) {
  Rig rig(model, wire::seed_or(seed), pages, wire::Publisher::options());
  rig.connect();
  uint64_t hits = 0, misses = 0;
  for (int round = 0; round < 60; ++round) {
    rig.steps(4);
    ASSERT_NO_FATAL_FAILURE(rig.catch_up());
    ASSERT_EQ(rig.view.index().size(), rig.engine.index().size());
    for (int i = 0; i < 20; ++i) {
      const auto prompt = wire::Engine::prompt(&rig.random);
      const uint64_t hit = probed(rig.engine, prompt);
      ASSERT_EQ(expected(rig.view, rig.layout, prompt), hit) << "round " << round << ", a prompt of " << prompt.size();
      ++(hit != 0 ? hits : misses);
    }
  }
  EXPECT_GT(hits, 20u);
  EXPECT_GT(misses, 20u);
  EXPECT_EQ(rig.view.given_up(), 0u);
}

TEST(FleetSubscriber, ExpectsWhatTheCacheHasOfWindows) { expects_what_is_there(nullptr, 11, 90); }
TEST(FleetSubscriber, ExpectsWhatTheCacheHasOfStates) { expects_what_is_there(kStates, 12, 60); }

TEST(FleetSubscriber, WhoComesLateAsksForWhatWasBefore) {
  Rig rig(nullptr, wire::seed_or(13), 90, wire::Publisher::options());
  do rig.steps(10);
  while (rig.engine.index().size() <= 20);
  ASSERT_TRUE(rig.publisher.is_idle());
  rig.connect();
  ASSERT_NO_FATAL_FAILURE(rig.catch_up());
  EXPECT_EQ(rig.view.index().size(), rig.engine.index().size());
  EXPECT_GE(rig.subscriber->asked(), 1u);
  EXPECT_EQ(rig.view.given_up(), 0u);
}

// Then the router expects too little, never what is not there.
TEST(FleetSubscriber, WhatIsNotKeptEmptiesTheIndex) {
  quire_event_publisher_options options = wire::Publisher::options();
  options.buffer_steps = 2;
  const uint64_t seed = wire::seed_or(14);
  uint64_t given_up = 0;
  for (uint64_t run = 0; run < 5; ++run) {
    Rig rig(nullptr, seed + run, 90, options);
    rig.steps(40);
    ASSERT_TRUE(rig.publisher.is_idle());
    rig.connect();
    ASSERT_NO_FATAL_FAILURE(rig.catch_up());
    given_up += rig.view.given_up();  // nothing had to be if one of the last two operations emptied the cache
    for (int round = 0; round < 10; ++round) {
      rig.steps(2);
      ASSERT_NO_FATAL_FAILURE(rig.catch_up());
      for (int i = 0; i < 20; ++i) {
        const auto prompt = wire::Engine::prompt(&rig.random);
        ASSERT_LE(expected(rig.view, rig.layout, prompt), probed(rig.engine, prompt)) << "run " << run << ", round " << round;
      }
    }
  }
  EXPECT_GE(given_up, 1u);
}

// An engine that is stopped replays nothing. Whoever routes does not wait for it.
TEST(FleetSubscriber, ASilentPublisherIsGivenUp) {
  Rig rig(nullptr, wire::seed_or(15), 90, wire::Publisher::options());
  rig.subscriber = std::make_unique<Subscriber>(rig.sockets, rig.publisher.endpoint(), "ipc:///nonexistent/nobody", &rig.view);
  rig.view.expect(1);
  const double begin = wire::seconds_now();
  while (rig.view.has_gap() && wire::seconds_now() < begin + 20) {
    const double before = wire::seconds_now();
    rig.subscriber->follow();
    ASSERT_LT(wire::seconds_now(), before + 1);
  }
  EXPECT_FALSE(rig.view.has_gap());
  EXPECT_EQ(rig.view.given_up(), 1u);
}

}  // namespace
}  // namespace fleet
