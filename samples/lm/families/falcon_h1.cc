// Falcon-H1: Mamba-2 and attention side by side in every layer, and a multiplier for every part:
//
//   x = embed(tokens) * embedding_multiplier
//   per layer:  y = norm(x)
//               x += mamba(y * ssm_in_multiplier) * ssm_out_multiplier
//                  + attention(y * attention_in_multiplier) * attention_out_multiplier
//               x += down(act(gate(norm(x)) * mlp_multipliers[0]) * up(norm(x))) *
//               mlp_multipliers[1]
//   logits = head(norm(x)) * lm_head_multiplier
//
// Keys are multiplied by key_multiplier, what goes into Mamba by the five ssm_multipliers.
#include <cmath>

#include "family.h"
#include "mamba.h"
#include "self_attention.h"

namespace lm {
namespace {

class FalconH1 : public Decoder {
 public:
  FalconH1(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    embedding_multiplier_ = config_.number("embedding_multiplier", 1.0F);
    logit_scale_ = config_.number("lm_head_multiplier", 1.0F);
    attention_in_ = config_.number("attention_in_multiplier", 1.0F);
    attention_out_ = config_.number("attention_out_multiplier", 1.0F);
    mamba_in_ = config_.number("ssm_in_multiplier", 1.0F);
    mamba_out_ = config_.number("ssm_out_multiplier", 1.0F);
    const std::vector<float> mlp = multipliers("mlp_multipliers", 2);
    gate_ = mlp[0];
    down_ = mlp[1];
    act_ = activation(config_.text("hidden_act", "silu"));
    AttentionShape attention = AttentionShape::of(config_);
    attention.scale =
        config_.number("key_multiplier", 1.0F) / std::sqrt(static_cast<float>(attention.head_dim));
    const Mamba2Shape mamba = mamba_shape();
    const Bias mlp_bias = config_.flag("mlp_bias", false) ? Bias::kYes : Bias::kNo;
    const int64_t inner = config_.size("intermediate_size");
    rope_ = Rope(config_, attention.head_dim);
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      layer.mamba = Mamba2(w.at("mamba"), i, mamba);
      layer.attention = SelfAttention(w.at("self_attn"), i, attention);
      layer.mlp_norm = RmsNorm(w, "pre_ff_layernorm", hidden_, epsilon_);
      layer.gate = w.linear("feed_forward.gate_proj", hidden_, inner, mlp_bias);
      layer.up = w.linear("feed_forward.up_proj", hidden_, inner, mlp_bias);
      layer.down = w.linear("feed_forward.down_proj", inner, hidden_, mlp_bias);
    }
    norm_ = RmsNorm(model, "final_layernorm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    multiply(x, embedding_multiplier_);
    for (const Layer& layer : layers_) {
      const Matrix y = layer.input_norm(x);
      add(x, layer.mamba(pass, times(y, mamba_in_)), mamba_out_);
      add(x, layer.attention(pass, times(y, attention_in_), &rope_), attention_out_);
      add(x, mlp(layer, layer.mlp_norm(x)), down_);
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    Mamba2 mamba;
    SelfAttention attention;
    RmsNorm mlp_norm;
    Linear gate;
    Linear up;
    Linear down;
  };

  static Matrix times(Matrix x, float factor) {
    multiply(x, factor);
    return x;
  }

  Matrix mlp(const Layer& layer, const Matrix& x) const {
    Matrix middle = layer.up(x);
    apply_gate(middle, times(layer.gate(x), gate_), act_);
    return layer.down(middle);
  }

  std::vector<float> multipliers(std::string_view field, size_t count) const {
    if (!config_.has(field)) return std::vector<float>(count, 1.0F);
    std::vector<float> values = config_.numbers(field);
    if (values.size() != count)
      config_.fail(field, "must be " + std::to_string(count) + " numbers");
    return values;
  }

  Mamba2Shape mamba_shape() const {
    Mamba2Shape shape = Mamba2Shape::of(config_);
    shape.out_bias = config_.flag("projectors_bias", false) ? Bias::kYes : Bias::kNo;
    shape.normed = config_.flag("mamba_rms_norm", false);
    shape.norm_before_gate = config_.flag("mamba_norm_before_gate", true);
    shape.multipliers = multipliers("ssm_multipliers", 5);
    return shape;
  }

  float embedding_multiplier_ = 1;
  float attention_in_ = 1;
  float attention_out_ = 1;
  float mamba_in_ = 1;
  float mamba_out_ = 1;
  float gate_ = 1;
  float down_ = 1;
  Activation act_ = nullptr;
  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_falcon_h1(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<FalconH1>(config, weights);
}

}  // namespace lm
