// What nested configs leave out: transformers writes only what differs from the defaults of its config classes, so these are known by
// model_type. Taken from transformers 4.57.1 and 5.24.0, which agree in all of them; a field that is not here is not assumed.
#include <algorithm>
#include <array>
#include <charconv>

#include "core/model/hf_rules.h"

namespace quire {
namespace {

constexpr std::array kAssumedFields{"num_hidden_layers", "num_attention_heads",     "num_key_value_heads", "hidden_size",
                                    "head_dim",          "max_position_embeddings", "sliding_window"};

struct Assumed {
  const char* type;
  std::array<uint64_t, kAssumedFields.size()> of_fields;  // 0 = the class says none
  const char* more;                                       // field=value, between spaces
};

constexpr std::array kAssumed{
    Assumed{"aria_text", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"cohere", {40, 64, 0, 8192, 0, 8192, 0}, ""},
    Assumed{"cohere2", {40, 64, 0, 8192, 0, 8192, 4096}, ""},
    Assumed{"cohere_compass_text", {40, 64, 0, 8192, 0, 8192, 4096}, ""},
    Assumed{"cosmos3_edge_text", {28, 16, 8, 2048, 128, 131072, 0}, ""},
    Assumed{"deepseek_ocr2_text", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"deepseek_v2", {0, 32, 0, 4096, 0, 2048, 0}, "kv_lora_rank=512 qk_rope_head_dim=64 qk_nope_head_dim=128"},
    Assumed{"deepseek_v3", {61, 128, 128, 7168, 0, 4096, 0}, "kv_lora_rank=512 qk_rope_head_dim=64 qk_nope_head_dim=128"},
    Assumed{"emu3_text_model", {32, 32, 8, 4096, 0, 9216, 0}, ""},
    Assumed{"ernie4_5", {18, 16, 2, 1024, 128, 131072, 0}, ""},
    Assumed{"ernie4_5_vl_moe_text", {28, 20, 4, 2560, 0, 131072, 0}, ""},
    Assumed{"exaone4", {32, 32, 32, 4096, 0, 2048, 4096}, ""},
    Assumed{"gemma", {28, 16, 16, 3072, 256, 8192, 0}, ""},
    Assumed{"gemma2", {26, 8, 4, 2304, 256, 8192, 4096}, "attn_logit_softcapping=50"},
    Assumed{"gemma3_text", {26, 8, 4, 2304, 256, 131072, 4096}, ""},
    Assumed{"gemma3n_text", {35, 8, 2, 2048, 256, 32768, 512}, "num_kv_shared_layers=15"},
    Assumed{"gemma4_text", {30, 8, 4, 2304, 256, 131072, 512}, "num_kv_shared_layers=0 attention_k_eq_v=false"},
    Assumed{"gemma4_unified_text", {30, 8, 4, 2304, 256, 262144, 1024}, "num_kv_shared_layers=0 attention_k_eq_v=false"},
    Assumed{"glm4", {40, 32, 2, 4096, 128, 131072, 0}, ""},
    Assumed{"glm4v_moe_text", {46, 96, 8, 4096, 0, 65536, 0}, ""},
    Assumed{"glm4v_text", {40, 32, 2, 4096, 0, 32768, 0}, ""},
    Assumed{"glm_ocr_text", {16, 16, 8, 1024, 0, 131072, 0}, ""},
    Assumed{"gpt_oss", {36, 64, 8, 2880, 64, 131072, 128}, ""},
    Assumed{"granite", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"granite4_vision_text", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"granite_docling_text", {28, 16, 4, 1024, 0, 32768, 0}, ""},
    Assumed{"hunyuan_vl_text", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"hyperclovax", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"kosmos_2_5_text_model", {0, 0, 0, 0, 0, 4096, 0}, "layers=24 attention_heads=16 embed_dim=1536"},
    Assumed{"kosmos_2_text_model", {0, 0, 0, 0, 0, 2048, 0}, "layers=24 attention_heads=32 embed_dim=2048"},
    Assumed{"lfm2", {32, 32, 8, 2560, 0, 128000, 0}, "conv_L_cache=3"},
    Assumed{"lfm2_moe", {32, 32, 8, 2048, 0, 128000, 0}, "conv_L_cache=3"},
    Assumed{"lfm3", {24, 16, 4, 2048, 128, 128000, 256}, "conv_L_cache=7"},
    Assumed{"llama", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"llama4_text", {48, 40, 8, 5120, 128, 131072, 0}, "attention_chunk_size=8192"},
    Assumed{"ministral3", {34, 32, 8, 4096, 128, 262144, 0}, ""},
    Assumed{"mistral", {32, 32, 8, 4096, 0, 131072, 4096}, ""},
    Assumed{"mistral4", {36, 32, 32, 4096, 0, 1048576, 0}, "kv_lora_rank=256 qk_rope_head_dim=64 qk_nope_head_dim=64"},
    Assumed{"mixtral", {32, 32, 8, 4096, 0, 131072, 0}, ""},
    Assumed{"molmo2_text", {36, 32, 8, 4096, 128, 36864, 0}, ""},
    Assumed{"muse_glimmer_text", {52, 32, 2, 6656, 128, 131072, 2048}, ""},
    Assumed{"muse_spark_text", {62, 128, 16, 8192, 64, 1048576, 2048}, ""},
    Assumed{"musicgen_decoder", {24, 16, 0, 1024, 0, 2048, 0}, ""},
    Assumed{"musicgen_melody_decoder", {24, 16, 0, 1024, 0, 2048, 0}, ""},
    Assumed{"olmo2", {32, 32, 0, 4096, 0, 2048, 0}, ""},
    Assumed{"olmo3", {32, 32, 0, 4096, 0, 2048, 4096}, ""},
    Assumed{"opt", {12, 12, 0, 768, 0, 2048, 0}, ""},
    Assumed{"paddleocr_vl_text", {18, 16, 2, 1024, 128, 131072, 0}, ""},
    Assumed{"persimmon", {36, 64, 0, 4096, 0, 16384, 0}, ""},
    Assumed{"phi", {24, 32, 0, 2048, 0, 2048, 0}, ""},
    Assumed{"phi3", {32, 32, 0, 3072, 0, 4096, 0}, ""},
    Assumed{"qwen2", {32, 32, 32, 4096, 0, 32768, 4096}, "use_sliding_window=false max_window_layers=28"},
    Assumed{"qwen2_5_omni_text", {28, 28, 4, 3584, 0, 32768, 32768}, "use_sliding_window=false max_window_layers=28"},
    Assumed{"qwen2_5_vl_text", {80, 64, 8, 8192, 0, 32768, 4096}, "use_sliding_window=false max_window_layers=80"},
    Assumed{"qwen2_moe", {24, 16, 16, 2048, 0, 32768, 4096}, "use_sliding_window=false max_window_layers=28"},
    Assumed{"qwen2_vl_text", {80, 64, 8, 8192, 0, 32768, 4096}, "use_sliding_window=false max_window_layers=80"},
    Assumed{"qwen3", {32, 32, 32, 4096, 128, 32768, 4096}, "use_sliding_window=false max_window_layers=28"},
    Assumed{"qwen3_5_moe_text",
            {40, 16, 2, 2048, 256, 32768, 0},
            "linear_num_key_heads=16 linear_num_value_heads=32 linear_key_head_dim=128 linear_value_head_dim=128 linear_conv_kernel_dim=4"},
    Assumed{"qwen3_5_text",
            {32, 16, 4, 4096, 256, 32768, 0},
            "linear_num_key_heads=16 linear_num_value_heads=32 linear_key_head_dim=128 linear_value_head_dim=128 linear_conv_kernel_dim=4"},
    Assumed{"qwen3_moe", {24, 32, 4, 2048, 0, 32768, 4096}, "use_sliding_window=false"},
    Assumed{"qwen3_omni_moe_text", {28, 28, 4, 2048, 0, 32768, 0}, ""},
    Assumed{"qwen3_vl_moe_text", {24, 16, 16, 2048, 0, 128000, 0}, ""},
    Assumed{"qwen3_vl_text", {32, 32, 32, 4096, 128, 128000, 0}, ""},
    Assumed{"seed_oss", {64, 80, 8, 4096, 128, 524288, 0}, ""},
    Assumed{"smollm3", {36, 16, 4, 2048, 0, 32768, 0}, "use_sliding_window=false"},
    Assumed{"stablelm", {32, 32, 32, 2560, 0, 4096, 0}, ""},
    Assumed{"starcoder2", {30, 24, 2, 3072, 0, 4096, 0}, ""},
    Assumed{"step3p5", {45, 64, 8, 4096, 128, 128000, 0}, ""},
};

Json assumed_value(std::string_view text) {
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size() ? Json(number) : Json(text == "true");
}

}  // namespace

Json defaults_of(std::string_view model_type) {
  Json::Object out;
  const auto* row = std::find_if(kAssumed.begin(), kAssumed.end(), [&](const Assumed& one) { return model_type == one.type; });
  if (row == kAssumed.end()) return {};
  for (size_t i = 0; i < kAssumedFields.size(); ++i) {
    if (row->of_fields[i] != 0) out.push_back({kAssumedFields[i], Json(row->of_fields[i])});
  }
  for (std::string_view rest = row->more; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    const size_t equals = one.find('=');
    out.push_back({std::string(one.substr(0, equals)), assumed_value(one.substr(equals + 1))});
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  std::sort(out.begin(), out.end(), [](const Json::Member& a, const Json::Member& b) { return a.key < b.key; });
  return Json(std::move(out));
}

}  // namespace quire
