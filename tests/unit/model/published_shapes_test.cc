// How configs are published and saved: older words, names that only some files have, what is left out. One small config for each.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

const std::string kTwoLayers = kHeads + R"("num_hidden_layers": 2, )";

// transformers 5.11 wrote deepseek_sparse_attention for what is indexed_attention since.
TEST(PublishedShapes, WordsOfThen) {
  const std::string latent = R"("num_hidden_layers": 3, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "index_head_dim": 128, "max_position_embeddings": 4096, )";
  const std::string types = R"("layer_types": ["deepseek_sparse_attention", "deepseek_sparse_attention", "deepseek_sparse_attention"])";
  const std::vector<Case> all{
      {"DeepseekV32ForCausalLM", latent + types, {" 3 latent 1 x 576", " 3 indexer 1 x 128"}},
      {"GlmMoeDsaForCausalLM",
       latent + types + R"(, "indexer_types": ["full", "shared", "full"])",
       {" 3 latent 1 x 576", " 2 indexer 1 x 128"}},
      {"HYV4ForCausalLM", latent + types, {" 3 indexer 1 x 128"}},
      {"LlamaForCausalLM",
       kTwoLayers + R"("layer_types": ["deepseek_sparse_attention", "full_attention"])",
       {R"(refused: config: layer_types[0] = "deepseek_sparse_attention" is not known for LlamaForCausalLM)"}},
  };
  for (const Case& one : all) expect(one);
}

// MiniMax's list: 1 is attention, 0 lightning attention, which only the older models have.
TEST(PublishedShapes, ListsThatNameAttention) {
  const std::vector<Case> all{
      {"MiniMaxM2ForCausalLM", kTwoLayers + R"("attn_type_list": [1, 1])", {" 2 full attention 2 x 64"}},
      {"MiniMaxM2ForCausalLM",
       kTwoLayers + R"("attn_type_list": [1, 0])",
       {"refused: config: attn_type_list[1] = 0 is not known for MiniMaxM2ForCausalLM"}},
      {"MiniMaxM2ForCausalLM", kTwoLayers + R"("attn_type_list": [1])", {"refused: config: attn_type_list = [...] is not known"}},
      {"MiniMaxM2ForCausalLM", kTwoLayers + R"("attn_type_list": [1, 2])", {"refused: config: attn_type_list[1] = 2 is not known"}},
      {"MiniMaxText01ForCausalLM", kTwoLayers + R"("attn_type_list": [1, 0])", {" 1 full attention 2 x 64", " 1 lightning 8x64x64"}},
  };
  for (const Case& one : all) expect(one);
}

// Names of the same readers.
TEST(PublishedShapes, OtherNames) {
  const std::vector<Case> all{
      {"MiniMaxM3ForCausalLM",
       kTwoLayers + R"("num_nextn_predict_layers": 1, "quire_speculative": {}, "sparse_attention_config": {"sparse_index_dim": 128,
           "sparse_attention_freq": [0, 1]})",
       {"3 layers, 5 caches", " 2 full attention 2 x 64", " 1 indexer 1 x 128", " 1 full attention, draft 2 x 64"}},
      {"Step3p7FlashForCausalLM",
       kTwoLayers + R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 512,
           "num_nextn_predict_layers": 1, "quire_speculative": {})",
       {" 1 full attention 2 x 64", " 1 sliding window 2 x 64 bf16 512 tokens", " 1 sliding window, draft 2 x 64"}},
  };
  for (const Case& one : all) expect(one);
}

// A nested config as transformers saves it: only what differs from the defaults of its class. What is assumed is said, null is no absence.
TEST(PublishedShapes, NestedConfigsLeaveOut) {
  const std::vector<Case> all{
      {"Gemma3ForConditionalGeneration",
       R"("text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024})",
       {"34 layers, 34 caches, at most 131072", " 29 sliding window 4 x 256 bf16 1024 tokens", " 5 full attention 4 x 256"}},
      {"LlavaForConditionalGeneration",
       R"("text_config": {"model_type": "llama", "max_position_embeddings": 4096})",
       {"at most 4096 tokens", " 32 full attention 32 x 128"}},
      {"LlavaNextForConditionalGeneration",
       R"("text_config": {"model_type": "mistral", "max_position_embeddings": 32768, "sliding_window": null})",
       {" 32 full attention 8 x 128"}},
      {"LlavaForConditionalGeneration", R"("text_config": {"model_type": "mistral"})", {" 32 sliding window 8 x 128 bf16 4096 tokens"}},
      {"PaliGemmaForConditionalGeneration",
       R"("text_config": {"model_type": "gemma", "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1})",
       {"at most 8192 tokens", " 18 full attention 1 x 256"}},
      {"GotOcr2ForConditionalGeneration",
       R"("text_config": {"model_type": "qwen2", "num_hidden_layers": 24})",
       {" 24 full attention 32 x 128"}},
      {"Llama4ForConditionalGeneration",
       R"("text_config": {"model_type": "llama4_text", "num_hidden_layers": 4})",
       {" 3 chunked 8 x 128 bf16 8192 tokens", " 1 full attention"}},
      {"GlmImageForConditionalGeneration",
       R"("text_config": {"model_type": "wheels", "num_hidden_layers": 4})",
       {"refused: config: num_attention_heads is missing"}},
      // A config that is not nested states what it means.
      {"MixtralForCausalLM", R"("model_type": "mixtral", "num_hidden_layers": 4)", {"refused: config: num_attention_heads is missing"}},
  };
  for (const Case& one : all) expect(one);
  const auto notes = [](const char* text) {
    const auto model = read_hf_config(std::string(R"({"architectures": ["LlavaForConditionalGeneration"], "text_config": )") + text + "}");
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? model.value().notes() : std::vector<std::string>();
  };
  EXPECT_EQ(
      notes(R"({"model_type": "mistral", "head_dim": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window": null})"),
      std::vector<std::string>{"assumed, as transformers does where a nested config of mistral leaves it out: "
                               "max_position_embeddings = 131072, num_hidden_layers = 32"});
  EXPECT_TRUE(notes(R"({"model_type": "llama", "num_hidden_layers": 2, "head_dim": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
      "max_position_embeddings": 9})")
                  .empty());
}

// Gemma 4 as transformers 5 saves it: per_layer_config has what full layers have of their own, nothing where all are alike.
TEST(PublishedShapes, FullLayersLikeTheOthers) {
  const std::string gemma = kTwoLayers + R"("sliding_window": 512, "num_kv_shared_layers": 0, "layer_types": ["sliding_attention",
      "full_attention"], )";
  const std::vector<Case> all{
      {"Gemma4ForCausalLM", gemma + R"("per_layer_config": {})", {" 1 sliding window 2 x 64", " 1 full attention 2 x 64"}},
      {"Gemma4ForCausalLM", gemma + R"("per_layer_config": {"1": {"head_dim": 128}})", {" 1 full attention 2 x 128"}},
      {"Gemma4ForCausalLM",
       gemma + R"("per_layer_config": {}, "global_head_dim": 128, "num_global_key_value_heads": 1)",
       {" 1 sliding window 2 x 64", " 1 full attention 1 x 128"}},
      {"Gemma4ForCausalLM", gemma + R"("x": 0)", {"refused: config: num_global_key_value_heads is missing"}},
  };
  for (const Case& one : all) expect(one);
}

// States and lengths do not depend on each other: a length can be given with the plan.
TEST(PublishedShapes, LengthsThatAreNotStated) {
  const std::string heads = R"("num_hidden_layers": 40, "num_attention_heads": 40, "hidden_size": 5120, )";
  expect({"BaichuanForCausalLM", heads + R"("model_max_length": 4096)", {"at most 4096 tokens", " 40 full attention 40 x 128"}});
  expect({"LlamaForCausalLM", heads + R"("x": 0)", {"length not stated", " 40 full attention 40 x 128"}});
  expect({"LlamaForCausalLM", heads + R"("max_position_embeddings": 0)", {"refused: config: max_position_embeddings = 0; must be"}});
}

}  // namespace
}  // namespace quire
