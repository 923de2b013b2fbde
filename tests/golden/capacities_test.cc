// quire_config_get_capacity against live caches: for models of every kind, three lengths and two depths of steps, what the formula says is
// what a cache does when it is run. Prints the table of docs/plans.md with QUIRE_PRINT_PLANS=1.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/golden/live_cache.h"
#include "tests/golden/worst_schedule.h"
#include "tests/unit/full_size.h"

namespace quire {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
const std::vector<uint64_t> kLengths{1000, 8000, 50000};
constexpr uint64_t kMemory = 80 * kGiB;
#else
const std::vector<uint64_t> kLengths{1000, 6000};
constexpr uint64_t kMemory = 24 * kGiB;  // the same rule in less time
#endif

struct Case {
  const char* file;
  uint64_t percent = 1;  // that a live cache may differ by
  // Of the pages that are counted for the guaranteed sequences, so many per cent are really taken together. Less where several states fit
  // into a page: the formula counts states that lie scattered as far as a sequence could have scattered them. With two steps in flight the
  // last one is taken when the pool is full, and what kept it away from the others has been evicted.
  uint64_t reached = 99;
  size_t lengths = 3;  // how many of them, where not all are asked for: this one takes as long as all others
};

const Case kCases[] = {
    {QUIRE_SAMPLE_MODELS "/nemotron-3-super-120b.json"},
    {QUIRE_SAMPLE_MODELS "/qwen3-next-80b.json"},
    {QUIRE_SAMPLE_MODELS "/gemma-3-27b.json"},
    {QUIRE_SAMPLE_MODELS "/step-3.7-flash.json"},
    {QUIRE_SAMPLE_MODELS "/deepseek-v4-pro.json", 2, 99, 2},
    {QUIRE_SAMPLE_MODELS "/llama-3.1-8b.json"},
    {QUIRE_SAMPLE_MODELS "/jamba-1.5-mini.json"},
    {QUIRE_SAMPLE_MODELS "/kimi-linear-48b.json"},
    {QUIRE_SAMPLE_MODELS "/minimax-m3.json"},
    {QUIRE_SAMPLE_MODELS "/command-r7b.json"},
    {QUIRE_SAMPLE_MODELS "/inkling.json", 1, 98},
    {QUIRE_MODEL_CONFIGS "/Qwen--Qwen3.5-35B-A3B_config.json"},
    {QUIRE_MODEL_CONFIGS "/openai--gpt-oss-120b_config.json"},
    {QUIRE_MODEL_CONFIGS "/google--gemma-4-26B-A4B_config.json"},
    {QUIRE_MODEL_CONFIGS "/meta-llama--Llama-4-Scout-17B-16E-Instruct_config.json"},
    {QUIRE_MODEL_CONFIGS "/deepseek-ai--DeepSeek-V3.2_config.json"},
};

client::Config plan_of(quire_model* model, const char* policy, uint64_t longest, uint64_t memory = kMemory, uint64_t in_flight = 0) {
  auto options = client::sized<quire_plan_options>();
  options.policy = client::to_str(policy);
  options.memory_bytes = &memory;
  options.num_memory_bytes = 1;
  options.max_model_len = longest;
  options.max_tokens_in_flight = in_flight;
  return client::plan(model, options);
}

client::Config plan_of(const std::string& file, const char* policy, uint64_t longest) {
  return plan_of(client::read_model(file).get(), policy, longest);
}

quire_capacity capacity(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t concurrency = 1) {
  client::Error error;
  auto found = client::sized<quire_capacity>();
  client::check(quire_config_get_capacity(config, &options, tokens, concurrency, &found, &error), error);
  return found;
}

uint64_t share(uint64_t n, uint64_t percent = 1) { return std::max<uint64_t>(n * percent / 100, 1); }

class GoldenCapacity : public testing::TestWithParam<Case> {};

TEST_P(GoldenCapacity, IsWhatLiveCachesDo) {
  const size_t lengths = test::full_or(kLengths.size(), std::min(GetParam().lengths, kLengths.size()));
  for (const uint64_t tokens : std::span(kLengths).first(lengths)) {
    const client::Config config = plan_of(GetParam().file, "auto", tokens + 64);
    for (const uint32_t depth : {1U, 2U}) {
      auto options = client::sized<quire_cache_options>();
      options.step_depth = depth;
      quire_capacity found = capacity(config.get(), options, tokens);
      SCOPED_TRACE(std::to_string(tokens) + " tokens, depth " + std::to_string(depth));
      ASSERT_GT(found.guaranteed, 0u);
      options.max_sequences = static_cast<uint32_t>(found.resident + found.resident / 50 + 16);
      const uint64_t resident = live_resident(config.get(), options, tokens);
      EXPECT_LE(resident, found.resident + share(resident, GetParam().percent));
      EXPECT_GE(resident + share(resident, GetParam().percent), found.resident);
      // A step takes a token of each.
      const bool all_decode = found.decoding + share(found.decoding, GetParam().percent) + 1 < 8192;
      if (all_decode) {
        EXPECT_TRUE(live_decodes(config.get(), options, tokens,
                                 found.decoding - std::min(share(found.decoding, GetParam().percent), found.decoding - 1)));
        EXPECT_FALSE(live_decodes(config.get(), options, tokens, found.decoding + share(found.decoding, GetParam().percent) + 1));
      }
      // Never more pages than are counted, and nearly all of them where all that costs room comes together.
      found = capacity(config.get(), options, tokens, found.guaranteed);
      const uint64_t worst = worst_pages(config.get(), options, tokens, found.guaranteed);
      EXPECT_LE(worst, found.pages_needed);
      EXPECT_GE(worst * 100, found.pages_needed * GetParam().reached);
      EXPECT_TRUE(
          live_serves(config.get(), options, tokens, found.guaranteed, test::full_or(3, 1) * found.guaranteed + 100, tokens + depth));
      if (std::getenv("QUIRE_PRINT_PLANS") != nullptr) {
        const std::string name = std::string(GetParam().file).substr(std::string(GetParam().file).rfind('/') + 1);
        std::printf("| %s | %llu | %u | %llu (%.1f %%) | %llu | %llu (%llu) |\n", name.c_str(), static_cast<unsigned long long>(tokens),
                    depth, static_cast<unsigned long long>(found.guaranteed),
                    100.0 * static_cast<double>(worst) / static_cast<double>(found.pages_needed),
                    static_cast<unsigned long long>(found.decoding), static_cast<unsigned long long>(found.resident),
                    static_cast<unsigned long long>(resident));
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  std::string name = tested.param.file;
  name = name.substr(name.rfind('/') + 1);
  name.resize(name.rfind('.'));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenCapacity, testing::ValuesIn(kCases), name_of);

// As many sequences as are guaranteed are refused nothing, and never have more pages than are counted, whatever they do. Few sequences in a
// pool that they fill, so that every page counts.
void expect_guaranteed(quire_model* model, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto options = client::sized<quire_cache_options>();
  options.step_depth = static_cast<uint32_t>(1 + random() % 3);
  options.max_tokens_per_step = static_cast<uint32_t>(64 << random() % 4);
  options.num_state_branches = static_cast<uint32_t>(random() % 2 * (random() % 4));
  options.flags = random() % 4 == 0 ? QUIRE_CACHE_NO_PREFIX_REUSE : random() % 4 == 0 ? QUIRE_CACHE_STATES_AT_BLOCKS : 0;
  options.keep_states = random() % 2 == 0 ? 0 : QUIRE_KEEP_EVERY | QUIRE_KEEP_CHUNK_END | QUIRE_KEEP_ASKED;
  const uint64_t tokens = 100 + random() % 1500, sequences = 2 + random() % 8;
  const uint64_t in_flight = uint64_t{options.step_depth} * options.max_tokens_per_step;
  const quire_capacity large = capacity(plan_of(model, "auto", tokens).get(), options, tokens, sequences);
  const client::Config config = plan_of(model, "auto", tokens, large.bytes_needed + large.bytes_needed / 64, in_flight);
  const uint64_t guaranteed = capacity(config.get(), options, tokens).guaranteed, most = std::min(guaranteed, sequences);
  if (most == 0) return;
  const uint64_t pages = capacity(config.get(), options, tokens, most).pages_needed;
  const std::string what = "QUIRE_SEED=" + std::to_string(seed) + ": " + std::to_string(most) + " sequences of " + std::to_string(tokens) +
                           " tokens, " + std::to_string(options.step_depth) + " steps of " + std::to_string(options.max_tokens_per_step) +
                           ", branches " + std::to_string(options.num_state_branches) + ", flags " + std::to_string(options.flags) +
                           ", guaranteed " + std::to_string(guaranteed);
  const uint64_t taken = random_pages(config.get(), options, tokens, most, 1200, seed);
  EXPECT_GT(taken, 0u) << what << ": refused";
  EXPECT_LE(taken, pages) << what;
  if (std::getenv("QUIRE_PRINT_PLANS") != nullptr) {
    std::printf("%s: %llu of %llu pages\n", what.c_str(), static_cast<unsigned long long>(taken), static_cast<unsigned long long>(pages));
  }
}

uint64_t first_seed() {
  const char* given = std::getenv("QUIRE_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 23;
  std::printf("QUIRE_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

class GoldenCapacityAtRandom : public testing::TestWithParam<Case> {};

TEST_P(GoldenCapacityAtRandom, NoScheduleExceedsWhatIsGuaranteed) {
  const client::Model model = client::read_model(GetParam().file);
  const uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + test::full_or(96, 12); ++seed) expect_guaranteed(model.get(), seed);
}

// Windows shorter than a page, windows that keep more than they need, chunks, drafts, small states.
TEST(GoldenCapacityOf, NoScheduleExceedsWhatIsGuaranteedOfOddLayers) {
  const std::string kv = "\"num_kv_heads\": 1, \"head_size\": 64, \"dtype\": \"bf16\"";
  const std::string full = "{\"kind\": \"full\", \"num_kv_heads\": 8, \"head_size\": 128, \"dtype\": \"bf16\"}";
  const std::string window = "{\"kind\": \"sliding_window\", \"window\": 20, " + kv + "}";
  const std::string retained = "{\"kind\": \"sliding_window\", \"window\": 45, \"extra_retained\": 7, " + kv + "}";
  const std::string chunked = "{\"kind\": \"chunked\", \"chunk\": 96, " + kv + "}";
  const std::string draft = "{\"kind\": \"sliding_window\", \"window\": 100, \"draft\": true, \"look_ahead\": 5, " + kv + "}";
  const std::string state = "{\"kind\": \"mamba\", \"shapes\": [[3, 64], [2, 24]], \"dtypes\": [\"bf16\", \"fp32\"], \"mode\": \"align\"}";
  const uint64_t first = first_seed();
  for (const std::string& others :
       {window + "," + retained, window + "," + chunked, retained + "," + draft, chunked + "," + state, state + "," + draft}) {
    SCOPED_TRACE(others);
    const client::Model model = client::model_of_text(
        "{\"specs\": [" + full + "," + others + "], \"layers\": [[\"l.0\", 0], [\"l.1\", 1], [\"l.2\", 2], [\"l.3\", 1]]}", "layers");
    for (uint64_t seed = first; seed < first + test::full_or(96, 12); ++seed) expect_guaranteed(model.get(), seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenCapacityAtRandom, testing::ValuesIn(kCases), name_of);

// The other flags of a cache, on models with states.
TEST(GoldenCapacityOf, StatesInPlaceBranchesAndNoReuse) {
  const client::Config config = plan_of(QUIRE_SAMPLE_MODELS "/qwen3-next-80b.json", "auto", 8064);
  for (const uint32_t flags :
       {QUIRE_CACHE_STATES_IN_PLACE, QUIRE_CACHE_NO_PREFIX_REUSE, QUIRE_CACHE_STATES_IN_PLACE | QUIRE_CACHE_NO_PREFIX_REUSE}) {
    for (const uint32_t branches : {0U, 2U}) {
      SCOPED_TRACE(std::to_string(flags) + ", branches " + std::to_string(branches));
      auto options = client::sized<quire_cache_options>();
      options.flags = flags;
      options.num_state_branches = branches;
      const quire_capacity found = capacity(config.get(), options, 6000);
      options.max_sequences = static_cast<uint32_t>(found.resident + found.resident / 50 + 16);
      const uint64_t resident = live_resident(config.get(), options, 6000);
      EXPECT_LE(resident, found.resident + share(resident));
      EXPECT_GE(resident + share(resident), found.resident);
      EXPECT_TRUE(live_decodes(config.get(), options, 6000, found.decoding - share(found.decoding)));
      // In place only those take a slot more whose length is a multiple of the blocks; all are counted.
      const bool exact = flags != QUIRE_CACHE_STATES_IN_PLACE;
      if (exact) {
        EXPECT_FALSE(live_decodes(config.get(), options, 6000, found.decoding + share(found.decoding) + 1));
      }
      EXPECT_TRUE(live_serves(config.get(), options, 6000, found.guaranteed, test::full_or(2, 1) * found.guaranteed, flags + branches));
    }
  }
}

// vLLM's number under its policy, and ours under the same formula.
TEST(GoldenCapacityOf, TokensOfThePoolAreThoseThatVllmPrints) {
  for (const Case& one : kCases) {
    const client::Config config = plan_of(one.file, "vllm", 8192);
    client::Error error;
    auto info = client::sized<quire_config_info>();
    client::check(quire_config_get_info(config.get(), &info, &error), error);
    const quire_capacity found = capacity(config.get(), client::sized<quire_cache_options>(), 0);
    EXPECT_EQ(found.tokens, 8192u);
    EXPECT_GE(found.kv_cache_tokens, info.capacity_tokens) << one.file;
    EXPECT_LE(found.kv_cache_tokens / 8192, found.resident + 1) << one.file;
  }
}

}  // namespace
}  // namespace quire
