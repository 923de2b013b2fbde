#include "core/events/block_hash.h"

#include <algorithm>

#include "core/events/encode.h"

// Both are compiled or linked into the library where CMake finds libcrypto's archive: a host that exports functions of the same names then
// does not take their place. The functions of
// sha.h are deprecated in favour of digests that allocate; these neither allocate nor fail, so that a commit that names blocks cannot fail.
#if QUIRE_WITH_LIBCRYPTO
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quire {

uint64_t Digest::external_int() const {
  uint64_t value = 0;
  for (uint32_t i = size < 8 ? 0 : size - 8; i < size; ++i) value = value << 8 | bytes[i];
  return value;
}

GroupKey::GroupKey(const Digest& digest, GroupId group) : size_(digest.size + 4) {
  std::copy_n(digest.bytes.begin(), digest.size, bytes_.begin());
  for (uint32_t i = 0; i < 4; ++i) bytes_[digest.size + i] = static_cast<uint8_t>(group.value >> (24 - 8 * i));
}

Result<BlockHasher> BlockHasher::create(quire_hash_algorithm algorithm, std::string_view seed) {
  if (algorithm < QUIRE_HASH_SHA256_CBOR || algorithm > QUIRE_HASH_XXHASH_PICKLE) return invalid("algorithm %d is unknown", algorithm);
  BlockHasher hasher;
  hasher.xxhash_ = algorithm == QUIRE_HASH_XXHASH_CBOR || algorithm == QUIRE_HASH_XXHASH_PICKLE;
  hasher.pickle_ = algorithm == QUIRE_HASH_SHA256_PICKLE || algorithm == QUIRE_HASH_XXHASH_PICKLE;
#if !QUIRE_WITH_LIBCRYPTO
  if (!hasher.xxhash_) return fail(QUIRE_UNIMPLEMENTED, "algorithm %d: this library was built without libcrypto (SHA-256)", algorithm);
#endif
  hasher.pickle_ ? encode_pickle(seed, &hasher.buffer_) : encode_cbor(seed, &hasher.buffer_);
  hasher.none_ = hasher.digest();
  return hasher;
}

Digest BlockHasher::hash(std::span<const uint8_t> parent, std::span<const int64_t> tokens, std::span<const ExtraKey> keys) {
  buffer_.clear();
  pickle_ ? encode_pickle(parent, tokens, keys, &buffer_) : encode_cbor(parent, tokens, keys, &buffer_);
  return digest();
}

Digest BlockHasher::digest() const {
  Digest out;
  if (xxhash_) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(buffer_.data(), buffer_.size()));
    std::copy_n(canonical.digest, sizeof canonical.digest, out.bytes.begin());
    out.size = sizeof canonical.digest;
    return out;
  }
  return sha256(buffer_);
}

bool BlockHasher::has_sha256() {
#if QUIRE_WITH_LIBCRYPTO
  return true;
#else
  return false;
#endif
}

Digest BlockHasher::sha256(std::string_view bytes) {
  Digest out;
#if QUIRE_WITH_LIBCRYPTO
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(out.bytes.data(), &state);
  out.size = SHA256_DIGEST_LENGTH;
#else
  (void)bytes;
#endif
  return out;
}

std::span<const ExtraKey> BlockKeys::of_block(int64_t begin, int64_t end) {
  keys_.clear();
  if (!source_->adapter.empty()) keys_.push_back({ExtraKey::Kind::kText, source_->adapter, 0});
  for (; item_ < source_->media.size(); ++item_) {
    const MediaItem& item = source_->media[item_];
    if (end <= item.position) break;
    if (begin >= item.position + item.length) continue;
    keys_.push_back({ExtraKey::Kind::kMedia, item.identifier, item.position - begin});
    if (end < item.position + item.length) break;
  }
  if (begin == 0 && !source_->salt.empty()) keys_.push_back({ExtraKey::Kind::kText, source_->salt, 0});
  if (source_->embed_row_bytes != 0) {
    const uint64_t first = std::min<uint64_t>(static_cast<uint64_t>(begin), source_->embed_rows);
    const uint64_t last = std::min<uint64_t>(static_cast<uint64_t>(end), source_->embed_rows);
    embeds_ = BlockHasher::sha256(source_->embeds.substr(first * source_->embed_row_bytes, (last - first) * source_->embed_row_bytes));
    keys_.push_back({ExtraKey::Kind::kBytes, {reinterpret_cast<const char*>(embeds_.bytes.data()), embeds_.size}, 0});
  }
  return keys_;
}

}  // namespace quire
