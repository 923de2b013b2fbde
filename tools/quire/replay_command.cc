// quire replay: a request trace through the bookkeeping of a plan, without any device.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/option_values.h"
#include "quire/replay_report.h"
#include "quire/replay_run.h"
#include "quire/svg.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

// An option whose value is names with commas; of() throws std::invalid_argument for one that is not.
template <typename T>
void add_names(CLI::App* command, const char* option, std::vector<T>* out, T (*of)(const std::string&), const std::string& help) {
  const auto read = [option, out, of](const std::string& text) {
    out->clear();
    try {
      for (const std::string& name : list_of(option, text)) out->push_back(of(name));
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(option, error.what());
    }
  };
  command->add_option_function<std::string>(option, read, help);
}

std::string three_digits(const Json& share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", share.get<double>());
  return text;
}

// The library's result and those of the oracles, side by side.
void print_oracles(const Json& json) {
  std::vector<std::vector<std::string>> rows = {{"cache", "hit tokens", "hit share", "compute saved"}};
  const auto add = [&rows](const std::string& name, const Json& hits) {
    const std::string share = three_digits(hits["hit_share"]), saved = three_digits(hits["compute_saved"]);
    rows.push_back({name, with_commas(hits["hit_tokens"].get<uint64_t>()), share, saved});
  };
  add("quire", json);
  for (const Json& hits : json["oracles"]) add(hits["oracle"].get<std::string>(), hits);
  std::printf("\n%s", table(rows, 1).c_str());
}

std::string gib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%g GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

void print_sweep_of_replays(const Json& sweep) {
  std::vector<std::vector<std::string>> rows = {{"policy", "memory", "hit share", "compute saved", "preemptions"}};
  for (const Json& oracle : sweep[0]["oracles"]) rows[0].push_back(oracle["oracle"].get<std::string>());
  for (const Json& row : sweep) {
    rows.push_back({row["policy"].get<std::string>(), gib(row["memory_bytes"].get<uint64_t>()), three_digits(row["hit_share"]),
                    three_digits(row["compute_saved"]), with_commas(row["preemptions"].get<uint64_t>())});
    for (const Json& oracle : row["oracles"]) rows.back().push_back(three_digits(oracle["hit_share"]));
  }
  std::printf("\n%s", table(rows, 1).c_str());
}

void print_fleet_tiers(const Json& fleet) {
  std::vector<std::vector<std::string>> rows = {
      {"router", "hit share with tier", "from tier", "loaded", "stored", "in use", "a link", "busiest", "a store"}};
  for (const Json& row : fleet) {
    const Json& tier = row["tier"];
    const auto rate = [&tier](const char* field) {
      return tier.contains(field) ? svg::print("%.1f MB/s", tier[field].get<double>() / 1e6) : std::string("-");
    };
    const auto bytes = [&tier](const char* field) { return gib(tier[field].get<uint64_t>()); };
    rows.push_back({row["router"].get<std::string>(), three_digits(tier["hit_share"]),
                    three_digits(tier["hit_share"].get<double>() - row["hit_share"].get<double>()), bytes("loaded_bytes"),
                    bytes("stored_bytes"), bytes("bytes"), rate("link_bytes_per_second"), rate("busiest_link_bytes_per_second"),
                    rate("store_bytes_per_second")});
  }
  std::printf("\n%s", table(rows, 1).c_str());
}

void print_fleet(const Json& fleet) {
  std::vector<std::vector<std::string>> rows = {{"router", "hit share", "computed tokens", "steps", "busy", "requests of an engine"}};
  for (const Json& row : fleet) {
    rows.push_back({row["router"].get<std::string>(), three_digits(row["hit_share"]), with_commas(row["computed_tokens"].get<uint64_t>()),
                    with_commas(row["steps"].get<uint64_t>()), three_digits(row["busy_share"]),
                    with_commas(row["least_requests"].get<uint64_t>()) + " to " + with_commas(row["most_requests"].get<uint64_t>())});
  }
  std::printf("\n%s", table(rows, 1).c_str());
}

// Pages at the end of the run.
void print_pages_of_groups(const Json& groups) {
  std::vector<std::vector<std::string>> rows = {{"group", "keeps", "pages in use", "pages cached"}};
  for (const Json& group : groups) {
    rows.push_back({std::to_string(group["group"].get<uint64_t>()), group["keeps"].get<std::string>(),
                    with_commas(group["pages_used"].get<uint64_t>()), with_commas(group["pages_cached"].get<uint64_t>())});
  }
  std::printf("\n%s", table(rows, 2).c_str());
}

void print_replay(const Json& json) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : json.items()) {
    if (name == "schema" || value.is_array()) continue;
    if (value.is_object()) {
      const std::string what = name == "misses" ? "miss: " : name + ": ";
      for (const auto& [field, count] : value.items()) {
        rows.push_back({what + field, count.is_number_float() ? three_digits(count) : count.dump()});
      }
    } else if (value.is_number_float()) {
      rows.push_back({name, three_digits(value)});
    } else {
      rows.push_back({name, value.dump()});
    }
  }
  std::printf("%s", table(rows, 2).c_str());
  print_pages_of_groups(json["groups"]);
  if (!json["oracles"].empty()) print_oracles(json);
  if (!json["sweep"].empty()) print_sweep_of_replays(json["sweep"]);
  if (!json["fleet"].empty()) {
    print_fleet(json["fleet"]);
    if (json["fleet"][0].contains("tier")) print_fleet_tiers(json["fleet"]);
  }
}

// A number that can be calculated with.
CLI::Validator number(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double value = 0;
    const bool is_right = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return is_right ? std::string() : svg::print("'%s'; must be a number from %g to %g", text.c_str(), least, most);
  };
  return CLI::Validator(check, "");
}

void add_times(CLI::App* command, replay::Timing* timing) {
  CLI::Option* const arrivals =
      command->add_flag("--arrivals", timing->arrivals,
                        "queue each request at the time that the trace gives; else all are queued at the start, and the next turn of a "
                        "conversation goes before them");
  CLI::Option* const thinks = command
                                  ->add_option("--think-time", timing->think_seconds,
                                               "seconds from the end of a turn to the next one, where a trace says which request goes on "
                                               "with the one before it (ShareGPT's conversations)")
                                  ->check(number(0, 1e6));
  CLI::Option* const step = command
                                ->add_option("--step-time", timing->step_ms,
                                             "with --arrivals or --think-time: simulated milliseconds of a step, without its tokens")
                                ->check(number(0.001, 1e6))
                                ->capture_default_str();
  CLI::Option* const token =
      command
          ->add_option("--token-time", timing->token_us,
                       "with --arrivals or --think-time: simulated microseconds of each token that a step computes, prompt or output")
          ->check(number(0, 1e6))
          ->capture_default_str();
  command->parse_complete_callback([=] {
    if (arrivals->count() + thinks->count() > 0 || step->count() + token->count() == 0) return;
    throw CLI::ValidationError(step->count() > 0 ? "--step-time" : "--token-time", "only with --arrivals or --think-time");
  });
}

// What is replayed besides, and what is recorded.
void add_comparisons(CLI::App* command, const std::shared_ptr<ReplayArguments>& arguments) {
  command->add_flag("--first-chunks", arguments->first_chunks,
                    "start a request when its first chunk fits; else when its prompt fits, and what it and the running ones will "
                    "generate if each generates as much as the mean of those that ended");
  command->add_flag("--link-tails", arguments->link_tails,
                    "guess which prompt goes on with the unfinished last block of another, and give its block the same text; for traces "
                    "whose ids name whole blocks, as Mooncake's");
  add_names(command, "--oracle", &arguments->oracles, replay::oracle_of,
            "also simulate other caches of the same size, with commas: infinite (nothing is evicted), lru (states and windows are free and "
            "everywhere), clairvoyant (they are where the next request resumes), marconi (the rules of arXiv 2411.19379)");
  command->add_option_function<std::string>(
      "--tier",
      [arguments](const std::string& text) {
        constexpr std::string_view kShared = "store:";
        arguments->tier_is_shared = text.starts_with(kShared);
        const std::vector<uint64_t> sizes = sizes_of("--tier", arguments->tier_is_shared ? text.substr(kShared.size()) : text);
        if (sizes.size() != 1) throw CLI::ValidationError("--tier", "one size is wanted");
        arguments->tier = sizes[0];
      },
      "simulate a tier of this size below the cache, per shard as --memory, e.g. 200GiB: what the cache lacks is loaded from it if all of "
      "it is there; loads and stores take no time. Each of --engines has its own; store:SIZE is one for all of them");
  command
      ->add_option("--active-params", arguments->active_parameters,
                   "parameters that compute a token, in billions, e.g. 17: their FLOPs count in the compute that is saved, besides those "
                   "of attention")
      ->check(CLI::Range(0.0, 1e6).description(""));
  command->add_option_function<std::string>(
      "--sweep-memory", [arguments](const std::string& text) { arguments->sweep_memory = sizes_of("--sweep-memory", text); },
      "also replay with each of these memories, with commas, e.g. 40GiB,80GiB,160GiB: a table, and a plot in a report");
  command->add_option_function<std::string>(
      "--sweep-policy", [arguments](const std::string& text) { arguments->sweep_policies = list_of("--sweep-policy", text); },
      "the same for each of these policies, e.g. vllm,auto");
  command
      ->add_option("--engines", arguments->engines,
                   "also replay on a fleet of so many engines, each with --memory of its own; they step together, and a step takes as long "
                   "as that of the busiest")
      ->check(whole(1, 1024));
  add_names(
      command, "--router", &arguments->routers, replay::routing_of,
      "who decides which engine of the fleet gets a request, with commas: prefix (where the prompt and what waits before it leave fewest "
      "tokens to compute), random, least-loaded (fewest requests); all when absent");
  add_times(command, &arguments->options.timing);
  command->add_option("--series", arguments->options.samples, "so many samples of the run in the JSON, spread over the requests")
      ->check(whole(1, 100000));
  command->add_option("--follow", arguments->options.follow, "number of a request whose steps are recorded, from 0")
      ->check(whole(0, UINT64_MAX - 1));
}

}  // namespace

void add_replay(CLI::App* app) {
  auto arguments = std::make_shared<ReplayArguments>();
  auto report = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app->add_subcommand("replay", "Replay a request trace through the bookkeeping: hits, misses, time per request");
  add_plan_arguments(command, &arguments->plan);
  command
      ->add_option(
          "trace", arguments->trace,
          "requests: Mooncake's JSON lines (also vLLM's timed_trace), Azure's or BurstGPT's CSV, ShareGPT's JSON, vLLM's prompts "
          "or detailed results; .gz allowed, - = standard input. Or a made one: agents:N (N sessions of coding agents), documents:N "
          "(N questions about documents) or conversations:N (N turns under few system prompts). Without --arrivals, requests start "
          "in order, as soon as there is room")
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
  add_comparisons(command, arguments);
  command->add_option("--report", *report, "write one HTML page with charts of the run, which needs no network")->type_name("FILE");
  command->add_flag("--verify", arguments->verify, "re-derive every invariant at the end");
  command->add_flag("--json", *as_json, "as JSON");
  command->callback([arguments, report, as_json] {
    if (!report->empty() && arguments->options.samples == 0) arguments->options.samples = kReportSamples;
    arguments->progress = isatty(STDERR_FILENO) != 0;
    const Json json = replay_json(*arguments);
    if (!report->empty()) write_file(*report, report_html(json, *arguments));
    *as_json ? print_json(json) : print_replay(json);
  });
}

}  // namespace quire::tools
