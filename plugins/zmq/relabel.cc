#include "plugins/zmq/relabel.h"

namespace quire::zmq {
namespace {

constexpr uint8_t kFixMap = 0x80, kFixArray = 0x90, kFixText = 0xa0;
constexpr uint64_t kMostFixMap = 15;

// Goes through msgpack. Past the end, or at a byte that is no head, it is not valid() any more.
class Walk {
 public:
  explicit Walk(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool valid() const { return valid_; }
  bool is_over() const { return at_ == bytes_.size(); }
  size_t at() const { return at_; }
  std::string_view since(size_t begin) const { return {reinterpret_cast<const char*>(bytes_.data()) + begin, at_ - begin}; }

  uint8_t byte() {
    if (at_ == bytes_.size()) return fail();
    return bytes_[at_++];
  }
  void pass(uint64_t n) {
    if (n > bytes_.size() - at_) {
      fail();
    } else {
      at_ += n;
    }
  }
  uint64_t big(unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; ++i) value = value << 8 | byte();
    return value;
  }
  uint64_t array() {
    const uint8_t head = byte();
    if ((head & 0xf0) == kFixArray) return head & 0x0fU;
    if (head == 0xdc || head == 0xdd) return big(head == 0xdc ? 2 : 4);
    return fail();
  }
  uint64_t small_map() {
    const uint8_t head = byte();
    return (head & 0xf0) == kFixMap ? head & 0x0fU : fail();
  }
  std::string_view small_text() {
    const uint8_t head = byte();
    if ((head & 0xe0) != kFixText) fail();
    const size_t begin = at_;
    pass(head & 0x1fU);
    return since(begin);
  }
  // A value with all that is in it.
  void skip() {
    for (uint64_t left = 1; left > 0 && valid_; --left) left += skip_head();
  }

 private:
  uint8_t fail() {
    valid_ = false;
    at_ = bytes_.size();
    return 0;
  }
  // The number of values inside.
  uint64_t skip_head() {
    const uint8_t head = byte();
    if (head < kFixMap || head >= 0xe0 || head == 0xc0 || head == 0xc2 || head == 0xc3) return 0;  // small numbers, nil, booleans
    if (head < kFixArray) return uint64_t{2} * (head & 0x0fU);
    if (head < kFixText) return head & 0x0fU;
    if (head < 0xc0) return pass(head & 0x1fU), 0;
    if (head == 0xc1) return fail();
    if (head < 0xc7) return pass(big(1U << (head - 0xc4))), 0;      // bytes
    if (head < 0xca) return pass(big(1U << (head - 0xc7)) + 1), 0;  // extensions
    if (head < 0xcc) return pass(head == 0xca ? 4 : 8), 0;
    if (head < 0xd4) return pass(1U << (head & 3U)), 0;          // integers
    if (head < 0xd9) return pass((1U << (head - 0xd4)) + 1), 0;  // extensions of fixed size
    if (head < 0xdc) return pass(big(1U << (head - 0xd9))), 0;   // texts
    return big((head & 1U) == 0 ? 2 : 4) * (head < 0xde ? 1 : 2);
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool valid_ = true;
};

void put_text(std::string_view text, std::string* out) {
  if (text.size() < 32) {
    out->push_back(static_cast<char>(kFixText | text.size()));
  } else {  // at most 255 bytes
    out->push_back(static_cast<char>(0xd9));
    out->push_back(static_cast<char>(text.size()));
  }
  out->append(text);
}

void relabel_event(Walk* walk, const Label& label, std::string* out) {
  const size_t head = out->size(), begin = walk->at();
  uint64_t fields = walk->small_map();
  out->append(walk->since(begin));
  bool has_medium = false;
  for (uint64_t i = fields; i > 0 && walk->valid(); --i) {
    const size_t pair = walk->at();
    const bool is_medium = walk->small_text() == "medium";
    if (is_medium) {
      out->append(walk->since(pair));
      put_text(label.medium, out);
    }
    walk->skip();
    if (!is_medium) out->append(walk->since(pair));
    has_medium = has_medium || is_medium;
  }
  if (!has_medium || label.locality.empty() || fields == kMostFixMap) return;
  put_text("locality", out);
  put_text(label.locality, out);
  (*out)[head] = static_cast<char>(kFixMap | (fields + 1));
}

}  // namespace

bool relabel(std::span<const uint8_t> batch, const Label& label, std::string* out) {
  Walk walk(batch);
  if (walk.array() != 3) return false;
  walk.skip();  // time
  const uint64_t events = walk.array();
  out->append(walk.since(0));
  for (uint64_t i = 0; i < events && walk.valid(); ++i) relabel_event(&walk, label, out);
  const size_t rank = walk.at();
  walk.skip();
  out->append(walk.since(rank));
  return walk.valid() && walk.is_over();
}

}  // namespace quire::zmq
