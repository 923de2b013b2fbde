// A number that one thread at a time writes and others read beside it. Who reads several of them must find out by himself whether they
// belong together: what was read first is not newer than what was read later, and that is all that is promised.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace quire {

template <typename T>
class Shared {
 public:
  Shared() = default;
  Shared(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): stands where a number stood
  Shared(const Shared& other) : value_(other) {}
  ~Shared() = default;
  Shared& operator=(T value) {
    __atomic_store_n(&value_, value, __ATOMIC_RELEASE);
    return *this;
  }
  Shared& operator=(const Shared& other) { return *this = static_cast<T>(other); }  // NOLINT(bugprone-unhandled-self-assignment)
  operator T() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }         // NOLINT(google-explicit-constructor)
  // For the only writer.
  Shared& operator++() { return *this = static_cast<T>(value_ + 1); }
  Shared& operator--() { return *this = static_cast<T>(value_ - 1); }

 private:
  T value_{};
};

// The same for stretches of numbers, and for two adjacent numbers. Pairs are compared
// and written at once where the shared stretch allows it.
namespace pairs {
using Pair [[gnu::may_alias]] = uint64_t;
using LoosePair [[gnu::may_alias, gnu::aligned(4)]] = uint64_t;

inline bool fit(const uint32_t* numbers) { return reinterpret_cast<uintptr_t>(numbers) % sizeof(Pair) == 0; }
inline uint64_t at(const uint32_t* mine) { return *reinterpret_cast<const LoosePair*>(mine); }
}  // namespace pairs

// The first one lies at the begin of a pair.
inline void shared_assign(Shared<uint32_t>* first, uint32_t value, uint32_t next) {
  const auto both = std::bit_cast<uint64_t>(std::array<uint32_t, 2>{value, next});
  __atomic_store_n(reinterpret_cast<pairs::Pair*>(first), both, __ATOMIC_RELEASE);
}

// Eight pairs at once: a loop over them would cost twice as many operations.
inline constexpr size_t kAtOnce = 16;

inline bool shared_equals(const uint32_t* shared, const uint32_t* mine, size_t count) {
  uint64_t differ = 0;
  size_t i = 0;
  const auto differ_at = [&](size_t k) {
    return __atomic_load_n(reinterpret_cast<const pairs::Pair*>(shared + k), __ATOMIC_ACQUIRE) ^ pairs::at(mine + k);
  };
  if (pairs::fit(shared)) {
    for (; i + kAtOnce <= count; i += kAtOnce) {
      differ |= differ_at(i) | differ_at(i + 2) | differ_at(i + 4) | differ_at(i + 6);
      differ |= differ_at(i + 8) | differ_at(i + 10) | differ_at(i + 12) | differ_at(i + 14);
    }
    for (; i + 2 <= count; i += 2) differ |= differ_at(i);
  }
  for (; i < count; ++i) differ |= __atomic_load_n(shared + i, __ATOMIC_ACQUIRE) ^ mine[i];
  return differ == 0;
}

inline void shared_assign(uint32_t* shared, const uint32_t* mine, size_t count) {
  size_t i = 0;
  const auto assign_at = [&](size_t k) {
    auto* const pair = reinterpret_cast<pairs::Pair*>(shared + k);
    __atomic_store_n(pair, pairs::at(mine + k), __ATOMIC_RELEASE);
  };
  if (pairs::fit(shared)) {
    for (; i + kAtOnce <= count; i += kAtOnce) {
      assign_at(i), assign_at(i + 2), assign_at(i + 4), assign_at(i + 6);
      assign_at(i + 8), assign_at(i + 10), assign_at(i + 12), assign_at(i + 14);
    }
    for (; i + 2 <= count; i += 2) assign_at(i);
  }
  for (; i < count; ++i) __atomic_store_n(shared + i, mine[i], __ATOMIC_RELEASE);
}

}  // namespace quire
