// Replaces operator new of the test binary (the library calls it, too), so that a test can assert that nothing was allocated.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

std::atomic<uint64_t> news{0};

void* operator new(std::size_t n) {
  ++news;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t n) { return operator new(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  ++news;
  return std::malloc(n);
}
void* operator new[](std::size_t n, const std::nothrow_t& quiet) noexcept { return operator new(n, quiet); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
