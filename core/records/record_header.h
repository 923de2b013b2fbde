// The first bytes of every record, the same in every tier: what the payload is, and checksums. All
// numbers are little endian. A header is a multiple of 4096 bytes, so that payloads stay aligned.
//
//   record = header (header_bytes) | payload: record blocks, one after the other
//
// Whoever reads a record believes nothing of it: the header has a checksum, every block has one,
// and key and fingerprint must be the ones that were asked for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/events/prefix_digest.h"
#include "core/records/record_shape.h"

namespace quire {

inline constexpr uint32_t kRecordVersion = 1;
inline constexpr uint64_t kHeaderGrain = 4096;

using RecordKey = std::array<uint8_t, 32>;
using Fingerprint = std::array<uint8_t, 32>;

// Blocks [first, end) of the sequence, counted in record blocks.
struct BlockStretch {
  uint64_t first = 0, end = 0;

  uint64_t size() const { return end - first; }
  bool operator==(const BlockStretch&) const = default;
};

inline uint64_t num_blocks(const std::array<BlockStretch, 2>& stretches) { return stretches[0].size() + stretches[1].size(); }

struct RecordHeader {
  RecordKey key{};
  Fingerprint fingerprint{};
  PrefixName prefix{};
  uint64_t first_token = 0, end_token = 0;  // of the unit
  uint32_t block_tokens = 0;                // of a record block; states: 0
  uint64_t block_bytes = 0;
  // Blocks in the payload: sinks, and the tail; of a state one block 0.
  std::array<BlockStretch, 2> stretches{};
  int64_t written_at = 0;  // nanoseconds since 1970
  RecordShape shape;
  std::vector<uint64_t> checksums;  // XXH3-64 of each block of the payload

  uint64_t num_blocks() const { return quire::num_blocks(stretches); }
  uint64_t payload_bytes() const { return num_blocks() * block_bytes; }
  // Place of a record block of the sequence in the payload; UINT64_MAX: it is not there.
  uint64_t index_of(uint64_t block) const;
};

// Bytes of a header with such a shape and so many blocks: known before its checksums are.
uint64_t header_bytes(const RecordShape& shape, uint64_t num_blocks);
// Writes it to out[header_bytes()].
void write_header(const RecordHeader& header, std::span<uint8_t> out);
// What bytes say of their version; 0: they are no record. At least 12 bytes.
uint32_t read_version(std::span<const uint8_t> bytes);
// What bytes say of their header's size; 0: they are no header of this version. At least 32 bytes.
uint64_t read_header_bytes(std::span<const uint8_t> bytes);
// Untrusted bytes, at least those of the header. Errors: DATA_LOSS.
Result<RecordHeader> read_header(std::span<const uint8_t> bytes);

// How many of these blocks are not what the header says: whole ones, from block `first` of the
// payload on. There must be so many.
uint64_t count_damaged(const RecordHeader& header, uint64_t first, std::span<const uint8_t> blocks);

}  // namespace quire
