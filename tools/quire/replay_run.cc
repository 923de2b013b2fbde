#include "quire/replay_run.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/client.h"
#include "quire/plan_of.h"
#include "quire/text.h"
#include "replay/generate.h"
#include "replay/replay_tier.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMisses[] = {"none", "unknown_prefix", "evicted", "no_state", "window_hole", "below_unit", "disabled"};

Json result_json(const replay::Result& result, const replay::LinkedTails& tails, quire_cache* cache) {
  client::Error error;
  auto stats = client::sized<quire_cache_stats>();
  client::check(quire_cache_get_stats(cache, &stats, &error), error);
  Json json = {{"schema", "quire.replay/1"},
               {"requests", result.requests},
               {"tails", tails.tails},
               {"linked_tails", tails.linked},
               {"prompt_tokens", result.prompt_tokens},
               {"hit_tokens", result.hit_tokens},
               {"hit_share", static_cast<double>(result.hit_tokens) / static_cast<double>(std::max<uint64_t>(1, result.prompt_tokens))},
               {"compute_saved", 0.0},
               {"computed_tokens", result.computed_tokens}};
  for (size_t i = 0; i < std::size(kMisses); ++i) json["misses"][kMisses[i]] = result.misses[i];
  json["steps"] = result.steps;
  json["preemptions"] = result.preemptions;
  json["pages"] = stats.pages_total;
  json["evicted_pages"] = stats.evicted_pages;
  json["hand_overs"] = stats.hand_overs;
  json["part_holes"] = stats.part_holes;
  json["checkpoints"] = stats.checkpoints;
  json["seconds"] = result.seconds;
  json["us_per_request"] = 1e6 * result.seconds / static_cast<double>(std::max<uint64_t>(1, result.requests));
  json["max_us"] = result.max_us;
  json["oracles"] = Json::array();
  return json;
}

double share_of(uint64_t part, uint64_t whole) { return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(1, whole)); }

Json tier_json(const replay::Tier& tier, const replay::UnitStore& store, const replay::Result& result) {
  const replay::TierCounts& counts = tier.counts();
  return {{"capacity_bytes", store.capacity()},
          {"unit_tokens", tier.unit_tokens()},
          {"hit_tokens", result.tier_tokens},
          {"hit_share", share_of(result.hit_tokens + result.tier_tokens, result.prompt_tokens)},
          {"loads", counts.loads},
          {"loaded_bytes", counts.loaded_bytes},
          {"stored_units", counts.stored_units},
          {"stored_bytes", counts.stored_bytes},
          {"evicted_units", store.num_evicted()},
          {"bytes", store.bytes()}};
}

struct Trace {
  std::vector<replay::Request> requests;
  replay::LinkedTails tails;
};

Trace trace_of(const ReplayArguments& arguments) {
  replay::TraceOptions options = arguments.trace_options;
  options.format = replay::format_of(arguments.format);
  Trace out;
  if (replay::is_made(arguments.trace)) {
    out.requests = replay::make_trace(arguments.trace, arguments.seed);
    if (options.limit != 0 && options.limit < out.requests.size()) out.requests.resize(options.limit);
  } else {
    out.requests = replay::read_trace(arguments.trace, options);
  }
  out.tails = arguments.link_tails ? replay::link_tails(&out.requests) : replay::LinkedTails{0, replay::count_tails(out.requests)};
  return out;
}

Json series_json(const std::vector<replay::Sample>& series) {
  Json out = Json::array();
  for (const replay::Sample& s : series) {
    Json row = {{"requests", s.requests},
                {"steps", s.steps},
                {"prompt_tokens", s.prompt_tokens},
                {"hit_tokens", s.hit_tokens},
                {"preemptions", s.preemptions},
                {"evicted_pages", s.evicted_pages},
                {"hand_overs", s.hand_overs},
                {"pages_used", s.pages_used},
                {"pages_evictable", s.pages_evictable},
                {"pages_free", s.pages_free},
                {"checkpoint_bytes", s.checkpoint_bytes},
                {"running", s.running}};
    for (size_t i = 0; i < std::size(kMisses); ++i) row["misses"][kMisses[i]] = s.misses[i];
    row["groups"] = Json::array();
    for (const replay::GroupPages& pages : s.groups) row["groups"].push_back({{"pages_used", pages.used}, {"pages_cached", pages.cached}});
    out.push_back(std::move(row));
  }
  return out;
}

Json followed_json(const std::vector<replay::Moment>& followed) {
  Json out = Json::array();
  for (const replay::Moment& m : followed) out.push_back({{"step", m.step}, {"tokens", m.tokens}, {"phase", m.phase}});
  return out;
}

// What a progress line says.
void print_progress(uint64_t requests, uint64_t all) {
  static uint64_t printed = UINT64_MAX;
  const uint64_t percent = all > 0 ? 100 * requests / all : 100;
  if (percent == printed) return;
  printed = percent;
  std::fprintf(stderr, "\rreplay: %3llu %%%s", static_cast<unsigned long long>(percent), requests == all ? "\n" : "");
}

// The time of a replay is that of the requests that have ended.
client::Runtime runtime_of(int64_t* clock) {
  auto options = client::sized<quire_runtime_options>();
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV;  // no module is loaded
  options.clock = [](void* user) { return *static_cast<const int64_t*>(user); };
  options.clock_user = clock;
  client::Error error;
  quire_runtime* created = nullptr;
  client::check(quire_runtime_create(&options, &created, &error), error);
  return client::Runtime(created);
}

std::string keeps_text(const quire_group_info& info) {
  if (info.is_state != 0) return "recurrent states";
  if (info.encoder_tokens > 0) return "tokens of an encoder";
  if (info.window > 0) return "window of " + with_commas(info.window) + " tokens";
  if (info.chunk > 0) return "chunks of " + with_commas(info.chunk) + " tokens";
  return "all tokens";
}

// Of each group: what it keeps, its pages at the end, and after how many requests unused pages were
// evicted.
Json groups_json(quire_config* config, quire_cache* cache) {
  Json out = Json::array();
  client::Error error;
  for (uint32_t group = 0, n = info_of(config).num_groups; group < n; ++group) {
    auto info = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config, group, &info, &error), error);
    auto stats = client::sized<quire_group_stats>();
    client::check(quire_cache_get_group_stats(cache, group, &stats, &error), error);
    out.push_back({{"group", group},
                   {"keeps", keeps_text(info)},
                   {"pages_used", stats.pages_used},
                   {"pages_cached", stats.pages_cached},
                   {"idle_requests", std::vector<uint64_t>(std::begin(stats.page_idle), std::end(stats.page_idle))},
                   {"lifetime_requests", std::vector<uint64_t>(std::begin(stats.page_lifetime), std::end(stats.page_lifetime))}});
  }
  return out;
}

client::Cache cache_of(const ReplayArguments& arguments, quire_config* config, quire_runtime* runtime) {
  quire_cache_options options = options_of(arguments.cache);
  options.max_sequences = std::max(1u, arguments.options.concurrency);
  options.max_tokens_per_step = arguments.options.tokens_per_step;
  options.hash_seed = arguments.seed;
  if (arguments.tier != 0) {
    options.max_loads = 1;
    options.max_load_tokens = info_of(config).max_model_len;
  }
  client::Error error;
  quire_cache* created = nullptr;
  client::check(quire_cache_create(runtime, config, &options, &created, &error), error);
  return client::Cache(created);
}

PlanArguments long_enough(PlanArguments plan, const Trace& trace) {
  if (plan.max_len == 0) plan.max_len = replay::longest_request(trace.requests);
  return plan;
}

// One replay of a trace on one plan.
Json one_replay(const ReplayArguments& arguments, const Trace& trace, const PlanArguments& asked) {
  const PlanArguments plan = long_enough(asked, trace);
  const client::Model model = model_of(plan);
  const client::Config config = plan_of(model.get(), plan);
  const replay::Sizes sizes = replay::sizes_of(config.get());
  int64_t clock = 0;
  const client::Runtime runtime = runtime_of(&clock);
  const client::Cache cache = cache_of(arguments, config.get(), runtime.get());
  replay::Options run = arguments.options;
  run.clock = &clock;
  run.num_groups = info_of(config.get()).num_groups;
  run.whole_prompts = !arguments.first_chunks;
  if (arguments.progress) run.progress = print_progress;
  replay::UnitStore store(arguments.tier);
  std::optional<replay::Tier> tier;
  if (arguments.tier != 0) run.tier = &tier.emplace(cache.get(), config.get(), &store);
  const replay::Result result = replay::run(cache.get(), trace.requests, run);
  client::Error error;
  if (arguments.verify) client::check(quire_cache_verify(cache.get(), &error), error);
  Json json = result_json(result, trace.tails, cache.get());
  const replay::Work work = replay::work_of(model.get(), arguments.active_parameters * 1e9);
  json["compute_saved"] = replay::sum_hits(trace.requests, result.hits, work).compute_saved;
  json["pool_bytes"] = sizes.pool_bytes;
  if (tier) {
    json["tier"] = tier_json(*tier, store, result);
    json["tier"]["compute_saved"] = replay::sum_hits(trace.requests, result.found, work).compute_saved;
  }
  if (!arguments.oracles.empty()) {
    const replay::Content content = replay::content_of(trace.requests, sizes.unit_tokens, run.max_output);
    for (const replay::Oracle oracle : arguments.oracles) {
      const auto hits = replay::sum_hits(trace.requests, replay::simulate(oracle, trace.requests, content, sizes, work, run), work);
      json["oracles"].push_back({{"oracle", replay::name_of(oracle)},
                                 {"hit_tokens", hits.hit_tokens},
                                 {"hit_share", hits.hit_share},
                                 {"compute_saved", hits.compute_saved}});
    }
  }
  if (run.timing.counts()) json["simulated_seconds"] = result.simulated_seconds;
  json["groups"] = groups_json(config.get(), cache.get());
  json["series"] = series_json(result.series);
  json["followed"] = followed_json(result.followed);
  return json;
}

// Every memory with every policy that was asked for.
Json sweep_of(const ReplayArguments& arguments, const Trace& trace) {
  Json rows = Json::array();
  if (arguments.sweep_memory.empty() && arguments.sweep_policies.empty()) return rows;
  std::vector<std::vector<uint64_t>> memories;
  for (const uint64_t bytes : arguments.sweep_memory) memories.push_back({bytes});
  if (memories.empty()) memories.push_back(arguments.plan.memory);
  std::vector<std::string> policies = arguments.sweep_policies;
  if (policies.empty()) policies.push_back(arguments.plan.policy);
  ReplayArguments one = arguments;
  one.options.samples = 0;
  one.options.follow = UINT64_MAX;
  one.progress = false;
  size_t done = 0;
  for (const std::string& policy : policies) {
    for (const std::vector<uint64_t>& memory : memories) {
      if (arguments.progress) std::fprintf(stderr, "\rsweep: %zu of %zu", done, policies.size() * memories.size());
      PlanArguments plan = arguments.plan;
      plan.memory = memory;
      plan.policy = policy;
      Json row = {{"policy", policy}, {"memory_bytes", memory.empty() ? kDefaultMemory : memory[0]}};
      const Json json = one_replay(one, trace, plan);
      for (const char* field : {"hit_tokens", "hit_share", "compute_saved", "preemptions", "hand_overs", "oracles"})
        row[field] = json[field];
      if (json.contains("tier")) row["tier"] = json["tier"];
      rows.push_back(std::move(row));
      ++done;
    }
  }
  if (arguments.progress) std::fprintf(stderr, "\rsweep: %zu of %zu\n", done, done);
  return rows;
}

// Tiers of the engines of a fleet, over one store or over one each.
class FleetTiers {
 public:
  FleetTiers(const ReplayArguments& arguments, quire_config* config, const std::vector<quire_cache*>& caches)
      : is_shared_(arguments.tier_is_shared) {
    if (arguments.tier == 0) return;
    for (quire_cache* cache : caches) {
      if (stores_.empty() || !is_shared_) stores_.push_back(std::make_unique<replay::UnitStore>(arguments.tier));
      tiers_.push_back(std::make_unique<replay::Tier>(cache, config, stores_.back().get()));
    }
  }
  std::vector<replay::Tier*> all() const {
    std::vector<replay::Tier*> out;
    for (const auto& tier : tiers_) out.push_back(tier.get());
    return out;
  }
  // seconds: of the trace, or of the run if that is timed; 0: there are no times.
  Json json(const replay::FleetResult& result, double seconds) const {
    replay::TierCounts sum;
    uint64_t most = 0, bytes = 0, evicted = 0;  // most: over the link of one engine
    for (const auto& tier : tiers_) {
      const replay::TierCounts& counts = tier->counts();
      sum.loads += counts.loads, sum.stored_units += counts.stored_units;
      sum.loaded_bytes += counts.loaded_bytes, sum.stored_bytes += counts.stored_bytes;
      most = std::max(most, counts.loaded_bytes + counts.stored_bytes);
    }
    for (const auto& store : stores_) bytes += store->bytes(), evicted += store->num_evicted();
    Json json = {{"shared", is_shared_},
                 {"capacity_bytes", stores_[0]->capacity()},
                 {"unit_tokens", tiers_[0]->unit_tokens()},
                 {"hit_tokens", result.tier_tokens},
                 {"hit_share", share_of(result.hit_tokens + result.tier_tokens, result.prompt_tokens)},
                 {"loads", sum.loads},
                 {"loaded_bytes", sum.loaded_bytes},
                 {"stored_units", sum.stored_units},
                 {"stored_bytes", sum.stored_bytes},
                 {"evicted_units", evicted},
                 {"bytes", bytes}};
    if (seconds <= 0) return json;
    const auto moved = static_cast<double>(sum.loaded_bytes + sum.stored_bytes);
    json["link_bytes_per_second"] = moved / seconds / static_cast<double>(tiers_.size());
    json["busiest_link_bytes_per_second"] = static_cast<double>(most) / seconds;
    json["store_bytes_per_second"] = moved / seconds / static_cast<double>(stores_.size());
    return json;
  }

 private:
  const bool is_shared_;
  std::vector<std::unique_ptr<replay::UnitStore>> stores_;
  std::vector<std::unique_ptr<replay::Tier>> tiers_;
};

// Between the first and the last arrival.
double seconds_of(const std::vector<replay::Request>& trace) {
  uint64_t first = UINT64_MAX, last = 0;
  for (const replay::Request& request : trace) {
    first = std::min(first, request.arrival_ms);
    last = std::max(last, request.arrival_ms);
  }
  return last > first ? static_cast<double>(last - first) / 1000 : 0;
}

// Each router in front of as many engines, every one with the memory that was asked for.
Json fleet_of(const ReplayArguments& arguments, const Trace& trace) {
  Json rows = Json::array();
  if (arguments.engines == 0) return rows;
  const PlanArguments plan = long_enough(arguments.plan, trace);
  const client::Model model = model_of(plan);
  const client::Config config = plan_of(model.get(), plan);
  replay::Options run = arguments.options;
  run.whole_prompts = !arguments.first_chunks;
  std::vector<replay::Routing> routers = arguments.routers;
  if (routers.empty()) routers.assign(std::begin(replay::kRoutings), std::end(replay::kRoutings));
  for (const replay::Routing routing : routers) {
    std::vector<client::Cache> caches;
    replay::Fleet fleet{{}, {}, run, routing, arguments.seed};
    caches.reserve(arguments.engines);
    for (uint32_t i = 0; i < arguments.engines; ++i) {
      caches.push_back(cache_of(arguments, config.get(), nullptr));
      fleet.caches.push_back(caches.back().get());
    }
    const FleetTiers tiers(arguments, config.get(), fleet.caches);
    fleet.tiers = tiers.all();
    const replay::FleetResult r = replay::run_fleet(fleet, trace.requests);
    client::Error error;
    for (quire_cache* cache : fleet.caches) {
      if (arguments.verify) client::check(quire_cache_verify(cache, &error), error);
    }
    rows.push_back({{"router", replay::name_of(routing)},
                    {"engines", arguments.engines},
                    {"hit_tokens", r.hit_tokens},
                    {"hit_share", static_cast<double>(r.hit_tokens) / static_cast<double>(std::max<uint64_t>(1, r.prompt_tokens))},
                    {"computed_tokens", r.computed_tokens},
                    {"steps", r.rounds},
                    {"busy_share", r.busy},
                    {"most_requests", r.most_requests},
                    {"least_requests", r.least_requests},
                    {"preemptions", r.preemptions}});
    if (run.timing.counts()) rows.back()["simulated_seconds"] = r.simulated_seconds;
    const double seconds = run.timing.counts() ? r.simulated_seconds : seconds_of(trace.requests);
    if (arguments.tier != 0) rows.back()["tier"] = tiers.json(r, seconds);
  }
  return rows;
}

}  // namespace

Json replay_json(const ReplayArguments& arguments) {
  const Trace trace = trace_of(arguments);
  Json json = one_replay(arguments, trace, arguments.plan);
  json["sweep"] = sweep_of(arguments, trace);
  json["fleet"] = fleet_of(arguments, trace);
  return json;
}

}  // namespace quire::tools
