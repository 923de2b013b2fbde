// bpe.h: byte pair encoding of one piece of text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lm {

class Bpe {
 public:
  // Ids of strings of bytes. A merge of two of them has a rank; the lowest is done first.
  void add_token(std::string bytes, int32_t id);
  // The result of a merge is the token of both strings in a row; false if there is none.
  bool add_merge(std::string_view left, std::string_view right, int32_t rank);
  // Pieces that are tokens as a whole are not merged.
  void set_ignore_merges(bool ignore) { ignore_merges_ = ignore; }

  // Appends the tokens of a piece. Takes O(n log n).
  void encode(std::string_view piece, std::vector<int32_t>& to) const;
  int32_t find(std::string_view bytes) const;  // -1 = none

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t result = 0;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }

  std::unordered_map<std::string, int32_t> tokens_;
  std::unordered_map<uint64_t, Merge> merges_;
  bool ignore_merges_ = false;
};

}  // namespace lm
