// experts.h: a mixture of gated MLPs with a router by softmax, as Qwen's models have it.
#pragma once

#include "layers.h"
#include "model_config.h"

namespace lm {

// gate (the router) and experts.<n>.{gate_proj,up_proj,down_proj}.
class Experts {
 public:
  Experts() = default;
  // Reads num_experts or num_local_experts, num_experts_per_tok, moe_intermediate_size and
  // norm_topk_prob.
  Experts(const ModelConfig& decoder, const Weights& weights, int64_t hidden);
  explicit operator bool() const { return !experts_.empty(); }
  Matrix operator()(const Matrix& x) const;

 private:
  Linear router_;
  std::vector<GatedMlp> experts_;
  int64_t chosen_ = 0;
  bool normalise_ = false;
};

// The number of experts, and how many a token gets; checked.
int64_t num_experts_of(const ModelConfig& decoder);
int64_t num_chosen_of(const ModelConfig& decoder, int64_t num_experts);

}  // namespace lm
