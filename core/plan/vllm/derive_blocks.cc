// Policies vllm and pack:N: blocks that no layer file tells, by the published rules.
#include <algorithm>
#include <numeric>

#include "core/base/checked.h"
#include "core/plan/vllm/hybrid_block.h"
#include "core/plan/vllm/published_plan.h"

namespace quire {
namespace {

// Of one token of the context-parallel rank that keeps it.
uint64_t token_bytes(const CacheSpec& spec, uint64_t ranks) { return spec.row_bytes / (spec.tokens_per_row / ranks); }

// Grows the block of full layers until one page holds one state; states get the same block.
Status grow_for_states(const PlanInput& input, const std::vector<FamilyPages>& families, std::vector<CacheSpec>* specs) {
  const CacheSpec* primary = nullptr;  // the widest full layer, else the widest layer of tokens
  uint64_t state_bytes = 0;
  uint64_t chunk = 0;  // that every kernel of states can work at
  for (size_t i = 0; i < specs->size(); ++i) {
    const CacheSpec& spec = (*specs)[i];
    if (spec.family == CacheFamily::kState) chunk = std::lcm(std::max<uint64_t>(chunk, 1), families[i].state_chunk);
    state_bytes = std::max(state_bytes, spec.state_bytes);
    if (spec.family == CacheFamily::kState || spec.family == CacheFamily::kCross) continue;
    const auto rank = [](const CacheSpec& one) { return one.family == CacheFamily::kFull || one.family == CacheFamily::kLatent ? 1 : 0; };
    const bool better = primary == nullptr || rank(spec) > rank(*primary) ||
                        (rank(spec) == rank(*primary) && token_bytes(spec, 1) > token_bytes(*primary, 1));
    if (better) primary = &spec;
  }
  if (state_bytes == 0) return {};
  // At every block only where the kernels can; elsewhere where a chunk ends.
  const StateMode mode = input.state_mode == StateMode::kAll && chunk == 0 ? StateMode::kAlign : input.state_mode;
  uint64_t state_block = mode == StateMode::kOff ? input.max_model_len : input.block_tokens;
  if (primary != nullptr) {
    const uint64_t ranks = input.context_parallel;  // the rule counts the tokens of one of them
    HybridBlockInput rule;
    rule.token_bytes = token_bytes(*primary, ranks);
    rule.state_bytes = state_bytes;
    rule.block_tokens = primary->block_tokens / ranks;
    rule.min_kernel_block = input.kernel_block_tokens;
    rule.max_model_len = input.max_model_len;
    rule.latent = primary->family == CacheFamily::kLatent;
    rule.mode = mode;
    rule.chunk_tokens = chunk;
    const auto grown = grow_block(rule);
    if (!grown.ok()) return Status(grown.status().code(), grown.status().message());
    const CacheFamily family = primary->family;
    state_block = grown.value().state_block_tokens;
    // Where prefixes are reused without checkpoints of states, their one block stays a multiple of the others: hits and units are defined.
    const uint64_t block = grown.value().block_tokens * ranks;
    if (mode == StateMode::kOff && input.prefix_reuse) state_block = round_up(state_block, block);
    for (CacheSpec& spec : *specs) {
      const bool full = spec.family == CacheFamily::kFull || spec.family == CacheFamily::kLatent;
      if (full || spec.family == family) spec.block_tokens = std::max(spec.block_tokens, block);
    }
  }
  for (CacheSpec& spec : *specs) {
    if (spec.family != CacheFamily::kState) continue;
    spec.block_tokens = state_block;
    spec.state_mode = mode;
  }
  return {};
}

// Latent caches of one model share a block, that of the most compressed one.
void level_latent_blocks(std::vector<CacheSpec>* specs) {
  uint64_t most = 0;
  for (const CacheSpec& spec : *specs) most = is_latent(spec.family) ? std::max(most, spec.block_tokens) : most;
  for (CacheSpec& spec : *specs) {
    if (is_latent(spec.family)) spec.block_tokens = round_up(most, spec.block_tokens);
  }
}

}  // namespace

Status derive_blocks(const PlanInput& input, const std::vector<FamilyPages>& families, std::vector<CacheSpec>* specs) {
  level_latent_blocks(specs);
  return grow_for_states(input, families, specs);
}

}  // namespace quire
