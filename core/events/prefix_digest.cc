#include "core/events/prefix_digest.h"

#include <cstring>

// As in block_hash.cc: functions that neither allocate nor fail.
#if QUIRE_WITH_LIBCRYPTO
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#endif

namespace quire {

#if QUIRE_WITH_LIBCRYPTO
namespace {

constexpr std::string_view kPurpose = "quire prefix 1";
constexpr uint32_t kMediaMark = 0xffffffff;  // no token id

SHA256_CTX* sha_of(unsigned char* state) { return reinterpret_cast<SHA256_CTX*>(state); }

}  // namespace

PrefixDigest::PrefixDigest(std::string_view identity) {
  static_assert(sizeof(SHA256_CTX) <= sizeof(state_) && alignof(SHA256_CTX) <= 8);
  state_.fill(0);
  SHA256_CTX* const sha = sha_of(state_.data());
  SHA256_Init(sha);
  const uint64_t length = identity.size();  // little endian, like all numbers here
  SHA256_Update(sha, kPurpose.data(), kPurpose.size());
  SHA256_Update(sha, &length, sizeof length);
  SHA256_Update(sha, identity.data(), identity.size());
}

void PrefixDigest::add_tokens(std::span<const uint32_t> tokens) {
  SHA256_Update(sha_of(state_.data()), tokens.data(), tokens.size_bytes());
}

void PrefixDigest::add_media(const uint8_t* digest, uint32_t offset) {
  std::array<unsigned char, 40> item;
  std::memcpy(item.data(), &kMediaMark, 4);
  std::memcpy(item.data() + 4, digest, 32);
  std::memcpy(item.data() + 36, &offset, 4);
  SHA256_Update(sha_of(state_.data()), item.data(), item.size());
}

PrefixName PrefixDigest::name() const {
  std::array<unsigned char, sizeof state_> copy = state_;
  PrefixName out;
  SHA256_Final(out.data(), sha_of(copy.data()));
  return out;
}
#else
PrefixDigest::PrefixDigest(std::string_view) { state_.fill(0); }
void PrefixDigest::add_tokens(std::span<const uint32_t>) {}
void PrefixDigest::add_media(const uint8_t*, uint32_t) {}
PrefixName PrefixDigest::name() const { return {}; }
#endif

}  // namespace quire
