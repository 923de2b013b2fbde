// Llama 4: attention within chunks of tokens, with rope, and every fourth layer full attention
// without positions:
//
//   x = embed(tokens)
//   per layer:  x += o(attention(norm(rope(q)), norm(rope(k)), v)), all of norm(x)     chunks
//               x += o(attention(temperature(position) * q, k, v)), all of norm(x)     full
//               x += down(silu(gate(norm(x))) * up(norm(x)))                           or
//               x += shared_expert(norm(x)) + experts(norm(x))
//   temperature = 1 + attn_scale * log(1 + floor((position + 1) / floor_scale))
//   logits = head(norm(x))
//
// The router's share, sigmoid(router(x)), multiplies what goes into an expert.
#include <algorithm>
#include <cmath>

#include "experts.h"
#include "family.h"
#include "self_attention.h"

namespace lm {
namespace {

class Llama4 : public Decoder {
 public:
  Llama4(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    shape_ = AttentionShape::of(config_);
    rope_ = Rope(config_, shape_.head_dim);
    if (config_.flag("use_qk_norm", true)) head_norm_ = RmsNorm(shape_.head_dim, epsilon_);
    if (config_.flag("attn_temperature_tuning", true))
      attention_scale_ = config_.number("attn_scale", 0.1F);
    floor_scale_ = config_.number("floor_scale", 8192);
    const std::vector<int64_t> with_rope = layers_with_rope();
    const std::vector<int64_t> with_experts = layers_with_experts();
    const auto has = [](const std::vector<int64_t>& list, int64_t i) {
      return std::find(list.begin(), list.end(), i) != list.end();
    };
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.has_rope = has(with_rope, i);
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      add_attention(layer, w.at("self_attn"));
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      add_mlp(layer, w.at("feed_forward"), has(with_experts, i));
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      add(x, attention(pass, static_cast<int64_t>(i), layer.input_norm(x)));
      const Matrix y = layer.post_norm(x);
      add(x, layer.mlp(y));
      if (layer.experts) add_experts(x, layer, y);
    }
    return norm_(x);
  }

 private:
  struct Layer {
    bool has_rope = false;
    RmsNorm input_norm;
    Linear qkv;
    Linear out;
    RmsNorm post_norm;
    GatedMlp mlp;  // of the layer, or the shared expert
    Linear router;
    ExpertMlps experts;
  };

  std::vector<int64_t> layers_with_rope() const {
    std::vector<int64_t> flags;
    if (config_.has("no_rope_layers")) flags = config_.integers("no_rope_layers");  // 1 = rope
    const int64_t interval = config_.size("no_rope_layer_interval", 4);
    std::vector<int64_t> layers;
    for (int64_t i = 0; i < num_layers_; ++i) {
      const bool rope = flags.empty() ? (i + 1) % interval != 0
                                      : i < static_cast<int64_t>(flags.size()) &&
                                            flags[static_cast<size_t>(i)] != 0;
      if (rope) layers.push_back(i);
    }
    return layers;
  }

  std::vector<int64_t> layers_with_experts() const {
    if (config_.has("moe_layers")) return config_.integers("moe_layers");
    const int64_t step = config_.size("interleave_moe_layer_step", 1);
    std::vector<int64_t> layers;
    for (int64_t i = step - 1; i < num_layers_; i += step) layers.push_back(i);
    return layers;
  }

  void add_attention(Layer& layer, const Weights& w) const {
    const int64_t q = shape_.heads * shape_.head_dim;
    const int64_t kv = shape_.kv_heads * shape_.head_dim;
    layer.qkv = w.joined(std::vector<std::string>{"q_proj", "k_proj", "v_proj"}, hidden_,
                         std::vector<int64_t>{q, kv, kv}, shape_.qkv_bias);
    layer.out = w.linear("o_proj", q, hidden_, shape_.out_bias);
  }

  void add_mlp(Layer& layer, const Weights& w, bool with_experts) {
    const std::string act = config_.text("hidden_act");
    if (!with_experts) {
      layer.mlp = GatedMlp(w, hidden_, config_.size("intermediate_size_mlp"), act);
      return;
    }
    const int64_t inner = config_.size("intermediate_size");
    const int64_t count = num_experts_of(config_);
    chosen_ = num_chosen_of(config_, count);
    layer.router = w.linear("router", hidden_, count);
    layer.experts =
        ExpertMlps(w.at("experts"), {count, hidden_, inner, act, Order::kInputsOutputs});
    layer.mlp = GatedMlp(w.at("shared_expert"), hidden_, inner, act);
  }

  Matrix attention(const Pass& pass, int64_t number, const Matrix& x) const {
    const Layer& layer = layers_[static_cast<size_t>(number)];
    const int64_t q_width = shape_.heads * shape_.head_dim;
    const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
    const Matrix qkv = layer.qkv(x);
    Matrix q = columns(qkv, 0, q_width);
    Matrix k = columns(qkv, q_width, kv_width);
    const Matrix v = columns(qkv, q_width + kv_width, kv_width);
    if (layer.has_rope) {
      rope_.turn(q, shape_.heads, pass.positions(), RopePairs::kPairs);
      rope_.turn(k, shape_.kv_heads, pass.positions(), RopePairs::kPairs);
      if (head_norm_) head_norm_.apply(q);
      if (head_norm_) head_norm_.apply(k);
    } else {
      for (int64_t r = 0; r < q.rows; ++r) {
        const float factor = temperature(pass.positions()[static_cast<size_t>(r)]);
        for (float& value : q.row(r)) value *= factor;
      }
    }
    return layer.out(pass.attend(number, q, k, v));
  }

  float temperature(int32_t position) const {
    const float floors = std::floor((static_cast<float>(position) + 1) / floor_scale_);
    return 1 + attention_scale_ * std::log1p(floors);
  }

  // A token's best expert, then its second best, and so on: each has an input of its own.
  void add_experts(Matrix& to, const Layer& layer, const Matrix& x) const {
    const Matrix scores = layer.router(x);
    for (int64_t rank = 0; rank < chosen_; ++rank) {
      Matrix scaled = x;
      std::vector<Choice> choices;
      for (int64_t r = 0; r < x.rows; ++r) {
        const int64_t e = top_k(scores.row(r), chosen_)[static_cast<size_t>(rank)];
        const float share = sigmoid(scores[r][e]);
        for (float& value : scaled.row(r)) value *= share;
        choices.push_back({{e}, {1.0F}});
      }
      add(to, layer.experts(scaled, choices));
    }
  }

  AttentionShape shape_;
  Rope rope_;
  RmsNorm head_norm_;  // of queries and keys; without weights
  float attention_scale_ = 0;
  float floor_scale_ = 1;
  int64_t chosen_ = 0;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_llama4(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Llama4>(config, weights);
}

}  // namespace lm
