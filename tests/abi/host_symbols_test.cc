// A host program may export functions of the names that the library's own dependencies have: another build of OpenSSL, another xxHash. They
// must not take the place of the library's. This program exports such functions, all of them wrong, and compares hashes with recorded ones.
#include <gtest/gtest.h>
#include <quire/quire.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// Visible to every library that this program loads.
#define QUIRE_HOSTS_OWN extern "C" __attribute__((visibility("default"), used))
QUIRE_HOSTS_OWN int EVP_DigestInit_ex2(void*, const void*, const void*) { return 0; }
QUIRE_HOSTS_OWN int EVP_DigestUpdate(void*, const void*, size_t) { return 0; }
QUIRE_HOSTS_OWN int EVP_DigestFinal_ex(void*, unsigned char*, unsigned*) { return 0; }
QUIRE_HOSTS_OWN int SHA256_Init(void*) { return 0; }
QUIRE_HOSTS_OWN int SHA256_Update(void*, const void*, size_t) { return 0; }
QUIRE_HOSTS_OWN int SHA256_Final(unsigned char*, void*) { return 0; }
struct HostsHash {
  uint64_t low, high;
};
QUIRE_HOSTS_OWN HostsHash XXH3_128bits(const void*, size_t) { return {}; }
QUIRE_HOSTS_OWN uint64_t XXH3_64bits(const void*, size_t) { return 0; }

namespace {

std::string first_hash(quire_hash_algorithm algorithm) {
  quire_hash_options options{};
  options.struct_size = sizeof options;
  options.algorithm = algorithm;
  options.block_tokens = 4;
  options.seed = {"0", 1};
  const int64_t tokens[4] = {1, 2, 3, 4};
  uint8_t digest[32] = {};
  uint64_t count = 0;
  quire_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(quire_hash_blocks(&options, tokens, 4, digest, 1, &count, &error), QUIRE_OK) << error.message;
  std::string out;
  for (uint32_t i = 0; i < quire_hash_bytes(algorithm); ++i) {
    constexpr char kHex[] = "0123456789abcdef";
    out += kHex[digest[i] >> 4];
    out += kHex[digest[i] & 15];
  }
  return out;
}

TEST(HostSymbols, DoNotTakeThePlaceOfTheLibrarysHashes) {
  // hashlib.sha256 and xxhash.xxh3_128 of the CBOR array [hash of the seed "0", (1, 2, 3, 4), None].
  EXPECT_EQ(first_hash(QUIRE_HASH_SHA256_CBOR), "c9d58ba695280d69b243e1e0df813136ca9196b286fb1a021e0b2e028ef071cb");
  EXPECT_EQ(first_hash(QUIRE_HASH_XXHASH_CBOR), "0a8577df5ee3430515a8cc1f6e3ac52e");
}

}  // namespace
