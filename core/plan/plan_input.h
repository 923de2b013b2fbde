// What planning works on: options with their defaults filled in, and the caches of one rank. Private to core/plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/layout/layout.h"
#include "core/model/model.h"
#include "core/plan/config.h"
#include "core/plan/grouping.h"
#include "core/plan/hybrid_block.h"

namespace quire {

struct PlanInput {
  const Model* model = nullptr;
  std::string policy;
  bool searches = false;     // policy auto
  uint32_t pack_layers = 1;  // policy pack:N
  Order order;
  bool order_given = false;
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  std::vector<uint64_t> memory_bytes;  // by shard; empty = not limited
  uint64_t num_pages = 0;              // 0 = as many as fit
  uint64_t max_model_len = 0;
  uint64_t max_tokens_in_flight = 0;
  uint64_t block_tokens = 0;
  uint64_t kernel_block_tokens = 0;
  quire_dtype kv_dtype{};
  StateMode state_mode = StateMode::kOff;
  bool prefix_reuse = true;
  bool contiguous = false;

  uint32_t num_shards() const { return tensor_parallel * pipeline_parallel; }
  uint32_t stage_of(uint32_t layer) const;  // contiguous, as even as possible
};

// A cache with memory, as one tensor-parallel rank holds it.
struct RankCache {
  uint32_t cache = 0;  // index into Model::caches()
  uint32_t stage = 0;
  MemberShape shape;  // lane, index and column are still open
  CacheSpec spec;
};

// What a policy decides: groups, their lanes, and how parts share pages. Lanes, indices and columns are written into the caches' shapes.
struct Arrangement {
  struct Group {
    std::vector<uint32_t> members;  // rank caches, lane by lane
    std::vector<uint32_t> lanes;    // of each member, over all stages
    uint64_t block_tokens = 0;
    uint32_t num_lanes = 1;
    uint32_t ids_per_block = 1;
    uint32_t parts_per_page = 1;
  };
  std::vector<Group> groups;
  std::vector<uint64_t> min_page_bytes;  // by stage
  bool uniform_type = false;             // one group whose lanes differ in size
  std::vector<std::string> notes;
  std::string search_json;  // policy auto: every candidate; empty otherwise
};

// Fills defaults and checks every option. Errors name option, value and limit.
Result<PlanInput> check_options(const Model& model, const quire_plan_options& options);
// The caches of one rank, with the blocks that options and layers ask for.
Result<std::vector<RankCache>> rank_caches(const PlanInput& input);
// Policies vllm and pack:N: blocks grow until a page of one layer (of N layers) holds one state; one id serves all lanes.
Result<Arrangement> arrange_in_blocks(const PlanInput& input, std::vector<RankCache>* caches);
// Policy auto: one group per live range, several parts per page, an id per lane.
Result<Arrangement> arrange_in_parts(const PlanInput& input, std::vector<RankCache>* caches);
// Blocks (or state slots) that one sequence of `tokens` tokens can need at once in a group.
uint64_t blocks_needed(const PlanInput& input, const GroupPlan& group, uint64_t encoder_tokens, uint64_t tokens);
// Pages that hold them, however the holes lie.
uint64_t pages_needed(const GroupPlan& group, uint64_t blocks);
// Explanation as JSON.
std::string explain(const Config& config, const PlanInput& input, const Arrangement& arrangement);

}  // namespace quire
