#include "gated_delta_net.h"

#include <cmath>

namespace lm {

GatedDeltaNet::GatedDeltaNet(const ModelConfig& decoder, const Weights& weights, int64_t layer)
    : layer_(layer),
      hidden_(decoder.size("hidden_size")),
      key_heads_(decoder.size("linear_num_key_heads")),
      value_heads_(decoder.size("linear_num_value_heads")),
      key_dim_(decoder.size("linear_key_head_dim")),
      value_dim_(decoder.size("linear_value_head_dim")) {
  if (value_heads_ % key_heads_ != 0)
    decoder.fail("linear_num_key_heads", "must divide linear_num_value_heads");
  if (decoder.text("hidden_act", "silu") != "silu")
    decoder.fail("hidden_act", "the convolution of a gated delta net has silu");
  in_ = projections(weights);
  const int64_t channels = 2 * key_heads_ * key_dim_ + value_heads_ * value_dim_;
  const int64_t width = decoder.size("linear_conv_kernel_dim");
  convolution_ = weights.tensor("conv1d.weight", {channels, 1, width}).floats();
  decay_ = weights.vector("A_log", value_heads_);
  for (float& a : decay_) a = -std::exp(a);
  dt_bias_ = weights.vector("dt_bias", value_heads_);
  norm_ = RmsNorm(weights, weights.has("out_norm.weight") ? "out_norm" : "norm", value_dim_,
                  decoder.number("rms_norm_eps", 1e-6F));
  out_ = weights.linear("out_proj", value_heads_ * value_dim_, hidden_);
}

// Checkpoints have one tensor, four, or two in which the rows of each key head are together.
Linear GatedDeltaNet::projections(const Weights& weights) const {
  const int64_t keys = key_heads_ * key_dim_;
  const int64_t values = value_heads_ * value_dim_;
  if (weights.has("in_proj.weight"))
    return weights.linear("in_proj", hidden_, 2 * keys + 2 * values + 2 * value_heads_);
  if (weights.has("in_proj_qkv.weight")) {
    const std::vector<std::string> names = {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"};
    return weights.joined(
        names, hidden_,
        std::vector<int64_t>{2 * keys + values, values, value_heads_, value_heads_});
  }
  const TensorView qkvz = weights.tensor("in_proj_qkvz.weight", {2 * keys + 2 * values, hidden_});
  const TensorView ba = weights.tensor("in_proj_ba.weight", {2 * value_heads_, hidden_});
  const int64_t group = value_heads_ / key_heads_;  // value heads of a key head
  const int64_t group_dim = group * value_dim_;
  std::vector<TensorView> rows;
  const auto of_all_heads = [&](const TensorView& from, int64_t first, int64_t count) {
    const int64_t pitch = from.shape[0] / key_heads_;
    for (int64_t h = 0; h < key_heads_; ++h) rows.push_back(from.slice(h * pitch + first, count));
  };
  of_all_heads(qkvz, 0, key_dim_);
  of_all_heads(qkvz, key_dim_, key_dim_);
  of_all_heads(qkvz, 2 * key_dim_, group_dim);
  of_all_heads(qkvz, 2 * key_dim_ + group_dim, group_dim);
  of_all_heads(ba, 0, group);
  of_all_heads(ba, group, group);
  return weights.linear_of(std::move(rows));
}

Matrix GatedDeltaNet::operator()(const Pass& pass, const Matrix& x) const {
  const int64_t keys = key_heads_ * key_dim_;
  const int64_t values = value_heads_ * value_dim_;
  const Matrix all = in_(x);
  const Matrix qkv =
      pass.convolve(layer_, columns(all, 0, 2 * keys + values), {convolution_, {}, true});
  Delta delta;
  delta.query = columns(qkv, 0, keys);
  delta.key = columns(qkv, keys, keys);
  delta.value = columns(qkv, 2 * keys, values);
  delta.beta = columns(all, 2 * keys + 2 * values, value_heads_);
  delta.gate = columns(all, 2 * keys + 2 * values + value_heads_, value_heads_);
  for (float& b : delta.beta.data) b = sigmoid(b);
  for (int64_t t = 0; t < x.rows; ++t) {
    const std::span<float> gate = delta.gate.row(t);
    for (size_t h = 0; h < gate.size(); ++h) gate[h] = decay_[h] * softplus(gate[h] + dt_bias_[h]);
  }
  Matrix o = pass.delta(layer_, delta);
  norm_.apply(o);
  Matrix z = columns(all, 2 * keys + values, values);
  for (float& v : z.data) v = silu(v);
  multiply(o, z);
  return out_(o);
}

}  // namespace lm
