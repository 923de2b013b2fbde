// layers.h: what the layers of language models are made of, in plain code.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "matrix.h"
#include "weights.h"

namespace lm {

// x / rms(x) * weight.
class RmsNorm {
 public:
  RmsNorm() = default;
  // plus: added to the weights (Gemma, Qwen3-Next: 1).
  RmsNorm(const Weights& weights, std::string_view name, int64_t width, float epsilon,
          float plus = 0);
  // Without weights.
  RmsNorm(int64_t width, float epsilon)
      : weight_(static_cast<size_t>(width), 1.0F), epsilon_(epsilon) {}

  Matrix operator()(const Matrix& x) const;
  // In place, over groups of as many elements as there are weights: heads of a row.
  void apply(Matrix& x) const;
  explicit operator bool() const { return !weight_.empty(); }

 private:
  std::vector<float> weight_;
  float epsilon_ = 0;
};

// (x - mean) / deviation * weight + bias.
class LayerNorm {
 public:
  LayerNorm() = default;
  LayerNorm(const Weights& weights, std::string_view name, int64_t width, float epsilon);
  Matrix operator()(const Matrix& x) const;

 private:
  std::vector<float> weight_;
  std::vector<float> bias_;
  float epsilon_ = 0;
};

float silu(float x);
float sigmoid(float x);
float softplus(float x);
// By the name that config.json gives it: silu, gelu, gelu_pytorch_tanh, relu, relu2. In place.
using Activation = void (*)(std::span<float>);
Activation activation(std::string_view name);
// In place.
void softmax(std::span<float> x);
// cap * tanh(x / cap), in place.
void soft_cap(Matrix& x, float cap);

// down(act(gate(x)) * up(x)).
class GatedMlp {
 public:
  GatedMlp() = default;
  // gate_proj, up_proj and down_proj.
  GatedMlp(const Weights& weights, int64_t width, int64_t inner, std::string_view activation,
           Bias bias = Bias::kNo);
  // gate_up gives gate and up in a row.
  GatedMlp(Linear gate_up, Linear down, std::string_view activation);
  Matrix operator()(const Matrix& x) const;

 private:
  Linear gate_up_;
  Linear down_;
  Activation act_ = nullptr;
};

// The experts that a router chose for one token.
struct Choice {
  std::vector<int64_t> experts;
  std::vector<float> shares;
};
// The k largest of a row of scores, largest first. Of equal ones the first.
std::vector<int64_t> top_k(std::span<const float> scores, int64_t k);
// Softmax over all experts, then the k largest; with normalise their shares sum to 1.
Choice choose_softmax(std::span<const float> logits, int64_t k, bool normalise);

// Sends every token through its experts: run(expert, rows of its tokens) returns one row per token.
// The result is the sum of the experts' rows by their shares.
Matrix mix_experts(const Matrix& x, std::span<const Choice> choices, int64_t num_experts,
                   const std::function<Matrix(int64_t expert, const Matrix& rows)>& run);

}  // namespace lm
