// Tokens, hex and random numbers of the golden files.
#include "tests/golden/golden.h"

namespace quire::golden {

uint64_t split_mix(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15U;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

std::vector<int64_t> tokens_of(const json& segments) {
  std::vector<int64_t> tokens;
  for (const json& segment : segments) {
    if (segment.is_number()) {  // a plain list of tokens
      tokens.push_back(segment.get<int64_t>());
    } else if (segment.is_array()) {
      for (const json& token : segment) tokens.push_back(token.get<int64_t>());
    } else {
      uint64_t state = segment.at("seed").get<uint64_t>();
      const uint64_t vocab = segment.at("vocab").get<uint64_t>();
      for (uint64_t i = segment.at("n").get<uint64_t>(); i > 0; --i) tokens.push_back(static_cast<int64_t>(split_mix(&state) % vocab));
    }
  }
  return tokens;
}

std::string hex_of(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : bytes) text += kDigits[byte >> 4], text += kDigits[byte & 15];
  return text;
}

std::vector<uint8_t> bytes_of(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace quire::golden
