#include "core/plan/grouping.h"

#include <algorithm>
#include <cinttypes>

#include "core/base/checked.h"

namespace quire {
namespace {

bool same_shape(const CacheSpec& a, const CacheSpec& b) {
  return a.family == b.family && a.block_tokens == b.block_tokens && a.token_bytes == b.token_bytes && a.state_bytes == b.state_bytes &&
         a.padded_page == b.padded_page && a.range == b.range && a.extra_blocks == b.extra_blocks && a.strided_blocks == b.strided_blocks &&
         a.identity == b.identity;
}

bool same(const CacheSpec& a, const CacheSpec& b) {
  return same_shape(a, b) && a.told_window == b.told_window && a.told_chunk == b.told_chunk;
}

enum class Merge { kYes, kNo, kConflict };

// Whether layers can share one spec. Full layers merge although they tell different ranges, as long as at most one window and chunk is
// told.
Merge merge(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& list) {
  const CacheSpec& first = specs[list[0]];
  if (first.family != CacheFamily::kFull) {
    const bool equal = std::all_of(list.begin(), list.end(), [&](uint32_t i) { return same(specs[i], first); });
    return equal ? Merge::kYes : Merge::kNo;
  }
  uint64_t window = 0;
  uint64_t chunk = 0;
  bool equal = true;
  bool conflict = false;
  for (const uint32_t i : list) {
    const CacheSpec& spec = specs[i];
    if (spec.family != CacheFamily::kFull) return Merge::kNo;
    conflict |= (spec.told_window != 0 && window != 0 && spec.told_window != window) ||
                (spec.told_chunk != 0 && chunk != 0 && spec.told_chunk != chunk);
    if (spec.told_window != 0) window = spec.told_window;
    if (spec.told_chunk != 0) chunk = spec.told_chunk;
    equal &= same_shape(spec, first);
  }
  if (conflict) return Merge::kConflict;
  return equal && (window == 0 || chunk == 0) ? Merge::kYes : Merge::kNo;
}

bool full_family(CacheFamily family) { return family == CacheFamily::kFull || family == CacheFamily::kLatent; }

// One block length and one live range, though pages may differ in size. The first layer decides.
bool uniform_type(const std::vector<CacheSpec>& specs) {
  const CacheSpec& first = specs[0];
  return std::all_of(specs.begin(), specs.end(), [&](const CacheSpec& spec) {
    if (spec.block_tokens != first.block_tokens) return false;
    if (full_family(first.family)) return full_family(spec.family);
    return spec.family == first.family && spec.range == first.range && spec.extra_blocks == first.extra_blocks;
  });
}

// Brings every page to the size of the largest: attention blocks are scaled when that divides, otherwise pages are padded.
Status unify_pages(std::vector<CacheSpec>* specs) {
  const CacheSpec* largest = &specs->front();
  for (const CacheSpec& spec : *specs) {
    if (spec.page_bytes() > largest->page_bytes()) largest = &spec;
  }
  const uint64_t page = largest->page_bytes();
  const uint32_t large_layer = largest->layer;
  for (CacheSpec& spec : *specs) {
    const uint64_t own = spec.page_bytes();
    if (own == page) continue;
    const bool is_state = spec.family == CacheFamily::kState;
    if (!is_state && page % own == 0) {
      if (spec.padded_page != 0) {
        return fail(QUIRE_NOT_REPRESENTABLE,
                    "layer %u: its page is padded to %" PRIu64 " bytes already and cannot grow to the %" PRIu64 " bytes of layer %u",
                    spec.layer, own, page, large_layer);
      }
      spec.block_tokens *= page / own;
    } else if (is_state || spec.strided_blocks) {
      spec.padded_page = page;
    } else {
      return fail(QUIRE_NOT_REPRESENTABLE, "layers %u and %u: pages of %" PRIu64 " and %" PRIu64 " bytes, none a multiple of the other",
                  spec.layer, large_layer, own, page);
    }
  }
  return {};
}

std::vector<std::vector<uint32_t>> buckets_of(const std::vector<CacheSpec>& specs) {
  std::vector<std::vector<uint32_t>> equal;
  for (uint32_t i = 0; i < specs.size(); ++i) {
    const auto it = std::find_if(equal.begin(), equal.end(), [&](const auto& bucket) { return same(specs[bucket[0]], specs[i]); });
    if (it != equal.end()) {
      it->push_back(i);
    } else {
      equal.push_back({i});
    }
  }
  std::vector<std::vector<uint32_t>> merged;
  for (const std::vector<uint32_t>& bucket : equal) {
    bool absorbed = false;
    for (std::vector<uint32_t>& earlier : merged) {
      std::vector<uint32_t> both = earlier;
      both.insert(both.end(), bucket.begin(), bucket.end());
      if (merge(specs, both) != Merge::kYes) continue;
      earlier = std::move(both);
      absorbed = true;
      break;
    }
    if (!absorbed) merged.push_back(bucket);
  }
  return merged;
}

bool has_family(const std::vector<CacheSpec>& specs, CacheFamily family) {
  return std::any_of(specs.begin(), specs.end(), [family](const CacheSpec& spec) { return spec.family == family; });
}

std::vector<uint32_t> all_of(const std::vector<CacheSpec>& specs) {
  std::vector<uint32_t> all(specs.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

Status keep_everything(std::vector<CacheSpec>* specs) {
  const auto one_table = [specs] { return merge(*specs, all_of(*specs)) == Merge::kYes || uniform_type(*specs); };
  if (specs->empty() || one_table()) return {};
  uint64_t block = 0;  // of the full layers, when they agree
  bool agree = true;
  for (const CacheSpec& spec : *specs) {
    if (!full_family(spec.family)) continue;
    agree &= block == 0 || block == spec.block_tokens;
    block = spec.block_tokens;
  }
  const bool ranges = has_family(*specs, CacheFamily::kWindow) || has_family(*specs, CacheFamily::kChunk);
  if (block != 0 && ranges) {
    for (CacheSpec& spec : *specs) {
      if (spec.family != CacheFamily::kWindow && spec.family != CacheFamily::kChunk) continue;
      (spec.family == CacheFamily::kWindow ? spec.told_window : spec.told_chunk) = spec.range;
      spec.family = CacheFamily::kFull;
      spec.range = 0;
      if (spec.padded_page != 0 && agree) spec.padded_page = std::max(spec.padded_page, block * spec.token_bytes);
      if (agree) spec.block_tokens = block;
    }
  }
  const Merge merged = merge(*specs, all_of(*specs));
  if (merged == Merge::kConflict) return invalid("layers that keep everything tell different windows or chunks");
  if (merged == Merge::kYes || uniform_type(*specs)) return {};
  return invalid("layers of %zu specs cannot share one table, even when windows keep everything", specs->size());
}

Result<Grouping> group_layers(std::vector<CacheSpec>* specs) {
  Grouping out;
  if (specs->empty()) return out;
  std::vector<uint32_t> all = all_of(*specs);
  const Merge one = merge(*specs, all);
  if (one == Merge::kConflict) return invalid("layers that keep everything tell different windows or chunks");
  out.uniform_type = one != Merge::kYes && uniform_type(*specs);
  if (one == Merge::kYes || out.uniform_type) {
    out.groups.push_back(std::move(all));
    return out;
  }
  std::vector<CacheSpec> given = *specs;
  if (Status status = unify_pages(specs); !status.ok()) {
    // Latent caches beside windows: rather keep everything in one table than refuse.
    const bool fallback =
        has_family(given, CacheFamily::kLatent) && has_family(given, CacheFamily::kWindow) && !has_family(given, CacheFamily::kChunk);
    if (!fallback || !keep_everything(&given).ok()) return status;
    *specs = std::move(given);
    out.uniform_type = true;
    out.groups.push_back(std::move(all));
    return out;
  }
  const std::vector<std::vector<uint32_t>> buckets = buckets_of(*specs);
  uint64_t low = buckets[0].size();
  uint64_t high = low;
  for (const auto& bucket : buckets) {
    low = std::min<uint64_t>(low, bucket.size());
    high = std::max<uint64_t>(high, bucket.size());
  }
  const uint64_t length = 2 * high < 3 * low ? high : low;
  for (const auto& bucket : buckets) {
    const uint64_t n = ceil_div(bucket.size(), length);
    for (uint64_t i = 0; i < n; ++i) {
      std::vector<uint32_t> group;
      for (uint64_t k = i; k < bucket.size(); k += n) group.push_back(bucket[k]);  // strided: every pipeline stage gets its share
      out.groups.push_back(std::move(group));
    }
  }
  return out;
}

uint64_t pool_bytes_per_block(const std::vector<CacheSpec>& specs, const Grouping& grouping, const std::vector<bool>& mine) {
  uint64_t most = 0;
  for (const auto& group : grouping.groups) {
    uint64_t bytes = 0;
    for (const uint32_t i : group) bytes = checked_add(bytes, mine[i] ? specs[i].page_bytes() : 0).value_or(kMaxSize);
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace quire
