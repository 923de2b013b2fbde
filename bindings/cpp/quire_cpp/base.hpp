// quire_cpp/base.hpp: what the classes of quire.hpp are made of: errors, results, handles, DLPack tensors. Include quire.hpp.
#pragma once

#include <quire/quire.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(QUIRE_EXCEPTIONS)
#define QUIRE_CPP_MODE throwing
#else
#define QUIRE_CPP_MODE results
#endif

namespace quire {

// A text as the C headers pass it, borrowed.
inline quire_str text(std::string_view from) noexcept { return {from.data(), from.size()}; }
// The other way round.
inline std::string_view view(quire_str from) noexcept { return {from.data, from.data == nullptr ? 0 : static_cast<size_t>(from.len)}; }
// Version of the library at run time, and its name for a code.
inline std::string_view version() noexcept { return view(quire_version()); }
inline std::string_view code_name(quire_code code) noexcept { return view(quire_code_name(code)); }

// A zeroed struct of the C headers with struct_size (and header_abi) set.
template <class T>
T make() noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T made{};
  if constexpr (requires { made.struct_size; }) made.struct_size = sizeof(T);
  if constexpr (requires { made.header_abi; }) made.header_abi = QUIRE_ABI_VERSION;
  return made;
}

// What went wrong: code, one line that names argument, value and limit, and where it came from. OK says that nothing did.
class Error {
 public:
  Error() noexcept {
    raw_.struct_size = sizeof raw_;
    raw_.code = QUIRE_OK;
    raw_.native_code = raw_.native_domain = 0;
    raw_.source[0] = raw_.message[0] = '\0';
  }
  Error(quire_code code, std::string_view message) noexcept : Error() {
    raw_.code = code;
    std::snprintf(raw_.source, sizeof raw_.source, "quire.hpp");
    std::snprintf(raw_.message, sizeof raw_.message, "%.*s", static_cast<int>(message.size()), message.data());
  }
  Error(const Error& other) noexcept : Error() { *this = other; }
  Error& operator=(const Error& other) noexcept {  // texts are there only where something failed
    if (this == &other) return *this;
    raw_.code = other.raw_.code;
    raw_.native_code = other.raw_.native_code;
    raw_.native_domain = other.raw_.native_domain;
    std::memcpy(raw_.source, other.raw_.source, raw_.code == QUIRE_OK ? 1 : sizeof raw_.source);
    std::memcpy(raw_.message, other.raw_.message, raw_.code == QUIRE_OK ? 1 : sizeof raw_.message);
    return *this;
  }
  ~Error() = default;

  quire_code code() const noexcept { return raw_.code; }
  std::string_view name() const noexcept { return code_name(raw_.code); }  // "INVALID_ARGUMENT"
  const char* message() const noexcept { return raw_.message; }            // lives as long as the error
  const char* source() const noexcept { return raw_.source; }              // "library", "driver:cpu", ...
  int32_t native_code() const noexcept { return raw_.native_code; }        // errno, CUresult, ...; 0 = none
  int32_t native_domain() const noexcept { return raw_.native_domain; }
  quire_error* raw() noexcept { return &raw_; }  // for calls of the C headers

 private:
  quire_error raw_;
};

// Thrown where exceptions are chosen, and by value() of a Result that has none.
class Exception : public std::exception {
 public:
  explicit Exception(const Error& error) noexcept : error_(error) {}
  const char* what() const noexcept override { return error_.message(); }
  const Error& error() const noexcept { return error_; }
  quire_code code() const noexcept { return error_.code(); }

 private:
  Error error_;
};

// Throws, or ends the process where exceptions are switched off.
[[noreturn]] inline void raise(const Error& error) {
#if defined(__cpp_exceptions)
  throw Exception(error);
#else
  std::fprintf(stderr, "quire: %s\n", error.message());
  std::abort();
#endif
}

// A value, or the error in its place. Converts to true where there is a value; value() throws the error where there is none, * and -> do
// not look.
template <class T>
class [[nodiscard]] Result {
 public:
  Result() = default;
  explicit Result(T&& value) : value_(std::move(value)) {}
  Result(const Error& error) : error_(error) {}  // NOLINT: an error is a result
  explicit operator bool() const noexcept { return error_.code() == QUIRE_OK; }
  quire_code code() const noexcept { return error_.code(); }
  const Error& error() const noexcept { return error_; }
  Error& error() noexcept { return error_; }
  T& operator*() & noexcept { return value_; }
  const T& operator*() const& noexcept { return value_; }
  T&& operator*() && noexcept { return std::move(value_); }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }
  T& value() & { return *this ? value_ : (raise(error_), value_); }
  T value() && { return *this ? std::move(value_) : (raise(error_), std::move(value_)); }

 private:
  T value_{};
  Error error_;
};
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(const Error& error) : error_(error) {}  // NOLINT: an error is a result
  explicit operator bool() const noexcept { return error_.code() == QUIRE_OK; }
  quire_code code() const noexcept { return error_.code(); }
  const Error& error() const noexcept { return error_; }
  Error& error() noexcept { return error_; }
  void value() const {
    if (!*this) raise(error_);
  }

 private:
  Error error_;
};

// One reference to an object of the C ABI.
template <class C, void (*Release)(C*)>
class Handle {
 public:
  using Raw = C;
  Handle() noexcept = default;
  explicit Handle(C* owned) noexcept : raw_(owned) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    reset(std::exchange(other.raw_, nullptr));
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { Release(raw_); }

  explicit operator bool() const noexcept { return raw_ != nullptr; }
  C* get() const noexcept { return raw_; }                        // borrowed, for calls of the C headers
  C* release() noexcept { return std::exchange(raw_, nullptr); }  // the reference is the caller's now
  void reset(C* owned = nullptr) noexcept { Release(std::exchange(raw_, owned)); }
  C** slot() noexcept { return &raw_; }  // of an empty handle: where C writes a new one

 private:
  C* raw_ = nullptr;
};

// The structs of DLPack 1.x, for what crosses the border; the same bytes as in dlpack/dlpack.h.
namespace dlpack {
struct View {
  void* data;
  int32_t device_type, device_id, ndim;
  quire_dtype dtype;
  int64_t *shape, *strides;  // elements
  uint64_t byte_offset;
};
struct Managed {
  uint32_t major, minor;
  void* owner;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;  // 1: read-only
  View view;
};
static_assert(sizeof(View) == 48 && sizeof(Managed) == 80);
}  // namespace dlpack

namespace detail {
inline dlpack::Managed& managed(DLManagedTensorVersioned* raw) noexcept { return *reinterpret_cast<dlpack::Managed*>(raw); }
inline void delete_tensor(DLManagedTensorVersioned* ending) {
  if (ending != nullptr && managed(ending).deleter != nullptr) managed(ending).deleter(ending);
}
}  // namespace detail

// A DLPack tensor that is owned: its deleter runs when this is destroyed, unless it was given away with release().
class DlTensor : public Handle<DLManagedTensorVersioned, detail::delete_tensor> {
 public:
  using Handle::Handle;

  // A tensor over bytes of the caller: shape and strides (elements) of at most five axes are copied, `done` runs when nobody needs the
  // bytes any more, on whatever thread that is.
  static DlTensor over(void* data, quire_dtype dtype, std::span<const int64_t> shape, std::span<const int64_t> strides,
                       std::function<void()> done, bool read_only = false) {
    struct Owned {
      dlpack::Managed managed{};
      std::array<int64_t, 5> shape{}, strides{};
      std::function<void()> done;
    };
    auto* owned = new Owned;
    const size_t ndim = std::min({shape.size(), strides.size(), owned->shape.size()});
    std::copy_n(shape.begin(), ndim, owned->shape.begin());
    std::copy_n(strides.begin(), ndim, owned->strides.begin());
    owned->done = std::move(done);
    const auto deleter = [](Raw* self) {
      auto* ending = static_cast<Owned*>(reinterpret_cast<dlpack::Managed*>(self)->owner);
      if (ending->done) ending->done();
      delete ending;
    };
    owned->managed = {1,
                      0,
                      owned,
                      deleter,
                      read_only ? 1U : 0U,
                      {data, QUIRE_DEVICE_CPU, 0, static_cast<int32_t>(ndim), dtype, owned->shape.data(), owned->strides.data(), 0}};
    return DlTensor(reinterpret_cast<Raw*>(&owned->managed));
  }

  bool read_only() const noexcept { return (detail::managed(get()).flags & 1U) != 0; }
  const dlpack::View& view() const noexcept { return detail::managed(get()).view; }  // of a tensor that is there
  std::span<const int64_t> shape() const noexcept { return {view().shape, static_cast<size_t>(view().ndim)}; }
  std::span<const int64_t> strides() const noexcept { return {view().strides, static_cast<size_t>(view().ndim)}; }  // elements
  void* data() const noexcept { return static_cast<char*>(view().data) + view().byte_offset; }  // of element [0, 0, ...]
};

// In what follows Returned<T> is what a call of this unit returns.
inline namespace QUIRE_CPP_MODE {

#if defined(QUIRE_EXCEPTIONS)
template <class T>
using Returned = T;  // and Exception
#else
template <class T>
using Returned = Result<T>;
#endif

namespace detail {
template <class T>
Returned<T> finish(Result<T>&& result) {
#if defined(QUIRE_EXCEPTIONS)
  return std::move(result).value();
#else
  return std::move(result);
#endif
}
// Where C writes a value: handles have a slot, structs know their size.
template <class T>
auto slot(T& value) noexcept {
  if constexpr (requires { value.slot(); }) {
    return value.slot();
  } else {
    if constexpr (requires { value.struct_size; }) value = make<T>();
    return &value;
  }
}
// function(arguments..., error).
template <class F, class... A>
Returned<void> call(F function, A... arguments) {
  Result<void> result;
  function(arguments..., result.error().raw());
  return finish(std::move(result));
}
// function(arguments..., out, error).
template <class T, class F, class... A>
Returned<T> get(F function, A... arguments) {
  Result<T> result;
  function(arguments..., slot(*result), result.error().raw());
  return finish(std::move(result));
}
// Two-call arrays: function(arguments..., items, (stride,) capacity, count, error), into a vector.
template <class T, bool kStride, class F, class... A>
Returned<std::vector<T>> list(F function, A... arguments) {
  Result<std::vector<T>> result;
  for (uint64_t count = 0;;) {
    if constexpr (kStride) {
      function(arguments..., result->data(), sizeof(T), result->size(), &count, result.error().raw());
    } else {
      function(arguments..., result->data(), result->size(), &count, result.error().raw());
    }
    const bool short_of = result.code() == QUIRE_OUT_OF_RANGE || result.code() == QUIRE_OK;
    if (!short_of || count <= result->size()) {
      if (result) result->resize(static_cast<size_t>(count));
      return finish(std::move(result));
    }
    result->assign(static_cast<size_t>(count), make<T>());
  }
}
template <class F, class... A>
Returned<std::string> write(F function, A... arguments) {
  Result<std::string> result;
  for (uint64_t count = 0;;) {
    function(arguments..., result->empty() ? nullptr : result->data(), result->size(), &count, result.error().raw());
    const bool short_of = result.code() == QUIRE_OUT_OF_RANGE || result.code() == QUIRE_OK;
    if (!short_of || count <= result->size()) return finish(std::move(result));
    result->assign(static_cast<size_t>(count), '\0');
  }
}
}  // namespace detail

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
