// Grouping and hybrid growth, number by number.
#include "core/plan/vllm/block_sizing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/plan/vllm/hybrid_block.h"

namespace quire {
namespace {

CacheSpec full(uint64_t block = 16) {
  CacheSpec spec;
  spec.block_tokens = block;
  spec.row_bytes = 1024;
  return spec;
}

CacheSpec window(uint64_t range) {
  CacheSpec spec = full();
  spec.family = CacheFamily::kWindow;
  spec.range = range;
  return spec;
}

CacheSpec state(uint64_t bytes, uint64_t block) {
  CacheSpec spec;
  spec.family = CacheFamily::kState;
  spec.state_bytes = bytes;
  spec.block_tokens = block;
  return spec;
}

std::vector<CacheSpec> mix(uint32_t fulls, uint32_t windows) {
  std::vector<CacheSpec> specs(fulls, full());
  specs.insert(specs.end(), windows, window(64));
  return specs;
}

std::vector<size_t> lengths(std::vector<CacheSpec> specs) {
  const auto grouping = group_layers(&specs);
  EXPECT_TRUE(grouping.ok()) << grouping.status().message();
  std::vector<size_t> out;
  if (grouping.ok()) {
    for (const auto& group : grouping.value().groups) out.push_back(group.size());
  }
  return out;
}

using Lengths = std::vector<size_t>;

TEST(Grouping, LengthsFollowTheShortestBucketUnlessBucketsAreClose) {
  EXPECT_EQ(lengths(mix(8, 9)), (Lengths{8, 9}));
  EXPECT_EQ(lengths(mix(20, 30)), (Lengths{20, 15, 15}));
  EXPECT_EQ(lengths(mix(20, 29)), (Lengths{20, 29}));
  EXPECT_EQ(lengths(mix(12, 0)), (Lengths{12}));
  EXPECT_TRUE(lengths({}).empty());
}

TEST(Grouping, GroupsAreStrided) {
  std::vector<CacheSpec> specs = mix(3, 7);
  const auto grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok());
  const std::vector<std::vector<uint32_t>> expected{{0, 1, 2}, {3, 6, 9}, {4, 7}, {5, 8}};
  EXPECT_EQ(grouping.value().groups, expected);
  EXPECT_EQ(pool_bytes_per_block(specs, grouping.value(), std::vector<bool>(10, true)), 3u * 16384);
}

TEST(Grouping, TwoWindowsInterleave) {
  std::vector<CacheSpec> specs(4, full());
  specs.insert(specs.end(), 4, window(64));
  specs.insert(specs.end(), 8, window(128));
  const auto grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok());
  ASSERT_EQ(grouping.value().groups.size(), 4u);
  EXPECT_EQ(grouping.value().groups[2], (std::vector<uint32_t>{8, 10, 12, 14}));
  EXPECT_EQ(grouping.value().groups[3], (std::vector<uint32_t>{9, 11, 13, 15}));
}

// Five windows, then one full layer, 62 layers: ids follow the first appearance, so the full layers come last.
TEST(Grouping, FiveToOne) {
  std::vector<CacheSpec> specs;
  for (uint32_t i = 0; i < 62; ++i) specs.push_back((i + 1) % 6 == 0 ? full() : window(1024));
  EXPECT_EQ(lengths(specs), (Lengths{9, 9, 9, 9, 8, 8, 10}));
  specs.resize(34);
  EXPECT_EQ(lengths(specs), (Lengths{5, 5, 5, 5, 5, 4, 5}));
}

TEST(Grouping, PagesAreUnified) {
  std::vector<CacheSpec> specs{full(), window(64), state(60000, 999)};
  specs[0].row_bytes = 4096;  // 65,536
  specs[1].row_bytes = 2048;  // divides: the block doubles
  const auto grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok());
  EXPECT_EQ(specs[1].block_tokens, 32u);
  EXPECT_EQ(specs[1].padded_page, 0u);
  EXPECT_EQ(specs[2].padded_page, 65536u);
  EXPECT_EQ(specs[2].block_tokens, 999u);

  specs = {full(), window(64)};
  specs[0].layer = 4;
  specs[1].layer = 9;
  specs[1].row_bytes = 1536;  // 3 : 2
  ASSERT_TRUE(group_layers(&specs).ok());
  EXPECT_EQ(specs[0].padded_page, 24576u);
  EXPECT_EQ(specs[0].block_tokens, 16u);
  specs[0].padded_page = 0;
  specs[0].strided_blocks = false;
  const auto refused = group_layers(&specs);
  EXPECT_EQ(refused.status().code(), QUIRE_NOT_REPRESENTABLE);
  EXPECT_NE(refused.status().message().find("layers 4 and 9"), std::string::npos) << refused.status().message();
}

// Windows of one length that keep other tokens are parted where groups can be made, and share a table that keeps the most of them
// elsewhere.
TEST(Grouping, WindowsThatKeepOtherTokensShareOnlyWhereTheyMust) {
  std::vector<CacheSpec> specs{window(64), window(64)};
  specs[1].extra_retained = 4;
  EXPECT_EQ(lengths(specs), (Lengths{1, 1}));
  specs[0].row_bytes = 320;  // of 512: no pages of one size without padding
  specs[1].row_bytes = 512;
  specs[0].strided_blocks = specs[1].strided_blocks = false;
  auto grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok()) << grouping.status().message();
  ASSERT_EQ(grouping->groups.size(), 1u);
  EXPECT_EQ(grouping->merged[0].extra_retained, 4u);

  for (CacheSpec& spec : specs) spec.family = CacheFamily::kLatentWindow;
  specs[0].sink_tokens = 16;
  grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok()) << grouping.status().message();
  ASSERT_EQ(grouping->groups.size(), 1u);
  EXPECT_EQ(grouping->merged[0].sink_tokens, 16u);
  EXPECT_EQ(grouping->merged[0].extra_retained, 4u);
}

TEST(Grouping, DifferentPagesOfOneRangeShareAGroup) {
  std::vector<CacheSpec> specs{full(), full()};
  specs[1].row_bytes = 512;
  const auto grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok());
  EXPECT_TRUE(grouping.value().one_uniform_type());
  EXPECT_EQ(grouping.value().groups.size(), 1u);
  EXPECT_EQ(pool_bytes_per_block(specs, grouping.value(), {true, true}), 16384u + 8192);
  EXPECT_EQ(pool_bytes_per_block(specs, grouping.value(), {false, true}), 8192u);
}

TEST(Grouping, ToldWindows) {
  std::vector<CacheSpec> specs{full(), full(), full()};
  specs[1].told_window = 64;
  EXPECT_EQ(lengths(specs), (Lengths{3}));
  specs[2].told_window = 128;
  EXPECT_EQ(group_layers(&specs, Rules::kUpstream).status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_TRUE(group_layers(&specs).ok());  // ours: a table for all, whatever they compute with
}

// Layers that keep everything anyway, with and without sinks or a prefix window, share the table that was asked for.
TEST(Grouping, OneTableIsOne) {
  for (const CacheFamily other : {CacheFamily::kTrailing, CacheFamily::kSink, CacheFamily::kFull}) {
    for (const Rules rules : {Rules::kRight, Rules::kUpstream}) {
      std::vector<CacheSpec> specs{full(), full(), full()};
      specs[0].family = other;
      specs[0].range = other == CacheFamily::kTrailing ? 64 : 0;
      specs[0].sink_tokens = other == CacheFamily::kSink ? 4 : 0;
      specs[1].family = CacheFamily::kWindow;
      specs[1].range = 64;
      ASSERT_TRUE(keep_everything(&specs, rules).ok());
      const auto grouping = group_layers(&specs, rules, true);
      ASSERT_TRUE(grouping.ok()) << grouping.status().message();
      EXPECT_EQ(grouping.value().groups.size(), 1u);
    }
  }
}

SizingInput sized_for(uint64_t length) {
  SizingInput input;
  input.max_model_len = length;
  input.in_flight_tokens = 64;
  input.block_tokens = 16;
  return input;
}

// Memory that is too small for a request is still sized, and the longest request that fits leaves room for the null block.
TEST(Sizing, WhatIsRefusedIsSizedAllTheSame) {
  std::vector<CacheSpec> specs{full(), full()};
  const auto grouping = group_layers(&specs);
  ASSERT_TRUE(grouping.ok());
  const uint64_t block = pool_bytes_per_block(specs, grouping.value(), {true, true});
  const Worker worker{{true, true}, static_cast<int64_t>(10 * block)};
  SizingInput input = sized_for(160);
  PoolSize size;
  EXPECT_EQ(size_pool(specs, grouping.value(), {worker}, input, Rules::kRight, &size).status().code(), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(size.num_blocks, 10u);
  EXPECT_EQ(size.blocks_per_request, 10u);
  EXPECT_EQ(size.workers[0].fitting_len, 144u);
  EXPECT_TRUE(size_pool(specs, grouping.value(), {worker}, input, Rules::kUpstream, &size).ok());
  EXPECT_EQ(size.workers[0].fitting_len, 160u);
  input.fits_length = true;
  EXPECT_TRUE(size_pool(specs, grouping.value(), {worker}, input, Rules::kRight, &size).ok());
  EXPECT_EQ(size.max_model_len, 144u);
}

// Ranks that take turns token by token share windows, too; the published algorithm has no number for that.
TEST(Sizing, WindowsOfRanksThatTakeTurns) {
  CacheSpec window = full();
  window.family = CacheFamily::kWindow;
  window.range = 257;
  SizingInput input = sized_for(4096);
  input.context_parallel = 2;
  EXPECT_EQ(worst_blocks(window, input, 4096).status().code(), QUIRE_INVALID_ARGUMENT);
  input.ranges_take_turns = true;
  EXPECT_EQ(worst_blocks(window, input, 4096).value(), (256u + 64) / window.block_tokens / 2 + 1);
}

HybridBlockInput rule(uint64_t token, uint64_t state_bytes) {
  HybridBlockInput input;
  input.token_bytes = token;
  input.state_bytes = state_bytes;
  input.block_tokens = 16;
  input.min_kernel_block = 16;
  input.max_model_len = 262144;
  input.mode = StateMode::kAlign;
  return input;
}

TEST(HybridBlock, WorkedNumbers) {
  auto grown = grow_block(rule(1024, 36864 + 2097152));
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(grown.value().block_tokens, 2096u);
  EXPECT_EQ(grown.value().state_block_tokens, 2096u);
  EXPECT_EQ(grown.value().page_bytes, 2146304u);
  grown = grow_block(rule(2048, 49152 + 1048576));  // 2 KV heads of 256, states in 16 bits
  EXPECT_EQ(grown.value().block_tokens, 544u);
  EXPECT_EQ(grown.value().page_bytes, 1114112u);
  grown = grow_block(rule(2048, 49152 + 2097152));  // the same in 32 bits
  EXPECT_EQ(grown.value().block_tokens, 1056u);

  HybridBlockInput off = rule(1024, 2134016);
  off.mode = StateMode::kOff;
  EXPECT_EQ(grow_block(off).value().state_block_tokens, 262144u);
  HybridBlockInput all = rule(1152, 2170880);
  all.latent = true;
  all.mode = StateMode::kAll;
  all.chunk_tokens = 256;
  EXPECT_EQ(grow_block(all).value().block_tokens, 2048u);
  EXPECT_EQ(grow_block(all).value().page_bytes, 2359296u);
  HybridBlockInput large = rule(1024, 2134016);
  large.block_tokens = 4096;  // only ever grows
  EXPECT_EQ(grow_block(large).value().block_tokens, 4096u);
}

TEST(HybridBlock, Refusals) {
  EXPECT_EQ(grow_block(rule(0, 5)).status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(grow_block(rule(uint64_t{1} << 62, 5)).status().code(), QUIRE_OUT_OF_RANGE);
}

TEST(Grouping, LayersThatCannotBeOneGroupAreNamed) {
  std::vector<CacheSpec> specs(2);
  for (CacheSpec& spec : specs) spec.block_tokens = 16, spec.row_bytes = 64;
  specs[0].layer = 3, specs[0].told_window = 64;
  specs[1].layer = 5, specs[1].told_window = 128;
  EXPECT_EQ(group_layers(&specs, Rules::kUpstream).status().message(),
            "layers 3 and 5 keep everything but tell windows of 64 and 128; must be equal");
  specs[1].family = CacheFamily::kState, specs[1].row_bytes = specs[1].told_window = 0, specs[1].state_bytes = 1024;
  EXPECT_EQ(keep_everything(&specs, Rules::kRight).message(), "layers 3 and 5 cannot share one table, even when windows keep everything");
}

}  // namespace
}  // namespace quire
