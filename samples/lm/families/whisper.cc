// Whisper: an encoder of audio, and a decoder that attends to it:
//
//   encoder, once per sequence:
//     x = gelu(conv2(gelu(conv1(features)))) + positions          conv2 halves the frames
//     per layer:  x += attention(norm(x)) over all frames;  x += fc2(gelu(fc1(norm(x))))
//     encoded = norm(x)
//   decoder:
//     x = embed(tokens) + positions[position]
//     per layer:  x += attention(norm(x));  x += attention to encoded;  x +=
//     fc2(gelu(fc1(norm(x))))
//   logits = embed^T norm(x)
//
// quire keeps the keys and values of the tokens, and those of the encoder's rows for as long as the
// sequence lives. The encoder itself keeps nothing.
#include <cmath>

#include "family.h"
#include "lm_error.h"

namespace lm {
namespace {

constexpr float kEpsilon = 1e-5F;

// q, v and out have biases, k has none.
struct Projections {
  Linear q;
  Linear k;
  Linear v;
  Linear out;

  Projections() = default;
  Projections(const Weights& w, int64_t width)
      : q(w.linear("q_proj", width, width, Bias::kYes)),
        k(w.linear("k_proj", width, width)),
        v(w.linear("v_proj", width, width, Bias::kYes)),
        out(w.linear("out_proj", width, width, Bias::kYes)) {}
};

// fc2(act(fc1(norm(x)))).
class Mlp {
 public:
  Mlp() = default;
  Mlp(const Weights& w, int64_t width, int64_t inner, std::string_view act)
      : norm_(w, "final_layer_norm", width, kEpsilon),
        in_(w.linear("fc1", width, inner, Bias::kYes)),
        out_(w.linear("fc2", inner, width, Bias::kYes)),
        act_(activation(act)) {}
  Matrix operator()(const Matrix& x) const {
    Matrix middle = in_(norm_(x));
    act_(middle.data);
    return out_(middle);
  }

 private:
  LayerNorm norm_;
  Linear in_;
  Linear out_;
  Activation act_ = nullptr;
};

// Convolution over three frames with one frame of zeroes at each end.
class FrameConvolution {
 public:
  FrameConvolution() = default;
  FrameConvolution(const Weights& w, std::string_view name, int64_t inputs, int64_t outputs,
                   int64_t stride)
      : stride_(stride) {
    const std::string full(name);
    const TensorView weight = w.tensor(full + ".weight", {outputs, inputs, kTaps});
    product_ = w.linear_of(weight.reshaped({outputs, inputs * kTaps}), Order::kOutputsInputs,
                           w.vector(full + ".bias", outputs));
  }
  Matrix operator()(const Matrix& frames) const {
    Matrix seen((frames.rows + stride_ - 1) / stride_, frames.width * kTaps);
    for (int64_t t = 0; t < seen.rows; ++t) {
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        const int64_t from = t * stride_ + tap - 1;
        if (from < 0 || from >= frames.rows) continue;
        for (int64_t i = 0; i < frames.width; ++i) seen[t][i * kTaps + tap] = frames[from][i];
      }
    }
    return product_(seen);
  }

 private:
  static constexpr int64_t kTaps = 3;
  int64_t stride_ = 1;
  Linear product_;
};

// Every row sees every row.
Matrix attend_to_all(const Matrix& q, const Matrix& k, const Matrix& v, int64_t heads) {
  const int64_t width = q.width / heads;
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  Matrix out(q.rows, q.width);
  std::vector<float> shares(static_cast<size_t>(k.rows));
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < q.rows; ++t) {
      const float* query = q[t] + h * width;
      for (int64_t s = 0; s < k.rows; ++s) {
        const float* key = k[s] + h * width;
        float sum = 0;
        for (int64_t i = 0; i < width; ++i) sum += query[i] * key[i];
        shares[static_cast<size_t>(s)] = scale * sum;
      }
      softmax(shares);
      float* to = out[t] + h * width;
      for (int64_t s = 0; s < v.rows; ++s) {
        const float* value = v[s] + h * width;
        for (int64_t i = 0; i < width; ++i) to[i] += shares[static_cast<size_t>(s)] * value[i];
      }
    }
  }
  return out;
}

class Encoder {
 public:
  Encoder() = default;
  Encoder(const ModelConfig& config, const Weights& w)
      : heads_(config.size("encoder_attention_heads")),
        act_(activation(config.text("activation_function", "gelu"))) {
    const int64_t width = config.size("d_model");
    if (width % heads_ != 0) config.fail("encoder_attention_heads", "must divide d_model");
    first_ = FrameConvolution(w, "conv1", config.size("num_mel_bins"), width, 1);
    second_ = FrameConvolution(w, "conv2", width, width, 2);
    const int64_t longest = config.size("max_source_positions");
    positions_.data = w.tensor("embed_positions.weight", {longest, width}).floats();
    positions_.rows = longest;
    positions_.width = width;
    for (int64_t i = 0; i < config.size("encoder_layers"); ++i) {
      const Weights own = w.at("layers").at(i);
      layers_.push_back({LayerNorm(own, "self_attn_layer_norm", width, kEpsilon),
                         Projections(own.at("self_attn"), width),
                         Mlp(own, width, config.size("encoder_ffn_dim"),
                             config.text("activation_function", "gelu"))});
    }
    norm_ = LayerNorm(w, "layer_norm", width, kEpsilon);
  }

  int64_t rows() const { return positions_.rows; }

  Matrix operator()(const Matrix& features) const {
    Matrix x = first_(features);
    act_(x.data);
    x = second_(x);
    act_(x.data);
    add(x, positions_);
    for (const Layer& layer : layers_) {
      const Matrix y = layer.norm(x);
      const Projections& p = layer.attention;
      add(x, p.out(attend_to_all(p.q(y), p.k(y), p.v(y), heads_)));
      add(x, layer.mlp(x));
    }
    return norm_(x);
  }

 private:
  struct Layer {
    LayerNorm norm;
    Projections attention;
    Mlp mlp;
  };
  int64_t heads_ = 0;
  Activation act_ = nullptr;
  FrameConvolution first_;
  FrameConvolution second_;
  Matrix positions_;
  std::vector<Layer> layers_;
  LayerNorm norm_;
};

class Whisper : public Family {
 public:
  Whisper(const ModelConfig& config, const Weights& weights)
      : encoder_(config, weights.at("model.encoder")),
        bins_(config.size("num_mel_bins")),
        width_(config.size("d_model")) {
    const Weights w = weights.at("model.decoder");
    const std::string act = config.text("activation_function", "gelu");
    embedding_ = Embedding(w.tensor("embed_tokens.weight", {config.size("vocab_size"), width_}));
    positions_ = Embedding(
        w.tensor("embed_positions.weight", {config.size("max_target_positions"), width_}));
    for (int64_t i = 0; i < config.size("decoder_layers"); ++i) {
      const Weights own = w.at("layers").at(i);
      layers_.push_back({LayerNorm(own, "self_attn_layer_norm", width_, kEpsilon),
                         Projections(own.at("self_attn"), width_),
                         LayerNorm(own, "encoder_attn_layer_norm", width_, kEpsilon),
                         Projections(own.at("encoder_attn"), width_),
                         Mlp(own, width_, config.size("decoder_ffn_dim"), act)});
    }
    norm_ = LayerNorm(w, "layer_norm", width_, kEpsilon);
    head_ = weights.linear_of(embedding_.table());
  }

  int64_t encoder_tokens(const Matrix& features) const override {
    if (features.width != bins_ || features.rows != 2 * encoder_.rows()) {
      throw Error("Whisper reads " + std::to_string(2 * encoder_.rows()) + " frames of " +
                  std::to_string(bins_) + " mel bins, here are " + std::to_string(features.rows) +
                  " of " + std::to_string(features.width));
    }
    return encoder_.rows();
  }

  Matrix forward(const Pass& pass) override {
    const Matrix encoded = encode(pass);
    Matrix x = embedding_(pass.ids());
    add(x, positions_(pass.positions()));
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const auto number = static_cast<int64_t>(i);
      const Matrix y = layer.norm(x);
      const Projections& own = layer.attention;
      add(x, own.out(pass.attend(number, own.q(y), own.k(y), own.v(y))));
      const Projections& cross = layer.cross;
      const Matrix query = cross.q(layer.cross_norm(x));
      const Matrix key = encoded.rows == 0 ? encoded : cross.k(encoded);
      const Matrix value = encoded.rows == 0 ? encoded : cross.v(encoded);
      add(x, cross.out(pass.attend_cross(number, query, key, value)));
      add(x, layer.mlp(x));
    }
    return norm_(x);
  }

  Matrix logits(const Matrix& hidden) override { return head_(hidden); }
  int64_t vocabulary() const override { return embedding_.table().shape[0]; }

 private:
  struct Layer {
    LayerNorm norm;
    Projections attention;
    LayerNorm cross_norm;
    Projections cross;
    Mlp mlp;
  };

  // What the encoder makes of the sequences that begin with this step, one after another.
  Matrix encode(const Pass& pass) const {
    Matrix encoded(0, width_);
    for (const Matrix* features : pass.encoder_inputs()) {
      if (features == nullptr) throw Error("Whisper needs features of audio for every sequence");
      const Matrix one = encoder_(*features);
      encoded.data.insert(encoded.data.end(), one.data.begin(), one.data.end());
      encoded.rows += one.rows;
    }
    return encoded;
  }

  Encoder encoder_;
  int64_t bins_ = 0;
  int64_t width_ = 0;
  Embedding embedding_;
  Embedding positions_;
  std::vector<Layer> layers_;
  LayerNorm norm_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Family> make_whisper(const ModelConfig& config, const Weights& weights) {
  return std::make_unique<Whisper>(config, weights);
}

}  // namespace lm
