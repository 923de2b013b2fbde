#include "experts.h"

namespace lm {

ExpertMlps::ExpertMlps(const Weights& weights, const Shape& shape) {
  if (!weights.has("gate_up_proj")) {
    for (int64_t e = 0; e < shape.count; ++e)
      mlps_.emplace_back(weights.at(e), shape.width, shape.inner, shape.activation);
    return;
  }
  const auto stack = [&](std::string_view name, int64_t inputs, int64_t outputs) {
    if (shape.stacked == Order::kInputsOutputs) std::swap(inputs, outputs);
    return weights.tensor(name, {shape.count, outputs, inputs});
  };
  const TensorView gate_up = stack("gate_up_proj", shape.width, 2 * shape.inner);
  const TensorView down = stack("down_proj", shape.inner, shape.width);
  for (int64_t e = 0; e < shape.count; ++e) {
    mlps_.emplace_back(weights.linear_of(gate_up.at(e), shape.stacked),
                       weights.linear_of(down.at(e), shape.stacked), shape.activation);
  }
}

Matrix ExpertMlps::operator()(const Matrix& x, std::span<const Choice> choices) const {
  return mix_experts(
      x, choices, static_cast<int64_t>(mlps_.size()),
      [&](int64_t expert, const Matrix& rows) { return mlps_[static_cast<size_t>(expert)](rows); });
}

int64_t num_experts_of(const ModelConfig& decoder) {
  for (const char* field : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (decoder.has(field)) return decoder.size(field);
  }
  return decoder.size("num_experts");  // which says that it is absent
}

int64_t num_chosen_of(const ModelConfig& decoder, int64_t num_experts) {
  const int64_t chosen = decoder.size("num_experts_per_tok");
  if (chosen > num_experts) {
    decoder.fail("num_experts_per_tok", "there are " + std::to_string(num_experts) + " experts");
  }
  return chosen;
}

Experts::Experts(const ModelConfig& decoder, const Weights& weights, int64_t hidden)
    : normalise_(decoder.flag("norm_topk_prob", false)) {
  const int64_t count = num_experts_of(decoder);
  chosen_ = num_chosen_of(decoder, count);
  router_ = weights.linear("gate", hidden, count);
  experts_ = ExpertMlps(
      weights.at("experts"),
      {count, hidden, decoder.size("moe_intermediate_size"), decoder.text("hidden_act")});
}

Matrix Experts::operator()(const Matrix& x) const {
  const Matrix scores = router_(x);
  std::vector<Choice> choices;
  for (int64_t t = 0; t < x.rows; ++t) {
    choices.push_back(choose_softmax(scores.row(t), chosen_, normalise_));
  }
  return experts_(x, choices);
}

}  // namespace lm
