#include "core/model/json_text.h"

#include <algorithm>
#include <cinttypes>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>

namespace quire {
namespace {

constexpr uint64_t kMaxBytes = 16u << 20;
constexpr int kMaxDepth = 64;

// Checks the depth of brackets outside strings and overwrites the literals NaN and Infinity, which Python writes and JSON forbids, with
// values that are no numbers.
Status prepare(std::string& text, const char* name) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return invalid("%s: brackets nested deeper than %d at byte %zu", name, kMaxDepth, i);
    for (const std::string_view literal : {std::string_view("-Infinity"), std::string_view("Infinity"), std::string_view("NaN")}) {
      if (text.compare(i, literal.size(), literal) != 0) continue;
      // Same length, so that later positions stay; NaN becomes an object, which no field accepts as a number.
      const std::string_view plain = literal.size() > 3 ? "null" : "{}";
      text.replace(i, literal.size(), std::string(plain) + std::string(literal.size() - plain.size(), ' '));
      break;
    }
  }
  return {};
}

}  // namespace

Result<Model> with_json(std::string_view text, const char* name, const std::function<Result<Model>(const Json&)>& read) {
  if (text.size() > kMaxBytes) return invalid("%s: %zu bytes; at most %" PRIu64, name, text.size(), kMaxBytes);
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return invalid("%s: not JSON at byte %zu of %zu", name, nul, text.size());
  }
  try {
    std::string copy(text);
    QUIRE_RETURN_IF_ERROR(prepare(copy, name));
    ParsedJson parsed = parse_json(copy);
    if (parsed.error_at != 0) {
      const size_t at = std::min(parsed.error_at, text.size());
      return parsed.too_large ? invalid("%s: a number that is too large at byte %zu of %zu", name, at, text.size())
                              : invalid("%s: not JSON at byte %zu of %zu", name, at, text.size());
    }
    if (parsed.doubled) {
      const Json key(Json::Value(*std::move(parsed.doubled)));
      return invalid("%s: key %.64s stands twice in one object; at most once", name, key.text().c_str());
    }
    return read(parsed.root);
  } catch (const std::bad_alloc&) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "%s: out of memory for %zu bytes of JSON", name, text.size());
  } catch (const std::exception& error) {
    return invalid("%s: %.200s", name, error.what());
  }
}

}  // namespace quire
