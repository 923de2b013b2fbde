#include "quire/svg.h"

#include <cstdarg>
#include <cstdio>

namespace quire::tools::svg {

std::string print(const char* format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80 ? 1 : byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
    size_t have = 1;
    while (have < length && i + have < text.size() && (static_cast<unsigned char>(text[i + have]) & 0xc0) == 0x80) ++have;
    if (length != have || byte >= 0xf5 || byte < 0x20 || byte == 0x7f) {
      out += '?';
      ++i;
      continue;
    }
    const char* const entity = byte == '<' ? "&lt;" : byte == '>' ? "&gt;" : byte == '&' ? "&amp;" : byte == '"' ? "&quot;" : nullptr;
    out += entity != nullptr ? entity : text.substr(i, length);
    i += length;
  }
  return out;
}

}  // namespace quire::tools::svg
