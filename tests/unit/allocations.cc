#include "allocations.h"

#include <link.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace quire::test {

std::atomic<uint64_t> allocations{0};
std::atomic<int64_t> alive{0};
std::atomic<bool> armed{false}, for_ever{false};
std::atomic<int64_t> until{0};
std::atomic<uint64_t> failed{0};

namespace {

std::atomic<uintptr_t> first_caller{0}, end_of_callers{UINTPTR_MAX};

int remember_code(dl_phdr_info* info, size_t, void* name) {
  if (std::strstr(info->dlpi_name, static_cast<const char*>(name)) == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    first_caller = info->dlpi_addr + part.p_vaddr;
    end_of_callers = info->dlpi_addr + part.p_vaddr + part.p_memsz;
    return 1;
  }
  return 0;
}

}  // namespace

bool only_those_of(const char* library) { return dl_iterate_phdr(remember_code, const_cast<char*>(library)) == 1; }

}  // namespace quire::test

namespace {

using quire::test::alive, quire::test::allocations, quire::test::armed, quire::test::failed, quire::test::for_ever, quire::test::until;

// Whether this allocation is the one of choice, or comes after it.
bool fails(const void* caller) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (!armed || at < quire::test::first_caller || at >= quire::test::end_of_callers || !(until-- == 0 || (for_ever && until < 0)))
    return false;
  failed++;
  return true;
}

// Never inlined: a compiler that sees malloc behind one half and free behind the other takes them for a mismatch.
[[gnu::noinline]] void* take(std::size_t bytes, std::size_t alignment, const void* caller) noexcept {
  allocations++;
  if (fails(caller)) return nullptr;
  void* address = nullptr;
  if (posix_memalign(&address, alignment, bytes == 0 ? 1 : bytes) != 0) return nullptr;
  alive++;
  return address;
}
[[gnu::noinline]] void give_back(void* address) noexcept {
  if (address != nullptr) alive--;
  std::free(address);
}
void* take_or_throw(std::size_t bytes, std::size_t alignment, const void* caller) {
  void* address = take(bytes, alignment, caller);
  if (address == nullptr) throw std::bad_alloc();
  return address;
}
}  // namespace

#define QUIRE_CALLER __builtin_return_address(0)

// What C libraries ask for fails as well. Not under sanitizers, which have a malloc of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* address, std::size_t bytes);
void* malloc(std::size_t bytes) { return fails(QUIRE_CALLER) ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return fails(QUIRE_CALLER) ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* address, std::size_t bytes) { return fails(QUIRE_CALLER) ? nullptr : __libc_realloc(address, bytes); }
}
#endif

void* operator new(std::size_t bytes) { return take_or_throw(bytes, 16, QUIRE_CALLER); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes, 16, QUIRE_CALLER); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 16, QUIRE_CALLER); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 16, QUIRE_CALLER); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment), QUIRE_CALLER);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment), QUIRE_CALLER);
}
void operator delete(void* address) noexcept { give_back(address); }
void operator delete[](void* address) noexcept { give_back(address); }
void operator delete(void* address, const std::nothrow_t&) noexcept { give_back(address); }
void operator delete[](void* address, const std::nothrow_t&) noexcept { give_back(address); }
void operator delete(void* address, std::size_t) noexcept { give_back(address); }
void operator delete[](void* address, std::size_t) noexcept { give_back(address); }
void operator delete(void* address, std::align_val_t) noexcept { give_back(address); }
void operator delete[](void* address, std::align_val_t) noexcept { give_back(address); }
void operator delete(void* address, std::size_t, std::align_val_t) noexcept { give_back(address); }
void operator delete[](void* address, std::size_t, std::align_val_t) noexcept { give_back(address); }
