// Method: schedules of traces written by hand, next to times worked out on paper; and replays of them, whose hits tell the order in which
// requests ran.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "replay/replay.h"
#include "replay/replay_fleet.h"
#include "replay/replay_oracle.h"

namespace quire {
namespace {

using replay::Request;
using replay::Schedule;
using replay::Timing;

constexpr uint32_t kUnit = 16;

// A letter is a block of text; one more token follows. continues: it is the next turn of the one before.
Request request(const std::string& letters, bool continues = false, uint64_t arrival_ms = 0) {
  auto text = std::make_shared<std::vector<quire_symbol>>();
  for (const char c : letters) text->insert(text->end(), kUnit, static_cast<quire_symbol>(c));
  text->push_back(0);
  Request out;
  out.input_length = text->size();
  out.output_length = 1;
  out.text = text;
  out.continues = continues;
  out.arrival_ms = arrival_ms;
  return out;
}

std::vector<std::pair<uint64_t, bool>> due(Schedule& schedule, bool idle) {
  std::vector<std::pair<uint64_t, bool>> out;
  for (const Schedule::Due& one : schedule.due(idle)) out.emplace_back(one.request, one.first);
  return out;
}

using Due = std::vector<std::pair<uint64_t, bool>>;

TEST(Schedules, WithoutTimesAllWaitAtOnceAndTurnsGoFirst) {
  const std::vector<Request> trace = {request("A"), request("AB", true), request("C", false, 99'000), request("D")};
  Schedule schedule(trace, {});
  EXPECT_EQ(due(schedule, true), (Due{{0, false}, {2, false}, {3, false}}));
  EXPECT_EQ(due(schedule, false), Due{});
  schedule.stepped(100);
  schedule.ended(2);
  schedule.ended(0);
  EXPECT_EQ(due(schedule, false), (Due{{1, true}}));
  schedule.ended(1);
  EXPECT_EQ(due(schedule, true), Due{});
}

TEST(Schedules, RequestsArriveWhenTheTraceSays) {
  const std::vector<Request> trace = {request("A", false, 500), request("B", false, 520), request("C", false, 9000),
                                      request("D", false, 520)};
  Timing timing;
  timing.arrivals = true;
  timing.step_ms = 10;
  timing.token_us = 1000;
  Schedule schedule(trace, timing);
  EXPECT_EQ(due(schedule, false), (Due{{0, false}}));
  EXPECT_DOUBLE_EQ(schedule.seconds(), 0);  // since the first arrival
  schedule.stepped(9);                      // 19 ms
  EXPECT_EQ(due(schedule, false), Due{});
  schedule.stepped(1);  // 11 ms more
  EXPECT_DOUBLE_EQ(schedule.seconds(), 0.03);
  EXPECT_EQ(due(schedule, false), (Due{{1, false}, {3, false}}));
  EXPECT_EQ(due(schedule, false), Due{});
  EXPECT_EQ(due(schedule, true), (Due{{2, false}}));  // nothing else is to do, so its time comes
  EXPECT_DOUBLE_EQ(schedule.seconds(), 8.5);
  EXPECT_EQ(due(schedule, true), Due{});
}

TEST(Schedules, TurnsComeAfterTheTimeToThink) {
  const std::vector<Request> trace = {request("A"), request("AB", true), request("C")};
  Timing timing;
  timing.think_seconds = 2;
  timing.step_ms = 500;
  timing.token_us = 0;
  Schedule schedule(trace, timing);
  EXPECT_EQ(due(schedule, true), (Due{{0, false}, {2, false}}));
  schedule.stepped(1);
  schedule.ended(0);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(due(schedule, false), Due{});
    schedule.stepped(1);
  }
  EXPECT_EQ(due(schedule, false), Due{});
  schedule.stepped(1);
  EXPECT_EQ(due(schedule, false), (Due{{1, true}}));  // 2.5 s; before those that wait since the begin
}

TEST(Schedules, WithArrivalsWhoComesFirstIsFirst) {
  const std::vector<Request> trace = {request("A"), request("AB", true), request("C", false, 1)};
  Timing timing;
  timing.arrivals = true;
  Schedule schedule(trace, timing);
  EXPECT_EQ(due(schedule, true), (Due{{0, false}}));
  schedule.stepped(1);
  schedule.ended(0);
  EXPECT_EQ(due(schedule, false), (Due{{2, false}, {1, false}}));
}

TEST(Schedules, TimesThatAreNotThereAreRefused) {
  Timing arrivals, thinks;
  arrivals.arrivals = true;
  thinks.think_seconds = 1;
  const std::vector<Request> none = {request("A"), request("B")}, empty;
  EXPECT_THROW(Schedule(none, arrivals), std::invalid_argument);
  EXPECT_THROW(Schedule(none, thinks), std::invalid_argument);
  EXPECT_TRUE(due(*std::make_unique<Schedule>(empty, arrivals), true).empty());
}

// Two conversations of two turns, in a pool that holds one of them, one request at a time.
const std::vector<Request>& two_conversations() {
  static const std::vector<Request> trace = {request("ABCDEF"), request("ABCDEFG", true), request("UVWXYZ"), request("UVWXYZT", true)};
  return trace;
}

Timing thinking() {
  Timing timing;
  timing.think_seconds = 10;
  return timing;
}

struct Ran {
  std::vector<uint32_t> hits;
  double seconds = 0;
};

client::Config small_plan() {
  constexpr const char* kModel =
      R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":1,"hidden_size":64,"num_attention_heads":2,"torch_dtype":"bfloat16",
      "max_position_embeddings":256})";
  client::Error error;
  quire_model* model = nullptr;
  client::check(quire_model_from_json(client::to_str(kModel), &model, &error), error);
  const client::Model owned(model);
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str("auto");
  options.num_pages = 10;
  options.max_model_len = 128;
  return client::plan(model, options);
}

client::Cache small_cache(quire_config* config) {
  auto limits = client::sized<quire_cache_options>();
  limits.max_sequences = 1;
  limits.max_tokens_per_step = 256;
  limits.hash_seed = 1;
  client::Error error;
  quire_cache* cache = nullptr;
  client::check(quire_cache_create(nullptr, config, &limits, &cache, &error), error);
  return client::Cache(cache);
}

Ran run(const Timing& timing) {
  const client::Config config = small_plan();
  const client::Cache cache = small_cache(config.get());
  replay::Options options;
  options.concurrency = 1;
  options.timing = timing;
  const replay::Result result = replay::run(cache.get(), two_conversations(), options);
  EXPECT_EQ(result.requests, 4U);
  return {result.hits, result.simulated_seconds};
}

TEST(Schedules, WhoThinksLetsOthersPush) {
  const Ran at_once = run({});
  EXPECT_EQ(at_once.hits, (std::vector<uint32_t>{0, 96, 0, 96}));  // the turn follows its conversation
  EXPECT_EQ(at_once.seconds, 0);
  const Ran later = run(thinking());
  EXPECT_LE(later.hits[1], 48U);  // the other conversation came between and took most of the pool
  EXPECT_GT(later.seconds, 10);
  EXPECT_LT(later.seconds, 11);
}

TEST(Schedules, SimulatedCachesAndFleetsHaveTheSameTimes) {
  const std::vector<Request>& trace = two_conversations();
  const replay::Content content = replay::content_of(trace, kUnit, UINT64_MAX);
  replay::Work work;
  work.layers = {{1, 0}};
  replay::Options options;
  options.concurrency = 1;
  const replay::Sizes sizes{kUnit, 9, 1, 0};
  EXPECT_EQ(replay::simulate(replay::Oracle::kLru, trace, content, sizes, work, options)[1], 96U);
  const client::Config config = small_plan();
  for (const bool thinks : {false, true}) {
    if (thinks) options.timing = thinking();
    const client::Cache cache = small_cache(config.get());
    const auto fleet = replay::run_fleet({{cache.get()}, {}, options, replay::Routing::kRandom, 1}, trace);
    EXPECT_EQ(fleet.hit_tokens, thinks ? 48U : 192U);
    EXPECT_EQ(fleet.most_requests, 4U);
  }
  EXPECT_EQ(replay::simulate(replay::Oracle::kLru, trace, content, sizes, work, options)[1], 48U);
}

}  // namespace
}  // namespace quire
