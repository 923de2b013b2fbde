// Granite 4: Mamba-2 or attention, mostly without positions; experts and an MLP for all tokens;
// four multipliers:
//
//   x = embed(tokens) * embedding_multiplier
//   per layer:  x += residual_multiplier * (mamba(norm(x)) or attention(norm(x)))
//               x += residual_multiplier * (experts(norm(x)) + shared(norm(x)))
//   logits = head(norm(x)) / logits_scaling
//
// The router takes the softmax over the logits of the chosen experts. Dense models have no experts.
#include <optional>

#include "experts.h"
#include "family.h"
#include "mamba.h"
#include "self_attention.h"

namespace lm {
namespace {

class GraniteHybrid : public Decoder {
 public:
  GraniteHybrid(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    AttentionShape attention = AttentionShape::of(config_);
    attention.scale = config_.number("attention_multiplier", 1.0F);
    embedding_multiplier_ = config_.number("embedding_multiplier", 1.0F);
    residual_multiplier_ = config_.number("residual_multiplier", 1.0F);
    logit_scale_ = 1 / config_.number("logits_scaling", 1.0F);
    num_experts_ = config_.integer("num_local_experts", 8);
    if (num_experts_ > 0) chosen_ = num_chosen_of(config_, num_experts_);
    if (config_.text("position_embedding_type", "none") == "rope")
      rope_ = Rope(config_, attention.head_dim);
    const std::vector<std::string> types = config_.texts("layer_types");
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      const std::string& type = types.at(static_cast<size_t>(i));
      layer.attends = type == "full_attention" || type == "attention";
      if (layer.attends) {
        layer.attention = SelfAttention(w.at("self_attn"), i, attention);
      } else {
        layer.mamba = Mamba2(w.at("mamba"), i, Mamba2Shape::of(config_));
      }
      layer.mlp_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      layer.shared = shared_mlp(w.at("shared_mlp"));
      if (num_experts_ > 0) read_experts(w.at("block_sparse_moe"), layer);
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    multiply(x, embedding_multiplier_);
    for (const Layer& layer : layers_) {
      const Matrix input = layer.input_norm(x);
      add(x, layer.attends ? layer.attention(pass, input, rope()) : layer.mamba(pass, input),
          residual_multiplier_);
      const Matrix middle = layer.mlp_norm(x);
      Matrix out = layer.shared(middle);
      if (num_experts_ > 0) add(out, experts(layer, middle));
      add(x, out, residual_multiplier_);
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    bool attends = false;
    SelfAttention attention;
    Mamba2 mamba;
    RmsNorm mlp_norm;
    GatedMlp shared;
    Linear router;
    ExpertMlps experts;
  };

  const Rope* rope() const { return rope_ ? &*rope_ : nullptr; }
  std::string act() const { return config_.text("hidden_act", "silu"); }

  GatedMlp shared_mlp(const Weights& w) const {
    const int64_t inner = config_.size("shared_intermediate_size", 1024);
    return {w.linear("input_linear", hidden_, 2 * inner), w.linear("output_linear", inner, hidden_),
            act()};
  }

  void read_experts(const Weights& w, Layer& layer) const {
    const int64_t inner = config_.size("intermediate_size");
    layer.router = w.linear("router.layer", hidden_, num_experts_);
    const TensorView in = w.tensor("input_linear.weight", {num_experts_, 2 * inner, hidden_});
    const TensorView out = w.tensor("output_linear.weight", {num_experts_, hidden_, inner});
    std::vector<GatedMlp> experts;
    for (int64_t e = 0; e < num_experts_; ++e)
      experts.emplace_back(w.linear_of(in.at(e)), w.linear_of(out.at(e)), act());
    layer.experts = ExpertMlps(std::move(experts));
  }

  Matrix experts(const Layer& layer, const Matrix& x) const {
    const Matrix scores = layer.router(x);
    std::vector<Choice> choices;
    for (int64_t t = 0; t < x.rows; ++t)
      choices.push_back(choose_softmax(scores.row(t), chosen_, /*normalise=*/true));
    return layer.experts(x, choices);
  }

  float embedding_multiplier_ = 1;
  float residual_multiplier_ = 1;
  int64_t num_experts_ = 0;
  int64_t chosen_ = 0;
  std::optional<Rope> rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_granite_hybrid(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<GraniteHybrid>(config, weights);
}

}  // namespace lm
