// What every exported function shares: one reader of the caller's structs, one way out, and the handles. Nothing else in the library reads
// a caller's struct.
#pragma once

#include <quire/base.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/c_api/first_sizes.h"

namespace quire::c_api {

// Checked builds (QUIRE_CHECKED) catch what the rules forbid: handles of a wrong type, used after or released twice, and calls on one
// object from two threads at once. Others catch the wrong type as long as the memory is there.
#if defined(QUIRE_CHECKED)
inline constexpr bool kChecked = true;
#else
inline constexpr bool kChecked = false;
#endif
inline constexpr uint32_t kReleasedTag = 0x64616564U;

// Ends the process with one line on standard error: where there is no status to return.
[[noreturn]] void misuse(const char* what);
// Holds the memory of the last handles that were released, so that their use is seen and not undefined.
void keep_shell(void* shell);

// A reference-counted handle around an object; the object itself keeps its parents. The tag catches a handle of another type.
template <typename T, uint32_t kTag>
struct Handle {
  using Object = T;
  static constexpr uint32_t kOwnTag = kTag;
  uint32_t tag = kTag;
  std::atomic<uint32_t> references{1};
  std::atomic<bool> inside{false};  // checked builds: a call that must be alone is running
  std::shared_ptr<T> object;

  explicit Handle(std::shared_ptr<T> o) : object(std::move(o)) {}
  ~Handle() { tag = 0; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  bool valid() const { return tag == kTag; }
};

template <typename H>
H* retain(H* handle) {
  if constexpr (kChecked) {
    if (handle != nullptr && !handle->valid()) misuse("retain of a handle that was released before, or of another type");
  }
  if (handle != nullptr) handle->references.fetch_add(1, std::memory_order_relaxed);
  return handle;
}

template <typename H>
void release(H* handle) {
  if (handle == nullptr) return;
  if constexpr (kChecked) {
    if (!handle->valid()) misuse("release of a handle that was released before, or of another type");
  }
  if (handle->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if constexpr (kChecked) {
    handle->~H();
    std::memcpy(static_cast<void*>(handle), &kReleasedTag, sizeof kReleasedTag);  // the tag stands first
    keep_shell(handle);
  } else {
    delete handle;
  }
}

// Marks a handle (NULL: none) while a call runs that the headers call serialized on it. Costs nothing in other builds.
template <typename H>
class Alone {
 public:
  explicit Alone(H* handle) : handle_(handle) {
    if constexpr (kChecked) entered_ = handle == nullptr || !handle->inside.exchange(true, std::memory_order_acquire);
  }
  ~Alone() {
    if constexpr (kChecked) {
      if (entered_ && handle_ != nullptr) handle_->inside.store(false, std::memory_order_release);
    }
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  Status check(const char* name) const {
    if (entered_) return {};
    return fail(QUIRE_FAILED_PRECONDITION, "%s is inside another call: calls are serialized on it", name);
  }

 private:
  H* handle_;
  bool entered_ = true;
};

inline constexpr const char* kSource = "library";

// Runs the body of an exported function: its Status goes into the caller's struct, exceptions become codes, here and nowhere else.
void write_error(quire_error* error, quire_code code, const char* message) noexcept;

template <typename Body>
quire_code guard_code(quire_error* error, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    write_error(error, QUIRE_RESOURCE_EXHAUSTED, "no host memory");
    return QUIRE_RESOURCE_EXHAUSTED;
  } catch (const std::exception& e) {
    write_error(error, QUIRE_INTERNAL, e.what());
    return QUIRE_INTERNAL;
  } catch (...) {
    write_error(error, QUIRE_INTERNAL, "an exception of unknown type reached the C API");
    return QUIRE_INTERNAL;
  }
}

template <typename Body>
quire_code guard(quire_error* error, Body&& body) noexcept {
  return guard_code(error, [&] {
    const Status status = std::forward<Body>(body)();
    return status.write_to(error, kSource);
  });
}

// Arguments -------------------------------------------------------------------------------------------------------------------------

template <typename H>
Status check_handle(const H* handle, const char* name) {
  if (handle == nullptr) return invalid("%s is NULL", name);
  if (!handle->valid()) {
    return invalid(kChecked && handle->tag == kReleasedTag ? "%s was released before" : "%s is not a handle of its type", name);
  }
  return {};
}

Status check_pointer(const void* pointer, const char* name);
Status absent_array(uint64_t count, const char* name);
// NULL is legal when there is nothing to read or write.
inline Status check_array(const void* items, uint64_t count, const char* name) {
  if (items != nullptr || count == 0) return {};
  return absent_array(count, name);
}
Status check_text(quire_str text, const char* name, uint64_t limit);
Status check_flags(uint64_t flags, uint64_t allowed, const char* name);
Status check_zero(uint64_t value, const char* name);
Status check_tensor(const quire_tensor& tensor, const char* name);

// Copies a descriptor of any version into this library's: shorter ones are filled with zeroes, longer ones must have a tail of zeroes.
Status read_struct(const void* from, void* to, uint32_t first_bytes, uint32_t own_bytes, const char* name);

template <typename T>
Status read_descriptor(const T* from, T* to, const char* name) {
  return read_struct(from, to, kFirstBytes<T>, sizeof(T), name);
}

// Info structs: checked before anything happens, written at the end.
Status check_info_bytes(const void* info, uint32_t first_bytes, const char* name);
void write_info_bytes(void* info, const void* own, uint32_t own_bytes);

template <typename T>
Status check_info(const T* info, const char* name) {
  return check_info_bytes(info, kFirstBytes<T>, name);
}
template <typename T>
void write_info(T* info, const T& own) {
  write_info_bytes(info, &own, sizeof(T));
}

// Two-call arrays of frozen elements.
Status check_two_call(const void* items, uint64_t capacity, const uint64_t* count);
Status finish_two_call(uint64_t total, bool wanted, uint64_t capacity);

template <typename T>
Status write_two_call(std::span<const T> all, T* items, uint64_t capacity, uint64_t* count) {
  QUIRE_RETURN_IF_ERROR(check_two_call(items, capacity, count));
  *count = all.size();
  if (items != nullptr) std::copy_n(all.begin(), std::min<uint64_t>(all.size(), capacity), items);
  return finish_two_call(all.size(), items != nullptr, capacity);
}

// The same for growable elements, `stride` bytes apart; each is written as an info struct of that many bytes.
Status check_stride(uint64_t stride, uint32_t first_bytes);

template <typename T>
Status write_two_call_strided(std::span<const T> all, T* items, uint64_t stride, uint64_t capacity, uint64_t* count) {
  QUIRE_RETURN_IF_ERROR(check_two_call(items, capacity, count));
  if (items != nullptr) QUIRE_RETURN_IF_ERROR(check_stride(stride, kFirstBytes<T>));
  *count = all.size();
  for (uint64_t i = 0; items != nullptr && i < std::min<uint64_t>(all.size(), capacity); ++i) {
    auto* item = reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(items) + i * stride);
    item->struct_size = static_cast<uint32_t>(stride);
    write_info(item, all[i]);
  }
  return finish_two_call(all.size(), items != nullptr, capacity);
}

inline std::string_view text_of(quire_str text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.len);
}

template <size_t N>
void put_text(char (&to)[N], std::string_view from) {
  const size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

}  // namespace quire::c_api
