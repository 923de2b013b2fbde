// LFM2: short convolutions between two gates, attention with norms of queries and keys in some
// layers:
//
//   x = embed(tokens)
//   per layer:  x += conv(norm(x))   or  o(attention(rope(norm(q)), rope(norm(k)), v))
//               x += w2(silu(w1(norm(x))) * w3(norm(x)))
//   logits = head(norm(x))
//
// conv: b, c, y = in_proj(x);  out_proj(c * convolution(b * y))
#include <algorithm>

#include "family.h"
#include "mamba.h"
#include "self_attention.h"

namespace lm {
namespace {

class GatedConvolution {
 public:
  GatedConvolution() = default;
  GatedConvolution(const ModelConfig& config, const Weights& w, int64_t layer)
      : layer_(layer), hidden_(config.size("hidden_size")) {
    const Bias bias = config.flag("conv_bias", false) ? Bias::kYes : Bias::kNo;
    in_ = w.linear("in_proj", hidden_, 3 * hidden_, bias);
    conv_ = convolution_weights(w, "conv", hidden_, config.size("conv_L_cache", 3));
    if (bias == Bias::kYes) conv_bias_ = w.vector("conv.bias", hidden_);
    out_ = w.linear("out_proj", hidden_, hidden_, bias);
  }

  Matrix operator()(const Pass& pass, const Matrix& x) const {
    const Matrix all = in_(x);
    Matrix y = columns(all, 2 * hidden_, hidden_);
    multiply(y, columns(all, 0, hidden_));
    y = pass.convolve(layer_, y, {conv_, conv_bias_});
    multiply(y, columns(all, hidden_, hidden_));
    return out_(y);
  }

 private:
  int64_t layer_ = 0;
  int64_t hidden_ = 0;
  Linear in_;
  std::vector<float> conv_;
  std::vector<float> conv_bias_;
  Linear out_;
};

class Lfm2 : public Decoder {
 public:
  Lfm2(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    epsilon_ = config_.number("norm_eps", 1e-5F);
    AttentionShape attention = AttentionShape::of(config_);
    attention.out_name = "out_proj";
    rope_ = Rope(config_, attention.head_dim);
    const std::vector<bool> attends = attending();
    const int64_t inner = inner_size();
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "operator_norm", hidden_, epsilon_);
      layer.attends = attends.at(static_cast<size_t>(i));
      if (layer.attends) {
        const Weights own = w.at("self_attn");
        layer.attention = SelfAttention(own, i, attention);
        layer.attention.set_norms(RmsNorm(own, "q_layernorm", attention.head_dim, epsilon_),
                                  RmsNorm(own, "k_layernorm", attention.head_dim, epsilon_));
      } else {
        layer.conv = GatedConvolution(config_, w.at("conv"), i);
      }
      layer.mlp_norm = RmsNorm(w, "ffn_norm", hidden_, epsilon_);
      const Weights mlp = w.at("feed_forward");
      const std::vector<std::string> names = {"w1", "w3"};
      layer.mlp = GatedMlp(mlp.joined(names, hidden_, std::vector<int64_t>{inner, inner}),
                           mlp.linear("w2", inner, hidden_), "silu");
    }
    norm_ = RmsNorm(model, "embedding_norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      const Matrix input = layer.input_norm(x);
      add(x, layer.attends ? layer.attention(pass, input, &rope_) : layer.conv(pass, input));
      add(x, layer.mlp(layer.mlp_norm(x)));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    bool attends = false;
    SelfAttention attention;
    GatedConvolution conv;
    RmsNorm mlp_norm;
    GatedMlp mlp;
  };

  // layer_types, or full_attn_idxs of older files.
  std::vector<bool> attending() const {
    std::vector<bool> attends(static_cast<size_t>(num_layers_));
    if (config_.has("layer_types")) {
      const std::vector<std::string> types = config_.texts("layer_types");
      for (size_t i = 0; i < attends.size(); ++i) attends[i] = types.at(i) == "full_attention";
      return attends;
    }
    for (const int64_t i : config_.integers("full_attn_idxs"))
      attends.at(static_cast<size_t>(i)) = true;
    return attends;
  }

  // Two thirds of what config.json says, times a factor, rounded up.
  int64_t inner_size() const {
    const int64_t stated = config_.has("block_ff_dim") ? config_.size("block_ff_dim")
                                                       : config_.size("intermediate_size");
    if (!config_.flag("block_auto_adjust_ff_dim", true)) return stated;
    const double factor = config_.number("block_ffn_dim_multiplier", 1.0F);
    const int64_t part = 2 * stated / 3;
    const auto wanted = static_cast<int64_t>(factor * static_cast<double>(part));
    const int64_t unit = config_.size("block_multiple_of", 256);
    return (wanted + unit - 1) / unit * unit;
  }

  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_lfm2(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Lfm2>(config, weights);
}

}  // namespace lm
