#include "core/modules/direct_call.h"

namespace quire {
namespace {

bool is_float(ValueType type) { return type == ValueType::kF32 || type == ValueType::kF64; }

double as_double(uint64_t bits) { return __builtin_bit_cast(double, bits); }

using U = uint64_t;
using D = double;

// The widest function there is: a callee looks at the registers and slots that its own parameters have, and at no others; the caller takes
// the stack back. A float travels in the low half of its register or slot, which no instruction on the way changes.
template <typename R>
#if defined(__clang__)
[[clang::no_sanitize("function")]]
#endif
R call_widest(quire_native_fn function, const uint64_t* s) {
  using Widest = R (*)(U, U, U, U, U, U, D, D, D, D, D, D, D, D, U, U, U, U, U, U, U, U, U, U);
  return reinterpret_cast<Widest>(function)(s[0], s[1], s[2], s[3], s[4], s[5], as_double(s[6]), as_double(s[7]), as_double(s[8]),
                                            as_double(s[9]), as_double(s[10]), as_double(s[11]), as_double(s[12]), as_double(s[13]), s[14],
                                            s[15], s[16], s[17], s[18], s[19], s[20], s[21], s[22], s[23]);
}

}  // namespace

DirectCall::DirectCall(const Signature& signature) : num_parameters_(signature.num_parameters), result_(signature.result) {
  uint32_t integers = 0;
  uint32_t floats = kIntegers;
  uint32_t stack = kIntegers + kFloats;
  for (uint32_t i = 0; i < num_parameters_; ++i) {
    uint32_t* next = &stack;
    if (is_float(signature.parameters[i])) {
      if (floats < kIntegers + kFloats) next = &floats;
    } else if (integers < kIntegers) {
      next = &integers;
    }
    slots_[i] = static_cast<uint8_t>((*next)++);
  }
}

uint64_t DirectCall::call(quire_native_fn function, const uint64_t* values) const {
  std::array<uint64_t, kIntegers + kFloats + kStack> slots{};
  for (uint32_t i = 0; i < num_parameters_; ++i) slots[slots_[i]] = values[i];
  if (result_ == ValueType::kF32) return __builtin_bit_cast(uint32_t, call_widest<float>(function, slots.data()));
  if (result_ == ValueType::kF64) return __builtin_bit_cast(uint64_t, call_widest<double>(function, slots.data()));
  return call_widest<uint64_t>(function, slots.data());
}

}  // namespace quire
