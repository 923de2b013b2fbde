// Extension ops: the table a module publishes, checked when it is loaded, and one op ready to be called.
#pragma once

#include <quire/extension.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/modules/native_call.h"
#include "core/modules/signature.h"

namespace quire {

// An entry of a module's table. Texts lie in the module, which is never unloaded.
struct PublishedOp {
  std::string_view name;
  std::string_view signature_text;
  std::string_view doc;
  uint32_t version = 0;
  quire_native_fn native = nullptr;
  quire_packed_fn packed = nullptr;
  Signature signature;
};

// Reads a module's table; NULL has no ops. Errors: INCOMPATIBLE_ABI naming the entry and what is wrong with it.
Result<std::vector<PublishedOp>> read_op_table(const quire_extension_table* table);

// An op of an instance. `keeper` holds whatever owns `self`.
class Op {
 public:
  // form: QUIRE_EXTENSION_NATIVE, QUIRE_EXTENSION_PACKED, or 0. Errors: UNIMPLEMENTED (form), UNAVAILABLE.
  static Result<std::shared_ptr<Op>> make(const PublishedOp& op, uint32_t form, std::shared_ptr<const void> keeper, void* self,
                                          std::string source);

  const PublishedOp& published() const { return op_; }
  const Signature& signature() const { return op_.signature; }
  const char* source() const { return source_.c_str(); }  // "driver:cpu"
  // Whom streams among the arguments must belong to; null for connectors.
  const void* self() const { return self_; }
  // args: num_args() values of exactly the signature's types. result: not NULL, written on QUIRE_OK. Allocates nothing.
  quire_code call(const quire_value* args, quire_value* result, quire_error* error) const;

 private:
  Op() = default;

  PublishedOp op_;
  std::unique_ptr<NativeCall> native_;  // null: packed
  std::shared_ptr<const void> keeper_;
  void* self_ = nullptr;
  std::string source_;
};

}  // namespace quire
