// Bamba: most layers have Mamba-2, some attention with rope on half of each head:
//
//   x = embed(tokens)
//   per layer:  x += mamba(norm(x))
//           or  x += o(attention(rope(q(norm(x))), rope(k(norm(x))), v(norm(x))))
//               x += down(silu(gate(norm(x))) * up(norm(x)))
//   logits = head(norm(x))
#include <algorithm>

#include "family.h"
#include "mamba.h"
#include "self_attention.h"

namespace lm {
namespace {

class Bamba : public Decoder {
 public:
  Bamba(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    const AttentionShape attention = AttentionShape::of(config_);
    const Mamba2Shape mamba = Mamba2Shape::of(config_);
    const Bias mlp_bias = config_.flag("mlp_bias", false) ? Bias::kYes : Bias::kNo;
    const float turned =
        config_.object("rope_parameters").number("partial_rotary_factor", kTurnedPart);
    rope_ = Rope(config_, static_cast<int64_t>(static_cast<float>(attention.head_dim) * turned));
    std::vector<int64_t> attends;
    if (config_.has("attn_layer_indices")) attends = config_.integers("attn_layer_indices");
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      layer.attends = std::find(attends.begin(), attends.end(), i) != attends.end();
      if (layer.attends) {
        layer.attention = SelfAttention(w.at("self_attn"), i, attention);
      } else {
        layer.mamba = Mamba2(w.at("mamba"), i, mamba);
      }
      layer.mlp_norm = RmsNorm(w, "pre_ff_layernorm", hidden_, epsilon_);
      layer.mlp = GatedMlp(w.at("feed_forward"), hidden_, config_.size("intermediate_size"),
                           config_.text("hidden_act", "silu"), mlp_bias);
    }
    norm_ = RmsNorm(model, "final_layernorm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      const Matrix input = layer.input_norm(x);
      add(x, layer.attends ? layer.attention(pass, input, &rope_) : layer.mamba(pass, input));
      add(x, layer.mlp(layer.mlp_norm(x)));
    }
    return norm_(x);
  }

 private:
  static constexpr float kTurnedPart = 0.5F;  // of a head, where config.json does not say it

  struct Layer {
    RmsNorm input_norm;
    bool attends = false;
    SelfAttention attention;
    Mamba2 mamba;
    RmsNorm mlp_norm;
    GatedMlp mlp;
  };
  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_bamba(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Bamba>(config, weights);
}

}  // namespace lm
