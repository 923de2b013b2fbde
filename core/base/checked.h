// Integer products and sums that report overflow, or stop at the limit, instead of wrapping. Limit:
// 63 bits, so that results are also valid signed offsets.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace quire {

inline constexpr uint64_t kMaxSize = (uint64_t{1} << 63) - 1;

inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r) || r > kMaxSize) return std::nullopt;
  return r;
}

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r) || r > kMaxSize) return std::nullopt;
  return r;
}

inline std::optional<uint64_t> checked_product(std::initializer_list<uint64_t> factors) {
  uint64_t r = 1;
  for (uint64_t f : factors) {
    auto next = checked_mul(r, f);
    if (!next) return std::nullopt;
    r = *next;
  }
  return r;
}

// a + b * times; kMaxSize where that has more than 63 bits.
inline uint64_t capped_sum(uint64_t a, uint64_t b, uint64_t times) {
  const auto product = checked_mul(b, times);
  const auto sum = product ? checked_add(a, *product) : std::nullopt;
  return sum.value_or(kMaxSize);
}

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Smallest multiple of b that is at least a; the caller knows that it fits.
constexpr uint64_t round_up(uint64_t a, uint64_t b) { return ceil_div(a, b) * b; }

}  // namespace quire
