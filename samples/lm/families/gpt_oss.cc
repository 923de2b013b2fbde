// gpt-oss: windows and full attention in turn, sinks, and experts in every layer:
//
//   x = embed(tokens)
//   per layer:  x += o(attention(rope(q(norm(x))), rope(k(norm(x))), v(norm(x)), sinks))
//               x += sum of the k best experts, shares = softmax(router(norm(x)) of these k)
//   expert:     gate = min(gate(x), limit), up = clamp(up(x), limit)
//               down((up + 1) * gate * sigmoid(alpha * gate))
//   logits = head(norm(x))
//
// A sink is a logit per head that takes part in the softmax and has no value.
#include <algorithm>

#include "experts.h"
#include "family.h"
#include "self_attention.h"

namespace lm {
namespace {

class GptOss : public Decoder {
 public:
  GptOss(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    AttentionShape shape = AttentionShape::of(config_);
    rope_ = Rope(config_, shape.head_dim);
    inner_ = config_.size("intermediate_size");
    num_experts_ = num_experts_of(config_);
    chosen_ = num_chosen_of(config_, num_experts_);
    limit_ = config_.number("swiglu_limit", 7.0F);
    alpha_ = config_.number("swiglu_alpha", 1.702F);
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      layer.attention = SelfAttention(w.at("self_attn"), i, shape);
      layer.attention.set_sinks(w.vector("self_attn.sinks", shape.heads));
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      layer.router = w.linear("mlp.router", hidden_, num_experts_, Bias::kYes);
      add_experts(layer, w.at("mlp.experts"));
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      add(x, layer.attention(pass, layer.input_norm(x), &rope_));
      add(x, experts(layer, layer.post_norm(x)));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    SelfAttention attention;
    RmsNorm post_norm;
    Linear router;
    std::vector<Linear> gate_up;  // by expert: gate and up alternate
    std::vector<Linear> down;
  };

  void add_experts(Layer& layer, const Weights& w) {
    if (w.has("gate_up_proj_blocks")) {
      config_.fail("quantization_config",
                   "this engine reads bf16, fp16 and fp32; convert the experts to bf16");
    }
    const TensorView gate_up = w.tensor("gate_up_proj", {num_experts_, hidden_, 2 * inner_});
    const TensorView gate_up_bias = w.tensor("gate_up_proj_bias", {num_experts_, 2 * inner_});
    const TensorView down = w.tensor("down_proj", {num_experts_, inner_, hidden_});
    const TensorView down_bias = w.tensor("down_proj_bias", {num_experts_, hidden_});
    for (int64_t e = 0; e < num_experts_; ++e) {
      layer.gate_up.push_back(
          w.linear_of(gate_up.at(e), Order::kInputsOutputs, gate_up_bias.at(e).floats()));
      layer.down.push_back(
          w.linear_of(down.at(e), Order::kInputsOutputs, down_bias.at(e).floats()));
    }
  }

  Matrix experts(const Layer& layer, const Matrix& x) const {
    const Matrix scores = layer.router(x);
    std::vector<Choice> choices;
    for (int64_t r = 0; r < x.rows; ++r)
      choices.push_back(choose_softmax(scores.row(r), chosen_, true));
    return mix_experts(x, choices, num_experts_, [&](int64_t expert, const Matrix& rows) {
      const auto e = static_cast<size_t>(expert);
      return layer.down[e](gated(layer.gate_up[e](rows)));
    });
  }

  Matrix gated(const Matrix& both) const {
    Matrix middle(both.rows, inner_);
    for (int64_t r = 0; r < both.rows; ++r) {
      for (int64_t i = 0; i < inner_; ++i) {
        const float gate = std::min(both[r][2 * i], limit_);
        const float up = std::clamp(both[r][2 * i + 1], -limit_, limit_);
        middle[r][i] = (up + 1) * gate * sigmoid(alpha_ * gate);
      }
    }
    return middle;
  }

  Rope rope_;
  int64_t inner_ = 0;
  int64_t num_experts_ = 0;
  int64_t chosen_ = 0;
  float limit_ = 0;
  float alpha_ = 0;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_gpt_oss(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<GptOss>(config, weights);
}

}  // namespace lm
