// A directory as the connector `file` fills it, and whatever else somebody put there.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/fakes/made_record.h"

namespace quire::test {

inline std::string base16(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

class TierDirectory {
 public:
  explicit TierDirectory(std::filesystem::path path) : path_(std::move(path)) { std::filesystem::create_directories(path_); }

  const std::filesystem::path& path() const { return path_; }
  // The file of a key; its folder is made.
  std::filesystem::path file(const std::string& key) const {
    const std::string name = base16(key);
    std::filesystem::create_directories(path_ / name.substr(0, 2));
    return path_ / name.substr(0, 2) / name;
  }
  template <typename Bytes>
  std::filesystem::path put(const std::string& key, const Bytes& bytes) const {
    std::ofstream out(file(key), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return file(key);
  }
  std::filesystem::path put(const MadeRecord& record) const { return put(key_of(record), record.bytes()); }
  static std::string key_of(const MadeRecord& record) { return std::string(record.key.begin(), record.key.end()); }

 private:
  std::filesystem::path path_;
};

// Numbered records: keys, tokens and weights follow from the number.
inline MadeRecord made_record(uint8_t number, uint8_t weights = 1) {
  MadeRecord record;
  record.key = {number, weights, 0xaa};
  record.fingerprint = {weights, 0xfe};
  record.prefix = {number};
  record.first_token = number * uint64_t{64};
  record.end_token = record.first_token + 64;
  record.stretches = {number * uint64_t{4}, number * uint64_t{4} + 4, 0, 0};
  record.written_at = 1'700'000'000'000'000'000;
  return record;
}

}  // namespace quire::test
