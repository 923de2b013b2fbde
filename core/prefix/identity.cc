#include "core/prefix/identity.h"

#include <array>
#include <cstring>

namespace quire {
namespace {

Status check(const char* field, const quire_str& s) {
  if (s.len > kMaxIdentityBytes) {
    return invalid("identity.%s: %llu bytes, at most %llu", field, static_cast<unsigned long long>(s.len),
                   static_cast<unsigned long long>(kMaxIdentityBytes));
  }
  if (s.len > 0 && s.data == nullptr) return invalid("identity.%s: NULL with length %llu", field, static_cast<unsigned long long>(s.len));
  return {};
}

}  // namespace

Result<Identity> Identity::encode(const quire_identity* identity) {
  Identity out;
  quire_identity none{};
  const quire_identity& id = identity != nullptr ? *identity : none;
  Status bad = check("salt", id.salt);
  if (bad.ok()) bad = check("adapter", id.adapter);
  if (!bad.ok()) return bad;
  auto put = [&out](const void* data, uint64_t n) {
    if (n > 0) std::memcpy(out.bytes_ + out.size_, data, n);
    out.size_ += static_cast<uint32_t>(n);
  };
  put(&id.epoch, sizeof id.epoch);
  put(&id.salt.len, sizeof id.salt.len);
  put(&id.adapter.len, sizeof id.adapter.len);
  put(id.salt.data, id.salt.len);
  put(id.adapter.data, id.adapter.len);
  return out;
}

IdentityParts split_identity(std::string_view encoded) {
  std::array<uint64_t, 3> numbers{};  // epoch, and both lengths
  IdentityParts parts;
  if (encoded.size() < sizeof numbers) return parts;
  std::memcpy(numbers.data(), encoded.data(), sizeof numbers);
  parts.epoch = numbers[0];
  parts.salt = encoded.substr(sizeof numbers, numbers[1]);
  parts.adapter = encoded.substr(sizeof numbers + parts.salt.size(), numbers[2]);
  return parts;
}

std::string outside_salt(const quire_identity& identity) {
  std::string text(identity.salt.data == nullptr ? "" : identity.salt.data, identity.salt.data == nullptr ? 0 : identity.salt.len);
  if (identity.epoch != 0 || text.find(kEpochMark) != std::string::npos) {
    text += kEpochMark;
    text += std::to_string(identity.epoch);
  }
  return text;
}

}  // namespace quire
