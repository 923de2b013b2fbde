#include "core/model/json_text.h"

#include <algorithm>
#include <cinttypes>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/model/hf_fields.h"

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

// The first key that an object has twice: which of the two values holds is not for a reader to say.
class KeysOnce {
 public:
  bool operator()(int /*depth*/, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) seen_.emplace_back();
    if (event == json::parse_event_t::object_end) seen_.pop_back();
    if (event == json::parse_event_t::key && !seen_.back().insert(parsed.get<std::string>()).second && !doubled_) {
      doubled_ = parsed.get<std::string>();
    }
    return true;
  }
  const std::optional<std::string>& doubled() const { return doubled_; }

 private:
  std::vector<std::set<std::string>> seen_;
  std::optional<std::string> doubled_;
};

}  // namespace

Result<Model> with_json(std::string_view text, const char* name, const std::function<Result<Model>(const json&)>& read) {
  if (text.size() > kMaxBytes) return invalid("%s: %zu bytes; at most %" PRIu64, name, text.size(), kMaxBytes);
  try {
    std::string copy(text);
    QUIRE_RETURN_IF_ERROR(prepare(copy, name));
    KeysOnce keys;
    const json root = json::parse(copy, std::ref(keys));
    if (keys.doubled()) {
      const json key = *keys.doubled();
      return invalid("%s: key %.64s stands twice in one object; at most once", name, Fields::shown(key).c_str());
    }
    return read(root);
  } catch (const json::parse_error& error) {
    return invalid("%s: not JSON at byte %zu of %zu", name, std::min(error.byte, text.size()), text.size());
  } catch (const std::bad_alloc&) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "%s: out of memory for %zu bytes of JSON", name, text.size());
  } catch (const std::exception& error) {
    return invalid("%s: %.200s", name, error.what());
  }
}

}  // namespace quire
