// An object as the store keeps it: its bytes, and after them a seal of 40 bytes that says what
// they are. Mooncake gives values that are short, empty, or of another key, and says that it worked
// (kvcache-ai/Mooncake#3465, #4153); the seal shows it.
//
//   offset  bytes
//        0      8  "quireMC1"
//        8      8  size of the object
//       16     16  XXH3-128 of the key, as the caller chose it
//       32      8  XXH3-64 of the object
//
// Numbers are little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace quire::mooncake {

inline constexpr uint64_t kSealBytes = 40;

// Writes the seal at value[object_bytes, object_bytes + kSealBytes).
void seal(std::string_view key, uint64_t object_bytes, uint8_t* value);
// The size of the object; 0: the value is not what was stored with this key. An object has at least
// one byte.
uint64_t open_value(std::string_view key, std::span<const uint8_t> value);
// So that the same bytes are not taken for another value later. value: all of it.
void break_seal(std::span<uint8_t> value);

}  // namespace quire::mooncake
