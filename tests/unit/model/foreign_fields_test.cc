// Fields that change a cache, given to readers that do not know them: refused by name, whatever the reader. What says nothing is no
// such field, and what a reader knows is not foreign to it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

const std::string kPlain = kHeads + R"("num_hidden_layers": 2, )";
const std::string kRows = R"("num_hidden_layers": 2, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "max_position_embeddings": 4096, )";

TEST(ForeignFields, AreRefusedByName) {
  const std::vector<Case> all{
      {"LlamaForCausalLM",
       kPlain + R"("linear_num_key_heads": 16)",
       {"refused: config: linear_num_key_heads = 16 is not known for LlamaFor"}},
      {"LlamaForCausalLM", kPlain + R"("global_head_dim": 512)", {"refused: config: global_head_dim = 512"}},
      {"LlamaForCausalLM", kPlain + R"("attention_chunk_size": 8192)", {"refused: config: attention_chunk_size = 8192"}},
      {"LlamaForCausalLM", kPlain + R"("mamba_d_state": 16)", {"refused: config: mamba_d_state = 16"}},
      {"LlamaForCausalLM", kPlain + R"("conv_L_cache": 3)", {"refused: config: conv_L_cache = 3"}},
      {"LlamaForCausalLM", kPlain + R"("index_head_dim": 128)", {"refused: config: index_head_dim = 128"}},
      {"LlamaForCausalLM", kPlain + R"("n_head_kv": 4)", {"refused: config: n_head_kv = 4"}},
      {"LlamaForCausalLM", kPlain + R"("kv_channels": 128)", {"refused: config: kv_channels = 128"}},
      {"LlamaForCausalLM", kPlain + R"("multi_query": true)", {"refused: config: multi_query = true"}},
      {"JambaForCausalLM", kPlain + R"("num_kv_shared_layers": 1)", {"refused: config: num_kv_shared_layers = 1"}},
      {"BambaForCausalLM",
       kPlain + R"("attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 64, "mamba_d_state": 128, "sliding_window": 512)",
       {"refused: config: sliding_window = 512 is not known for BambaForCausalLM"}},
      {"DeepseekV3ForCausalLM", kRows + R"("compress_ratios": [4, 4])", {"refused: config: compress_ratios = [...]"}},
      {"DeepseekV3ForCausalLM", kRows + R"("sliding_window": 512)", {"refused: config: sliding_window = 512"}},
      {"DeepseekV3ForCausalLM",
       kRows + R"("layer_types": ["full_attention", "sliding_attention"])",
       {R"(refused: config: layer_types[1] = "sliding_attention" is not known for DeepseekV3ForCausalLM)"}},
      {"Llama4ForCausalLM",
       kPlain + R"("attention_chunk_size": 8192, "kv_lora_rank": 512)",
       {"refused: config: kv_lora_rank = 512 is not known for Llama4ForCausalLM"}},
      {"T5ForConditionalGeneration",
       R"("num_heads": 16, "d_kv": 64, "num_layers": 2, "per_layer_config": {"0": {"num_key_value_heads": 1}})",
       {"refused: config: per_layer_config = {...} is not known for T5"}},
      {"WhisperForConditionalGeneration",
       R"("decoder_attention_heads": 8, "d_model": 512, "decoder_layers": 2, "max_target_positions": 448, "max_source_positions": 1500,
          "layer_types": ["sliding_attention", "full_attention"])",
       {"refused: config: layer_types[0] = \"sliding_attention\""}},
      {"MiniMaxText01ForCausalLM",
       kPlain + R"("attn_type_list": [1, 0], "layer_types": ["full_attention", "full_attention"])",
       {"refused: config: layer_types[1] and attn_type_list[1] contradict each other"}},
      {"DeepseekV4ForCausalLM",
       kPlain + R"("sliding_window": 128, "index_head_dim": 128, "compress_ratios": [0, 4],
           "layer_types": ["sliding_attention", "sliding_attention"])",
       {"refused: config: layer_types[1] and compress_ratios[1] contradict each other"}},
      {"MiMoV2FlashForCausalLM",
       kPlain + R"("sliding_window": 128, "v_head_dim": 64, "swa_num_attention_heads": 8, "swa_num_key_value_heads": 2, "swa_head_dim": 64,
           "swa_v_head_dim": 64, "hybrid_layer_pattern": [0, 1], "layer_types": ["sliding_attention", "sliding_attention"])",
       {"refused: config: layer_types[0] and hybrid_layer_pattern[0] contradict each other"}},
  };
  for (const Case& one : all) expect(one);
}

TEST(ForeignFields, WhatSaysNothingIsNone) {
  const std::vector<Case> all{
      {"LlamaForCausalLM",
       kPlain + R"("num_kv_shared_layers": 0, "sliding_window": null, "use_cla": false, "per_layer_config": {}, "attn_layer_indices": [],
           "multi_query": false, "kv_channels": 64, "num_kv_heads": 2)",
       {" 2 full attention 2 x 64"}},
      {"DeepseekV3ForCausalLM", kRows + R"("sliding_window": 4096, "use_sliding_window": false)", {" 2 latent 1 x 576"}},
      {"DeepseekV3ForCausalLM", kRows + R"("layer_types": ["full_attention", "attention"])", {" 2 latent 1 x 576"}},
      {"Qwen2ForCausalLM", kPlain + R"("sliding_window": 4096, "max_window_layers": 1)", {" 2 full attention 2 x 64"}},
      {"SmolLM3ForCausalLM",
       kPlain + R"("layer_types": ["full_attention", "full_attention"], "sliding_window": 512)",
       {" 2 full attention 2 x 64"}},
      {"Qwen3NextForCausalLM",
       kPlain + R"("layer_types": ["full_attention", "full_attention"], "full_attention_interval": 4, "linear_num_key_heads": 16)",
       {" 2 full attention 2 x 64"}},
      {"MiniMaxText01ForCausalLM",
       kPlain + R"("attn_type_list": [1, 0], "layer_types": ["full_attention", "linear_attention"])",
       {" 1 full attention 2 x 64", " 1 lightning"}},
  };
  for (const Case& one : all) expect(one);
}

// Every sample and every published config, with a field that it does not have: another plan or a refusal, never the same plan.
TEST(ForeignFields, ChangeOrAreRefusedInEveryModel) {
  using Json = nlohmann::json;
  const std::vector<std::pair<const char*, Json>> foreign{
      {"sliding_window", 777},
      {"num_kv_shared_layers", 4},
      {"compress_ratios", std::vector<int>(200, 4)},
      {"kv_lora_rank", 256},
      {"hybrid_layer_pattern", {1, 0}},
      {"swa_head_dim", 48},
      {"cla_share_factor", 2},
      {"num_loops", 2},
      {"conv_L_cache", 9},
      {"attention_chunk_size", 640},
      {"per_layer_config", {{"0", {{"num_key_value_heads", 1}}}, {"3", {{"num_key_value_heads", 1}}}}}};
  size_t tried = 0;
  for (const char* folder : {QUIRE_SAMPLE_MODELS, QUIRE_MODEL_CONFIGS}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      if (entry.path().extension() != ".json" || text.find("\"specs\"") != std::string::npos) continue;
      const Json root = Json::parse(text, nullptr, false);
      if (!root.is_object()) continue;
      const std::string plain = table(text);
      for (const auto& [key, value] : foreign) {
        Json changed = root;
        Json& place = changed.contains("text_config") ? changed["text_config"] : changed;
        const bool off = place.contains("use_sliding_window") && place["use_sliding_window"] == false;
        if (place.contains(key) || (off && std::string(key) == "sliding_window")) continue;
        place[key] = value;
        ++tried;
        const bool harmless = std::string(key) == "cla_share_factor" && plain.find("HunYuan") == 0;  // read with use_cla only
        const bool listed = std::string(key) == "sliding_window" && (place.contains("layer_types") || plain.find("Qwen") == 0);
        if (harmless || listed) continue;
        EXPECT_NE(table(changed.dump()), plain) << entry.path() << ": " << key;
      }
    }
  }
  EXPECT_GE(tried, 400u);
}

}  // namespace
}  // namespace quire
