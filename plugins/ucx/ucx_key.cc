#include "plugins/ucx/ucx_key.h"

#include <openssl/crypto.h>

#include <algorithm>

namespace quire::ucx {

std::optional<Key> parse_key(std::string_view bytes) {
  Key key;
  if (bytes.empty() || bytes.size() > kMostKey) return std::nullopt;
  key.object.name = bytes.substr(0, kNameBytes);
  if (bytes.size() <= kNameBytes) return key;
  if (bytes.size() < kNameBytes + kHandleBytes) return std::nullopt;
  std::copy_n(bytes.begin() + kNameBytes, kHandleBytes, key.object.handle.begin());
  key.address = bytes.substr(kNameBytes + kHandleBytes);
  while (key.address.ends_with('\0')) key.address.remove_suffix(1);
  return key;
}

bool equal_handles(const Handle& a, const Handle& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace quire::ucx
