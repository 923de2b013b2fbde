// Llama 2 and 3, Mistral, Qwen2 (biases of q, k, v) and Qwen3 (norms of query and key heads):
//
//   x = embed(tokens)
//   per layer:  x += o(attention(rope(q(norm(x))), rope(k(norm(x))), v(norm(x))))
//               x += down(silu(gate(norm(x))) * up(norm(x)))
//   logits = head(norm(x))
#include "family.h"
#include "self_attention.h"

namespace lm {
namespace {

class Llama : public Decoder {
 public:
  Llama(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    const std::string type = config_.text("model_type");
    AttentionShape shape = AttentionShape::of(config_);
    if (type == "qwen2") shape.qkv_bias = Bias::kYes;
    const Bias mlp_bias = config_.flag("mlp_bias", false) ? Bias::kYes : Bias::kNo;
    rope_ = Rope(config_, shape.head_dim);
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      layer.attention = SelfAttention(w.at("self_attn"), i, shape);
      if (type == "qwen3") {
        layer.attention.set_norms(RmsNorm(w, "self_attn.q_norm", shape.head_dim, epsilon_),
                                  RmsNorm(w, "self_attn.k_norm", shape.head_dim, epsilon_));
      }
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      layer.mlp = GatedMlp(w.at("mlp"), hidden_, config_.size("intermediate_size"),
                           config_.text("hidden_act"), mlp_bias);
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      add(x, layer.attention(pass, layer.input_norm(x), &rope_));
      add(x, layer.mlp(layer.post_norm(x)));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    SelfAttention attention;
    RmsNorm post_norm;
    GatedMlp mlp;
  };
  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_llama(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Llama>(config, weights);
}

}  // namespace lm
