// Gemma 1, 2 and 3 (text):
//
//   x = embed(tokens) * sqrt(hidden)
//   per layer:  x += norm(o(attention(rope(q), rope(k), v of norm(x))))
//               x += norm(down(gelu(gate) * up of norm(x)))
//   logits = head(norm(x))
//
// - Norms multiply with 1 + weight. Gemma 1 has none after attention and MLP.
// - Gemma 2 and 3 alternate windows and full attention. Gemma 2 caps logits, also inside of
//   attention. The windows and that cap are in quire's plan.
// - Gemma 3 has norms of query and key heads, and a rope of its own for windows.
#include <cmath>

#include "family.h"
#include "self_attention.h"

namespace lm {
namespace {

// What config.json may leave out.
constexpr std::string_view kGemma3 =
    R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "rope_local_base_freq": 1e4, "hidden_activation": "gelu_pytorch_tanh"})";

ModelConfig completed(const ModelConfig& config) {
  const ModelConfig decoder = config.decoder();
  return decoder.text("model_type").starts_with("gemma3") ? decoder.with_defaults(kGemma3)
                                                          : decoder;
}

class Gemma : public Decoder {
 public:
  Gemma(const ModelConfig& config, const Weights& weights) : Decoder(completed(config), weights) {
    const std::string type = config_.text("model_type");
    is_first_ = type == "gemma";
    is_third_ = type.starts_with("gemma3");
    logit_cap_ = config_.number("final_logit_softcapping", 0.0F);
    shape_ = AttentionShape::of(config_);
    if (!is_first_) shape_.scale = 1 / std::sqrt(config_.number("query_pre_attn_scalar"));
    read_ropes();
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) read_layer(model.at("layers").at(i), i);
    norm_ = norm(model, "norm", hidden_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    multiply(x, std::sqrt(static_cast<float>(hidden_)));
    for (const Layer& layer : layers_) {
      Matrix attended = layer.attention(pass, layer.input_norm(x), layer.rope);
      if (layer.after_attention) layer.after_attention.apply(attended);
      add(x, attended);
      Matrix mixed = layer.mlp(layer.before_mlp(x));
      if (layer.after_mlp) layer.after_mlp.apply(mixed);
      add(x, mixed);
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    SelfAttention attention;
    RmsNorm after_attention;  // none in Gemma 1
    RmsNorm before_mlp;
    GatedMlp mlp;
    RmsNorm after_mlp;
    const Rope* rope = nullptr;
  };

  RmsNorm norm(const Weights& weights, std::string_view name, int64_t width) const {
    return RmsNorm(weights, name, width, epsilon_, 1);
  }

  void read_ropes() {
    if (is_third_) {
      rope_ = Rope(config_, shape_.head_dim, "full_attention");
      window_rope_ = config_.has("rope_parameters")
                         ? Rope(config_, shape_.head_dim, "sliding_attention")
                         : Rope(config_.number("rope_local_base_freq"), shape_.head_dim);
    } else {
      rope_ = window_rope_ = Rope(config_, shape_.head_dim);
    }
  }

  void read_layer(const Weights& w, int64_t i) {
    Layer& layer = layers_.emplace_back();
    const bool has_window = kind_of(i) == "sliding_attention";
    layer.rope = has_window ? &window_rope_ : &rope_;
    layer.input_norm = norm(w, "input_layernorm", hidden_);
    layer.attention = SelfAttention(w.at("self_attn"), i, shape_);
    if (is_third_) {
      layer.attention.set_norms(norm(w, "self_attn.q_norm", shape_.head_dim),
                                norm(w, "self_attn.k_norm", shape_.head_dim));
    }
    if (is_first_) {
      layer.before_mlp = norm(w, "post_attention_layernorm", hidden_);
    } else {
      layer.after_attention = norm(w, "post_attention_layernorm", hidden_);
      layer.before_mlp = norm(w, "pre_feedforward_layernorm", hidden_);
      layer.after_mlp = norm(w, "post_feedforward_layernorm", hidden_);
    }
    // Gemma 1 names its activation hidden_act, and means the tanh form whatever it says.
    layer.mlp = GatedMlp(w.at("mlp"), hidden_, config_.size("intermediate_size"),
                         config_.text("hidden_activation", "gelu_pytorch_tanh"));
  }

  // layer_types, or the pattern of older files: every n-th layer is full.
  std::string kind_of(int64_t layer) const {
    if (config_.has("layer_types"))
      return config_.texts("layer_types").at(static_cast<size_t>(layer));
    const int64_t pattern = config_.size("sliding_window_pattern", is_third_ ? 6 : 2);
    return (layer + 1) % pattern == 0 ? "full_attention" : "sliding_attention";
  }

  bool is_first_ = false;
  bool is_third_ = false;
  AttentionShape shape_;
  Rope rope_;
  Rope window_rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_gemma(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Gemma>(config, weights);
}

}  // namespace lm
