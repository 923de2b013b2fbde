// chat.h: conversations as tokens. The chat templates of checkpoints are programs; this engine
// knows the two forms that most models with byte-level BPE use, and finds out by the tokens that a
// model has:
//   ChatML:   <|im_start|>role\ntext<|im_end|>\n
//   Llama 3:  <|begin_of_text|>, then <|start_header_id|>role<|end_header_id|>\n\ntext<|eot_id|>
// What a template adds in other cases (a date, a default system message, tools) is not added.
#pragma once

#include <string>
#include <vector>

#include "tokenizer.h"

namespace lm {

class Chat {
 public:
  // Error if the tokenizer has the tokens of neither form.
  explicit Chat(const Tokenizer& tokenizer);

  // The beginning of a conversation; system: empty = none.
  std::vector<int32_t> open(const std::string& system) const;
  // A message of the user, and the beginning of the answer. Names of special tokens in it are text.
  std::vector<int32_t> turn(const std::string& text) const;
  // What follows an answer: its end, unless `last` is that token, and what comes before the next
  // turn.
  std::vector<int32_t> after(int32_t last) const;
  int32_t stop() const { return stop_; }

 private:
  void add_message(std::vector<TextPart>& parts, const std::string& role) const;

  const Tokenizer& tokenizer_;
  bool is_chatml_ = false;
  int32_t stop_ = 0;
};

}  // namespace lm
