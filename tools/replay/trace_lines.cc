#include "replay/trace_lines.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace quire::replay {
namespace {

constexpr size_t kMaxLine = 16u << 20;  // bytes

}  // namespace

Lines::Lines(std::string path) : path_(std::move(path)), file_(path_ == "-" ? gzdopen(0, "rb") : gzopen(path_.c_str(), "rb")) {
  if (file_ == nullptr) throw std::runtime_error("cannot read trace '" + path_ + "': " + std::strerror(errno));
}

void Lines::check_read() const {
  int code = Z_OK;
  const char* message = gzerror(file_.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END) throw std::runtime_error("cannot read trace '" + path_ + "': " + message);
}

int Lines::take() {
  const int c = gzgetc(file_.get());
  if (c == -1) check_read();
  if (c == '\n') ++number_;
  return c;
}

int Lines::peek() {
  const int c = gzgetc(file_.get());
  if (c == -1) {
    check_read();
  } else {
    gzungetc(c, file_.get());
  }
  return c;
}

bool Lines::next(std::string* line) {
  line->clear();
  for (int c = gzgetc(file_.get()); c != -1; c = gzgetc(file_.get())) {
    if (c == '\n') {
      ++number_;
      return true;
    }
    if (line->size() == kMaxLine) {
      ++number_;
      throw std::runtime_error("a line is longer than " + std::to_string(kMaxLine) + " bytes");
    }
    *line += static_cast<char>(c);
  }
  ++number_;
  check_read();
  return !line->empty();
}

std::string Lines::rest(size_t most) {
  std::string out;
  char buffer[1 << 16];
  for (int n = gzread(file_.get(), buffer, sizeof buffer); n > 0; n = gzread(file_.get(), buffer, sizeof buffer)) {
    if (out.size() + static_cast<size_t>(n) > most)
      throw std::runtime_error("the document is longer than " + std::to_string(most) + " bytes");
    out.append(buffer, static_cast<size_t>(n));
  }
  check_read();
  return out;
}

}  // namespace quire::replay
