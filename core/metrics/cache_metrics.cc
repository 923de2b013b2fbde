// Of caches: quire_cache_stats and what is known of the plan. Counters of a scraper must not fall, so
// what was aborted counts as what was admitted.
#include "core/metrics/fields.h"
#include "core/metrics/labels.h"
#include "core/metrics/write_metrics.h"

namespace quire {
namespace {

using CacheStats = quire_cache_stats;

constexpr MetricFamily kPages = {"pages", kGauge, "", "Pages of the pool, without the null page."};
constexpr MetricFamily kParts = {"parts", kGauge, "", "Parts of pages: in use, cached, or holes in pages of a group."};
constexpr MetricFamily kMatches = {"prefix_cache_matches", kCounter, "",
                                   "Admitted prompts by why the match ended; none = nothing more could be reused."};

constexpr MetricField<CacheStats> kOfCache[] = {
    {{"kv_cache_usage_perc", kGauge, "", "Share of the pages in use, pinned or held, 1 = all. Cached pages count as free."},
     "",
     [](const CacheStats& s) {
       return s.pages_total <= 1 ? 0.0 : static_cast<double>(s.pages_used) / static_cast<double>(s.pages_total - 1);
     }},
    {kPages, "state=\"free\"", [](const CacheStats& s) { return double(s.pages_free); }},
    {kPages, "state=\"cached\"", [](const CacheStats& s) { return double(s.pages_evictable); }},
    {kPages, "state=\"used\"", [](const CacheStats& s) { return double(s.pages_used); }},
    {kParts, "state=\"used\"", [](const CacheStats& s) { return double(s.parts_used); }},
    {kParts, "state=\"cached\"", [](const CacheStats& s) { return double(s.parts_cached); }},
    {kParts, "state=\"hole\"", [](const CacheStats& s) { return double(s.part_holes); }},
    {{"sequences", kGauge, "", "Open sequences."}, "", [](const CacheStats& s) { return double(s.num_sequences); }},
    {{"index_units", kGauge, "", "Match units in the prefix index, and one for each identity."},
     "",
     [](const CacheStats& s) { return double(s.index_units); }},
    {{"prefix_cache_queries", kCounter, "", "Tokens of prompts that were looked up."},
     "",
     [](const CacheStats& s) { return double(s.matched_prompt_tokens + s.aborted_prompt_tokens); }},
    {{"prefix_cache_hits", kCounter, "", "Tokens of these prompts that were found."},
     "",
     [](const CacheStats& s) { return double(s.hit_tokens + s.aborted_hit_tokens); }},
    {kMatches, "miss=\"none\"",
     [](const CacheStats& s) { return double(s.miss_reasons[QUIRE_MISS_NONE] + s.aborted_miss_reasons[QUIRE_MISS_NONE]); }},
    {kMatches, "miss=\"unknown_prefix\"",
     [](const CacheStats& s) {
       return double(s.miss_reasons[QUIRE_MISS_UNKNOWN_PREFIX] + s.aborted_miss_reasons[QUIRE_MISS_UNKNOWN_PREFIX]);
     }},
    {kMatches, "miss=\"evicted\"",
     [](const CacheStats& s) { return double(s.miss_reasons[QUIRE_MISS_EVICTED] + s.aborted_miss_reasons[QUIRE_MISS_EVICTED]); }},
    {kMatches, "miss=\"no_state\"",
     [](const CacheStats& s) { return double(s.miss_reasons[QUIRE_MISS_NO_STATE] + s.aborted_miss_reasons[QUIRE_MISS_NO_STATE]); }},
    {kMatches, "miss=\"window_hole\"",
     [](const CacheStats& s) { return double(s.miss_reasons[QUIRE_MISS_WINDOW_HOLE] + s.aborted_miss_reasons[QUIRE_MISS_WINDOW_HOLE]); }},
    {kMatches, "miss=\"below_unit\"",
     [](const CacheStats& s) { return double(s.miss_reasons[QUIRE_MISS_BELOW_UNIT] + s.aborted_miss_reasons[QUIRE_MISS_BELOW_UNIT]); }},
    {kMatches, "miss=\"disabled\"",
     [](const CacheStats& s) { return double(s.miss_reasons[QUIRE_MISS_DISABLED] + s.aborted_miss_reasons[QUIRE_MISS_DISABLED]); }},
    {{"recompute_avoided_tokens", kCounter, "", "Tokens between the state that a match resumed from and the one before."},
     "",
     [](const CacheStats& s) { return double(s.recompute_avoided + s.aborted_recompute_avoided); }},
    {{"steps", kCounter, "", "Reserved steps, with those that were aborted."}, "", [](const CacheStats& s) { return double(s.steps); }},
    {{"aborted_steps", kCounter, "", "Steps that were aborted."}, "", [](const CacheStats& s) { return double(s.aborted_steps); }},
    {{"refused_entries", kCounter, "", "Entries of steps that were not admitted."},
     "",
     [](const CacheStats& s) { return double(s.refused_entries); }},
    {{"num_preemptions", kCounter, "", "Sequences that were preempted."}, "", [](const CacheStats& s) { return double(s.preemptions); }},
    {{"forks", kCounter, "", "Sequences that were forked."}, "", [](const CacheStats& s) { return double(s.forks); }},
    {{"block_copies", kCounter, "", "Blocks that were copied for a sequence that writes to a shared one."},
     "",
     [](const CacheStats& s) { return double(s.copies); }},
    {{"evicted_pages", kCounter, "", "Pages whose cached content was evicted."},
     "",
     [](const CacheStats& s) { return double(s.evicted_pages); }},
    {{"evicted_blocks", kCounter, "", "Cached blocks that were evicted, or forgotten by id."},
     "",
     [](const CacheStats& s) { return double(s.evicted_blocks); }},
    {{"page_hand_overs", kCounter, "", "Pages that moved from one group of layers to another."},
     "",
     [](const CacheStats& s) { return double(s.hand_overs); }},
    {{"checkpoints", kCounter, "", "Boundaries whose states were kept."}, "", [](const CacheStats& s) { return double(s.checkpoints); }},
    {{"checkpoints_given_up", kCounter, "", "Boundaries that lost a state to a newer one: checkpoint_bytes."},
     "",
     [](const CacheStats& s) { return double(s.checkpoints_given_up); }},
    {{"checkpoints_declined", kCounter, "", "Boundaries whose state was not kept: pinned ones fill checkpoint_bytes."},
     "",
     [](const CacheStats& s) { return double(s.checkpoints_declined); }},
    {{"checkpoint_bytes", kGauge, "bytes", "States that are kept now."},
     "",
     [](const CacheStats& s) { return double(s.checkpoint_bytes); }},
    {{"pins", kGauge, "", "Pins that are held."}, "", [](const CacheStats& s) { return double(s.pins); }},
    {{"pinned_tokens", kGauge, "", "Tokens of all pins."}, "", [](const CacheStats& s) { return double(s.pinned_tokens); }},
    {{"pins_given_up", kCounter, "", "Soft pins that were ended to make room."},
     "",
     [](const CacheStats& s) { return double(s.pins_given_up); }},
    {{"holds", kGauge, "", "Holds: blocks that stay while their bytes leave."}, "", [](const CacheStats& s) { return double(s.holds); }},
    {{"held_parts", kGauge, "", "Parts of all holds."}, "", [](const CacheStats& s) { return double(s.held_parts); }},
    {{"units_given_up", kCounter, "", "Units that were reported to be stored, and not taken."},
     "",
     [](const CacheStats& s) { return double(s.units_given_up); }},
    {{"loads", kGauge, "", "Loads in progress."}, "", [](const CacheStats& s) { return double(s.loads); }},
    {{"cache_host_bytes", kGauge, "bytes", "Memory of the bookkeeping, taken when the cache was created."},
     "",
     [](const CacheStats& s) { return double(s.host_bytes); }},
};

// vLLM's names: where a page is a block, it measures the same.
void write_residency(std::span<const Counted<CacheStats>> all, Exposition* out) {
  const auto write = [&](const MetricFamily& family, auto spans, auto sum) {
    out->begin(family);
    for (const Counted<CacheStats>& c : all) out->histogram(c.labels, c.stats.*spans, c.stats.*sum, Exposition::kResidency);
  };
  write({"kv_block_lifetime_seconds", MetricType::kHistogram, "seconds", "Of a sample of pages: from taken by a group to evicted."},
        &CacheStats::page_lifetime, &CacheStats::page_lifetime_ns);
  write({"kv_block_idle_before_evict_seconds", MetricType::kHistogram, "seconds", "Of these pages: from the last use to evicted."},
        &CacheStats::page_idle, &CacheStats::page_idle_ns);
  write({"kv_block_reuse_gap_seconds", MetricType::kHistogram, "seconds", "Of these pages: from a use to the next one."},
        &CacheStats::page_reuse_gap, &CacheStats::page_reuse_gap_ns);
}

// One group's pages make room for another's.
void write_group_pages(std::span<const MetricsSource> sources, Exposition* out) {
  out->begin({"group_pages", kGauge, "", "Pages of the pool by the group of layers that owns them."});
  for (const MetricsSource& source : sources) {
    if (source.cache == nullptr) continue;
    for (uint32_t g = 0; g < source.cache->config().groups.size(); ++g) {
      quire_group_stats stats{};
      if (!source.cache->group_stats(g, &stats).ok()) continue;
      for (const bool cached : {true, false}) {
        std::string labels = source.labels;
        add_label("group", std::to_string(g), &labels);
        add_label("state", cached ? "cached" : "used", &labels);
        out->sample(labels, static_cast<double>(cached ? stats.pages_cached : stats.pages_used));
      }
    }
  }
}

}  // namespace

void write_cache_metrics(std::span<const MetricsSource> sources, Exposition* out) {
  out->begin({"cache_config", MetricType::kInfo, "", "The plan."});
  std::vector<Counted<CacheStats>> all;
  for (const MetricsSource& source : sources) {
    if (source.cache == nullptr) continue;
    Counted<CacheStats>& counted = all.emplace_back(Counted<CacheStats>{source.labels, {}});
    counted.stats.struct_size = sizeof counted.stats;
    source.cache->stats(&counted.stats);
    const Config& config = source.cache->config();
    std::string labels = source.labels;
    add_label("policy", config.policy, &labels);
    add_label("num_groups", std::to_string(config.groups.size()), &labels);
    add_label("num_pages", std::to_string(config.num_pages), &labels);
    add_label("num_shards", std::to_string(config.shards.size()), &labels);
    add_label("max_model_len", std::to_string(config.max_model_len), &labels);
    add_label("enable_prefix_caching", config.prefix_reuse ? "true" : "false", &labels);
    out->sample(labels, 1);
  }
  out->begin({"cache_group", MetricType::kInfo, "", "A group of layers that share blocks."});
  for (const MetricsSource& source : sources) {
    if (source.cache == nullptr) continue;
    const Config& config = source.cache->config();
    for (size_t g = 0; g < config.groups.size(); ++g) {
      std::string labels = source.labels;
      add_label("group", std::to_string(g), &labels);
      add_label("kind", source.kinds[g], &labels);
      add_label("block_size", std::to_string(config.groups[g].block_tokens), &labels);
      out->sample(labels, 1);
    }
  }
  write_group_pages(sources, out);
  write_fields<CacheStats>(kOfCache, all, out);
  write_residency(all, out);
}

}  // namespace quire
