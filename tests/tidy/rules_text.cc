// Rules about names, sizes and what may be said where.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tidy/tidy_rules.h"

namespace quire::tidy {
namespace {

constexpr int kMaxFunctionLines = 70;
constexpr int kMaxFileLines = 500;
constexpr size_t kMaxColumns = 140;
constexpr size_t kMaxBlobBytes = 256 * 1024;
constexpr size_t kMaxRecordedBytes = 512 * 1024;  // what was recorded elsewhere cannot be generated
constexpr size_t kMaxModelBytes = 6 * 1024 * 1024;
constexpr const char* kModel = "samples/lm/box/model/";  // what samples/lm/box/train.py writes

bool starts_with(const std::string& text, const std::string& prefix) { return text.compare(0, prefix.size(), prefix) == 0; }

bool is_source(const std::string& path) {
  static const std::set<std::string> kExtensions = {".h", ".hpp", ".c", ".cc", ".cu", ".hip"};
  return kExtensions.count(std::filesystem::path(path).extension().string()) != 0;
}

bool is_text(const std::string& path) {  // written by hand, so lines have a form; golden data is not
  static const std::set<std::string> kExtensions = {".md", ".txt", ".cmake", ".sh", ".json", ".map", ".rs", ".go", ".toml", ""};
  if (path.find("golden/") != std::string::npos || path == "LICENSE" || starts_with(path, kModel)) return false;
  return is_source(path) || kExtensions.count(std::filesystem::path(path).extension().string()) != 0;
}

// Calls visit(line number, line) for each line.
template <typename Visit>
void each_line(const std::string& text, Visit visit) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) visit(number, line);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Calls visit(word) for each identifier-like word of a line.
template <typename Visit>
void each_word(const std::string& line, Visit visit) {
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    while (end < line.size() && is_word(line[end])) ++end;
    if (end > at && std::isdigit(static_cast<unsigned char>(line[at])) == 0) visit(line.substr(at, end - at));
    at = std::max(end, at + 1);
  }
}

// The parts of a name in lower case: "BlockTable_manager2" -> block, table, manager.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(name[i]);
    const bool starts = std::isupper(c) != 0 && i > 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if ((std::isalpha(c) == 0 || starts) && !parts.back().empty()) parts.emplace_back();
    if (std::isalpha(c) != 0) parts.back() += static_cast<char>(std::tolower(c));
  }
  return parts;
}

std::string refused_word(const std::string& name) {
  static const std::set<std::string> kRefused = {"manager", "managers", "coordinator", "coordinators", "handler", "handlers",
                                                 "helper",  "helpers",  "util",        "utils",        "misc"};
  static const std::set<std::string> kForeign = {"sa_handler", "set_new_handler", "get_new_handler", "error_handler_t",
                                                 // UCX
                                                 "ucs_log_push_handler", "ucp_am_handler_param_t", "UCP_AM_HANDLER_PARAM_FIELD_ID",
                                                 "UCP_AM_HANDLER_PARAM_FIELD_CB", "UCP_AM_HANDLER_PARAM_FIELD_ARG",
                                                 "ucp_worker_set_am_recv_handler", "UCP_LISTENER_PARAM_FIELD_CONN_HANDLER", "conn_handler",
                                                 "UCP_EP_PARAM_FIELD_ERR_HANDLER", "err_handler"};
  if (kForeign.count(name) != 0) return "";
  const std::vector<std::string> parts = parts_of(name);
  for (const std::string& part : parts) {
    if (kRefused.count(part) != 0) return part;
  }
  std::string whole;
  for (const std::string& part : parts) whole += part;
  return whole == "context" || whole == "ctx" ? whole : "";  // "context" with a word beside it says of what
}

std::string without_directives(const std::string& code) {  // preprocessor lines blanked, continuations too
  std::string out;
  bool inside = false;
  each_line(code, [&](int, const std::string& line) {
    const size_t first = line.find_first_not_of(' ');
    inside = inside || (first != std::string::npos && line[first] == '#');
    if (!inside) out += line;
    out += '\n';
    inside = inside && !line.empty() && line.back() == '\\';
  });
  return out;
}

// Walks braces; a brace is a function's when everything around it is a namespace or a type and a parameter list stands before it.
class FunctionScan {
 public:
  FunctionScan(const File& file, std::string code) : file_(file), code_(std::move(code)) {}

  Findings run() {
    for (const char c : code_) step(c);
    return findings_;
  }

 private:
  void step(char c) {
    if (c == '\n') ++line_;
    if (c == '{') {
      open();
    } else if (c == '}') {
      close();
    } else if (c == ';' && depth_ == 0) {
      head_.clear();
    } else if (depth_ == 0) {
      if (head_.empty() && std::isspace(static_cast<unsigned char>(c)) != 0) return;
      if (head_.empty()) head_line_ = line_;
      head_ += c;
    }
  }

  void open() {
    static const std::regex kContainer(R"((^|[^\w])(namespace|class|struct|union|enum|extern\s*"")([^\w]|$))");
    if (depth_ == 0 && std::regex_search(head_, kContainer) && head_.find('(') == std::string::npos) {
      ++containers_;
      head_.clear();
      return;
    }
    if (depth_++ == 0) is_function_ = head_.find('(') != std::string::npos;
  }

  void close() {
    if (depth_ == 0) {
      containers_ = std::max(0, containers_ - 1);
      head_.clear();
      return;
    }
    if (--depth_ > 0) return;
    const int lines = line_ - head_line_ + 1;
    if (is_function_ && lines > kMaxFunctionLines) {
      findings_.push_back(
          {file_.path, head_line_,
           "function of " + std::to_string(lines) + " lines, at most " + std::to_string(kMaxFunctionLines) + ": take a step out"});
    }
    head_.clear();
  }

  const File& file_;
  std::string code_;
  Findings findings_;
  std::string head_;
  int line_ = 1;
  int head_line_ = 1;
  int depth_ = 0;  // braces below the containers
  int containers_ = 0;
  bool is_function_ = false;
};

}  // namespace

Findings attention_kinds(const File& file) {
  static const std::set<std::string> kKinds = {"sliding", "mamba", "gdn", "kda", "mla", "lightning"};
  Findings findings;
  if (!starts_with(file.path, "core/") || starts_with(file.path, "core/model/") || starts_with(file.path, "core/plan/")) return findings;
  if (starts_with(file.path, "core/events/event_kind.")) return findings;  // as other systems name them
  each_line(code_of(file.text, true), [&](int number, const std::string& line) {
    each_word(line, [&](const std::string& word) {
      const std::vector<std::string> parts = parts_of(word);
      const bool kind = std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return kKinds.count(part) != 0; });
      if (kind || starts_with(word, "QUIRE_LAYER_")) {
        findings.push_back({file.path, number, word + " names an attention kind: use its live range (core/model, core/plan name kinds)"});
      }
    });
  });
  return findings;
}

Findings output_and_environment(const File& file) {
  static const std::set<std::string> kOutput = {"printf",  "fprintf", "vprintf", "vfprintf", "puts", "fputs",
                                                "putchar", "perror",  "cout",    "cerr",     "clog"};
  static const std::set<std::string> kEnvironment = {"getenv", "secure_getenv"};
  Findings findings;
  const bool module = starts_with(file.path, "drivers/") || starts_with(file.path, "plugins/");
  if (!is_source(file.path) || !(module || starts_with(file.path, "core/"))) return findings;
  each_line(code_of(file.text, false), [&](int number, const std::string& line) {
    each_word(line, [&](const std::string& word) {
      const bool names_a_format = line.find("format(printf") != std::string::npos;  // __attribute__
      if (kOutput.count(word) != 0 && !names_a_format)
        findings.push_back({file.path, number, word + " prints: use the log, or return a status"});
      if (kEnvironment.count(word) != 0 && !starts_with(file.path, "core/modules/")) {
        findings.push_back({file.path, number, word + " reads the environment: only core/modules does"});
      }
    });
  });
  return findings;
}

Findings refused_names(const File& file) {
  Findings findings;
  const std::string in_path = refused_word(std::filesystem::path(file.path).stem().string());
  if (!in_path.empty()) findings.push_back({file.path, 0, "file name says '" + in_path + "': say of what, or what it does"});
  if (!is_source(file.path)) return findings;
  each_line(code_of(file.text, false), [&](int number, const std::string& line) {
    each_word(line, [&](const std::string& word) {
      const std::string refused = refused_word(word);
      if (!refused.empty()) findings.push_back({file.path, number, word + " says '" + refused + "': use a word that says what it does"});
    });
  });
  return findings;
}

Findings long_functions(const File& file) {
  if (!is_source(file.path) || file.path.find("/kernels/") != std::string::npos) return {};
  return FunctionScan(file, without_directives(code_of(file.text, false))).run();
}

Findings long_files(const File& file) {
  const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
  if (!is_source(file.path) || lines <= kMaxFileLines) return {};
  return {{file.path, kMaxFileLines + 1,
           std::to_string(lines) + " lines, at most " + std::to_string(kMaxFileLines) + ": split by what it does"}};
}

Findings layout_of_lines(const File& file) {
  Findings findings;
  if (!is_text(file.path)) return findings;
  const bool bounded = is_source(file.path) || file.path.find("CMakeLists.txt") != std::string::npos;
  each_line(file.text, [&](int number, const std::string& line) {
    if (line.find('\t') != std::string::npos && !file.path.ends_with(".go")) findings.push_back({file.path, number, "tab: use spaces"});
    if (line.find('\r') != std::string::npos) findings.push_back({file.path, number, "carriage return: use LF"});
    if (!line.empty() && line.back() == ' ') findings.push_back({file.path, number, "space at the end of the line"});
    if (bounded && line.size() > kMaxColumns) {
      findings.push_back({file.path, number, std::to_string(line.size()) + " columns, at most " + std::to_string(kMaxColumns)});
    }
  });
  if (!file.text.empty() && file.text.back() != '\n') findings.push_back({file.path, 0, "no newline at the end of the file"});
  return findings;
}

Findings open_ends(const File& file) {
  static const std::set<std::string> kOpen = {
      "TO"  // apart, so that this file keeps the rule
      "DO",
      "FIX"
      "ME",
      "XX"
      "X",
      "HA"
      "CK"};
  Findings findings;
  if (!is_text(file.path)) return findings;
  each_line(file.text, [&](int number, const std::string& line) {
    each_word(line, [&](const std::string& word) {
      if (kOpen.count(word) != 0) findings.push_back({file.path, number, "an open end: finish it, or return UNIMPLEMENTED and say so"});
    });
  });
  return findings;
}

Findings large_blobs(const File& file) {
  const size_t most = starts_with(file.path, "tests/golden/data/") ? kMaxRecordedBytes
                      : starts_with(file.path, kModel)             ? kMaxModelBytes
                                                                   : kMaxBlobBytes;
  if (file.text.size() <= most) return {};
  return {{file.path, 0, std::to_string(file.text.size()) + " bytes, at most " + std::to_string(most) + ": generate it"}};
}

Findings unequal_versions(const Tree& tree) {
  struct Source {
    const char* path;
    const char* pattern;  // group 1 is the version
    std::string found;
  };
  std::vector<Source> sources = {{"CMakeLists.txt", R"(project\(quire VERSION (\d+\.\d+\.\d+))", ""},
                                 {"CHANGELOG.md", R"((?:^|\n)## (\d+\.\d+\.\d+))", ""},
                                 {"abi/include/quire/base.h", R"(QUIRE_ABI_MAJOR (\d+))", ""},
                                 {"abi/include/quire/base.h", R"(QUIRE_ABI_MINOR (\d+))", ""},
                                 {"abi/include/quire/base.h", R"(QUIRE_ABI_VERSION 0x([0-9a-fA-F]{8})u)", ""}};
  for (Source& source : sources) {
    const auto file = std::find_if(tree.begin(), tree.end(), [&](const File& each) { return each.path == source.path; });
    std::smatch match;
    if (file != tree.end() && std::regex_search(file->text, match, std::regex(source.pattern))) source.found = match[1];
    if (source.found.empty()) return {{source.path, 0, std::string("no version found that looks like ") + source.pattern}};
  }
  Findings findings;
  const std::string version = sources[0].found;
  const std::string abi = sources[2].found + "." + sources[3].found;
  const uint64_t number = (std::stoull(sources[2].found) << 16) | std::stoull(sources[3].found);
  if (sources[1].found != version)
    findings.push_back({sources[1].path, 0, "newest entry is " + sources[1].found + ", CMakeLists.txt says " + version});
  if (!starts_with(version, abi + ".")) findings.push_back({sources[2].path, 0, "ABI " + abi + ", CMakeLists.txt says " + version});
  if (std::stoull(sources[4].found, nullptr, 16) != number)
    findings.push_back({sources[4].path, 0, "QUIRE_ABI_VERSION is not major << 16 | minor"});
  return findings;
}

}  // namespace quire::tidy
