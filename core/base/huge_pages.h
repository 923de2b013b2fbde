// An allocator for arrays that are touched all over: where they are large they start on a boundary of huge pages and ask the kernel for
// them, so that a random access costs one cache miss and not also a walk of the page table.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace quire {

template <typename T>
struct HugePages {
  using value_type = T;
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  HugePages() = default;
  template <typename U>
  HugePages(const HugePages<U>&) {}  // NOLINT(google-explicit-constructor): rebinding

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    void* p = ::operator new(bytes, alignment(bytes));
    if (bytes >= kPage) madvise(p, bytes, MADV_HUGEPAGE);  // a wish; what the kernel makes of it changes the speed only
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t n) { ::operator delete(p, alignment(n * sizeof(T))); }
  template <typename U>
  bool operator==(const HugePages<U>&) const {
    return true;
  }

 private:
  static std::align_val_t alignment(std::size_t bytes) { return std::align_val_t(bytes >= kPage ? kPage : 64); }
};

template <typename T>
using HugeVector = std::vector<T, HugePages<T>>;

}  // namespace quire
