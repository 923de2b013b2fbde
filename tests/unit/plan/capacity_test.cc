// Capacity: exact at its edges, worked by hand, and no memory for pages. What live caches say: tests/golden/capacities_test.cc.
#include "core/plan/capacity.h"

#include <malloc.h>

#include <random>

#include "plans.h"

namespace quire {
namespace {

using namespace plans;

const quire_layer kDelta = state(3, 12288, 64, 128, 128);

TEST(Capacity, EdgesAreExact) {
  Options options("auto", 80 * kGiB);
  options.raw.tensor_parallel = 2;
  const auto config = planned(mixed(attention(2, 256), 15, kDelta, 45), options);
  for (const uint64_t tokens : {uint64_t{1}, uint64_t{8192}, uint64_t{262144}}) {
    for (const uint64_t concurrency : {uint64_t{1}, uint64_t{7}, uint64_t{100}}) {
      const auto of = [&](uint64_t length, uint64_t sequences) { return capacity_of(*config, CacheUse{}, length, sequences); };
      const Capacity found = of(tokens, concurrency);
      EXPECT_LE(found.guaranteed, found.decoding);
      EXPECT_LE(found.decoding, found.resident);
      EXPECT_LE(of(tokens, found.guaranteed).pages_needed, config->num_pages);
      EXPECT_GT(of(tokens, found.guaranteed + 1).pages_needed, config->num_pages);
      if (found.longest < config->max_model_len) {
        EXPECT_GT(of(found.longest + 1, concurrency).pages_needed, config->num_pages);
      }
      EXPECT_EQ(found.guaranteed >= concurrency, found.pages_needed <= config->num_pages);
      EXPECT_EQ(found.bytes_needed, found.pages_needed * config->shards[0].page_bytes);
    }
  }
  EXPECT_EQ(capacity_of(*config, CacheUse{}, 262144, 1).longest, config->capacity_tokens);
}

// States: what a sequence owns while it waits, decodes, and at worst.
TEST(Capacity, SlotsFollowTheOptions) {
  Options options("vllm", 0);
  options.memory.clear();
  options.raw.num_pages = 1201;
  const auto config = planned(mixed(attention(1, 256), 0, kDelta, 1, 1 << 20), options);
  ASSERT_EQ(config->groups.size(), 1u);
  ASSERT_EQ(config->groups[0].parts_per_page, 1u);
  struct Case {
    CacheUse use;
    uint64_t guaranteed, decoding, resident;
  };
  const CacheUse two{}, one{.step_depth = 1}, four{.step_depth = 4}, in_place{.step_depth = 1, .in_place = true}, drafts{.branches = 3};
  const CacheUse drafts_in_place{.step_depth = 1, .branches = 3, .in_place = true}, in_place_two{.in_place = true},
      nothing_kept{.publishes = false}, spare{.spare_pages = 200};
  // Current state, one per step in flight; with drafts one more for a boundary that a row crosses.
  for (const Case& c : {Case{two, 400, 400, 1200}, Case{one, 600, 600, 1200}, Case{four, 240, 240, 1200}, Case{in_place, 1200, 1200, 1200},
                        Case{in_place_two, 600, 600, 1200}, Case{drafts, 120, 133, 300}, Case{drafts_in_place, 240, 300, 300},
                        Case{nothing_kept, 400, 400, 1200}, Case{spare, 333, 333, 1000}}) {
    const Capacity found = capacity_of(*config, c.use, 8000, 1);
    EXPECT_EQ(found.guaranteed, c.guaranteed);
    EXPECT_EQ(found.decoding, c.decoding);
    EXPECT_EQ(found.resident, c.resident);
  }
  EXPECT_EQ(capacity_of(*config, nothing_kept, 20000, 1).resident, 600u);  // several chunks: the state before the last one stays spare
}

// A window of 128 tokens and a full layer, 16 tokens a block, a block a page.
TEST(Capacity, ChunksInFlightAreChargedOnce) {
  Options options("vllm", 0);
  options.memory.clear();
  options.raw.num_pages = 100001;
  std::vector<quire_layer> layers{attention(1, 256), attention(1, 256, 128)};
  layers[1].layer = 1;
  auto model = Model::create(layers, 100000);
  ASSERT_TRUE(model.ok());
  const auto config = planned(*model, options);
  ASSERT_EQ(config->groups.size(), 2u);
  CacheUse use;
  use.step_depth = 1;
  // 8,000 tokens: 500 blocks, and 9 of the window: 127 tokens before the one that is decoded.
  const Capacity found = capacity_of(*config, use, 8000, 10);
  EXPECT_EQ(found.resident, (100000u - 1000) / 509 + 1);
  EXPECT_EQ(found.decoding, (100000u - 1000) / 509 + 1);
  // Ten sequences and one chunk of 8,192 tokens wherever it costs most: a block for every 16 tokens beyond the ten that decode, and each of
  // the ten may have its first one for a token less.
  EXPECT_GE(found.pages_needed, 1 + 10 * 509 + (8192u - 10) / 16);
  EXPECT_LE(found.pages_needed, 1 + 10 * 509 + (8192u - 10) / 16 + 10);
}

// A window of 128 tokens beside 64 first ones that stay: a sequence that waits holds 8 blocks and 4, one of them a page.
TEST(Capacity, TheFirstTokensThatStayTakeRoom) {
  quire_layer layer = attention(8, 128);
  layer.kind = QUIRE_LAYER_SLIDING_WINDOW;
  layer.window = 128;
  layer.sink_tokens = 64;
  Options options("vllm", 0);
  options.memory.clear();
  options.raw.num_pages = 1201;
  const auto config = planned(mixed(layer, 4, kDelta, 0, 1 << 20), options);
  ASSERT_EQ(config->groups.size(), 1u);
  ASSERT_EQ(config->groups[0].parts_per_page, 1u);
  ASSERT_EQ(config->groups[0].block_tokens, 16u);
  // 8,000 tokens: the last 127 and the next one lie in 8 blocks. A prompt's last chunk holds more.
  const uint64_t waits = 12;
  const Capacity found = capacity_of(*config, CacheUse{.step_tokens = 16}, 8000, 1);
  EXPECT_GT(found.resident, 1200 / waits - 4);
  EXPECT_LE(found.resident, 1200 / waits);
}

TEST(Capacity, StatesAloneWithoutReuseAreMatchedInNoLongUnits) {
  Options options("vllm", kGiB);
  options.raw.flags = QUIRE_PLAN_NO_PREFIX_REUSE;
  const auto config = planned(mixed(attention(1, 256), 0, kDelta, 4), options);
  EXPECT_EQ(config->groups[0].block_tokens, config->max_model_len);
  EXPECT_EQ(config->match_unit_tokens, 16u);
}

// One full layer of 1,024 bytes per token in blocks of 16 tokens: pages are blocks, and one is the null page.
TEST(Capacity, WorkedNumbers) {
  Options options("vllm", 0);
  options.memory.clear();
  options.raw.num_pages = 101;
  const auto config = planned(mixed(attention(1, 256), 1, kDelta, 0, 1600), options);
  EXPECT_EQ(config->shards[0].page_bytes, 16384u);
  const Capacity found = capacity_of(*config, CacheUse{}, 160, 3);
  EXPECT_EQ(found.guaranteed, 10u);
  EXPECT_EQ(found.decoding, 10u);
  EXPECT_EQ(found.resident, 10u);
  EXPECT_EQ(found.longest, 33u * 16);  // 100 pages for three sequences
  EXPECT_EQ(found.pages_needed, 31u);
  EXPECT_EQ(found.bytes_needed, 31u * 16384);
}

TEST(Capacity, TooLittleNamesWhatWouldFit) {
  const Status status = refused(mixed(attention(2, 256), 12, kDelta, 36), Options("auto", kGiB));
  EXPECT_EQ(status.code(), QUIRE_RESOURCE_EXHAUSTED);
  for (const char* part :
       {"max_model_len = 262144", "pages", "bytes on shard 0", "tokens would fit: lower max_model_len or set QUIRE_PLAN_FIT_LENGTH"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

// As many pages as the null page and the states of one sequence take.
TEST(Capacity, NotOneTokenNamesWhatIsFixed) {
  const Model model = mixed(attention(1, 256), 1, kDelta, 1, 4096);
  for (const uint32_t flags : {0u, QUIRE_PLAN_FIT_LENGTH}) {
    Options options("auto", 0);
    options.memory.clear();
    options.raw.flags = flags;
    options.raw.num_pages = 1000;
    const auto whole = planned(model, options);
    const uint64_t page = whole->shards[0].page_bytes;
    const uint64_t fixed = pages_of_one(*whole, 0);
    const uint64_t one = pages_of_one(*whole, 1);
    ASSERT_GT(fixed, 1u);
    ASSERT_GT(one, fixed);
    options.raw.num_pages = fixed;
    const Status status = refused(model, options);
    EXPECT_EQ(status.code(), QUIRE_RESOURCE_EXHAUSTED);
    const auto says = [](uint64_t pages, uint64_t bytes) { return std::to_string(pages) + " pages = " + std::to_string(bytes) + " bytes"; };
    for (const std::string& part :
         {std::string("not one token fits: the null page and the states of one sequence need "), says(fixed, fixed * page),
          "with one token " + says(one, one * page), "given are " + says(fixed, fixed * page)}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
    EXPECT_EQ(status.message().find("0 tokens"), std::string::npos) << status.message();
  }
}

// Policy vllm: two pages of 4,276,224 bytes, the null page and one for a state or a block.
TEST(Capacity, NotOneTokenUnderPolicyVllm) {
  for (const uint32_t flags : {0u, QUIRE_PLAN_FIT_LENGTH}) {
    Options options("vllm", 9000000);
    options.raw.flags = flags;
    const Status status = refused(mixed(attention(1, 256), 1, kDelta, 1, 4096), options);
    EXPECT_EQ(status.code(), QUIRE_RESOURCE_EXHAUSTED);
    EXPECT_NE(status.message().find("not one token fits: "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(" bytes"), std::string::npos) << status.message();
  }
}

// A hundred million blocks: nothing of the plan grows with them.
TEST(Capacity, PlansUseNoMemoryPerPage) {
  const Model model = mixed(attention(1, 32), 2, kDelta, 0, 1 << 20);
  Options few("vllm", 0);
  few.memory.clear();
  few.raw.num_pages = 100000;
  Options many = few;
  many.raw.num_pages = 100000000;
  const auto bytes_of = [&](const Options& options) {
    const struct mallinfo2 before = mallinfo2();
    const auto config = planned(model, options);
    EXPECT_EQ(config->num_pages, options.raw.num_pages);
    const struct mallinfo2 after = mallinfo2();
    return static_cast<int64_t>(after.uordblks + after.hblkhd) - static_cast<int64_t>(before.uordblks + before.hblkhd);
  };
  bytes_of(few);
  const int64_t small = bytes_of(few);
  EXPECT_LT(bytes_of(many), small + 65536);
}

}  // namespace
}  // namespace quire
