// Policies vllm and pack:N: what counts as one layer, hybrid growth of its block, groups by the published rules.
#include <algorithm>
#include <cinttypes>
#include <numeric>

#include "core/base/checked.h"
#include "core/model/check_codec.h"
#include "core/plan/vllm/published_plan.h"

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

// What the members of a group are, lane by lane; lanes are numbered among those a stage has.
Arrangement::Group make_group(const PlanInput& input, const std::vector<Pack>& packs, const std::vector<uint32_t>& list,
                              std::vector<RankCache>* caches) {
  Arrangement::Group group;
  group.num_lanes = static_cast<uint32_t>(list.size());
  std::vector<uint32_t> next(input.pipeline_parallel);
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
  return group;
}

// Where the rules cut a block that the kernel block does not divide, the longest kernel block that does is taken: rows that a kernel block
// keeps whole, and encodings of whole blocks, forbid it. Told kernel blocks stay.
Status fit_kernel_block(const PlanInput& input, Arrangement::Group* group, std::vector<RankCache>* caches,
                        std::vector<std::string>* notes) {
  const RankCache& first = (*caches)[group->members[0]];
  if (first.shape.is_state() || group->block_tokens % group->kernel_tokens == 0) return {};
  const uint64_t fitting = std::gcd(group->block_tokens, group->kernel_tokens);
  const bool cuts = std::all_of(group->members.begin(), group->members.end(), [&](uint32_t i) {
    return fitting % (*caches)[i].tokens_per_row == 0 && cuts_between_rows((*caches)[i].shape.codec);
  });
  if (!cuts || input.kernel_block_asked || group->block_tokens < group->kernel_tokens) {
    return fail(QUIRE_NOT_REPRESENTABLE,
                "layer %u: block of %" PRIu64 " tokens is %s the kernel block of %" PRIu64 " (kernel_block_tokens)", first.spec.layer,
                group->block_tokens, group->block_tokens < group->kernel_tokens ? "shorter than" : "no multiple of", group->kernel_tokens);
  }
  notes->push_back("layer " + std::to_string(first.spec.layer) + ": block of " + std::to_string(group->block_tokens) +
                   " tokens is no multiple of the kernel block of " + std::to_string(group->kernel_tokens) + ": its kernel block is " +
                   std::to_string(fitting));
  group->kernel_tokens = fitting;
  for (const uint32_t i : group->members) {
    RankCache& cache = (*caches)[i];
    cache.shape.rows = static_cast<uint32_t>(fitting / cache.tokens_per_row);
  }
  return {};
}

// Groups by the published rules; specs are rewritten.
Result<Grouping> group_specs(const PlanInput& input, std::vector<CacheSpec>* specs) {
  for (CacheSpec& spec : *specs) {
    if (is_window(spec.family) && input.retained != 0) spec.extra_retained = input.retained;
  }
  if (input.one_table) QUIRE_RETURN_IF_ERROR(keep_everything(specs, input.rules));
  return group_layers(specs, input.rules, input.one_table);
}

// Where some layers tell their block, none is derived for the others.
Status check_told_blocks(const std::vector<CacheSpec>& specs) {
  for (const CacheSpec& spec : specs) {
    if (spec.block_tokens == 0)
      return invalid("layer %u: block_size is missing; other layers tell theirs, so it must be at least 1", spec.layer);
  }
  return {};
}

}  // namespace

Result<Arrangement> arrange_in_blocks(const PlanInput& input, std::vector<RankCache>* caches) {
  const std::vector<Pack> packs = make_packs(input, *caches);
  std::vector<CacheSpec> specs;
  std::vector<FamilyPages> families;
  std::vector<uint32_t> first;
  std::vector<uint32_t> stages;
  bool told = false;
  for (const Pack& pack : packs) {
    const RankCache& cache = (*caches)[pack.caches[0]];
    specs.push_back(pack.spec);
    families.push_back(input.model->caches()[cache.cache].facts.family);
    first.push_back(cache.cache);
    stages.push_back(pack.stage);
    told |= cache.told;
  }
  if (told) {
    QUIRE_RETURN_IF_ERROR(check_told_blocks(specs));
  } else {
    QUIRE_RETURN_IF_ERROR(derive_blocks(input, families, &specs));
  }
  auto grouping = group_specs(input, &specs);
  if (!grouping.ok()) return grouping.take_status();
  Arrangement out;
  out.uniform_type = grouping->one_uniform_type();
  for (const std::vector<uint32_t>& list : grouping->groups) {
    Arrangement::Group group = make_group(input, packs, list, caches);
    group.block_tokens = specs[list[0]].block_tokens;
    QUIRE_RETURN_IF_ERROR(fit_kernel_block(input, &group, caches, &out.notes));
    group.keeps_everything = std::any_of(list.begin(), list.end(), [&](uint32_t i) { return keeps_every_token(specs[i].family); });
    for (const uint32_t i : list) group.retained = std::max(group.retained, group.keeps_everything ? 0 : specs[i].extra_retained);
    out.groups.push_back(std::move(group));
  }
  for (uint32_t stage = 0; stage < input.pipeline_parallel; ++stage) {
    std::vector<bool> mine(packs.size());
    for (size_t i = 0; i < packs.size(); ++i) mine[i] = packs[i].stage == stage;
    const uint64_t bytes = pool_bytes_per_block(specs, *grouping, mine);
    out.min_page_bytes.push_back(round_up(std::min(bytes, kMaxSize / 2), std::max<uint64_t>(input.page_alignment, 1)));
  }
  if (input.is_published()) {
    out.sizing = size_stages(input, std::move(specs), std::move(*grouping), std::move(first), stages);
    const Status& refused = out.sizing->refused;
    if (input.rules == Rules::kUpstream && !refused.ok()) return Status(refused.code(), refused.message());
  }
  return out;
}

}  // namespace quire
