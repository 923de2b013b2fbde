// An order of letters, outermost first: which extent of a cache varies slowest. L lane, P layer within the lane, B page, J kernel block
// within the page, K key/value side, T token row, H head, D element. A letter that is absent has extent 1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace quire {

enum class Letter : uint8_t { L, P, B, J, K, T, H, D };
inline constexpr uint32_t kNumLetters = 8;
char letter_name(Letter letter);
constexpr uint32_t index_of(Letter letter) { return static_cast<uint32_t>(letter); }

class Order {
 public:
  // Checks: known letters, none twice, B present, only L P K left of B, D right of T and H. INVALID_ARGUMENT names the letter.
  static Result<Order> parse(std::string_view text);

  uint32_t size() const { return size_; }
  Letter operator[](uint32_t i) const { return letters_[i]; }
  bool has(Letter letter) const { return position_[index_of(letter)] >= 0; }
  bool left_of(Letter a, Letter b) const { return has(a) && has(b) && position_[index_of(a)] < position_[index_of(b)]; }
  std::string text() const;
  // Whether everything that a kernel block holds of a layer stands right of J: the block can be padded as a whole.
  bool walks_whole_blocks() const;
  // The letters left of B: they cut a region into planes.
  std::string plane_letters() const;
  // The same order without some letters, e.g. "KTHD" for states.
  Order without(std::string_view letters) const;
  // The re-strided order: K directly right of J, or of B where J is absent. Unchanged when K is absent or right of B already.
  Order with_k_inside_page() const;

 private:
  void push(Letter letter);

  std::array<Letter, kNumLetters> letters_{};
  std::array<int8_t, kNumLetters> position_{-1, -1, -1, -1, -1, -1, -1, -1};
  uint32_t size_ = 0;
};

}  // namespace quire
