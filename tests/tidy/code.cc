// Lexing just deep enough to tell code from comments and literals, and reading the tree.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/tidy/tidy_rules.h"

namespace quire::tidy {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Scanner {
 public:
  Scanner(std::string_view text, bool with_strings) : text_(text), out_(text), with_strings_(with_strings) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (text_.substr(at_, 2) == "//") {
        blank_until(text_.find('\n', at_), true);
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        blank_until(end == std::string_view::npos ? end : end + 2, true);
      } else if (text_.substr(at_, 2) == "R\"" && (at_ == 0 || !is_word(text_[at_ - 1]))) {
        raw_string();
      } else if (text_[at_] == '"' || (text_[at_] == '\'' && (at_ == 0 || !is_word(text_[at_ - 1])))) {
        literal(text_[at_]);
      } else {
        ++at_;
      }
    }
    return out_;
  }

 private:
  void blank_until(size_t end, bool blank) {
    for (end = std::min(end, text_.size()); at_ < end; ++at_) {
      if (blank && out_[at_] != '\n') out_[at_] = ' ';
    }
  }

  void raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return blank_until(text_.size(), !with_strings_);
    const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const size_t end = text_.find(close, open);
    blank_until(end == std::string_view::npos ? end : end + close.size(), !with_strings_);
  }

  void literal(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    ++at_;  // the quotes stay
    blank_until(end, !with_strings_);
    at_ = std::max(at_, std::min(end + 1, text_.size()));
  }

  std::string_view text_;
  std::string out_;
  bool with_strings_;
  size_t at_ = 0;
};

}  // namespace

std::string code_of(std::string_view text, bool with_strings) { return Scanner(text, with_strings).run(); }

Tree read_tree(const std::string& top) {
  namespace fs = std::filesystem;
  Tree tree;
  for (auto it = fs::recursive_directory_iterator(top); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name == "build" || name == "target" || (name[0] == '.' && name != ".ci"))) it.disable_recursion_pending();
    if (!it->is_regular_file() || name == ".git") continue;
    std::ifstream in(it->path(), std::ios::binary);
    tree.push_back({fs::relative(it->path(), top).generic_string(), std::string(std::istreambuf_iterator<char>(in), {})});
  }
  std::sort(tree.begin(), tree.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return tree;
}

std::string to_text(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.path + ":" + std::to_string(finding.line) + ": " + finding.message + "\n";
  return text;
}

}  // namespace quire::tidy
