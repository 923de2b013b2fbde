// experts.h: mixtures of gated MLPs, and one with a router by softmax, as Qwen's models have it.
#pragma once

#include "layers.h"
#include "model_config.h"

namespace lm {

// <n>.{gate_proj,up_proj,down_proj}, or all stacked: gate_up_proj and down_proj.
class ExpertMlps {
 public:
  struct Shape {
    int64_t count = 0;
    int64_t width = 0;
    int64_t inner = 0;
    std::string_view activation;
    Order stacked = Order::kOutputsInputs;  // of each matrix of stacked tensors
  };
  ExpertMlps() = default;
  ExpertMlps(const Weights& weights, const Shape& shape);
  explicit ExpertMlps(std::vector<GatedMlp> mlps) : mlps_(std::move(mlps)) {}
  explicit operator bool() const { return !mlps_.empty(); }
  // The sum of the chosen experts' rows by their shares.
  Matrix operator()(const Matrix& x, std::span<const Choice> choices) const;

 private:
  std::vector<GatedMlp> mlps_;
};

// gate (the router) and experts.
class Experts {
 public:
  Experts() = default;
  // Reads num_experts or num_local_experts, num_experts_per_tok, moe_intermediate_size and
  // norm_topk_prob.
  Experts(const ModelConfig& decoder, const Weights& weights, int64_t hidden);
  explicit operator bool() const { return static_cast<bool>(experts_); }
  Matrix operator()(const Matrix& x) const;

 private:
  Linear router_;
  ExpertMlps experts_;
  int64_t chosen_ = 0;
  bool normalise_ = false;
};

// The number of experts, and how many a token gets; checked.
int64_t num_experts_of(const ModelConfig& decoder);
int64_t num_chosen_of(const ModelConfig& decoder, int64_t num_experts);

}  // namespace lm
