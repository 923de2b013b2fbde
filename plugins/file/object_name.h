// Where an object lies in the directory of a store: "ab/abcd...", its key in base16 in one of 256
// folders by the key's first byte. The name says the key alone: whoever knows a key can open its
// object. The size is the file's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire::file {

inline constexpr size_t kMaxKeyBytes = 120;  // 240 characters; file systems take 255
inline constexpr unsigned kNumFolders = 256;

inline unsigned folder_of(std::string_view key) { return static_cast<unsigned char>(key[0]); }
std::string folder_name(unsigned folder);
// key: 1 to kMaxKeyBytes bytes.
std::string object_path(std::string_view key);
// Whether a file of that name in a folder is an object; then *key is its key.
bool parse_object_name(unsigned folder, std::string_view name, std::string* key);

}  // namespace quire::file
