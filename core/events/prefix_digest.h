// Names of prefixes for other processes: SHA-256 over who may share a prefix and its symbols.
// Unlike block hashes they depend on no block size: the digest of a prefix can be taken at any
// length.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

using PrefixName = std::array<uint8_t, 32>;

// Only where BlockHasher::has_sha256(); otherwise all names are zero. Symbols go in from the start of a prefix on. A copy goes on from
// where the original was.
class PrefixDigest {
 public:
  // identity: as Identity encodes it.
  explicit PrefixDigest(std::string_view identity = {});
  // Token ids, below 2^31.
  void add_tokens(std::span<const uint32_t> tokens);
  // The position `offset` of a media item with this digest of 32 bytes.
  void add_media(const uint8_t* digest, uint32_t offset);
  // Of everything so far.
  PrefixName name() const;

 private:
  alignas(8) std::array<unsigned char, 128> state_;  // of libcrypto
};

}  // namespace quire
