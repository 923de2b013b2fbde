// Fills quire_error in a connector: code, source "connector:<name>", one line. Allocates nothing.
#pragma once

#include <quire/base.h>

#include <cstdarg>
#include <cstdio>

namespace quire::plugins {

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

}  // namespace quire::plugins
