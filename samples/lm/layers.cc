#include "layers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lm_error.h"

namespace lm {
namespace {

void each(std::span<float> x, float (*function)(float)) {
  for (float& value : x) value = function(value);
}

float gelu(float x) { return 0.5F * x * (1 + std::erf(x * std::numbers::sqrt2_v<float> / 2)); }
float gelu_tanh(float x) {
  const float inner = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float> *
                      (x + 0.044715F * x * x * x);
  return 0.5F * x * (1 + std::tanh(inner));
}

struct ActivationRow {
  std::string_view name;
  Activation apply;
};
constexpr ActivationRow kActivations[] = {
    {"silu", [](std::span<float> x) { each(x, silu); }},
    {"swish", [](std::span<float> x) { each(x, silu); }},
    {"gelu", [](std::span<float> x) { each(x, gelu); }},
    {"gelu_pytorch_tanh", [](std::span<float> x) { each(x, gelu_tanh); }},
    {"gelu_new", [](std::span<float> x) { each(x, gelu_tanh); }},
    {"relu", [](std::span<float> x) { each(x, [](float v) { return std::max(v, 0.0F); }); }},
    {"relu2", [](std::span<float> x) { each(x, [](float v) { return v > 0 ? v * v : 0.0F; }); }},
};

}  // namespace

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float silu(float x) { return x / (1 + std::exp(-x)); }
float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

Activation activation(std::string_view name) {
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) return row.apply;
  }
  throw Error("config.json: the activation '" + std::string(name) +
              "' is not known to this engine");
}

RmsNorm::RmsNorm(const Weights& weights, std::string_view name, int64_t width, float epsilon,
                 float plus)
    : weight_(weights.vector(std::string(name) + ".weight", width, plus)), epsilon_(epsilon) {}

void RmsNorm::apply(Matrix& x) const {
  const size_t width = weight_.size();
  for (size_t at = 0; at < x.data.size(); at += width) {
    float* row = x.data.data() + at;
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += double{row[i]} * double{row[i]};
    const auto scale =
        static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + double{epsilon_}));
    for (size_t i = 0; i < width; ++i) row[i] *= scale * weight_[i];
  }
}

Matrix RmsNorm::operator()(const Matrix& x) const {
  Matrix y = x;
  apply(y);
  return y;
}

LayerNorm::LayerNorm(const Weights& weights, std::string_view name, int64_t width, float epsilon)
    : weight_(weights.vector(std::string(name) + ".weight", width)),
      bias_(weights.vector(std::string(name) + ".bias", width)),
      epsilon_(epsilon) {}

Matrix LayerNorm::operator()(const Matrix& x) const {
  Matrix y = x;
  for (int64_t r = 0; r < y.rows; ++r) {
    const std::span<float> row = y.row(r);
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(x.width);
    double squares = 0;
    for (const float v : row) squares += (double{v} - mean) * (double{v} - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.width) + double{epsilon_});
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<float>((double{row[i]} - mean) * scale) * weight_[i] + bias_[i];
    }
  }
  return y;
}

void softmax(std::span<float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float& v : x) sum += double{v = std::exp(v - largest)};
  for (float& v : x) v = static_cast<float>(double{v} / sum);
}

void soft_cap(Matrix& x, float cap) {
  for (float& v : x.data) v = cap * std::tanh(v / cap);
}

GatedMlp::GatedMlp(const Weights& weights, int64_t width, int64_t inner,
                   std::string_view activation, Bias bias)
    : gate_up_(weights.joined(std::vector<std::string>{"gate_proj", "up_proj"}, width,
                              std::vector<int64_t>{inner, inner}, bias)),
      down_(weights.linear("down_proj", inner, width, bias)),
      act_(lm::activation(activation)) {}

GatedMlp::GatedMlp(Linear gate_up, Linear down, std::string_view activation)
    : gate_up_(std::move(gate_up)), down_(std::move(down)), act_(lm::activation(activation)) {}

Matrix GatedMlp::operator()(const Matrix& x) const {
  Matrix both = gate_up_(x);
  const int64_t inner = both.width / 2;
  Matrix middle(x.rows, inner);
  for (int64_t r = 0; r < x.rows; ++r) {
    float* gate = both[r];
    act_({gate, static_cast<size_t>(inner)});
    for (int64_t i = 0; i < inner; ++i) middle[r][i] = gate[i] * gate[inner + i];
  }
  return down_(middle);
}

std::vector<int64_t> top_k(std::span<const float> scores, int64_t k) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int64_t a, int64_t b) {
    const float left = scores[static_cast<size_t>(a)];
    const float right = scores[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), larger);
  order.resize(static_cast<size_t>(k));
  return order;
}

Choice choose_softmax(std::span<const float> logits, int64_t k, bool normalise) {
  std::vector<float> shares(logits.begin(), logits.end());
  softmax(shares);
  Choice choice{top_k(shares, k), {}};
  for (const int64_t e : choice.experts) choice.shares.push_back(shares[static_cast<size_t>(e)]);
  if (normalise) {
    const float sum = std::accumulate(choice.shares.begin(), choice.shares.end(), 0.0F);
    for (float& share : choice.shares) share /= sum;
  }
  return choice;
}

Matrix mix_experts(const Matrix& x, std::span<const Choice> choices, int64_t num_experts,
                   const std::function<Matrix(int64_t expert, const Matrix& rows)>& run) {
  Matrix sum(x.rows, x.width);
  std::vector<std::vector<int64_t>> tokens(static_cast<size_t>(num_experts));
  std::vector<std::vector<float>> shares(static_cast<size_t>(num_experts));
  for (size_t t = 0; t < choices.size(); ++t) {
    for (size_t i = 0; i < choices[t].experts.size(); ++i) {
      const auto e = static_cast<size_t>(choices[t].experts[i]);
      tokens[e].push_back(static_cast<int64_t>(t));
      shares[e].push_back(choices[t].shares[i]);
    }
  }
  for (size_t e = 0; e < tokens.size(); ++e) {
    if (tokens[e].empty()) continue;
    const Matrix rows = run(static_cast<int64_t>(e), gather(x, tokens[e]));
    for (size_t i = 0; i < tokens[e].size(); ++i) {
      float* to = sum[tokens[e][i]];
      const float* from = rows[static_cast<int64_t>(i)];
      for (int64_t d = 0; d < sum.width; ++d) to[d] += shares[e][i] * from[d];
    }
  }
  return sum;
}

}  // namespace lm
