// LaraMini: gated delta nets, windows with rope and full attention without positions, experts in
// every layer:
//
//   x = embed(tokens)
//   per layer:  x += gated_delta_net(norm(x))                                                  or
//               x += o(attention(rope(norm(q)), rope(norm(k)), v)), all of norm(x), a window   or
//               x += o(attention(norm(q), norm(k), v)), all of norm(x)
//               x += experts(norm(x)) by softmax(router(norm(x))) + shared_expert(norm(x))
//   logits = head(norm(x)), tied to embed
#include "experts.h"
#include "family.h"
#include "gated_delta_net.h"
#include "self_attention.h"

namespace lm {
namespace {

class LaraMini : public Decoder {
 public:
  LaraMini(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    const AttentionShape shape = AttentionShape::of(config_);
    rope_ = Rope(config_, shape.head_dim);
    const std::vector<std::string> types = config_.texts("layer_types");
    if (static_cast<int64_t>(types.size()) != num_layers_)
      config_.fail("layer_types", "must have num_hidden_layers entries");
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.type = types[static_cast<size_t>(i)];
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      if (layer.type == "linear_attention") {
        layer.delta = GatedDeltaNet(config_, w.at("linear_attn"), i);
      } else {
        layer.attention = SelfAttention(w.at("self_attn"), i, shape);
        layer.attention.set_norms(RmsNorm(w, "self_attn.q_norm", shape.head_dim, epsilon_),
                                  RmsNorm(w, "self_attn.k_norm", shape.head_dim, epsilon_));
      }
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      layer.experts =
          Experts(config_.with_defaults(R"({"norm_topk_prob": true})"), w.at("mlp"), hidden_);
      layer.shared =
          GatedMlp(w.at("mlp.shared_expert"), hidden_,
                   config_.size("shared_expert_intermediate_size"), config_.text("hidden_act"));
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      add(x, mixed(layer, pass, layer.input_norm(x)));
      const Matrix y = layer.post_norm(x);
      add(x, layer.experts(y));
      add(x, layer.shared(y));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    std::string type;
    RmsNorm input_norm;
    GatedDeltaNet delta;
    SelfAttention attention;
    RmsNorm post_norm;
    Experts experts;
    GatedMlp shared;
  };

  Matrix mixed(const Layer& layer, const Pass& pass, const Matrix& x) const {
    if (layer.type == "linear_attention") return layer.delta(pass, x);
    return layer.attention(pass, x, layer.type == "sliding_attention" ? &rope_ : nullptr);
  }

  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_lara_mini(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<LaraMini>(config, weights);
}

}  // namespace lm
