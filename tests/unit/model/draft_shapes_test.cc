// What draft models and draft layers keep, one small config for each: expected rows were worked out from what upstream's code allocates.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

// Draft layers that a config describes beside the others are counted by a field of their own and keep what such a layer keeps.
TEST(DraftShapes, BesideTheOthers) {
  const std::string latent = R"("num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "max_position_embeddings": 163840, "num_nextn_predict_layers": 2, )";
  const std::vector<Case> all{
      {"DeepSeekMTPModel", latent + R"("q_lora_rank": 1536)", {"2 layers", " 2 latent 1 x 576"}},
      {"DeepseekV32MTPModel", latent + R"("index_head_dim": 128, "index_topk_freq": 4)", {" 2 latent 1 x 576", " 2 indexer 1 x 128"}},
      {"DeepSeekV4MTPModel",
       R"("num_hidden_layers": 3, "num_attention_heads": 64, "head_dim": 512, "sliding_window": 128, "index_head_dim": 128,
          "max_position_embeddings": 1048576, "num_nextn_predict_layers": 1, "compress_ratios": [0, 4, 128, 0])",
       {"1 layer, 1 cache", " 1 latent window 1 x 512 bf16 128 tokens"}},
      {"Qwen3NextMTP",
       kHeads + R"("num_hidden_layers": 8, "full_attention_interval": 4, "mtp_num_hidden_layers": 1)",
       {"1 layer", " 1 full"}},
      {"Glm4MoeMTPModel", kHeads + R"("num_hidden_layers": 8)", {"refused: config: num_nextn_predict_layers is missing"}},
      {"Eagle3LlamaForCausalLM", kHeads + R"("num_hidden_layers": 1)", {" 1 full attention 2 x 64"}},
      {"Step3p5MTP",
       R"("num_hidden_layers": 2, "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "sliding_window": 512,
          "max_position_embeddings": 65536, "num_nextn_predict_layers": 2, "layer_types": ["full_attention", "full_attention",
          "sliding_attention", "full_attention"])",
       {"2 layers", " 1 sliding window 8 x 128 bf16 512 tokens", " 1 full attention 8 x 128"}},
      {"MiniMaxM3MTP",
       kHeads + R"("num_hidden_layers": 60, "num_mtp_modules": 1, "sparse_attention_config": {"sparse_index_dim": 128,
           "sparse_attention_freq": [0, 1]})",
       {" 1 full attention 2 x 64", " 1 indexer 1 x 128"}},
      {"Gemma4MTPModel",
       kHeads + R"("num_hidden_layers": 1)",
       {"refused: ", "keeps no cache of its own, it reads that of the model it drafts for"}},
  };
  for (const Case& one : all) expect(one);
}

// Blocks of tokens at once: layers are full unless types or use_swa say otherwise, and Laguna's keep every token in any case.
TEST(DraftShapes, BlocksOfTokens) {
  const std::string two = kHeads + R"("num_hidden_layers": 2, )";
  const std::string types = R"("layer_types": ["full_attention", "sliding_attention"], "sliding_window": 512)";
  const std::vector<Case> all{
      {"DFlashDraftModel", two + types, {" 1 full attention 2 x 64", " 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"DFlashDraftModel", two + R"("sliding_window": 512)", {" 2 full attention 2 x 64"}},
      {"DFlashDraftModel", two + R"("dflash_config": {"use_swa": true}, "sliding_window": 512)", {" 2 sliding window 2 x 64 bf16 512"}},
      {"DFlashDraftModel", two + R"("dflash_config": {"use_swa": true, "swa_window_size": 9})", {" 2 sliding window 2 x 64 bf16 9 "}},
      {"DFlashDraftModel", two + R"("dflash_config": {"swa_window_size": 600}, )" + types, {" 1 sliding window 2 x 64 bf16 600 tokens"}},
      {"DFlashDraftModel", two + R"("dflash_config": {"swa_window_size": 9}, )" + types, {" 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"DFlashDraftModel", two + R"("dflash_config": {"use_swa": true})", {"refused: config: sliding_window is missing"}},
      {"DFlashDraftModel", two + types + R"(, "dflash_config": {"use_swa": true})", {" 1 full attention", " 1 sliding window"}},
      {"DFlashDraftModel",
       two + R"("dflash_config": {"swa_window_size": 0}, )" + types,
       {"refused: config: dflash_config.swa_window_size"}},
      {"DFlashDraftModel", two + R"("dflash_config": [])", {"refused: config: dflash_config = [...]; must be an object"}},
      {"DFlashDraftModel", two + R"("dflash_config": {"layer_types": []})", {"refused: config: dflash_config.layer_types is not known"}},
      {"DFlash2BeamDraftModel", two + types, {" 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"DFlashLagunaForCausalLM", two + types, {" 2 full attention 2 x 64"}},
      {"LingDSparkModel", two + R"("x": 0)", {" 2 full attention 2 x 64"}},
      {"DSparkDraftModel", R"("model_type": "qwen3", )" + two + R"("x": 0)", {" 2 full attention 2 x 64"}},
      {"DSparkDraftModel", R"("model_type": "llama", )" + two + R"("x": 0)", {"refused: config: model_type = \"llama\""}},
      {"DSparkMiniMaxDraftModel",
       kHeads + R"("num_hidden_layers": 60, "dflash_config": {"num_hidden_layers": 3}, "sparse_attention_config": {"x": 1})",
       {"3 layers", " 3 full attention 2 x 64"}},
      {"DSparkMiniMaxDraftModel",
       kHeads + R"("dflash_config": {"num_hidden_layers": 3, "layer_types": ["sliding_attention"]})",
       {"refused: config: dflash_config.layer_types is not known"}},
      {"DSparkMiniMaxDraftModel",
       kHeads + R"("sliding_window": 64, "dflash_config": {"num_hidden_layers": 3})",
       {"refused: config: a window is not known"}},
      {"MuseSparkDSparkModel", two + R"("global_attn_cfg": "all", "sliding_window": null)", {" 2 full attention 2 x 64"}},
      {"MuseSparkDSparkModel", two + R"("global_attn_cfg": "[512,0]")", {"refused: config: global_attn_cfg = \"[512,0]\" is not known"}},
      {"MuseSparkDSparkModel", two + types, {"refused: config: layer_types, every_n_layers_nope and gated_delta_net"}},
      {"K3DSparkModel",
       R"("num_hidden_layers": 3, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
          "max_position_embeddings": 1048576)",
       {" 3 latent 1 x 576"}},
      {"Gemma4DSparkModel",
       two + types + R"(, "per_layer_config": {"0": {"head_dim": 128, "num_key_value_heads": 1}}, "num_kv_shared_layers": 1)",
       {" 1 full attention 1 x 128", " 1 sliding window 2 x 64 bf16 512 tokens"}},
  };
  for (const Case& one : all) expect(one);
}

// Stages of DeepSeek-V4's DSpark keep windows of plain rows, like its draft layers.
TEST(DraftShapes, StagesOfDeepseekV4) {
  const std::string common = R"("model_type": "deepseek_v4", "num_hidden_layers": 3, "num_attention_heads": 64, "head_dim": 512,
      "sliding_window": 128, "index_head_dim": 128, "max_position_embeddings": 1048576, "compress_ratios": [0, 4, 128], )";
  const std::vector<Case> all{
      {"DSparkDraftModel", common + R"("n_mtp_layers": 2)", {"2 layers, 2 caches", " 2 latent window 1 x 512 bf16 128 tokens"}},
      {"DeepseekV4ForCausalLMDSpark", common + R"("dspark_target_layer_ids": [1, 20, 40, 60])", {" 4 latent window 1 x 512"}},
      {"DeepseekV4ForCausalLMDSpark", common + R"("dspark_target_layer_ids": [1])", {" 3 latent window 1 x 512"}},
      {"DeepseekV4ForCausalLMDSpark", common + R"("x": 0)", {"refused: config: n_mtp_layers and dspark_target_layer_ids are missing"}},
  };
  for (const Case& one : all) expect(one);
}

// Where draft layers are of the target's kind, but not all alike.
TEST(DraftShapes, LikeTheTargets) {
  const std::string types = kHeads + R"("num_hidden_layers": 3, "num_nextn_predict_layers": 2, "sliding_window": 512,
      "layer_types": ["full_attention", "sliding_attention", "full_attention"])";
  const std::string inkling = R"("text_config": {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
      "swa_num_attention_heads": 64, "swa_num_key_value_heads": 16, "swa_head_dim": 128, "sliding_window_size": 512, "hidden_size": 6144,
      "conv_kernel_size": 4, "max_position_embeddings": 131072, "layer_types": ["hybrid"]}, )";
  const std::string dots = R"("num_hidden_layers": 2, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "index_head_dim": 128, "swa_kv_lora_rank": 1024, "swa_qk_rope_head_dim": 64, "sliding_window_size": 512,
      "max_position_embeddings": 524288, "num_nextn_predict_layers": 1, )";
  const std::vector<Case> all{
      {"ExaoneMoeMTP", types, {"2 layers", " 1 full attention 2 x 64", " 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"ExaoneMoeMTP",
       types + R"(, "mtp_layer_types": ["sliding_attention", "sliding_attention"], "mtp_sliding_windows": [32, 64])",
       {" 1 sliding window 2 x 64 bf16 32 tokens", " 1 sliding window 2 x 64 bf16 64 tokens"}},
      {"ExaoneMoeMTP",
       types + R"(, "mtp_layer_types": ["sliding_attention"])",
       {"refused: config: mtp_layer_types is missing or too short"}},
      {"ExaoneMoEForCausalLMMTP", types, {"1 layer", " 1 full attention 2 x 64"}},
      {"ExaoneMoEForCausalLMMTP", types + R"(, "mtp_layer_types": ["full_attention"])", {"refused: config: mtp_layer_types is not known"}},
      {"Exaone4_5_MTP",
       R"("num_nextn_predict_layers": 1, "text_config": {)" + kHeads + R"("num_hidden_layers": 2, "sliding_window": 64,
          "layer_types": ["sliding_attention", "full_attention"]})",
       {"1 layer", " 1 sliding window 2 x 64 bf16 64 tokens"}},
      {"InklingMTPModel",
       inkling + R"("mtp_config": {"num_nextn_predict_layers": 3, "local_layer_ids": [0, 2]})",
       {"3 layers, 6 caches", " 2 sliding window 16 x 128 bf16 512 tokens", " 1 full attention 8 x 128",
        " 1 short convolution 3x1024 bf16 + 3x1024 bf16 + 3x6144 bf16 + 3x6144 bf16"}},
      {"InklingForConditionalGenerationMTP", inkling + R"("mtp_config": {"n_layers": 2})", {" 2 full attention 8 x 128"}},
      {"InklingMTPModel", inkling + R"("x": 0)", {"refused: config: num_nextn_predict_layers is missing"}},
      {"InklingMTPModel",
       inkling + R"("mtp_config": {"n_layers": 2, "local_extent": 64})",
       {"refused: config: mtp_config.local_extent is not known"}},
      {"Dots3NoteMTPModel", dots + R"("x": 0)", {"1 layer, 1 cache", " 1 latent window 1 x 1088 bf16 512 tokens"}},
      {"Dots3NoteMTPModel",
       dots + R"("mtp_layer_types": ["full_attention"])",
       {"refused: config: mtp_layer_types[0] = \"full_attention\""}},
      {"IQuestQ1MTP",
       R"("sliding_window": 512, "target_config": {)" + kHeads + R"("num_hidden_layers": 88})",
       {"1 layer", "at most 4096", " 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"IQuestQ1MTP", kHeads + R"("sliding_window": null)", {" 1 full attention 2 x 64"}},
      {"IQuestQ1MTP", kHeads + R"("num_hidden_layers": 2, "sliding_window": null)", {"refused: config: num_hidden_layers is more than 1"}},
      {"IQuestQ1MTP", kHeads + R"("x": 0)", {"refused: config: sliding_window is missing"}},
      {"BailingMoeForCausalLMNextN", kHeads + R"("num_nextn_predict_layers": 1)", {" 1 full attention 2 x 64"}},
      {"BailingMoeForCausalLMNextN",
       kHeads + R"("num_nextn_predict_layers": 1, "kv_lora_rank": 512, "qk_rope_head_dim": 64)",
       {" 1 latent 1 x 576"}},
      {"BailingMoeForCausalLMNextN",
       kHeads + R"("num_nextn_predict_layers": 1, "full_attention_type": "gqa")",
       {"refused: config: full_attention_type = \"gqa\""}},
      {"InternS2MobiusMTP",
       R"("text_config": {"mtp_num_hidden_layers": 1, )" + kHeads + R"("num_hidden_layers": 4})",
       {" 1 full attention 2 x 64"}},
      {"ParseAuxMTPModel", kHeads + R"("x": 0)", {"refused: ", "keeps no cache of its own, it has no attention"}},
  };
  for (const Case& one : all) expect(one);
}

}  // namespace
}  // namespace quire
