// Qwen3-Next and Qwen3.5: three gated delta nets to one layer of full attention, which has a gate:
//
//   x = embed(tokens)
//   per layer:  x += gated_delta_net(norm(x))                                    or
//               x += o(sigmoid(gate) * attention(rope(norm(q)), rope(norm(k)), v)), all of norm(x)
//               x += mlp(norm(x))
//   mlp:        down(silu(gate(x)) * up(x))                                      or
//               experts(x) by softmax(router(x)) + sigmoid(shared_gate(x)) * shared_expert(x)
//   logits = head(norm(x))
//
// Rope turns a part of each head, and norms multiply by 1 + weight. Text only: the three positions
// of Qwen3.5's rope are equal then.
#include <algorithm>

#include "experts.h"
#include "family.h"
#include "gated_delta_net.h"
#include "self_attention.h"

namespace lm {
namespace {

// Queries and their gates lie together by head.
class GatedAttention {
 public:
  GatedAttention() = default;
  GatedAttention(const Weights& weights, int64_t layer, const AttentionShape& shape, float epsilon)
      : shape_(shape), layer_(layer) {
    const int64_t dim = shape.head_dim;
    const int64_t kv_width = shape.kv_heads * dim;
    const TensorView both = weights.tensor("q_proj.weight", {shape.heads * 2 * dim, shape.hidden});
    std::vector<TensorView> rows;
    for (const int64_t first : {int64_t{0}, dim}) {
      for (int64_t h = 0; h < shape.heads; ++h)
        rows.push_back(both.slice(h * 2 * dim + first, dim));
    }
    for (const char* name : {"k_proj.weight", "v_proj.weight"})
      rows.push_back(weights.tensor(name, {kv_width, shape.hidden}));
    in_ = weights.linear_of(std::move(rows));
    out_ = weights.linear("o_proj", shape.heads * dim, shape.hidden);
    query_norm_ = RmsNorm(weights, "q_norm", dim, epsilon, 1);
    key_norm_ = RmsNorm(weights, "k_norm", dim, epsilon, 1);
  }

  Matrix operator()(const Pass& pass, const Matrix& x, const Rope& rope) const {
    const int64_t q_width = shape_.heads * shape_.head_dim;
    const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
    const Matrix all = in_(x);
    Matrix q = columns(all, 0, q_width);
    Matrix gate = columns(all, q_width, q_width);
    Matrix k = columns(all, 2 * q_width, kv_width);
    const Matrix v = columns(all, 2 * q_width + kv_width, kv_width);
    query_norm_.apply(q);
    key_norm_.apply(k);
    rope.turn(q, shape_.heads, pass.positions());
    rope.turn(k, shape_.kv_heads, pass.positions());
    Matrix o = pass.attend(layer_, q, k, v);
    for (float& g : gate.data) g = sigmoid(g);
    multiply(o, gate);
    return out_(o);
  }

 private:
  AttentionShape shape_;
  int64_t layer_ = 0;
  Linear in_;  // queries, gates, keys, values
  Linear out_;
  RmsNorm query_norm_;
  RmsNorm key_norm_;
};

class Qwen3Next : public Decoder {
 public:
  Qwen3Next(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    if (config_.flag("attention_bias", false))
      config_.fail("attention_bias", "published models of this family have none");
    const AttentionShape shape = AttentionShape::of(config_);
    const ModelConfig rope = config_.object("rope_parameters");
    const float part =
        rope.number("partial_rotary_factor", config_.number("partial_rotary_factor", 0.25F));
    rope_ = Rope(config_, static_cast<int64_t>(static_cast<float>(shape.head_dim) * part));
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_, 1);
      layer.is_recurrent = is_recurrent(i);
      if (layer.is_recurrent) {
        layer.delta = GatedDeltaNet(config_, w.at("linear_attn"), i);
      } else {
        layer.attention = GatedAttention(w.at("self_attn"), i, shape, epsilon_);
      }
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_, 1);
      if (has_experts(i)) {
        add_experts(layer, w.at("mlp"));
      } else {
        layer.mlp = GatedMlp(w.at("mlp"), hidden_, config_.size("intermediate_size"),
                             config_.text("hidden_act"));
      }
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_, 1);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      const Matrix normed = layer.input_norm(x);
      add(x, layer.is_recurrent ? layer.delta(pass, normed) : layer.attention(pass, normed, rope_));
      const Matrix middle = layer.post_norm(x);
      add(x, layer.experts ? experts(layer, middle) : layer.mlp(middle));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    bool is_recurrent = false;
    GatedDeltaNet delta;
    GatedAttention attention;
    RmsNorm post_norm;
    GatedMlp mlp;  // of the layer, or the shared expert
    Linear shared_gate;
    Experts experts;
  };

  bool is_recurrent(int64_t layer) const {
    if (!config_.has("layer_types"))
      return (layer + 1) % config_.size("full_attention_interval", 4) != 0;
    const std::vector<std::string> types = config_.texts("layer_types");
    if (static_cast<int64_t>(types.size()) != num_layers_)
      config_.fail("layer_types", "must have num_hidden_layers entries");
    return types[static_cast<size_t>(layer)] == "linear_attention";
  }

  bool has_experts(int64_t layer) const {
    std::vector<int64_t> dense;
    if (config_.has("mlp_only_layers")) dense = config_.integers("mlp_only_layers");
    return config_.integer("num_experts", 0) > 0 &&
           std::find(dense.begin(), dense.end(), layer) == dense.end() &&
           (layer + 1) % config_.size("decoder_sparse_step", 1) == 0;
  }

  void add_experts(Layer& layer, const Weights& w) const {
    // Qwen3.5 always normalises the shares and leaves the field out.
    layer.experts = Experts(config_.with_defaults(R"({"norm_topk_prob": true})"), w, hidden_);
    layer.mlp =
        GatedMlp(w.at("shared_expert"), hidden_, config_.size("shared_expert_intermediate_size"),
                 config_.text("hidden_act"));
    layer.shared_gate = w.linear("shared_expert_gate", hidden_, 1);
  }

  static Matrix experts(const Layer& layer, const Matrix& x) {
    const Matrix gate = layer.shared_gate(x);
    Matrix sum = layer.mlp(x);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (float& v : sum.row(r)) v *= sigmoid(gate[r][0]);
    }
    add(sum, layer.experts(x));
    return sum;
  }

  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_qwen3_next(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Qwen3Next>(config, weights);
}

}  // namespace lm
