// What sequences hold at most, whatever they do and in whatever order: a guarantee counts this. The
// argument is in worst_case.cc. Pure functions of a plan and of how a cache uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/cache_config.h"
#include "core/plan/capacity.h"

namespace quire {

// What one sequence holds of a group: parts, and the pages of its own that they lie in.
struct Held {
  uint64_t parts = 0;
  uint64_t pages = 0;
};

Held held_states(const GroupPlan& group, uint64_t slots);
// Blocks from the first live one after `committed` tokens to the one that token `reserved` - 1 is
// in, and those of the sinks. The first block of a sequence lies at the beginning of a page.
Held held_tokens(const GroupPlan& group, uint64_t committed, uint64_t reserved);

// State slots of a sequence that decodes in every step. Written in place it owns one, the branches
// of its rows in flight, and where an earlier step may still make a checkpoint of it, one that is
// written instead; otherwise it owns also what its rows in flight write.
uint64_t slots_decoding(const CacheUse& use);

class WorstCase {
 public:
  // Of sequences of `tokens` tokens. Borrowed arguments must outlive it.
  WorstCase(const Config& config, const CacheUse& use, uint64_t tokens);

  // Pages that so many sequences hold at most, the null page included; kMaxSize beyond 63 bits.
  uint64_t pages_of_all(uint64_t sequences) const;

 private:
  using Groups = std::span<const size_t>;  // by their numbers
  struct Segment {
    uint64_t tokens = 0, pages = 0;
  };

  void find_alike();
  uint64_t looks(Groups falling, uint64_t period) const;
  std::vector<uint64_t> ends(Groups groups, uint64_t period) const;
  std::vector<uint64_t> most_of(Groups falling, Groups growing, uint64_t period) const;
  void add_worst_of_one(size_t group);
  uint64_t slots(uint64_t in_flight) const;
  void add_states();
  void draw_hull();

  const Config& config_;
  const CacheUse& use_;
  uint64_t tokens_;
  uint64_t unit_ = 1;   // tokens
  uint64_t steps_ = 1;  // units of tokens in flight, 0 among them
  uint64_t ahead_ = 0;  // slots after its tokens that a sequence keeps for drafts
  // [group]: groups like it, it among them; 0: it is like one before it.
  std::vector<uint64_t> times_;
  // Pages of one sequence, by units of tokens in flight, rounded down.
  std::vector<uint64_t> most_;
  std::vector<Segment> hull_;  // of most_, the steepest first
};

}  // namespace quire
