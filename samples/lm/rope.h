// rope.h: rotary position embedding with the scalings that published models use.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "matrix.h"
#include "model_config.h"

namespace lm {

// What a model turns: the first `width` elements of a head. kHalves turns element i with element
// i + width / 2 (Llama), kPairs turns neighbours (Llama-4, DeepSeek).
enum class RopePairs { kHalves, kPairs };

class Rope {
 public:
  Rope() = default;
  // Reads rope_parameters (or rope_theta and rope_scaling) of the decoder's config: the types
  // default, linear, dynamic, yarn and llama3. width: elements of a head that are turned.
  // layer_type: where a model states one set per type of layer.
  Rope(const ModelConfig& config, int64_t width, std::string_view layer_type = {});
  // Without scaling.
  Rope(float theta, int64_t width);

  int64_t width() const { return static_cast<int64_t>(frequencies_.size()) * 2; }
  std::span<const float> frequencies() const { return frequencies_; }
  // Turns each head of each row: `heads` heads of row width / heads elements, from element `first`
  // of the head on.
  void turn(Matrix& rows, int64_t heads, std::span<const int32_t> positions,
            RopePairs pairs = RopePairs::kHalves, int64_t first = 0) const;

 private:
  void scale_linear(float factor);
  void scale_llama3(const ModelConfig& rope);
  void scale_yarn(const ModelConfig& rope, const ModelConfig& config, float theta);
  // cos and sin of all frequencies at a position, [2 * width / 2].
  const float* angles(int32_t position) const;

  std::vector<float> frequencies_;
  float attention_factor_ = 1;        // of cos and sin
  mutable std::vector<float> table_;  // of the positions seen so far
};

}  // namespace lm
