#include "core/base/status.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace quire {
namespace {

Status format_failure(quire_code code, const char* format, va_list args) {
  char line[512];
  std::vsnprintf(line, sizeof line, format, args);
  return Status(code, line);
}

// Copies at most capacity - 1 bytes, cut at a UTF-8 boundary, and terminates.
void copy_text(char* to, size_t capacity, const char* from, size_t length) {
  size_t n = std::min(length, capacity - 1);
  if (n < length) {
    while (n > 0 && (static_cast<unsigned char>(from[n]) & 0xC0u) == 0x80u) --n;
  }
  std::memcpy(to, from, n);
  to[n] = '\0';
}

// Of the first character in UTF-8; 1 where the text is none there.
size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t n = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (n > text.size()) return 1;
  for (size_t i = 1; i < n; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0u) != 0x80u) return 1;
  }
  return n;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t n = character_bytes(text);
    const auto byte = static_cast<unsigned char>(text[n - 1]);
    const bool c1 = (n == 1 || (n == 2 && text[0] == '\xC2')) && byte >= 0x80 && byte < 0xA0;
    if (n == 1 && (byte == '\n' || byte == '\t')) {
      out += byte == '\n' ? "\\n" : "\\t";
    } else if (c1 || (n == 1 && (byte < 0x20 || byte == 0x7F))) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      out += escaped;
    } else {
      out += text.substr(0, n);
    }
    text.remove_prefix(n);
  }
  return out;
}

Status::Status(quire_code code, const std::string& message)
    : state_(std::make_unique<State>(State{code != QUIRE_OK ? code : QUIRE_INTERNAL, printable(message), 0, 0})) {}

const std::string& Status::message() const {
  static const std::string empty;
  return state_ ? state_->message : empty;
}

Status Status::with_native(int32_t domain, int32_t code) && {
  if (state_) {
    state_->native_domain = domain;
    state_->native_code = code;
  }
  return std::move(*this);
}

quire_code Status::write_to(quire_error* error, const char* source) const {
  if (error == nullptr || error->struct_size < sizeof(quire_error)) return code();
  error->code = code();
  error->native_code = native_code();
  error->native_domain = native_domain();
  if (ok()) {
    error->source[0] = '\0';
    error->message[0] = '\0';
    return QUIRE_OK;
  }
  copy_text(error->source, sizeof error->source, source, std::strlen(source));
  copy_text(error->message, sizeof error->message, message().data(), message().size());
  return code();
}

Status failure_of(Status status) {
  if (status.ok()) return fail(QUIRE_INTERNAL, "a result was made of success and has no value");
  return status;
}

Status fail(quire_code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = format_failure(code, format, args);
  va_end(args);
  return status;
}

Status invalid(const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = format_failure(QUIRE_INVALID_ARGUMENT, format, args);
  va_end(args);
  return status;
}

}  // namespace quire
