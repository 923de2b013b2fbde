#include "family.h"

#include <algorithm>
#include <charconv>

#include "lm_error.h"

namespace lm {
namespace {

// Layers that draft tokens. This engine drafts with a model of its own.
const std::vector<std::string_view> kDrafts = {"mtp."};
// Parts of models with pictures. This engine reads text.
const std::vector<std::string_view> kPictures = {"vision_tower.",
                                                 "vision_model.",
                                                 "multi_modal_projector.",
                                                 "model.vision_tower.",
                                                 "model.multi_modal_projector.",
                                                 "model.visual.",
                                                 "mtp."};

const std::vector<FamilyRow>& table() {
  static const std::vector<FamilyRow> rows = {
      {"gemma", make_gemma},
      {"gemma2", make_gemma},
      {"gemma3", make_gemma, kPictures},
      {"gemma3_text", make_gemma},
      {"llama", make_llama},
      {"mistral", make_llama},
      {"qwen2", make_llama},
      {"qwen3", make_llama},
      {"qwen3_moe", make_llama},
      {"gpt_oss", make_gpt_oss},
      {"qwen3_next", make_qwen3_next, kDrafts},
      {"qwen3_5", make_qwen3_next, kPictures},
      {"qwen3_5_text", make_qwen3_next, kDrafts},
      {"qwen3_5_moe", make_qwen3_next, kPictures},
      {"qwen3_5_moe_text", make_qwen3_next, kDrafts},
      {"lara_mini", make_lara_mini},
      {"deepseek_v3", make_deepseek_v3},
      {"llama4", make_llama4, kPictures},
      {"llama4_text", make_llama4},
      {"bamba", make_bamba},
      {"granitemoehybrid", make_granite_hybrid},
      {"nemotron_h", make_nemotron_h, kDrafts},
      {"falcon_h1", make_falcon_h1},
      {"jamba", make_jamba},
      {"lfm2", make_lfm2},
      {"whisper", make_whisper, {"proj_out."}},
  };
  return rows;
}

// Where checkpoints keep the decoder: alone, in a model with pictures, or in an older one.
std::string prefix_of(const Weights& weights) {
  for (const char* prefix : {"model.language_model", "language_model.model"}) {
    if (weights.has(std::string(prefix) + ".embed_tokens.weight")) return prefix;
  }
  return weights.has("backbone.embeddings.weight") ? "backbone" : "model";
}

// Nemotron-H lists its layers and leaves out their number.
int64_t layers_of(const ModelConfig& config) {
  const bool listed = !config.has("num_hidden_layers") && config.has("layers_block_type");
  return listed ? static_cast<int64_t>(config.texts("layers_block_type").size())
                : config.size("num_hidden_layers");
}

// Buffers that old checkpoints store; every family computes them.
bool is_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// Draft layers that DeepSeek's checkpoints number after the model's own.
bool is_draft(std::string_view name, const ModelConfig& config) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  name.remove_prefix(kLayers.size());
  int64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  const int64_t after = number - config.size("num_hidden_layers");
  return after >= 0 && after < config.integer("num_nextn_predict_layers", 0);
}

void check_all_read(const FamilyRow& row, const ModelConfig& config, const Checkpoint& checkpoint) {
  for (const std::string& name : checkpoint.unread()) {
    const auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
    const bool tied = name.ends_with("lm_head.weight") && config.flag("tie_word_embeddings", true);
    if (tied || is_buffer(name) || is_draft(name, config) ||
        std::any_of(row.unread.begin(), row.unread.end(), starts))
      continue;
    throw Error("tensor " + name + " is in the checkpoint, but " + row.model_type +
                " with this config.json does not use it");
  }
}

}  // namespace

const FamilyRow& family_of(const ModelConfig& config) {
  for (const ModelConfig& object : {config, config.decoder()}) {
    const std::string type = object.text("model_type", "");
    for (const FamilyRow& row : table()) {
      if (type == row.model_type) return row;
    }
  }
  std::string known;
  for (const FamilyRow& row : table())
    known += (known.empty() ? "" : ", ") + std::string(row.model_type);
  config.fail("model_type", "this engine knows " + known);
}

int64_t Family::encoder_tokens(const Matrix&) const {
  throw Error("this model has no encoder, so that a sequence has no input for one");
}

Decoder::Decoder(const ModelConfig& config, const Weights& weights)
    : config_(config.decoder()),
      prefix_(prefix_of(weights)),
      hidden_(config_.size("hidden_size")),
      num_layers_(layers_of(config_)),
      epsilon_(config_.number("rms_norm_eps", 1e-6F)) {
  const int64_t vocabulary = config_.size("vocab_size");
  const char* const table = prefix_ == "backbone" ? ".embeddings.weight" : ".embed_tokens.weight";
  embedding_ = Embedding(weights.tensor(prefix_ + table, {vocabulary, hidden_}));
  const std::string head =
      prefix_.starts_with("language_model.") ? "language_model.lm_head" : "lm_head";
  // Files that leave the flag out mean the default of their class; the tensors say which.
  const bool has_head = weights.has(head + ".weight");
  const bool tied =
      config.flag("tie_word_embeddings", config_.flag("tie_word_embeddings", !has_head));
  if (!tied && !has_head) {
    throw Error("tensor " + head +
                ".weight is absent, but config.json says tie_word_embeddings = false");
  }
  head_ = tied ? weights.linear_of(embedding_.table()) : weights.linear(head, hidden_, vocabulary);
}

Matrix Decoder::logits(const Matrix& hidden) {
  Matrix logits = head_(hidden);
  if (logit_scale_ != 1) multiply(logits, logit_scale_);
  if (logit_cap_ != 0) soft_cap(logits, logit_cap_);
  return logits;
}

LoadedModel LoadedModel::open(const std::filesystem::path& folder, ProductType products) {
  ModelConfig config = ModelConfig::open(folder / "config.json");
  const FamilyRow& row = family_of(config);
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  Weights weights(checkpoint, products);
  std::unique_ptr<Family> family = row.make(config, weights);
  check_all_read(row, config.decoder(), *checkpoint);
  return {std::move(config), std::move(checkpoint), std::move(weights), std::move(family)};
}

}  // namespace lm
