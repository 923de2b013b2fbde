// Policy vllm: what each worker allocates for given groups, how many blocks fit, and what that serves. Pure functions in the steps of the
// published algorithm; several workers hold slices (pipeline stages) of the same layers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/vllm/grouping.h"

namespace quire {

struct SizingInput {
  uint64_t max_model_len = 0;
  uint64_t in_flight_tokens = 0;  // tokens computed between scheduling and the release of what left a window
  uint64_t block_tokens = 0;      // of the cache, where there is at most one group
  uint64_t encoder_tokens = 0;    // most of a request
  uint64_t context_parallel = 1;  // ranks that share the tokens of a sequence
  uint64_t override_blocks = 0;   // 0 = as many as fit
  uint64_t match_unit = 0;        // 0 = derived
  StateMode state_mode = StateMode::kOff;
  bool prefix_reuse = true;
  bool transfers = false;           // blocks leave the pool
  bool rows_of_all_layers = false;  // all layers of a block lie one behind the other (only with several groups)
  bool fits_length = false;         // shorten max_model_len to what fits
  bool ranges_take_turns = false;   // context-parallel ranks share the tokens of windows and chunks, too
};

// One worker's share: which layers it holds, and its memory. Negative memory counts as none.
struct Worker {
  std::vector<bool> holds;  // by spec
  int64_t memory_bytes = 0;
};

struct TensorRow {
  uint64_t bytes = 0;
  uint64_t offset = 0;              // within the row of a block; rows only
  uint64_t block_stride = 0;        // 0 = a tensor of its own
  std::vector<uint32_t> shared_by;  // indices into specs
};

struct WorkerSize {
  uint64_t needed_bytes = 0;           // of one request of max_model_len, whole pages
  uint64_t needed_bytes_by_layer = 0;  // the same without padding
  uint64_t pool_bytes_per_block = 0;
  int64_t memory_bytes = 0;  // after an override
  uint64_t fitting_len = 0;  // longest request that fits, at most max_model_len
  std::vector<TensorRow> tensors;
};

struct PoolSize {
  uint64_t max_model_len = 0;
  uint64_t num_blocks = 0;          // what every worker can hold
  uint64_t blocks_per_request = 0;  // of one request of max_model_len, over all groups
  std::vector<WorkerSize> workers;
};

// Blocks of one layer that a request of max_model_len can need at once. Errors: INVALID_ARGUMENT (windows under context parallelism).
Result<uint64_t> worst_blocks(const CacheSpec& spec, const SizingInput& input, uint64_t max_model_len);

// Sizes every worker's pool. When it fails, *so_far has what is known all the same (null allowed): of memory that is too small for a
// request, everything. Errors: RESOURCE_EXHAUSTED (no memory, a request of max_model_len does not fit; names worker, bytes, and what would
// fit), INVALID_ARGUMENT (a worker without layers, windows under context parallelism).
Result<PoolSize> size_pool(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<Worker>& workers,
                           const SizingInput& input, Rules rules, PoolSize* so_far);

// Bytes that one block id stands for in a worker that holds `mine`. Sums beyond 63 bits stay at the limit.
uint64_t pool_bytes_per_block(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<bool>& mine,
                              bool rows_of_all_layers = false);

// Whether layers that a worker holds keep elements of several types: recycled blocks must be zeroed then. first_of_group: of a uniform type
// only the first layer counts, as the scheduler sees it.
bool mixes_precision(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<bool>& holds, bool first_of_group);

// In which steps the scheduler aligns, and the tokens a prefix hash covers. Errors: INVALID_ARGUMENT (match unit that divides no block).
struct BlockUnits {
  uint64_t schedule_tokens = 0;
  uint64_t match_tokens = 0;
};
Result<BlockUnits> block_units(const Grouping& grouping, const SizingInput& input);

// Entries of a sequence's block table in a group.
Result<uint64_t> table_width(const CacheSpec& spec, const SizingInput& input, uint64_t max_model_len);

// Layers of several workers as one table, in order of first appearance. names and specs are parallel. Errors: INVALID_ARGUMENT when two
// workers disagree about a layer of one name.
struct MergedLayers {
  std::vector<uint32_t> order;  // into names
};
Result<MergedLayers> merge_workers(const std::vector<std::string>& names, const std::vector<CacheSpec>& specs,
                                   const std::vector<std::vector<uint32_t>>& workers);

}  // namespace quire
