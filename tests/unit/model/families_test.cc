// One model of every family: what the reader makes of it, as rows of the table that people see.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/model/model_layers.h"

namespace quire {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<Model> read_any(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return text.find("\"specs\"") == std::string::npos ? read_hf_config(text) : read_layer_file(text);
}

// Rows with runs of spaces made one.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  }
  return out;
}

struct Expected {
  const char* file;
  std::vector<const char*> rows;
};

// Numbers of layers, shapes and bytes are those published for the models.
const std::vector<Expected>& families() {
  static const std::vector<Expected> all{
      {"bamba-9b",
       {" 29 mamba 2 3x8704 bf16 + 128x64x256 fp32 one state 8440832", " 3 full attention 8 x 128 bf16 all tokens 4096 9, 18 .. 27"}},
      {"bart-large", {" 12 full attention 16 x 64", " 12 cross attention 16 x 64 bf16 1024 of the encoder 4096 0-11"}},
      {"command-r7b", {" 24 sliding window 8 x 128 bf16 4097 tokens", " 8 full attention 8 x 128 bf16 all tokens 4096 3, 7 .. 31"}},
      {"deepseek-v4-pro",
       {" 31 latent 1 x 512 bf16, 1 of 128", " 30 latent 1 x 512 bf16, 1 of 4", " 61 latent window 1 x 512 bf16 128 tokens"}},
      {"falcon-h1-7b", {"44 layers, 88 caches", " 44 full attention 2 x 128", " 44 mamba 2 3x3584 bf16 + 24x128x256"}},
      {"falcon-mamba-7b", {"at most 8192 tokens", " 64 mamba 1 3x8192 bf16 + 8192x16 bf16 one state 311296 0-63"}},
      {"gemma-2-27b", {" 23 sliding window 16 x 128 bf16 4096 tokens 8192 0, 2 .. 44", " 23 full attention"}},
      {"gemma-3-27b", {" 52 sliding window 16 x 128 bf16 1024 tokens", " 10 full attention"}},
      {"gemma-3-4b", {" 29 sliding window 4 x 256", " 5 full attention 4 x 256 bf16 all tokens 4096 5, 11 .. 29"}},
      {"gemma-3n-e4b",
       {" 16 sliding window 2 x 256 bf16 512 tokens", " 4 full attention", " 12 sliding window 2 x 256 bf16 of another layer 0"}},
      {"granite-4.0-h-small", {" 36 mamba 2 3x8448", " 4 full attention 8 x 128"}},
      {"hunyuan-large",
       {" 32 full attention 8 x 128 bf16 all tokens 4096 0, 2 .. 62", " 32 full attention 8 x 128 bf16 of another layer 0 1, 3 .. 63"}},
      {"inkling", {"66 layers, 330 caches", " 55 sliding window", " 11 full attention", " 264 state 3x1024 bf16 one state 6144 0-65"}},
      {"jamba-1.5-mini",
       {" 28 mamba 1 3x8192 bf16 + 8192x16 fp32 one state 573440", " 4 full attention 8 x 128 bf16 all tokens 4096 4, 12 .. 28"}},
      {"kimi-linear-48b",
       {" 20 delta attention 3x12288 bf16 + 32x128x128 fp32 one state 2170880", " 7 latent 1 x 576 bf16 all tokens 1152"}},
      {"lfm2-1.2b", {" 10 short convolution 2x2048 bf16 one state 8192", " 6 full attention 8 x 64"}},
      {"lfm2-8b-a1b", {" 18 short convolution 2x2048", " 6 full attention 8 x 64"}},
      {"mamba-codestral-7b", {" 64 mamba 2 3x10240 bf16 + 128x64x128 bf16"}},
      {"minimax-m3", {"at most 1048576", " 60 full attention 4 x 128", " 57 indexer 1 x 128"}},
      {"minimax-text-01",
       {" 70 lightning 64x128x128 fp32 one state 4194304", " 10 full attention 8 x 128 bf16 all tokens 4096 7, 15 .. 79"}},
      {"ministral-8b", {" 27 sliding window 8 x 128 bf16 32768 tokens", " 9 full attention"}},
      {"mistral-7b-v0.1", {" 32 sliding window 8 x 128 bf16 4096 tokens 4096 0-31"}},
      {"nemotron-3-super-120b",
       {" 40 mamba 2 3x10240 bf16 + 128x64x128 fp32 one state 4255744",
        " 8 full attention 2 x 128 bf16 all tokens 1024 7, 16, 25, 36, 47, 58,\n 69, 78", " 40 nothing"}},
      {"nemotron-3.5-lightning-30b", {" 23 mamba 2 3x6144 bf16 + 64x64x128 fp32 one state 2134016", " 6 full attention", " 23 nothing"}},
      {"nemotron-h-8b", {" 24 mamba 2 3x10240 bf16 + 128x64x128 fp32 one state 4255744", " 4 full attention 8 x 128", " 24 nothing"}},
      {"phi-4-mini-flash",
       {" 9 mamba 1 3x5120 bf16 + 5120x16", " 8 sliding window 20 x 64 bf16 512 tokens",
        " 1 full attention 20 x 64 bf16 all tokens 5120 17", " 7 full attention 20 x 64 bf16 of another layer"}},
      {"qwen3.5-122b-a10b", {" 36 gated delta net 3x12288 bf16 + 64x128x128 fp32 one state 4268032", " 12 full attention 2 x 256"}},
      {"step-3.7-flash", {"at most 65536", " 33 sliding window 8 x 128 bf16 512 tokens", " 12 full attention 8 x 128"}},
      {"t5-large", {" 24 full attention 16 x 64", " 24 cross attention 16 x 64 bf16 512 of the encoder"}},
      {"whisper-large-v3", {" 32 full attention 20 x 64", " 32 cross attention 20 x 64 bf16 1500 of the encoder"}},
      {"zamba2-7b", {"81 layers, 94 caches", " 81 mamba 2", " 13 full attention 32 x 224"}},
  };
  return all;
}

TEST(Families, SamplesAreWhatTheyAre) {
  for (const Expected& family : families()) {
    SCOPED_TRACE(family.file);
    const auto model = read_any(std::filesystem::path(QUIRE_SAMPLE_MODELS) / (std::string(family.file) + ".json"));
    ASSERT_TRUE(model.ok()) << model.status().message();
    const std::string table = squeezed(describe(model.value()));
    for (const char* row : family.rows) EXPECT_NE(table.find(row), std::string::npos) << row << "\nin\n" << table;
  }
}

TEST(Families, EverySampleIsRead) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_SAMPLE_MODELS)) {
    if (entry.path().extension() != ".json") continue;
    const auto model = read_any(entry.path());
    EXPECT_TRUE(model.ok()) << entry.path() << ": " << model.status().message();
    ++count;
  }
  EXPECT_GE(count, families().size());
}

TEST(Families, PublishedConfigs) {
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_MODEL_CONFIGS)) {
    if (entry.path().extension() != ".json") continue;
    const auto model = read_any(entry.path());
    EXPECT_TRUE(model.ok()) << entry.path() << ": " << model.status().message();
  }
}

std::string refused(const std::string& text) {
  const auto model = text.find("\"specs\"") == std::string::npos ? read_hf_config(text) : read_layer_file(text);
  EXPECT_FALSE(model.ok()) << text;
  return model.ok() ? "" : model.status().message();
}

TEST(Families, MessagesNameTheField) {
  EXPECT_NE(refused(R"({"architectures": ["Unheard"]})").find("architectures[0] = \"Unheard\" is not known"), std::string::npos);
  EXPECT_NE(refused(R"({"architectures": ["KimiLinearForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 2, "kv_lora_rank": 8,
      "qk_rope_head_dim": 8, "max_position_embeddings": 9, "linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1]}})")
                .find("linear_attn_config.full_attn_layers = 3; must be a whole number 1..2"),
            std::string::npos);
  EXPECT_NE(refused(R"({"architectures": ["DeepseekV4ForCausalLM"], "num_hidden_layers": 3, "head_dim": 8, "sliding_window": 8,
      "num_attention_heads": 2, "index_head_dim": 4, "max_position_embeddings": 9, "compress_ratios": [0]})")
                .find("compress_ratios must be a list of at least num_hidden_layers = 3"),
            std::string::npos);
  EXPECT_NE(
      refused(R"({"architectures": ["BartForConditionalGeneration"], "decoder_layers": 2, "decoder_attention_heads": 2, "d_model": 8})")
          .find("max_position_embeddings is missing"),
      std::string::npos);
}

TEST(LayerFile, Sharing) {
  const auto model = read_layer_file(R"({"specs": [{"kind": "full", "num_kv_heads": 2, "head_size": 64, "dtype": "bf16"}],
      "layers": [["model.layers.0.attn", 0], ["model.layers.1.attn", 0]], "kv_sharing": [["model.layers.2.attn", "model.layers.1.attn"]],
      "options": {"max_model_len": 77}})");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model.value().max_model_len(), 77u);
  EXPECT_EQ(model.value().find(2, 0), model.value().find(1, 0));
}

// What would change the cache is used or refused, by name; nothing is dropped.
TEST(LayerFile, NoFieldIsDropped) {
  const auto answer = [](const std::string& fields, const std::string& name = "a.0") {
    const std::string spec = R"({"num_kv_heads": 2, "head_size": 64, )" + fields + "}";
    const auto made = read_layer_file(R"({"specs": [)" + spec + R"(], "layers": [[")" + name + R"(", 0]]})");
    return made.ok() ? std::string("accepted") : made.status().message();
  };
  const std::string full = R"("kind": "full", "dtype": "bf16")";
  EXPECT_EQ(answer(full + R"(, "block_size": 32)"), "accepted");
  EXPECT_EQ(answer(full + R"(, "block_size": 16, "page_size_padded": 8192, "window": 7, "block_stride": true)"), "accepted");
  EXPECT_EQ(answer(R"("kind": "sink_full", "dtype": "bf16", "block_size": 16, "sink_len": 128)"), "accepted");
  EXPECT_EQ(answer(R"("kind": "rswa", "dtype": "bf16", "block_size": 16, "rswa_window": 64)"), "accepted");
  EXPECT_EQ(answer(R"("kind": "full", "dtype": "fp8_e5m2", "quant_mode": 1, "draft": true, "look_ahead": 3)"), "accepted");
  const std::vector<std::pair<std::string, std::string>> cases{{R"("windw": 7)", "windw = 7 is not known"},
                                                               {R"("rswa_window": 7)", "rswa_window = 7 is not known for kind full"},
                                                               {R"("block_size": 0)", "block_size = 0"},
                                                               {R"("block_size": "x")", "block_size = \"x\""},
                                                               {R"("sink_len": 128)", "sink_len = 128"},
                                                               {R"("rswa_window": 64)", "rswa_window = 64"},
                                                               {R"("spec_blocks": 2)", "spec_blocks = 2"},
                                                               {R"("alignment": 512)", "alignment = 512"},
                                                               {R"("page_size_padded": 4096)", "block_size is missing"},
                                                               {R"("block_size": 16, "page_size_padded": 8191)", "page_size_padded = 8191"},
                                                               {R"("quant_mode": 1)", "quant_mode = 1"},
                                                               {R"("quant_mode": 10)", "quant_mode = 10"},
                                                               {R"("cache_dtype_str": "fp8")", "cache_dtype_str = \"fp8\""}};
  for (const auto& [field, words] : cases)
    EXPECT_NE(answer(full + ", " + field).find(words), std::string::npos) << answer(full + ", " + field);
  EXPECT_EQ(answer(R"("kind": "full", "dtype": "u8", "quant_mode": 1)"), "accepted");
  EXPECT_NE(answer(full, "layers.70000").find("\"layers.70000\" names a layer beyond 65535"), std::string::npos);
  EXPECT_NE(answer(full, "layers.99999999999999999999999").find("beyond 65535"), std::string::npos);
}

TEST(LayerFile, MessagesNameTheField) {
  const std::string head = R"({"specs": [{"kind": "full", "num_kv_heads": 2, "head_size": 64, "dtype": "bf16"}], "layers": )";
  EXPECT_NE(refused(R"({"specs": 3})").find("specs = 3; must be a list"), std::string::npos);
  EXPECT_NE(refused(R"({"specs": [{"kind": "other"}]})").find("specs[0]: kind = \"other\" is not known"), std::string::npos);
  EXPECT_NE(refused(R"({"specs": [{"kind": "full", "num_kv_heads": 0}]})").find("num_kv_heads = 0; must be a whole number 1..65536"),
            std::string::npos);
  EXPECT_NE(refused(R"({"specs": [{"kind": "full", "num_kv_heads": 2, "head_size": 64, "dtype": "q7"}]})").find("dtype = \"q7\""),
            std::string::npos);
  EXPECT_NE(refused(R"({"specs": [{"kind": "sliding_window", "num_kv_heads": 2, "head_size": 64, "dtype": "bf16", "window": 0}]})")
                .find("window = 0; must be a whole number 1.."),
            std::string::npos);
  EXPECT_NE(refused(R"({"specs": [{"kind": "mla", "num_kv_heads": 1, "head_size": 64, "dtype": "u8", "state_content_bytes": 0}]})")
                .find("state_content_bytes = 0"),
            std::string::npos);
  EXPECT_NE(refused(R"({"specs": [{"kind": "mamba", "shapes": [[4]], "dtypes": []}]})").find("lists of equal length 1..4"),
            std::string::npos);
  EXPECT_NE(refused(head + "[]}").find("layers has 0 entries; must be a list"), std::string::npos);
  EXPECT_NE(refused(head + R"([["a", 1]]})").find("layers[0][1] = 1; must be a whole number 0..0"), std::string::npos);
  EXPECT_NE(refused(head + R"([["a", 0], ["a", 0]]})").find("\"a\" is given twice"), std::string::npos);
  EXPECT_NE(refused(head + R"([["a", 0]], "kv_sharing": [["b", "c"]]})").find("target \"c\" is no layer"), std::string::npos);
}

}  // namespace
}  // namespace quire
