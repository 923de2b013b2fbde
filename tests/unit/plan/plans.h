// Models and options for tests of plans.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/model/dtype.h"
#include "core/plan/cache_config.h"

namespace quire::plans {

inline constexpr uint64_t kGiB = uint64_t{1} << 30;

struct Options {
  quire_plan_options raw{};
  std::string policy;
  std::string layout;
  std::vector<uint64_t> memory;

  Options(std::string which, uint64_t bytes) : policy(std::move(which)), memory{bytes} { raw.struct_size = sizeof raw; }
  const quire_plan_options& get() {
    raw.policy = {policy.data(), policy.size()};
    raw.layout = {layout.data(), layout.size()};
    raw.memory_bytes = memory.data();
    raw.num_memory_bytes = memory.size();
    return raw;
  }
};

inline std::shared_ptr<const Config> planned(const Model& model, Options options) {
  auto made = plan(model, options.get());
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : std::make_shared<const Config>();
}

inline Status refused(const Model& model, Options options) {
  auto made = plan(model, options.get());
  EXPECT_FALSE(made.ok());
  return made.take_status();
}

inline quire_layer attention(uint32_t heads, uint32_t width, uint64_t window = 0) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = window != 0 ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL;
  layer.window = window;
  layer.num_kv_heads = heads;
  layer.head_dim_k = layer.head_dim_v = width;
  layer.dtype = kBFloat16;
  return layer;
}

inline quire_layer latent(uint32_t width) {
  quire_layer layer = attention(1, width);
  layer.kind = QUIRE_LAYER_MLA;
  layer.head_dim_v = 0;
  return layer;
}

// A convolution of `taps` rows, and `heads` matrices in 32 bits (none when 0).
inline quire_layer state(uint64_t taps, uint64_t channels, uint64_t heads, uint64_t rows, uint64_t columns) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_STATE;
  layer.dtype = kBFloat16;
  layer.num_state_tensors = heads != 0 ? 2 : 1;
  layer.state[0] = {kBFloat16, 2, {taps, channels, 0, 0}};
  layer.state_shard[0] = 2;
  if (heads != 0) {
    layer.state[1] = {kFloat32, 3, {heads, rows, columns, 0}};
    layer.state_shard[1] = 1;
  }
  return layer;
}

// `tokens` and `states` layers, spread evenly.
inline Model mixed(const quire_layer& token_layer, uint32_t tokens, const quire_layer& state_layer, uint32_t states,
                   uint64_t length = 262144) {
  std::vector<quire_layer> layers;
  uint32_t made = 0;
  for (uint32_t i = 0; i < tokens + states; ++i) {
    const uint32_t due = (i + 1) * tokens / (tokens + states);
    layers.push_back(due > made ? token_layer : state_layer);
    made = due;
    layers.back().layer = i;
  }
  auto model = Model::create(layers, length);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

}  // namespace quire::plans
