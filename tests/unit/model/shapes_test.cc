// What single fields do to a cache, one small config for each: expected rows were worked out from what upstream's code allocates.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

// Fields of old classes: n_head and its like, one head for all queries, heads in an object of their own.
TEST(Shapes, SpellingsOfHeads) {
  const std::vector<Case> all{
      {"GPT2LMHeadModel",
       R"("n_layer": 3, "n_head": 12, "n_embd": 768, "n_positions": 1024)",
       {"at most 1024", " 3 full attention 12 x 64"}},
      {"GPT2LMHeadModel",
       R"("n_layer": 3, "n_head": 12, "n_embd": 768, "n_positions": 1024, "add_cross_attention": true)",
       {"refused: config: add_cross_attention = true"}},
      {"GPTBigCodeForCausalLM", R"("n_layer": 3, "n_head": 12, "n_embd": 768, "n_positions": 1024)", {" 3 full attention 1 x 64"}},
      {"GPTBigCodeForCausalLM",
       R"("n_layer": 3, "n_head": 12, "n_embd": 768, "n_positions": 1024, "multi_query": false)",
       {" 3 full attention 12 x 64"}},
      {"FalconForCausalLM",
       R"("num_hidden_layers": 3, "num_attention_heads": 71, "hidden_size": 4544, "multi_query": true)",
       {" 3 full attention 1 x 64"}},
      {"FalconForCausalLM",
       R"("num_hidden_layers": 3, "num_attention_heads": 128, "num_kv_heads": 8, "hidden_size": 8192, "new_decoder_architecture": true,
          "multi_query": true)",
       {" 3 full attention 8 x 64"}},
      {"ChatGLMModel",
       R"("num_layers": 28, "num_attention_heads": 32, "hidden_size": 4096, "multi_query_attention": true, "multi_query_group_num": 2,
          "seq_length": 131072)",
       {"at most 131072", " 28 full attention 2 x 128"}},
      {"DbrxForCausalLM",
       R"("n_layers": 40, "n_heads": 48, "d_model": 6144, "max_seq_len": 32768, "attn_config": {"kv_n_heads": 8})",
       {" 40 full attention 8 x 128"}},
      {"BloomForCausalLM", R"("n_layer": 2, "n_head": 8, "hidden_size": 64, "seq_length": 2048)", {" 2 full attention 8 x 8"}},
      {"Step1ForCausalLM",
       R"("num_hidden_layers": 2, "num_attention_heads": 8, "num_attention_groups": 4, "hidden_size": 512, "max_position_embeddings": 99)",
       {" 2 full attention 4 x 64"}},
      {"Step3TextForCausalLM",
       R"("num_hidden_layers": 61, "num_attention_heads": 64, "head_dim": 256, "max_position_embeddings": 65536)",
       {" 61 full attention 1 x 256"}},
      {"OPTForCausalLM",
       R"("num_hidden_layers": 2, "num_attention_heads": 12, "hidden_size": 768, "max_position_embeddings": 2048)",
       {" 2 full attention 12 x 64"}},
      {"MiniCPM3ForCausalLM",
       R"("num_hidden_layers": 62, "num_attention_heads": 40, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "kv_lora_rank": 256,
          "max_position_embeddings": 32768)",
       {" 62 full attention 40 x 96"}},
      {"LongcatFlashForCausalLM",
       R"("num_layers": 28, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "max_position_embeddings": 131072)",
       {"56 layers", " 56 latent 1 x 576"}},
      {"DeepseekV2ForCausalLM",
       R"("num_hidden_layers": 12, "num_attention_heads": 10, "num_key_value_heads": 10, "hidden_size": 1280, "use_mla": false,
          "kv_lora_rank": null, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "max_position_embeddings": 8192)",
       {" 12 full attention 10 x 128"}},
  };
  for (const Case& one : all) expect(one);
  EXPECT_NE(table(made("GPTNeoXForCausalLM", kHeads + R"("num_hidden_layers": 2)")).find("num_key_value_heads = 2"), std::string::npos);
}

// Windows count the current token; classes differ in what they write.
TEST(Shapes, Windows) {
  const std::string two = R"("num_hidden_layers": 2, "sliding_window": 512)";
  const std::string types = R"("num_hidden_layers": 3, "sliding_window": 512, "layer_types": ["sliding_attention", "sliding_attention",
      "full_attention"])";
  const std::vector<Case> all{
      {"Phi3ForCausalLM", kHeads + two, {" 2 sliding window 2 x 64 bf16 512 tokens"}},
      {"Qwen2ForCausalLM", kHeads + two, {" 2 full attention 2 x 64"}},
      {"LlamaForCausalLM", kHeads + two, {"refused: config: sliding_window = 512 without layer_types"}},
      {"LlamaForCausalLM", kHeads + two + R"(, "use_sliding_window": false)", {" 2 full attention"}},
      {"AfmoeForCausalLM", kHeads + two, {"refused: config: layer_types is missing"}},
      {"AfmoeForCausalLM", kHeads + types, {" 2 sliding window 2 x 64 bf16 512 tokens", " 1 full attention"}},
      {"Cohere2MoeForCausalLM", kHeads + types, {" 2 sliding window 2 x 64 bf16 513 tokens", " 1 full attention"}},
      {"Olmo3ForCausalLM",
       kHeads + R"("num_hidden_layers": 8, "sliding_window": 512)",
       {" 6 sliding window", " 2 full attention 2 x 64 bf16 all tokens 512 3, 7"}},
      {"Dots1ForCausalLM",
       kHeads + R"("num_hidden_layers": 4, "sliding_window": 512, "max_window_layers": 3)",
       {" 1 sliding window", " 3 full"}},
      {"LlamaForCausalLM",
       kHeads + R"("num_hidden_layers": 2, "sliding_windows": [5, 6])",
       {"refused: config: sliding_windows = [...] is not"}},
      {"LlamaForCausalLM", kHeads + R"("num_hidden_layers": 2, "kv_lora_rank": 64)", {"refused: config: kv_lora_rank = 64 is not known"}},
      {"Step3p5ForCausalLM",
       R"("num_hidden_layers": 4, "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "sliding_window": 512,
          "max_position_embeddings": 65536, "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
          "sliding_attention", "full_attention", "sliding_attention"])",
       {"4 layers", " 3 sliding window 8 x 128 bf16 512 tokens", " 1 full attention 8 x 128"}},
      {"Lfm3ForCausalLM",
       kHeads + R"("num_hidden_layers": 3, "conv_L_cache": 7, "sliding_window": 256, "layer_types": ["conv", "full_attention",
           "sliding_attention"])",
       {" 1 short convolution 6x256", " 1 full attention", " 1 sliding window 2 x 64 bf16 256 tokens"}},
  };
  for (const Case& one : all) expect(one);
}

// sliding_window_size counts the tokens before the current one, sliding_window the current one as well.
TEST(Shapes, WindowsOfMiMo) {
  const std::string common = R"("num_hidden_layers": 3, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192,
      "v_head_dim": 128, "max_position_embeddings": 262144, )";
  const std::string old = R"("swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
      "hybrid_layer_pattern": [0, 1, 1], "sliding_window": 128)";
  expect({"MiMoV2FlashForCausalLM", common + old, {" 2 sliding window 8 x 192/128 bf16 128 tokens"}});
  expect({"MiMoV2FlashForCausalLM", common + old + R"(, "sliding_window_size": 128)", {" 2 sliding window 8 x 192/128 bf16 129 tokens"}});
  const std::string rewritten = R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 129)";
  expect(
      {"MiMoV2FlashForCausalLM", common + rewritten, {" 2 sliding window 8 x 192/128 bf16 129 tokens", " 1 full attention 4 x 192/128"}});
  expect({"MiMoV2FlashForCausalLM", common + R"("sliding_window": 129)", {"refused: config: swa_num_attention_heads is missing"}});
}

// Every field that one layer states for itself is used or refused.
TEST(Shapes, PerLayerConfig) {
  const std::string three = kHeads + R"("num_hidden_layers": 3, "per_layer_config": )";
  const std::vector<Case> all{
      {"LlamaForCausalLM", three + R"({"1": {"num_key_value_heads": 4}})", {" 2 full attention 2 x 64", " 1 full attention 4 x 64"}},
      {"LlamaForCausalLM", three + R"({"01": {"head_dim": 96, "intermediate_size": 7}})", {" 1 full attention 2 x 96"}},
      {"LlamaForCausalLM", three + R"({"1": {"skip": ["attention"]}, "2": {"skip": ["mlp"]}})", {" 2 full attention", " 1 nothing"}},
      {"LlamaForCausalLM",
       three + R"({"1": {"skip": ["wheels"]}})",
       {"refused: config: per_layer_config.1.skip[0] = \"wheels\" is not known"}},
      {"LlamaForCausalLM", three + R"({"1": {"wheels": 4}})", {"refused: config: per_layer_config.1.wheels is not known"}},
      {"LlamaForCausalLM",
       three + R"({"3": {"head_dim": 4}})",
       {"refused: config: per_layer_config.3 = {...}; must be an object under a layer 0..2"}},
      {"LlamaForCausalLM", three + R"([])", {"refused: config: per_layer_config = [...]; must be an object"}},
      {"MistralForCausalLM",
       three + R"({"1": {"sliding_window": 64}}, "sliding_window": 32)",
       {" 2 sliding window 2 x 64 bf16 32 tokens", " 1 sliding window 2 x 64 bf16 64 tokens"}},
      {"BambaForCausalLM",
       three + R"({"1": {"head_dim": 4}}, "attn_layer_indices": [0])",
       {"refused: config: per_layer_config.1.head_dim is not known"}},
      {"Gemma4ForCausalLM",
       kHeads + R"("num_hidden_layers": 2, "sliding_window": 512, "num_kv_shared_layers": 0, "layer_types": ["sliding_attention",
           "full_attention"], "per_layer_config": {"01": {"head_dim": 512, "num_key_value_heads": 1}})",
       {" 1 sliding window 2 x 64 bf16 512 tokens", " 1 full attention 1 x 512"}},
  };
  for (const Case& one : all) expect(one);
}

// Words of transformers 5 for layers, and of before.
TEST(Shapes, WordsOfTransformers5) {
  const std::string mamba = R"("mamba_n_heads": 4, "mamba_d_head": 64, "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_d_conv": 4, )";
  const std::vector<Case> all{
      {"GraniteMoeHybridForCausalLM",
       kHeads + mamba + R"("num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"])",
       {" 1 mamba 2 3x288", " 1 full attention 2 x 64"}},
      {"NemotronHForCausalLM",
       kHeads + R"("layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"], "mamba_num_heads": 4, "mamba_head_dim": 64,
           "n_groups": 1, "ssm_state_size": 16)",
       {"4 layers", " 1 mamba 2 3x288", " 1 full attention 2 x 64", " 2 nothing"}},
      {"NemotronHForCausalLM",
       kHeads + R"("layers_block_type": ["wheels"])",
       {"refused: config: layers_block_type[0] = \"wheels\" is not known"}},
      {"KimiLinearForCausalLM",
       R"("num_hidden_layers": 2, "num_attention_heads": 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "model_max_length": 1048576,
          "layer_types": ["linear_attention", "full_attention"], "linear_num_heads": 32, "linear_head_dim": 128,
          "linear_conv_kernel_dim": 4)",
       {"at most 1048576", " 1 delta attention 3x12288 bf16 + 32x128x128 fp32", " 1 latent 1 x 576"}},
      {"Llama4ForCausalLM",
       kHeads + R"("num_hidden_layers": 2, "attention_chunk_size": 256, "layer_types": ["chunked_attention", "full_attention"])",
       {" 1 chunked 2 x 64 bf16 256 tokens", " 1 full attention 2 x 64"}},
  };
  for (const Case& one : all) expect(one);
}

// Indexers stand where a layer chooses for itself: 21 of 78 in GLM-5.2.
TEST(Shapes, Indexers) {
  const std::string common = R"("num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128,
      "max_position_embeddings": 202752, )";
  expect({"GlmMoeDsaForCausalLM", common + R"("num_hidden_layers": 78)", {" 78 latent", " 78 indexer"}});
  expect({"GlmMoeDsaForCausalLM", common + R"("num_hidden_layers": 78, "index_topk_freq": 4)", {" 78 latent", " 21 indexer"}});
  expect({"GlmMoeDsaForCausalLM", common + R"("num_hidden_layers": 4, "index_topk_pattern": "FSSF")", {" 4 latent", " 2 indexer"}});
  expect({"GlmMoeDsaForCausalLM", common + R"("num_hidden_layers": 3, "indexer_types": ["full", "shared", "shared"])", {" 1 indexer"}});
  expect({"GlmMoeDsaForCausalLM",
          common + R"("num_hidden_layers": 1, "indexer_types": ["odd"])",
          {"refused: config: indexer_types[0] = \"odd\" is not known"}});
  expect({"MiniMaxM3SparseForCausalLM",
          kHeads + R"("num_hidden_layers": 3, "sparse_attention_config": {"sparse_index_dim": 128, "sparse_attention_freq": [0, 1, 1]})",
          {" 3 full attention 2 x 64", " 2 indexer 1 x 128 bf16"}});
  expect({"MiniMaxM3SparseForCausalLM",
          kHeads + R"("num_hidden_layers": 2, "index_head_dim": 128, "layer_types": ["full_attention", "minimax_m3_sparse"])",
          {" 2 full attention 2 x 64", " 1 indexer 1 x 128 bf16"}});
}

// Latent rows of two widths are all as wide as the widest; what sliding layers have is written in one of two ways.
TEST(Shapes, LatentRowsThatSlide) {
  const std::string common = R"("num_hidden_layers": 3, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "index_head_dim": 128, "max_position_embeddings": 524288, )";
  const std::vector<Case> all{
      {"Dots3NoteForCausalLM",
       common + R"("swa_kv_lora_rank": 1024, "swa_qk_rope_head_dim": 64, "sliding_window_size": 512,
           "layer_types": ["full_attention", "sliding_attention", "sliding_attention"])",
       {"3 layers, 4 caches", " 2 latent window 1 x 1088 bf16 512 tokens", " 1 latent 1 x 1088 bf16 all tokens", " 1 indexer 1 x 128"}},
      {"Dots3NoteForConditionalGeneration",
       R"("text_config": {)" + common + R"("sliding_window": 512, "layer_types": ["indexed_attention", "sliding_attention",
           "full_attention"], "per_layer_config": {"1": {"kv_lora_rank": 256, "head_dim": 256}}})",
       {" 1 latent window 1 x 576 bf16 512 tokens", " 2 latent 1 x 576", " 1 indexer"}},
      {"Dots3NoteForCausalLM",
       common + R"("sliding_window_size": 512, "layer_types": ["full_attention", "full_attention", "sliding_attention"])",
       {"refused: config: swa_kv_lora_rank is missing"}},
      {"MistralLarge4ForConditionalGeneration",
       R"("text_config": {)" + common + R"("layer_types": ["indexed_attention", "indexed_attention", "indexed_attention"],
           "kv_source_layers": [0, 0, 2], "indexer_types": ["full", "full", "shared"]})",
       {" 2 latent 1 x 576 bf16 all tokens 1152 0, 2", " 1 latent 1 x 576 bf16 of another layer 0 1", " 2 indexer 1 x 128"}},
      {"MistralLarge4ForConditionalGeneration",
       R"("text_config": {)" + common + R"("kv_source_layers": [1, 1, 1]})",
       {"refused: config: kv_source_layers[] = 1; must be a whole number 0..0"}},
  };
  for (const Case& one : all) expect(one);
}

TEST(Shapes, CompressionByType) {
  const std::string common = R"("num_attention_heads": 64, "head_dim": 512, "sliding_window": 128, "index_head_dim": 128,
      "max_position_embeddings": 1048576, "num_hidden_layers": 3, )";
  const std::string ratios = table(made("DeepseekV4ForCausalLM", common + R"("compress_ratios": [0, 4, 128])"));
  const std::string rates = table(made("DeepseekV4ForCausalLM", common + R"("layer_types": ["sliding_attention",
      "compressed_sparse_attention", "heavily_compressed_attention"], "compress_rates": {"compressed_sparse_attention": 4,
      "heavily_compressed_attention": 128})"));
  EXPECT_NE(ratios.find(" 1 latent 1 x 512 bf16, 1 of 4"), std::string::npos) << ratios;
  EXPECT_EQ(rates, ratios);
}

// Models around a text model: its config is nested under one of several names, and names its architecture or its type.
TEST(Shapes, Wrappers) {
  const std::string text = kHeads + R"("num_hidden_layers": 2)";
  const std::vector<Case> all{
      {"Qwen3VLForConditionalGeneration",
       R"("text_config": {)" + text + "}",
       {"Qwen3VLForConditionalGeneration: 2 layers", " 2 full attention 2 x 64"}},
      {"InternVLChatModel", R"("llm_config": {"architectures": ["Qwen2ForCausalLM"], )" + text + "}", {" 2 full attention 2 x 64"}},
      {"LlavaForConditionalGeneration",
       R"("text_config": {"model_type": "mistral", "sliding_window": 64, )" + text + "}",
       {" 2 sliding window 2 x 64 bf16 64"}},
      {"Qwen3OmniMoeForConditionalGeneration", R"("thinker_config": {"text_config": {)" + text + "}}", {" 2 full attention 2 x 64"}},
      {"KimiK25ForConditionalGeneration",
       R"("text_config": {"num_hidden_layers": 61, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
          "max_position_embeddings": 262144, "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}})",
       {" 61 latent 1 x 576 fp8"}},
      {"LlavaForConditionalGeneration",
       R"("text_config": {"model_type": "wheels", )" + text + "}",
       {"refused: config: text_config.model_type = \"wheels\" of LlavaForConditionalGeneration is not known", "--as", "layer file"}},
      {"LlavaForConditionalGeneration",
       R"("text_config": {)" + text + "}",
       {"refused: config: text_config, or what stands for it, is missing in LlavaFor", "--as", "layer file"}},
      // Widths beside the nested config are those of another part.
      {"LlavaForConditionalGeneration",
       R"("head_dim": 1280, "num_key_value_heads": 9, "text_config": {"model_type": "llama", "num_attention_heads": 8, "hidden_size": 256,
          "max_position_embeddings": 99, "num_hidden_layers": 2})",
       {" 2 full attention 8 x 32"}},
      {"LlavaForConditionalGeneration", text, {"refused: config: text_config, or what stands for it, is missing in LlavaFor"}},
      {"Granite4VisionForConditionalGeneration",
       R"("text_config": {"model_type": "granite4_vision_text", )" + text + "}",
       {" 2 full attention 2 x 64"}},
      {"", R"("model_type": "qwen2", )" + text, {"Qwen2ForCausalLM: 2 layers"}},
      {"",
       R"("model_type": "wheels", )" + text,
       {"refused: config: architectures is missing and model_type = \"wheels\"", "--as", "layer file"}},
      {"WheelsForCausalLM",
       R"("model_type": "qwen2", )" + text,
       {"architectures[0] = \"WheelsForCausalLM\" is not known (model_type qwen2 is that of Qwen2ForCausalLM)", "--as", "layer file"}},
      {"XLNetLMHeadModel",
       text,
       {"refused: config: architectures[0] = \"XLNetLMHeadModel\" is known but not read: what it keeps of a sequence"}},
      {"PI0ForConditionalGeneration",
       R"("vlm_config": {"text_config": {"model_type": "gemma", )" + text + "}}",
       {" 2 full attention 2 x 64"}},
      {"MusicgenMelodyForCausalLM",
       R"("decoder": {"num_attention_heads": 16, "hidden_size": 1024, "num_hidden_layers": 24, "max_position_embeddings": 2048})",
       {" 24 full attention 16 x 64"}},
      {"Kosmos2ForConditionalGeneration",
       R"("text_config": {"layers": 24, "attention_heads": 32, "embed_dim": 2048, "max_position_embeddings": 2048})",
       {" 24 full attention 32 x 64"}},
      {"Kosmos2ForConditionalGeneration",
       R"("text_config": {"layers": 2, "attention_heads": 8, "embed_dim": 64, "max_position_embeddings": 9, "add_cross_attention": true})",
       {"refused: config: add_cross_attention = true"}},
  };
  for (const Case& one : all) expect(one);
}

// A word for the whole cache, as hf_quant_config.json has it.
TEST(Shapes, WordsForTheCache) {
  const std::string two = kHeads + R"("num_hidden_layers": 2, "quantization_config": )";
  expect({"LlamaForCausalLM", two + R"({"kv_cache_scheme": "FP8"})", {" 2 full attention 2 x 64 fp8"}});
  expect({"LlamaForCausalLM", two + R"({"kv_cache_scheme": "auto"})", {" 2 full attention 2 x 64 bf16"}});
  expect({"LlamaForCausalLM", two + R"({"quantization": {"kv_cache_quant_algo": "FP8"}})", {" 2 full attention 2 x 64 fp8"}});
  expect({"LlamaForCausalLM",
          two + R"({"quantization": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}})",
          {" 2 full attention 2 x 64 fp8"}});
  expect({"LlamaForCausalLM",
          two + R"({"kv_cache_scheme": null, "quantization": {"kv_cache_scheme": {"num_bits": 4, "type": "float"}}})",
          {"refused: config: quantization_config.kv_cache_scheme.num_bits = 4"}});
  const std::string fp4 = " 2 full attention 2 x 64 bf16, records of 72 B in fp4_e2m1, scales all tokens 144";  // 32 and 4 per side
  for (const char* stated : {R"({"quant_method": "modelopt_fp4", "kv_cache_quant_algo": "NVFP4"})",
                             R"({"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "NVFP4"}})",
                             R"({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 4, "type": "float", "group_size": 16}})"}) {
    expect({"LlamaForCausalLM", two + stated, {fp4.c_str()}});
  }
  expect({"LlamaForCausalLM",
          two + R"({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 4, "type": "float", "group_size": 32}})",
          {"refused: config: quantization_config.kv_cache_scheme.num_bits = 4; known is 8, or 4 in groups of 16"}});
  expect({"LlamaForCausalLM",
          two + R"({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 4, "type": "float"}})",
          {"refused: config: quantization_config.kv_cache_scheme.num_bits = 4; known is 8"}});
  expect({"DeepseekV3ForCausalLM",
          R"("num_hidden_layers": 2, "num_attention_heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "max_position_embeddings": 9,
             "quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"})",
          {"refused: config: quantization_config asks for NVFP4, which is not known for layer 0"}});
  expect({"LlamaForCausalLM",
          R"("num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 40, "max_position_embeddings": 9,
             "quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"})",
          {"refused: ", "layer 0 is 40 elements wide, must be a multiple of 16"}});
  expect({"LlamaForCausalLM",
          two + R"({"kv_cache_quant_algo": "NVFP4"})",
          {"refused: config: quantization_config.kv_cache_quant_algo = \"NVFP4\"; known are"}});
  expect({"LlamaForCausalLM", two + R"({"kv_cache_scheme": 7})", {"refused: config: quantization_config.kv_cache_scheme = 7; must be"}});
}

// Lists of windows, layers that run several times, layers without attention, convolutions beside attention.
TEST(Shapes, ListsAndLoops) {
  const std::vector<Case> all{
      {"PanguEmbeddedForCausalLM",
       kHeads + R"("num_hidden_layers": 5, "interleaved_sliding_window": [64, null])",
       {" 3 sliding window 2 x 64 bf16 64 tokens 512 0, 2 .. 4", " 2 full attention 2 x 64 bf16 all tokens 512 1, 3"}},
      {"DomynEdgeForCausalLM",
       kHeads + R"("num_hidden_layers": 2, "window_sizes": [[512, 0], [0, 0]])",
       {" 1 sliding window 2 x 64 bf16 513 tokens", " 1 full attention 2 x 64"}},
      {"DomynEdgeForCausalLM",
       kHeads + R"("num_hidden_layers": 1, "window_sizes": [512])",
       {"refused: config: window_sizes[0] must be a list"}},
      {"IQuestLoopCoderForCausalLM",
       kHeads + R"("num_hidden_layers": 3, "loop_num": 2, "loop_window_size": 64)",
       {"6 layers", " 3 full attention 2 x 64", " 3 sliding window 2 x 64 bf16 64 tokens"}},
      {"NanbeigeForCausalLM", kHeads + R"("num_hidden_layers": 3, "num_loops": 2)", {" 6 full attention 2 x 64"}},
      {"LlamaForCausalLM", kHeads + R"("num_hidden_layers": 3, "num_loops": 2)", {"refused: config: num_loops = 2 is not known"}},
      {"DoryForCausalLM",
       kHeads + R"("num_hidden_layers": 3, "sliding_window": 64, "layer_types": ["sliding_attention", "mlp", "full_attention"])",
       {" 1 sliding window 2 x 64 bf16 64 tokens", " 1 full attention", " 1 nothing"}},
      {"DoryForCausalLM",
       kHeads + R"("num_hidden_layers": 1, "n_recurrent_loops": 2, "layer_types": ["full_attention"])",
       {"refused: config: n_recurrent_loops is more than 1"}},
      {"InklingForConditionalGeneration",
       R"("text_config": {"num_hidden_layers": 2, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
          "swa_num_attention_heads": 64, "swa_num_key_value_heads": 16, "swa_head_dim": 128, "sliding_window_size": 512,
          "hidden_size": 6144, "conv_kernel_size": 4, "max_position_embeddings": 131072, "layer_types": ["hybrid_sliding", "hybrid"]})",
       {" 1 sliding window 16 x 128 bf16 512 tokens", " 1 full attention 8 x 128",
        " 1 short convolution 3x2048 bf16 + 3x2048 bf16 + 3x6144 bf16 + 3x6144 bf16", " 1 short convolution 3x1024 bf16 + 3x1024 bf16"}},
      {"NemotronHMTPModel",
       kHeads + R"("num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E", "mamba_num_heads": 4, "mamba_head_dim": 64,
           "n_groups": 1, "ssm_state_size": 16)",
       {"2 layers", " 1 full attention 2 x 64", " 1 nothing"}},
  };
  for (const Case& one : all) expect(one);
}

// Latent rows every few layers, and one of three states between them.
TEST(Shapes, StatesBetweenLatentRows) {
  const std::string latent = R"("num_hidden_layers": 7, "num_attention_heads": 32, "head_dim": 128, "kv_lora_rank": 512,
      "qk_rope_head_dim": 64, "max_position_embeddings": 4096, "layer_group_size": 3, )";
  const std::vector<Case> all{
      // 2 and 5 by their group; 6 is of no whole group and full as well.
      {"BailingMoeV3ForCausalLM",
       latent + R"("short_conv_kernel_size": 4)",
       {" 3 latent 1 x 576", " 4 delta attention 3x12288 bf16 + 32x128x128 fp32"}},
      {"BailingMoeV2_5ForCausalLM", latent + R"("hidden_size": 4096)", {" 2 latent 1 x 576", " 5 lightning 32x128x128 bf16"}},
      {"AliceAIForCausalLM",
       kHeads + R"("num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 4,
           "linear_num_value_heads": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4)",
       {" 1 delta attention 3x1536 bf16 + 4x128x128 fp32", " 1 full attention 2 x 64"}},
      {"LaraMiniForCausalLM",
       kHeads + R"("num_hidden_layers": 3, "layer_types": ["linear_attention", "sliding_attention", "full_attention"],
           "sliding_window": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32,
           "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4)",
       {" 1 gated delta net 3x256 bf16 + 4x32x32 bf16", " 1 sliding window 2 x 64", " 1 full attention 2 x 64"}},
      {"GigaChat35ForCausalLM",
       R"("num_hidden_layers": 3, "num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "max_position_embeddings": 4096,
          "full_attention_layers": [2], "linear_num_key_heads": 8, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
          "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4)",
       {" 2 gated delta net 3x4096 bf16 + 16x128x128 bf16", " 1 latent 1 x 576"}},
      {"HrmTextForCausalLM",
       R"("num_hidden_layers": 128, "num_layers_per_stack": 16, "num_attention_heads": 12, "head_dim": 128,
          "max_position_embeddings": 2048)",
       {" 128 full attention 12 x 128"}},
  };
  for (const Case& one : all) expect(one);
}

// What classes keep against what their fields suggest. A strict comparison with upstream's code found these.
TEST(Shapes, FieldsThatAreNotFollowedAreRefused) {
  const std::string one = R"("num_hidden_layers": 1, )", two = R"("num_hidden_layers": 2, )";
  const std::string slides = R"("layer_types": ["full_attention", "sliding_attention"], "sliding_window": 512, )";
  const std::vector<Case> all{
      {"LlamaForCausalLM", kHeads + two + R"("dflash_config": {"swa_window_size": 9})", {"refused: config: dflash_config"}},
      {"NemotronHPuzzleForCausalLM", kHeads + one + R"("x": 0)", {"refused: ", "what its layers have of their own"}},
      {"UnlimitedOCRForCausalLM", R"("language_config": {"num_hidden_layers": 1})", {"refused: ", "keep more tokens"}},
      {"VibeVoiceForConditionalGeneration", R"("text_config": {"num_hidden_layers": 1})", {"refused: "}},
      {"Step3p5ForCausalLM",
       kHeads + two + slides + R"("num_attention_groups": 2, "attention_other_setting": {"num_attention_groups": 4})",
       {"refused: config: attention_other_setting.num_attention_groups = 4"}},
      {"Step3p5ForCausalLM",
       kHeads + two + slides + R"("num_attention_groups": 2, "attention_other_setting": {"num_attention_groups": 2, "head_dim": 64})",
       {" 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"HunYuanMoEV1ForCausalLM", kHeads + two + R"("use_cla": true, "cla_share_factor": 2)", {"refused: config: use_cla = true"}},
      {"HunYuanMoEV1ForCausalLM", kHeads + two + R"("use_cla": false)", {" 2 full attention 2 x 64"}},
      {"Qwen3MoeForCausalLM",
       kHeads + two + R"("use_sliding_window": true, "sliding_window": 512, "max_window_layers": 1)",
       {"refused: config: sliding_window = 512 without layer_types"}},
      {"Qwen3MoeForCausalLM", kHeads + two + R"("use_sliding_window": false, "sliding_window": 512)", {" 2 full attention 2 x 64"}},
      {"SmolLM3ForCausalLM",
       kHeads + two + slides + R"("use_sliding_window": false)",
       {"refused: config: use_sliding_window = false, but"}},
      {"MiniMaxForCausalLM", kHeads + two + R"("sliding_window": 512)", {"refused: config: sliding_window = 512"}},
      {"BitNetForCausalLM",
       R"("num_hidden_layers": 1, "num_attention_heads": 20, "hidden_size": 2560, "max_position_embeddings": 4096)",
       {"refused: config: num_key_value_heads is missing"}},
      {"CohereCompassForCausalLM", kHeads + two + slides + R"("x": 0)", {" 1 sliding window 2 x 64 bf16 512 tokens"}},
      {"Cohere2ForCausalLM", kHeads + two + slides + R"("x": 0)", {" 1 sliding window 2 x 64 bf16 513 tokens"}},
      {"Gemma4ForCausalLM",
       kHeads + two + slides + R"("num_global_key_value_heads": null, "global_head_dim": 64, "num_kv_shared_layers": 0)",
       {"refused: config: layer_types ends with a layer that slides"}},
  };
  for (const Case& each : all) expect(each);
}

}  // namespace
}  // namespace quire
