// gated_delta_net.h: the recurrent layer of Qwen3-Next, Qwen3.5 and their kin.
//
//   q, k, v, z, b, a = projections(x)
//   q, k, v = silu(convolution([q k v]))                of the last few tokens
//   g = -exp(A_log) * softplus(a + dt_bias)             decay, per value head
//   o = delta rule(unit(q), unit(k), v, g, sigmoid(b))  over all tokens
//   out(norm(o) * silu(z))                              norm: per value head
#pragma once

#include "layers.h"
#include "pass.h"

namespace lm {

class GatedDeltaNet {
 public:
  GatedDeltaNet() = default;
  // Reads linear_num_key_heads and so on of the decoder's config. layer: its number in quire's
  // plan.
  GatedDeltaNet(const ModelConfig& decoder, const Weights& weights, int64_t layer);
  Matrix operator()(const Pass& pass, const Matrix& x) const;

 private:
  Linear projections(const Weights& weights) const;

  int64_t layer_ = 0;
  int64_t hidden_ = 0;
  int64_t key_heads_ = 0;
  int64_t value_heads_ = 0;
  int64_t key_dim_ = 0;  // of a head
  int64_t value_dim_ = 0;
  Linear in_;  // q, k, v, z, b, a in a row
  std::vector<float> convolution_;
  std::vector<float> decay_;  // -exp(A_log)
  std::vector<float> dt_bias_;
  RmsNorm norm_;
  Linear out_;
};

}  // namespace lm
