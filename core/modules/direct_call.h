// A C function of any signature, called without libffi: where every argument goes is settled once, by the rules of the machine's calling
// convention (System V on x86-64: integers and addresses in six registers, floats in eight, the rest on the stack in order).
#pragma once

#include <quire/extension.h>

#include <array>

#include "core/modules/signature.h"

namespace quire {

class DirectCall {
 public:
#if defined(__x86_64__) && defined(__ELF__)
  static constexpr bool kKnown = true;  // this machine's convention
#else
  static constexpr bool kKnown = false;
#endif

  DirectCall() = default;
  explicit DirectCall(const Signature& signature);

  // values: one per parameter of the signature, narrow types in the low bits. Returns the register of the result as it is.
  uint64_t call(quire_native_fn function, const uint64_t* values) const;

 private:
  static constexpr uint32_t kIntegers = 6;  // slots 0 to 5: registers of integers and addresses
  static constexpr uint32_t kFloats = 8;    // slots 6 to 13: registers of floats
  static constexpr uint32_t kStack = 10;    // slots 14 to 23: of 16 parameters, no more can be left
  static_assert(kMaxParameters - kIntegers <= kStack && kMaxParameters - kFloats <= kStack);

  std::array<uint8_t, kMaxParameters> slots_{};
  uint32_t num_parameters_ = 0;
  ValueType result_ = ValueType::kVoid;
};

}  // namespace quire
