#include "core/c_api/guard.h"

#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

namespace quire::c_api {
namespace {

constexpr uint32_t kMaxStructBytes = 4096;

uint32_t struct_size_of(const void* from) {
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  return size;
}

}  // namespace

void misuse(const char* what) {
  const std::string line = std::string("quire: ") + what + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) std::abort();  // nowhere to say it
  std::abort();
}

void keep_shell(void* shell) {
  // Never destroyed, since handles may be released at exit; and a handle is released without memory, too.
  static std::mutex lock;
  static std::array<void*, 4096> shells{};
  static size_t next = 0;
  const std::lock_guard<std::mutex> hold(lock);
  ::operator delete(std::exchange(shells[next], shell));
  next = (next + 1) % shells.size();
}

void write_error(quire_error* error, quire_code code, const char* message) noexcept {
  if (error == nullptr || error->struct_size < sizeof(quire_error)) return;
  error->code = code;
  error->native_code = 0;
  error->native_domain = 0;
  std::snprintf(error->source, sizeof error->source, "library");
  std::snprintf(error->message, sizeof error->message, "%s", message);
}

Status check_pointer(const void* pointer, const char* name) { return pointer == nullptr ? invalid("%s is NULL", name) : Status(); }

Status absent_array(uint64_t count, const char* name) { return invalid("%s is NULL and its count is %" PRIu64, name, count); }

Status check_text(quire_str text, const char* name, uint64_t limit) {
  if (text.data == nullptr && text.len != 0) return invalid("%s.data is NULL and its len is %" PRIu64, name, text.len);
  if (text.len > limit) return invalid("%s has %" PRIu64 " bytes, the limit is %" PRIu64, name, text.len, limit);
  return {};
}

Status check_flags(uint64_t flags, uint64_t allowed, const char* name) {
  if ((flags & ~allowed) != 0) return invalid("%s: unknown bits 0x%" PRIx64 ", known are 0x%" PRIx64, name, flags & ~allowed, allowed);
  return {};
}

Status check_zero(uint64_t value, const char* name) {
  if (value != 0) return invalid("%s is %" PRIu64 ", it must be 0", name, value);
  return {};
}

Status check_tensor(const quire_tensor& tensor, const char* name) {
  if (tensor.ndim < 0 || tensor.ndim > 5) return invalid("%s.ndim is %d, the limits are 0 and 5", name, tensor.ndim);
  if (tensor.reserved0 != 0) return invalid("%s.reserved0 is %" PRIu64 ", it must be 0", name, tensor.reserved0);
  return {};
}

Status read_struct(const void* from, void* to, uint32_t first_bytes, uint32_t own_bytes, const char* name) {
  if (from == nullptr) return invalid("%s is NULL", name);
  const uint32_t size = struct_size_of(from);
  if (size < first_bytes) return invalid("%s.struct_size is %u, the smallest legal one is %u", name, size, first_bytes);
  if (size > kMaxStructBytes) return invalid("%s.struct_size is %u, the limit is %u", name, size, kMaxStructBytes);
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (uint32_t i = own_bytes; i < size; ++i) {
    if (bytes[i] != 0) {
      return fail(QUIRE_UNIMPLEMENTED, "%s: byte %u is set and this library knows %u bytes of the struct", name, i, own_bytes);
    }
  }
  const uint32_t known = std::min(size, own_bytes);
  std::memcpy(to, from, known);
  std::memset(static_cast<unsigned char*>(to) + known, 0, own_bytes - known);
  std::memcpy(to, &own_bytes, sizeof own_bytes);
  return {};
}

Status check_info_bytes(const void* info, uint32_t first_bytes, const char* name) {
  if (info == nullptr) return invalid("%s is NULL", name);
  const uint32_t size = struct_size_of(info);
  if (size < first_bytes) return invalid("%s.struct_size is %u, the smallest legal one is %u", name, size, first_bytes);
  if (size > kMaxStructBytes) return invalid("%s.struct_size is %u, the limit is %u", name, size, kMaxStructBytes);
  return {};
}

void write_info_bytes(void* info, const void* own, uint32_t own_bytes) {
  const uint32_t size = struct_size_of(info);
  const uint32_t filled = std::min(size, own_bytes);
  std::memcpy(info, own, filled);
  std::memset(static_cast<unsigned char*>(info) + filled, 0, size - filled);
  std::memcpy(info, &filled, sizeof filled);
}

Status check_two_call(const void* items, uint64_t capacity, const uint64_t* count) {
  if (count == nullptr) return invalid("count is NULL");
  if (items == nullptr && capacity != 0) return invalid("items is NULL and capacity is %" PRIu64, capacity);
  return {};
}

Status finish_two_call(uint64_t total, bool wanted, uint64_t capacity) {
  if (wanted && capacity < total) return fail(QUIRE_OUT_OF_RANGE, "capacity is %" PRIu64 ", there are %" PRIu64 " items", capacity, total);
  return {};
}

Status check_stride(uint64_t stride, uint32_t first_bytes) {
  if (stride < first_bytes || stride > kMaxStructBytes || stride % 8 != 0) {
    return invalid("stride is %" PRIu64 ", it must be a multiple of 8 in [%u, %u]", stride, first_bytes, kMaxStructBytes);
  }
  return {};
}

}  // namespace quire::c_api
