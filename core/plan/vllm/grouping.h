// Policy vllm: which layers share block tables. Pure functions over per-layer specs, in the steps of the published algorithm.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/model/cache_spec.h"
#include "core/plan/rules.h"

namespace quire {

struct Grouping {
  std::vector<std::vector<uint32_t>> groups;  // indices into specs; group ids follow the first appearance
  std::vector<bool> uniform_type;             // by group: layers whose pages may differ in size
  std::vector<CacheSpec> merged;              // by group: what its layers have in common; of a uniform type, the first layer's

  bool one_uniform_type() const { return groups.size() == 1 && uniform_type[0]; }
  bool all_uniform_type() const {
    return !groups.empty() && std::all_of(uniform_type.begin(), uniform_type.end(), [](bool one) { return one; });
  }
};

// Whether two layers are described alike in every field.
bool same_spec(const CacheSpec& a, const CacheSpec& b);

// Turns windows and chunks into full layers that tell their range, so that all layers can share one table. Nothing happens when they can
// already. Errors: INVALID_ARGUMENT when no full layer is there or layers still differ in kind.
Status keep_everything(std::vector<CacheSpec>* specs, Rules rules = Rules::kRight);

// Groups layers; unifies page sizes in place (blocks scaled, pages padded) when there are several groups.
// Errors: INVALID_ARGUMENT (a layer that keeps nothing; kUpstream: told windows that differ), NOT_REPRESENTABLE (page sizes that cannot be
// unified; names two layers). one_table: all layers keep everything (keep_everything was called), so sinks and prefix windows beside other
// full layers share their table; each layer keeps its own.
Result<Grouping> group_layers(std::vector<CacheSpec>* specs, Rules rules = Rules::kRight, bool one_table = false);

// Groups that draft layers write ahead of what is committed, by group: the last layer's, where groups are cut into tuples and the model's
// draft layers write there.
std::vector<bool> drafted_groups(const std::vector<CacheSpec>& specs, const Grouping& grouping);

// The divisor that wastes least: d in [low, max of counts] with the smallest sum of what each count lacks to a multiple of d; ties go to
// the larger. counts: not empty.
uint64_t common_length(const std::vector<uint64_t>& counts, uint64_t low);

// How often the most common page size occurs among layers.
uint64_t most_common_page(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& layers);

}  // namespace quire
