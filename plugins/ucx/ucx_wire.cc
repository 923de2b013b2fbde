#include "plugins/ucx/ucx_wire.h"

#include <algorithm>
#include <cstring>

namespace quire::ucx {
namespace {

constexpr uint32_t kMagic = 0x31584351;  // "QCX1"

class Writer {
 public:
  explicit Writer(Kind kind) {
    bytes_.reserve(256);
    put(kMagic);
    put(static_cast<uint8_t>(kind));
  }
  template <typename Number>
  void put(Number value) {
    for (size_t i = 0; i < sizeof value; ++i) bytes_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
  }
  void put_bytes(std::span<const uint8_t> from) { bytes_.insert(bytes_.end(), from.begin(), from.end()); }
  void put_key(const ObjectKey& key) {
    std::array<uint8_t, kNameBytes> name = {};
    std::copy(key.name.begin(), key.name.end(), name.begin());
    put(static_cast<uint8_t>(key.name.size()));
    put_bytes(name);
    put_bytes(key.handle);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// After the first thing that is wrong all reads give zeroes, and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  template <typename Number>
  Number get() {
    if (!has(sizeof(Number))) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) value |= uint64_t{rest_[i]} << (8 * i);
    rest_ = rest_.subspan(sizeof(Number));
    return static_cast<Number>(value);
  }
  template <size_t kBytes>
  std::array<uint8_t, kBytes> get_bytes() {
    std::array<uint8_t, kBytes> out = {};
    if (!has(kBytes)) return out;
    std::copy_n(rest_.begin(), kBytes, out.begin());
    rest_ = rest_.subspan(kBytes);
    return out;
  }
  ObjectKey get_key() {
    ObjectKey key;
    const auto length = get<uint8_t>();
    const auto name = get_bytes<kNameBytes>();
    key.handle = get_bytes<kHandleBytes>();
    if (length == 0 || length > kNameBytes) wrong();
    if (!is_ok_) return key;
    key.name.assign(name.begin(), name.begin() + length);
    if (std::any_of(name.begin() + length, name.end(), [](uint8_t byte) { return byte != 0; })) wrong();
    return key;
  }
  // Of things of `bytes` bytes each, at most `most` and at least one. 0: it is wrong.
  size_t get_count(size_t most, size_t bytes) {
    const size_t count = get<uint16_t>();
    if (count == 0 || count > most || !has(count * bytes)) wrong();
    return is_ok_ ? count : 0;
  }
  void wrong() {
    is_ok_ = false;
    rest_ = {};
  }
  bool ends_well() const { return is_ok_ && rest_.empty(); }

 private:
  bool has(size_t bytes) {
    if (rest_.size() < bytes) wrong();
    return is_ok_;
  }
  std::span<const uint8_t> rest_;
  bool is_ok_ = true;
};

constexpr size_t kKeyBytes = 1 + kNameBytes + kHandleBytes;

void write_body(const Message& message, Writer* to) {
  switch (message.kind) {
    case Kind::kHello:
      to->put(message.version);
      to->put_bytes(message.nonce);
      break;
    case Kind::kWelcome:
      to->put(message.version);
      to->put_bytes(message.nonce);
      to->put(message.lease_ms);
      to->put_bytes(message.mac);
      break;
    case Kind::kConfirm:
      to->put_bytes(message.mac);
      break;
    case Kind::kRefuse:
      to->put(message.version);
      break;
    case Kind::kLookup:
      to->put(message.lease_ms);
      to->put(static_cast<uint16_t>(message.keys.size()));
      for (const ObjectKey& key : message.keys) to->put_key(key);
      break;
    case Kind::kFound:
      to->put(static_cast<uint8_t>(message.leased ? 1 : 0));
      to->put(static_cast<uint16_t>(message.sizes.size()));
      for (const uint64_t size : message.sizes) to->put(size);
      break;
    case Kind::kWant:
      to->put_key(message.keys[0]);
      to->put(static_cast<uint16_t>(message.ranges.size()));
      for (const Range& range : message.ranges) {
        to->put(range.offset);
        to->put(range.bytes);
      }
      break;
    case Kind::kData:
      to->put(message.bytes);
      break;
    case Kind::kDone:
      to->put_key(message.keys[0]);
      break;
    case Kind::kAnswer:
      to->put(static_cast<uint8_t>(message.verdict));
      break;
  }
}

void read_body(Reader* from, Message* out) {
  switch (out->kind) {
    case Kind::kHello:
      out->version = from->get<uint16_t>();
      out->nonce = from->get_bytes<kNonceBytes>();
      break;
    case Kind::kWelcome:
      out->version = from->get<uint16_t>();
      out->nonce = from->get_bytes<kNonceBytes>();
      out->lease_ms = from->get<uint32_t>();
      out->mac = from->get_bytes<kMacBytes>();
      break;
    case Kind::kConfirm:
      out->mac = from->get_bytes<kMacBytes>();
      break;
    case Kind::kRefuse:
      out->version = from->get<uint16_t>();
      break;
    case Kind::kLookup: {
      out->lease_ms = from->get<uint32_t>();
      const size_t count = from->get_count(kMostKeys, kKeyBytes);
      out->keys.reserve(count);
      for (size_t i = 0; i < count; ++i) out->keys.push_back(from->get_key());
      break;
    }
    case Kind::kFound: {
      const auto leased = from->get<uint8_t>();
      if (leased > 1) from->wrong();
      out->leased = leased == 1;
      const size_t count = from->get_count(kMostKeys, sizeof(uint64_t));
      out->sizes.reserve(count);
      for (size_t i = 0; i < count; ++i) out->sizes.push_back(from->get<uint64_t>());
      break;
    }
    case Kind::kWant: {
      out->keys.push_back(from->get_key());
      const size_t count = from->get_count(kMostRanges, 2 * sizeof(uint64_t));
      out->ranges.reserve(count);
      for (size_t i = 0; i < count; ++i) {
        const auto offset = from->get<uint64_t>();
        out->ranges.push_back({offset, from->get<uint64_t>()});
      }
      if (!sum_of(out->ranges, kMostWanted)) from->wrong();
      break;
    }
    case Kind::kData:
      out->bytes = from->get<uint64_t>();
      if (out->bytes == 0 || out->bytes > kMostWanted) from->wrong();
      break;
    case Kind::kDone:
      out->keys.push_back(from->get_key());
      break;
    case Kind::kAnswer: {
      const auto verdict = from->get<uint8_t>();
      if (verdict > static_cast<uint8_t>(Verdict::kBusy)) from->wrong();
      out->verdict = static_cast<Verdict>(verdict);
      break;
    }
  }
}

}  // namespace

bool is_sealed(Kind kind) { return kind >= Kind::kLookup; }

Bytes encode(const Message& message) {
  Writer writer(message.kind);
  if (is_sealed(message.kind)) {
    writer.put(message.counter);
    writer.put(message.request);
  }
  write_body(message, &writer);
  return writer.take();
}

std::optional<Message> decode(std::span<const uint8_t> bytes) {
  if (bytes.size() > kMostMessage) return std::nullopt;
  Reader reader(bytes);
  Message out;
  if (reader.get<uint32_t>() != kMagic) return std::nullopt;
  const auto kind = reader.get<uint8_t>();
  if (kind < static_cast<uint8_t>(Kind::kHello) || kind > static_cast<uint8_t>(Kind::kAnswer)) return std::nullopt;
  out.kind = static_cast<Kind>(kind);
  if (is_sealed(out.kind)) {
    out.counter = reader.get<uint64_t>();
    out.request = reader.get<uint64_t>();
  }
  read_body(&reader, &out);
  if (!reader.ends_well()) return std::nullopt;
  return out;
}

std::optional<uint64_t> sum_of(std::span<const Range> ranges, uint64_t most) {
  uint64_t sum = 0;
  for (const Range& range : ranges) {
    if (range.bytes == 0 || range.bytes > most - sum || range.offset > kMostOffset - range.bytes) return std::nullopt;
    sum += range.bytes;
  }
  return sum;
}

}  // namespace quire::ucx
