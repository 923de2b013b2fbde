#include "plugins/mooncake/value.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

static_assert(std::endian::native == std::endian::little, "seals are written as numbers lie in memory");

namespace quire::mooncake {
namespace {

constexpr char kMagic[8] = {'q', 'u', 'i', 'r', 'e', 'M', 'C', '1'};

struct Seal {
  char magic[8];
  uint64_t object_bytes;
  uint64_t key[2];
  uint64_t object_sum;
};
static_assert(sizeof(Seal) == kSealBytes);

Seal make(std::string_view key, const uint8_t* object, uint64_t object_bytes) {
  Seal made = {};
  std::memcpy(made.magic, kMagic, sizeof kMagic);
  made.object_bytes = object_bytes;
  const XXH128_hash_t digest = XXH3_128bits(key.data(), key.size());
  made.key[0] = digest.low64;
  made.key[1] = digest.high64;
  made.object_sum = XXH3_64bits(object, object_bytes);
  return made;
}

}  // namespace

void seal(std::string_view key, uint64_t object_bytes, uint8_t* value) {
  const Seal made = make(key, value, object_bytes);
  std::memcpy(value + object_bytes, &made, sizeof made);
}

uint64_t open_value(std::string_view key, std::span<const uint8_t> value) {
  if (value.size() <= kSealBytes) return 0;
  const uint64_t object_bytes = value.size() - kSealBytes;
  const Seal expected = make(key, value.data(), object_bytes);
  return std::memcmp(value.data() + object_bytes, &expected, sizeof expected) == 0 ? object_bytes : 0;
}

void break_seal(std::span<uint8_t> value) {
  const auto bytes = value.size() < kSealBytes ? value.size() : static_cast<size_t>(kSealBytes);
  std::memset(value.data() + (value.size() - bytes), 0, bytes);
}

}  // namespace quire::mooncake
