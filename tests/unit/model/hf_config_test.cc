#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "core/model/dtype.h"
#include "core/model/model_layers.h"

namespace quire {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string sample(const char* name) { return read_file(std::filesystem::path(QUIRE_SAMPLE_MODELS) / name); }

uint64_t count_kind(const Model& model, quire_layer_kind kind) {
  uint64_t n = 0;
  for (const LayerCache& cache : model.caches()) n += cache.desc.kind == kind ? 1 : 0;
  return n;
}

const char* const kLlama =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
  "num_hidden_layers": 3, "max_position_embeddings": 1024, "torch_dtype": "float16"})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(HfConfig, PlainDecoder) {
  const auto made = read_hf_config(kLlama);
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made.value().caches().size(), 3u);
  const quire_layer& layer = made.value().caches()[2].desc;
  EXPECT_EQ(layer.kind, QUIRE_LAYER_FULL);
  EXPECT_EQ(layer.num_kv_heads, 2u);
  EXPECT_EQ(layer.head_dim_k, 32u);  // hidden / heads
  EXPECT_TRUE(same_dtype(layer.dtype, kFloat16));
  EXPECT_EQ(made.value().max_model_len(), 1024u);
}

TEST(HfConfig, QwenNextSample) {
  const auto made = read_hf_config(sample("qwen3-next-80b.json"));
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Model& model = made.value();
  EXPECT_EQ(model.num_layers(), 48u);
  EXPECT_EQ(count_kind(model, QUIRE_LAYER_FULL), 12u);
  EXPECT_EQ(count_kind(model, QUIRE_LAYER_STATE), 36u);
  EXPECT_EQ(model.caches()[3].desc.kind, QUIRE_LAYER_FULL);
  EXPECT_EQ(model.caches()[3].desc.head_dim_k, 256u);
  EXPECT_EQ(model.caches()[3].desc.num_kv_heads, 2u);
  const quire_layer& state = model.caches()[0].desc;
  EXPECT_EQ(state.state[0].shape[0], 3u);
  EXPECT_EQ(state.state[0].shape[1], 8192u);
  EXPECT_EQ(state.state[1].shape[0], 32u);
  EXPECT_EQ(state.state[1].shape[1], 128u);
  EXPECT_EQ(model.max_model_len(), 262144u);
}

TEST(HfConfig, OtherSamples) {
  const auto llama = read_hf_config(sample("llama-3.1-8b.json"));
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(count_kind(llama.value(), QUIRE_LAYER_FULL), 32u);
  EXPECT_EQ(llama.value().caches()[0].desc.head_dim_v, 128u);
  const auto oss = read_hf_config(sample("gpt-oss-20b.json"));
  ASSERT_TRUE(oss.ok()) << oss.status().message();
  EXPECT_EQ(count_kind(oss.value(), QUIRE_LAYER_FULL), 12u);
  EXPECT_EQ(count_kind(oss.value(), QUIRE_LAYER_SLIDING_WINDOW), 12u);
  EXPECT_EQ(oss.value().caches()[0].live.window, 128u);
  EXPECT_NE(oss.value().caches()[0].desc.flags & QUIRE_LAYER_SINK_LOGITS, 0u);
}

TEST(HfConfig, UnknownArchitecturesAndTypesAreNeverGuessed) {
  auto made = read_hf_config(replaced(kLlama, "LlamaFor", "GrokFor"));
  EXPECT_EQ(made.status().code(), QUIRE_UNIMPLEMENTED);
  EXPECT_NE(made.status().message().find("architectures[0] = \"GrokForCausalLM\""), std::string::npos);
  made = read_hf_config(replaced(kLlama, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 1, \"layer_types\": [\"magic\"]"));
  EXPECT_EQ(made.status().code(), QUIRE_UNIMPLEMENTED);
  EXPECT_NE(made.status().message().find("layer_types[0] = \"magic\""), std::string::npos);
  made = read_hf_config(replaced(kLlama, "float16", "int3"));
  EXPECT_EQ(made.status().code(), QUIRE_UNIMPLEMENTED);
  EXPECT_NE(made.status().message().find("int3"), std::string::npos);
}

TEST(HfConfig, ALayerFileNamesItsReader) {
  const auto made = read_hf_config(R"({"specs": [{"kind": "full", "num_kv_heads": 8, "head_size": 128, "dtype": "bf16"}],
    "layers": [["model.layers.0.attn", 0]], "options": {"max_model_len": 1024}})");
  EXPECT_EQ(made.status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(made.status().message().find("quire_model_from_layers"), std::string::npos) << made.status().message();
}

// A type that another architecture has is not this one's: nothing stands in for it.
TEST(HfConfig, LayerTypesOfOtherArchitecturesAreRefused) {
  const auto refused = [](const char* file, const std::string& from, const std::string& to) {
    const auto made = read_hf_config(replaced(sample(file), from, to));
    EXPECT_EQ(made.status().code(), QUIRE_UNIMPLEMENTED) << file << ": " << made.status().message();
    EXPECT_NE(made.status().message().find("layer_types["), std::string::npos) << file << ": " << made.status().message();
    EXPECT_NE(made.status().message().find("= " + to + " is not known"), std::string::npos) << file << ": " << made.status().message();
  };
  refused("lfm2-8b-a1b.json", "\"conv\"", "\"sliding_attention\"");
  refused("granite-4.0-h-small.json", "\"mamba\"", "\"sliding_attention\"");
  const std::string types = "\"full_attention_interval\": 4, \"layer_types\": [\"mamba\"";
  std::string text = replaced(
      sample("qwen3-next-80b.json"), "\"full_attention_interval\": 4", types + [] {
        std::string rest;
        for (int i = 1; i < 48; ++i) rest += ", \"linear_attention\"";
        return rest + "]";
      }());
  const auto made = read_hf_config(text);
  EXPECT_EQ(made.status().code(), QUIRE_UNIMPLEMENTED) << made.status().message();
  EXPECT_NE(made.status().message().find("layer_types[0] = \"mamba\" is not known"), std::string::npos) << made.status().message();
}

// No width is rounded.
TEST(HfConfig, WidthsThatDoNotDivideAreRefused) {
  auto made =
      read_hf_config(replaced(sample("whisper-large-v3.json"), "\"decoder_attention_heads\": 20", "\"decoder_attention_heads\": 7"));
  EXPECT_EQ(made.status().message(), "config: d_model = 1280 is no multiple of decoder_attention_heads = 7");
  const std::string deci = R"({"architectures": ["DeciLMForCausalLM"], "hidden_size": 8192, "num_attention_heads": 63,
    "num_hidden_layers": 1, "max_position_embeddings": 1024, "block_configs": [{"attention": {"n_heads_in_group": 8}}]})";
  EXPECT_EQ(read_hf_config(deci).status().message(), "config: hidden_size = 8192 is no multiple of num_attention_heads = 63");
  EXPECT_TRUE(read_hf_config(replaced(deci, "63", "64")).ok());
  EXPECT_EQ(read_hf_config(replaced(replaced(deci, "63", "64"), "group\": 8", "group\": 7")).status().message(),
            "config: num_attention_heads = 64 is no multiple of block_configs[].attention.n_heads_in_group = 7");
}

TEST(HfConfig, BadNumbersNameTheField) {
  for (const char* bad : {"0", "-0", "-1", "1.7", "1e3", "1e300", "\"3\"", "true", "[3]", "99999999999999999999999", "4097"}) {
    const auto made = read_hf_config(replaced(kLlama, "\"num_hidden_layers\": 3", std::string("\"num_hidden_layers\": ") + bad));
    EXPECT_EQ(made.status().code(), QUIRE_INVALID_ARGUMENT) << bad;
    EXPECT_NE(made.status().message().find("num_hidden_layers"), std::string::npos) << bad << ": " << made.status().message();
  }
  for (const char* bad : {"1e400", "-1e400"}) {  // no double
    const auto made = read_hf_config(replaced(kLlama, "\"num_hidden_layers\": 3", std::string("\"num_hidden_layers\": ") + bad));
    EXPECT_EQ(made.status().code(), QUIRE_INVALID_ARGUMENT) << bad;
    EXPECT_NE(made.status().message().find("a number that is too large at byte"), std::string::npos) << made.status().message();
  }
  auto made = read_hf_config(replaced(kLlama, "\"num_hidden_layers\": 3,", ""));
  EXPECT_EQ(made.status().message(), "config: num_hidden_layers is missing; must be 1..4096");
  made = read_hf_config(replaced(kLlama, "\"hidden_size\": 128", "\"hidden_size\": 129"));
  EXPECT_NE(made.status().message().find("hidden_size = 129"), std::string::npos);
}

TEST(HfConfig, HostileText) {
  EXPECT_EQ(read_hf_config("").status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(read_hf_config("[]").status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(read_hf_config("{\"architectures\": 3}").status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(read_hf_config("{\"architectures\": [").status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(read_hf_config("{\"architectures\": [\"LlamaForCausalLM\"], \"text_config\": 1}").status().code(), QUIRE_INVALID_ARGUMENT);
  const auto deep = read_hf_config(std::string(1u << 20, '['));
  EXPECT_NE(deep.status().message().find("nested deeper than 64"), std::string::npos);
  const auto large = read_hf_config(std::string((16u << 20) + 1, ' '));
  EXPECT_NE(large.status().message().find("at most 16777216"), std::string::npos);
  EXPECT_TRUE(read_hf_config(replaced(kLlama, "\"torch_dtype\"", "\"rope\": [Infinity, -Infinity, NaN, \"NaN\"], \"torch_dtype\"")).ok());
}

TEST(HfConfig, AStoredSchemeOfTheCacheIsItsContent) {
  const auto with = [](const std::string& scheme) {
    return read_hf_config(
        replaced(kLlama, "\"torch_dtype\"", "\"quantization_config\": {\"kv_cache_scheme\": " + scheme + "}, \"torch_dtype\""));
  };
  for (const char* fp8 :
       {R"({"dynamic": false, "num_bits": 8, "type": "float"})", R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"}) {
    auto model = with(fp8);
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const LayerCache& cache : model->caches()) EXPECT_EQ(cache.desc.dtype.code, QUIRE_DTYPE_FLOAT8_E4M3FN);
  }
  auto plain = with("null");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  for (const LayerCache& cache : plain->caches()) EXPECT_NE(cache.desc.dtype.code, QUIRE_DTYPE_FLOAT8_E4M3FN);
  const std::pair<const char*, const char*> unknown[] = {
      {R"({"num_bits": 4, "type": "float"})", "kv_cache_scheme.num_bits = 4; known is 8"},
      {R"({"num_bits": 8, "type": "int"})", "kv_cache_scheme.type = \"int\"; known is \"float\""},
      {R"({"num_bits": 8})", "kv_cache_scheme.type = null; known is"},
      {R"({"num_bits": 8, "type": "float", "dynamic": true})", "kv_cache_scheme.dynamic = true; known is false"},
      {R"({"num_bits": 8, "type": "float", "strategy": "token"})", "kv_cache_scheme.strategy = \"token\"; known is"},
      {"8", "kv_cache_scheme = 8; must be an object"}};
  for (const auto& [scheme, says] : unknown) {
    auto refused = with(scheme);
    EXPECT_NE(refused.status().message().find(says), std::string::npos) << refused.status().message();
  }
}

TEST(HfConfig, ValueHeadsShareKeyHeadsEvenly) {
  const std::string text = replaced(sample("qwen3-next-80b.json"), "\"linear_num_value_heads\": 32", "\"linear_num_value_heads\": 31");
  EXPECT_EQ(read_hf_config(text).status().message(), "config: linear_num_value_heads = 31 is no multiple of linear_num_key_heads = 16");
}

// Any damage gives a model or a clean failure.
TEST(HfConfig, DamagedTextNeverCrashes) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string texts[] = {kLlama, sample("qwen3-next-80b.json"), sample("gpt-oss-20b.json")};
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = texts[random() % 3];
    for (uint32_t k = random() % 3 + 1; k > 0; --k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = "0123456789-{}[],:\"entf"[random() % 22];
          break;
        case 1:
          text.erase(at, random() % 8 + 1);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 16));
      }
    }
    const auto made = read_hf_config(text);
    accepted += made.ok() ? 1 : 0;
    EXPECT_NE(made.ok(), !made.status().message().empty());
  }
  EXPECT_GT(accepted, 0);
}

TEST(HfConfig, PublishedConfigsParseOrSayWhatIsMissing) {
  const std::filesystem::path folder = QUIRE_MODEL_CONFIGS;
  struct Expected {
    uint64_t full, sliding, chunked, state, mla;
  };
  const std::map<std::string, Expected> expected{
      {"Qwen--Qwen3-32B_config.json", {64, 0, 0, 0, 0}},
      {"meta-llama--Meta-Llama-3.1-70B_config.json", {80, 0, 0, 0, 0}},
      {"MiniMaxAI--MiniMax-M2.5_config.json", {62, 0, 0, 0, 0}},
      {"openai--gpt-oss-120b_config.json", {18, 18, 0, 0, 0}},
      {"Qwen--Qwen3.5-397B-A17B_config.json", {15, 0, 0, 45, 0}},
      {"google--gemma-4-26B-A4B_config.json", {5, 25, 0, 0, 0}},
      {"deepseek-ai--DeepSeek-V3_config.json", {0, 0, 0, 0, 61}},
      {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16_config.json", {6, 0, 0, 23, 0}},
      {"nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16_config.json", {12, 0, 0, 48, 0}},
      {"nvidia--Nemotron-H-56B-Base-8K_config.json", {10, 0, 0, 54, 0}},
      {"nvidia--Llama-3_3-Nemotron-Super-49B-v1_config.json", {49, 0, 0, 0, 0}},
      {"XiaomiMiMo--MiMo-V2-Flash_config.json", {9, 39, 0, 0, 0}},
      {"meta-llama--Llama-4-Scout-17B-16E-Instruct_config.json", {12, 0, 36, 0, 0}},
  };
  uint64_t checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().filename();
    const auto made = read_hf_config(read_file(entry.path()));
    if (!made.ok()) {
      EXPECT_EQ(made.status().code(), QUIRE_UNIMPLEMENTED) << name << ": " << made.status().message();
      EXPECT_NE(made.status().message().find("architectures[0]"), std::string::npos) << name << ": " << made.status().message();
    }
    const auto it = expected.find(name);
    if (it == expected.end()) continue;
    ++checked;
    ASSERT_TRUE(made.ok()) << name << ": " << made.status().message();
    EXPECT_EQ(count_kind(made.value(), QUIRE_LAYER_FULL), it->second.full) << name;
    EXPECT_EQ(count_kind(made.value(), QUIRE_LAYER_SLIDING_WINDOW), it->second.sliding) << name;
    EXPECT_EQ(count_kind(made.value(), QUIRE_LAYER_CHUNKED), it->second.chunked) << name;
    EXPECT_EQ(count_kind(made.value(), QUIRE_LAYER_STATE), it->second.state) << name;
    EXPECT_EQ(count_kind(made.value(), QUIRE_LAYER_MLA), it->second.mla) << name;
  }
  EXPECT_EQ(checked, expected.size());
}

}  // namespace
}  // namespace quire
