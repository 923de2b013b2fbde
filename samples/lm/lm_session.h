// lm_session.h: a model that is open, and what a user asks of it.
#pragma once

#include <memory>
#include <optional>

#include "chat.h"
#include "generate_options.h"
#include "scheduler.h"
#include "terminal.h"
#include "tokenizer.h"

namespace lm {

// Everything that a run needs, in the order in which it is checked: nothing large is allocated
// before allocate().
class Session {
 public:
  explicit Session(const GenerateOptions& options);
  // Packs the weights and allocates the memory.
  void allocate(StatusLine& status);

  const GenerateOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const;  // error if there is none
  Kv& kv() { return *kv_; }
  Scheduler& scheduler() { return *scheduler_; }
  const LoadedModel& model() const { return model_; }

  // A request with what the command line says of it. Error if the prompt is too long.
  Request request(std::vector<int32_t> prompt) const;
  std::vector<int32_t> encode(const std::string& text) const;
  std::string text_of(const std::vector<int32_t>& tokens) const;

 private:
  const GenerateOptions& options_;
  LoadedModel model_;
  std::optional<LoadedModel> draft_;
  std::optional<Tokenizer> tokenizer_;
  std::string why_no_tokenizer_;
  std::vector<int32_t> stops_;
  std::unique_ptr<Kv> kv_;
  std::unique_ptr<Kv> draft_kv_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Stepper> draft_stepper_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace lm
