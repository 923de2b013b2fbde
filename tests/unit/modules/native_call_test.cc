// Calls of native functions. Method: random signatures; libffi makes a function of each at run time that writes down what arrives, and it
// is called through libffi and directly with the same arguments.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/modules/direct_call.h"
#include "core/modules/native_call.h"

#if defined(QUIRE_FFI)
#include <ffi.h>

namespace quire {
namespace {

ffi_type* type_of(ValueType type) {
  if (type == ValueType::kVoid) return &ffi_type_void;
  if (type == ValueType::kI32 || type == ValueType::kCode) return &ffi_type_sint32;
  if (type == ValueType::kU32) return &ffi_type_uint32;
  if (type == ValueType::kF32) return &ffi_type_float;
  if (type == ValueType::kF64) return &ffi_type_double;
  return type == ValueType::kI64 ? &ffi_type_sint64 : type == ValueType::kU64 ? &ffi_type_uint64 : &ffi_type_pointer;
}

bool is_narrow(ValueType type) {
  return type == ValueType::kI32 || type == ValueType::kU32 || type == ValueType::kF32 || type == ValueType::kCode;
}

// What a function was called with, and what it answers.
struct Heard {
  const Signature* signature = nullptr;
  std::vector<uint64_t> bits;
  uint64_t answer = 0;
};

void hear(ffi_cif* /*call*/, void* result, void** args, void* user) {
  auto* heard = static_cast<Heard*>(user);
  heard->bits.clear();
  for (uint32_t i = 0; i < heard->signature->num_parameters; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, args[i], is_narrow(heard->signature->parameters[i]) ? 4 : 8);
    heard->bits.push_back(bits);
  }
  const ValueType type = heard->signature->result;
  if (type == ValueType::kF32) {
    std::memcpy(result, &heard->answer, 4);
  } else if (type != ValueType::kVoid) {
    std::memcpy(result, &heard->answer, 8);
  }
}

// A function of this signature. made() is false where the system forbids memory that is written and run.
class Made {
 public:
  explicit Made(const Signature& signature) {
    heard.signature = &signature;
    for (uint32_t i = 0; i < signature.num_parameters; ++i) types_.push_back(type_of(signature.parameters[i]));
    closure_ = static_cast<ffi_closure*>(ffi_closure_alloc(sizeof(ffi_closure), &code_));
    if (closure_ == nullptr) return;
    made_ = ffi_prep_cif(&call_, FFI_DEFAULT_ABI, signature.num_parameters, type_of(signature.result), types_.data()) == FFI_OK &&
            ffi_prep_closure_loc(closure_, &call_, hear, &heard, code_) == FFI_OK;
  }
  ~Made() {
    if (closure_ != nullptr) ffi_closure_free(closure_);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  bool made() const { return made_; }
  quire_native_fn function() const { return reinterpret_cast<quire_native_fn>(code_); }

  Heard heard;

 private:
  std::vector<ffi_type*> types_;
  ffi_cif call_{};
  ffi_closure* closure_ = nullptr;
  void* code_ = nullptr;
  bool made_ = false;
};

Signature random_signature(std::mt19937_64& random) {
  static const ValueType kResults[] = {ValueType::kVoid, ValueType::kI32, ValueType::kI64,     ValueType::kU32, ValueType::kU64,
                                       ValueType::kF32,  ValueType::kF64, ValueType::kPointer, ValueType::kCode};
  static const ValueType kTypes[] = {ValueType::kI32, ValueType::kI64, ValueType::kU32,     ValueType::kU64, ValueType::kF32,
                                     ValueType::kF64, ValueType::kF32, ValueType::kPointer, ValueType::kStr, ValueType::kF64};
  Signature signature;
  signature.result = kResults[random() % std::size(kResults)];
  signature.num_parameters = static_cast<uint32_t>(random() % (kMaxParameters + 1));
  // From integers alone to floats alone.
  const uint64_t floats = random() % 5;
  for (uint32_t i = 0; i < signature.num_parameters; ++i) {
    ValueType type = kTypes[random() % std::size(kTypes)];
    if (floats == 0 && (type == ValueType::kF32 || type == ValueType::kF64)) type = ValueType::kU64;
    if (floats == 1) type = random() % 2 == 0 ? ValueType::kF32 : ValueType::kF64;
    signature.parameters[i] = type;
  }
  signature.has_self = signature.num_parameters > 0 && random() % 4 == 0;
  signature.has_error = signature.num_parameters > 1 && random() % 4 == 0;
  if (signature.has_self) signature.parameters[0] = ValueType::kSelf;
  if (signature.has_error) signature.parameters[signature.num_parameters - 1] = ValueType::kError;
  return signature;
}

std::string text_of(const Signature& signature) {
  std::string text = std::string(type_word(signature.result)) + "(";
  for (uint32_t i = 0; i < signature.num_parameters; ++i) text += std::string(i == 0 ? "" : ",") + type_word(signature.parameters[i]);
  return text + ")";
}

uint64_t low_half(ValueType type, uint64_t bits) { return is_narrow(type) ? bits & 0xffffffffU : bits; }

// The result as a quire_value has it.
uint64_t widened(ValueType type, uint64_t bits) {
  if (type == ValueType::kVoid) return 0;
  if (type != ValueType::kI32 && type != ValueType::kCode) return low_half(type, bits);
  return static_cast<uint64_t>(int64_t{static_cast<int32_t>(static_cast<uint32_t>(bits))});
}

void expect_same(const Signature& signature, Made* made, NativeCall::Way way, const std::vector<quire_value>& args, uint64_t answer) {
  auto call = NativeCall::prepare(signature, made->function(), way);
  ASSERT_TRUE(call.ok()) << call.status().message();
  int instance = 0;
  quire_error error{};
  made->heard.answer = answer;
  EXPECT_EQ((*call)->call(args.data(), &instance, &error), widened(signature.result, answer));
  ASSERT_EQ(made->heard.bits.size(), signature.num_parameters);
  std::vector<uint64_t> wanted;
  if (signature.has_self) wanted.push_back(reinterpret_cast<uint64_t>(&instance));
  for (uint32_t i = 0; i < signature.num_args(); ++i) wanted.push_back(low_half(signature.arg(i), args[i].bits));
  if (signature.has_error) wanted.push_back(reinterpret_cast<uint64_t>(&error));
  EXPECT_EQ(made->heard.bits, wanted);
}

TEST(NativeCall, ArgumentsAndResultsArriveThroughLibffiAndDirectly) {
  const char* given = std::getenv("QUIRE_SEED");  // NOLINT(concurrency-mt-unsafe)
  const uint64_t seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  std::mt19937_64 random(seed);
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  int direct = 0;
  for (int round = 0; round < 3000; ++round) {
    const Signature signature = random_signature(random);
    SCOPED_TRACE(text_of(signature));
    Made made(signature);
    if (!made.made()) GTEST_SKIP() << "this system lets no memory be written and run, so functions cannot be made here";
    std::vector<quire_value> args(signature.num_args());
    // Upper halves of narrow arguments are noise, too: nobody may look at them.
    for (uint32_t i = 0; i < signature.num_args(); ++i) args[i] = {static_cast<int32_t>(signature.arg(i)), 0, random()};
    const uint64_t answer = random();
    for (const NativeCall::Way way : {NativeCall::Way::kQuick, NativeCall::Way::kLibffi, NativeCall::Way::kDirect}) {
      if (way == NativeCall::Way::kDirect && !DirectCall::kKnown) continue;
      direct += way == NativeCall::Way::kDirect ? 1 : 0;
      expect_same(signature, &made, way, args, answer);
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(direct, DirectCall::kKnown ? 3000 : 0);
}

}  // namespace
}  // namespace quire
#endif
