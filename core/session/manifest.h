// The beginning of a session: which model its records are of, and the symbols of its tokens. All
// numbers are little endian. Whoever reads a manifest believes nothing of it.
#pragma once

#include <quire/cache.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/events/prefix_digest.h"

namespace quire {

inline constexpr uint32_t kSessionVersion = 1;
inline constexpr uint64_t kManifestStart = 40;                      // bytes that say how many
inline constexpr quire_symbol kFirstMedia = quire_symbol{1} << 31;  // smaller symbols are token ids

struct SessionMedia {
  std::array<uint8_t, 32> digest{};
  uint32_t length = 0;  // positions
};

struct SessionManifest {
  std::string fingerprint;  // as text, so that what differs can be named
  PrefixName prefix{};      // of all tokens, and of the identity
  uint64_t num_records = 0;
  std::vector<SessionMedia> media;
  // Token ids below 2^31, and 2^31 + n for position n of all media, one after the other.
  std::vector<quire_symbol> symbols;
};

std::vector<uint8_t> write_manifest(const SessionManifest& manifest);
// Size of the whole manifest that begins so. Errors: DATA_LOSS (none), UNIMPLEMENTED (another
// version).
Result<uint64_t> read_manifest_bytes(std::span<const uint8_t> start);
// Untrusted bytes, all of them. Errors: DATA_LOSS.
Result<SessionManifest> read_manifest(std::span<const uint8_t> bytes);

// Name and both values of the first line in which two fingerprints differ; empty: none.
std::string first_difference(std::string_view ours, std::string_view theirs);

}  // namespace quire
