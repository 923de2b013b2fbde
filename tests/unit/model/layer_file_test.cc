// Method: a file that is accepted, with one thing changed at a time; every change is refused with place, field, value and limit, and what
// recorded files say stays accepted.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/model/model_layers.h"

namespace quire {
namespace {

std::string file_with(const std::string& spec, const std::string& options = "", const std::string& more = "") {
  return R"({"specs": [{)" + spec + R"(}], "layers": [["l.0", 0], ["l.1", 0]], "options": {"max_model_len": 512)" +
         (options.empty() ? "" : ", " + options) + "}" + more + "}";
}

// "" when the file is read.
std::string answer(const std::string& text) {
  const auto made = read_layer_file(text);
  return made.ok() ? "" : made.status().message();
}

struct Case {
  std::string text;
  std::vector<const char*> words;
};

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string is = answer(c.text);
    EXPECT_NE(is, "") << "accepted: " << c.text;
    for (const char* word : c.words) EXPECT_NE(is.find(word), std::string::npos) << is << "\n  lacks " << word;
  }
}

const std::string kFull = R"("kind": "full", "num_kv_heads": 2, "head_size": 64, "dtype": "bf16", "block_size": 16)";

std::string full(const std::string& fields) { return file_with(kFull + ", " + fields); }

// A full layer in which one field says something else.
std::string changed(const std::string& from, const std::string& to, const std::string& more = "") {
  std::string spec = kFull;
  spec.replace(spec.find(from), from.size(), to);
  return file_with(spec + more);
}

std::string bytes(const std::string& mode, const std::string& more = "") {
  return changed(R"("bf16")", R"("u8")", R"(, "quant_mode": )" + mode + more);
}

TEST(LayerFileRefuses, BlocksThatKernelsCannotCut) {
  for (const char* good : {"1", "2", "4", "8", "16", "48", "2096"})
    EXPECT_EQ(answer(changed(": 16", std::string(": ") + good)), "") << good;
  for (const char* bad : {"3", "12", "17", "24", "2100"}) {
    const std::string words = std::string("specs[0]: block_size = ") + bad + "; must be a multiple of 16 tokens";
    expect_refused({{changed(": 16", std::string(": ") + bad), {words.c_str()}}});
  }
  EXPECT_EQ(answer(file_with(kFull, R"("block_size": 8)")), "");
  expect_refused({{file_with(kFull, R"("block_size": 24)"), {"options.block_size = 24; must be a multiple of 16 tokens"}}});
  // States are kept whole: their blocks are where checkpoints may lie.
  EXPECT_EQ(answer(file_with(R"("kind": "mamba", "shapes": [[4]], "dtypes": ["fp32"], "block_size": 1000)")), "");
}

TEST(LayerFileRefuses, QuantisationWithoutItsCells) {
  for (const char* mode : {"2", "3", "4", "5", "6", "7", "8", "9"}) {
    const std::string words = std::string("specs[0]: state_content_bytes is missing; quant_mode = ") + mode;
    expect_refused({{bytes(mode), {words.c_str()}}});
  }
  EXPECT_EQ(answer(bytes("1")), "");
  EXPECT_EQ(answer(bytes("2", R"(, "state_content_bytes": 136)")), "");
  EXPECT_EQ(answer(bytes("4", R"(, "state_content_bytes": 72)")), "");
  EXPECT_EQ(answer(bytes("5", R"(, "state_content_bytes": 36, "num_head_slots": 4)")), "");
  EXPECT_EQ(answer(bytes("6", R"(, "state_content_bytes": 100)")), "");
  EXPECT_EQ(answer(bytes("9", R"(, "state_content_bytes": 54)")), "");
  expect_refused({{bytes("2", R"(, "state_content_bytes": 135)"), {"state_content_bytes = 135", "quant_mode = 2", "at least 272 bytes"}},
                  {bytes("4", R"(, "state_content_bytes": 71)"), {"state_content_bytes = 71", "at least 144 bytes"}},
                  {bytes("5", R"(, "state_content_bytes": 36)"), {"state_content_bytes = 36", "at least 144 bytes"}},
                  {bytes("6", R"(, "state_content_bytes": 99)"), {"state_content_bytes = 99", "at least 200 bytes"}},
                  {bytes("9", R"(, "state_content_bytes": 53)"), {"state_content_bytes = 53", "at least 108 bytes"}},
                  {bytes("1", R"(, "state_content_bytes": 127)"), {"state_content_bytes = 127", "at least 256 bytes"}}});
}

TEST(LayerFileRefuses, TypesThatContradictTheirQuantisation) {
  const std::string cell = R"(, "state_content_bytes": 200)";
  expect_refused({{full(R"("quant_mode": 2)" + cell), {"quant_mode = 2", "contradicts dtype = \"bf16\""}},
                  {changed(R"("bf16")", R"("fp8")", R"(, "quant_mode": 2)" + cell), {"quant_mode = 2", "contradicts dtype = \"fp8\""}},
                  {changed(R"("bf16")", R"("i8")", R"(, "quant_mode": 3)" + cell), {"quant_mode = 3", "contradicts dtype = \"i8\""}},
                  {changed(R"("bf16")", R"("i8")", R"(, "quant_mode": 1)"), {"quant_mode = 1", "contradicts dtype = \"i8\""}},
                  {full(R"("quant_mode": 1)"), {"quant_mode = 1", "contradicts dtype = \"bf16\""}},
                  {file_with(R"("kind": "mla", "num_kv_heads": 1, "head_size": 576, "dtype": "u8", "cache_dtype_str": "fp8_ds_mla")"),
                   {"state_content_bytes is missing", "fp8_ds_mla"}},
                  {file_with(R"("kind": "mla", "num_kv_heads": 1, "head_size": 576, "dtype": "u8", "cache_dtype_str": "fp8_ds_mla")"
                             R"(, "state_content_bytes": 584)"),
                   {"state_content_bytes = 584, head_size = 576", "656 bytes for 576"}},
                  {file_with(R"("kind": "mla", "num_kv_heads": 1, "head_size": 576, "dtype": "fp32", "cache_dtype_str": "bfloat16")"),
                   {"cache_dtype_str = \"bfloat16\"", "contradicts dtype = \"fp32\""}}});
}

TEST(LayerFileRefuses, SpecsThatContradictThemselves) {
  expect_refused(
      {{full(R"("window": 64, "chunk": 64)"), {"specs[0]: window = 64 and chunk = 64"}},
       {changed("full", "rswa"), {"specs[0]: rswa_window is missing; must be 1.."}},
       {changed("full", "rswa", R"(, "rswa_window": 0)"), {"rswa_window = 0; must be a whole number 1.."}},
       {changed("full", "sink_full"), {"specs[0]: sink_len is missing; must be 1.."}},
       {changed("full", "sink_full", R"(, "sink_len": 0)"), {"sink_len = 0; must be a whole number 1.."}},
       {changed("full", "sliding_window"), {"specs[0]: window is missing; must be 1.."}},
       {changed("full", "sliding_window", R"(, "window": 0)"), {"specs[0]: window = 0; must be a whole number 1.."}},
       {changed("full", "chunked", R"(, "chunk": 0)"), {"specs[0]: chunk = 0; must be a whole number 1.."}},
       {changed("full", "cross"), {"layer 0", "encoder_tokens = 0; must be 1.."}},
       {full(R"("head_size_v": 0)"), {"specs[0]: head_size_v = 0; must be at least 1 for kind full"}},
       {full(R"("look_ahead": 3)"), {"layer 0", "look_ahead = 3; must be 0..0"}},
       {full(R"("page_size_padded": 8191)"), {"page_size_padded = 8191; a block has 8192 bytes"}},
       {file_with(R"("kind": "mamba", "shapes": [[4]], "dtypes": ["fp32"], "draft": true)"), {"field draft = true is not known"}},
       {file_with(R"("kind": "encoder_only", "num_kv_heads": 1, "head_size": 8, "dtype": "bf16", "look_ahead": 1)"),
        {"field look_ahead = 1 is not known"}},
       {file_with(R"("kind": "mla", "num_kv_heads": 1, "head_size": 8, "dtype": "bf16", "block_size": 16, "compress_ratio": 3)"),
        {"block_size = 16; must be a multiple of compress_ratio = 3"}}});
}

TEST(LayerFileRefuses, OtherJsonTypes) {
  for (const char* field : {"draft", "non_causal", "block_stride"}) {
    for (const char* value : {"1", "0", "\"true\"", "[]", "{}"}) {
      const std::string shown = value == std::string("[]") ? "[...]" : value == std::string("{}") ? "{...}" : value;
      const std::string words = std::string("specs[0]: ") + field + " = " + shown + "; must be true or false";
      expect_refused({{full(std::string("\"") + field + "\": " + value), {words.c_str()}}});
    }
    EXPECT_EQ(answer(full(std::string("\"") + field + "\": null")), "") << "null is absence";
  }
  for (const char* field : {"num_kv_heads", "head_size", "block_size", "page_size_padded", "head_size_v", "num_head_slots", "quant_mode",
                            "state_content_bytes", "window", "chunk", "look_ahead"}) {
    for (const char* value : {"\"16\"", "16.0", "-16", "true", "[16]", "18446744073709551616"}) {
      const std::string name = std::string("\"") + field + "\": ";
      const size_t at = kFull.find(name);
      std::string spec = kFull + (at == std::string::npos ? ", " + name + "0" : "");
      const size_t begin = spec.find(name) + name.size();
      spec.replace(begin, spec.find_first_of(",}", begin) - begin, value);
      expect_refused({{file_with(spec), {"specs[0]: ", field, "; must be a whole number"}}});
    }
  }
  expect_refused({{file_with(kFull, "", R"(, "origin": 3)"), {"origin = 3; must be text"}},
                  {file_with(kFull, "", R"(, "name": [])"), {"name = [...]; must be text"}},
                  {R"({"specs": {}, "layers": []})", {"specs = {...}; must be a list of 1..65536"}},
                  {R"({"specs": [], "layers": []})", {"specs has 0 entries; must be a list of 1..65536"}},
                  {R"({"layers": []})", {"specs is missing; must be a list"}},
                  {file_with(kFull, "", R"(, "kv_sharing": 7)"), {"kv_sharing = 7; must be a list of 0..65536 pairs"}},
                  {R"({"specs": [{)" + kFull + R"(}], "layers": [["a", 0], ["b", 1]]})", {"layers[1][1] = 1; must be a whole number 0..0"}},
                  {R"({"specs": [{)" + kFull + R"(}], "layers": [["", 0]]})", {"a name has 0 bytes; must have 1..256"}},
                  {R"({"specs": [{)" + kFull + R"(}], "layers": [["a", 0]], "options": []})", {"options = [...]; must be an object"}}});
}

TEST(LayerFileRefuses, OptionsThatNobodyReads) {
  const auto with = [](const std::string& options) { return file_with(kFull, options); };
  EXPECT_EQ(
      answer(with(R"("connector": {"cross_layers": true}, "spec_decode": {"num_tokens": 3, "eagle": true, "multi_module_mtp": false})")),
      "");
  expect_refused({{with(R"("connector": {"cross_layer": true})"), {"options.connector.cross_layer = true is not known"}},
                  {with(R"("connector": {"cross_layers": 1})"), {"options.connector.cross_layers = 1; must be true or false"}},
                  {with(R"("connector": true)"), {"options.connector = true; must be an object"}},
                  {with(R"("spec_decode": {"num_tokens": 1, "tokens": 2})"), {"options.spec_decode.tokens = 2 is not known"}},
                  {with(R"("spec_decode": {"num_tokens": 0})"), {"options.spec_decode.num_tokens = 0; must be a whole number 1..1024"}},
                  {with(R"("spec_decode": {"eagle": true})"), {"options.spec_decode.num_tokens is missing; must be 1..1024"}},
                  {with(R"("spec_decode": {"num_tokens": 1, "eagle": "yes"})"), {"spec_decode.eagle = \"yes\"; must be true or false"}},
                  {with(R"("spec_decode": 3)"), {"options.spec_decode = 3; must be an object"}},
                  {with(R"("prefix_caching": 1)"), {"options.prefix_caching = 1; must be true or false"}},
                  {with(R"("auto_fit": "on")"), {"options.auto_fit = \"on\"; must be true or false"}},
                  {with(R"("mamba_cache_mode": "some")"), {"options.mamba_cache_mode = \"some\"; must be \"none\", \"align\" or \"all\""}},
                  {with(R"("dcp": 2000)"), {"options.dcp = 2000; must be a whole number 1..1024"}},
                  {with(R"("num_gpu_blocks_override": 2147483648)"), {"num_gpu_blocks_override = 2147483648; must be", "1..2147483647"}},
                  {with(R"("max_encoder_tokens": 0)"), {"options.max_encoder_tokens = 0; must be"}},
                  {with(R"("pages": 3)"), {"options.pages = 3 is not known"}}});
}

TEST(LayerFileRefuses, KeysThatStandTwice) {
  expect_refused({{full(R"("block_size": 32)"), {"key \"block_size\" stands twice in one object"}},
                  {file_with(kFull, R"("max_model_len": 512)"), {"key \"max_model_len\" stands twice"}},
                  {file_with(kFull, "", R"(, "layers": [])"), {"key \"layers\" stands twice"}},
                  {file_with(kFull, "", R"(, "expect": {"a": [{"b": 1, "\u0062": 2}]})"), {"key \"b\" stands twice"}}});
  EXPECT_EQ(answer(file_with(kFull, "", R"(, "expect": {"a": [{"b": 1}, {"b": 2}], "b": {"a": 1}})")), "");
  const auto config = read_hf_config(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 3, "max_position_embeddings": 1024, "num_hidden_layers": 4})");
  EXPECT_EQ(config.status().message(), "config: key \"num_hidden_layers\" stands twice in one object; at most once");
}

}  // namespace
}  // namespace quire
