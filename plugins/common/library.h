// What every exported function of a library over libquire needs: libquire_zmq, libquire_exporter.
#pragma once

#include <quire/base.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "plugins/common/entry.h"

namespace quire::plugins {

inline Outcome invalid(const std::string& text) { return {QUIRE_INVALID_ARGUMENT, 0, text}; }

// Runs the body of an exported function. source: of errors, "library:zmq".
template <typename Body>
quire_code guarded_export(quire_error* err, const char* source, Body body) {
  if (err != nullptr && err->struct_size < sizeof *err) return QUIRE_INVALID_ARGUMENT;
  const quire_code code = guarded(err, "", [&]() -> Outcome {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return {QUIRE_RESOURCE_EXHAUSTED, 0, "no host memory"};  // so short that it needs none
    }
  });
  if (code != QUIRE_OK && err != nullptr) std::snprintf(err->source, sizeof err->source, "%s", source);
  return code;
}

// A descriptor of the caller, with zeroes where it is shorter. first_bytes: of the struct when it
// was new.
template <typename Struct>
Outcome read_descriptor(const Struct* from, const std::string& name, uint32_t first_bytes, Struct* to) {
  if (from == nullptr) return invalid(name + " is NULL");
  if (from->struct_size < first_bytes) {
    return invalid(name + ".struct_size is " + std::to_string(from->struct_size) + ", at least " + std::to_string(first_bytes));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (uint32_t i = sizeof(Struct); i < from->struct_size; ++i) {
    if (bytes[i] != 0) return {QUIRE_UNIMPLEMENTED, 0, name + ": byte " + std::to_string(i) + " is set, which this library does not know"};
  }
  *to = {};
  std::memcpy(to, from, std::min<size_t>(from->struct_size, sizeof(Struct)));
  to->struct_size = sizeof(Struct);
  return {};
}

// An info of the caller, as long as it knows it.
template <typename Struct>
Outcome write_info(const Struct& own, const char* name, Struct* to) {
  if (to == nullptr) return invalid(std::string(name) + " is NULL");
  if (to->struct_size < sizeof to->struct_size) return invalid(std::string(name) + ".struct_size is " + std::to_string(to->struct_size));
  const uint32_t bytes = std::min<uint32_t>(to->struct_size, sizeof own);
  std::memset(reinterpret_cast<char*>(to) + bytes, 0, to->struct_size - bytes);
  give(to, own);
  return {};
}

}  // namespace quire::plugins
