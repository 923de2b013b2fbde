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

// Fills defaults and checks every option. Errors name option, value and limit.
Result<PlanInput> check_options(const Model& model, const quire_plan_options& options);
// The caches of one rank with blocks as policy vllm wants them, hybrid growth included.
Result<std::vector<RankCache>> rank_caches(const PlanInput& input);
// Blocks (or state slots) that one sequence of `tokens` tokens can need at once in a group.
uint64_t blocks_needed(const PlanInput& input, const GroupPlan& group, uint64_t encoder_tokens, uint64_t tokens);
// Explanation as JSON.
std::string explain(const Config& config, const PlanInput& input, const std::vector<std::string>& notes);

}  // namespace quire
