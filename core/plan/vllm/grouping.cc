#include "core/plan/vllm/grouping.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <numeric>
#include <string>

namespace quire {
namespace {

// What a spec says about its page beside its rows.
uint64_t told_page(const CacheSpec& spec) { return spec.alignment != 0 ? spec.page_bytes() : spec.padded_page; }

bool same_fields(const CacheSpec& a, const CacheSpec& b) {
  return a.block_tokens == b.block_tokens && a.row_bytes == b.row_bytes && a.state_bytes == b.state_bytes && told_page(a) == told_page(b) &&
         a.strided_blocks == b.strided_blocks && a.identity == b.identity;
}

bool same_format(const CacheSpec& a, const CacheSpec& b) { return a.tokens_per_row == b.tokens_per_row && a.format == b.format; }

bool same(const CacheSpec& a, const CacheSpec& b) {
  return same_fields(a, b) && same_format(a, b) && a.family == b.family && a.alignment == b.alignment && a.padded_page == b.padded_page &&
         a.range == b.range && a.extra_retained == b.extra_retained && a.sink_tokens == b.sink_tokens && a.told_window == b.told_window &&
         a.told_chunk == b.told_chunk && a.extra_blocks == b.extra_blocks && a.state_mode == b.state_mode && a.non_causal == b.non_causal;
}

enum class Merge { kYes, kNo, kConflict };

class Merger {
 public:
  Merger(const std::vector<CacheSpec>& specs, Rules rules) : specs_(specs), rules_(rules) {}

  // Whether layers can share one spec; the first one decides by which rule.
  Merge check(const std::vector<uint32_t>& list) const {
    const CacheSpec& first = specs_[list[0]];
    switch (first.family) {
      case CacheFamily::kFull:
      case CacheFamily::kSink:
        return full(list);
      case CacheFamily::kTrailing:
        return all(list, [&](const CacheSpec& spec) {
          return spec.family == first.family && spec.range == first.range && same_fields(spec, first);
        });
      case CacheFamily::kLatent:
      case CacheFamily::kHidden:
        return all(list, [&](const CacheSpec& spec) {
          const bool kind = rules_ == Rules::kUpstream ? is_latent(spec.family) : spec.family == first.family;
          return kind && same_format(spec, first) && same_fields(spec, first);
        });
      case CacheFamily::kLatentWindow:
        return all(list, [&](const CacheSpec& spec) {
          return spec.family == first.family && spec.range == first.range && spec.extra_retained == first.extra_retained &&
                 spec.sink_tokens == first.sink_tokens && same_format(spec, first) && same_fields(spec, first);
        });
      default:
        return all(list, [&](const CacheSpec& spec) { return same(spec, first); });
    }
  }

  // What merged layers have in common.
  CacheSpec merged(const std::vector<uint32_t>& list) const {
    CacheSpec out = specs_[list[0]];
    for (const uint32_t i : list) {
      out.non_causal |= specs_[i].non_causal;
      out.told_window = std::max(out.told_window, specs_[i].told_window);
      out.told_chunk = std::max(out.told_chunk, specs_[i].told_chunk);
    }
    if (out.alignment != 0) out.padded_page = out.page_bytes();
    if (is_latent(out.family) || out.family == CacheFamily::kLatentWindow) out.alignment = 0;
    return out;
  }

 private:
  template <typename Test>
  Merge all(const std::vector<uint32_t>& list, Test&& test) const {
    return std::all_of(list.begin(), list.end(), [&](uint32_t i) { return test(specs_[i]); }) ? Merge::kYes : Merge::kNo;
  }

  // Full layers merge although they tell different ranges, as long as at most one window and chunk is told.
  Merge full(const std::vector<uint32_t>& list) const {
    const CacheSpec& first = specs_[list[0]];
    uint64_t window = 0;
    uint64_t chunk = 0;
    bool equal = true;
    bool conflict = false;
    for (const uint32_t i : list) {
      const CacheSpec& spec = specs_[i];
      if (!keeps_every_token(spec.family) || is_latent(spec.family)) return Merge::kNo;
      if (rules_ == Rules::kRight && (spec.family != first.family || spec.sink_tokens != first.sink_tokens)) return Merge::kNo;
      conflict |= (spec.told_window != 0 && window != 0 && spec.told_window != window) ||
                  (spec.told_chunk != 0 && chunk != 0 && spec.told_chunk != chunk);
      if (spec.told_window != 0) window = spec.told_window;
      if (spec.told_chunk != 0) chunk = spec.told_chunk;
      equal &= same_fields(spec, first);
    }
    if (conflict) return rules_ == Rules::kUpstream ? Merge::kConflict : Merge::kNo;
    return equal && (window == 0 || chunk == 0) ? Merge::kYes : Merge::kNo;
  }

  const std::vector<CacheSpec>& specs_;
  Rules rules_;
};

// Whether a table that keeps the tokens one layer reads keeps those of the other. A table has one live range; a layer that reads more than
// its table keeps would meet the null page.
bool keeps_same_tokens(const CacheSpec& a, const CacheSpec& b) {
  if (keeps_every_token(a.family)) return keeps_every_token(b.family);
  return a.range == b.range && a.sink_tokens == b.sink_tokens && a.extra_retained == b.extra_retained;
}

// One block length and one live range, though pages may differ in size. The first layer decides. kUpstream compares windows alone.
bool is_uniform_type(const std::vector<CacheSpec>& specs, Rules rules) {
  const CacheSpec& first = specs[0];
  return std::all_of(specs.begin(), specs.end(), [&](const CacheSpec& spec) {
    if (spec.block_tokens != first.block_tokens) return false;
    if (rules == Rules::kRight && !keeps_same_tokens(spec, first)) return false;
    if (keeps_every_token(first.family)) return keeps_every_token(spec.family);
    if (first.family == CacheFamily::kWindow) return is_window(spec.family) && spec.range == first.range;
    if (first.family == CacheFamily::kState) return spec.family == first.family && spec.extra_blocks == first.extra_blocks;
    return spec.family == first.family && spec.range == first.range;
  });
}

// Two caches for messages; those of one layer are told apart by their sub.
std::string pair_of(const CacheSpec& a, const CacheSpec& b) {
  if (a.layer != b.layer) return "layers " + std::to_string(a.layer) + " and " + std::to_string(b.layer);
  return "layer " + std::to_string(a.layer) + ": caches " + std::to_string(a.sub) + " and " + std::to_string(b.sub);
}

// Names the first two layers that keep everything and tell windows or chunks that differ.
Status differing_ranges(const std::vector<CacheSpec>& specs) {
  const auto of = [](const CacheSpec& spec, bool chunk) { return chunk ? spec.told_chunk : spec.told_window; };
  for (const bool chunk : {false, true}) {
    const CacheSpec* first = nullptr;
    for (const CacheSpec& spec : specs) {
      if (!keeps_every_token(spec.family) || of(spec, chunk) == 0) continue;
      if (first == nullptr) first = &spec;
      if (of(spec, chunk) == of(*first, chunk)) continue;
      return invalid("%s keep everything but tell %s of %" PRIu64 " and %" PRIu64 "; must be equal", pair_of(*first, spec).c_str(),
                     chunk ? "chunks" : "windows", of(*first, chunk), of(spec, chunk));
    }
  }
  return invalid("layers that keep everything tell different windows or chunks; must be equal");
}

// Brings one page to `page` bytes. kUpstream: a block cannot be scaled when its page was padded before.
Status unify_page(CacheSpec* spec, uint64_t page, const CacheSpec& largest, Rules rules) {
  const uint64_t own = spec->page_bytes();
  if (own == page) return {};
  if (spec->keeps_tokens() && own != 0 && page % own == 0) {
    const bool padded = spec->padded_page != 0;
    if (!padded || rules == Rules::kRight) {
      const uint64_t factor = page / own;
      spec->block_tokens *= factor;
      if (padded) spec->padded_page *= factor;
      if (spec->page_bytes() == page) return {};
    }
    return invalid("%s: the page of the first is padded to %" PRIu64 " bytes already and cannot grow to the %" PRIu64 " of the other",
                   pair_of(*spec, largest).c_str(), own, page);
  }
  if (spec->keeps_tokens() && !spec->strided_blocks) {
    return fail(QUIRE_NOT_REPRESENTABLE, "%s: pages of %" PRIu64 " and %" PRIu64 " bytes, none a multiple of the other",
                pair_of(*spec, largest).c_str(), own, page);
  }
  if (spec->alignment != 0 && rules == Rules::kUpstream) {
    return invalid("layer %u: its page is aligned to %" PRIu64 " bytes and cannot be padded to %" PRIu64, spec->layer, spec->alignment,
                   page);
  }
  spec->alignment = 0;
  spec->padded_page = page;
  return {};
}

// Brings every page to the size of the largest: attention blocks are scaled when that divides, otherwise pages are padded.
Status unify_pages(std::vector<CacheSpec>* specs, const std::vector<uint32_t>& list, Rules rules) {
  uint32_t at = list[0];
  for (const uint32_t i : list) {
    if ((*specs)[i].page_bytes() > (*specs)[at].page_bytes()) at = i;
  }
  const CacheSpec largest = (*specs)[at];
  for (const uint32_t i : list) QUIRE_RETURN_IF_ERROR(unify_page(&(*specs)[i], largest.page_bytes(), largest, rules));
  return {};
}

// Layers whose specs merge, in the order of their first appearance.
std::vector<std::vector<uint32_t>> buckets_of(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& list, Rules rules) {
  std::vector<std::vector<uint32_t>> equal;
  for (const uint32_t i : list) {
    const auto it = std::find_if(equal.begin(), equal.end(), [&](const auto& bucket) { return same(specs[bucket[0]], specs[i]); });
    if (it != equal.end()) {
      it->push_back(i);
    } else {
      equal.push_back({i});
    }
  }
  const Merger merger(specs, rules);
  std::vector<std::vector<uint32_t>> merged;
  for (const std::vector<uint32_t>& bucket : equal) {
    bool absorbed = false;
    for (std::vector<uint32_t>& earlier : merged) {
      std::vector<uint32_t> both = earlier;
      both.insert(both.end(), bucket.begin(), bucket.end());
      if (merger.check(both) != Merge::kYes) continue;
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
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

void add_group(Grouping* out, std::vector<uint32_t> layers, bool uniform, CacheSpec merged) {
  out->groups.push_back(std::move(layers));
  out->uniform_type.push_back(uniform);
  out->merged.push_back(std::move(merged));
}

// Every n-th layer of a list, from the i-th on: every pipeline stage gets its share.
std::vector<uint32_t> strided(const std::vector<uint32_t>& list, uint64_t i, uint64_t n) {
  std::vector<uint32_t> out;
  for (uint64_t k = i; k < list.size(); k += n) out.push_back(list[k]);
  return out;
}

void group_by_length(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& list, Rules rules, Grouping* out) {
  const Merger merger(specs, rules);
  const std::vector<std::vector<uint32_t>> buckets = buckets_of(specs, list, rules);
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
      std::vector<uint32_t> group = strided(bucket, i, n);
      CacheSpec merged = merger.merged(group);
      add_group(out, std::move(group), false, std::move(merged));
    }
  }
}

// Hidden states: a group each, with the longest block that divides the others' and fits the common page.
void group_hidden(std::vector<CacheSpec>* specs, const std::vector<uint32_t>& hidden, Grouping* out) {
  uint64_t unit = 0;
  for (const CacheSpec& group : out->merged) unit = std::gcd(unit, group.block_tokens);
  const uint64_t page = out->merged[0].page_bytes();
  for (const uint32_t i : hidden) {
    CacheSpec& spec = (*specs)[i];
    uint64_t block = std::min(unit, std::max<uint64_t>(page / std::max<uint64_t>(spec.row_bytes, 1), 1));
    while (unit % block != 0) --block;
    spec.block_tokens = block;
    spec.alignment = 0;
    spec.padded_page = page;
    add_group(out, {i}, false, spec);
  }
}

// Layers by a key, in the order of first appearance.
template <typename Same>
std::vector<std::vector<uint32_t>> parted(const std::vector<uint32_t>& layers, Same&& alike) {
  std::vector<std::vector<uint32_t>> out;
  for (const uint32_t i : layers) {
    const auto it = std::find_if(out.begin(), out.end(), [&](const auto& list) { return alike(list[0], i); });
    if (it != out.end()) {
      it->push_back(i);
    } else {
      out.push_back({i});
    }
  }
  return out;
}

// Latent windows by block and range. Where their pages differ in number, tuples cannot be made: kUpstream refuses, else they are parted.
Result<std::vector<std::vector<uint32_t>>> window_buckets(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& windows,
                                                          Rules rules) {
  const auto one_table = [&](uint32_t a, uint32_t b) {
    return specs[a].block_tokens == specs[b].block_tokens && specs[a].range == specs[b].range &&
           (rules == Rules::kUpstream || keeps_same_tokens(specs[a], specs[b]));
  };
  std::vector<std::vector<uint32_t>> out;
  for (auto& bucket : parted(windows, one_table)) {
    auto by_page = parted(bucket, [&](uint32_t a, uint32_t b) { return specs[a].page_bytes() == specs[b].page_bytes(); });
    const auto other = std::find_if(by_page.begin(), by_page.end(), [&](const auto& list) { return list.size() != by_page[0].size(); });
    if (other == by_page.end()) {
      out.push_back(std::move(bucket));
      continue;
    }
    if (rules == Rules::kUpstream) {
      return invalid("%s: %zu and %zu layers of their page sizes; tuples need equal numbers",
                     pair_of(specs[by_page[0][0]], specs[(*other)[0]]).c_str(), by_page[0].size(), other->size());
    }
    for (auto& list : by_page) out.push_back(std::move(list));
  }
  return out;
}

// Windows of one length whose layers keep different tokens before it, and which no groups can be made of: one table keeps what any of them
// reads.
void share_table(const std::vector<CacheSpec>& specs, Grouping* out) {
  CacheSpec shared = specs[0];
  for (const CacheSpec& spec : specs) {
    shared.sink_tokens = std::max(shared.sink_tokens, spec.sink_tokens);
    shared.extra_retained = std::max(shared.extra_retained, spec.extra_retained);
  }
  *out = {};
  add_group(out, all_of(specs), true, shared);
}

// Cuts a bucket into groups of about `length` tuples. A tuple has one layer of every page size.
void group_tuples(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& bucket, uint64_t length, Grouping* out) {
  const auto by_page = parted(bucket, [&](uint32_t a, uint32_t b) { return specs[a].page_bytes() == specs[b].page_bytes(); });
  const uint64_t n = ceil_div(by_page[0].size(), length);
  for (uint64_t i = 0; i < n; ++i) {
    std::vector<uint32_t> group;
    for (uint64_t k = i; k < by_page[0].size(); k += n) {
      for (const auto& list : by_page) group.push_back(list[k]);
    }
    const CacheSpec& first = specs[group[0]];
    add_group(out, std::move(group), true, first);
  }
}

// Latent caches beside latent windows: one group of all latent caches, and the windows cut into groups of about as many layer tuples.
Status group_latent_windows(const std::vector<CacheSpec>& specs, Rules rules, Grouping* out) {
  std::vector<uint32_t> latent;
  std::vector<uint32_t> windows;
  for (uint32_t i = 0; i < specs.size(); ++i) {
    if (!is_latent(specs[i].family) && specs[i].family != CacheFamily::kLatentWindow) {
      return invalid("layer %u: latent windows cannot be grouped beside layers of other kinds", specs[i].layer);
    }
    (is_latent(specs[i].family) ? latent : windows).push_back(i);
  }
  if (latent.empty()) {
    return invalid("layer %u: latent windows of several page sizes need a latent layer that keeps everything", specs[0].layer);
  }
  for (const uint32_t i : latent) {
    if (specs[i].block_tokens == specs[latent[0]].block_tokens) continue;
    return invalid("%s: latent layers have blocks of %" PRIu64 " and %" PRIu64 " tokens", pair_of(specs[latent[0]], specs[i]).c_str(),
                   specs[latent[0]].block_tokens, specs[i].block_tokens);
  }
  auto buckets = window_buckets(specs, windows, rules);
  if (!buckets.ok()) return buckets.take_status();
  std::vector<uint64_t> counts{most_common_page(specs, latent)};
  for (const auto& bucket : *buckets) counts.push_back(most_common_page(specs, bucket));
  const uint64_t length = common_length(counts, counts[0]);
  add_group(out, latent, true, specs[latent[0]]);
  for (const auto& bucket : *buckets) group_tuples(specs, bucket, length, out);
  return {};
}

bool pages_differ(const std::vector<CacheSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(), [&](const CacheSpec& spec) { return spec.page_bytes() != specs[0].page_bytes(); });
}

// What is done when all layers can share one table. kNo: nothing was done.
Merge group_as_one(const std::vector<CacheSpec>& specs, Rules rules, bool one_table, Grouping* out) {
  const Merger merger(specs, rules);
  const std::vector<uint32_t> all = all_of(specs);
  const Merge merged = merger.check(all);
  if (merged == Merge::kYes) add_group(out, all, false, merger.merged(all));
  if (merged != Merge::kNo) return merged;
  const bool ranges_differ = rules == Rules::kRight && !one_table && std::any_of(specs.begin(), specs.end(), [&](const CacheSpec& spec) {
                               return spec.sink_tokens != specs[0].sink_tokens ||
                                      (spec.family == CacheFamily::kTrailing) != (specs[0].family == CacheFamily::kTrailing);
                             });
  if (ranges_differ || !is_uniform_type(specs, rules)) return Merge::kNo;
  add_group(out, all, true, specs[0]);
  return Merge::kYes;
}

}  // namespace

bool same_spec(const CacheSpec& a, const CacheSpec& b) { return same(a, b); }

std::vector<bool> drafted_groups(const std::vector<CacheSpec>& specs, const Grouping& grouping) {
  std::vector<bool> out(grouping.groups.size());
  const bool drafts = std::any_of(specs.begin(), specs.end(), [](const CacheSpec& spec) { return spec.drafts_in_last; });
  if (!drafts || grouping.groups.size() < 2 || !grouping.all_uniform_type()) return out;
  const uint32_t last = static_cast<uint32_t>(specs.size() - 1);
  for (size_t g = 0; g < out.size(); ++g) {
    const std::vector<uint32_t>& group = grouping.groups[g];
    out[g] = std::find(group.begin(), group.end(), last) != group.end();
  }
  return out;
}

uint64_t common_length(const std::vector<uint64_t>& counts, uint64_t low) {
  uint64_t best = std::max<uint64_t>(low, 1);
  uint64_t least = kMaxSize;
  for (uint64_t d = best; d <= std::max(best, *std::max_element(counts.begin(), counts.end())); ++d) {
    uint64_t lacks = 0;
    for (const uint64_t count : counts) lacks += round_up(count, d) - count;
    if (lacks > least) continue;
    least = lacks;
    best = d;
  }
  return best;
}

uint64_t most_common_page(const std::vector<CacheSpec>& specs, const std::vector<uint32_t>& layers) {
  std::map<uint64_t, uint64_t> counts;
  uint64_t most = 0;
  for (const uint32_t i : layers) most = std::max(most, ++counts[specs[i].page_bytes()]);
  return most;
}

Status keep_everything(std::vector<CacheSpec>* specs, Rules rules) {
  if (specs->empty()) return {};
  const auto one_table = [&] { return Merger(*specs, rules).check(all_of(*specs)) == Merge::kYes || is_uniform_type(*specs, rules); };
  if (one_table()) return {};
  uint64_t block = 0;  // of the full layers, when they agree
  bool agree = true;
  bool ranges = false;
  for (const CacheSpec& spec : *specs) {
    ranges |= is_window(spec.family) || spec.family == CacheFamily::kChunk;
    if (!keeps_every_token(spec.family)) continue;
    agree &= block == 0 || block == spec.block_tokens;
    block = spec.block_tokens;
  }
  for (CacheSpec& spec : *specs) {
    const bool chunk = spec.family == CacheFamily::kChunk;
    if (block == 0 || !ranges || (!is_window(spec.family) && !chunk)) continue;
    (chunk ? spec.told_chunk : spec.told_window) = spec.range;
    spec.family = spec.family == CacheFamily::kLatentWindow ? CacheFamily::kLatent : CacheFamily::kFull;
    spec.range = 0;
    spec.extra_retained = 0;
    if (!agree) continue;
    const uint64_t scaled = spec.unpadded_page() / spec.block_tokens * block;
    if (spec.padded_page != 0) spec.padded_page = std::max(spec.padded_page, scaled);
    spec.block_tokens = block;
  }
  if (Merger(*specs, rules).check(all_of(*specs)) == Merge::kConflict) {
    return differing_ranges(*specs);
  }
  if (one_table()) return {};
  const auto other = std::find_if(specs->begin(), specs->end(), [&](const CacheSpec& spec) {
    return Merger(*specs, rules).check({0, static_cast<uint32_t>(&spec - specs->data())}) != Merge::kYes;
  });
  return invalid("%s cannot share one table, even when windows keep everything",
                 pair_of(specs->front(), other != specs->end() ? *other : specs->back()).c_str());
}

Result<Grouping> group_layers(std::vector<CacheSpec>* specs, Rules rules, bool one_table) {
  Grouping out;
  if (specs->empty()) return out;
  for (const CacheSpec& spec : *specs) {
    if (spec.family == CacheFamily::kEncoder) return invalid("layer %u: it keeps nothing, so it belongs to no group", spec.layer);
  }
  const Merge one = group_as_one(*specs, rules, one_table, &out);
  if (one == Merge::kConflict) return differing_ranges(*specs);
  if (one == Merge::kYes) return out;
  if (has_family(*specs, CacheFamily::kLatentWindow) && pages_differ(*specs)) {
    Status status = group_latent_windows(*specs, rules, &out);
    if (!status.ok() && !is_uniform_type(*specs, Rules::kUpstream)) return status;
    if (!status.ok()) share_table(*specs, &out);
    return out;
  }
  std::vector<uint32_t> hidden;
  std::vector<uint32_t> others;
  for (const uint32_t i : all_of(*specs)) ((*specs)[i].family == CacheFamily::kHidden ? hidden : others).push_back(i);
  std::vector<CacheSpec> given = *specs;
  if (Status status = unify_pages(specs, others, rules); !status.ok()) {
    if (is_uniform_type(given, Rules::kUpstream)) {
      *specs = std::move(given);
      share_table(*specs, &out);
      return out;
    }
    // Latent caches beside windows: rather keep everything in one table than refuse.
    const bool fallback = status.code() == QUIRE_NOT_REPRESENTABLE && hidden.empty() && has_family(given, CacheFamily::kLatent) &&
                          has_family(given, CacheFamily::kWindow) && !has_family(given, CacheFamily::kLatentWindow) &&
                          !has_family(given, CacheFamily::kChunk);
    if (!fallback || !keep_everything(&given, rules).ok() || !is_uniform_type(given, rules)) return status;
    *specs = std::move(given);
    add_group(&out, all_of(*specs), true, specs->front());
    return out;
  }
  group_by_length(*specs, others, rules, &out);
  group_hidden(specs, hidden, &out);
  return out;
}

}  // namespace quire
