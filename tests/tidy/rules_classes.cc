// How wide a class may be.
#include <algorithm>
#include <cctype>
#include <map>

#include "tests/tidy/tidy_rules.h"

namespace quire::tidy {
namespace {

constexpr int kMostFields = 20;
constexpr int kMostMethods = 40;

struct Width {
  int fields = 0;
  int methods = 0;
};

// Wider than the rule: they may become narrower, and no wider.
const std::map<std::string, Width>& wide_by_nature() {
  static const std::map<std::string, Width> kWide = {
      {"Pool", {24, 88}},
      {"PrefixIndex", {21, 81}},
      {"Cache", {2, 51}},        // a method for every exported function on caches
      {"Cache::Impl", {22, 40}}  // the parts of a cache
  };
  return kWide;
}

size_t behind_braces(const std::string& code, size_t open) {
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    depth += code[i] == '{' ? 1 : code[i] == '}' ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return code.size();
}

bool starts_with_word(const std::string& text, const std::string& word) {
  return text.compare(0, word.size(), word) == 0 &&
         (text.size() == word.size() || std::isspace(static_cast<unsigned char>(text[word.size()])) != 0);
}

// Without what comes before the declaration itself.
std::string declaration(std::string text) {
  for (bool again = true; again;) {
    again = false;
    const size_t first = text.find_first_not_of(" \n");
    text = first == std::string::npos ? "" : text.substr(first);
    for (const std::string label : {"public:", "private:", "protected:"}) {
      if (text.compare(0, label.size(), label) == 0) text = text.substr(label.size()), again = true;
    }
  }
  return text;
}

// Names that a field's declaration has: those between commas outside of brackets.
int names_of(const std::string& text) {
  int depth = 0, names = 1;
  for (char c : text) {
    depth += c == '<' || c == '(' || c == '[' || c == '{' ? 1 : c == '>' || c == ')' || c == ']' || c == '}' ? -1 : 0;
    names += depth == 0 && c == ',' ? 1 : 0;
  }
  return names;
}

void count(const std::string& statement, Width* width) {
  const std::string text = declaration(statement);
  if (text.empty()) return;
  for (const char* word : {"using", "friend", "static", "enum", "class", "typedef", "static_assert"}) {
    if (starts_with_word(text, word) && text.find('(') == std::string::npos) return;
  }
  const size_t round = text.find('('), equals = text.find('='), brace = text.find('{');
  const bool method = round != std::string::npos && round < std::min(equals, brace);
  if (method || text.find("operator") != std::string::npos) {
    ++width->methods;
  } else if (starts_with_word(text, "struct")) {
    width->fields += brace != std::string::npos && text.back() != '}' ? 1 : 0;  // an unnamed one with a name behind it
  } else {
    width->fields += names_of(text);
  }
}

// The class whose braces open there.
Width width_of(const std::string& code, size_t open) {
  Width width;
  const size_t end = behind_braces(code, open) - 1;
  std::string statement;
  for (size_t i = open + 1; i < end;) {
    if (code[i] == ';') {
      count(statement, &width);
      statement.clear();
      ++i;
    } else if (code[i] == '{') {
      const std::string text = declaration(statement);
      const bool type = starts_with_word(text, "struct") || starts_with_word(text, "class") || starts_with_word(text, "enum");
      // Not the value of a parameter that the caller may leave out.
      const bool inside = std::count(text.begin(), text.end(), '(') > std::count(text.begin(), text.end(), ')');
      const bool body = !type && !inside && text.find('(') != std::string::npos && text.find('(') < text.find('=');
      statement += "{}";
      i = behind_braces(code, i);
      if (!body) continue;
      count(statement, &width);
      statement.clear();
    } else {
      statement += code[i++];
    }
  }
  return width;
}

}  // namespace

Findings wide_classes(const File& file) {
  Findings findings;
  if (file.path.compare(0, 5, "core/") != 0 || file.path.size() < 2 || file.path.substr(file.path.size() - 2) != ".h") return findings;
  const std::string code = code_of(file.text, false);
  int line = 1;
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '\n') ++line;
    const bool starts = at == 0 || code[at - 1] == '\n' || code[at - 1] == ' ';
    const bool is_class = starts && code.compare(at, 6, "class ") == 0;
    const bool is_inside = starts && code.compare(at, 7, "struct ") == 0;
    if (!is_class && !is_inside) continue;
    const size_t stop = code.find_first_of(";{(,>)", at);
    if (stop == std::string::npos || code[stop] != '{') continue;
    const size_t first = at + (is_class ? 6 : 7);
    const std::string name = code.substr(first, code.find_first_of(" \n{", first) - first);
    const bool plain = is_inside && name.find("Impl") == std::string::npos;  // values: as many fields as there are facts
    const Width width = width_of(code, stop);
    const auto wide = wide_by_nature().find(name);
    const Width most = wide != wide_by_nature().end() ? wide->second : Width{kMostFields, kMostMethods};
    if ((plain || width.fields <= most.fields) && width.methods <= most.methods) continue;
    findings.push_back({file.path, line,
                        name + " has " + std::to_string(width.fields) + " fields and " + std::to_string(width.methods) +
                            " methods; at most " + std::to_string(most.fields) + " and " + std::to_string(most.methods)});
  }
  return findings;
}

}  // namespace quire::tidy
