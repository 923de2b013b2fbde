// The options of a command that set up a cache.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include <quire/cache.h>

namespace quire::tools {

// What the command line asks for; 0 and false are the library's defaults, except where said.
struct CacheSettings {
  uint32_t keep_states = 0;
  uint64_t checkpoint_interval = 0;
  uint64_t checkpoint_bytes = 0;
  bool two_states = false;  // false: states in place, which is not the library's default
  bool strict_lru = false;
};

void add_cache_settings(CLI::App* command, CacheSettings* settings);

// Without the limits of the cache, such as max_sequences.
quire_cache_options options_of(const CacheSettings& settings);

}  // namespace quire::tools
