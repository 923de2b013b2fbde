// Replaces operator new of the test binary, so that a test can assert that nothing was allocated.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

std::atomic<uint64_t> allocations{0};

void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
