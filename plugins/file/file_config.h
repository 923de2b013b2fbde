// The settings of a store, from its JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/common/entry.h"

namespace quire::file {

using plugins::Outcome;

struct Config {
  std::string directory;
  uint64_t quota = 0;  // bytes
  uint32_t depth = 0;  // reads and writes in flight
  bool direct = true;
  bool sync = true;
  bool read_only = false;
  // Of changes by other processes, where the kernel can tell them. No setting: for tests.
  bool is_told = true;
};

Outcome read_config(std::string_view json, Config* out);

}  // namespace quire::file
