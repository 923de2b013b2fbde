#include "core/modules/native_call.h"

#include <array>

#include "core/modules/direct_call.h"

// Wanted for native extension ops only; without it everything else works.
#if __has_include(<ffi.h>) && !defined(QUIRE_WITHOUT_FFI)
#include <ffi.h>
#define QUIRE_HAS_FFI 1
#else
#define QUIRE_HAS_FFI 0
#endif

namespace quire {

#if QUIRE_HAS_FFI

namespace {

ffi_type* ffi_type_of(ValueType type) {
  switch (type) {
    case ValueType::kVoid:
      return &ffi_type_void;
    case ValueType::kI32:
    case ValueType::kCode:
      return &ffi_type_sint32;
    case ValueType::kU32:
      return &ffi_type_uint32;
    case ValueType::kI64:
      return &ffi_type_sint64;
    case ValueType::kU64:
      return &ffi_type_uint64;
    case ValueType::kF32:
      return &ffi_type_float;
    case ValueType::kF64:
      return &ffi_type_double;
    default:
      return &ffi_type_pointer;
  }
}

// libffi sorts the arguments again at every call, 6 to 10 ns each: up to here it costs less than 70 ns.
constexpr uint32_t kFewParameters = 6;

// What a register holds, as 64 bits of the result's type.
uint64_t widen_result(ValueType type, uint64_t bits) {
  switch (type) {
    case ValueType::kVoid:
      return 0;
    case ValueType::kF32:
    case ValueType::kU32:
      return bits & 0xffffffffU;
    case ValueType::kI32:
    case ValueType::kCode:
      return static_cast<uint64_t>(int64_t{static_cast<int32_t>(static_cast<uint32_t>(bits))});
    default:
      return bits;
  }
}

}  // namespace

struct NativeCall::Prepared {
  Signature signature;
  quire_native_fn function = nullptr;
  bool direct = false;
  DirectCall placed;
  std::array<ffi_type*, kMaxParameters> types{};
  mutable ffi_cif call{};  // libffi takes it without const and does not write to it
};

Result<std::unique_ptr<NativeCall>> NativeCall::prepare(const Signature& signature, quire_native_fn function, Way way) {
  auto prepared = std::make_unique<Prepared>();
  prepared->signature = signature;
  prepared->function = function;
  prepared->direct = DirectCall::kKnown && (way == Way::kDirect || (way == Way::kQuick && signature.num_parameters > kFewParameters));
  prepared->placed = DirectCall(signature);
  for (uint32_t i = 0; i < signature.num_parameters; ++i) prepared->types[i] = ffi_type_of(signature.parameters[i]);
  const ffi_status status =
      ffi_prep_cif(&prepared->call, FFI_DEFAULT_ABI, signature.num_parameters, ffi_type_of(signature.result), prepared->types.data());
  if (status != FFI_OK) return fail(QUIRE_UNAVAILABLE, "libffi cannot make this call (ffi_prep_cif answered %d)", static_cast<int>(status));
  return std::unique_ptr<NativeCall>(new NativeCall(std::move(prepared)));
}

// Both machines that quire knows are little endian: the low bytes of a value are the narrower types.
uint64_t NativeCall::call(const quire_value* args, void* self, quire_error* error) const {
  const Signature& signature = prepared_->signature;
  std::array<uint64_t, kMaxParameters> values;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  uint32_t n = 0;
  if (signature.has_self) values[n++] = reinterpret_cast<uint64_t>(self);
  const uint32_t num_args = signature.num_args();
  for (uint32_t i = 0; i < num_args; ++i) values[n++] = args[i].bits;
  if (signature.has_error) values[n++] = reinterpret_cast<uint64_t>(error);
  if (prepared_->direct) return widen_result(signature.result, prepared_->placed.call(prepared_->function, values.data()));
  std::array<void*, kMaxParameters> addresses;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  for (uint32_t i = 0; i < n; ++i) addresses[i] = &values[i];
  static_assert(sizeof(ffi_arg) == sizeof(uint64_t));
  uint64_t result = 0;  // results narrower than a register arrive in a whole one
  ffi_call(&prepared_->call, prepared_->function, &result, addresses.data());
  return widen_result(signature.result, result);
}

#else

struct NativeCall::Prepared {};

Result<std::unique_ptr<NativeCall>> NativeCall::prepare(const Signature& /*signature*/, quire_native_fn /*function*/, Way /*way*/) {
  return fail(QUIRE_UNAVAILABLE, "this library was built without libffi, so native extension ops cannot be called");
}

uint64_t NativeCall::call(const quire_value* /*args*/, void* /*self*/, quire_error* /*error*/) const { return 0; }

#endif

NativeCall::NativeCall(std::unique_ptr<Prepared> prepared) : prepared_(std::move(prepared)) {}
NativeCall::~NativeCall() = default;

}  // namespace quire
