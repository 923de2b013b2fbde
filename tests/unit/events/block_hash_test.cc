// Block hashes. Method: vectors computed by hand from the encodings (RFC 8949, pickle protocol 5) and published digests of both functions.
#include "core/events/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/events/encode.h"
#include "core/prefix/identity.h"

namespace quire {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += text;
  }
  return out;
}
std::string hex(const Digest& d) { return hex({reinterpret_cast<const char*>(d.bytes.data()), d.size}); }

BlockHasher hasher_of(quire_hash_algorithm algorithm, std::string_view seed = "0") {
  auto hasher = BlockHasher::create(algorithm, seed);
  EXPECT_TRUE(hasher.ok()) << hasher.status().message();
  return std::move(*hasher);
}

TEST(BlockHash, SeedsAreHashesOfTheirText) {
  // SHA-256 of the CBOR text "0" (61 30), computed with sha256sum.
  EXPECT_EQ(hex(hasher_of(QUIRE_HASH_SHA256_CBOR).none()), "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  EXPECT_EQ(hasher_of(QUIRE_HASH_XXHASH_CBOR).none().size, 16U);
  EXPECT_NE(hex(hasher_of(QUIRE_HASH_SHA256_PICKLE).none()), hex(hasher_of(QUIRE_HASH_SHA256_CBOR).none()));
  EXPECT_NE(hex(hasher_of(QUIRE_HASH_SHA256_CBOR, "1").none()), hex(hasher_of(QUIRE_HASH_SHA256_CBOR, "0").none()));
}

TEST(BlockHash, CborIsCanonical) {
  const std::vector<uint8_t> parent{0xaa, 0xbb};
  const std::vector<int64_t> tokens{0, 23, 24, 255, 256, 65535, 65536, 4294967296, -1, -25};
  std::string bytes;
  encode_cbor(parent, tokens, {}, &bytes);
  EXPECT_EQ(hex(bytes), "8342aabb8a0017181818ff19010019ffff1a000100001b0000000100000000203818f6");
  bytes.clear();
  const std::vector<ExtraKey> keys{
      {ExtraKey::Kind::kText, "lora", 0}, {ExtraKey::Kind::kMedia, "i", -3}, {ExtraKey::Kind::kBytes, "\x01", 0}};
  encode_cbor(parent, {}, keys, &bytes);
  EXPECT_EQ(hex(bytes), "8342aabb8083646c6f7261826169224101");
}

TEST(BlockHash, PickleSplitsFramesBehind64KiB) {
  const std::vector<uint8_t> parent(32, 1);
  std::vector<int64_t> tokens(20000, 70000);  // 5 bytes each
  std::string bytes;
  encode_pickle(parent, tokens, {}, &bytes);
  ASSERT_GT(bytes.size(), 100000U);
  auto length = [&](size_t at) {
    uint64_t n = 0;
    for (unsigned i = 0; i < 8; ++i) n |= uint64_t{static_cast<unsigned char>(bytes[at + 1 + i])} << (8 * i);
    return n;
  };
  ASSERT_EQ(static_cast<unsigned char>(bytes[2]), 0x95);
  const uint64_t first = length(2);
  EXPECT_GE(first, 65536U);
  EXPECT_LT(first, 65536U + 5);
  ASSERT_EQ(static_cast<unsigned char>(bytes[11 + first]), 0x95);
  EXPECT_EQ(11 + first + 9 + length(11 + first), bytes.size());
}

TEST(BlockHash, PickleUsesTheFewestBytesOfIntegers) {
  std::string bytes;
  const std::vector<int64_t> tokens{255, 65535, -1, 2147483648, -2147483649, INT64_MAX, INT64_MIN};
  encode_pickle({}, tokens, {}, &bytes);
  EXPECT_EQ(hex(bytes.substr(11)),
            "430094284bff4dffff4affffffff8a0500000080008a05ffffff7fff8a08ffffffffffffff7f8a08000000000000008074944e87942e");
}

TEST(BlockHash, TextBeforeAPictureIsHashedAlike) {
  BlockHasher hasher = hasher_of(QUIRE_HASH_SHA256_CBOR);
  std::vector<int64_t> tokens(32);
  std::iota(tokens.begin(), tokens.end(), 0);
  auto chain = [&](std::string_view identifier) {
    const std::vector<MediaItem> media{{identifier, 20, 4}};
    const KeySource source{{}, {}, media, {}, 0, 0};
    BlockKeys keys(source, 0);
    const Digest first = hasher.hash(hasher.none().view(), std::span(tokens).first(16), keys.of_block(0, 16));
    return std::pair(hex(first), hex(hasher.hash(first.view(), std::span(tokens).subspan(16), keys.of_block(16, 32))));
  };
  EXPECT_EQ(chain("a").first, chain("b").first);
  EXPECT_NE(chain("a").second, chain("b").second);
}

// What upstream does when it resumes hashing behind the prompt: an item that reaches into the block is forgotten when another follows.
// Two pictures that differ would then share a block; here all items are looked at unless compatibility is asked for.
TEST(BlockHash, EveryItemThatReachesIntoABlockIsAKey) {
  BlockHasher hasher = hasher_of(QUIRE_HASH_SHA256_CBOR);
  const std::vector<MediaItem> media{{"first", 10, 8}, {"second", 18, 2}};
  const KeySource source{{}, "salt", media, {}, 0, 0};
  BlockKeys all(source, 0);
  ASSERT_EQ(all.of_block(0, 16).size(), 2U);
  const auto keys = all.of_block(16, 32);
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].value, "first");
  EXPECT_EQ(keys[0].offset, -6);
  EXPECT_EQ(keys[1].offset, 2);
  BlockKeys last(source, 1);
  EXPECT_EQ(last.of_block(16, 32).size(), 1U);
  EXPECT_TRUE(BlockKeys(source, 0).of_block(32, 48).empty());
}

// Pairs of salt and epoch and the one text that each is known by.
TEST(BlockHash, SaltAndEpochAreOneTextAndNoTwoPairsTheSame) {
  const auto outside = [](std::string_view salt, uint64_t epoch) {
    quire_identity identity{};
    identity.salt = {salt.data(), salt.size()};
    identity.epoch = epoch;
    return outside_salt(identity);
  };
  EXPECT_EQ(outside("", 0), "");
  EXPECT_EQ(outside("s", 0), "s");
  EXPECT_EQ(outside("", 1), "#epoch=1");
  EXPECT_EQ(outside("s", UINT64_MAX), "s#epoch=18446744073709551615");
  EXPECT_EQ(outside("s#epoch=1", 0), "s#epoch=1#epoch=0");
  std::set<std::string> texts;
  size_t pairs = 0;
  for (const char* salt : {"", "s", "#epoch=", "#epoch=1", "s#epoch=1", "s#epoch=1#epoch=0", "#epoch=1#epoch=1", "#epoc", "s#epoch=1h"}) {
    for (const uint64_t epoch : {0U, 1U, 10U, 11U}) {
      EXPECT_TRUE(texts.insert(outside(salt, epoch)).second) << salt << ", " << epoch;
      EXPECT_LE(outside(salt, epoch).size(), std::string_view(salt).size() + kMostEpochBytes);
      ++pairs;
    }
  }
  EXPECT_EQ(texts.size(), pairs);
}

TEST(BlockHash, NumbersOfEventsAreTheLastEightBytes) {
  Digest digest;
  digest.size = 16;
  for (uint8_t i = 0; i < 16; ++i) digest.bytes[i] = i;
  EXPECT_EQ(digest.external_int(), 0x08090a0b0c0d0e0fU);
  EXPECT_EQ(hex(std::string(reinterpret_cast<const char*>(GroupKey(digest, GroupId(258)).view().data()), 20)),
            "000102030405060708090a0b0c0d0e0f00000102");
}

}  // namespace
}  // namespace quire
