// Policy auto: how many bytes a page has, how many parts of each group it holds, and how many layers share a lane. Pure arithmetic: every
// combination worth considering is priced, the cheapest wins, and the list says why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace quire {

inline constexpr uint64_t kPageAlignment = 256;  // bytes, unless another one is asked for

// Layers with one live range.
struct SearchGroup {
  bool is_state = false;                     // every state has a lane of its own
  bool one_lane = false;                     // all layers of a block must lie in one part
  bool by_layer = false;                     // every layer of a part is a run of its own, else a part is one run
  bool may_interleave = false;               // by_layer is not asked for, only the rule
  bool can_step = false;                     // kernel blocks may be further apart than they are long; by_layer: layers are alike
  uint64_t blocks_per_part = 1;              // kernel blocks of a part
  double live_blocks = 0;                    // blocks that the sequence of reference keeps
  std::vector<std::vector<uint64_t>> bytes;  // [stage][layer]: of one part
};

struct SearchChoice {
  uint32_t lanes = 1;
  uint32_t layers_per_lane = 1;
  uint32_t parts_per_page = 1;
  double padding_share = 0;
  uint64_t block_step = 1;   // kernel blocks are a multiple of this many bytes apart
  bool interleaved = false;  // by kernel block
};

// What pages must be. An id counts a common divisor of page and kernel block: where ids are few, it must not be short.
struct SearchLimits {
  uint64_t page_alignment = kPageAlignment;
  uint64_t least_step = 1;    // bytes
  uint64_t memory_bytes = 0;  // of one rank, all stages together; 0 = unknown: plenty
};

// One page length with the best choice of every group. All costs are shares of the bytes that the sequence of reference would need without
// any waste, so that they can be added. In a small pool the sequence of reference is smaller:
// the memory holds kLeastSequences of it.
struct SearchCandidate {
  uint64_t page_bytes = 0;   // of the widest stage
  double padding_share = 0;  // of the worst group, in stages that have layers of it
  // Of the pages of the group that uses fewest: in stages that have no layer of it.
  double unused_share = 0;
  double waste_share = 0;         // what costs: of the worst group, both together
  uint64_t tail_bytes = 0;        // expected in partly filled blocks and pages of one sequence
  uint64_t checkpoint_bytes = 0;  // of one boundary of all states
  uint32_t columns = 0;           // block tables of groups with tokens
  uint32_t runs_per_block = 0;    // dense runs that move one block of every group, states aside
  double cost = 0;
  double over_limit = 0;              // per share of padding above the limit, besides it
  std::vector<SearchChoice> choices;  // by group
  std::vector<uint64_t> stage_page_bytes;
};

// The weights of the costs; public, because explanations quote them.
inline constexpr double kPaddingLimit = 0.01;    // more only if the rest is too coarse, or nothing
inline constexpr double kPaddingOverLimit = 10;  // per share above the limit, besides the share
inline constexpr double kManyPages = 1024;       // with fewer, padding above the limit costs less
inline constexpr double kLeastSequences = 128;   // of reference
inline constexpr double kCostOfColumn = 0.001;   // a table to fill, upload and read in every step
inline constexpr double kCostOfRun = 0.00001;    // a copy more per block in transfers

// Cheapest first; never empty.
// Errors: OUT_OF_RANGE (bytes of a lane beyond 63 bits).
Result<std::vector<SearchCandidate>> search_pages(const std::vector<SearchGroup>& groups, const SearchLimits& limits);

// The lane of every layer: neighbours together where all are alike, else largest first to the emptiest lane.
std::vector<uint32_t> spread(const std::vector<uint64_t>& bytes, uint32_t lanes);

std::string describe_search(const std::vector<SearchCandidate>& candidates, uint32_t taken = 0);

}  // namespace quire
