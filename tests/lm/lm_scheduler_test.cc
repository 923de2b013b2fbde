// The scheduler of samples/lm: what comes out does not depend on how requests are served.
#include <gtest/gtest.h>

#include <set>

#include "lm_error.h"
#include "lm_threads.h"
#include "scheduler.h"

namespace lm {
namespace {

// A recorded model, served in some way.
struct Way {
  std::string family = "llama";
  KvSettings kv;
  uint32_t budget = 64;
  std::string draft;  // family; empty = none
};

std::filesystem::path folder_of(const std::string& family) { return std::filesystem::path(LM_DATA) / family; }

class Server {
 public:
  explicit Server(const Way& way) : model_(LoadedModel::open(folder_of(way.family))) {
    set_threads(1);
    KvSettings settings = way.kv;
    settings.threads = 1;
    settings.max_step_tokens = way.budget;
    settings.poison = true;
    settings.checkpoint_interval = 16;
    if (!way.draft.empty()) settings.drafts = kDrafts;
    if (settings.max_len == 0) settings.max_len = 128;
    settings.pool_bytes = uint64_t{8} << 20;
    kv_ = std::make_unique<Kv>(model_.config, settings);
    kv_->allocate();
    stepper_ = std::make_unique<Stepper>(*kv_, *model_.family);
    if (!way.draft.empty()) {
      draft_ = std::make_unique<LoadedModel>(LoadedModel::open(folder_of(way.draft)));
      Drafter::check(*draft_->family, *model_.family);
      settings.max_sequences *= 2;
      draft_kv_ = std::make_unique<Kv>(draft_->config, settings);
      draft_kv_->allocate();
      draft_stepper_ = std::make_unique<Stepper>(*draft_kv_, *draft_->family);
      drafter_ = std::make_unique<Drafter>(*draft_stepper_, kDrafts);
    }
    scheduler_ = std::make_unique<Scheduler>(*stepper_, way.budget, drafter_.get());
  }
  Scheduler& operator*() { return *scheduler_; }
  Scheduler* operator->() { return scheduler_.get(); }
  Kv& kv() { return *kv_; }

 private:
  static constexpr uint32_t kDrafts = 3;
  LoadedModel model_;
  std::unique_ptr<LoadedModel> draft_;
  std::unique_ptr<Kv> kv_, draft_kv_;
  std::unique_ptr<Stepper> stepper_, draft_stepper_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<Scheduler> scheduler_;
};

// Requests of different lengths; every second one begins as the one before it.
std::vector<Request> requests(uint32_t samples = 1) {
  std::vector<Request> made;
  for (uint32_t r = 0; r < 6; ++r) {
    Request request;
    for (uint32_t i = 0; i < 20 + 9 * r; ++i) request.prompt.push_back(static_cast<int32_t>(3 + (i * 7 + (i < 34 ? r / 2 : r) * 5) % 60));
    request.max_tokens = 12 + r;
    request.samples = samples;
    request.sampling = {.temperature = r % 2 == 0 ? 0.0F : 0.8F, .top_k = 20, .top_p = 0.95F, .seed = r};
    made.push_back(std::move(request));
  }
  return made;
}

// What comes out, by request and sample.
std::vector<std::vector<int32_t>> texts(const Way& way, uint32_t samples = 1, SchedulerStats* stats = nullptr) {
  Server server(way);
  for (Request& request : requests(samples)) server->submit(std::move(request));
  std::vector<std::vector<int32_t>> result;
  for (const Output& output : server->finish()) {
    EXPECT_EQ(output.finish, Finish::kLength);
    result.push_back(output.tokens);
  }
  server.kv().cache().verify();
  if (stats != nullptr) *stats = server->stats();
  return result;
}

Way one_by_one(const std::string& family) {
  Way way;
  way.family = family;
  way.kv.max_sequences = 1;
  way.kv.reuse = false;
  return way;
}

TEST(LmScheduler, TextsDoNotDependOnBatchesChunksAndReuse) {
  for (const char* family : {"llama", "gemma3", "qwen3_next", "falcon_h1", "lara_mini"}) {
    const auto wanted = texts(one_by_one(family));
    ASSERT_EQ(wanted.size(), 6U);
    EXPECT_EQ(std::set(wanted.begin(), wanted.end()).size(), 6U) << "the requests are all alike";
    for (const uint32_t budget : {7U, 64U}) {
      Way way{family, {}, budget, ""};
      SchedulerStats stats;
      EXPECT_EQ(texts(way, 1, &stats), wanted) << family << ", " << budget;
      EXPECT_TRUE(budget != 7 || stats.hit_tokens > 0);
    }
  }
}

// The fewest pages for one sequence.
uint64_t fewest_pages(Way way) {
  for (way.kv.pages = 2;; ++way.kv.pages) {
    try {
      const Server server(way);
      return way.kv.pages;
    } catch (const quire::Exception& failure) {
      if (failure.code() != QUIRE_RESOURCE_EXHAUSTED) throw;
    }
  }
}

TEST(LmScheduler, TextsDoNotDependOnPreemptionAndPolicy) {
  uint64_t preemptions = 0;  // some ways make requests wait instead
  for (const char* family : {"gemma3", "qwen3_next", "lara_mini"}) {
    const auto wanted = texts(one_by_one(family));
    for (const char* policy : {"auto", "vllm"}) {
      Way way{family, {}, 16, ""};
      way.kv.policy = policy;
      way.kv.max_len = 84;  // little more than the longest request
      way.kv.pages = fewest_pages(way);
      SchedulerStats stats;
      EXPECT_EQ(texts(way, 1, &stats), wanted) << family << ", " << policy;
      preemptions += stats.preemptions;
    }
  }
  EXPECT_GE(preemptions, 4U);
}

TEST(LmScheduler, SamplesShareTheirPrompt) {
  SchedulerStats one;
  SchedulerStats three;
  const auto wanted = texts(one_by_one("llama"), 1, &one);
  Way way;
  way.kv.reuse = false;
  way.kv.max_sequences = 32;
  const auto got = texts(way, 3, &three);
  ASSERT_EQ(got.size(), 18U);
  for (size_t r = 0; r < 6; ++r) {
    EXPECT_EQ(got[3 * r], wanted[r]);
    EXPECT_EQ(got[3 * r] == got[3 * r + 1], r % 2 == 0) << "samples of one seed";  // even ones are greedy
  }
  EXPECT_EQ(three.prefill_tokens, one.prefill_tokens);
  // More samples than may run together.
  way.kv.max_sequences = 2;
  way.kv.reuse = true;
  EXPECT_EQ(texts(way, 3), got);
}

// Requests that are refused hold no sequence while others fork: the cache has no more of them than run.
TEST(LmScheduler, SamplesForkWhileOthersAreRefused) {
  uint64_t preemptions = 0;
  for (const char* family : {"llama", "qwen3_next"}) {
    Way way{family, {}, 64, ""};
    way.kv.max_len = 84;
    const auto wanted = texts(way, 2);
    way.kv.pages = fewest_pages(way) + 1;
    for (const uint32_t most : {3U, 4U, 6U}) {
      way.kv.max_sequences = most;
      SchedulerStats stats;
      EXPECT_EQ(texts(way, 2, &stats), wanted) << family << ", " << most;
      preemptions += stats.preemptions;
    }
  }
  EXPECT_GT(preemptions, 0U);
}

TEST(LmScheduler, DraftsChangeNothing) {
  for (const char* family : {"llama", "qwen3_next"}) {
    const auto wanted = texts(one_by_one(family));
    for (const char* draft : {family, "lara_mini", "gemma3"}) {
      SchedulerStats stats;
      EXPECT_EQ(texts({family, {}, 64, draft}, 1, &stats), wanted) << family << ", " << draft;
      EXPECT_GT(stats.drafted, 0U);
      EXPECT_TRUE(draft != family || 3 * stats.accepted > stats.drafted) << stats.accepted;
    }
  }
}

TEST(LmScheduler, RefusesWhatCannotBeServed) {
  Server server(Way{});
  const auto refusal = [&](std::vector<int32_t> prompt) -> std::string {
    Request request;
    request.prompt = std::move(prompt);
    try {
      server->submit(std::move(request));
    } catch (const Error& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_NE(refusal({}).find("no tokens"), std::string::npos);
  EXPECT_NE(refusal(std::vector<int32_t>(128, 5)).find("128 tokens, a sequence at most 128"), std::string::npos);
  EXPECT_EQ(refusal(std::vector<int32_t>(127, 5)), "");
  EXPECT_EQ(server->finish().back().tokens.size(), 1U);  // the sequence is full
}

TEST(LmScheduler, AStepHasRoomForARow) {
  const Way way{"llama", {}, 3, "llama"};
  EXPECT_THROW(Server{way}, Error);
}

TEST(LmScheduler, StopsAtStops) {
  Server server(Way{});
  const std::vector<int32_t> free_text = texts(one_by_one("llama"))[0];
  Request request = requests()[0];
  request.stops = {free_text[4]};
  server->submit(std::move(request));
  const Output output = server->finish().back();
  EXPECT_EQ(output.finish, Finish::kStop);
  EXPECT_EQ(output.tokens.back(), free_text[4]);
  EXPECT_LE(output.tokens.size(), 5U);
}

TEST(LmSampling, TakesTheLikeliestAndKeepsToItsLimits) {
  const std::vector<float> logits = {1, 4, 2, 3, 0};
  EXPECT_EQ(sample_token(logits, {}, 0, 0), 1);
  std::set<int32_t> all;
  std::set<int32_t> two;
  std::set<int32_t> half;
  for (uint64_t position = 0; position < 2000; ++position) {
    all.insert(sample_token(logits, {.temperature = 2, .seed = 1}, 0, position));
    two.insert(sample_token(logits, {.temperature = 2, .top_k = 2, .seed = 1}, 0, position));
    half.insert(sample_token(logits, {.temperature = 1, .top_p = 0.5F, .seed = 1}, 0, position));
  }
  EXPECT_EQ(all.size(), 5U);
  EXPECT_EQ(two, (std::set<int32_t>{1, 3}));
  EXPECT_EQ(half, (std::set<int32_t>{1}));
}

}  // namespace
}  // namespace lm
