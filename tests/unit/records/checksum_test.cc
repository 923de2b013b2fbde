// Checksums of blocks: each set of instructions that runs here against libxxhash as it is, without wider ones.
#include "core/records/checksum.h"

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

namespace quire {
namespace {

std::vector<uint8_t> random_bytes(size_t size) {
  std::mt19937_64 random(size);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(Checksum, PortableCodeRunsEverywhere) {
  ASSERT_FALSE(checksum_codes().empty());
  EXPECT_EQ(std::string_view(checksum_codes().back().instructions), "portable");
}

TEST(Checksum, TheWidestInstructionsOfTheProcessorComeFirst) {
  std::vector<std::string_view> wanted;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) wanted.push_back("avx512");
  if (__builtin_cpu_supports("avx2")) wanted.push_back("avx2");
#endif
  wanted.push_back("portable");
  std::vector<std::string_view> found;
  for (const ChecksumCode& code : checksum_codes()) found.push_back(code.instructions);
  EXPECT_EQ(found, wanted);
}

// All sizes around those at which libxxhash takes another way (16, 128, 240, 1,024 bytes), at all alignments that count, and large ones.
TEST(Checksum, AllInstructionsGiveTheSumOfLibxxhash) {
  const std::vector<uint8_t> bytes = random_bytes((size_t{1} << 21) + 64);
  std::vector<size_t> sizes{4095, 4096, 32768, 99999, size_t{1} << 21};
  for (size_t size = 0; size < 2100; ++size) sizes.push_back(size);
  for (const ChecksumCode& code : checksum_codes()) {
    for (const size_t size : sizes) {
      for (const size_t at : {0, 1, 32, 63}) {
        ASSERT_EQ(code.sum(bytes.data() + at, size), XXH3_64bits(bytes.data() + at, size)) << code.instructions << ", " << size << " bytes";
      }
    }
  }
  EXPECT_EQ(checksum(bytes.data(), bytes.size()), XXH3_64bits(bytes.data(), bytes.size()));
}

TEST(Checksum, SumsOfPiecesAreThoseOfTheWhole) {
  std::vector<uint8_t> bytes = random_bytes(100000);
  for (const ChecksumCode& code : checksum_codes()) {
    BlockChecksum sum(code);
    for (size_t at = 0, piece = 1; at < bytes.size(); at += piece, piece = piece * 3 + 1)
      sum.add(bytes.data() + at, std::min(piece, bytes.size() - at));
    EXPECT_EQ(sum.sum(), XXH3_64bits(bytes.data(), bytes.size())) << code.instructions;
    bytes[77] ^= 1;
    EXPECT_NE(sum.sum(), XXH3_64bits(bytes.data(), bytes.size()));
    bytes[77] ^= 1;
  }
}

}  // namespace
}  // namespace quire
