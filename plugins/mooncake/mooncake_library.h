// Mooncake's C library, loaded when a store is opened. Nothing of Mooncake is needed to build: its
// functions are declared here as their documentation describes them, and looked up by name. They
// are synchronous, and none can be given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugins/common/entry.h"

namespace quire::mooncake {

using plugins::Outcome;

// How often and where the store keeps a value. NULL in its place: once, anywhere.
struct Replication {
  size_t num_replicas;
  int is_soft_pinned;
  int is_hard_pinned;
  const char** preferred_segments;
  size_t num_preferred_segments;
};

// Answers below 0 are error codes; see answers.h. Keys are texts that end with a zero. Threads: any,
// at the same time, but for destroy.
struct Library {
  void* (*create)() = nullptr;
  void (*destroy)(void* store) = nullptr;
  int (*setup)(void* store, const char* host, const char* metadata, uint64_t segment_bytes, uint64_t local_buffer_bytes,
               const char* protocol, const char* device, const char* master) = nullptr;
  int (*register_buffer)(void* store, void* buffer, size_t bytes) = nullptr;
  // 0 also if the key exists; the value there stays.
  int (*put_from)(void* store, const char* key, void* buffer, size_t bytes, const Replication*) = nullptr;
  // The bytes of the value. A value that is longer than the buffer is an error.
  int64_t (*get_into)(void* store, const char* key, void* buffer, size_t bytes) = nullptr;
  int (*is_exist)(void* store, const char* key) = nullptr;
  // results[n]: 1, 0, or an error code of that key.
  int (*batch_is_exist)(void* store, const char** keys, size_t n, int* results) = nullptr;
  int64_t (*get_size)(void* store, const char* key) = nullptr;
  int (*remove)(void* store, const char* key, int force) = nullptr;
};

// The library is never unloaded: its threads may outlive a store. Errors: UNAVAILABLE (the file
// cannot be loaded), INCOMPATIBLE_ABI (a function is missing).
Outcome load_library(const std::string& name, Library* out);

}  // namespace quire::mooncake
