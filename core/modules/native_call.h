// A C function of any signature, called through libffi: the call is described once and then made often. Calls of many parameters are made
// directly where the machine's convention is known, because libffi places every argument anew each time.
#pragma once

#include <quire/extension.h>

#include <memory>

#include "core/base/status.h"
#include "core/modules/signature.h"

namespace quire {

class NativeCall {
 public:
  // Who places the arguments: libffi for few and DirectCall for many (what ops use), or one of them always (tests compare the two).
  enum class Way : uint8_t { kQuick, kLibffi, kDirect };
  // Errors: UNAVAILABLE (built without libffi, or it knows no such call).
  static Result<std::unique_ptr<NativeCall>> prepare(const Signature& signature, quire_native_fn function, Way way = Way::kQuick);
  ~NativeCall();
  NativeCall(const NativeCall&) = delete;
  NativeCall& operator=(const NativeCall&) = delete;

  // args: one per parameter that callers pass, of exactly its type. Returns the result's bits, widened to 64 as its type says.
  // Allocates nothing; any thread.
  uint64_t call(const quire_value* args, void* self, quire_error* error) const;

 private:
  struct Prepared;
  explicit NativeCall(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace quire
