#include "rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lm_error.h"

namespace lm {
namespace {

// Two sets of names: rope_parameters of transformers 5, rope_theta and rope_scaling before.
ModelConfig parameters_of(const ModelConfig& config, std::string_view layer_type) {
  ModelConfig rope = config.object("rope_parameters");
  if (rope.empty()) return config.object("rope_scaling");
  if (!layer_type.empty() && rope.has(layer_type)) return rope.object(layer_type);
  return rope;
}

float yarn_factor(float scale, float mscale) {
  return scale <= 1 ? 1.0F : 0.1F * mscale * std::log(scale) + 1.0F;
}

}  // namespace

Rope::Rope(float theta, int64_t width) {
  if (width < 2 || width % 2 != 0)
    throw Error("rope: a width of " + std::to_string(width) + " is not even");
  for (int64_t i = 0; i < width; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(width);
    frequencies_.push_back(1.0F / std::pow(theta, exponent));
  }
}

Rope::Rope(const ModelConfig& config, int64_t width, std::string_view layer_type) {
  const ModelConfig rope = parameters_of(config, layer_type);
  const float theta =
      rope.has("rope_theta") ? rope.number("rope_theta") : config.number("rope_theta", 10000.0F);
  *this = Rope(theta, width);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "linear") {
    scale_linear(rope.number("factor"));
  } else if (type == "llama3") {
    scale_llama3(rope);
  } else if (type == "yarn") {
    scale_yarn(rope, config, theta);
  } else if (type != "default" && type != "dynamic") {
    // dynamic is the default up to max_position_embeddings, and longer sequences are not planned.
    rope.fail(rope.has("rope_type") ? "rope_type" : "type",
              "this engine knows default, linear, dynamic, yarn and llama3");
  }
}

void Rope::scale_linear(float factor) {
  for (float& f : frequencies_) f /= factor;
}

void Rope::scale_llama3(const ModelConfig& rope) {
  const float factor = rope.number("factor");
  const float low = rope.number("low_freq_factor");
  const float high = rope.number("high_freq_factor");
  const float length = rope.number("original_max_position_embeddings");
  for (float& f : frequencies_) {
    const float wave = 2 * std::numbers::pi_v<float> / f;
    if (wave > length / low) {
      f /= factor;
    } else if (wave >= length / high) {
      const float smooth = (length / wave - low) / (high - low);
      f = (1 - smooth) * f / factor + smooth * f;
    }
  }
}

void Rope::scale_yarn(const ModelConfig& rope, const ModelConfig& config, float theta) {
  const float longest = config.number("max_position_embeddings", 4096.0F);
  const float original = rope.number("original_max_position_embeddings", longest);
  const float factor = rope.has("factor") ? rope.number("factor") : longest / original;
  const auto width_f = static_cast<float>(width());
  const float mscale = rope.number("mscale", 0.0F);
  const float mscale_all = rope.number("mscale_all_dim", 0.0F);
  const float otherwise = mscale != 0 && mscale_all != 0
                              ? yarn_factor(factor, mscale) / yarn_factor(factor, mscale_all)
                              : yarn_factor(factor, 1);
  attention_factor_ = rope.number("attention_factor", otherwise);
  const auto dimension = [&](float rotations) {
    return width_f * std::log(original / (rotations * 2 * std::numbers::pi_v<float>)) /
           (2 * std::log(theta));
  };
  float low = dimension(rope.number("beta_fast", 32.0F));
  float high = dimension(rope.number("beta_slow", 1.0F));
  if (rope.flag("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0F);
  high = std::min(high, width_f - 1);
  if (low == high) high += 0.001F;
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - low) / (high - low), 0.0F, 1.0F);
    frequencies_[i] = frequencies_[i] / factor * ramp + frequencies_[i] * (1 - ramp);
  }
}

const float* Rope::angles(int32_t position) const {
  const size_t half = frequencies_.size();
  const auto wanted = static_cast<size_t>(position) + 1;
  for (size_t p = table_.size() / (2 * half); p < wanted; ++p) {
    for (const bool is_sine : {false, true}) {
      for (const float f : frequencies_) {
        const double angle = static_cast<float>(p) * f;
        table_.push_back(attention_factor_ *
                         static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle)));
      }
    }
  }
  return table_.data() + static_cast<size_t>(position) * 2 * half;
}

void Rope::turn(Matrix& rows, int64_t heads, std::span<const int32_t> positions, RopePairs pairs,
                int64_t first) const {
  const int64_t head = rows.width / heads;
  const auto half = static_cast<int64_t>(frequencies_.size());
  if (first + 2 * half > head)
    throw Error("rope: " + std::to_string(2 * half) + " elements of a head of " +
                std::to_string(head));
  const int64_t step = pairs == RopePairs::kHalves ? 1 : 2;
  const int64_t apart = pairs == RopePairs::kHalves ? half : 1;
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* cosines = angles(positions[static_cast<size_t>(r)]);
    const float* sines = cosines + half;
    for (int64_t h = 0; h < heads; ++h) {
      float* x = rows[r] + h * head + first;
      for (int64_t i = 0; i < half; ++i) {
        float& a = x[i * step];
        float& b = x[i * step + apart];
        const float turned = a * cosines[i] - b * sines[i];
        b = b * cosines[i] + a * sines[i];
        a = turned;
      }
    }
  }
}

}  // namespace lm
