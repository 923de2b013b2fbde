// Who may share with whom, as one string: an injective encoding of epoch, salt and adapter. Lengths come before contents, so no two
// different triples ever encode alike.
#pragma once

#include <quire/cache.h>

#include <cstring>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace quire {

inline constexpr uint64_t kMaxIdentityBytes = 4096;  // salt and adapter each

// Encoded identity, at most kMaxEncodedIdentity bytes, on the stack.
class Identity {
 public:
  // identity may be null: no salt, no adapter, epoch 0.
  static Result<Identity> encode(const quire_identity* identity);
  std::string_view bytes() const { return {bytes_, size_}; }

  // Most are a few bytes: the rest of the array is not copied.
  Identity(const Identity& other) : size_(other.size_) { std::memcpy(bytes_, other.bytes_, size_); }
  Identity& operator=(const Identity&) = delete;
  ~Identity() = default;

 private:
  Identity() = default;

  char bytes_[2 * kMaxIdentityBytes + 24];
  uint32_t size_ = 0;
};

// The parts of an encoded identity. They borrow its bytes.
struct IdentityParts {
  uint64_t epoch = 0;
  std::string_view salt, adapter;
};
IdentityParts split_identity(std::string_view encoded);

// Between salt and epoch in names for others, and the most bytes that both take beside the salt.
inline constexpr std::string_view kEpochMark = "#epoch=";
inline constexpr uint64_t kMostEpochBytes = kEpochMark.size() + 20;

// The salt under which others know an identity: the salt itself, and in an epoch above 0 the salt, kEpochMark and the epoch. A salt that
// contains the mark has it appended in epoch 0, too: so no two pairs of salt and epoch are known by one text.
std::string outside_salt(const quire_identity& identity);

}  // namespace quire
