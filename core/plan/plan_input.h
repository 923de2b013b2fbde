// What planning works on: options with their defaults filled in, and the caches of one rank. Private to core/plan.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/layout/layout.h"
#include "core/model/cache_spec.h"
#include "core/model/model_layers.h"
#include "core/plan/cache_config.h"
#include "core/plan/rules.h"

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
  uint32_t context_parallel = 1;
  std::vector<uint64_t> memory_bytes;  // by shard; empty = not limited
  uint64_t num_pages = 0;              // 0 = as many as fit
  uint64_t max_model_len = 0;
  uint64_t max_tokens_in_flight = 0;
  uint64_t block_tokens = 0;
  uint64_t kernel_block_tokens = 0;
  bool kernel_block_asked = false;  // told blocks must be multiples of it; else such a block is one kernel block
  quire_dtype kv_dtype{};
  quire_dtype state_dtype{};
  int32_t kv_scales = 0;
  StateMode state_mode = StateMode::kOff;
  bool prefix_reuse = true;
  bool contiguous = false;
  uint64_t page_alignment = 0;  // 0 = the policy's
  uint64_t encoder_tokens = 0;  // 0 = the model's
  uint32_t candidate = 0;       // policy auto: which one of the search, cheapest first
  Rules rules = Rules::kRight;
  bool one_table = false;             // windows keep everything
  bool fits_length = false;           // max_model_len is lowered to what fits
  bool transfers = false;             // blocks leave the pool
  bool rows_of_all_layers = false;    // tensors are told as rows
  uint64_t match_unit = 0;            // 0 = derived
  uint64_t retained = 0;              // tokens that windows keep behind their range
  std::vector<uint32_t> stage_begin;  // first layer of every stage; empty = as even as possible

  uint32_t ranks_per_stage() const { return tensor_parallel * context_parallel; }
  uint32_t num_shards() const { return ranks_per_stage() * pipeline_parallel; }
  uint32_t stage_of(uint32_t layer) const;                             // contiguous, as even as possible unless told
  bool is_published() const { return !searches && pack_layers == 1; }  // policy vllm
};

// A cache with memory, as one tensor-parallel rank holds it.
struct RankCache {
  uint32_t cache = 0;  // index into Model::caches()
  uint32_t stage = 0;
  MemberShape shape;            // lane, index, column and rows are still open
  uint64_t granule = 1;         // tokens: kernel blocks are a multiple of it
  uint64_t tokens_per_row = 1;  // over all context-parallel ranks
  CacheSpec spec;
  bool told = false;  // a layer file tells the spec: blocks and pages are as they are
};

struct Sizing;  // vllm/published_plan.h

// What a policy decides: groups, their lanes, and how parts share pages. Lanes, indices and columns are written into the caches' shapes.
struct Arrangement {
  struct Group {
    std::vector<uint32_t> members;  // rank caches, lane by lane
    std::vector<uint32_t> lanes;    // of each member, over all stages
    uint64_t block_tokens = 0;
    uint64_t kernel_tokens = 0;  // behind one lowered id
    uint32_t num_lanes = 1;
    uint32_t ids_per_block = 1;
    uint32_t parts_per_page = 1;
    bool keeps_everything = false;  // whatever ranges its layers have
    uint64_t retained = 0;          // windows: tokens kept before the range
    bool interleaved = false;       // by kernel block, unless an order was asked for
    uint64_t block_step = 1;        // kernel blocks are a multiple of this many bytes apart
  };
  std::vector<Group> groups;
  std::vector<uint64_t> min_page_bytes;  // by stage
  bool uniform_type = false;             // one group whose lanes differ in size
  std::vector<std::string> notes;
  // of a group's pages, in stages that have no layer of it; the worst group
  double unused_share = 0;
  std::string search_json;         // policy auto: every candidate; empty otherwise
  std::vector<double> costs;       // policy auto: of every candidate
  std::shared_ptr<Sizing> sizing;  // policy vllm
};

// Fills defaults and checks every option. Errors name option, value and limit.
Result<PlanInput> check_options(const Model& model, const quire_plan_options& options);
// The caches of one rank, with the blocks that options and layers ask for.
Result<std::vector<RankCache>> rank_caches(const PlanInput& input);
// Kernel block of a group's token caches: what every member can be cut by. Sets their rows.
uint64_t cut_kernel_blocks(const std::vector<uint32_t>& members, std::vector<RankCache>* caches);
// Whether ranks share groups (key heads) of a state because there are more ranks than groups.
bool repeats_groups(const quire_layer& desc, uint32_t parallel);
// Extent of a part of state[0] over all ranks; larger than the model's where groups are repeated.
uint32_t sharded_part(const quire_layer& desc, uint32_t part, uint32_t parallel);
// OUT_OF_RANGE: more than a cache can have.
Status check_num_groups(const PlanInput& input, size_t num_groups);
// Policy auto: one group per live range, several parts per page, an id per lane.
Result<Arrangement> arrange_in_parts(const PlanInput& input, std::vector<RankCache>* caches);
// One plan of one input; the candidate of the search is the input's.
struct Planned {
  std::shared_ptr<const Config> config;
  std::vector<double> costs;  // policy auto: of every candidate, cheapest first
  double lost_share = 0;      // of memory, to the range of ids
};
Result<Planned> plan_with(const PlanInput& input, const std::vector<std::string>& notes);
// What pads a per cent or more of its pages, and why; a line per group.
std::vector<std::string> notes_of_padding(const Config& config);
// A group whose pages hold nothing in `without` of the stages.
std::string note_of_unused(uint32_t group, double share, uint32_t without, uint32_t stages);
// Layers whose rows the ops of not every driver with kernels know.
std::vector<std::string> notes_of_ops(const Config& config);
// Text as a JSON string.
std::string quoted(const std::string& text);
// Explanation as JSON.
std::string explain(const Config& config, const PlanInput& input, const Arrangement& arrangement);

}  // namespace quire
