// quire/extension.h. A call passes types and arity here; the rest is the module's.
#include <quire/driver.h>

#include <array>
#include <cinttypes>

#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;
using quire::ValueType;

namespace {

constexpr uint64_t kMaxNameBytes = 4096;

quire_str text_of(std::string_view text) { return {text.data(), text.size()}; }

quire_extension_info info_of(const quire::PublishedOp& op) {
  quire_extension_info info{};
  info.struct_size = sizeof info;
  info.version = op.version;
  info.name = text_of(op.name);
  info.signature = text_of(op.signature_text);
  info.doc = text_of(op.doc);
  info.flags = (op.native != nullptr ? QUIRE_EXTENSION_NATIVE : 0) | (op.packed != nullptr ? QUIRE_EXTENSION_PACKED : 0);
  info.num_args = op.signature.num_args();
  return info;
}

Status check_runtime(const quire_runtime* runtime, quire_str connector) {
  QUIRE_RETURN_IF_ERROR(c_api::check_handle(runtime, "runtime"));
  return c_api::check_text(connector, "connector", kMaxNameBytes);
}

Status mismatch(uint64_t i, const quire_value& given, ValueType wanted) {
  return quire::invalid("args[%" PRIu64 "].type is %d (%s), the signature wants %s", i, given.type,
                        quire::type_word(static_cast<ValueType>(given.type)), quire::type_word(wanted));
}

// The driver's own stream instead of the handle.
Status unwrap_stream(const quire::Op& op, uint64_t i, quire_value* value) {
  const auto* stream = reinterpret_cast<const quire_stream*>(value->bits);
  const std::string name = "args[" + std::to_string(i) + "]";
  QUIRE_RETURN_IF_ERROR(c_api::check_handle(stream, name.c_str()));
  if (stream->object->device().driver().instance() != op.self()) return quire::invalid("%s is a stream of another driver", name.c_str());
  value->bits = reinterpret_cast<uint64_t>(stream->object->get());
  return {};
}

// Streams and addresses that must be there.
Status check_address(const quire::Op& op, uint64_t i, ValueType type, quire_value* value) {
  if (type == ValueType::kStream) return unwrap_stream(op, i, value);
  if (value->bits == 0) return quire::invalid("args[%" PRIu64 "] is a NULL %s", i, quire::type_word(type));
  if (type == ValueType::kTensor) return c_api::check_tensor(*reinterpret_cast<const quire_tensor*>(value->bits), "args[] tensor");
  return c_api::check_text(*reinterpret_cast<const quire_str*>(value->bits), "args[] str", UINT64_MAX);
}

Status read_args(const quire::Op& op, const quire_value* args, uint64_t n, quire_value* own) {
  const quire::Signature& signature = op.signature();
  if (n != signature.num_args()) {
    return quire::invalid("n is %" PRIu64 ", op '%s' takes %u (%s)", n, std::string(op.published().name).c_str(), signature.num_args(),
                          std::string(op.published().signature_text).c_str());
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_array(args, n, "args"));
  for (uint64_t i = 0; i < n; ++i) {
    const ValueType type = signature.arg(static_cast<uint32_t>(i));
    if (args[i].reserved0 != 0) return quire::invalid("args[%" PRIu64 "].reserved0 is %u, it must be 0", i, args[i].reserved0);
    if (!quire::widen(args[i], type, &own[i])) return mismatch(i, args[i], type);
    if (type >= ValueType::kStr) QUIRE_RETURN_IF_ERROR(check_address(op, i, type, &own[i]));
  }
  return {};
}

}  // namespace

quire_code quire_extension_list(quire_runtime* runtime, quire_str connector, quire_extension_info* items, uint64_t stride,
                                uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(check_runtime(runtime, connector));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    if (items != nullptr) QUIRE_RETURN_IF_ERROR(c_api::check_stride(stride, c_api::kFirstBytes<quire_extension_info>));
    auto ops = runtime->object->ops(std::string(c_api::text_of(connector)));
    if (!ops.ok()) return ops.take_status();
    std::vector<quire_extension_info> infos;
    for (const quire::PublishedOp& op : *ops) infos.push_back(info_of(op));
    return c_api::write_two_call_strided(std::span<const quire_extension_info>(infos), items, stride, capacity, count);
  });
}

quire_code quire_extension_find(quire_runtime* runtime, quire_str connector, quire_str name, uint32_t min_version, uint32_t form,
                                quire_extension** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(check_runtime(runtime, connector));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(name, "name", kMaxNameBytes));
    if (name.len == 0) return quire::invalid("name is empty");
    if (form > QUIRE_EXTENSION_PACKED) return quire::invalid("form is %u: QUIRE_EXTENSION_NATIVE, QUIRE_EXTENSION_PACKED or 0", form);
    auto op = runtime->object->op(std::string(c_api::text_of(connector)), c_api::text_of(name), min_version, form);
    if (!op.ok()) return op.take_status();
    *out = new quire_extension(std::move(*op));
    return {};
  });
}

quire_extension* quire_extension_retain(quire_extension* op) { return c_api::retain(op); }

void quire_extension_release(quire_extension* op) { c_api::release(op); }

quire_code quire_extension_get_info(quire_extension* op, quire_extension_info* info, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(op, "op"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    c_api::write_info(info, info_of(op->object->published()));
    return {};
  });
}

quire_code quire_extension_call(quire_extension* op, const quire_value* args, uint64_t n, quire_value* result, quire_error* err) {
  return c_api::guard_code(err, [&]() -> quire_code {
    Status status = c_api::check_handle(op, "op");
    std::array<quire_value, quire::kMaxParameters> own;
    if (status.ok()) status = read_args(*op->object, args, n, own.data());
    if (!status.ok()) return status.write_to(err, c_api::kSource);
    // The op writes into a whole, empty struct, whatever the caller has.
    quire_error spare;
    quire_error* theirs = err != nullptr && err->struct_size >= sizeof(quire_error) ? err : &spare;
    theirs->struct_size = sizeof spare;
    theirs->message[0] = '\0';
    theirs->native_code = 0;
    theirs->native_domain = 0;
    quire_value value{};
    const quire_code code = op->object->call(own.data(), &value, theirs);
    if (code == QUIRE_OK && result != nullptr) *result = value;
    return quire::finish_module_call(code, theirs, *op->object);
  });
}
