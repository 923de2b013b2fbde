// Policy pack:N, number by number: several attention layers on one page shrink the block that a state forces.
#include <random>

#include "plans.h"

namespace quire {
namespace {

using namespace plans;

// 15 attention layers with 2 KV heads of 256 and 45 gated delta nets with 64 value heads.
Model large_hybrid() { return mixed(attention(2, 256), 15, state(3, 12288, 64, 128, 128), 45); }

struct Row {
  uint32_t layers;
  uint32_t block_tokens;
  uint64_t lane_bytes;
  uint32_t lanes;
  uint32_t groups;
  double padding;  // of a page, against the state on it
};

TEST(Packing, BlocksShrinkByTheLayersOfAPack) {
  const Row rows[] = {{1, 2096, 2146304, 15, 4, 0.0058}, {2, 1056, 2162688, 8, 7, 0.0134}, {3, 704, 2162688, 5, 10, 0.0134},
                      {4, 528, 2162688, 4, 13, 0.0134},  {5, 432, 2211840, 3, 16, 0.0365}, {8, 272, 2228224, 2, 24, 0.0441},
                      {15, 144, 2211840, 1, 46, 0.0365}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.layers);
    Options options("pack:" + std::to_string(row.layers), 80 * kGiB);
    options.raw.tensor_parallel = 2;
    const auto config = planned(large_hybrid(), options);
    ASSERT_EQ(config->groups.size(), row.groups);
    EXPECT_EQ(config->shards[0].page_bytes, row.lanes * row.lane_bytes);
    EXPECT_EQ(config->match_unit_tokens, row.block_tokens);
    const CachePlace* place = config->find(7, 0);  // the second attention layer
    ASSERT_NE(place, nullptr);
    const GroupPlan& group = config->groups[place->group.value];
    EXPECT_EQ(group.num_lanes, row.lanes);
    EXPECT_EQ(group.ids_per_block, 1u);
    EXPECT_EQ(group.payload_bytes_per_block, 15u * row.block_tokens * 1024);
    EXPECT_EQ(place->lane, row.layers > 1 ? 0u : 1u);
    EXPECT_EQ(place->index_in_lane, row.layers > 1 ? 1u : 0u);
    const GroupPlan& states = config->groups[config->find(0, 0)->group.value];
    EXPECT_EQ(states.payload_bytes_per_block, states.places.size() * 2134016);
    EXPECT_NEAR(static_cast<double>(row.lane_bytes) / 2134016 - 1, row.padding, 1e-4);
    EXPECT_EQ(config->policy, options.policy);
  }
}

TEST(Packing, MoreGroupsThanACacheHasAreRefused) {
  const auto hybrid = [](uint32_t states) { return mixed(attention(2, 256), 4, state(3, 12288, 64, 128, 128), states); };
  const Status status = refused(hybrid(64), Options("pack:4", 80 * kGiB));
  EXPECT_EQ(status.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(status.message(), "policy pack:4 makes 65 groups of layers; a cache has at most 64");
  EXPECT_EQ(planned(hybrid(63), Options("pack:4", 80 * kGiB))->groups.size(), 64u);
}

TEST(Packing, OneLayerPerPackIsVllm) {
  const auto a = planned(large_hybrid(), Options("pack:1", 80 * kGiB));
  const auto b = planned(large_hybrid(), Options("vllm", 80 * kGiB));
  EXPECT_EQ(a->num_pages, b->num_pages);
  ASSERT_EQ(a->groups.size(), b->groups.size());
  for (size_t g = 0; g < a->groups.size(); ++g) EXPECT_EQ(a->groups[g].places, b->groups[g].places);
}

// Kernel blocks of the layers of a pack alternate in the order of the proposal; element by element the address is a closed formula.
TEST(Packing, InterleavedAddresses) {
  Options options("pack:2", kGiB);
  options.layout = "LBJPKTHD";
  options.raw.block_tokens = 32;
  quire_layer small = attention(2, 4);
  std::vector<quire_layer> layers(2, small);
  layers[1].layer = 1;
  auto model = Model::create(layers, 1024);
  ASSERT_TRUE(model.ok());
  const auto config = planned(*model, options);
  const quire_kv_view& kv = config->shards[0].views[1].kv;  // second of the pack
  // Page 1, kernel block 1, V, head 1, token 5, element 3, in elements of 2 bytes.
  const int64_t address = kv.offset[1] + 3 * kv.unit[1] + kv.stride_head[1] + 5 * kv.stride_token[1] + 3 * kv.stride_dim[1];
  EXPECT_EQ(address, 2 * (3 * 512 + 256 + 128 + 47));
  const quire_lowering& lowering = config->shards[0].lowering[0];
  EXPECT_EQ(lowering.page_factor, 2u);
  EXPECT_EQ(lowering.block_factor, 1u);
}

TEST(Packing, PacksStayInsideAPipelineStage) {
  Options options("pack:4", 80 * kGiB);
  options.raw.pipeline_parallel = 2;
  const auto config = planned(mixed(attention(2, 256), 15, state(3, 12288, 64, 128, 128), 45), options);
  for (const CachePlace& a : config->places) {
    for (const CachePlace& b : config->places) EXPECT_TRUE(a.group != b.group || a.lane != b.lane || a.stage == b.stage);
  }
}

TEST(Packing, LayoutNeedsP) {
  Options options("pack:2", 80 * kGiB);
  options.layout = "BLJKTHD";
  const Status status = refused(large_hybrid(), options);
  EXPECT_EQ(status.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("letter P"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace quire
