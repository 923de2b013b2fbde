// mamba.h: mixers with a selective state space. The convolution and the recurrence are quire's.
#pragma once

#include <vector>

#include "layers.h"
#include "pass.h"

namespace lm {

// What differs between models with Mamba-2.
struct Mamba2Shape {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t groups = 1;  // of heads that share b and c
  int64_t state = 0;
  int64_t kernel = 4;
  Bias in_bias = Bias::kNo;
  Bias conv_bias = Bias::kYes;
  Bias out_bias = Bias::kNo;
  float dt_min = 0;
  float dt_max = 0;  // 0 = no limit
  float epsilon = 0;
  bool normed = true;  // false: the gate alone, without a norm
  bool norm_before_gate = false;
  std::vector<float> multipliers;  // of gate, x, b, c and dt; empty = none

  int64_t inner() const { return heads * head_dim; }
  int64_t convolved() const { return inner() + 2 * groups * state; }

  // Reads the fields mamba_* and time_step_limit, as Bamba, Granite-4 and Falcon-H1 name them.
  static Mamba2Shape of(const ModelConfig& decoder);
  // Error if they do not fit, or the activation is not silu.
  void check(const ModelConfig& decoder, std::string_view activation) const;
};

//   gate, xbc, dt = in_proj(u)
//   x, b, c       = silu(conv(xbc))
//   y             = scan(x, dt + dt_bias, -exp(A_log), b, c) + D x
//   out_proj(norm(y * silu(gate)))      the norm is taken over each group
class Mamba2 {
 public:
  Mamba2() = default;
  // layer: its number in quire's plan.
  Mamba2(const Weights& weights, int64_t layer, const Mamba2Shape& shape);
  Matrix operator()(const Pass& pass, const Matrix& u) const;

 private:
  void gate_and_norm(Matrix& y, const Matrix& gate) const;

  Mamba2Shape shape_;
  int64_t layer_ = 0;
  Linear in_;
  std::vector<float> multipliers_;  // of each output of in_proj
  std::vector<float> conv_;
  std::vector<float> conv_bias_;
  std::vector<float> a_;
  std::vector<float> skip_;
  std::vector<float> dt_bias_;
  RmsNorm group_norm_;
  std::vector<float> norm_weight_;
  Linear out_;
};

// The weights [channels, 1, width] of a convolution, one after another.
std::vector<float> convolution_weights(const Weights& weights, std::string_view name,
                                       int64_t channels, int64_t width);
// a = -exp(A_log).
std::vector<float> decays(const TensorView& a_log);
// Every row of x times these factors, one per column.
void scale_columns(Matrix& x, std::span<const float> factors);
// y *= act(gate).
void apply_gate(Matrix& y, Matrix gate, Activation act);

}  // namespace lm
