// self_attention.h: multi-head attention with grouped keys and values, as most decoders have it.
#pragma once

#include "layers.h"
#include "pass.h"
#include "rope.h"

namespace lm {

// What differs between models.
struct AttentionShape {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  Bias qkv_bias = Bias::kNo;
  Bias out_bias = Bias::kNo;
  float scale = 0;  // 0 = 1 / sqrt(head_dim)
  std::string_view out_name = "o_proj";

  // Reads num_attention_heads, num_key_value_heads, head_dim and attention_bias.
  static AttentionShape of(const ModelConfig& decoder);
};

class SelfAttention {
 public:
  SelfAttention() = default;
  // q_proj, k_proj, v_proj and out_name; layer: its number in quire's plan.
  SelfAttention(const Weights& weights, int64_t layer, const AttentionShape& shape);

  // Norms over the heads of queries and keys, before rope.
  void set_norms(RmsNorm query, RmsNorm key) {
    query_norm_ = std::move(query);
    key_norm_ = std::move(key);
  }
  void set_sinks(std::vector<float> sinks) { sinks_ = std::move(sinks); }
  // rope: NULL = none.
  Matrix operator()(const Pass& pass, const Matrix& x, const Rope* rope) const;

 private:
  AttentionShape shape_;
  int64_t layer_ = 0;
  Linear qkv_;
  Linear out_;
  RmsNorm query_norm_;
  RmsNorm key_norm_;
  std::vector<float> sinks_;
};

}  // namespace lm
