// Capacity: guaranteed below packed, both exact at their edges, and no memory for pages.
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
      const Capacity found = capacity_of(*config, tokens, concurrency);
      EXPECT_LE(found.sequences, found.sequences_packed);
      EXPECT_LE(found.longest, found.longest_packed);
      EXPECT_LE(found.pages_needed_packed, found.pages_needed);
      EXPECT_LE(pages_of(*config, found.sequences, tokens, false), config->num_pages);
      EXPECT_GT(pages_of(*config, found.sequences + 1, tokens, false), config->num_pages);
      EXPECT_GT(pages_of(*config, found.sequences_packed + 1, tokens, true), config->num_pages);
      if (found.longest < config->max_model_len) {
        EXPECT_GT(pages_of(*config, concurrency, found.longest + 1, false), config->num_pages);
      }
      EXPECT_EQ(found.sequences >= concurrency, found.pages_needed <= config->num_pages);
      EXPECT_EQ(found.bytes_needed, found.pages_needed * config->shards[0].page_bytes);
    }
  }
  EXPECT_EQ(capacity_of(*config, 262144, 1).longest, config->capacity_tokens);
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
  const Capacity found = capacity_of(*config, 160, 3);
  EXPECT_EQ(found.sequences, 10u);
  EXPECT_EQ(found.sequences_packed, 10u);
  EXPECT_EQ(found.longest, 33u * 16);  // 100 pages for three sequences
  EXPECT_EQ(found.pages_needed, 31u);
  EXPECT_EQ(found.bytes_needed, 31u * 16384);
}

TEST(Capacity, TooLittleNamesWhatWouldFit) {
  const Status status = refused(mixed(attention(2, 256), 12, kDelta, 36), Options("auto", kGiB));
  EXPECT_EQ(status.code(), QUIRE_RESOURCE_EXHAUSTED);
  for (const char* part : {"max_model_len = 262144", "pages", "bytes on shard 0", "tokens would fit"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
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
