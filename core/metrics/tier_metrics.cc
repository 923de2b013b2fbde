// Of tiers and their connectors: quire_tiers_stats, quire_tier_stats, quire_connector_stats and
// quire_connector_health.
#include "core/metrics/fields.h"
#include "core/metrics/labels.h"
#include "core/metrics/write_metrics.h"

namespace quire {
namespace {

using All = quire_tiers_stats;
using Each = quire_tier_stats;
using Tickets = quire_connector_stats;
using Health = quire_connector_health;

constexpr MetricFamily kFetches = {"fetches", kCounter, "", "Fetches that ended, by how."};

constexpr MetricField<All> kOfAll[] = {
    {kFetches, "outcome=\"done\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_DONE]); }},
    {kFetches, "outcome=\"nothing\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_NOTHING]); }},
    {kFetches, "outcome=\"slower\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_SLOWER]); }},
    {kFetches, "outcome=\"no_room\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_NO_ROOM]); }},
    {kFetches, "outcome=\"late\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_LATE]); }},
    {kFetches, "outcome=\"failed\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_FAILED]); }},
    {kFetches, "outcome=\"cancelled\"", [](const All& s) { return double(s.outcomes[QUIRE_FETCH_CANCELLED]); }},
    {{"fetches_in_progress", kGauge, "", "Fetches in progress."}, "", [](const All& s) { return double(s.fetches_in_progress); }},
    {{"external_prefix_cache_queries", kCounter, "", "Tokens that fetches asked tiers for: what the cache did not have."},
     "",
     [](const All& s) { return double(s.tokens_asked); }},
    {{"external_prefix_cache_hits", kCounter, "", "Tokens that fetches brought from tiers."},
     "",
     [](const All& s) { return double(s.tokens_fetched); }},
    {{"units_taken", kCounter, "", "Units that the cache reported and tiers took, to store them."},
     "",
     [](const All& s) { return double(s.units_taken); }},
    {{"units_in_flight", kGauge, "", "Units that are held while they are stored."},
     "",
     [](const All& s) { return double(s.units_in_flight); }},
    {{"quarantined_loads", kGauge, "", "Loads that were given up and may still be written; their blocks wait."},
     "",
     [](const All& s) { return double(s.quarantined); }},
    {{"loads_quarantined", kCounter, "", "Loads that were quarantined."}, "", [](const All& s) { return double(s.quarantined_ever); }},
    {{"offers", kCounter, "", "Offers to other processes that were begun."}, "", [](const All& s) { return double(s.offers); }},
    {{"offers_in_progress", kGauge, "", "Offers that nobody has read yet and that are not over."},
     "",
     [](const All& s) { return double(s.offers_in_progress); }},
};

constexpr MetricFamily kUnits = {"tier_units", kCounter, "", "Units to store, by what became of them."};
constexpr MetricFamily kStored = {"tier_store_objects", kCounter, "", "Objects of stores that succeeded; existed = it was there before."};
constexpr MetricFamily kLoaded = {"tier_load_objects", kCounter, "", "Objects of loads, by what became of them."};

constexpr MetricField<Each> kOfEach[] = {
    {{"tier_open", kGauge, "", "1 = in use, 0 = suspended after failures in a row."}, "", [](const Each& s) { return double(s.is_open); }},
    {{"tier_suspensions", kCounter, "", "How often the tier was suspended."}, "", [](const Each& s) { return double(s.times_closed); }},
    {kUnits, "result=\"stored\"", [](const Each& s) { return double(s.units_stored); }},
    {kUnits, "result=\"dropped\"", [](const Each& s) { return double(s.units_dropped); }},
    {kStored, "result=\"stored\"", [](const Each& s) { return double(s.objects_stored); }},
    {kStored, "result=\"existed\"", [](const Each& s) { return double(s.objects_existed); }},
    {kLoaded, "result=\"loaded\"", [](const Each& s) { return double(s.objects_loaded); }},
    {kLoaded, "result=\"missing\"", [](const Each& s) { return double(s.objects_missing); }},
    {kLoaded, "result=\"damaged\"", [](const Each& s) { return double(s.objects_damaged); }},
    {kLoaded, "result=\"failed\"", [](const Each& s) { return double(s.objects_failed); }},
    {{"kv_offload_store_bytes", kCounter, "bytes", "Bytes that were stored in the tier."},
     "",
     [](const Each& s) { return double(s.bytes_stored); }},
    {{"kv_offload_load_bytes", kCounter, "bytes", "Bytes that were loaded from the tier."},
     "",
     [](const Each& s) { return double(s.bytes_loaded); }},
    {{"tier_store_in_flight_bytes", kGauge, "bytes", "Stores in flight."}, "", [](const Each& s) { return double(s.bytes_in_flight); }},
    {{"tier_lookup_keys", kCounter, "", "Keys that were looked up."}, "", [](const Each& s) { return double(s.keys_looked_up); }},
    {{"tier_lookup_hits", kCounter, "", "Keys of these that were found."}, "", [](const Each& s) { return double(s.keys_found); }},
    {{"tier_fetched_tokens", kCounter, "", "Tokens of fetches, by the tier that brought most bytes of the fetch."},
     "",
     [](const Each& s) { return double(s.tokens_fetched); }},
    {{"tier_load_seconds_per_mib", kGauge, "", "How long a MiB takes to load, as estimated now; 0 = unknown."},
     "",
     [](const Each& s) { return double(s.ns_per_mib) / 1e9; }},
    {{"tier_lookup_expected_seconds", kGauge, "seconds", "How long a look-up takes, as estimated now; 0 = unknown."},
     "",
     [](const Each& s) { return double(s.latency_ns) / 1e9; }},
    {{"tier_offers_refused", kCounter, "", "Fetches to which nothing came of an offer, because it is of something else."},
     "",
     [](const Each& s) { return double(s.offers_refused); }},
};

constexpr MetricFamily kTickets = {"connector_tickets", kCounter, "", "Tickets of the connector that ended, by how."};

constexpr MetricField<Tickets> kOfTickets[] = {
    {kTickets, "result=\"done\"", [](const Tickets& s) { return double(s.num_done); }},
    {kTickets, "result=\"missing\"", [](const Tickets& s) { return double(s.num_missing); }},
    {kTickets, "result=\"failed\"", [](const Tickets& s) { return double(s.num_failed); }},
    {kTickets, "result=\"cancelled\"", [](const Tickets& s) { return double(s.num_cancelled); }},
    {{"connector_tickets_in_flight", kGauge, "", "Tickets in flight."}, "", [](const Tickets& s) { return double(s.num_in_flight); }},
    {{"connector_stray_completions", kCounter, "", "Completions of tickets that were not in flight: a defect of the connector."},
     "",
     [](const Tickets& s) { return double(s.num_strays); }},
};

constexpr MetricFamily kState = {"connector_state", kGauge, "", "1 = the state that the connector reports."};

template <quire_connector_state kIs>
double is_in(const Health& health) {
  return health.state == kIs ? 1 : 0;
}

constexpr MetricField<Health> kOfHealth[] = {
    {kState, "state=\"up\"", is_in<QUIRE_CONNECTOR_UP>},
    {kState, "state=\"full\"", is_in<QUIRE_CONNECTOR_FULL>},
    {kState, "state=\"read_only\"", is_in<QUIRE_CONNECTOR_READ_ONLY>},
    {kState, "state=\"down\"", is_in<QUIRE_CONNECTOR_DOWN>},
    {{"connector_capacity_bytes", kGauge, "bytes", "Bytes that it can keep; 0 = unknown."},
     "",
     [](const Health& s) { return double(s.capacity_bytes); }},
    {{"connector_used_bytes", kGauge, "bytes", "Bytes that it keeps; 0 = unknown."},
     "",
     [](const Health& s) { return double(s.used_bytes); }},
    {{"connector_objects", kGauge, "", "Objects that it keeps; 0 = unknown."}, "", [](const Health& s) { return double(s.num_objects); }},
    {{"connector_evicted_objects", kCounter, "", "Objects that made room for others."},
     "",
     [](const Health& s) { return double(s.num_evicted); }},
    {{"connector_damaged_objects", kCounter, "", "Objects that were unusable and were removed."},
     "",
     [](const Health& s) { return double(s.num_damaged); }},
};

void write_latencies(std::span<const Counted<Tickets>> all, Exposition* out) {
  const auto write = [&](const MetricFamily& family, auto&& of) {
    out->begin(family);
    for (const Counted<Tickets>& c : all) {
      const auto [latency, sum] = of(c.stats);
      out->histogram(c.labels, latency, sum);
    }
  };
  using Latency = std::pair<std::span<const uint64_t>, uint64_t>;
  write({"connector_store_seconds", MetricType::kHistogram, "seconds", "From submit to poll, of tickets that store."},
        [](const Tickets& s) {
          return Latency{s.store_latency, s.store_ns};
        });
  write({"connector_load_seconds", MetricType::kHistogram, "seconds", "From submit to poll, of tickets that load."}, [](const Tickets& s) {
    return Latency{s.load_latency, s.load_ns};
  });
  write({"connector_lookup_seconds", MetricType::kHistogram, "seconds", "From submit to poll, of tickets that look up keys."},
        [](const Tickets& s) {
          return Latency{s.lookup_latency, s.lookup_ns};
        });
}

}  // namespace

void write_tier_metrics(std::span<const MetricsSource> sources, Exposition* out) {
  std::vector<Counted<All>> all;
  std::vector<Counted<Each>> each;
  std::vector<Counted<Tickets>> tickets;
  std::vector<Counted<Health>> health;
  for (const MetricsSource& source : sources) {
    if (source.tiers == nullptr) continue;
    source.tiers->stats(&all.emplace_back(Counted<All>{source.labels, {}}).stats);
    for (size_t t = 0; t < source.tiers->num_tiers(); ++t) {
      std::string labels = source.labels;
      add_label("tier", std::to_string(t) + ":" + source.tiers->tier_name(t), &labels);
      // The tier exists.
      static_cast<void>(source.tiers->tier_stats(static_cast<uint32_t>(t), &each.emplace_back(Counted<Each>{labels, {}}).stats));
      tickets.push_back({labels, source.tiers->connector(t).stats()});
      quire_connector_health now{};
      now.struct_size = sizeof now;
      if (source.tiers->connector(t).read_health(&now).ok()) health.push_back({labels, now});
    }
  }
  write_fields<All>(kOfAll, all, out);
  out->begin({"fetch_seconds", MetricType::kHistogram, "seconds", "From quire_fetch_begin to the end of a fetch."});
  for (const Counted<All>& c : all) out->histogram(c.labels, c.stats.fetch_latency, c.stats.fetch_ns);
  write_fields<Each>(kOfEach, each, out);
  write_fields<Tickets>(kOfTickets, tickets, out);
  write_latencies(tickets, out);
  write_fields<Health>(kOfHealth, health, out);
}

}  // namespace quire
