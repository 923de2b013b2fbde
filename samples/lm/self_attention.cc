#include "self_attention.h"

#include "lm_error.h"

namespace lm {

AttentionShape AttentionShape::of(const ModelConfig& decoder) {
  AttentionShape shape;
  shape.hidden = decoder.size("hidden_size");
  shape.heads = decoder.size("num_attention_heads");
  shape.kv_heads = decoder.size("num_key_value_heads", shape.heads);
  if (shape.heads % shape.kv_heads != 0)
    decoder.fail("num_key_value_heads", "must divide num_attention_heads");
  shape.head_dim = decoder.size("head_dim", std::max<int64_t>(shape.hidden / shape.heads, 1));
  shape.qkv_bias = shape.out_bias = decoder.flag("attention_bias", false) ? Bias::kYes : Bias::kNo;
  return shape;
}

SelfAttention::SelfAttention(const Weights& weights, int64_t layer, const AttentionShape& shape)
    : shape_(shape),
      layer_(layer),
      qkv_(weights.joined(
          std::vector<std::string>{"q_proj", "k_proj", "v_proj"}, shape.hidden,
          std::vector<int64_t>{shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim,
                               shape.kv_heads * shape.head_dim},
          shape.qkv_bias)),
      out_(weights.linear(shape.out_name, shape.heads * shape.head_dim, shape.hidden,
                          shape.out_bias)) {}

Matrix SelfAttention::operator()(const Pass& pass, const Matrix& x, const Rope* rope) const {
  const Matrix qkv = qkv_(x);
  const int64_t q_width = shape_.heads * shape_.head_dim;
  const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
  Matrix q = columns(qkv, 0, q_width);
  Matrix k = columns(qkv, q_width, kv_width);
  const Matrix v = columns(qkv, q_width + kv_width, kv_width);
  if (query_norm_) query_norm_.apply(q);
  if (key_norm_) key_norm_.apply(k);
  if (rope != nullptr) {
    rope->turn(q, shape_.heads, pass.positions());
    rope->turn(k, shape_.kv_heads, pass.positions());
  }
  return out_(
      pass.attend(layer_, q, k, v, {shape_.scale, sinks_.empty() ? nullptr : sinks_.data()}));
}

}  // namespace lm
