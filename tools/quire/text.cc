#include "quire/text.h"

#include <algorithm>

namespace quire::tools {
namespace {

constexpr size_t kColumns = 100;

}  // namespace

std::string wrapped(const std::string& text, size_t indent) {
  std::string out;
  size_t column = 0;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", from), text.size());
    const bool fits = column == 0 || column + 1 + end - from <= kColumns;
    if (column != 0) out += fits ? std::string(" ") : "\n" + std::string(indent, ' ');
    column = fits ? column + (column != 0 ? 1 : 0) : indent;
    out += text.substr(from, end - from);
    column += end - from;
    if (end < text.size() && text[end] == '\n') {
      out += '\n';
      column = 0;
    }
    from = end + 1;
  }
  return out + "\n";
}

std::string with_commas(uint64_t number) {
  std::string out = std::to_string(number);
  for (size_t at = out.size(); at > 3; at -= 3) out.insert(at - 3, ",");
  return out;
}

std::string counted(uint64_t number, const std::string& noun) { return std::to_string(number) + " " + noun + (number == 1 ? "" : "s"); }

std::string table(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < left ? row[i] + space : space + row[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace quire::tools
