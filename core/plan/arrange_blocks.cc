// Policies vllm and pack:N: what counts as one layer, hybrid growth of its block, groups by the published rules.
#include <algorithm>

#include "core/base/checked.h"
#include "core/plan/block_sizing.h"
#include "core/plan/plan_input.h"

namespace quire {
namespace {

// What grouping counts as one layer: a cache, or up to N caches that are alike, packed into one lane.
struct Pack {
  CacheSpec spec;
  uint32_t stage = 0;
  std::vector<uint32_t> caches;
};

bool can_pack(const Pack& pack, const RankCache& cache) {
  const CacheSpec& a = pack.spec;
  const CacheSpec& b = cache.spec;
  return pack.stage == cache.stage && a.family == b.family && a.block_tokens == b.block_tokens && a.range == b.range &&
         a.identity == b.identity;
}

// Consecutive caches of one kind share a pack; the last one may stay partly empty and is as large as the others.
std::vector<Pack> make_packs(const PlanInput& input, const std::vector<RankCache>& caches) {
  std::vector<Pack> packs;
  for (uint32_t i = 0; i < caches.size(); ++i) {
    const CacheFamily family = caches[i].spec.family;
    const bool packs_up = input.pack_layers > 1 && family != CacheFamily::kState && family != CacheFamily::kCross;
    const auto open = std::find_if(packs.begin(), packs.end(), [&](const Pack& pack) {
      return packs_up && pack.caches.size() < input.pack_layers && can_pack(pack, caches[i]);
    });
    if (open != packs.end()) {
      open->caches.push_back(i);
      continue;
    }
    packs.push_back({caches[i].spec, caches[i].stage, {i}});
    if (packs_up) packs.back().spec.row_bytes *= input.pack_layers;
  }
  return packs;
}

uint64_t token_bytes(const CacheSpec& spec) { return spec.row_bytes / spec.tokens_per_row; }

// Grows the block of full layers until one page holds one state; states get the same block.
Status grow_for_states(const PlanInput& input, std::vector<CacheSpec>* specs) {
  const CacheSpec* primary = nullptr;  // the widest full layer, else the widest layer of tokens
  uint64_t state_bytes = 0;
  for (const CacheSpec& spec : *specs) {
    state_bytes = std::max(state_bytes, spec.state_bytes);
    if (spec.family == CacheFamily::kState || spec.family == CacheFamily::kCross) continue;
    const auto rank = [](const CacheSpec& one) { return one.family == CacheFamily::kFull || one.family == CacheFamily::kLatent ? 1 : 0; };
    const bool better =
        primary == nullptr || rank(spec) > rank(*primary) || (rank(spec) == rank(*primary) && token_bytes(spec) > token_bytes(*primary));
    if (better) primary = &spec;
  }
  if (state_bytes == 0) return {};
  uint64_t state_block = input.state_mode == StateMode::kAlign ? input.block_tokens : input.max_model_len;
  if (primary != nullptr) {
    HybridBlockInput rule;
    rule.token_bytes = token_bytes(*primary);
    rule.state_bytes = state_bytes;
    rule.block_tokens = primary->block_tokens;
    rule.min_kernel_block = input.kernel_block_tokens;
    rule.max_model_len = input.max_model_len;
    rule.latent = primary->family == CacheFamily::kLatent;
    rule.mode = input.state_mode;
    const auto grown = grow_block(rule);
    if (!grown.ok()) return Status(grown.status().code(), grown.status().message());
    const CacheFamily family = primary->family;
    if (input.state_mode == StateMode::kAlign) state_block = grown.value().block_tokens;
    // Without checkpoints a state has one block, longer than any sequence; a multiple of the others keeps hits and units defined.
    if (input.state_mode == StateMode::kOff) state_block = round_up(input.max_model_len, grown.value().block_tokens);
    for (CacheSpec& spec : *specs) {
      const bool full = spec.family == CacheFamily::kFull || spec.family == CacheFamily::kLatent;
      if (full || spec.family == family) spec.block_tokens = std::max(spec.block_tokens, grown.value().block_tokens);
    }
  }
  for (CacheSpec& spec : *specs) {
    if (spec.family == CacheFamily::kState) spec.block_tokens = state_block;
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

Result<Arrangement> arrange_in_blocks(const PlanInput& input, std::vector<RankCache>* caches) {
  const std::vector<Pack> packs = make_packs(input, *caches);
  std::vector<CacheSpec> specs;
  specs.reserve(packs.size());
  for (const Pack& pack : packs) specs.push_back(pack.spec);
  level_latent_blocks(&specs);
  QUIRE_RETURN_IF_ERROR(grow_for_states(input, &specs));
  auto grouping = group_layers(&specs);
  if (!grouping.ok()) return grouping.take_status();
  Arrangement out;
  out.uniform_type = grouping->one_uniform_type();
  for (const std::vector<uint32_t>& list : grouping->groups) {
    Arrangement::Group group;
    group.block_tokens = specs[list[0]].block_tokens;
    group.num_lanes = static_cast<uint32_t>(list.size());
    std::vector<uint32_t> next(input.pipeline_parallel);  // lanes are numbered among those a stage has
    for (uint32_t lane = 0; lane < list.size(); ++lane) {
      const Pack& pack = packs[list[lane]];
      for (uint32_t index = 0; index < pack.caches.size(); ++index) {
        MemberShape& shape = (*caches)[pack.caches[index]].shape;
        shape.lane = next[pack.stage];
        shape.index = index;
        group.members.push_back(pack.caches[index]);
        group.lanes.push_back(lane);
      }
      ++next[pack.stage];
    }
    group.kernel_tokens = cut_kernel_blocks(group.members, caches);
    out.groups.push_back(std::move(group));
  }
  for (uint32_t stage = 0; stage < input.pipeline_parallel; ++stage) {
    std::vector<bool> mine(packs.size());
    for (size_t i = 0; i < packs.size(); ++i) mine[i] = packs[i].stage == stage;
    const uint64_t bytes = pool_bytes_per_block(specs, *grouping, mine);
    out.min_page_bytes.push_back(round_up(std::min(bytes, kMaxSize / 2), std::max<uint64_t>(input.page_alignment, 1)));
  }
  return out;
}

}  // namespace quire
