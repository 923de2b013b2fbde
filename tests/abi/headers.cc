#include "headers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace quire::abi {
namespace {

std::string without_comments(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)"), " ");
}

std::string one_line(const std::string& text) {
  std::string line = std::regex_replace(text, std::regex(R"(\s+)"), " ");
  line = std::regex_replace(line, std::regex(R"(^ | $)"), "");
  return std::regex_replace(line, std::regex(R"(\* )"), "*");
}

// Text of the macros, then of everything else.
std::string take_macros(const std::string& text, std::vector<std::string>* macros) {
  static const std::regex macro(R"(#define (QUIRE_\w+)[ \t]+(-?(0x)?[0-9a-fA-F]+[uUlL]*)[ \t]*\n)");
  for (std::sregex_iterator i(text.begin(), text.end(), macro), end; i != end; ++i) macros->push_back((*i)[1]);
  std::string rest = std::regex_replace(text, std::regex(R"(#[^\n]*\n)"), "\n");
  return std::regex_replace(rest, std::regex(R"re(extern "C" \{)re"), " ");
}

std::vector<std::string> fields_of(const std::string& body, const std::string& name, std::vector<std::string>* unread) {
  static const std::regex pointer(R"(\(\*(\w+)\)\s*\()");
  static const std::regex plain(R"((\w+)\s*(\[\d+\])?\s*$)");
  std::vector<std::string> fields;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = std::min(body.find(';', at), body.size());
    const std::string field = one_line(body.substr(at, end - at));
    at = end + 1;
    if (field.empty()) continue;
    std::smatch found;
    if (std::regex_search(field, found, pointer) ||
        (field.find_first_of(",{(") == std::string::npos && std::regex_search(field, found, plain))) {
      fields.push_back(found[1]);
    } else {
      std::string what = name;
      unread->push_back(what.append(": ").append(field));
    }
  }
  return fields;
}

// The names in "quire_f(const char *text, uint64_t bytes)".
std::vector<std::string> parameters_of(const std::string& prototype) {
  static const std::regex last_word(R"((\w+)\s*$)");
  std::vector<std::string> names;
  const size_t open = prototype.find('(');
  std::string rest = prototype.substr(open + 1, prototype.rfind(')') - open - 1);
  if (one_line(rest) == "void") return names;
  for (size_t at = 0; at <= rest.size();) {
    const size_t end = std::min(rest.find(',', at), rest.size());
    std::smatch found;
    const std::string parameter = rest.substr(at, end - at);
    if (std::regex_search(parameter, found, last_word)) names.push_back(found[1]);
    at = end + 1;
  }
  return names;
}

void read_header(const std::string& raw, const std::string& header, Headers* out) {
  std::string text = take_macros(without_comments(raw), &out->macros);
  static const std::regex record(R"(typedef struct (\w+)\s*\{([^{}]*)\}\s*(\w+)\s*;)");
  for (std::sregex_iterator i(text.begin(), text.end(), record), end; i != end; ++i) {
    out->structs.push_back({(*i)[1], fields_of((*i)[2], (*i)[1], &out->unread)});
  }
  static const std::regex list(R"(enum \w+\s*\{([^{}]*)\}\s*;)");
  static const std::regex enumerator(R"((QUIRE_\w+)\s*=)");
  for (std::sregex_iterator i(text.begin(), text.end(), list), end; i != end; ++i) {
    const std::string body = (*i)[1];
    for (std::sregex_iterator k(body.begin(), body.end(), enumerator); k != end; ++k) out->enumerators.push_back((*k)[1]);
    // Every enumerator has an explicit value.
    const auto commas = std::count(body.begin(), body.end(), ',');
    const auto values = std::count(body.begin(), body.end(), '=');
    if (values != commas + 1) out->unread.push_back("enum without explicit values: " + one_line(body).substr(0, 60));
  }
  static const std::regex function(R"(QUIRE_API\s+([\w\s\*]*?\b(quire_\w+)\s*\([^;]*\))\s*;)");
  for (std::sregex_iterator i(text.begin(), text.end(), function), end; i != end; ++i) {
    out->functions.push_back((*i)[2]);
    out->prototypes.push_back(one_line((*i)[1]));
    out->declared.push_back({(*i)[2], header, parameters_of((*i)[1])});
  }
  // What remains may only be forward declarations and names for numbers and functions.
  std::string rest = std::regex_replace(text, record, "");
  rest = std::regex_replace(rest, list, "");
  rest = std::regex_replace(rest, function, "");
  rest = std::regex_replace(rest, std::regex(R"((typedef )?struct \w+( \w+)?;)"), "");
  rest = std::regex_replace(rest, std::regex(R"(typedef \w+ \w+;)"), "");
  rest = std::regex_replace(rest, std::regex(R"(typedef [\w\s\*]*\(\*\w+\)\([^;]*\);)"), "");
  rest = one_line(std::regex_replace(rest, std::regex(R"([\s\}])"), " "));
  if (!rest.empty()) out->unread.push_back(rest);
}

}  // namespace

Headers read_headers(const std::string& include_dir) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(include_dir + "/quire")) {
    if (entry.path().extension() == ".h") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Headers headers;
  for (const auto& path : paths) {
    std::ifstream file(path);
    read_header(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()), path.stem(), &headers);
  }
  return headers;
}

}  // namespace quire::abi
