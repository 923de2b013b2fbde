#include "core/modules/op_registry.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace quire {
namespace {

constexpr uint64_t kMaxOps = 1024;
constexpr uint64_t kMaxNameBytes = 63;
constexpr uint64_t kMaxTextBytes = 1024;
constexpr uint32_t kFirstEntryBytes = 72;
constexpr uint32_t kFirstTableBytes = 24;

bool is_op_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  });
}

bool is_text(quire_str text) { return text.len <= kMaxTextBytes && (text.data != nullptr || text.len == 0); }

std::string_view view(quire_str text) { return {text.data, text.len}; }

Status refuse(uint64_t index, const std::string& what) {
  return fail(QUIRE_INCOMPATIBLE_ABI, "ops[%llu]: %s", static_cast<unsigned long long>(index), what.c_str());
}

Result<PublishedOp> read_entry(const unsigned char* at, uint64_t index) {
  quire_extension_entry entry{};
  std::memcpy(&entry.struct_size, at, sizeof entry.struct_size);
  if (entry.struct_size < kFirstEntryBytes) return refuse(index, "struct_size " + std::to_string(entry.struct_size) + " is too small");
  std::memcpy(&entry, at, std::min<size_t>(entry.struct_size, sizeof entry));
  if (!is_text(entry.name) || !is_op_name(view(entry.name))) return refuse(index, "its name is not of the form [a-z0-9_.-]{1,63}");
  const std::string name(view(entry.name));
  if (entry.version == 0) return refuse(index, "op '" + name + "' has version 0");
  if (!is_text(entry.signature) || !is_text(entry.doc))
    return refuse(index, "a text of op '" + name + "' is absent or longer than 1024 bytes");
  if (entry.native == nullptr && entry.packed == nullptr) return refuse(index, "op '" + name + "' has no function");
  auto signature = parse_signature(view(entry.signature));
  if (!signature.ok()) return refuse(index, "signature of op '" + name + "': " + signature.status().message());
  return PublishedOp{view(entry.name), view(entry.signature), view(entry.doc), entry.version, entry.native, entry.packed, *signature};
}

}  // namespace

Result<std::vector<PublishedOp>> read_op_table(const quire_extension_table* table) {
  std::vector<PublishedOp> ops;
  if (table == nullptr) return ops;
  const uint32_t stride = table->struct_size < kFirstTableBytes ? 0 : table->stride;
  if (stride < kFirstEntryBytes || stride > 4096 || stride % 8 != 0) {
    return fail(QUIRE_INCOMPATIBLE_ABI,
                "ops: struct_size %u and stride %u; a table has %u bytes or more, entries a multiple of 8 from %u on", table->struct_size,
                stride, kFirstTableBytes, kFirstEntryBytes);
  }
  if (table->count > kMaxOps || (table->items == nullptr && table->count != 0)) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "ops: count %llu, the limit is %llu, and items must not be NULL",
                static_cast<unsigned long long>(table->count), static_cast<unsigned long long>(kMaxOps));
  }
  for (uint64_t i = 0; i < table->count; ++i) {
    auto op = read_entry(reinterpret_cast<const unsigned char*>(table->items) + i * stride, i);
    if (!op.ok()) return op.take_status();
    for (const PublishedOp& earlier : ops) {
      if (earlier.name == op->name) return refuse(i, "the name '" + std::string(op->name) + "' is taken by an earlier op");
    }
    ops.push_back(*op);
  }
  return ops;
}

Result<std::shared_ptr<Op>> Op::make(const PublishedOp& published, uint32_t form, std::shared_ptr<const void> keeper, void* self,
                                     std::string source) {
  const bool packed = form == 0 ? published.packed != nullptr : form == QUIRE_EXTENSION_PACKED;
  if (packed ? published.packed == nullptr : published.native == nullptr) {
    return fail(QUIRE_UNIMPLEMENTED, "op '%s' has no %s form", std::string(published.name).c_str(), packed ? "packed" : "native");
  }
  std::shared_ptr<Op> op(new Op);
  op->op_ = published;
  op->keeper_ = std::move(keeper);
  op->self_ = self;
  op->source_ = std::move(source);
  if (packed) return op;
  auto native = NativeCall::prepare(published.signature, published.native);
  if (!native.ok()) return native.take_status();
  op->native_ = std::move(*native);
  return op;
}

quire_code Op::call(const quire_value* args, quire_value* result, quire_error* error) const {
  const Signature& own = op_.signature;
  const bool status = own.result == ValueType::kCode;
  *result = {static_cast<int32_t>(status ? ValueType::kVoid : own.result), 0, 0};
  if (native_ == nullptr) return op_.packed(self_, args, own.num_args(), result, error);
  const uint64_t bits = native_->call(args, self_, error);
  if (status) return static_cast<quire_code>(static_cast<int64_t>(bits));
  result->bits = bits;
  return QUIRE_OK;
}

}  // namespace quire
