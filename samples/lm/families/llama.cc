// Llama 2 and 3, Mistral, Qwen2 (biases of q, k, v), Qwen3 (norms of query and key heads) and its
// mixture of experts:
//
//   x = embed(tokens)
//   per layer:  x += o(attention(rope(q(norm(x))), rope(k(norm(x))), v(norm(x))))
//               x += down(silu(gate(norm(x))) * up(norm(x)))
//   logits = head(norm(x))
//
// Experts: down(...) is the sum over the chosen experts by the router's shares.
#include <algorithm>

#include "experts.h"
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
      if (type.starts_with("qwen3")) {
        layer.attention.set_norms(RmsNorm(w, "self_attn.q_norm", shape.head_dim, epsilon_),
                                  RmsNorm(w, "self_attn.k_norm", shape.head_dim, epsilon_));
      }
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      if (has_experts(i)) {
        layer.experts = Experts(config_, w.at("mlp"), hidden_);
      } else {
        layer.mlp = GatedMlp(w.at("mlp"), hidden_, config_.size("intermediate_size"),
                             config_.text("hidden_act"), mlp_bias);
      }
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      add(x, layer.attention(pass, layer.input_norm(x), &rope_));
      const Matrix y = layer.post_norm(x);
      add(x, layer.experts ? layer.experts(y) : layer.mlp(y));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    SelfAttention attention;
    RmsNorm post_norm;
    GatedMlp mlp;
    Experts experts;  // in place of mlp
  };

  bool has_experts(int64_t layer) const {
    if (config_.text("model_type") != "qwen3_moe") return false;
    const std::vector<int64_t> dense = config_.has("mlp_only_layers")
                                           ? config_.integers("mlp_only_layers")
                                           : std::vector<int64_t>{};
    return std::find(dense.begin(), dense.end(), layer) == dense.end() &&
           (layer + 1) % config_.size("decoder_sparse_step", 1) == 0;
  }

  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_llama(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Llama>(config, weights);
}

}  // namespace lm
