#include "core/model/model_layers.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/model/dtype.h"

namespace quire {
namespace {

quire_layer full_layer(uint32_t index) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_FULL;
  layer.layer = index;
  layer.num_q_heads = 8;
  layer.num_kv_heads = 2;
  layer.head_dim_k = 64;
  layer.head_dim_v = 32;
  layer.dtype = kBFloat16;
  return layer;
}

quire_layer state_layer(uint32_t index) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_STATE;
  layer.layer = index;
  layer.state_kind = QUIRE_STATE_GDN;
  layer.num_state_tensors = 1;
  layer.state[0] = {kFloat32, 2, {4, 8, 0, 0}};
  layer.state_shard[0] = 1;
  return layer;
}

std::string failure_of(const quire_layer& layer) {
  const auto model = Model::create(std::vector<quire_layer>{layer}, 100);
  if (model.ok()) return "accepted";
  EXPECT_EQ(model.status().code(), QUIRE_INVALID_ARGUMENT);
  return model.status().message();
}

TEST(LiveRange, TheLongestTailIsTheOneOfSomeToken) {
  for (const LiveRange& live : {LiveRange{.window = 1}, LiveRange{.window = 8}, LiveRange{.sink = 4, .window = 8, .retained = 5},
                                LiveRange{.chunk = 8}, LiveRange{.chunk = 8, .retained = 3}, LiveRange{.state = true}}) {
    uint64_t longest = 0;
    for (uint64_t p = 0; p < 100; ++p) longest = std::max(longest, p - live.kept_begin(p));
    EXPECT_EQ(live.longest_tail(), longest) << "window " << live.window << " chunk " << live.chunk << " retained " << live.retained;
  }
  EXPECT_EQ(LiveRange{}.longest_tail(), UINT64_MAX);
}

TEST(LiveRange, WhatStaysBeginsAtATokenFromTheFirstOneOnThatSaysSo) {
  for (const LiveRange& live : {LiveRange{.window = 1}, LiveRange{.window = 8}, LiveRange{.sink = 4, .window = 8, .retained = 5},
                                LiveRange{.chunk = 8}, LiveRange{.chunk = 8, .retained = 3}, LiveRange{.chunk = 7, .retained = 20}}) {
    for (uint64_t begin = 1; begin < 60; ++begin) {
      uint64_t first = 0;
      while (live.kept_begin(first) < begin) ++first;
      EXPECT_EQ(live.kept_from(begin), first) << "window " << live.window << " chunk " << live.chunk << " retained " << live.retained;
    }
  }
}

TEST(Model, DerivesLiveRangesFromKinds) {
  std::vector<quire_layer> layers;
  for (uint32_t i = 0; i < 7; ++i) layers.push_back(full_layer(i));
  layers[1].kind = QUIRE_LAYER_SLIDING_WINDOW;
  layers[1].window = 128;
  layers[1].sink_tokens = 4;
  layers[2].kind = QUIRE_LAYER_CHUNKED;
  layers[2].window = 64;
  layers[3] = state_layer(3);
  layers[4].kind = QUIRE_LAYER_CROSS;
  layers[4].encoder_tokens = 1500;
  layers[5].kind = QUIRE_LAYER_MLA;
  layers[5].num_kv_heads = 1;
  layers[5].head_dim_v = 0;
  layers[6].kind = QUIRE_LAYER_ENCODER_ONLY;
  const auto model = Model::create(layers, 4096, "Made");
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto caches = model.value().caches();
  EXPECT_EQ(caches[0].live, LiveRange{});
  EXPECT_EQ(caches[1].live, (LiveRange{.sink = 4, .window = 128}));
  EXPECT_EQ(caches[2].live, (LiveRange{.chunk = 64}));
  EXPECT_EQ(caches[3].live, (LiveRange{.state = true}));
  EXPECT_EQ(caches[4].live, (LiveRange{.fixed = true}));
  EXPECT_EQ(caches[5].live, LiveRange{});
  EXPECT_TRUE(caches[5].has_memory());
  EXPECT_FALSE(caches[6].has_memory());
  EXPECT_EQ(caches[2].name, "layers.2");
  EXPECT_EQ(model.value().num_layers(), 7u);
  EXPECT_EQ(model.value().architecture(), "Made");
}

TEST(Model, NamesSurviveCopies) {
  std::vector<quire_layer> layers{full_layer(0), full_layer(1)};
  layers[1].sub = 0;
  layers[1].name = {"attn", 4};
  auto made = Model::create(layers, 10);
  ASSERT_TRUE(made.ok());
  const Model copy = made.value();
  made = invalid("dropped");
  EXPECT_EQ(std::string(copy.caches()[1].desc.name.data, copy.caches()[1].desc.name.len), "attn");
  EXPECT_EQ(std::string(copy.caches()[0].desc.name.data, copy.caches()[0].desc.name.len), "layers.0");
}

TEST(Model, FindFollowsSharing) {
  std::vector<quire_layer> layers{full_layer(0), full_layer(1), full_layer(2), full_layer(5)};
  layers[1].shares_with = 1;
  layers[2].shares_with = 2;
  const auto made = Model::create(layers, 10);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Model& model = made.value();
  EXPECT_EQ(model.find(2, 0), &model.caches()[0]);
  EXPECT_EQ(model.find(5, 0), &model.caches()[3]);
  EXPECT_EQ(model.find(3, 0), nullptr);
  EXPECT_EQ(model.find(0, 1), nullptr);
  EXPECT_EQ(model.num_layers(), 6u);
}

TEST(Model, RefusesSharingThatDoesNotFit) {
  for (const uint32_t target : {2u, 3u, 9u, std::numeric_limits<uint32_t>::max()}) {  // itself, later, absent
    std::vector<quire_layer> layers{full_layer(0), full_layer(1)};
    layers[1].shares_with = target;
    const auto made = Model::create(layers, 10);
    EXPECT_EQ(made.status().code(), QUIRE_INVALID_ARGUMENT) << target;
  }
  std::vector<quire_layer> layers{full_layer(0), full_layer(1)};
  layers[1].shares_with = 1;
  layers[1].head_dim_k = 128;
  EXPECT_EQ(Model::create(layers, 10).status().code(), QUIRE_INVALID_ARGUMENT);
}

TEST(Model, NamesFieldValueAndLimit) {
  quire_layer layer = full_layer(3);
  layer.head_dim_k = 0;
  EXPECT_EQ(failure_of(layer), "layer 3 sub 0: head_dim_k = 0; must be 1..65536");
  layer = full_layer(0);
  layer.num_kv_heads = 0x80000000u;
  EXPECT_NE(failure_of(layer).find("num_kv_heads = 2147483648; must be 1..65536"), std::string::npos);
  layer = full_layer(0);
  layer.num_q_heads = 7;
  EXPECT_NE(failure_of(layer).find("num_q_heads = 7"), std::string::npos);
  layer = full_layer(0);
  layer.window = 5;
  EXPECT_NE(failure_of(layer).find("window = 5; must be 0"), std::string::npos);
  layer = full_layer(0);
  layer.dtype = {QUIRE_DTYPE_FLOAT, 4, 1};
  EXPECT_NE(failure_of(layer).find("dtype"), std::string::npos);
  layer = full_layer(0);
  layer.kind = 99;
  EXPECT_NE(failure_of(layer).find("kind = 99"), std::string::npos);
  layer = full_layer(0);
  layer.softcap = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(failure_of(layer).find("softcap"), std::string::npos);
  layer = state_layer(0);
  layer.state[0].shape[1] = uint64_t{1} << 63;
  EXPECT_NE(failure_of(layer).find("state[0].shape[1]"), std::string::npos);
  layer = state_layer(0);
  layer.state[0].ndim = 4;
  for (uint64_t& extent : layer.state[0].shape) extent = uint64_t{1} << 20;  // the product passes 63 bits
  EXPECT_NE(failure_of(layer).find("state[0] bytes"), std::string::npos);
  layer = state_layer(0);
  layer.state_shard[0] = 3;
  EXPECT_NE(failure_of(layer).find("state_shard[0] = 3; must be 0..2"), std::string::npos);
  layer = state_layer(0);
  layer.num_q_heads = 63;
  layer.num_kv_heads = 16;
  EXPECT_NE(failure_of(layer).find("num_q_heads = 63; must be a multiple of num_kv_heads = 16"), std::string::npos);
}

TEST(Model, RefusesDisorderAndRepeats) {
  const std::vector<quire_layer> reversed{full_layer(1), full_layer(0)};
  EXPECT_EQ(Model::create(reversed, 10).status().code(), QUIRE_INVALID_ARGUMENT);
  const std::vector<quire_layer> repeated{full_layer(1), full_layer(1)};
  EXPECT_EQ(Model::create(repeated, 10).status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(Model::create({}, 10).status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(Model::create(std::vector{full_layer(0)}, uint64_t{1} << 31).status().code(), QUIRE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quire
