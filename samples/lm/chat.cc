#include "chat.h"

#include "lm_error.h"

namespace lm {

Chat::Chat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  is_chatml_ = tokenizer.find("<|im_start|>") && tokenizer.find("<|im_end|>");
  const bool is_llama = tokenizer.find("<|start_header_id|>") && tokenizer.find("<|eot_id|>");
  if (!is_chatml_ && !is_llama) {
    throw Error(
        "--chat: the model has neither the tokens of ChatML nor those of Llama 3; other chat "
        "templates are not known");
  }
  stop_ = *tokenizer.find(is_chatml_ ? "<|im_end|>" : "<|eot_id|>");
}

void Chat::add_message(std::vector<TextPart>& parts, const std::string& role) const {
  if (is_chatml_) {
    parts.push_back({"<|im_start|>", true});
    parts.push_back({role + "\n"});
  } else {
    parts.push_back({"<|start_header_id|>", true});
    parts.push_back({role});
    parts.push_back({"<|end_header_id|>", true});
    parts.push_back({"\n\n"});
  }
}

std::vector<int32_t> Chat::open(const std::string& system) const {
  std::vector<TextPart> parts;
  if (!is_chatml_) parts.push_back({"<|begin_of_text|>", true});
  if (!system.empty()) {
    add_message(parts, "system");
    parts.push_back({system});
    parts.push_back({is_chatml_ ? "<|im_end|>" : "<|eot_id|>", true});
    if (is_chatml_) parts.push_back({"\n"});
  }
  return tokenizer_.encode(parts);
}

std::vector<int32_t> Chat::turn(const std::string& text) const {
  std::vector<TextPart> parts;
  add_message(parts, "user");
  parts.push_back({text});
  parts.push_back({is_chatml_ ? "<|im_end|>" : "<|eot_id|>", true});
  if (is_chatml_) parts.push_back({"\n"});
  add_message(parts, "assistant");
  return tokenizer_.encode(parts);
}

std::vector<int32_t> Chat::after(int32_t last) const {
  std::vector<int32_t> ids;
  if (last != stop_) ids.push_back(stop_);
  if (!is_chatml_) return ids;
  for (const int32_t id : tokenizer_.encode("\n", false)) ids.push_back(id);
  return ids;
}

}  // namespace lm
