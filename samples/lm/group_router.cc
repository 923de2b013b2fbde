#include "group_router.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lm {

GroupRouter::GroupRouter(const ModelConfig& decoder, const Weights& weights, int64_t hidden)
    : experts_(num_experts_of(decoder)),
      chosen_(num_chosen_of(decoder, experts_)),
      groups_(decoder.size("n_group", 1)),
      chosen_groups_(decoder.size("topk_group", 1)),
      scale_(decoder.number("routed_scaling_factor", 1)),
      normalise_(decoder.flag("norm_topk_prob", true)),
      scores_(weights.linear("gate", hidden, experts_)),
      bias_(weights.vector("gate.e_score_correction_bias", experts_)) {
  if (experts_ % groups_ != 0) decoder.fail("n_group", "must divide the number of experts");
  if (chosen_groups_ > groups_) decoder.fail("topk_group", "must be at most n_group");
  if (chosen_ > chosen_groups_ * (experts_ / groups_))
    decoder.fail("num_experts_per_tok", "the chosen groups have fewer experts");
}

std::vector<Choice> GroupRouter::operator()(const Matrix& x) const {
  Matrix scores = scores_(x);
  for (float& score : scores.data) score = sigmoid(score);
  std::vector<Choice> choices;
  for (int64_t t = 0; t < x.rows; ++t) choices.push_back(choose(scores.row(t)));
  return choices;
}

Choice GroupRouter::choose(std::span<const float> scores) const {
  const int64_t size = experts_ / groups_;
  std::vector<float> biased(scores.begin(), scores.end());
  for (size_t e = 0; e < biased.size(); ++e) biased[e] += bias_[e];
  std::vector<float> of_group;
  for (int64_t g = 0; g < groups_; ++g) {
    const std::span<const float> members(biased.data() + g * size, static_cast<size_t>(size));
    float sum = 0;
    for (const int64_t e : top_k(members, std::min<int64_t>(2, size)))
      sum += members[static_cast<size_t>(e)];
    of_group.push_back(sum);
  }
  std::vector<float> allowed(biased.size(), -std::numeric_limits<float>::infinity());
  for (const int64_t g : top_k(of_group, chosen_groups_))
    std::copy_n(biased.begin() + g * size, size, allowed.begin() + g * size);
  Choice choice{top_k(allowed, chosen_), {}};
  for (const int64_t e : choice.experts) choice.shares.push_back(scores[static_cast<size_t>(e)]);
  const float sum = std::accumulate(choice.shares.begin(), choice.shares.end(), 0.0F);
  for (float& share : choice.shares) share *= scale_ / (normalise_ ? sum + 1e-20F : 1);
  return choice;
}

}  // namespace lm
