#include "core/metrics/labels.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/utf8.h"

namespace quire {
namespace {

// Names that samples have of their own.
constexpr std::array<std::string_view, 21> kOwn = {"block_size", "device",   "device_name", "driver",        "enable_prefix_caching",
                                                   "group",      "kind",     "le",          "max_model_len", "miss",
                                                   "num_groups", "op",       "num_pages",   "num_shards",    "outcome",
                                                   "policy",     "quantile", "result",      "shard",         "state",
                                                   "tier"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  Status expect(char c) {
    if (at_end() || text_[at_] != c) return bad(std::string("'") + c + "' expected");
    ++at_;
    return {};
  }
  Status name(std::string_view* out) {
    const size_t begin = at_;
    while (!at_end() && (is_letter(text_[at_]) || (at_ > begin && is_digit(text_[at_])))) ++at_;
    *out = text_.substr(begin, at_ - begin);
    if (out->empty()) return bad("a name expected");
    if (out->starts_with("__")) return bad("names that begin with __ are Prometheus' own");
    if (std::find(kOwn.begin(), kOwn.end(), *out) != kOwn.end()) return bad("'" + std::string(*out) + "' is a label of quire's own");
    return {};
  }
  // With its escapes, up to the quote.
  Status value(std::string_view* out) {
    const size_t begin = at_;
    for (; !at_end() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\n' || text_[at_] == '\0') return bad("a value goes on in the next line");
      if (text_[at_] != '\\') continue;
      ++at_;
      if (at_end() || (text_[at_] != '\\' && text_[at_] != '"' && text_[at_] != 'n')) return bad("an escape is \\\\, \\\" or \\n");
    }
    *out = text_.substr(begin, at_ - begin);
    return {};
  }

 private:
  Status bad(const std::string& what) const { return invalid("labels: %s at byte %zu", what.c_str(), at_); }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<std::string> read_labels(std::string_view text) {
  if (!is_utf8(text)) return invalid("labels: not UTF-8");
  std::map<std::string_view, std::string_view> labels;
  Reader reader(text);
  while (!reader.at_end()) {
    std::string_view name, value;
    if (!labels.empty()) QUIRE_RETURN_IF_ERROR(reader.expect(','));
    QUIRE_RETURN_IF_ERROR(reader.name(&name));
    QUIRE_RETURN_IF_ERROR(reader.expect('='));
    QUIRE_RETURN_IF_ERROR(reader.expect('"'));
    QUIRE_RETURN_IF_ERROR(reader.value(&value));
    QUIRE_RETURN_IF_ERROR(reader.expect('"'));
    if (!labels.emplace(name, value).second) return invalid("labels: '%s' stands twice", std::string(name).c_str());
  }
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out += ',';
    out.append(name).append("=\"").append(value).append("\"");
  }
  return out;
}

void add_label(std::string_view name, std::string_view value, std::string* labels) {
  if (!labels->empty()) *labels += ',';
  labels->append(name).append("=\"");
  const bool is_text = is_utf8(value);
  for (const char c : value) {
    const bool is_shown = c != '\0' && (is_text || static_cast<unsigned char>(c) < 0x80);
    if (c == '\\' || c == '"') *labels += '\\';
    if (c == '\n') {
      *labels += "\\n";
    } else {
      *labels += is_shown ? c : '?';
    }
  }
  *labels += '"';
}

}  // namespace quire
