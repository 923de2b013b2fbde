#include "experts.h"

namespace lm {

Experts::Experts(const Weights& weights, const Shape& shape) {
  if (!weights.has("gate_up_proj")) {
    for (int64_t e = 0; e < shape.count; ++e)
      experts_.emplace_back(weights.at(e), shape.width, shape.inner, shape.activation);
    return;
  }
  const bool is_plain = shape.stacked == Order::kOutputsInputs;
  const auto stack = [&](std::string_view name, int64_t inputs, int64_t outputs) {
    return weights.tensor(name,
                          {shape.count, is_plain ? outputs : inputs, is_plain ? inputs : outputs});
  };
  const TensorView gate_up = stack("gate_up_proj", shape.width, 2 * shape.inner);
  const TensorView down = stack("down_proj", shape.inner, shape.width);
  for (int64_t e = 0; e < shape.count; ++e) {
    experts_.emplace_back(weights.linear_of(gate_up.at(e), shape.stacked),
                          weights.linear_of(down.at(e), shape.stacked), shape.activation);
  }
}

Matrix Experts::operator()(const Matrix& x, std::span<const Choice> choices) const {
  return mix_experts(x, choices, static_cast<int64_t>(experts_.size()),
                     [&](int64_t expert, const Matrix& rows) {
                       return experts_[static_cast<size_t>(expert)](rows);
                     });
}

}  // namespace lm
