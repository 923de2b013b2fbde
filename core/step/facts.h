// What a cache knows of its plan and its options: derived once at creation, then only read.
#pragma once

#include <quire/cache.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/plan/cache_config.h"
#include "core/plan/capacity.h"

namespace quire {

struct Limits {
  uint32_t max_sequences = 0;
  uint32_t max_entries = 0;
  uint32_t max_tokens = 0;
  uint32_t depth = 0;
  uint32_t watermark_pages = 0;
  uint32_t branches = 0;  // draft tokens whose states are written one by one
  uint32_t max_loads = 0;
  uint64_t max_load_tokens = 0;
  uint64_t checkpoint_interval = 0;  // tokens; 0 = see quire_cache_options
  uint32_t keep = 0;                 // QUIRE_KEEP_*
  bool in_place = false;             // states are written where they are read
  bool at_blocks = false;            // kernels write the states of boundaries that a row crosses
};

// Boundaries of a row whose states are kept for a reason of their own, in tokens of the sequence;
// 0 = none.
struct KeptBoundaries {
  uint64_t prompt_end = 0;
  uint64_t asked = 0;         // by the engine
  uint64_t branch_point = 0;  // where groups that need everything would have resumed

  std::array<uint64_t, 3> all() const { return {prompt_end, asked, branch_point}; }
  bool has(uint64_t end) const;
};

Result<Limits> read_limits(const quire_cache_options& options);

// Multiples of a number of tokens; most are powers of two.
class Grid {
 public:
  Grid() = default;
  explicit Grid(uint32_t tokens) : tokens_(tokens), shift_(std::has_single_bit(tokens) ? std::countr_zero(tokens) : -1) {}
  uint64_t quotient(uint64_t n) const { return shift_ >= 0 ? n >> shift_ : n / tokens_; }
  bool divides(uint64_t n) const { return shift_ >= 0 ? (n & (tokens_ - 1)) == 0 : n % tokens_ == 0; }
  uint64_t ceil(uint64_t n) const { return quotient(n + tokens_ - 1); }

 private:
  uint64_t tokens_ = 1;
  int shift_ = 0;
};

// Blocks [first, end) of a table; end may lie before first.
struct Stretch {
  uint32_t first = 0, end = 0;
};

// What every row asks of a group's plan, in one place.
struct GroupFacts {
  LiveRange live;
  Grid block;
  uint32_t columns = 1;
  bool state = false;
  // Has a table that grows with the sequence. A group without one is states, or cross attention,
  // which keeps the encoder's tokens.
  bool grows = false;
  bool whole = false;  // needs everything
  bool falls = false;  // has a table whose blocks leave the live range
  uint32_t block_tokens = 0;
  uint32_t look_ahead = 0;   // tokens that drafts write ahead; a hit drops a block then
  uint64_t state_bytes = 0;  // on the shard whose pages are largest; of a plan without bytes: parts
  // Windows: resuming at a boundary takes the `kept` blocks before it. In every `period` blocks
  // that many are worth being found.
  bool sparse = false;  // false: all are
  uint32_t kept = 0;
  uint32_t period = 0;       // 0 = none but those before ends of prompts and branch points
  bool chosen = false;       // by the caller: multiples of an interval, or none
  bool with_states = false;  // only sinks, and those before boundaries that keep states

  // Blocks that a load to `end` leaves out: nothing keeps them after its end.
  Stretch dead_blocks(uint64_t end) const;
  // Those and the ones that stay for drafts: resuming at `end` needs none of them.
  Stretch passed_blocks(uint64_t end) const;
};

// Whether what the group holds of a token depends on the ones that follow it.
inline bool drafts_into(const GroupPlan& g) { return g.look_ahead > 0 && g.reads_ahead(); }

struct Facts {
  std::shared_ptr<const Config> config;
  std::vector<GroupFacts> groups;
  std::vector<uint32_t> state_groups;
  uint64_t plan_digest = 0;
  uint64_t page_bytes = 1;    // on the shard whose pages are largest; of a plan without bytes: 1
  uint64_t spacing = 1;       // tokens between states that are kept in any case
  bool every = false;         // the caller gave it: chunks end at each multiple
  bool chosen = false;        // the caller gave `every`, or keeps no multiples
  uint64_t most_encoder = 0;  // tokens; 0: no group is of cross attention
  uint64_t pin_grid = 1;      // pins end at its multiples
  uint64_t block_grid = 1;    // tokens: all blocks of groups that need everything end at multiples
  Grid joint;                 // boundaries where all groups can be hit
  Limits limits;
  uint32_t num_groups = 0;
  uint32_t first_state = kNone;  // group; pins of its states count for the boundary
  bool reuse = true;
  bool has_states = false;
  bool swaps_states = false;  // one is read and another one written, and none on the way
  bool fine = false;          // hits may end inside blocks
  bool strict_lru = false;    // blocks are given up by their last use and nothing else
  bool has_drafts = false;
  bool has_falling = false;    // a group's blocks leave its live range
  bool learns_places = false;  // whether states are kept at multiples of the spacing
  bool learns_ends = false;    // where the end of a prompt is kept makes a difference

  static Result<Facts> make(std::shared_ptr<const Config> config, const quire_cache_options& options);

  const GroupPlan& plan(uint32_t g) const { return config->groups[g]; }

  // States that a row writes: their number, and the tokens of the sequence after which the one
  // that comes after `at` is the state; `at` begins as the row's position.
  uint64_t num_writes(uint64_t position, uint32_t num_tokens, const KeptBoundaries& kept) const;
  uint64_t next_write(uint64_t at, uint64_t begin, uint32_t tokens, const KeptBoundaries& k) const;
  // Of num_writes(), at most, beside multiples of the spacing.
  uint32_t kept_on_the_way() const;
  // Whether a row of so many tokens decodes, perhaps with drafts. Chunks are longer, except perhaps
  // the last one of a prompt.
  bool decodes(uint32_t num_tokens) const {
    const uint32_t most = std::max(config->match_unit_tokens, limits.branches + 1);
    return num_tokens <= most;
  }
  bool writes_each_token(uint32_t num_tokens) const { return num_tokens <= limits.branches + 1; }
  uint64_t writes_per_step() const;  // at most, of one group
  double token_bytes() const;        // of groups that need everything
  // The pool's protected_part (0094).
  uint32_t protected_part() const { return strict_lru ? 0 : has_states ? 8 : 3; }
  uint64_t boundary_bytes() const;  // of the states of one boundary
  // What the plan serves with these options.
  CacheUse use() const;
  // States of a sequence of `end` tokens that are resident together at most.
  uint64_t states_of_whole(uint64_t end) const;

 private:
  GroupFacts facts_of(const GroupPlan& g) const;
};

}  // namespace quire
