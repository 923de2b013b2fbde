// The layers that the rig makes models of.
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

constexpr quire_dtype kHalf = {QUIRE_DTYPE_BFLOAT, 16, 1};
constexpr quire_dtype kSingle = {QUIRE_DTYPE_FLOAT, 32, 1};

quire_layer two_state_tensors(int32_t kind) {
  quire_layer layer = QUIRE_INIT(quire_layer);
  layer.kind = QUIRE_LAYER_STATE;
  layer.state_kind = kind;
  layer.dtype = kHalf;
  layer.num_state_tensors = 2;
  return layer;
}

}  // namespace

quire_layer full_layer(uint32_t heads, uint32_t width) {
  quire_layer layer = QUIRE_INIT(quire_layer);
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = layer.num_q_heads = heads;
  layer.head_dim_k = layer.head_dim_v = width;
  layer.dtype = kHalf;
  return layer;
}

quire_layer window_layer(uint64_t window, uint32_t sinks) {
  quire_layer layer = full_layer();
  layer.kind = QUIRE_LAYER_SLIDING_WINDOW;
  layer.window = window;
  layer.sink_tokens = sinks;
  return layer;
}

quire_layer chunked_layer(uint64_t chunk) {
  quire_layer layer = full_layer();
  layer.kind = QUIRE_LAYER_CHUNKED;
  layer.window = chunk;
  return layer;
}

quire_layer state_layer() {
  quire_layer layer = two_state_tensors(QUIRE_STATE_GENERIC);
  layer.state[0] = {kHalf, 2, {2, 8, 0, 0}};
  layer.state[1] = {kSingle, 2, {4, 6, 0, 0}};
  return layer;
}

quire_layer cut_state_layer() {
  quire_layer layer = two_state_tensors(QUIRE_STATE_MAMBA2);
  layer.num_kv_heads = 2;
  layer.state[0] = {kHalf, 2, {2, 48, 0, 0}};
  layer.state_shard[0] = 2;
  layer.state_parts[0] = 32;
  layer.state_parts[1] = layer.state_parts[2] = 8;
  layer.state[1] = {kSingle, 3, {8, 3, 4, 0}};
  layer.state_shard[1] = 1;
  return layer;
}

quire_layer latent_layer() {
  quire_layer layer = full_layer(1, 16);
  layer.kind = QUIRE_LAYER_MLA;
  layer.num_q_heads = 8;
  layer.head_dim_v = 0;
  return layer;
}

quire_layer cross_layer(uint64_t encoder_tokens, uint32_t heads) {
  quire_layer layer = full_layer(heads);
  layer.kind = QUIRE_LAYER_CROSS;
  layer.encoder_tokens = encoder_tokens;
  return layer;
}

std::vector<quire_layer> any_layers(std::mt19937_64& random) {
  std::vector<quire_layer> layers;
  const uint32_t heads = 1u << random() % 4;
  for (uint64_t n = 1 + random() % 3; n > 0; --n) {
    switch (random() % 5) {
      case 0:
        layers.push_back(latent_layer());
        break;
      case 1:
        layers.push_back(window_layer(16 * (1 + random() % 5), static_cast<uint32_t>(random() % 2 * 16)));
        break;
      case 2:
        layers.push_back(random() % 2 == 0 ? cut_state_layer() : state_layer());
        break;
      default:
        layers.push_back(full_layer(heads));
    }
  }
  return layers;
}

std::vector<std::vector<quire_layer>> offered_kinds() {
  return {
      {full_layer(), full_layer()},
      {full_layer(), window_layer(40)},
      {full_layer(), window_layer(100, 20)},
      {full_layer(), chunked_layer(96)},
      {latent_layer(), latent_layer()},
      {full_layer(4), state_layer()},
      {full_layer(4), cut_state_layer(), window_layer(30), state_layer()},
      {full_layer(), cross_layer(200), window_layer(40)},
  };
}

}  // namespace quire::test
