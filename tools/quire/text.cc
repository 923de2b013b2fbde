#include "quire/text.h"

#include <algorithm>
#include <cstdio>

namespace quire::tools {
namespace {

constexpr size_t kColumns = 100;

// Of the first character in UTF-8; 1 where the text is none there.
size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t n = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (n > text.size()) return 1;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; };
  return std::all_of(text.begin() + 1, text.begin() + static_cast<long>(n), continues) ? n : 1;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = character_bytes(text);
    const auto byte = static_cast<unsigned char>(text[n - 1]);
    const bool c1 = (n == 1 || (n == 2 && text[0] == '\xC2')) && byte >= 0x80 && byte < 0xA0;
    char escaped[8] = {};
    if (c1 || (n == 1 && (byte < 0x20 || byte == 0x7F))) std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped[0] != '\0' ? std::string_view(escaped) : text.substr(0, n);
    text.remove_prefix(n);
  }
  return out;
}

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
  size_t columns = 0;
  for (const size_t width : widths) columns += width + 2;
  const char* const between = columns > kColumns + 2 ? " " : "  ";
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : between) + (i < left ? row[i] + space : space + row[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace quire::tools
