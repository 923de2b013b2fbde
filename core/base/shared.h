// A number that one thread at a time writes and others read beside it. Who reads several of them must find out by himself whether they
// belong together: what was read first is not newer than what was read later, and that is all that is promised.
#pragma once

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

// The same for stretches of numbers. Pairs are compared at once where both stretches allow it.
inline bool shared_equals(const uint32_t* shared, const uint32_t* mine, size_t count) {
  using Pair [[gnu::may_alias]] = uint64_t;
  using LoosePair [[gnu::may_alias, gnu::aligned(4)]] = uint64_t;
  uint64_t differ = 0;
  size_t i = 0;
  if (reinterpret_cast<uintptr_t>(shared) % sizeof(Pair) == 0) {
    for (; i + 2 <= count; i += 2) {
      const uint64_t theirs = __atomic_load_n(reinterpret_cast<const Pair*>(shared + i), __ATOMIC_ACQUIRE);
      differ |= theirs ^ *reinterpret_cast<const LoosePair*>(mine + i);
    }
  }
  for (; i < count; ++i) differ |= __atomic_load_n(shared + i, __ATOMIC_ACQUIRE) ^ mine[i];
  return differ == 0;
}

inline void shared_assign(uint32_t* shared, const uint32_t* mine, size_t count) {
  for (size_t i = 0; i < count; ++i) __atomic_store_n(shared + i, mine[i], __ATOMIC_RELEASE);
}

}  // namespace quire
