// fleet_layout.h: what a router has to know of the caches: how prompts are cut into blocks, and how
// the blocks are named. All engines of a fleet have the same.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fleet {

// Layers that share blocks.
struct Group {
  uint64_t block_tokens = 0;
  bool is_state = false;     // one state of a recurrent layer stands for all tokens before it
  uint64_t window = 0;       // tokens of a sliding window, 0 = none
  uint64_t chunk = 0;        // tokens of chunked attention, 0 = none
  uint64_t sink_tokens = 0;  // at the beginning, always needed

  // The first token, after the sinks, that computing token p needs.
  uint64_t tail_begin(uint64_t p) const;
  bool needs_everything() const { return !is_state && window == 0 && chunk == 0; }
};

struct Layout {
  uint64_t unit = 0;  // tokens that a name covers more than the name before it
  std::vector<Group> groups;
  std::string hash_seed;
  std::vector<std::string> salts;  // by tenant

  // Hits are multiples of this many tokens.
  uint64_t hit_alignment() const;
  // The name of each complete unit of a prompt, as events have it: 8 bytes of the hash.
  std::vector<uint64_t> names(const std::vector<int64_t>& prompt, uint64_t tenant) const;
};

// From the first line of an engine.
Layout layout_of(const nlohmann::json& greeting);

}  // namespace fleet
