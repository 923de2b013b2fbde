// quire replay: a request trace through the bookkeeping of a plan, without any device.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/client.h"
#include "quire/cache_settings.h"
#include "quire/commands.h"
#include "quire/option_values.h"
#include "quire/plan_of.h"
#include "quire/text.h"
#include "replay/generate.h"
#include "replay/oracle.h"
#include "replay/replay.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayArguments {
  PlanArguments plan;
  std::string trace;
  std::string format = "auto";
  replay::TraceOptions trace_options;
  uint64_t seed = 1;
  CacheSettings cache;
  bool link_tails = false;
  bool first_chunks = false;
  std::vector<replay::Oracle> oracles;
  double active_parameters = 0;
  replay::Options options;
  bool verify = false;
  bool json = false;
};

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

replay::Oracle oracle_of(const std::string& name) {
  try {
    return replay::oracle_of(name);
  } catch (const std::invalid_argument&) {
    throw CLI::ValidationError("--oracle", "'" + name + "'; must be some of infinite, lru, clairvoyant, marconi");
  }
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

Json collect(const ReplayArguments& arguments) {
  const Trace trace = trace_of(arguments);
  PlanArguments plan = arguments.plan;
  if (plan.max_len == 0) plan.max_len = replay::longest_request(trace.requests);
  const client::Model model = model_of(plan);
  const client::Config config = plan_of(model.get(), plan);
  const replay::Sizes sizes = replay::sizes_of(config.get());
  quire_cache_options options = options_of(arguments.cache);
  options.max_sequences = std::max(1u, arguments.options.concurrency);
  options.max_tokens_per_step = arguments.options.tokens_per_step;
  options.hash_seed = arguments.seed;
  quire_cache* created = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config.get(), &options, &created, &error), error);
  const client::Cache cache(created);
  replay::Options run = arguments.options;
  run.whole_prompts = !arguments.first_chunks;
  const replay::Result result = replay::run(cache.get(), trace.requests, run);
  if (arguments.verify) client::check(quire_cache_verify(cache.get(), &error), error);
  Json json = result_json(result, trace.tails, cache.get());
  const replay::Work work = replay::work_of(model.get(), arguments.active_parameters * 1e9);
  json["compute_saved"] = replay::sum_hits(trace.requests, result.hits, work).compute_saved;
  if (arguments.oracles.empty()) return json;
  const replay::Content content = replay::content_of(trace.requests, sizes.unit_tokens, run.max_output);
  for (const replay::Oracle oracle : arguments.oracles) {
    const auto hits = replay::sum_hits(trace.requests, replay::simulate(oracle, trace.requests, content, sizes, work, run), work);
    json["oracles"].push_back({{"oracle", replay::name_of(oracle)},
                               {"hit_tokens", hits.hit_tokens},
                               {"hit_share", hits.hit_share},
                               {"compute_saved", hits.compute_saved}});
  }
  return json;
}

// The library's result and those of the oracles, side by side.
void print_oracles(const Json& json) {
  std::vector<std::vector<std::string>> rows = {{"cache", "hit tokens", "hit share", "compute saved"}};
  const auto add = [&rows](const std::string& name, const Json& hits) {
    char share[32];
    char saved[32];
    std::snprintf(share, sizeof share, "%.3f", hits["hit_share"].get<double>());
    std::snprintf(saved, sizeof saved, "%.3f", hits["compute_saved"].get<double>());
    rows.push_back({name, with_commas(hits["hit_tokens"].get<uint64_t>()), share, saved});
  };
  add("quire", json);
  for (const Json& hits : json["oracles"]) add(hits["oracle"].get<std::string>(), hits);
  std::printf("\n%s", table(rows, 1).c_str());
}

void print_replay(const Json& json) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : json.items()) {
    if (name == "schema" || name == "oracles") continue;
    if (value.is_object()) {
      for (const auto& [reason, count] : value.items()) rows.push_back({"miss: " + reason, count.dump()});
    } else if (value.is_number_float()) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3f", value.get<double>());
      rows.push_back({name, text});
    } else {
      rows.push_back({name, value.dump()});
    }
  }
  std::printf("%s", table(rows, 2).c_str());
  if (!json["oracles"].empty()) print_oracles(json);
}

}  // namespace

void add_replay(CLI::App* app) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = app->add_subcommand("replay", "Replay a request trace through the bookkeeping: hits, misses, time per request");
  add_plan_arguments(command, &arguments->plan);
  command
      ->add_option(
          "trace", arguments->trace,
          "requests: Mooncake's JSON lines (also vLLM's timed_trace), Azure's or BurstGPT's CSV, ShareGPT's JSON, vLLM's prompts "
          "or detailed results; .gz allowed, - = standard input. Or a made one: agents:N (N sessions of coding agents), documents:N "
          "(N questions about documents) or conversations:N (N turns under few system prompts). Arrival times are not used: requests start "
          "in order, as soon as "
          "there is room, and a turn of a conversation starts when the one before it has ended")
      ->required();
  constexpr uint64_t kMost32 = (uint64_t{1} << 32) - 1;
  command->add_option("--format", arguments->format, "of the trace: auto, mooncake, csv, sharegpt or vllm")
      ->check(CLI::IsMember({"auto", "mooncake", "csv", "sharegpt", "vllm"}))
      ->capture_default_str();
  command
      ->add_option("--trace-block", arguments->trace_options.block_tokens,
                   "tokens that a hash id of the trace stands for: 512 in Mooncake's, 16 in Bailian's")
      ->check(whole(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--seed", arguments->seed, "of a made trace and of the prefix index: the same seed gives the same figures, times apart")
      ->check(whole(1, UINT64_MAX))
      ->capture_default_str();
  command->add_option("--requests", arguments->trace_options.limit, "only this many requests; all when absent")->check(whole(1, kMost32));
  command->add_option("--concurrency", arguments->options.concurrency, "sequences running at once")
      ->check(whole(1, kMost32))
      ->capture_default_str();
  command->add_option("--tokens-per-step", arguments->options.tokens_per_step, "tokens computed by one step")
      ->check(whole(1, kMost32))
      ->capture_default_str();
  command->add_option("--max-output", arguments->options.max_output, "tokens generated per request at most; the trace's when absent")
      ->check(whole(1, kMost32));
  add_cache_settings(command, &arguments->cache);
  command->add_flag("--first-chunks", arguments->first_chunks, "start a request when its first chunk fits, not its whole prompt");
  command->add_flag("--link-tails", arguments->link_tails,
                    "guess which prompt goes on with the unfinished last block of another, and give its block the same text; for traces "
                    "whose ids name whole blocks, as Mooncake's");
  command->add_option_function<std::string>(
      "--oracle",
      [arguments](const std::string& text) {
        arguments->oracles.clear();
        for (const std::string& name : list_of("--oracle", text)) arguments->oracles.push_back(oracle_of(name));
      },
      "also simulate other caches of the same size, with commas: infinite (nothing is evicted), lru (states and windows are free and "
      "everywhere), clairvoyant (they are where the next request resumes), marconi (the rules of arXiv 2411.19379)");
  command
      ->add_option("--active-params", arguments->active_parameters,
                   "parameters that compute a token, in billions, e.g. 17: their FLOPs count in the compute that is saved, besides those "
                   "of attention")
      ->check(CLI::Range(0.0, 1e6).description(""));
  command->add_flag("--verify", arguments->verify, "re-derive every invariant at the end");
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] {
    const Json json = collect(*arguments);
    arguments->json ? print_json(json) : print_replay(json);
  });
}

}  // namespace quire::tools
