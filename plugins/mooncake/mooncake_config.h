// The settings of a store, from its JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/common/entry.h"

namespace quire::mooncake {

using plugins::Outcome;

struct Config {
  std::string library;   // Mooncake's C library: a name, or a path
  std::string master;    // host:port
  std::string metadata;  // as Mooncake names it: a URL, or P2PHANDSHAKE
  std::string host;      // under which other processes reach this one
  std::string protocol;
  std::string device;
  std::string prefix;          // of every key
  uint64_t segment_bytes = 0;  // memory that this process gives to the store
  uint64_t object_bytes = 0;   // of the largest object
  uint32_t threads = 1;        // each in at most one call of the library
  uint32_t buffers = 1;        // of staging, each for one object; at least one for each thread
  uint32_t replicas = 1;       // of an object
  int64_t lease_ns = 0;        // what the master grants; 0: no lease is promised
  int64_t timeout_ns = 0;      // of a call; then its ticket ends
  int64_t connect_timeout_ns = 0;
};

// Errors: INVALID_ARGUMENT.
Outcome read_config(std::string_view json, Config* out);

}  // namespace quire::mooncake
