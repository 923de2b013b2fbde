#include "core/modules/signature.h"

#include <algorithm>

namespace quire {
namespace {

struct Word {
  const char* text;
  ValueType type;
  bool result;
  bool parameter;
};

constexpr Word kWords[] = {
    {"void", ValueType::kVoid, true, false},     {"i32", ValueType::kI32, true, true},        {"i64", ValueType::kI64, true, true},
    {"u32", ValueType::kU32, true, true},        {"u64", ValueType::kU64, true, true},        {"f32", ValueType::kF32, true, true},
    {"f64", ValueType::kF64, true, true},        {"ptr", ValueType::kPointer, true, true},    {"str", ValueType::kStr, false, true},
    {"tensor", ValueType::kTensor, false, true}, {"stream", ValueType::kStream, false, true}, {"code", ValueType::kCode, true, false},
    {"self", ValueType::kSelf, false, true},     {"error", ValueType::kError, false, true}};

const Word* find_word(std::string_view text) {
  const auto* found = std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& word) { return text == word.text; });
  return found == std::end(kWords) ? nullptr : found;
}

Status refuse(std::string_view word, const char* what) {
  return invalid("'%.*s' is no %s of a signature", static_cast<int>(std::min<size_t>(word.size(), 64)), word.data(), what);
}

Status add_parameter(std::string_view word, Signature* signature) {
  const Word* found = find_word(word);
  if (found == nullptr || !found->parameter) return refuse(word, "parameter");
  if (signature->num_parameters == kMaxParameters) return invalid("a signature has at most %u parameters", kMaxParameters);
  if (signature->has_error) return invalid("'error' is not the last parameter");
  if (found->type == ValueType::kSelf && signature->num_parameters != 0) return invalid("'self' is not the first parameter");
  signature->has_self |= found->type == ValueType::kSelf;
  signature->has_error |= found->type == ValueType::kError;
  signature->parameters[signature->num_parameters++] = found->type;
  return {};
}

}  // namespace

const char* type_word(ValueType type) {
  const auto* found = std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& word) { return type == word.type; });
  return found == std::end(kWords) ? "?" : found->text;
}

Result<Signature> parse_signature(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') return invalid("a signature reads result(parameter,...)");
  Signature signature;
  const std::string_view word = text.substr(0, open);
  const Word* found = find_word(word);
  if (found == nullptr || !found->result) return refuse(word, "result");
  signature.result = found->type;
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    QUIRE_RETURN_IF_ERROR(add_parameter(rest.substr(0, comma), &signature));
    if (comma == std::string_view::npos) return signature;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return refuse(rest, "parameter");
  }
  return signature;
}

}  // namespace quire
