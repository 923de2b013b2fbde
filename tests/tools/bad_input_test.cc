// Method: a table. A model and options that plan, with one thing changed at a time: every change is refused through the C ABI, and the
// message names what is wrong (layer or option), its value and the limit.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "client/client.h"

namespace quire {
namespace {

struct Input {
  std::vector<quire_layer> layers;
  quire_plan_options options = client::sized<quire_plan_options>();
  uint64_t max_model_len = 4096;
  std::vector<uint64_t> memory{uint64_t{1} << 34};
  std::vector<uint32_t> stages;
  std::string layout;
  std::string policy;
  std::vector<quire_str> preferred;
};

quire_layer attention(uint32_t index) {
  auto layer = client::sized<quire_layer>();
  layer.layer = index;
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = 2;
  layer.num_q_heads = 4;
  layer.head_dim_k = layer.head_dim_v = 64;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  return layer;
}

quire_layer state(uint32_t index) {
  auto layer = client::sized<quire_layer>();
  layer.layer = index;
  layer.kind = QUIRE_LAYER_STATE;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  layer.num_state_tensors = 1;
  layer.state[0] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 2, {8, 16, 0, 0}};
  return layer;
}

// Layers 0 and 1 keep everything, layer 2 a window, layer 3 a state.
Input good() {
  Input input;
  input.layers = {attention(0), attention(1), attention(2), state(3)};
  input.layers[2].kind = QUIRE_LAYER_SLIDING_WINDOW;
  input.layers[2].window = 128;
  input.policy = "vllm";
  return input;
}

std::string answer(Input input) {
  client::Error error;
  quire_model* model = nullptr;
  if (quire_model_create(input.layers.data(), sizeof(quire_layer), input.layers.size(), input.max_model_len, &model, &error) != QUIRE_OK) {
    return error.message;
  }
  const client::Model owned(model);
  input.options.memory_bytes = input.memory.empty() ? nullptr : input.memory.data();
  input.options.num_memory_bytes = input.memory.size();
  if (!input.stages.empty()) input.options.stage_layers = input.stages.data(), input.options.num_stage_layers = input.stages.size();
  input.options.layout = client::to_str(input.layout);
  input.options.policy = client::to_str(input.policy);
  if (!input.preferred.empty()) {
    input.options.preferred_layouts = input.preferred.data(), input.options.num_preferred_layouts = input.preferred.size();
  }
  quire_config* config = nullptr;
  if (quire_config_create(model, &input.options, &config, &error) != QUIRE_OK) {
    EXPECT_EQ(config, nullptr);
    return error.message;
  }
  quire_config_release(config);
  return "";
}

struct Case {
  std::function<void(Input&)> change;
  std::vector<const char*> words;
};

void expect_refused(const std::vector<Case>& cases) {
  EXPECT_EQ(answer(good()), "");
  for (size_t i = 0; i < cases.size(); ++i) {
    Input input = good();
    cases[i].change(input);
    const std::string is = answer(input);
    EXPECT_NE(is, "") << "case " << i << " is accepted";
    for (const char* word : cases[i].words)
      EXPECT_NE(is.find(word), std::string::npos) << "case " << i << ": " << is << "\n  lacks " << word;
  }
}

TEST(BadInput, Layers) {
  expect_refused({
      {[](Input& in) { in.layers[2].window = 0; }, {"layer 2 sub 0: window = 0; must be 1..2147483647"}},
      {[](Input& in) { in.layers[2].window = uint64_t{1} << 31; }, {"layer 2", "window = 2147483648; must be 1..2147483647"}},
      {[](Input& in) { in.layers[2].kind = QUIRE_LAYER_CHUNKED, in.layers[2].window = 0; }, {"layer 2", "window = 0; must be 1.."}},
      {[](Input& in) { in.layers[0].window = 64; }, {"layer 0", "window = 64; must be 0"}},
      {[](Input& in) { in.layers[0].sink_tokens = 4; }, {"layer 0", "sink_tokens = 4; must be 0"}},
      {[](Input& in) { in.layers[1].head_dim_v = 0; }, {"layer 1", "head_dim_v = 0; must be 1..65536"}},
      {[](Input& in) { in.layers[1].head_dim_k = 0; }, {"layer 1", "head_dim_k = 0; must be 1..65536"}},
      {[](Input& in) { in.layers[1].num_kv_heads = 0; }, {"layer 1", "num_kv_heads = 0; must be 1..65536"}},
      {[](Input& in) { in.layers[1].num_q_heads = 3; }, {"layer 1", "num_q_heads = 3; must be a multiple of num_kv_heads = 2"}},
      {[](Input& in) { in.layers[1].kind = QUIRE_LAYER_MLA; }, {"layer 1", "num_kv_heads = 2; must be 1..1"}},
      {[](Input& in) {
         in.layers[1].dtype = {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
       },
       {"layer 1", "dtype = {code", "bits 4", "must be"}},
      {[](Input& in) { in.layers[1].codec = 99; }, {"layer 1", "codec = 99; must be 0..6"}},
      {[](Input& in) {
         in.layers[1].codec = QUIRE_CODEC_AMX, in.layers[1].dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
       },
       {"layer 1", "dtype", "1 or 2 bytes", "4"}},
      {[](Input& in) { in.layers[1].codec = QUIRE_CODEC_RECORD; }, {"layer 1", "codec_params.data_bytes[0] = 0", "take 128"}},
      {[](Input& in) { in.layers[1].codec_params.data_bytes[0] = 5; }, {"layer 1", "codec_params.data_bytes[0] = 5; must be 0"}},
      {[](Input& in) { in.layers[1].look_ahead = 2; }, {"layer 1", "look_ahead = 2; must be 0..0"}},
      {[](Input& in) { in.layers[1].block_tokens = 24; }, {"layer 1", "block_tokens = 24; must be a multiple of 16"}},
      {[](Input& in) { in.layers[1].compress_ratio = 70000; }, {"layer 1", "compress_ratio = 70000; must be 0..65536"}},
      {[](Input& in) { in.layers[1].shares_with = 2; }, {"layer 1", "shares_with = 2; must be"}},
      {[](Input& in) { in.layers[1].layer = 0; }, {"layer 0 sub 0 follows layer 0 sub 0"}},
      {[](Input& in) { in.layers[3].state[0].shape[0] = 0; }, {"layer 3", "state[0].shape[0] = 0; must be 1.."}},
      {[](Input& in) { in.layers[3].state[0].shape[0] = UINT64_MAX / 8; },
       {"layer 3", "state[0].shape[0] = 2305843009213693951; must be 1.."}},
      {[](Input& in) { in.layers[3].state[0].shape[0] = in.layers[3].state[0].shape[1] = uint64_t{1} << 39; },
       {"layer 3", "state[0] bytes = ", "; must be 1..1099511627776"}},
      {[](Input& in) { in.layers[3].num_state_tensors = 5; }, {"layer 3", "num_state_tensors = 5; must be 1..4"}},
      {[](Input& in) { in.layers[3].state_parts[0] = 5; }, {"layer 3", "sum of state_parts = 5; must be 0"}},
      {[](Input& in) { in.layers[3].flags = 0x100; }, {"layer 3", "flags = 0x100; known flags are"}},
      {[](Input& in) { in.layers[0].softcap = -1; }, {"layer 0", "softcap = -1; must be 0 or"}},
      {[](Input& in) { in.layers[0].kind = 77; }, {"layer 0", "kind = 77; must be 0..8"}},
      {[](Input& in) { in.max_model_len = uint64_t{1} << 31; }, {"max_model_len = 2147483648; must be 0..2147483647"}},
      {[](Input& in) { in.layers.clear(); }, {"layers is NULL"}},
  });
}

TEST(BadInput, Options) {
  expect_refused({
      {[](Input& in) { in.max_model_len = 0; }, {"max_model_len = 0; must be 1..2147483647"}},
      {[](Input& in) { in.options.max_model_len = uint64_t{1} << 31; }, {"max_model_len = 2147483648; must be 1..2147483647"}},
      {[](Input& in) { in.options.block_tokens = 24; }, {"block_tokens = 24; must be a multiple of kernel_block_tokens = 16"}},
      {[](Input& in) { in.options.block_tokens = 1 << 25; }, {"block_tokens = 33554432; must be 1..16777216"}},
      {[](Input& in) { in.options.kernel_block_tokens = 24, in.options.block_tokens = 32; },
       {"block_tokens = 32", "kernel_block_tokens = 24"}},
      {[](Input& in) { in.options.tensor_parallel = 3; }, {"tensor_parallel = 3", "num_kv_heads = 2 of layer 0"}},
      {[](Input& in) { in.options.tensor_parallel = 2000; }, {"tensor_parallel = 2000; must be 1..1024"}},
      {[](Input& in) { in.options.pipeline_parallel = 5; }, {"pipeline_parallel = 5; must be 1..4"}},
      {[](Input& in) { in.options.pipeline_parallel = 2, in.stages = {4}; }, {"num_stage_layers = 1; must be 0 or pipeline_parallel = 2"}},
      {[](Input& in) {
         in.options.pipeline_parallel = 2, in.stages = {4, 1};
       },
       {"stage_layers", "5 layers", "the model has 4"}},
      {[](Input& in) {
         in.options.pipeline_parallel = 2, in.stages = {4, 0};
       },
       {"stage_layers[1] = 0", "at least 1"}},
      {[](Input& in) {
         in.memory = {1, 2, 3};
       },
       {"num_memory_bytes = 3; must be 1 or the number of shards, 1"}},
      {[](Input& in) { in.memory = {UINT64_MAX}; }, {"memory_bytes[0] = 18446744073709551615; at most 9223372036854775807"}},
      {[](Input& in) { in.memory = {100}; }, {"memory_bytes of shard 0 is 100", "need"}},
      {[](Input& in) { in.memory.clear(); }, {"memory_bytes and num_pages are both missing"}},
      {[](Input& in) { in.memory.clear(), in.options.num_pages = 1; }, {"num_pages = 1", "at least 2"}},
      {[](Input& in) { in.memory.clear(), in.options.num_pages = uint64_t{1} << 31; },
       {"num_pages = 2147483648", "at most", "lowered ids", "2147483647", "layer"}},
      {[](Input& in) { in.memory.clear(), in.options.num_pages = UINT64_MAX / 4; },
       {"num_pages = 4611686018427387903", "9223372036854775807"}},
      {[](Input& in) { in.memory = {1 << 20}, in.options.num_pages = 1000; }, {"num_pages = 1000", "memory_bytes of shard 0 is 1048576"}},
      {[](Input& in) {
         in.options.kv_dtype = {QUIRE_DTYPE_INT, 4, 1};
       },
       {"kv_dtype = {code 0, bits 4, lanes 1}; must be"}},
      {[](Input& in) { in.options.kv_scales = QUIRE_KV_SCALES_ROW; }, {"kv_scales = 1", "kv_dtype is missing"}},
      {[](Input& in) {
         in.options.kv_scales = 9, in.options.kv_dtype = {QUIRE_DTYPE_INT, 8, 1};
       },
       {"kv_scales = 9; must be 0..2"}},
      {[](Input& in) {
         in.options.kv_scales = QUIRE_KV_SCALES_16, in.options.kv_dtype = {QUIRE_DTYPE_INT, 8, 1};
       },
       {"kv_scales = 2", "kv_dtype has 8 bits, must be 4"}},
      {[](Input& in) {
         in.layers[1].codec = QUIRE_CODEC_TILED, in.options.kv_dtype = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
       },
       {"kv_dtype", "layer 1 is encoded by codec 3"}},
      {[](Input& in) { in.options.vllm.state_mode = 4; }, {"state_mode = 4; must be 0..3"}},
      {[](Input& in) { in.options.flags = 0x1000; }, {"options.flags", "0x1000", "0x"}},
      {[](Input& in) { in.options.page_alignment = uint64_t{1} << 40; }, {"page_alignment = 1099511627776; must be 0.."}},
      {[](Input& in) { in.options.max_tokens_in_flight = uint64_t{1} << 31; },
       {"max_tokens_in_flight = 2147483648; must be 1..2147483647"}},
      {[](Input& in) { in.policy = "best"; }, {"policy = \"best\"; must be \"vllm\", \"auto\" or \"pack:N\""}},
      {[](Input& in) { in.policy = "pack:1025"; }, {"policy = \"pack:1025\"", "1..1024"}},
      {[](Input& in) { in.policy = "auto", in.options.flags = QUIRE_PLAN_ONE_TABLE; }, {"QUIRE_PLAN_ONE_TABLE", "policy auto"}},
      {[](Input& in) { in.policy = "auto", in.options.vllm.match_unit_tokens = 16; }, {"match_unit_tokens", "policy is auto"}},
      {[](Input& in) { in.options.vllm.match_unit_tokens = 5; }, {"match_unit", " = 5; must divide", "layer"}},
  });
}

TEST(BadInput, Orders) {
  const auto order = [](const char* text) { return [text](Input& in) { in.layout = text; }; };
  expect_refused({
      {order("BLPJKTH"), {"layout = \"BLPJKTH\"", "letter D is missing"}},
      {order("LPJKTHD"), {"layout \"LPJKTHD\"", "B"}},
      {order("BPJKTHD"), {"layout = \"BPJKTHD\"", "letter L must occur"}},
      {order("BLLPJKTHD"), {"layout \"BLLPJKTHD\"", "letter L occurs twice"}},
      {order("BLPJKTHDX"), {"layout \"BLPJKTHDX\"", "letter 'X' is none of LPBJKTHD"}},
      {order("blpjkthd"), {"layout \"blpjkthd\"", "letter 'b' is none of LPBJKTHD"}},
      {order("JBLPKTHD"), {"layout \"JBLPKTHD\"", "J stands left of B; only L, P and K may"}},
      {order("BLPJKDTH"), {"layout \"BLPJKDTH\"", "D"}},
      {order("BLPJKTDH"), {"layout \"BLPJKTDH\"", "D"}},
      {[](Input& in) { in.layout = "LBPJKTHD", in.options.flags = QUIRE_PLAN_CONTIGUOUS; }, {"LBPJKTHD", "no letter may stand left of B"}},
      {[](Input& in) { in.layout = "BLPJKTHD", in.policy = "auto"; }, {"BLPJKTHD", "letter L must not occur"}},
      {[](Input& in) { in.layout = "PBJKTHD", in.policy = "auto"; }, {"PBJKTHD", "P must stand right of B"}},
      {[](Input& in) { in.layout = std::string(65, 'B'); }, {"layout", "65", "64"}},
      {[](Input& in) {
         in.preferred = {client::to_str("BLPJKTHD"), client::to_str("BB")};
       },
       {"preferred_layouts[1]", "letter B occurs twice"}},
  });
}

// Orders that exist and cannot serve these layers: the message names the layers.
TEST(BadInput, LayoutsThatCannotBe) {
  expect_refused({
      // One stride serves all heads left of the layers; these have different ones.
      {[](Input& in) {
         in.layers = {attention(0), attention(1)};
         in.layers[1].num_kv_heads = 4;
         in.layout = "BHPJKTD", in.policy = "auto";
       },
       {"layout BHPJKTD", "layer 0", "layer 1", "H"}},
      // Kernel blocks of K and V lie at different distances, one table has one.
      {[](Input& in) {
         in.layers = {attention(0)};
         in.layers[0].head_dim_k = 192, in.layers[0].head_dim_v = 128;
         in.options.block_tokens = 64;
         in.layout = "BLPKJTHD";
       },
       {"layout BLPKJTHD", "K of layer 0 and V of layer 0"}},
      {[](Input& in) {
         in.layers = {attention(0)};
         in.layers[0].codec = QUIRE_CODEC_TILED, in.layers[0].head_dim_k = 68;
       },
       {"layer 0", "head_dim_k = 68", "tile, 8"}},
  });
}

}  // namespace
}  // namespace quire
