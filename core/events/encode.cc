#include "core/events/encode.h"

#include <algorithm>

namespace quire {
namespace {

std::string_view text_of(std::span<const uint8_t> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class Cbor {
 public:
  explicit Cbor(std::string* out) : out_(out) {}
  void head(uint8_t major, uint64_t value) {
    if (value < 24) {
      put(static_cast<uint8_t>(major << 5 | value));
      return;
    }
    const int width = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
    put(static_cast<uint8_t>(major << 5 | (24 + width)));
    for (int shift = (8 << width) - 8; shift >= 0; shift -= 8) put(static_cast<uint8_t>(value >> shift));
  }
  void integer(int64_t value) { value >= 0 ? head(0, static_cast<uint64_t>(value)) : head(1, ~static_cast<uint64_t>(value)); }
  void bytes(std::string_view value) { head(2, value.size()), out_->append(value); }
  void text(std::string_view value) { head(3, value.size()), out_->append(value); }
  void array(uint64_t size) { head(4, size); }
  void null() { put(0xf6); }

 private:
  void put(uint8_t byte) { out_->push_back(static_cast<char>(byte)); }
  std::string* out_;
};

// Frames are closed where CPython's pickler closes them: behind the first object that makes them at least 64 KiB long.
class Pickle {
 public:
  explicit Pickle(std::string* out) : out_(out) {
    out->append("\x80\x05");
    open_frame();
  }
  void integer(int64_t value) {
    if (value >= 0 && value <= 0xff) {
      put('K'), little(static_cast<uint64_t>(value), 1);
    } else if (value >= 0 && value <= 0xffff) {
      put('M'), little(static_cast<uint64_t>(value), 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      put('J'), little(static_cast<uint64_t>(value), 4);
    } else {
      unsigned width = 8;  // the fewest bytes of two's complement
      while (width > 5 && fits(value, width - 1)) --width;
      put(0x8a), put(static_cast<uint8_t>(width)), little(static_cast<uint64_t>(value), width);
    }
    boundary();
  }
  void bytes(std::string_view value) { sized('C', 'B', value); }
  void text(std::string_view value) { sized(0x8c, 'X', value); }
  void null() {
    put('N');
    boundary();
  }
  // A tuple is its items between open_tuple and close_tuple; both are given their number.
  void open_tuple(uint64_t size) {
    if (size > 3) put('(');
  }
  void close_tuple(uint64_t size) {
    if (size == 0) {
      put(')');
    } else {
      put(size > 3 ? 't' : static_cast<uint8_t>(0x84 + size)), memoize();
    }
    boundary();
  }
  void stop() {
    put('.');
    close_frame();
  }

 private:
  static constexpr size_t kFrameHead = 9;
  static constexpr size_t kFrameTarget = 65536;

  static bool fits(int64_t value, unsigned width) {
    const int64_t limit = int64_t{1} << (8 * width - 1);
    return value >= -limit && value < limit;
  }
  void sized(uint8_t small, uint8_t large, std::string_view value) {
    if (value.size() <= 0xff) {
      put(small), little(value.size(), 1);
    } else {
      put(large), little(value.size(), 4);
    }
    out_->append(value);
    memoize();
    boundary();
  }
  void memoize() { put(0x94); }
  void put(uint8_t byte) {
    if (!in_frame_) open_frame();
    out_->push_back(static_cast<char>(byte));
  }
  void little(uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) put(static_cast<uint8_t>(value >> (8 * i)));
  }
  void open_frame() {
    in_frame_ = true;
    frame_ = out_->size();
    out_->append(kFrameHead, '\0');
  }
  void close_frame() {
    if (!in_frame_) return;
    in_frame_ = false;
    const uint64_t length = out_->size() - frame_ - kFrameHead;
    if (length < 4) {
      out_->erase(frame_, kFrameHead);
      return;
    }
    (*out_)[frame_] = static_cast<char>(0x95);
    for (unsigned i = 0; i < 8; ++i) (*out_)[frame_ + 1 + i] = static_cast<char>(length >> (8 * i));
  }
  void boundary() {
    if (in_frame_ && out_->size() - frame_ - kFrameHead >= kFrameTarget) close_frame();
  }

  std::string* out_;
  bool in_frame_ = false;
  size_t frame_ = 0;
};

}  // namespace

void encode_cbor(std::string_view text, std::string* out) { Cbor(out).text(text); }

void encode_cbor(std::span<const uint8_t> parent, std::span<const int64_t> tokens, std::span<const ExtraKey> keys, std::string* out) {
  Cbor cbor(out);
  cbor.array(3);
  cbor.bytes(text_of(parent));
  cbor.array(tokens.size());
  for (int64_t token : tokens) cbor.integer(token);
  if (keys.empty()) {
    cbor.null();
    return;
  }
  cbor.array(keys.size());
  for (const ExtraKey& key : keys) {
    switch (key.kind) {
      case ExtraKey::Kind::kText:
        cbor.text(key.value);
        break;
      case ExtraKey::Kind::kBytes:
        cbor.bytes(key.value);
        break;
      case ExtraKey::Kind::kMedia:
        cbor.array(2);
        cbor.text(key.value);
        cbor.integer(key.offset);
        break;
    }
  }
}

void encode_pickle(std::string_view text, std::string* out) {
  Pickle pickle(out);
  pickle.text(text);
  pickle.stop();
}

void encode_pickle(std::span<const uint8_t> parent, std::span<const int64_t> tokens, std::span<const ExtraKey> keys, std::string* out) {
  Pickle pickle(out);
  pickle.open_tuple(3);
  pickle.bytes(text_of(parent));
  pickle.open_tuple(tokens.size());
  for (int64_t token : tokens) pickle.integer(token);
  pickle.close_tuple(tokens.size());
  if (keys.empty()) {
    pickle.null();
  } else {
    pickle.open_tuple(keys.size());
    for (const ExtraKey& key : keys) {
      switch (key.kind) {
        case ExtraKey::Kind::kText:
          pickle.text(key.value);
          break;
        case ExtraKey::Kind::kBytes:
          pickle.bytes(key.value);
          break;
        case ExtraKey::Kind::kMedia:
          pickle.open_tuple(2);
          pickle.text(key.value);
          pickle.integer(key.offset);
          pickle.close_tuple(2);
          break;
      }
    }
    pickle.close_tuple(keys.size());
  }
  pickle.close_tuple(3);
  pickle.stop();
}

}  // namespace quire
