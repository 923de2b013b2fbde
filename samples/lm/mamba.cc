#include "mamba.h"

#include <cmath>

namespace lm {

std::vector<float> convolution_weights(const Weights& weights, std::string_view name,
                                       int64_t channels, int64_t width) {
  return weights.tensor(std::string(name) + ".weight", {channels, 1, width}).floats();
}

std::vector<float> decays(const TensorView& a_log) {
  std::vector<float> a = a_log.floats();
  for (float& value : a) value = -std::exp(value);
  return a;
}

void scale_columns(Matrix& x, std::span<const float> factors) {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = x[r];
    for (size_t i = 0; i < factors.size(); ++i) row[i] *= factors[i];
  }
}

void apply_gate(Matrix& y, Matrix gate, Activation act) {
  act(gate.data);
  multiply(y, gate);
}

Mamba2Shape Mamba2Shape::of(const ModelConfig& decoder) {
  Mamba2Shape shape;
  shape.hidden = decoder.size("hidden_size");
  shape.heads = decoder.size("mamba_n_heads");
  shape.head_dim = decoder.size("mamba_d_head");
  shape.groups = decoder.size("mamba_n_groups", 1);
  shape.state = decoder.size("mamba_d_state");
  shape.kernel = decoder.size("mamba_d_conv", 4);
  shape.conv_bias = decoder.flag("mamba_conv_bias", true) ? Bias::kYes : Bias::kNo;
  shape.in_bias = shape.out_bias = decoder.flag("mamba_proj_bias", false) ? Bias::kYes : Bias::kNo;
  shape.epsilon = decoder.number("rms_norm_eps", 1e-5F);
  if (decoder.has("time_step_limit")) {
    const std::vector<float> limit = decoder.numbers("time_step_limit");
    if (limit.size() != 2) decoder.fail("time_step_limit", "must be two numbers");
    shape.dt_min = limit[0];
    shape.dt_max = limit[1];
  }
  shape.check(decoder, decoder.text("hidden_act", "silu"));
  return shape;
}

void Mamba2Shape::check(const ModelConfig& decoder, std::string_view activation) const {
  if (heads % groups != 0) {
    decoder.fail(decoder.has("n_groups") ? "n_groups" : "mamba_n_groups",
                 "must divide the " + std::to_string(heads) + " heads of Mamba-2");
  }
  if (activation != "silu") decoder.fail("hidden_act", "the convolution of Mamba-2 knows silu");
}

Mamba2::Mamba2(const Weights& weights, int64_t layer, const Mamba2Shape& shape)
    : shape_(shape),
      layer_(layer),
      in_(weights.linear("in_proj", shape.hidden, shape.inner() + shape.convolved() + shape.heads,
                         shape.in_bias)),
      conv_(convolution_weights(weights, "conv1d", shape.convolved(), shape.kernel)),
      a_(decays(weights.tensor("A_log", {shape.heads}))),
      skip_(weights.vector("D", shape.heads)),
      dt_bias_(weights.vector("dt_bias", shape.heads)),
      out_(weights.linear("out_proj", shape.inner(), shape.hidden, shape.out_bias)) {
  if (shape.conv_bias == Bias::kYes) conv_bias_ = weights.vector("conv1d.bias", shape.convolved());
  if (shape.normed) {
    group_norm_ = RmsNorm(shape.inner() / shape.groups, shape.epsilon);
    norm_weight_ = weights.vector("norm.weight", shape.inner());
  }
  if (shape.multipliers.empty()) return;
  const int64_t widths[] = {shape.inner(), shape.inner(), shape.groups * shape.state,
                            shape.groups * shape.state, shape.heads};
  for (size_t part = 0; part < std::size(widths); ++part) {
    multipliers_.insert(multipliers_.end(), static_cast<size_t>(widths[part]),
                        shape.multipliers.at(part));
  }
}

void Mamba2::gate_and_norm(Matrix& y, const Matrix& gate) const {
  const Activation silu = activation("silu");
  if (!shape_.normed || !shape_.norm_before_gate) apply_gate(y, gate, silu);
  if (!shape_.normed) return;
  group_norm_.apply(y);
  scale_columns(y, norm_weight_);
  if (shape_.norm_before_gate) apply_gate(y, gate, silu);
}

Matrix Mamba2::operator()(const Pass& pass, const Matrix& u) const {
  const int64_t inner = shape_.inner();
  const int64_t shared = shape_.groups * shape_.state;
  Matrix projected = in_(u);
  scale_columns(projected, multipliers_);
  const Matrix gate = columns(projected, 0, inner);
  const Matrix xbc = pass.convolve(layer_, columns(projected, inner, shape_.convolved()),
                                   {conv_, conv_bias_, true});
  Scan scan;
  scan.x = columns(xbc, 0, inner);
  scan.b = columns(xbc, inner, shared);
  scan.c = columns(xbc, inner + shared, shared);
  scan.dt = columns(projected, inner + shape_.convolved(), shape_.heads);
  scan.a = a_;
  scan.skip = skip_;
  scan.dt_bias = dt_bias_;
  scan.dt_min = shape_.dt_min;
  scan.dt_max = shape_.dt_max;
  Matrix y = pass.scan(layer_, scan);
  gate_and_norm(y, gate);
  return out_(y);
}

}  // namespace lm
