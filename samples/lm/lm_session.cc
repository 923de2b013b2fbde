#include "lm_session.h"

#include <algorithm>

#include "lm_error.h"
#include "lm_threads.h"

namespace lm {
namespace {

// eos_token_id of generation_config.json, otherwise of config.json.
std::vector<int32_t> stops_of(const std::filesystem::path& folder, const ModelConfig& config) {
  std::vector<int64_t> ids;
  const std::filesystem::path file = folder / "generation_config.json";
  if (std::filesystem::exists(file)) {
    const ModelConfig generation = ModelConfig::open(file);
    if (generation.has("eos_token_id")) ids = generation.integers("eos_token_id");
  }
  for (const ModelConfig& object : {config, config.decoder()}) {
    if (ids.empty() && object.has("eos_token_id")) ids = object.integers("eos_token_id");
  }
  return {ids.begin(), ids.end()};
}

KvSettings settings_of(const GenerateOptions& options) {
  KvSettings settings = options.kv;
  if (!options.draft.empty()) settings.drafts = options.draft_tokens;
  return settings;
}

KvSettings draft_settings(const GenerateOptions& options) {
  KvSettings settings = options.kv;
  settings.max_sequences *= 2;  // forks
  return settings;
}

LoadedModel open_model(const std::filesystem::path& folder, const std::string& weights) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  return LoadedModel::open(folder, product_type(weights, checkpoint));
}

}  // namespace

Session::Session(const GenerateOptions& options)
    : options_(options), model_(open_model(options.model, options.weights)) {
  if (!options.draft.empty()) {
    draft_ = open_model(options.draft, options.weights);
    Drafter::check(*draft_->family, *model_.family);
  }
  try {
    tokenizer_ = Tokenizer::open(options.model / "tokenizer.json");
  } catch (const Error& failure) {
    why_no_tokenizer_ = failure.what();
  }
  if (!options.ignore_stops) stops_ = stops_of(options.model, model_.config);
  kv_ = std::make_unique<Kv>(model_.config, settings_of(options));
  if (draft_) draft_kv_ = std::make_unique<Kv>(draft_->config, draft_settings(options));
}

void Session::allocate(StatusLine& status) {
  set_threads(options_.kv.threads);
  const auto progress = [&](size_t done, size_t all) { status.show_loading(done, all); };
  kv_->allocate();
  stepper_ = std::make_unique<Stepper>(*kv_, *model_.family);
  if (draft_) {
    draft_kv_->allocate();
    draft_->weights.load(progress);
    draft_stepper_ = std::make_unique<Stepper>(*draft_kv_, *draft_->family);
    drafter_ = std::make_unique<Drafter>(*draft_stepper_, options_.draft_tokens);
  }
  model_.weights.load(progress);
  scheduler_ = std::make_unique<Scheduler>(*stepper_, options_.kv.max_step_tokens, drafter_.get());
}

const Tokenizer& Session::tokenizer() const {
  if (!tokenizer_) throw Error(why_no_tokenizer_);
  return *tokenizer_;
}

Request Session::request(std::vector<int32_t> prompt) const {
  const int64_t vocabulary = model_.family->vocabulary();
  for (const int32_t id : prompt) {
    if (id < 0 || id >= vocabulary) {
      throw Error("token " + std::to_string(id) + " is outside of the vocabulary of " +
                  std::to_string(vocabulary) + " tokens");
    }
  }
  if (prompt.size() >= kv_->max_len()) {
    throw Error("the prompt has " + std::to_string(prompt.size()) +
                " tokens; model, --context and --pool allow sequences of " +
                std::to_string(kv_->max_len()));
  }
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = options_.max_tokens;
  request.samples = options_.samples;
  request.sampling = options_.sampling;
  request.stops = stops_;
  return request;
}

std::vector<int32_t> Session::encode(const std::string& text) const {
  std::vector<int32_t> ids = tokenizer().prefix();
  const std::vector<int32_t> rest = tokenizer().encode(text);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

std::string Session::text_of(const std::vector<int32_t>& tokens) const {
  if (!options_.ids && tokenizer_) return tokenizer_->decode(tokens);
  std::string text;
  for (const int32_t id : tokens) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

}  // namespace lm
