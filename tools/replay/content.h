// What the requests of a trace have in common: their tokens in units, as a tree. Equal units behind
// equal prefixes are one node.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/trace.h"

namespace quire::replay {

struct Content {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t unit_tokens = 0;
  // Per request the nodes of its complete units, those that it generates included. The last token
  // that is generated is never computed, so it is in none.
  std::vector<std::vector<uint32_t>> paths;
  std::vector<uint32_t> parents;  // by node; kNone = none

  uint32_t nodes() const { return static_cast<uint32_t>(parents.size()); }
};

// max_output: tokens generated per request at most.
Content content_of(const std::vector<Request>& trace, uint32_t unit_tokens, uint64_t max_output);

}  // namespace quire::replay
