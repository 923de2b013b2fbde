// quire/base.h, and quire_register_driver of quire/driver.h.
#include <quire/driver.h>

#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxTextBytes = 65536;

quire_str literal(const char* text) { return quire_str{text, std::strlen(text)}; }

}  // namespace

uint32_t quire_abi_version(void) { return QUIRE_ABI_VERSION; }

quire_str quire_version(void) { return literal(QUIRE_PACKAGE_VERSION); }

quire_str quire_code_name(quire_code code) {
  switch (code) {
    case QUIRE_OK:
      return literal("OK");
    case QUIRE_CANCELLED:
      return literal("CANCELLED");
    case QUIRE_INVALID_ARGUMENT:
      return literal("INVALID_ARGUMENT");
    case QUIRE_DEADLINE_EXCEEDED:
      return literal("DEADLINE_EXCEEDED");
    case QUIRE_NOT_FOUND:
      return literal("NOT_FOUND");
    case QUIRE_ALREADY_EXISTS:
      return literal("ALREADY_EXISTS");
    case QUIRE_PERMISSION_DENIED:
      return literal("PERMISSION_DENIED");
    case QUIRE_RESOURCE_EXHAUSTED:
      return literal("RESOURCE_EXHAUSTED");
    case QUIRE_FAILED_PRECONDITION:
      return literal("FAILED_PRECONDITION");
    case QUIRE_ABORTED:
      return literal("ABORTED");
    case QUIRE_OUT_OF_RANGE:
      return literal("OUT_OF_RANGE");
    case QUIRE_UNIMPLEMENTED:
      return literal("UNIMPLEMENTED");
    case QUIRE_INTERNAL:
      return literal("INTERNAL");
    case QUIRE_UNAVAILABLE:
      return literal("UNAVAILABLE");
    case QUIRE_DATA_LOSS:
      return literal("DATA_LOSS");
    case QUIRE_INCOMPATIBLE_ABI:
      return literal("INCOMPATIBLE_ABI");
    case QUIRE_NOT_READY:
      return literal("NOT_READY");
    case QUIRE_NOT_REPRESENTABLE:
      return literal("NOT_REPRESENTABLE");
    default:
      return literal("UNKNOWN");
  }
}

quire_code quire_runtime_create(const quire_runtime_options* options, quire_runtime** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    quire_runtime_options own{};
    own.struct_size = sizeof own;
    own.header_abi = QUIRE_ABI_VERSION;
    if (options != nullptr) QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
    QUIRE_RETURN_IF_ERROR(c_api::check_flags(own.flags, QUIRE_RUNTIME_NO_ENV | QUIRE_RUNTIME_TRUST_PATHS, "options.flags"));
    QUIRE_RETURN_IF_ERROR(c_api::check_zero(own.reserved0, "options.reserved0"));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(own.driver, "options.driver", kMaxTextBytes));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(own.driver_path, "options.driver_path", kMaxTextBytes));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(own.connector_path, "options.connector_path", kMaxTextBytes));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(own.cpus, "options.cpus", kMaxTextBytes));
    auto runtime = quire::Runtime::create(own);
    if (!runtime.ok()) return runtime.take_status();
    *out = new quire_runtime(std::move(*runtime));
    return {};
  });
}

quire_runtime* quire_runtime_retain(quire_runtime* runtime) { return c_api::retain(runtime); }

void quire_runtime_release(quire_runtime* runtime) { c_api::release(runtime); }

quire_code quire_runtime_probe(quire_runtime* runtime, quire_probe_info* items, uint64_t stride, uint64_t capacity, uint64_t* count,
                               quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(runtime, "runtime"));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    if (items != nullptr) QUIRE_RETURN_IF_ERROR(c_api::check_stride(stride, c_api::kFirstBytes<quire_probe_info>));
    const std::vector<quire_probe_info> reports = runtime->object->probe();
    return c_api::write_two_call_strided(std::span(reports), items, stride, capacity, count);
  });
}

quire_code quire_register_driver(quire_module_query_fn query, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    if (query == nullptr) return quire::invalid("query is NULL");
    return quire::register_module(quire::ModuleKind::kDriver, query);
  });
}
