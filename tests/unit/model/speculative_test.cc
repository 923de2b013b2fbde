// Drafts counted with the model they draft for (quire_speculative): which layers there are, and what is said where there are none.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

const std::string kTwo = kHeads + R"("num_hidden_layers": 2, )";

// Layers that the config describes beside the others stand behind them and draft as many tokens as there are.
TEST(Speculative, LayersOfTheConfig) {
  const std::string latent = R"("num_hidden_layers": 3, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
      "max_position_embeddings": 163840, "num_nextn_predict_layers": 2, "quire_speculative": {})";
  const std::vector<Case> all{
      {"DeepseekV3ForCausalLM", latent, {"5 layers, 5 caches", " 3 latent 1 x 576 bf16 all tokens 1152 0-2", " 2 latent, draft 1 x 576"}},
      {"Glm4MoeForCausalLM",
       kTwo + R"("num_nextn_predict_layers": 1, "quire_speculative": {"num_tokens": 3})",
       {"3 layers, 3 caches", " 1 full attention, draft 2 x 64 bf16 all tokens 512 2"}},
      {"Qwen3_5ForConditionalGeneration",
       R"("quire_speculative": {}, "text_config": {"num_hidden_layers": 2, "layer_types": ["full_attention", "full_attention"],
          "mtp_num_hidden_layers": 1, )" +
           kHeads + R"("x": 0})",
       {"3 layers, 3 caches", " 1 full attention, draft 2 x 64"}},
      {"MiniMaxM2ForCausalLM",
       kTwo + R"("use_mtp": true, "num_mtp_modules": 3, "mtp_transformer_layers": 1, "quire_speculative": {})",
       {"5 layers, 5 caches", " 3 full attention, draft 2 x 64 bf16 all tokens 512 2-4"}},
      {"MiniMaxM2ForCausalLM",
       kTwo + R"("num_mtp_modules": 2, "mtp_transformer_layers": 2, "quire_speculative": {})",
       {"6 layers, 6 caches", " 4 full attention, draft 2 x 64"}},
      {"MiniMaxM2ForCausalLM",
       kTwo + R"("use_mtp": false, "num_mtp_modules": 3, "quire_speculative": {})",
       {"refused: quire_speculative: config: use_mtp = false"}},
      {"Glm4MoeForCausalLM",
       kTwo + R"("quire_speculative": {})",
       {"refused: quire_speculative: config: num_nextn_predict_layers is missing"}},
      {"LlamaForCausalLM", kTwo + R"("quire_speculative": {})", {"refused: config: draft layers of LlamaForCausalLM are not known"}},
      {"LlamaForCausalLM", kTwo + R"("quire_speculative": 3)", {"refused: config: quire_speculative = 3; must be an object"}},
      {"LlamaForCausalLM", kTwo + R"("quire_speculative": {"x": 3})", {"refused: config: quire_speculative.x is not known"}},
      {"LlamaForCausalLM",
       kTwo + R"("quire_speculative": {"num_tokens": 0})",
       {"refused: config: quire_speculative.num_tokens = 0; must be a whole number 1..1023"}},
  };
  for (const Case& one : all) expect(one);
}

// A draft with a config of its own: its heads, its windows, the model's element type.
TEST(Speculative, ADraftOfItsOwn) {
  const auto with = [](const std::string& draft) { return kTwo + R"("quire_speculative": {"config": {)" + draft + "}}"; };
  const std::string heads = R"("num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 9, )";
  const std::vector<Case> all{
      {"LlamaForCausalLM",
       with(R"("architectures": ["LlamaForCausalLMEagle3"], "dtype": "float16", "num_hidden_layers": 1, )" + heads + R"("x": 0)"),
       {"3 layers, 3 caches, at most 4096 tokens", " 2 full attention 2 x 64 bf16",
        " 1 full attention, draft 1 x 32 bf16 all tokens 128 2"}},
      {"LlamaForCausalLM",
       with(R"("architectures": ["MistralForCausalLM"], "sliding_window": 8, "num_hidden_layers": 2, )" + heads + R"("x": 0)"),
       {" 2 sliding window, draft 1 x 32 bf16 8 tokens 128 2-3"}},
      {"LlamaForCausalLM",
       with(R"("architectures": ["Gemma4AssistantForCausalLM"])"),
       {"2 layers, 2 caches", " 2 full attention 2 x 64 bf16"}},
      {"LlamaForCausalLM", with(R"("architectures": ["Wheels"])"), {"refused: quire_speculative: config: architectures[0] = \"Wheels\""}},
      {"LlamaForCausalLM", with(R"("architectures": ["Step5MTP"])"), {"refused: quire_speculative: config: ", "is known but not read"}},
      {"LlamaForCausalLM", kTwo + R"("quire_speculative": {"config": []})", {"refused: config: quire_speculative.config = [...]; must be"}},
  };
  for (const Case& one : all) expect(one);
}

// fp8 that the model's config asks for is that of its drafts, whatever theirs says; shared caches stay within the draft.
TEST(Speculative, DraftsAreStoredLikeTheModel) {
  expect({"LlamaForCausalLM",
          kTwo + R"("quantization_config": {"kv_cache_scheme": "FP8"}, "quire_speculative": {"config": {"architectures":
              ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, )" +
              kHeads + R"("x": 0}})",
          {" 1 full attention, draft 2 x 64 fp8"}});
  expect({"LlamaForCausalLM",
          kTwo + R"("quire_speculative": {"config": {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, )" + kHeads +
              R"("quantization_config": {"kv_cache_scheme": "FP8"}}})",
          {" 1 full attention, draft 2 x 64 bf16"}});
  const auto model = read_hf_config(made("LlamaForCausalLM", kTwo + R"("quire_speculative": {"config": {"architectures":
      ["Gemma4ForCausalLM"], "num_hidden_layers": 2, "num_kv_shared_layers": 1, "sliding_window": 8, "global_head_dim": 64,
      "num_global_key_value_heads": 2, "layer_types": ["full_attention", "full_attention"], )" +
                                                                 kHeads + R"("x": 0}})"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(model.value().caches().size(), 4u);
  EXPECT_EQ(model.value().caches()[3].desc.shares_with, 3u);
}

uint32_t ahead_of(const std::string& draft) {
  const auto model = read_hf_config(made("LlamaForCausalLM", kTwo + R"("quire_speculative": {"num_tokens": 4, "config": {)" + draft +
                                                                 kHeads + R"("num_hidden_layers": 1, "x": 0}})"));
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? model.value().caches().back().desc.look_ahead : 0;
}

// Drafts that fill in a block write one token more than they draft: DFlash does, DSpark where it does not start from the last token.
TEST(Speculative, TokensAhead) {
  EXPECT_EQ(ahead_of(R"("architectures": ["LlamaForCausalLMEagle3"], )"), 4u);
  EXPECT_EQ(ahead_of(R"("architectures": ["DFlashDraftModel"], )"), 5u);
  EXPECT_EQ(ahead_of(R"("architectures": ["Qwen3DSparkModel"], )"), 4u);
  EXPECT_EQ(ahead_of(R"("architectures": ["Qwen3DSparkModel"], "sample_from_anchor": false, )"), 5u);
}

// Recurrent states of the model have a slot for every draft.
TEST(Speculative, StatesHaveSlotsForDrafts) {
  const std::string config = R"("num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 256,
      "max_position_embeddings": 4096, "mamba_n_heads": 4, "mamba_d_head": 64, "mamba_d_state": 16, "attn_layer_indices": [1], )";
  const auto slots = [&](const std::string& speculative) {
    const auto model = read_hf_config(made("BambaForCausalLM", config + speculative));
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? model.value().caches()[0].facts.family.draft_states : 99;
  };
  EXPECT_EQ(slots(R"("x": 0)"), 0u);
  EXPECT_EQ(slots(R"("quire_speculative": {"num_tokens": 3, "config": {"architectures": ["LlamaForCausalLMEagle3"], )" + kHeads +
                  R"("num_hidden_layers": 1}})"),
            3u);
  EXPECT_EQ(slots(R"("quire_speculative": {"num_tokens": 3, "config": {"architectures": ["Gemma4AssistantForCausalLM"]}})"), 3u);
}

}  // namespace
}  // namespace quire
