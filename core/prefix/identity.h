// Who may share with whom, as one string: an injective encoding of epoch, salt and adapter. Lengths come before contents, so no two
// different triples ever encode alike.
#pragma once

#include <quire/cache.h>

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

 private:
  char bytes_[2 * kMaxIdentityBytes + 24];
  uint32_t size_ = 0;
};

}  // namespace quire
