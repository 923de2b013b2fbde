// How configs are published and saved: older words, names that only some files have, what is left out. One small config for each.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shape_cases.h"

namespace quire {
namespace {

using namespace shapes;

const std::string kTwo = kHeads + R"("num_hidden_layers": 2, )";

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
       kTwo + R"("layer_types": ["deepseek_sparse_attention", "full_attention"])",
       {R"(refused: config: layer_types[0] = "deepseek_sparse_attention" is not known for LlamaForCausalLM)"}},
  };
  for (const Case& one : all) expect(one);
}

// MiniMax's list: 1 is attention, 0 lightning attention, which only the older models have.
TEST(PublishedShapes, ListsThatNameAttention) {
  const std::vector<Case> all{
      {"MiniMaxM2ForCausalLM", kTwo + R"("attn_type_list": [1, 1])", {" 2 full attention 2 x 64"}},
      {"MiniMaxM2ForCausalLM",
       kTwo + R"("attn_type_list": [1, 0])",
       {"refused: config: attn_type_list[1] = 0 is lightning attention, which is not known for MiniMaxM2ForCausalLM"}},
      {"MiniMaxM2ForCausalLM", kTwo + R"("attn_type_list": [1])", {"refused: config: attn_type_list must be a list of 2, has 1"}},
      {"MiniMaxM2ForCausalLM", kTwo + R"("attn_type_list": [1, 2])", {"refused: config: attn_type_list[] = 2; must be"}},
      {"MiniMaxText01ForCausalLM", kTwo + R"("attn_type_list": [1, 0])", {" 1 full attention 2 x 64", " 1 lightning 8x64x64"}},
  };
  for (const Case& one : all) expect(one);
}

// Names of the same readers.
TEST(PublishedShapes, OtherNames) {
  const std::vector<Case> all{
      {"MiniMaxM3ForCausalLM",
       kTwo + R"("num_nextn_predict_layers": 1, "quire_speculative": {}, "sparse_attention_config": {"sparse_index_dim": 128,
           "sparse_attention_freq": [0, 1]})",
       {"3 layers, 5 caches", " 2 full attention 2 x 64", " 1 indexer 1 x 128", " 1 full attention, draft 2 x 64"}},
      {"Step3p7FlashForCausalLM",
       kTwo + R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 512,
           "num_nextn_predict_layers": 1, "quire_speculative": {})",
       {" 1 full attention 2 x 64", " 1 sliding window 2 x 64 bf16 512 tokens", " 1 sliding window, draft 2 x 64"}},
  };
  for (const Case& one : all) expect(one);
}

}  // namespace
}  // namespace quire
