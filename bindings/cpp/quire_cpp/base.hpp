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
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// One name for each way in which a unit may be compiled: what differs by it lives in an inline namespace of that name, so that units of
// different kinds make one program.
#if defined(QUIRE_EXCEPTIONS) && defined(__cpp_exceptions)
#define QUIRE_CPP_MODE throwing
#elif defined(QUIRE_EXCEPTIONS)
#define QUIRE_CPP_MODE throwing_aborts
#elif defined(__cpp_exceptions)
#define QUIRE_CPP_MODE results
#else
#define QUIRE_CPP_MODE results_abort
#endif

namespace quire {

// A text as the C headers pass it, borrowed.
inline quire_str text(std::string_view from) noexcept { return {from.data(), from.size()}; }
// The other way round.
inline std::string_view view(quire_str from) noexcept { return {from.data, from.data == nullptr ? 0 : static_cast<size_t>(from.len)}; }
// Version of the library at run time, and its name for a code.
inline std::string_view version() noexcept { return view(quire_version()); }
inline std::string_view code_name(quire_code code) noexcept { return view(quire_code_name(code)); }
// Why an entry of reserve was refused, as a sentence.
inline std::string_view refusal_text(quire_refusal reason) noexcept { return view(quire_refusal_text(reason)); }

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

inline namespace QUIRE_CPP_MODE {

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

}  // namespace QUIRE_CPP_MODE

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

// The structs of DLPack 1.x and 0.x, for what crosses the border; the same bytes as in dlpack/dlpack.h.
namespace dlpack {
struct View {
  void* data;
  int32_t device_type, device_id, ndim;
  quire_dtype dtype;
  int64_t *shape, *strides;  // elements; strides NULL = dense, row-major
  uint64_t byte_offset;
};
struct Managed {
  uint32_t major, minor;
  void* owner;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;  // 1: read-only
  View view;
};
struct ManagedLegacy {
  View view;
  void* owner;
  void (*deleter)(DLManagedTensor*);
};
static_assert(sizeof(View) == 48 && sizeof(Managed) == 80 && sizeof(ManagedLegacy) == 64);

inline Managed& managed(DLManagedTensorVersioned* raw) noexcept { return *reinterpret_cast<Managed*>(raw); }
inline ManagedLegacy& managed(DLManagedTensor* raw) noexcept { return *reinterpret_cast<ManagedLegacy*>(raw); }
template <class Raw>
void delete_tensor(Raw* ending) {
  if (ending != nullptr && managed(ending).deleter != nullptr) managed(ending).deleter(ending);
}

// What a tensor over bytes of the caller owns.
inline namespace QUIRE_CPP_MODE {
template <class Raw>
struct Lent {
  std::remove_reference_t<decltype(managed(std::declval<Raw*>()))> managed_tensor{};
  int64_t* extents = nullptr;  // shape, then strides
  std::function<void()> done;

  Lent() = default;
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { delete[] extents; }
  static void end(Raw* self) {
    auto* ending = static_cast<Lent*>(managed(self).owner);
#if defined(__cpp_exceptions)
    try {
      if (ending->done) ending->done();
    } catch (...) {  // nobody could catch it: the caller is C
    }
#else
    if (ending->done) ending->done();
#endif
    delete ending;
  }
};
}  // namespace QUIRE_CPP_MODE
}  // namespace dlpack

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

// A DLPack tensor that is owned: its deleter runs when this is destroyed, unless it was given away with release().
template <class T>
class BasicDlTensor : public Handle<T, dlpack::delete_tensor<T>> {
 public:
  using Handle<T, dlpack::delete_tensor<T>>::Handle;
  using Handle<T, dlpack::delete_tensor<T>>::get;

  // A tensor over bytes of the caller: shape and strides (elements; none = dense, row-major) are copied, `done` runs when nobody needs the
  // bytes any more, on whatever thread that is. DLPack 0.x cannot say read_only. Errors: INVALID_ARGUMENT (strides of another number than
  // axes, read_only), OUT_OF_RANGE, RESOURCE_EXHAUSTED; `done` does not run then. quire takes at most five axes.
  static Returned<BasicDlTensor> over(void* data, quire_dtype dtype, std::span<const int64_t> shape, std::span<const int64_t> strides,
                                      std::function<void()> done, bool read_only = false) {
    const auto refuse = [](quire_code code, const char* why) { return detail::finish(Result<BasicDlTensor>(Error(code, why))); };
    constexpr bool kLegacy = std::is_same_v<T, DLManagedTensor>;
    if (kLegacy && read_only) return refuse(QUIRE_INVALID_ARGUMENT, "read_only: a tensor of DLPack 0.x cannot say so");
    if (!strides.empty() && strides.size() != shape.size()) {
      return refuse(QUIRE_INVALID_ARGUMENT, "strides: another number than axes of shape");
    }
    if (shape.size() > 64) return refuse(QUIRE_OUT_OF_RANGE, "shape: more than 64 axes");
    int64_t elements = 1;  // axes without elements count as one: dense strides are products of the others
    for (const int64_t extent : shape) {
      if (extent < 0) return refuse(QUIRE_OUT_OF_RANGE, "shape: an extent below 0");
      if (extent > 1 && elements > INT64_MAX / extent) return refuse(QUIRE_OUT_OF_RANGE, "shape: more than 2^63 - 1 elements");
      elements *= extent > 1 ? extent : 1;
    }
    auto* lent = new (std::nothrow) dlpack::Lent<T>;
    if (lent != nullptr) lent->extents = new (std::nothrow) int64_t[2 * shape.size() + 1];
    if (lent == nullptr || lent->extents == nullptr) {
      delete lent;
      return refuse(QUIRE_RESOURCE_EXHAUSTED, "no host memory for a tensor");
    }
    const size_t ndim = shape.size();
    int64_t* const steps = lent->extents + ndim;
    std::copy(shape.begin(), shape.end(), lent->extents);
    std::copy(strides.begin(), strides.end(), steps);
    for (size_t i = ndim; strides.empty() && i-- > 0;) {
      const int64_t extent = i + 1 < ndim && shape[i + 1] > 1 ? shape[i + 1] : 1;
      const int64_t inner = i + 1 < ndim ? steps[i + 1] : 1;
      steps[i] = inner * extent;
    }
    done.swap(lent->done);
    auto& managed = lent->managed_tensor;
    managed.owner = lent;
    managed.deleter = dlpack::Lent<T>::end;
    managed.view = {data, QUIRE_DEVICE_CPU, 0, static_cast<int32_t>(ndim), dtype, lent->extents, steps, 0};
    if constexpr (!kLegacy) {
      managed.major = 1;
      managed.flags = read_only ? 1U : 0U;
    }
    return detail::finish(Result<BasicDlTensor>(BasicDlTensor(reinterpret_cast<T*>(&managed))));
  }

  bool read_only() const noexcept {
    if constexpr (std::is_same_v<T, DLManagedTensor>) {
      return false;
    } else {
      return get() != nullptr && (dlpack::managed(get()).flags & 1U) != 0;
    }
  }
  // Of an empty one: no data, no axes.
  const dlpack::View& view() const noexcept {
    static const dlpack::View nothing{};
    return get() == nullptr ? nothing : dlpack::managed(get()).view;
  }
  std::span<const int64_t> shape() const noexcept { return extents(view().shape); }
  std::span<const int64_t> strides() const noexcept { return extents(view().strides); }  // elements; none = dense, row-major
  void* data() const noexcept {                                                          // of element [0, 0, ...]
    return view().data == nullptr ? nullptr : static_cast<char*>(view().data) + view().byte_offset;
  }

 private:
  std::span<const int64_t> extents(const int64_t* from) const noexcept {
    if (from == nullptr || view().ndim < 0) return {};
    return {from, static_cast<size_t>(view().ndim)};
  }
};
using DlTensor = BasicDlTensor<DLManagedTensorVersioned>;  // DLPack 1.x
using LegacyDlTensor = BasicDlTensor<DLManagedTensor>;     // DLPack 0.x

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
