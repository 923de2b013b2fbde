// What a key of the connector says: the name of an object, the handle that opens it, and the peer
// that has it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire::ucx {

inline constexpr size_t kNameBytes = 32;
inline constexpr size_t kHandleBytes = 16;
inline constexpr size_t kMostAddress = 255;
inline constexpr size_t kMostKey = kNameBytes + kHandleBytes + kMostAddress;

using Handle = std::array<uint8_t, kHandleBytes>;  // all zero: none

struct ObjectKey {
  std::string name;  // 1 to 32 bytes
  Handle handle = {};

  bool has_handle() const { return handle != Handle(); }
  // 32 zero bytes, which no object has: all objects with the handle.
  bool names_all() const {                            //
    return has_handle() && name.size() == kNameBytes  //
           && name.find_first_not_of('\0') == std::string::npos;
  }
};

struct Key {
  ObjectKey object;
  std::string_view address;  // of the key's bytes; empty: none is named
};

// Up to 32 bytes are a name. 48 are a name and a handle; what follows is an address, and zero bytes
// that fill it up. nullopt: it is none of these.
std::optional<Key> parse_key(std::string_view bytes);

// In a time that depends on nothing.
bool equal_handles(const Handle& a, const Handle& b);

}  // namespace quire::ucx
