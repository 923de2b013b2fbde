// DeepSeek-V3: latent attention (MLA), dense layers first, then experts in groups:
//
//   x = embed(tokens)
//   per layer:  x += o(attention(norm(x)))
//               x += down(silu(gate(norm(x))) * up(norm(x)))          first_k_dense_replace layers
//               x += experts(norm(x)) + shared_expert(norm(x))        the others
//   logits = head(norm(x))
//
// Attention. The cache keeps one row per token for all heads: [latent, rotated key].
//   q = q_b(norm(q_a(x))), per head [plain, rotated]
//   latent, rotated key = kv_a(x);  latent = norm(latent)
//   A head's keys are K latent and its values V latent, where [K V] is its part of kv_b. K and V
//   are absorbed: attention has the query [K^T plain, rotated], its result is V times the mean
//   latent.
//
// Router. Scores are sigmoid(router(x)). A bias that training sets takes part in the choice only:
// groups by the sum of their two best, then the best experts of the chosen groups.
#include <algorithm>
#include <cmath>

#include "family.h"
#include "group_router.h"
#include "rope.h"

namespace lm {
namespace {

class LatentAttention {
 public:
  LatentAttention() = default;
  LatentAttention(const ModelConfig& config, const Weights& w, int64_t layer)
      : layer_(layer),
        heads_(config.size("num_attention_heads")),
        plain_(config.size("qk_nope_head_dim")),
        rotated_(config.size("qk_rope_head_dim")),
        value_(config.size("v_head_dim")),
        latent_(config.size("kv_lora_rank")),
        scale_(scale_of(config)),
        pairs_(config.flag("rope_interleave", true) ? RopePairs::kPairs : RopePairs::kHalves) {
    constexpr float kEpsilon = 1e-6F;  // whatever rms_norm_eps is
    const int64_t hidden = config.size("hidden_size");
    const int64_t query = heads_ * (plain_ + rotated_);
    const Bias bias = config.flag("attention_bias", false) ? Bias::kYes : Bias::kNo;
    if (const int64_t rank = config.integer("q_lora_rank", 0); rank > 0) {
      query_a_ = w.linear("q_a_proj", hidden, rank, bias);
      query_norm_ = RmsNorm(w, "q_a_layernorm", rank, kEpsilon);
      query_ = w.linear("q_b_proj", rank, query);
    } else {
      query_ = w.linear("q_proj", hidden, query);
    }
    row_ = w.linear("kv_a_proj_with_mqa", hidden, latent_ + rotated_, bias);
    latent_norm_ = RmsNorm(w, "kv_a_layernorm", latent_, kEpsilon);
    const TensorView both = w.tensor("kv_b_proj.weight", {heads_ * (plain_ + value_), latent_});
    for (int64_t h = 0; h < heads_; ++h) {
      const int64_t first = h * (plain_ + value_);
      keys_.push_back(w.linear_of(both.slice(first, plain_), Order::kInputsOutputs));
      values_.push_back(w.linear_of(both.slice(first + plain_, value_)));
    }
    out_ = w.linear("o_proj", heads_ * value_, hidden, bias);
  }

  Matrix operator()(const Pass& pass, const Matrix& x, const Rope& rope) const {
    Matrix q = query_(query_a_ ? query_norm_(query_a_(x)) : x);
    rope.turn(q, heads_, pass.positions(), pairs_, plain_);
    Matrix row = row_(x);
    rope.turn(row, 1, pass.positions(), pairs_, latent_);
    place(row, 0, latent_norm_(columns(row, 0, latent_)));
    Matrix absorbed(x.rows, heads_ * (latent_ + rotated_));
    for (int64_t h = 0; h < heads_; ++h) {
      const int64_t from = h * (plain_ + rotated_);
      const int64_t to = h * (latent_ + rotated_);
      place(absorbed, to, keys_[static_cast<size_t>(h)](columns(q, from, plain_)));
      place(absorbed, to + latent_, columns(q, from + plain_, rotated_));
    }
    const Matrix mean = pass.attend_latent(layer_, absorbed, row, {scale_});
    Matrix values(x.rows, heads_ * value_);
    for (int64_t h = 0; h < heads_; ++h)
      place(values, h * value_,
            values_[static_cast<size_t>(h)](columns(mean, h * latent_, latent_)));
    return out_(values);
  }

 private:
  // YaRN makes attention sharper: by the square of what it does to cos and sin.
  static float scale_of(const ModelConfig& config) {
    const int64_t width = config.size("qk_nope_head_dim") + config.size("qk_rope_head_dim");
    const float scale = 1 / std::sqrt(static_cast<float>(width));
    const ModelConfig rope =
        config.object(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
    const float mscale = rope.number("mscale_all_dim", 0);
    if (mscale == 0 || rope.text("rope_type", rope.text("type", "default")) == "default")
      return scale;
    const float factor = rope.number("factor");
    const float sharper = factor <= 1 ? 1 : 0.1F * mscale * std::log(factor) + 1;
    return scale * sharper * sharper;
  }

  static void place(Matrix& to, int64_t first, const Matrix& from) {
    for (int64_t r = 0; r < to.rows; ++r) std::copy_n(from[r], from.width, to[r] + first);
  }

  int64_t layer_ = 0;
  int64_t heads_ = 0;
  int64_t plain_ = 0;  // widths: of a query's plain and rotated part, a value, a latent row
  int64_t rotated_ = 0;
  int64_t value_ = 0;
  int64_t latent_ = 0;
  float scale_ = 0;
  RopePairs pairs_ = RopePairs::kPairs;
  Linear query_a_;
  RmsNorm query_norm_;
  Linear query_;
  Linear row_;
  RmsNorm latent_norm_;
  std::vector<Linear> keys_;  // by head
  std::vector<Linear> values_;
  Linear out_;
};

class DeepSeekV3 : public Decoder {
 public:
  DeepSeekV3(const ModelConfig& config, const Weights& weights) : Decoder(config, weights) {
    rope_ = Rope(config_, config_.size("qk_rope_head_dim"));
    const int64_t dense = config_.integer("first_k_dense_replace", 0);
    const std::string act = config_.text("hidden_act");
    const Weights model = weights.at(prefix_);
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Weights w = model.at("layers").at(i);
      Layer& layer = layers_.emplace_back();
      layer.input_norm = RmsNorm(w, "input_layernorm", hidden_, epsilon_);
      layer.attention = LatentAttention(config_, w.at("self_attn"), i);
      layer.post_norm = RmsNorm(w, "post_attention_layernorm", hidden_, epsilon_);
      if (i < dense) {
        layer.mlp = GatedMlp(w.at("mlp"), hidden_, config_.size("intermediate_size"), act);
        continue;
      }
      const int64_t inner = config_.size("moe_intermediate_size");
      layer.router = GroupRouter(config_, w.at("mlp"), hidden_);
      layer.experts =
          ExpertMlps(w.at("mlp.experts"), {num_experts_of(config_), hidden_, inner, act});
      layer.mlp = GatedMlp(w.at("mlp.shared_experts"), hidden_,
                           inner * config_.size("n_shared_experts", 1), act);
    }
    norm_ = RmsNorm(model, "norm", hidden_, epsilon_);
  }

  Matrix forward(const Pass& pass) override {
    Matrix x = embedding_(pass.ids());
    for (const Layer& layer : layers_) {
      add(x, layer.attention(pass, layer.input_norm(x), rope_));
      const Matrix y = layer.post_norm(x);
      add(x, layer.mlp(y));
      if (layer.experts) add(x, layer.experts(y, layer.router(y)));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    RmsNorm input_norm;
    LatentAttention attention;
    RmsNorm post_norm;
    GatedMlp mlp;  // of the layer, or the shared expert
    GroupRouter router;
    ExpertMlps experts;
  };
  Rope rope_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<Family> make_deepseek_v3(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<DeepSeekV3>(config, weights);
}

}  // namespace lm
