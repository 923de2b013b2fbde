// Jamba: Mamba-1 with norms of its projections, attention without positions in some layers, experts
// in some:
//
//   x = embed(tokens)
//   per layer:  x += mamba(norm(x))   or  attention(norm(x))    every attn_layer_period
//               x += mlp(norm(x))     or  experts(norm(x))      every expert_layer_period
//   logits = head(norm(x))
//
// The router's shares are a softmax over all experts; those of the chosen are not normalised.
#include "experts.h"
#include "family.h"
#include "mamba.h"
#include "self_attention.h"

namespace lm {
namespace {

//   x, gate  = in_proj(u)
//   x        = silu(conv(x))
//   dt, b, c = norms of x_proj(x);  dt = dt_proj(dt)
//   y        = scan(x, softplus(dt), -exp(A_log), b, c) + D x
//   out_proj(y * silu(gate))
class Mamba1 {
 public:
  Mamba1() = default;
  Mamba1(const ModelConfig& config, const Weights& w, int64_t layer, float epsilon)
      : layer_(layer),
        channels_(config.size("hidden_size") * config.size("mamba_expand", 2)),
        state_(config.size("mamba_d_state", 16)),
        rank_(rank_of(config)) {
    const int64_t hidden = config.size("hidden_size");
    const Bias bias = config.flag("mamba_proj_bias", false) ? Bias::kYes : Bias::kNo;
    if (config.text("hidden_act", "silu") != "silu")
      config.fail("hidden_act", "the convolution of Mamba knows silu");
    in_ = w.linear("in_proj", hidden, 2 * channels_, bias);
    conv_ = convolution_weights(w, "conv1d", channels_, config.size("mamba_d_conv", 4));
    if (config.flag("mamba_conv_bias", true)) conv_bias_ = w.vector("conv1d.bias", channels_);
    x_ = w.linear("x_proj", channels_, rank_ + 2 * state_);
    dt_norm_ = RmsNorm(w, "dt_layernorm", rank_, epsilon);
    b_norm_ = RmsNorm(w, "b_layernorm", state_, epsilon);
    c_norm_ = RmsNorm(w, "c_layernorm", state_, epsilon);
    dt_ = w.linear("dt_proj", rank_, channels_);
    dt_bias_ = w.vector("dt_proj.bias", channels_);
    a_ = decays(w.tensor("A_log", {channels_, state_}));
    skip_ = w.vector("D", channels_);
    out_ = w.linear("out_proj", channels_, hidden, bias);
  }

  Matrix operator()(const Pass& pass, const Matrix& u) const {
    const Matrix both = in_(u);
    Scan scan;
    scan.x = pass.convolve(layer_, columns(both, 0, channels_), {conv_, conv_bias_, true});
    const Matrix projected = x_(scan.x);
    scan.dt = dt_(dt_norm_(columns(projected, 0, rank_)));
    scan.b = b_norm_(columns(projected, rank_, state_));
    scan.c = c_norm_(columns(projected, rank_ + state_, state_));
    scan.a = a_;
    scan.skip = skip_;
    scan.dt_bias = dt_bias_;
    Matrix y = pass.scan(layer_, scan);
    apply_gate(y, columns(both, channels_, channels_), activation("silu"));
    return out_(y);
  }

 private:
  static int64_t rank_of(const ModelConfig& config) {
    constexpr int64_t kPart = 16;  // of the hidden size, with "auto"
    const int64_t otherwise = (config.size("hidden_size") + kPart - 1) / kPart;
    const bool is_auto = config.is_text("mamba_dt_rank") && config.text("mamba_dt_rank") == "auto";
    return is_auto ? otherwise : config.size("mamba_dt_rank", otherwise);
  }

  int64_t layer_ = 0;
  int64_t channels_ = 0;
  int64_t state_ = 0;
  int64_t rank_ = 0;
  Linear in_;
  std::vector<float> conv_;
  std::vector<float> conv_bias_;
  Linear x_;
  RmsNorm dt_norm_;
  RmsNorm b_norm_;
  RmsNorm c_norm_;
  Linear dt_;
  std::vector<float> dt_bias_;
  std::vector<float> a_;
  std::vector<float> skip_;
  Linear out_;
};

class Jamba : public Decoder {
 public:
  Jamba(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    const AttentionShape attention = AttentionShape::of(config_);
    const std::string act = config_.text("hidden_act", "silu");
    const int64_t inner = config_.size("intermediate_size");
    const int64_t experts = config_.size("num_experts", 16);
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      layer.attends = is_turn(i, "attn_layer_period", 8, "attn_layer_offset", 4);
      if (layer.attends) {
        layer.attention = SelfAttention(w.at("self_attn"), i, attention);
      } else {
        layer.mamba = Mamba1(config_, w.at("mamba"), i, epsilon_);
      }
      layer.mlp_norm = RmsNorm(w, "pre_ff_layernorm", hidden_, epsilon_);
      const Weights mlp = w.at("feed_forward");
      if (experts > 1 && is_turn(i, "expert_layer_period", 2, "expert_layer_offset", 1)) {
        chosen_ = num_chosen_of(config_, experts);
        layer.router = mlp.linear("router", hidden_, experts);
        layer.experts = ExpertMlps(mlp.at("experts"), {experts, hidden_, inner, act});
      } else {
        layer.mlp = GatedMlp(mlp, hidden_, inner, act);
      }
    }
    norm_ = RmsNorm(model, "final_layernorm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      const Matrix input = layer.input_norm(x);
      add(x, layer.attends ? layer.attention(pass, input, nullptr) : layer.mamba(pass, input));
      const Matrix middle = layer.mlp_norm(x);
      add(x, layer.experts ? experts(layer, middle) : layer.mlp(middle));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    bool attends = false;
    SelfAttention attention;
    Mamba1 mamba;
    RmsNorm mlp_norm;
    GatedMlp mlp;
    Linear router;
    ExpertMlps experts;
  };

  bool is_turn(int64_t layer, std::string_view period, int64_t usual_period,
               std::string_view offset, int64_t usual_offset) const {
    return layer % config_.size(period, usual_period) == config_.integer(offset, usual_offset);
  }

  Matrix experts(const Layer& layer, const Matrix& x) const {
    const Matrix scores = layer.router(x);
    std::vector<Choice> choices;
    for (int64_t t = 0; t < x.rows; ++t)
      choices.push_back(choose_softmax(scores.row(t), chosen_, /*normalise=*/false));
    return layer.experts(x, choices);
  }

  int64_t chosen_ = 0;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_jamba(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Jamba>(config, weights);
}

}  // namespace lm
