#include "tests/metrics/wanted.h"

#include <gtest/gtest.h>

#include <array>

namespace quire::test {

void Wanted::cache(const quire_cache_stats& cache) {
  gauge("kv_cache_usage_perc", static_cast<double>(cache.pages_used) / static_cast<double>(cache.pages_total - 1));
  gauge("pages", static_cast<double>(cache.pages_free), "state=\"free\"");
  gauge("pages", static_cast<double>(cache.pages_evictable), "state=\"cached\"");
  gauge("pages", static_cast<double>(cache.pages_used), "state=\"used\"");
  gauge("parts", static_cast<double>(cache.parts_used), "state=\"used\"");
  gauge("parts", static_cast<double>(cache.parts_cached), "state=\"cached\"");
  gauge("parts", static_cast<double>(cache.part_holes), "state=\"hole\"");
  gauge("sequences", cache.num_sequences);
  gauge("index_units", static_cast<double>(cache.index_units));
  counter("prefix_cache_queries", cache.matched_prompt_tokens + cache.aborted_prompt_tokens);
  counter("prefix_cache_hits", cache.hit_tokens + cache.aborted_hit_tokens);
  const std::array<const char*, 7> misses = {"none", "unknown_prefix", "evicted", "no_state", "window_hole", "below_unit", "disabled"};
  uint64_t matches = 0;
  for (size_t i = 0; i < misses.size(); ++i) {
    counter("prefix_cache_matches", cache.miss_reasons[i] + cache.aborted_miss_reasons[i], std::string("miss=\"") + misses[i] + "\"");
    matches += cache.miss_reasons[i];
  }
  EXPECT_EQ(matches, cache.matches);
  counter("recompute_avoided_tokens", cache.recompute_avoided + cache.aborted_recompute_avoided);
  counter("steps", cache.steps);
  counter("aborted_steps", cache.aborted_steps);
  counter("refused_entries", cache.refused_entries);
  counter("num_preemptions", cache.preemptions);
  counter("forks", cache.forks);
  counter("block_copies", cache.copies);
  counter("evicted_pages", cache.evicted_pages);
  counter("evicted_blocks", cache.evicted_blocks);
  counter("page_hand_overs", cache.hand_overs);
  counter("checkpoints", cache.checkpoints);
  counter("checkpoints_given_up", cache.checkpoints_given_up);
  counter("checkpoints_declined", cache.checkpoints_declined);
  gauge("checkpoint_bytes", static_cast<double>(cache.checkpoint_bytes));
  gauge("pins", static_cast<double>(cache.pins));
  gauge("pinned_tokens", static_cast<double>(cache.pinned_tokens));
  counter("pins_given_up", cache.pins_given_up);
  gauge("holds", static_cast<double>(cache.holds));
  gauge("held_parts", static_cast<double>(cache.held_parts));
  counter("units_given_up", cache.units_given_up);
  gauge("loads", static_cast<double>(cache.loads));
  gauge("cache_host_bytes", static_cast<double>(cache.host_bytes));
}

void Wanted::tiers(const quire_tiers_stats& tiers) {
  const std::array<const char*, 8> outcomes = {"", "done", "nothing", "slower", "no_room", "late", "failed", "cancelled"};
  for (size_t i = 1; i < outcomes.size(); ++i) counter("fetches", tiers.outcomes[i], std::string("outcome=\"") + outcomes[i] + "\"");
  gauge("fetches_in_progress", static_cast<double>(tiers.fetches_in_progress));
  counter("external_prefix_cache_queries", tiers.tokens_asked);
  counter("external_prefix_cache_hits", tiers.tokens_fetched);
  counter("units_taken", tiers.units_taken);
  gauge("units_in_flight", static_cast<double>(tiers.units_in_flight));
  gauge("quarantined_loads", static_cast<double>(tiers.quarantined));
  counter("loads_quarantined", tiers.quarantined_ever);
  counter("offers", tiers.offers);
  gauge("offers_in_progress", static_cast<double>(tiers.offers_in_progress));
}

void Wanted::tier(uint32_t index, const quire_tier_stats& tier) {
  const std::string label = "tier=\"" + std::to_string(index) + ":" + tier.name + "\"";
  const auto also = [&](const char* result) { return label + ",result=\"" + result + "\""; };
  gauge("tier_open", tier.is_open, label);
  counter("tier_suspensions", tier.times_closed, label);
  counter("tier_units", tier.units_stored, also("stored"));
  counter("tier_units", tier.units_dropped, also("dropped"));
  counter("tier_store_objects", tier.objects_stored, also("stored"));
  counter("tier_store_objects", tier.objects_existed, also("existed"));
  counter("tier_load_objects", tier.objects_loaded, also("loaded"));
  counter("tier_load_objects", tier.objects_missing, also("missing"));
  counter("tier_load_objects", tier.objects_damaged, also("damaged"));
  counter("tier_load_objects", tier.objects_failed, also("failed"));
  counter("kv_offload_store_bytes", tier.bytes_stored, label);
  counter("kv_offload_load_bytes", tier.bytes_loaded, label);
  gauge("tier_store_in_flight_bytes", static_cast<double>(tier.bytes_in_flight), label);
  counter("tier_lookup_keys", tier.keys_looked_up, label);
  counter("tier_lookup_hits", tier.keys_found, label);
  counter("tier_fetched_tokens", tier.tokens_fetched, label);
  gauge("tier_load_seconds_per_mib", static_cast<double>(tier.ns_per_mib) / 1e9, label);
  gauge("tier_lookup_expected_seconds", static_cast<double>(tier.latency_ns) / 1e9, label);
  counter("tier_offers_refused", tier.offers_refused, label);
}

void Wanted::connector(const std::string& label, const quire_connector_stats& tickets, const quire_connector_health& health) {
  const auto also = [&](const char* result) { return label + ",result=\"" + result + "\""; };
  counter("connector_tickets", tickets.num_done, also("done"));
  counter("connector_tickets", tickets.num_missing, also("missing"));
  counter("connector_tickets", tickets.num_failed, also("failed"));
  counter("connector_tickets", tickets.num_cancelled, also("cancelled"));
  gauge("connector_tickets_in_flight", static_cast<double>(tickets.num_in_flight), label);
  counter("connector_stray_completions", tickets.num_strays, label);
  const std::array<const char*, 4> states = {"up", "full", "read_only", "down"};
  for (size_t i = 0; i < states.size(); ++i) {
    gauge("connector_state", static_cast<size_t>(health.state) == i ? 1 : 0, label + ",state=\"" + states[i] + "\"");
  }
  gauge("connector_capacity_bytes", static_cast<double>(health.capacity_bytes), label);
  gauge("connector_used_bytes", static_cast<double>(health.used_bytes), label);
  gauge("connector_objects", static_cast<double>(health.num_objects), label);
  counter("connector_evicted_objects", health.num_evicted, label);
  counter("connector_damaged_objects", health.num_damaged, label);
  gauge("connector_store_seconds_sum", static_cast<double>(tickets.store_ns) / 1e9, label);
  gauge("connector_load_seconds_sum", static_cast<double>(tickets.load_ns) / 1e9, label);
  gauge("connector_lookup_seconds_sum", static_cast<double>(tickets.lookup_ns) / 1e9, label);
}

// A struct that grew is looked at here: its new numbers are in the text, or left out on purpose.
static_assert(sizeof(quire_cache_stats) == 1224 && sizeof(quire_tiers_stats) == 432 && sizeof(quire_tier_stats) == 184 &&
              sizeof(quire_connector_stats) == 904 && sizeof(quire_connector_health) == 48);

}  // namespace quire::test
