// family.h: a family of models, and how one is added.
//
// A family is one file of families/: a class whose constructor reads config.json and names its
// weights, and whose forward() reads like the model card. It sees tokens and positions through a
// Pass, which also keeps keys, values and states (pass.h). To add one:
//   1. write families/<name>.cc with a class and a function make_<name>
//   2. declare that function below, add its row to the table in family.cc and the file to
//      CMakeLists.txt
//   3. record logits of transformers' class with tests/lm/record.py; the test lm_parity_<name>
//      compares with them
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers.h"
#include "model_config.h"
#include "pass.h"
#include "weights.h"

namespace lm {

class Family {
 public:
  Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  virtual ~Family() = default;

  // The hidden rows of the step's tokens, ready for logits().
  virtual Matrix forward(const Pass& pass) = 0;
  // One row per row of hidden: a logit for each token of the vocabulary.
  virtual Matrix logits(const Matrix& hidden) = 0;
  virtual int64_t vocabulary() const = 0;
  // Rows that the encoder makes of this input, for models that have one.
  virtual int64_t encoder_tokens(const Matrix& input) const;
};

// What most families share: a table of tokens, a final norm, and a head that may be tied to the
// table.
class Decoder : public Family {
 public:
  Matrix logits(const Matrix& hidden) override;
  int64_t vocabulary() const override { return embedding_.table().shape[0]; }

 protected:
  // Reads embed_tokens.weight, and lm_head.weight unless tie_word_embeddings.
  Decoder(const ModelConfig& config, const Weights& weights);

  ModelConfig config_;  // of the decoder
  std::string prefix_;  // of its tensors: "model", or where models with pictures keep it
  int64_t hidden_ = 0;
  int64_t num_layers_ = 0;
  float epsilon_ = 0;
  Embedding embedding_;
  Linear head_;
  float logit_scale_ = 1;
  float logit_cap_ = 0;  // 0 = none
};

using MakeFamily = std::unique_ptr<Family> (*)(const ModelConfig& config, const Weights& weights);

std::unique_ptr<Family> make_llama(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_gemma(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_gpt_oss(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_lara_mini(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_deepseek_v3(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_llama4(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_qwen3_next(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_bamba(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_granite_hybrid(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_nemotron_h(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_falcon_h1(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_jamba(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_lfm2(const ModelConfig& config, const Weights& weights);
std::unique_ptr<Family> make_whisper(const ModelConfig& config, const Weights& weights);

struct FamilyRow {
  const char* model_type;  // of config.json
  MakeFamily make;
  // Beginnings of names that a checkpoint may have and this engine does not read.
  std::vector<std::string_view> unread = {};
};

// The row of the model_type of config.json or of its text_config. Error that names all if it is
// unknown.
const FamilyRow& family_of(const ModelConfig& config);

// A checkpoint and its family: everything is checked, nothing is packed. After load() it computes.
struct LoadedModel {
  ModelConfig config;
  std::shared_ptr<const Checkpoint> checkpoint;
  Weights weights;
  std::unique_ptr<Family> family;

  static LoadedModel open(const std::filesystem::path& folder,
                          ProductType products = ProductType::kFp32);
};

}  // namespace lm
