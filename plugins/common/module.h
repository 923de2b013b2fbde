// How a connector in C++ introduces itself to the library: its manifest, and the answer to the
// query for it.
#pragma once

#include <quire/connector.h>

#include <algorithm>
#include <string_view>

#include "plugins/common/entry.h"

namespace quire::plugins {

constexpr quire_manifest manifest_of(std::string_view name, const quire_connector_api* api) {
  quire_manifest manifest = {QUIRE_MODULE_MAGIC,
                             sizeof(quire_manifest),
                             QUIRE_MODULE_CONNECTOR,
                             QUIRE_CONNECTOR_ABI_VERSION,
                             "",
                             "0.2.0",
                             QUIRE_MODULE_SANITIZERS,
                             api,
                             nullptr};
  std::copy(name.begin(), name.end(), manifest.name);  // which is longer
  return manifest;
}

// Errors: INCOMPATIBLE_ABI.
inline quire_code answer(const quire_query& query, const quire_manifest& manifest,  //
                         const quire_manifest** out, quire_error* err) {
  if (query.abi_min > QUIRE_CONNECTOR_ABI_VERSION || query.abi_max < QUIRE_CONNECTOR_ABI_VERSION) {
    return fail(err, manifest.name, QUIRE_INCOMPATIBLE_ABI, "the %s connector implements connector ABI 0.%u only", manifest.name,
                QUIRE_CONNECTOR_ABI_VERSION & 0xffffU);
  }
  *out = &manifest;
  return QUIRE_OK;
}

}  // namespace quire::plugins
