#include "foreign_json.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lm_error.h"

namespace lm {
namespace {

// Looks at brackets and commas outside of strings.
void check_limits(std::string_view text, const std::string& name, const JsonLimits& limits) {
  int depth = 0;
  uint64_t values = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ',') ++values;
    if (depth > limits.depth)
      throw Error(name + ": its JSON nests deeper than " + std::to_string(limits.depth) +
                  " levels");
    if (values > limits.values)
      throw Error(name + ": its JSON has more than " + std::to_string(limits.values) + " values");
  }
}

}  // namespace

nlohmann::json parse_object(std::string_view text, const std::string& name,
                            const JsonLimits& limits) {
  check_limits(text, name, limits);
  nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object()) throw Error(name + ": no JSON object");
  return root;
}

std::string read_text(const std::filesystem::path& path, uint64_t most) {
  std::error_code why;
  const uint64_t bytes = std::filesystem::file_size(path, why);
  if (why) throw Error(path.string() + ": " + why.message());
  if (bytes > most)
    throw Error(path.string() + ": " + std::to_string(bytes) + " bytes, at most " +
                std::to_string(most) + " are read");
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace lm
