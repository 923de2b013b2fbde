#include "core/records/record_header.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/records/checksum.h"

namespace quire {
namespace {

constexpr uint64_t kMagic = 0x31766b6572697571u;  // "quirekv1"
constexpr uint64_t kSumAt = 16, kFixedBytes = 32 + 3 * 32 + 12 * 8;
constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 26, kMostPayloadBytes = uint64_t{1} << 40;

class Writer {
 public:
  explicit Writer(std::span<uint8_t> out) : out_(out) {}
  void number(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out_[at_++] = static_cast<uint8_t>(value >> 8 * i);
  }
  void copy(std::span<const uint8_t> bytes) {
    std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += bytes.size();
  }

 private:
  std::span<uint8_t> out_;
  size_t at_ = 0;
};

uint64_t number_at(std::span<const uint8_t> bytes, size_t at, size_t size = 8) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{bytes[at + i]} << 8 * i;
  return value;
}

// With the checksum's own place as zero.
uint64_t header_sum(std::span<const uint8_t> bytes) {
  const uint64_t none = 0;
  BlockChecksum sum;
  sum.add(bytes.data(), kSumAt);
  sum.add(&none, sizeof none);
  sum.add(bytes.data() + kSumAt + 8, bytes.size() - kSumAt - 8);
  return sum.sum();
}

Status lost(const char* what) { return fail(QUIRE_DATA_LOSS, "record: %s", what); }

}  // namespace

uint64_t RecordHeader::index_of(uint64_t block) const {
  uint64_t before = 0;
  for (const BlockStretch& stretch : stretches) {
    if (block >= stretch.first && block < stretch.end) return before + block - stretch.first;
    before += stretch.size();
  }
  return UINT64_MAX;
}

uint64_t header_bytes(const RecordShape& shape, uint64_t num_blocks) {
  return round_up(kFixedBytes + shape.encoded_bytes() + num_blocks * 8, kHeaderGrain);
}

void write_header(const RecordHeader& header, std::span<uint8_t> out) {
  std::vector<uint8_t> shape;
  header.shape.encode(&shape);
  std::fill(out.begin(), out.end(), uint8_t{0});
  Writer to(out);
  to.number(kMagic, 8);
  to.number(kRecordVersion, 4);
  to.number(out.size(), 4);
  to.number(0, 8);  // the checksum
  to.number(header.payload_bytes(), 8);
  to.copy(header.key);
  to.copy(header.fingerprint);
  to.copy(header.prefix);
  to.number(header.first_token, 8);
  to.number(header.end_token, 8);
  to.number(header.block_tokens, 8);
  to.number(header.block_bytes, 8);
  for (const BlockStretch& stretch : header.stretches) {
    to.number(stretch.first, 8);
    to.number(stretch.end, 8);
  }
  to.number(static_cast<uint64_t>(header.written_at), 8);
  to.number(shape.size(), 8);
  to.number(header.checksums.size(), 8);
  to.number(0, 8);
  to.copy(shape);
  for (const uint64_t sum : header.checksums) to.number(sum, 8);
  Writer(out.subspan(kSumAt)).number(header_sum(out), 8);
}

uint32_t read_version(std::span<const uint8_t> bytes) {
  return bytes.size() >= 12 && number_at(bytes, 0) == kMagic ? static_cast<uint32_t>(number_at(bytes, 8, 4)) : 0;
}

uint64_t read_header_bytes(std::span<const uint8_t> bytes) {
  if (bytes.size() < 32 || read_version(bytes) != kRecordVersion) return 0;
  const uint64_t size = number_at(bytes, 12, 4);
  return size % kHeaderGrain == 0 && size <= kMostHeaderBytes ? size : 0;
}

Result<RecordHeader> read_header(std::span<const uint8_t> bytes) {
  const uint64_t size = read_header_bytes(bytes);
  if (size == 0) return lost("no header of this version");
  if (size > bytes.size()) return lost("its header is cut");
  bytes = bytes.first(size);
  if (number_at(bytes, kSumAt) != header_sum(bytes)) return lost("the checksum of its header is another one");
  RecordHeader header;
  size_t at = 32;
  for (std::array<uint8_t, 32>* name : {&header.key, &header.fingerprint, &header.prefix}) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 32, name->begin());
    at += 32;
  }
  const auto next = [&] { return number_at(bytes, std::exchange(at, at + 8)); };
  header.first_token = next();
  header.end_token = next();
  const uint64_t block_tokens = next();
  header.block_bytes = next();
  for (BlockStretch& stretch : header.stretches) {
    stretch.first = next();
    stretch.end = next();
    if (stretch.first > stretch.end || stretch.size() > kMostHeaderBytes) return lost("its blocks are none");
  }
  if (header.num_blocks() == 0 || header.block_bytes == 0) return lost("it has no bytes");
  if (header.first_token > header.end_token) return lost("its tokens are none");
  header.written_at = static_cast<int64_t>(next());
  const uint64_t shape_bytes = next(), num_sums = next();
  at += 8;
  header.block_tokens = static_cast<uint32_t>(block_tokens);
  const auto payload = checked_mul(header.num_blocks(), header.block_bytes);
  if (block_tokens > UINT32_MAX || !payload || *payload > kMostPayloadBytes || *payload != number_at(bytes, 24)) {
    return lost("the size of its payload is none");
  }
  if (num_sums != header.num_blocks() || shape_bytes > size - at || num_sums > (size - at - shape_bytes) / 8) {
    return lost("its checksums are cut");
  }
  auto shape = RecordShape::decode(bytes.subspan(at, shape_bytes));
  if (!shape.ok()) return shape.take_status();
  header.shape = std::move(*shape);
  at += shape_bytes;
  header.checksums.resize(num_sums);
  for (uint64_t& sum : header.checksums) sum = next();
  return header;
}

uint64_t count_damaged(const RecordHeader& header, uint64_t first, std::span<const uint8_t> blocks) {
  uint64_t damaged = 0;
  for (uint64_t at = 0, block = first; at < blocks.size(); at += header.block_bytes, ++block) {
    damaged += checksum(blocks.data() + at, header.block_bytes) != header.checksums[block] ? 1 : 0;
  }
  return damaged;
}

}  // namespace quire
