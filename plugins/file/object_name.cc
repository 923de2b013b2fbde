#include "plugins/file/object_name.h"

namespace quire::file {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void append(std::string* text, unsigned byte) {
  text->push_back(kDigits[byte >> 4]);
  text->push_back(kDigits[byte & 15]);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;  // capitals would be a second name of the same key
}

}  // namespace

std::string folder_name(unsigned folder) {
  std::string name;
  append(&name, folder);
  return name;
}

std::string object_path(std::string_view key) {
  std::string path;
  path.reserve(3 + 2 * key.size());
  append(&path, folder_of(key));
  path.push_back('/');
  for (const char c : key) append(&path, static_cast<unsigned char>(c));
  return path;
}

bool parse_object_name(unsigned folder, std::string_view name, std::string* key) {
  if (name.empty() || name.size() % 2 != 0 || name.size() > 2 * kMaxKeyBytes) return false;
  key->clear();
  key->reserve(name.size() / 2);
  for (size_t i = 0; i < name.size(); i += 2) {
    const int high = digit(name[i]);
    const int low = digit(name[i + 1]);
    if (high < 0 || low < 0) return false;
    key->push_back(static_cast<char>(high * 16 + low));
  }
  return folder_of(*key) == folder;
}

}  // namespace quire::file
