// group_router.h: the router of DeepSeek-V3, which others took over.
#pragma once

#include "experts.h"

namespace lm {

// Scores are sigmoid(gate(x)). A bias that training sets takes part in the choice only: groups by
// the sum of their two best, then the best experts of the chosen groups. Shares are the scores,
// normalised if norm_topk_prob, times routed_scaling_factor.
class GroupRouter {
 public:
  GroupRouter() = default;
  // gate.weight and gate.e_score_correction_bias.
  GroupRouter(const ModelConfig& decoder, const Weights& weights, int64_t hidden);
  std::vector<Choice> operator()(const Matrix& x) const;

 private:
  Choice choose(std::span<const float> scores) const;

  int64_t experts_ = 0;
  int64_t chosen_ = 0;
  int64_t groups_ = 1;
  int64_t chosen_groups_ = 1;
  float scale_ = 1;
  bool normalise_ = true;
  Linear scores_;
  std::vector<float> bias_;
};

}  // namespace lm
