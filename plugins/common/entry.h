// What every entry of a connector's table needs: an outcome becomes a quire_error, no exception
// leaves the module, and a struct of the caller gets as much as it has room for. Drivers have a
// fail() of their own, for plugins do not see them.
#pragma once

#include <quire/base.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace quire::plugins {

// Why something could not be done.
struct Outcome {
  quire_code code = QUIRE_OK;
  int native = 0;    // errno; 0 = none
  std::string text;  // empty if code is OK
  bool ok() const { return code == QUIRE_OK; }
};

inline std::string error_text(int error) {
  const char* const text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

// Fills *err: code, source "connector:<name>", one line. Allocates nothing. Returns the code.
[[gnu::format(printf, 4, 5)]]  // as printf
inline quire_code
fail(quire_error* err, const char* name, quire_code code, const char* text, ...) {
  if (err == nullptr) return code;
  err->struct_size = sizeof *err;
  err->code = code;
  err->native_code = 0;
  err->native_domain = 0;
  std::snprintf(err->source, sizeof err->source, "connector:%s", name);
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(err->message, sizeof err->message, text, arguments);
  va_end(arguments);
  return code;
}

inline quire_code report(quire_error* err, const char* name, const Outcome& outcome) {
  constexpr int32_t kErrnoDomain = 1;
  if (outcome.ok()) return QUIRE_OK;
  fail(err, name, outcome.code, "%s", outcome.text.c_str());
  if (err != nullptr && outcome.native != 0) {
    err->native_code = outcome.native;
    err->native_domain = kErrnoDomain;
  }
  return outcome.code;
}

// Reports the outcome of call(), or what it threw.
template <typename Call>
quire_code guarded(quire_error* err, const char* name, Call call) {
  try {
    return report(err, name, call());
  } catch (const std::bad_alloc&) {
    return fail(err, name, QUIRE_RESOURCE_EXHAUSTED, "no host memory for the connector");
  } catch (const std::exception& error) {
    return fail(err, name, QUIRE_INTERNAL, "%s", error.what());
  }
}

template <typename Struct>
void give(Struct* to, Struct own) {
  own.struct_size = std::min<uint32_t>(to->struct_size, sizeof own);
  std::memcpy(to, &own, own.struct_size);
}

}  // namespace quire::plugins
