// The typed signature of an extension op: result and parameters, read from text.
#pragma once

#include <quire/extension.h>

#include <array>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace quire {

inline constexpr uint32_t kMaxParameters = 16;

// A type of a signature: those of values, and what only signatures have.
enum class ValueType : int32_t {
  kVoid = QUIRE_VALUE_VOID,
  kI32 = QUIRE_VALUE_I32,
  kI64 = QUIRE_VALUE_I64,
  kU32 = QUIRE_VALUE_U32,
  kU64 = QUIRE_VALUE_U64,
  kF32 = QUIRE_VALUE_F32,
  kF64 = QUIRE_VALUE_F64,
  kPointer = QUIRE_VALUE_POINTER,
  kStr = QUIRE_VALUE_STR,
  kTensor = QUIRE_VALUE_TENSOR,
  kStream = QUIRE_VALUE_STREAM,
  kCode = 64,  // result: a status
  kSelf,       // parameter: the instance
  kError       // parameter: the error struct
};

// "i32", "stream", ...; "?" for numbers that are no type.
const char* type_word(ValueType type);

struct Signature {
  ValueType result = ValueType::kVoid;
  uint32_t num_parameters = 0;  // all of them
  std::array<ValueType, kMaxParameters> parameters{};
  bool has_self = false;   // the first parameter
  bool has_error = false;  // the last one

  uint32_t num_args() const { return num_parameters - (has_self ? 1 : 0) - (has_error ? 1 : 0); }
  // The i-th parameter that callers pass.
  ValueType arg(uint32_t i) const { return parameters[i + (has_self ? 1 : 0)]; }
};

// Errors: INVALID_ARGUMENT naming the word or the place that is wrong.
Result<Signature> parse_signature(std::string_view text);

// The value as one of type `wanted`, when that loses nothing; false otherwise. Types are compared, values are not.
inline bool widen(const quire_value& given, ValueType wanted, quire_value* out) {
  *out = given;
  out->type = static_cast<int32_t>(wanted);
  if (given.type == static_cast<int32_t>(wanted)) return true;
  if (given.type == QUIRE_VALUE_I32 && wanted == ValueType::kI64) {
    out->bits = static_cast<uint64_t>(int64_t{static_cast<int32_t>(static_cast<uint32_t>(given.bits))});
    return true;
  }
  if (given.type == QUIRE_VALUE_U32 && (wanted == ValueType::kU64 || wanted == ValueType::kI64)) {
    out->bits = given.bits & 0xffffffffU;
    return true;
  }
  if (given.type == QUIRE_VALUE_F32 && wanted == ValueType::kF64) {
    const double wide = __builtin_bit_cast(float, static_cast<uint32_t>(given.bits));
    out->bits = __builtin_bit_cast(uint64_t, wide);
    return true;
  }
  return false;
}

}  // namespace quire
