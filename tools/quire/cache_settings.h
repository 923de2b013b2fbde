// The options of a command that set up a cache.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include <quire/cache.h>

namespace quire::tools {

// What the command line asks for; 0 and false are the library's defaults, except where said.
struct CacheSettings {
  uint32_t keep_states = QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION;  // not the library's default
  uint64_t checkpoint_interval = 0;
  uint64_t checkpoint_bytes = 0;  // 0: a quarter of the pool, which is not the library's default
  uint64_t window_interval = 0;
  bool two_states = false;  // false: states in place, which is not the library's default
  bool strict_lru = false;
};

void add_cache_settings(CLI::App* command, CacheSettings* settings);

// Without the limits of the cache, such as max_sequences. pool_bytes: of the shard with the largest
// pages; boundary_bytes: of one checkpoint, of which there is always room for two.
quire_cache_options options_of(const CacheSettings& settings, uint64_t pool_bytes, uint64_t boundary_bytes);

}  // namespace quire::tools
