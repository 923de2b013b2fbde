// experts.h: the gated MLPs of a mixture of experts.
#pragma once

#include "layers.h"

namespace lm {

class Experts {
 public:
  struct Shape {
    int64_t count = 0;
    int64_t width = 0;
    int64_t inner = 0;
    std::string_view activation;
    Order stacked = Order::kOutputsInputs;  // of the matrices of stacked tensors
  };

  Experts() = default;
  // <expert>.{gate,up,down}_proj.weight, or all stacked: gate_up_proj [count, 2 * inner, width] and
  // down_proj [count, width, inner].
  Experts(const Weights& weights, const Shape& shape);

  // The sum of the chosen experts' rows by their shares.
  Matrix operator()(const Matrix& x, std::span<const Choice> choices) const;
  explicit operator bool() const { return !experts_.empty(); }

 private:
  std::vector<GatedMlp> experts_;
};

}  // namespace lm
