// Method: every config at hand, with one field changed at a time. A table says which fields of an architecture decide what is cached, and
// what their absence means; a field of the table that says something impossible is refused by its name, any other field changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/model/model_layers.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

// absent: what a class or this reader documents for a field that is left out; null where that is refused.
struct Field {
  const char* name;
  const char* absent = nullptr;
};
using Fields = std::vector<Field>;

const Fields kEvery{{"architectures", "that of model_type"},
                    {"text_config"},
                    {"max_position_embeddings", "not stated"},
                    {"dtype", "bfloat16"},
                    {"torch_dtype", "bfloat16"},
                    {"quantization_config", "none"},
                    {"kv_cache_scheme", "none"},
                    {"num_bits"},
                    {"type"},
                    {"dynamic", "false"},
                    {"strategy", "tensor"}};
const Fields kAttention{{"num_hidden_layers"}, {"num_attention_heads"}, {"num_key_value_heads"}};
const Fields kSoftcap{{"attn_logit_softcapping", "none"}};
const Fields kFollowing{{"hidden_size"}, {"head_dim", "hidden_size / num_attention_heads"}};
const Fields kLatent{{"num_hidden_layers"}, {"num_attention_heads"}, {"kv_lora_rank"}, {"qk_rope_head_dim"}};
const Fields kLinear{{"linear_attn_config"}, {"full_attn_layers"}, {"kda_layers"}, {"num_heads"}, {"head_dim"}, {"short_conv_kernel_size"}};
const Fields kGated{{"full_attention_interval"},     {"layer_types", "every full_attention_interval-th is full"},
                    {"linear_num_key_heads"},        {"linear_num_value_heads"},
                    {"linear_key_head_dim"},         {"linear_value_head_dim"},
                    {"linear_conv_kernel_dim", "4"}, {"mamba_ssm_dtype", "the model's"}};
const Fields kStates{{"mamba_ssm_dtype", "the model's; Nemotron-H float32"},
                     {"mamba_ssm_cache_dtype", "the model's; Nemotron-H float32"},
                     {"chunk_size", "256; Nemotron-H 128"},
                     {"mamba_chunk_size", "256"}};
const Fields kMamba2{{"mamba_n_heads"}, {"mamba_d_head"}, {"mamba_d_state"}, {"mamba_n_groups", "1"}, {"mamba_d_conv", "4"}};
const Fields kMamba1{{"mamba_d_state", "16"}, {"mamba_d_conv", "4"}, {"mamba_expand", "2"}};

Fields joined(std::initializer_list<Fields> lists) {
  Fields out;
  for (const Fields& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

const Fields kWide{{"head_dim"}};
const Fields kHeads{{"num_key_value_heads", "num_attention_heads"}};
const Fields kWindow{{"sliding_window"}};
const Fields kTypes{{"layer_types", "the class's pattern"}};

const std::map<std::string, Fields> kTable{
    {"LlamaForCausalLM", joined({kHeads, kAttention, kFollowing, kSoftcap})},
    {"DeciLMForCausalLM", joined({kAttention, kFollowing, {{"block_configs"}}})},
    {"MistralForCausalLM", joined({kAttention, kFollowing, kWindow})},
    {"MinistralForCausalLM", joined({kAttention, kFollowing, kWindow, kTypes})},
    {"MiniMaxM2ForCausalLM", joined({kAttention, kWide})},
    {"Qwen3ForCausalLM", joined({kAttention, kWide, {{"use_sliding_window", "false"}, {"max_window_layers"}, {"sliding_window"}}})},
    {"Qwen3NextForCausalLM", joined({kAttention, kWide, kGated, kStates})},
    {"Qwen3_5ForConditionalGeneration", joined({kAttention, kWide, kGated, kStates})},
    {"Qwen3_5MoeForConditionalGeneration", joined({kAttention, kWide, kGated, kStates})},
    {"GptOssForCausalLM", joined({kAttention, kWide, kWindow, kTypes})},
    {"Gemma2ForCausalLM", joined({kAttention, kWide, kWindow, kTypes, kSoftcap})},
    {"Gemma3ForConditionalGeneration", joined({kAttention, kWide, kWindow, kTypes, {{"sliding_window_pattern", "6"}}})},
    {"Gemma3nForConditionalGeneration", joined({kAttention, kWide, kWindow, kTypes, {{"num_kv_shared_layers"}}})},
    {"Gemma4ForConditionalGeneration",
     joined(
         {kAttention, kWide, kWindow, {{"layer_types"}, {"num_kv_shared_layers"}, {"global_head_dim"}, {"num_global_key_value_heads"}}})},
    {"Cohere2ForCausalLM", joined({kHeads, kAttention, kFollowing, kWindow, kTypes, {{"sliding_window_pattern", "4"}}})},
    {"Llama4ForConditionalGeneration",
     joined({kAttention, kFollowing, {{"attention_chunk_size"}, {"no_rope_layers", "every 4th"}, {"no_rope_layer_interval", "4"}}})},
    {"MiMoV2FlashForCausalLM", joined({kAttention,
                                       kWide,
                                       kWindow,
                                       {{"v_head_dim"},
                                        {"swa_num_attention_heads"},
                                        {"swa_num_key_value_heads"},
                                        {"swa_head_dim"},
                                        {"swa_v_head_dim"},
                                        {"hybrid_layer_pattern"},
                                        {"add_full_attention_sink_bias", "false"},
                                        {"add_swa_attention_sink_bias", "false"}}})},
    {"DeepseekV3ForCausalLM", kLatent},
    {"DeepseekV32ForCausalLM", joined({kLatent, {{"index_head_dim"}}})},
    {"GlmMoeDsaForCausalLM", joined({kLatent, {{"index_head_dim"}}})},
    {"DeepseekV4ForCausalLM",
     {{"num_hidden_layers"}, {"num_attention_heads"}, {"head_dim"}, {"sliding_window"}, {"index_head_dim"}, {"compress_ratios"}}},
    {"KimiLinearForCausalLM", joined({kLatent, kLinear})},
    {"KimiK3ForConditionalGeneration", joined({kLatent, kLinear})},
    {"NemotronHForCausalLM", joined({{{"num_hidden_layers", "the pattern's"}},
                                     kAttention,
                                     {{"head_dim"}, {"attention_head_dim"}, {"sliding_window", "none"}, {"use_sliding_window", "true"}},
                                     kStates,
                                     {{"hybrid_override_pattern"},
                                      {"layers_block_type"},
                                      {"mamba_num_heads"},
                                      {"mamba_head_dim"},
                                      {"n_groups"},
                                      {"ssm_state_size"},
                                      {"conv_kernel", "4"}}})},
    {"BambaForCausalLM", joined({kAttention, kFollowing, kStates, kMamba2, {{"attn_layer_indices"}}})},
    {"GraniteMoeHybridForCausalLM", joined({kHeads, kAttention, kFollowing, kStates, kMamba2, {{"layer_types"}}})},
    {"FalconH1ForCausalLM", joined({kAttention, kFollowing, kStates, kMamba2})},
    {"Zamba2ForCausalLM", joined({kHeads,
                                  kAttention,
                                  kStates,
                                  {{"attention_head_dim"},
                                   {"n_mamba_heads"},
                                   {"mamba_headdim"},
                                   {"mamba_d_state"},
                                   {"mamba_ngroups", "1"},
                                   {"mamba_d_conv", "4"},
                                   {"layers_block_type"}}})},
    {"JambaForCausalLM", joined({kAttention, kFollowing, kStates, kMamba1, {{"attn_layer_period", "8"}, {"attn_layer_offset", "4"}}})},
    {"FalconMambaForCausalLM", joined({{{"max_position_embeddings", "not stated"}},
                                       kStates,
                                       {{"num_hidden_layers"},
                                        {"hidden_size"},
                                        {"intermediate_size", "expand * hidden_size"},
                                        {"expand", "2"},
                                        {"state_size", "16"},
                                        {"conv_kernel", "4"}}})},
    {"Mamba2ForCausalLM",
     joined({{{"max_position_embeddings", "not stated"}},
             kStates,
             {{"num_hidden_layers"}, {"num_heads"}, {"head_dim"}, {"n_groups"}, {"state_size"}, {"conv_kernel", "4"}}})},
    {"Lfm2ForCausalLM", joined({kAttention, kFollowing, {{"conv_L_cache", "3"}, {"layer_types"}, {"full_attn_idxs"}}})},
    {"Lfm2MoeForCausalLM", joined({kAttention, kFollowing, {{"conv_L_cache", "3"}, {"layer_types"}, {"full_attn_idxs"}}})},
    {"MiniMaxText01ForCausalLM", joined({kAttention, kFollowing, kStates, {{"attn_type_list"}, {"layer_types"}}})},
    {"Phi4FlashForCausalLM", joined({kAttention, kFollowing, kStates, kMamba1, kWindow, {{"mb_per_layer", "2"}}})},
    {"HunYuanForCausalLM",
     joined({kHeads,
             kAttention,
             kFollowing,
             {{"attention_head_dim", "hidden_size / num_attention_heads"}, {"use_cla", "false"}, {"cla_share_factor"}}})},
    {"WhisperForConditionalGeneration",
     {{"decoder_attention_heads"}, {"d_model"}, {"max_target_positions"}, {"max_source_positions"}, {"decoder_layers"}}},
    {"BartForConditionalGeneration", {{"decoder_attention_heads"}, {"d_model"}, {"decoder_layers"}}},
    {"T5ForConditionalGeneration",
     {{"num_heads"}, {"d_kv"}, {"num_layers"}, {"num_decoder_layers", "num_layers"}, {"n_positions", "512"}}}};

// The first entry for a name holds, so that a list can be put before a common one.
const Field* field_of(const std::string& architecture, const std::string& name) {
  for (const Fields* list : {&kTable.at(architecture), &kEvery}) {
    for (const Field& field : *list) {
      if (field.name == name) return &field;
    }
  }
  return nullptr;
}

// Everything that a plan reads of a model.
std::string print_of(const Model& model) {
  std::string out = describe(model) + std::to_string(model.max_model_len());
  for (const LayerCache& cache : model.caches()) {
    quire_layer layer = cache.desc;
    layer.name = {};
    out.append(reinterpret_cast<const char*>(&layer), sizeof layer);
    const FamilyPages& pages = cache.facts.family;
    for (const uint32_t number : {pages.block_tokens, pages.alignment, pages.alignment_fp8, pages.fp8_record, pages.state_chunk}) {
      out += std::to_string(number) + " ";
    }
  }
  return out;
}

std::vector<Json::json_pointer> fields_in(const Json& root) {
  std::vector<Json::json_pointer> out;
  const std::function<void(const Json&, const Json::json_pointer&, int)> walk = [&](const Json& object, const Json::json_pointer& at,
                                                                                    int depth) {
    for (const auto& [key, value] : object.items()) {
      out.push_back(at / key);
      if (value.is_object() && depth < 3) walk(value, at / key, depth + 1);
    }
  };
  walk(root, Json::json_pointer(), 0);
  return out;
}

// Values that no field of a model has.
const std::vector<Json>& impossible() {
  static const std::vector<Json> all{Json("zz"),         Json(-7),          Json(UINT64_MAX), Json(1.5),
                                     Json::array({"q"}), Json::array({-1}), Json::object()};
  return all;
}

const std::set<std::string>& assumable() {
  static const std::set<std::string> all{
      "num_hidden_layers", "num_attention_heads",  "num_key_value_heads",   "hidden_size",         "head_dim",
      "sliding_window",    "num_kv_shared_layers", "linear_num_key_heads",  "linear_key_head_dim", "linear_num_value_heads",
      "kv_lora_rank",      "qk_rope_head_dim",     "linear_value_head_dim", "attention_chunk_size"};
  return all;
}

class Mutated {
 public:
  Mutated(const Json& root, std::string as_it_is) : root_(root), as_it_is_(std::move(as_it_is)) {}

  void check(const Json::json_pointer& at, std::set<std::string>* read) {
    const std::string architecture = root_["architectures"][0];
    const std::string key = at.back();
    const Field* field = decides(at) ? field_of(architecture, key) : nullptr;
    const std::string missing = without(at);
    std::vector<std::string> answers;
    for (const Json& value : impossible()) {
      answers.push_back(with(at, value));
      if (field == nullptr && answers.size() == 2) break;  // nobody reads it: one wrong type and one wrong number show that
    }
    const bool nobody_reads_it =
        missing == "same" && std::all_of(answers.begin(), answers.end(), [](const std::string& one) { return one == "same"; });
    if (nobody_reads_it) return;
    SCOPED_TRACE(architecture + " " + at.to_string());
    ASSERT_NE(field, nullptr) << "decides what is cached and is not in the table: " << missing;
    read->insert(architecture + "/" + key);
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool number = key == "attn_logit_softcapping" && impossible()[i].is_number() && impossible()[i].get<double>() > 0;
      if (number) continue;                                                       // sizes nothing: any number from 0 on
      if (key == "quantization_config" && impossible()[i].is_object()) continue;  // most say nothing of the cache
      EXPECT_TRUE(names(answers[i], key)) << impossible()[i] << ": " << answers[i];
    }
    const bool assumed = nests_a_type(at) && assumable().contains(key);
    const bool means_something = (assumed || field->absent != nullptr) && (missing == "same" || missing == "other");
    EXPECT_TRUE(means_something || names(missing, key)) << missing;
  }

 private:
  // Fields of the text model decide, and those beside it that it does not have; of other objects only those that families name.
  bool decides(const Json::json_pointer& at) const {
    const Json::json_pointer parent = at.parent_pointer();
    if (parent.empty() || parent.back() == "text_config") return true;
    return parent.back() == "linear_attn_config" || parent.back() == "quantization_config" || parent.back() == "kv_cache_scheme";
  }
  // Nested configs have the defaults of their model_type in transformers.
  bool nests_a_type(const Json::json_pointer& at) const {
    const Json::json_pointer parent = at.parent_pointer();
    return !parent.empty() && parent.back() == "text_config" && root_[parent].contains("model_type");
  }
  // Objects are named by what is missing in them.
  static bool names(const std::string& message, const std::string& key) {
    return message.find(key) != std::string::npos || (key == "text_config" && message.find("is missing") != std::string::npos);
  }
  std::string without(const Json::json_pointer& at) const {
    Json changed = root_;
    changed[at.parent_pointer()].erase(at.back());
    return answer(changed);
  }
  std::string with(const Json::json_pointer& at, const Json& value) const {
    Json changed = root_;
    changed[at] = value;
    return answer(changed);
  }
  // "same", "other", or why it is refused.
  std::string answer(const Json& changed) const {
    const auto made = read_hf_config(changed.dump());
    if (!made.ok()) return made.status().message();
    return print_of(made.value()) == as_it_is_ ? "same" : "other";
  }

  const Json& root_;
  const std::string as_it_is_;
};

size_t check_folder(const std::filesystem::path& folder, std::set<std::string>* read) {
  size_t configs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.find("\"specs\"") != std::string::npos) continue;
    SCOPED_TRACE(entry.path().filename().string());
    for (size_t at = 0; (at = text.find("Infinity")) != std::string::npos;) text.replace(at, 8, "1e30");  // no JSON, and nobody reads it
    const Json root = Json::parse(text);
    const auto made = read_hf_config(text);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok() || !kTable.contains(root["architectures"][0])) {
      ADD_FAILURE() << root["architectures"] << " is not in the table";
      continue;
    }
    ++configs;
    Mutated mutated(root, print_of(made.value()));
    for (const Json::json_pointer& at : fields_in(root)) mutated.check(at, read);
  }
  return configs;
}

TEST(HfFields, EveryFieldOfEveryConfigDecidesOrDoesNot) {
  std::set<std::string> read;
  EXPECT_GE(check_folder(QUIRE_SAMPLE_MODELS, &read), 30u);
  EXPECT_GE(read.size(), 200u);
  EXPECT_GE(check_folder(QUIRE_MODEL_CONFIGS, &read), 20u);
}

// What a class fixes for a field that is left out, and this reader does not know or would have to guess: refused by name.
TEST(HfFields, NoDefaultIsGuessed) {
  const auto answer = [](const char* fields) {
    const auto made = read_hf_config(std::string(R"({"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512,
      "max_position_embeddings": 1024, )") +
                                     fields + "}");
    return made.ok() ? std::string("read") : made.status().message();
  };
  const auto lacks = [&](const char* fields, const char* field) {
    EXPECT_NE(answer(fields).find(std::string("config: ") + field), std::string::npos) << fields << ": " << answer(fields);
  };
  EXPECT_EQ(answer(R"("architectures": ["LlamaForCausalLM"])"), "read");
  EXPECT_EQ(answer(R"("architectures": ["MixtralForCausalLM"], "num_key_value_heads": 8)"), "read");
  lacks(R"("architectures": ["MixtralForCausalLM"])", "num_key_value_heads is missing");
  lacks(R"("architectures": ["MistralForCausalLM"], "num_key_value_heads": 8)", "sliding_window is missing; must be tokens, or null");
  EXPECT_EQ(answer(R"("architectures": ["MistralForCausalLM"], "num_key_value_heads": 8, "sliding_window": null)"), "read");
  lacks(R"("architectures": ["Qwen3ForCausalLM"], "num_key_value_heads": 8)", "head_dim is missing");
  lacks(R"("architectures": ["Qwen2ForCausalLM"], "num_key_value_heads": 8, "use_sliding_window": true, "sliding_window": 64)",
        "max_window_layers is missing");
  lacks(R"("architectures": ["HunYuanForCausalLM"], "use_cla": true)", "cla_share_factor is missing");
  lacks(R"("architectures": ["Zamba2ForCausalLM"])", "attention_head_dim or head_dim is missing");
  lacks(R"("architectures": ["Qwen3NextForCausalLM"], "num_key_value_heads": 8, "head_dim": 64)", "full_attention_interval is missing");
  lacks(R"("architectures": ["Lfm2ForCausalLM"], "num_key_value_heads": 8)", "layer_types and full_attn_idxs are missing");
}

}  // namespace
}  // namespace quire
