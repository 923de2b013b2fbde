// How the bytes of one plan relate to those of another: raw copies, runs, conversion, or nothing.
#pragma once

#include <string>

#include "core/plan/cache_config.h"

namespace quire {

struct Compatibility {
  quire_compat_level level = QUIRE_COMPAT_IDENTICAL;
  std::string reason;  // what keeps it from the level above: layer, field, both values
};

// Both may have any number of pages and shards. Pure.
Compatibility compare(const Config& a, const Config& b);

}  // namespace quire
