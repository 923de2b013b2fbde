// What a load lacks, block by block: failures of transfers name blocks in any order and more than
// once, the cache is told ranges of tokens of each group.
#pragma once

#include <quire/load.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/cache_config.h"

namespace quire {

class LostBlocks {
 public:
  // For a load that ends at `boundary`, of which nothing is lost yet. encoder: tokens of cross
  // attention that it brings. All memory is taken here: what is named afterwards needs none.
  void begin(const Config& config, uint64_t boundary, uint64_t encoder = 0);
  // Blocks [first, end) of the sequence. Of a group of states: whatever is named, its state.
  void lose(uint32_t group, uint64_t first, uint64_t end);
  void lose_all();
  bool any() const { return any_; }
  // Ranges that do not touch. Valid until the next call.
  std::span<const quire_load_failure> failures();

 private:
  struct Group {
    std::vector<bool> lost;     // by block
    uint64_t block_tokens = 0;  // of states: of the whole load
    uint64_t end = 0;           // tokens
  };
  std::vector<Group> groups_;
  std::vector<quire_load_failure> failures_;
  bool any_ = false;
};

}  // namespace quire
