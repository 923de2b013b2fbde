// Nemotron-H and Nemotron 3: one mixer per layer; attention has no positions:
//
//   x = embed(tokens)
//   per layer:  x += mixer(norm(x))
//   logits = head(norm(x))
//
// A mixer is, by its letter in hybrid_override_pattern:
//   M  Mamba-2
//   *  attention
//   -  down(relu2(up(x)))
//   E  experts like "-" by a router in groups, perhaps in a smaller latent space, and a shared one
#include "family.h"
#include "group_router.h"
#include "mamba.h"
#include "self_attention.h"

namespace lm {
namespace {

// down(act(up(x))).
class PlainMlp {
 public:
  PlainMlp() = default;
  PlainMlp(const Weights& w, int64_t width, int64_t inner, std::string_view act, Bias bias)
      : up_(w.linear("up_proj", width, inner, bias)),
        down_(w.linear("down_proj", inner, width, bias)),
        act_(activation(act)) {}
  Matrix operator()(const Matrix& x) const {
    Matrix middle = up_(x);
    act_(middle.data);
    return down_(middle);
  }

 private:
  Linear up_;
  Linear down_;
  Activation act_ = nullptr;
};

// fc2(experts(fc1(x))) + shared(x); fc1 and fc2 are there if moe_latent_size is.
class Experts {
 public:
  Experts() = default;
  Experts(const ModelConfig& config, const Weights& w, int64_t hidden, Bias bias)
      : router_(config, w, hidden) {
    const std::string act = config.text("mlp_hidden_act", "relu2");
    const int64_t width = config.size("moe_latent_size", hidden);
    for (int64_t e = 0; e < num_experts_of(config); ++e) {
      experts_.emplace_back(w.at("experts").at(e), width, config.size("moe_intermediate_size"), act,
                            Bias::kNo);
    }
    shared_ = PlainMlp(w.at("shared_experts"), hidden,
                       config.size("moe_shared_expert_intermediate_size"), act, bias);
    if (!config.has("moe_latent_size")) return;
    to_latent_ = w.linear("fc1_latent_proj", hidden, width, bias);
    from_latent_ = w.linear("fc2_latent_proj", width, hidden, bias);
  }

  Matrix operator()(const Matrix& x) const {
    Matrix out = mix_experts(
        to_latent_ ? to_latent_(x) : x, router_(x), static_cast<int64_t>(experts_.size()),
        [&](int64_t e, const Matrix& rows) { return experts_[static_cast<size_t>(e)](rows); });
    if (from_latent_) out = from_latent_(out);
    add(out, shared_(x));
    return out;
  }

 private:
  GroupRouter router_;
  std::vector<PlainMlp> experts_;
  PlainMlp shared_;
  Linear to_latent_;
  Linear from_latent_;
};

class NemotronH : public Decoder {
 public:
  NemotronH(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    epsilon_ = config_.number("layer_norm_epsilon", 1e-5F);
    const AttentionShape attention = AttentionShape::of(config_);
    const Mamba2Shape mamba = mamba_shape();
    const Bias mlp_bias = config_.flag("mlp_bias", false) ? Bias::kYes : Bias::kNo;
    const std::string letters = pattern();
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.norm = RmsNorm(w, "norm", hidden_, epsilon_);
      layer.letter = letters.at(static_cast<size_t>(i));
      const Weights mixer = w.at("mixer");
      if (layer.letter == 'M') layer.mamba = Mamba2(mixer, i, mamba);
      if (layer.letter == '*') layer.attention = SelfAttention(mixer, i, attention);
      if (layer.letter == 'E') layer.experts = Experts(config_, mixer, hidden_, mlp_bias);
      if (layer.letter == '-') {
        layer.mlp = PlainMlp(mixer, hidden_, config_.size("intermediate_size"),
                             config_.text("mlp_hidden_act", "relu2"), mlp_bias);
      }
    }
    norm_ = RmsNorm(model, "norm_f", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) add(x, mix(layer, pass, layer.norm(x)));
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm norm;
    char letter = 0;
    Mamba2 mamba;
    SelfAttention attention;
    PlainMlp mlp;
    Experts experts;
  };

  static Matrix mix(const Layer& layer, const Pass& pass, const Matrix& x) {
    if (layer.letter == 'M') return layer.mamba(pass, x);
    if (layer.letter == '*') return layer.attention(pass, x, /*rope=*/nullptr);
    return layer.letter == '-' ? layer.mlp(x) : layer.experts(x);
  }

  Mamba2Shape mamba_shape() const {
    Mamba2Shape shape;
    shape.hidden = hidden_;
    shape.heads = config_.size("mamba_num_heads");
    shape.head_dim = config_.size("mamba_head_dim");
    shape.groups = config_.size("n_groups");
    shape.state = config_.size("ssm_state_size");
    shape.kernel = config_.size("conv_kernel", 4);
    shape.in_bias = shape.out_bias = config_.flag("use_bias", false) ? Bias::kYes : Bias::kNo;
    shape.conv_bias = config_.flag("use_conv_bias", true) ? Bias::kYes : Bias::kNo;
    shape.epsilon = epsilon_;
    shape.dt_min = config_.number("time_step_min", 1e-3F);  // time_step_limit is not used
    shape.check(config_, config_.text("mamba_hidden_act", "silu"));
    return shape;
  }

  // One letter per layer, also of files that name the types in words.
  std::string pattern() const {
    if (!config_.has("layers_block_type")) return config_.text("hybrid_override_pattern");
    std::string letters;
    for (const std::string& type : config_.texts("layers_block_type")) {
      letters += type == "mamba" || type == "linear_attention"     ? 'M'
                 : type == "attention" || type == "full_attention" ? '*'
                 : type == "moe"                                   ? 'E'
                                                                   : '-';
    }
    return letters;
  }

  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_nemotron_h(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<NemotronH>(config, weights);
}

}  // namespace lm
