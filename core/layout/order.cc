#include "core/layout/order.h"

namespace quire {
namespace {

constexpr std::string_view kNames = "LPBJKTHD";

}  // namespace

char letter_name(Letter letter) { return kNames[index_of(letter)]; }

void Order::push(Letter letter) {
  position_[index_of(letter)] = static_cast<int8_t>(size_);
  letters_[size_++] = letter;
}

Result<Order> Order::parse(std::string_view text) {
  const int shown = static_cast<int>(text.size() < 32 ? text.size() : 32);
  Order order;
  for (const char c : text) {
    const size_t at = kNames.find(c);
    if (at == std::string_view::npos) return invalid("layout \"%.*s\": letter '%c' is none of %s", shown, text.data(), c, kNames.data());
    const Letter letter = static_cast<Letter>(at);
    if (order.has(letter)) return invalid("layout \"%.*s\": letter %c occurs twice", shown, text.data(), c);
    order.push(letter);
  }
  if (!order.has(Letter::B)) return invalid("layout \"%.*s\": letter B is missing", shown, text.data());
  for (const Letter letter : {Letter::J, Letter::T, Letter::H, Letter::D}) {
    if (order.left_of(letter, Letter::B)) {
      return invalid("layout \"%.*s\": %c stands left of B; only L, P and K may", shown, text.data(), letter_name(letter));
    }
  }
  for (const Letter letter : {Letter::T, Letter::H}) {
    if (order.left_of(Letter::D, letter)) {
      return invalid("layout \"%.*s\": D must stand right of %c", shown, text.data(), letter_name(letter));
    }
  }
  return order;
}

std::string Order::text() const {
  std::string text;
  for (uint32_t i = 0; i < size_; ++i) text += letter_name(letters_[i]);
  return text;
}

std::string Order::plane_letters() const {
  std::string text;
  for (uint32_t i = 0; i < size_ && letters_[i] != Letter::B; ++i) text += letter_name(letters_[i]);
  return text;
}

bool Order::walks_whole_blocks() const {
  return has(Letter::J) && !left_of(Letter::K, Letter::J) && !left_of(Letter::T, Letter::J) && !left_of(Letter::H, Letter::J);
}

Order Order::without(std::string_view letters) const {
  Order order;
  for (uint32_t i = 0; i < size_; ++i) {
    if (letters.find(letter_name(letters_[i])) == std::string_view::npos) order.push(letters_[i]);
  }
  return order;
}

Order Order::with_k_inside_page() const {
  if (!left_of(Letter::K, Letter::B)) return *this;
  Order order;
  for (uint32_t i = 0; i < size_; ++i) {
    if (letters_[i] == Letter::K) continue;
    order.push(letters_[i]);
    if (letters_[i] == (has(Letter::J) ? Letter::J : Letter::B)) order.push(Letter::K);
  }
  return order;
}

}  // namespace quire
