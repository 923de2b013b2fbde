// pass.h: one pass of a step's tokens through the model, as a family sees it: which tokens at which
// positions, and what its layers do with keys, values and states. The rows of all sequences of the
// step lie one after another; quire knows which belongs where.
#pragma once

#include <span>
#include <vector>

#include "kv.h"
#include "matrix.h"

namespace lm {

struct Attend {
  float scale = 0;               // of the logits; 0 = 1 / sqrt(width of a key)
  const float* sinks = nullptr;  // [query heads]: learned sink logits
};

struct Convolve {
  std::span<const float> weight;  // [channels, width]
  std::span<const float> bias;    // [channels]; empty = none
  bool silu = false;
};

// The gated delta rule of quire_gated_delta: rows of heads.
struct Delta {
  Matrix query;  // [tokens, key heads * key width]
  Matrix key;
  Matrix value;           // [tokens, value heads * value width]
  Matrix gate;            // [tokens, value heads]: logarithm of the decay
  Matrix beta;            // [tokens, value heads]
  float scale = 0;        // 0 = 1 / sqrt(key width)
  bool normalise = true;  // query and key get unit length
};

// The selective scan of quire_selective_scan. Mamba1: heads are channels with one element each.
struct Scan {
  Matrix x;                  // [tokens, heads * head width]
  Matrix dt;                 // [tokens, heads]
  std::span<const float> a;  // [heads] or [heads, state], negative
  Matrix b;                  // [tokens, groups * state]
  Matrix c;
  std::span<const float> skip;     // [heads]; empty = none
  std::span<const float> dt_bias;  // [heads]; empty = none
  float dt_min = 0;
  float dt_max = 0;  // 0 = no limit
  bool softplus = true;
};

class Pass {
 public:
  // Lays out the step's arrays and executes its zeroes and copies. ids: the step's tokens.
  // encoder_inputs: of the sequences that begin with this step.
  Pass(Kv& kv, const quire::StepView& step, std::span<const int32_t> ids,
       std::span<const Matrix* const> encoder_inputs = {});

  int64_t tokens() const { return static_cast<int64_t>(ids_.size()); }
  std::span<const int32_t> ids() const { return ids_; }
  std::span<const int32_t> positions() const;
  // Row r of the step has tokens [indptr[r], indptr[r + 1]).
  std::span<const int32_t> indptr() const;
  // Models with an encoder: its inputs for the rows at position 0; NULL = none was given.
  std::span<const Matrix* const> encoder_inputs() const { return encoder_inputs_; }

  // Writes keys and values of these tokens into the cache of a layer, then attends to all that the
  // layer sees: causal, window, chunk and soft cap are those of the plan's layer.
  // query [tokens, heads * key width], key and value [tokens, kv heads * width].
  Matrix attend(int64_t layer, const Matrix& query, const Matrix& key, const Matrix& value,
                const Attend& how = {}) const;
  // MLA, absorbed: one row per token in place of keys and values, a latent and a rotated part.
  // query [tokens, heads * (latent + rope)]; returns [tokens, heads * latent].
  Matrix attend_latent(int64_t layer, const Matrix& query, const Matrix& row,
                       const Attend& how) const;
  // Cross attention. key, value: of the encoder's tokens of rows that begin with this step, one
  // after another (encoder_rows() of them); the cache keeps them.
  Matrix attend_cross(int64_t layer, const Matrix& query, const Matrix& key, const Matrix& value,
                      const Attend& how = {}) const;
  int64_t encoder_rows(int64_t layer) const;

  // A short causal convolution over the sequence, in [tokens, channels]: the first tensor of the
  // layer's state.
  Matrix convolve(int64_t layer, const Matrix& input, const Convolve& how) const;
  // The recurrences: the second tensor of the layer's state.
  Matrix delta(int64_t layer, const Delta& in) const;
  Matrix scan(int64_t layer, const Scan& in) const;

 private:
  Matrix attend_in(const quire_layer& layer, const Matrix& query, const Matrix& key,
                   const Matrix* value, const Attend& how) const;
  void attend_bf16(quire_attention op, const Matrix& query, int64_t width_k, Matrix& out,
                   int64_t width_v) const;
  const quire_batch& batch_of(uint32_t group) const { return batches_[group]; }
  quire_paged_state state(const quire_layer& layer, uint32_t tensor) const;
  void make_wrong();

  Kv& kv_;
  std::span<const int32_t> ids_;
  std::span<const Matrix* const> encoder_inputs_;
  std::vector<quire_batch> batches_;             // by group
  std::vector<std::vector<int32_t>> wrong_ids_;  // tests: what the batches point to instead
};

}  // namespace lm
