#include "family.h"

#include <algorithm>

#include "lm_error.h"

namespace lm {
namespace {

const std::vector<FamilyRow>& table() {
  static const std::vector<FamilyRow> rows = {
      // Attention.
      {"llama", make_llama},
      {"mistral", make_llama},
      {"qwen2", make_llama},
      {"qwen3", make_llama},
      // Attention and states.
      {"bamba", make_bamba},
      {"granitemoehybrid", make_granite_hybrid},
  };
  return rows;
}

// Buffers that old checkpoints store; every family computes them.
bool is_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

void check_all_read(const FamilyRow& row, const ModelConfig& config, const Checkpoint& checkpoint) {
  for (const std::string& name : checkpoint.unread()) {
    const auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
    const bool tied = config.flag("tie_word_embeddings", false) && name == "lm_head.weight";
    if (tied || is_buffer(name) || std::any_of(row.unread.begin(), row.unread.end(), starts))
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

Decoder::Decoder(const ModelConfig& config, const Weights& weights, std::string_view model)
    : config_(config.decoder()),
      hidden_(config_.size("hidden_size")),
      num_layers_(config_.size("num_hidden_layers")),
      epsilon_(config_.number("rms_norm_eps", 1e-6F)) {
  const int64_t vocabulary = config_.size("vocab_size");
  embedding_ =
      Embedding(weights.tensor(std::string(model) + ".embed_tokens.weight", {vocabulary, hidden_}));
  // Gemma's config.json leaves the flag out where it is true.
  const bool tied =
      config.flag("tie_word_embeddings", config_.flag("tie_word_embeddings", false)) ||
      !weights.has("lm_head.weight");
  if (tied && !config.flag("tie_word_embeddings", config_.flag("tie_word_embeddings", true))) {
    throw Error(
        "tensor lm_head.weight is absent, but config.json says that it is not tied to embed_tokens "
        "(tie_word_embeddings)");
  }
  head_ =
      tied ? weights.linear_of(embedding_.table()) : weights.linear("lm_head", hidden_, vocabulary);
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
