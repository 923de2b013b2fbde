// Policies vllm and pack:N: layers are grouped and blocks are sized by the published rules. What
// the planner calls of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/plan/plan_input.h"
#include "core/plan/vllm/block_sizing.h"
#include "core/plan/vllm/grouping.h"

namespace quire {

// Policy vllm: what workers (pipeline stages) allocate by the published algorithm. Blocks are those
// of one context-parallel rank.
struct Sizing {
  std::vector<CacheSpec> specs;
  std::vector<uint32_t> caches;  // of each spec: index into Model::caches()
  Grouping grouping;
  std::vector<Worker> workers;  // one for all ranks of a pipeline stage, which are alike: the least memory among them
  uint32_t ranks_per_stage = 1;
  SizingInput input;
  PoolSize pool;
  Status refused;  // by the published check of memory, under the rules that are asked for
};

// Policies vllm and pack:N: the published blocks of specs that no layer file tells; full layers
// grow until a page holds one state.
Status derive_blocks(const PlanInput& input, const std::vector<FamilyPages>& families, std::vector<CacheSpec>* specs);
// Sizes every stage by the published algorithm. specs: grouped, blocks over all context-parallel
// ranks.
std::shared_ptr<Sizing> size_stages(const PlanInput& input, std::vector<CacheSpec> specs, Grouping grouping, std::vector<uint32_t> caches,
                                    const std::vector<uint32_t>& stages);
// Sizes once more, for requests of this length. What does not fit is in `refused`.
void size_again(uint64_t max_model_len, Rules rules, Sizing* sizing);
// What was sized, as JSON.
// Tokens of a pool as the published algorithm prints them: a product of doubles, cut.
uint64_t printed_tokens(const PoolSize& pool);
std::string describe_sizing(const Sizing& sizing);
// Policies vllm and pack:N: blocks grow until a page of one layer (of N layers) holds one state;
// one id serves all lanes.
Result<Arrangement> arrange_in_blocks(const PlanInput& input, std::vector<RankCache>* caches);

}  // namespace quire
