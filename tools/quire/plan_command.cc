// quire plan: a model's config.json and a memory size give groups, pages, padding and capacity.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/option_values.h"
#include "quire/plan_of.h"
#include "quire/plan_svg.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

Json group_json(quire_config* config, uint32_t group) {
  client::Error error;
  auto info = client::sized<quire_group_info>();
  client::check(quire_config_get_group(config, group, &info, &error), error);
  const double page = static_cast<double>(info.page_bytes_per_block);
  return {{"group", group},
          {"state", info.is_state != 0},
          {"caches", info.num_caches},
          {"lanes", info.num_lanes},
          {"block_tokens", info.block_tokens},
          {"kernel_block_tokens", info.kernel_block_tokens},
          {"parts_per_page", info.parts_per_page},
          {"ids_per_block", info.ids_per_block},
          {"sink_tokens", info.sink_tokens},
          {"window", info.window},
          {"chunk", info.chunk},
          {"payload_bytes_per_block", info.payload_bytes_per_block},
          {"page_bytes_per_block", info.page_bytes_per_block},
          {"padding_share", page > 0 ? 1 - static_cast<double>(info.payload_bytes_per_block) / page : 0}};
}

Json regions_json(quire_config* config, uint32_t shard) {
  client::Error error;
  uint64_t count = 0;
  client::check(quire_config_list_regions(config, shard, nullptr, sizeof(quire_region_info), 0, &count, &error), error);
  std::vector<quire_region_info> regions(count, client::sized<quire_region_info>());
  client::check(quire_config_list_regions(config, shard, regions.data(), sizeof(quire_region_info), count, &count, &error), error);
  Json json = Json::array();
  for (const quire_region_info& region : regions) {
    json.push_back({{"shard", shard},
                    {"region", region.region},
                    {"bytes", region.bytes},
                    {"alignment", region.alignment},
                    {"page_bytes", region.page_stride * region.num_planes},
                    {"planes", region.num_planes}});
  }
  return json;
}

// The planner's own words: what it considered, what each would have cost, why this one.
std::string explanation(quire_config* config) {
  client::Error error;
  uint64_t count = 0;
  client::check(quire_config_describe_json(config, nullptr, 0, &count, &error), error);
  std::string text(count, '\0');
  client::check(quire_config_describe_json(config, text.data(), count, &count, &error), error);
  return text;
}

Json capacity_json(quire_config* config, uint64_t tokens, uint64_t concurrency) {
  client::Error error;
  auto found = client::sized<quire_capacity>();
  client::check(quire_config_get_capacity(config, nullptr, tokens, concurrency, &found, &error), error);
  return {{"tokens", found.tokens},
          {"guaranteed", found.guaranteed},
          {"decoding", found.decoding},
          {"resident", found.resident},
          {"kv_cache_tokens", found.kv_cache_tokens},
          {"concurrency", found.concurrency},
          {"longest", found.longest},
          {"pages_needed", found.pages_needed},
          {"bytes_needed_per_shard", found.bytes_needed},
          {"fits", found.guaranteed >= found.concurrency}};
}

Json collect(const PlanArguments& arguments) {
  const client::Model model = model_of(arguments);
  std::vector<std::string> left;
  const client::Config config = plan_of(model.get(), arguments, &left);
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model.get(), &facts, &error), error);
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config.get(), &info, &error), error);
  Json json = {{"architecture", facts.architecture},
               {"layers", facts.num_layers},
               {"caches", facts.num_caches},
               {"policy", info.policy},
               {"layout", info.layout},
               {"shards", info.num_shards},
               {"match_unit_tokens", info.match_unit_tokens},
               {"num_groups", info.num_groups},
               {"num_pages", info.num_pages},
               {"padding_share", info.padding_share},
               {"max_model_len", info.max_model_len},
               {"capacity_tokens", info.capacity_tokens}};
  json["page_bytes"] = 0;
  json["groups"] = Json::array();
  for (uint32_t group = 0; group < info.num_groups; ++group) json["groups"].push_back(group_json(config.get(), group));
  json["regions"] = Json::array();
  for (uint32_t shard = 0; shard < info.num_shards; ++shard) {
    for (Json& region : regions_json(config.get(), shard)) json["regions"].push_back(std::move(region));
  }
  const Json explained = Json::parse(explanation(config.get()));
  for (uint32_t group = 0; group < info.num_groups; ++group) json["groups"][group]["keeps"] = explained["groups"][group]["keeps"];
  for (const char* field : {"pipeline_parallel", "hit_alignment_tokens", "checkpoint_tokens", "notes"}) json[field] = explained[field];
  for (const std::string& note : left) json["notes"].push_back(note);
  for (const char* field : {"search", "sizing"}) {
    if (explained.contains(field)) json[field] = explained[field];
  }
  json["capacity"] = capacity_json(config.get(), info.max_model_len, arguments.concurrency);
  uint64_t page = 0;
  for (const Json& region : json["regions"]) page += region["shard"] == 0 ? region["page_bytes"].get<uint64_t>() : 0;
  json["page_bytes"] = page;  // of shard 0
  return json;
}

uint64_t number(const Json& json, const char* field) { return json[field].get<uint64_t>(); }

// Which distances there are, what fits, and why this plan.
void print_capacity(const Json& json) {
  const auto count = [](const Json& from, const char* field) { return static_cast<unsigned long long>(number(from, field)); };
  const Json& fits = json["capacity"];
  std::printf("\n");
  if (number(json, "checkpoint_tokens") != 0) std::printf("states are kept every %llu tokens\n", count(json, "checkpoint_tokens"));
  std::printf("sequences of %llu tokens: %llu guaranteed, %llu decoding, %llu resident\n", count(fits, "tokens"), count(fits, "guaranteed"),
              count(fits, "decoding"), count(fits, "resident"));
  std::printf("%llu at once may have %llu tokens each; KV cache size: %llu tokens\n", count(fits, "concurrency"), count(fits, "longest"),
              count(fits, "kv_cache_tokens"));
  if (!fits["fits"].get<bool>()) {
    std::printf("to fit %llu of %llu tokens: %llu pages, %s per shard\n", count(fits, "concurrency"), count(fits, "tokens"),
                count(fits, "pages_needed"), client::bytes_text(number(fits, "bytes_needed_per_shard")).c_str());
  }
  if (json.contains("search")) std::printf("why: %s\n", json["search"]["why"].get<std::string>().c_str());
  for (const Json& note : json["notes"]) std::printf("note: %s\n", note.get<std::string>().c_str());
}

void print_plan(const Json& json) {
  uint64_t bytes = 0;
  const uint64_t page = number(json, "page_bytes");
  for (const Json& region : json["regions"]) bytes += region["shard"] == 0 ? number(region, "bytes") : 0;
  std::printf("%s: %llu layers, %llu caches\n", json["architecture"].get<std::string>().c_str(),
              static_cast<unsigned long long>(number(json, "layers")), static_cast<unsigned long long>(number(json, "caches")));
  std::printf("policy %s, layout %s, %llu shard(s)\n", json["policy"].get<std::string>().c_str(), json["layout"].get<std::string>().c_str(),
              static_cast<unsigned long long>(number(json, "shards")));
  std::printf("%llu pages of %s = %s per shard, padding %.2f %%%s\n", static_cast<unsigned long long>(number(json, "num_pages")),
              client::bytes_text(page).c_str(), client::bytes_text(bytes).c_str(), 100 * json["padding_share"].get<double>(),
              number(json, "pipeline_parallel") > 1 ? " over all stages" : "");
  std::printf(
      "prefixes are matched in units of %llu tokens, hits are multiples of %llu; a sequence of %llu tokens always fits (max_model_len "
      "%llu)\n\n",
      static_cast<unsigned long long>(number(json, "match_unit_tokens")),
      static_cast<unsigned long long>(number(json, "hit_alignment_tokens")),
      static_cast<unsigned long long>(number(json, "capacity_tokens")), static_cast<unsigned long long>(number(json, "max_model_len")));
  std::printf("%5s %-7s %6s %6s %8s %7s %9s %9s %14s %14s %8s\n", "group", "keeps", "caches", "block", "kernel", "window", "parts", "ids",
              "payload", "page bytes", "padding");
  std::printf("%5s %-7s %6s %6s %8s %7s %9s %9s %14s %14s %8s\n", "", "", "", "tokens", "tokens", "tokens", "per page", "per block",
              "per block", "per block", "");
  for (const Json& group : json["groups"]) {
    const std::string keeps = group["keeps"].get<std::string>();
    std::printf(
        "%5llu %-7s %6llu %6llu %8llu %7llu %9llu %9llu %14llu %14llu %6.2f %%\n", static_cast<unsigned long long>(number(group, "group")),
        keeps == "state"     ? "states"
        : keeps == "encoder" ? "encoder"
                             : "tokens",
        static_cast<unsigned long long>(number(group, "caches")), static_cast<unsigned long long>(number(group, "block_tokens")),
        static_cast<unsigned long long>(number(group, "kernel_block_tokens")),
        static_cast<unsigned long long>(number(group, "window")) + static_cast<unsigned long long>(number(group, "chunk")),
        static_cast<unsigned long long>(number(group, "parts_per_page")), static_cast<unsigned long long>(number(group, "ids_per_block")),
        static_cast<unsigned long long>(number(group, "payload_bytes_per_block")),
        static_cast<unsigned long long>(number(group, "page_bytes_per_block")), 100 * group["padding_share"].get<double>());
  }
  if (number(json, "pipeline_parallel") > 1)
    std::printf("payload, page bytes and padding of a group are those of the stage that pads most of it\n");
  print_capacity(json);
}

}  // namespace

void write_svg(const PlanArguments& arguments, const std::string& path) {
  const client::Model model = model_of(arguments);
  const client::Config config = plan_of(model.get(), arguments);
  std::ofstream out(path, std::ios::binary);
  out << plan_svg(model.get(), config.get());
  out.close();
  if (!out) throw client::Failure(QUIRE_UNAVAILABLE, "cannot write " + path);
}

// The model's caches as the plan stores them.
std::string describe_stored(quire_model* model, quire_config* config) {
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &facts, &error), error);
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &info, &error), error);
  std::vector<quire_layer> layers(facts.num_caches, client::sized<quire_layer>());
  for (uint32_t i = 0; i < facts.num_caches; ++i) {
    quire_layer& layer = layers[i];
    client::check(quire_model_get_layer(model, i, &layer, &error), error);
    auto view = client::sized<quire_kv_view>();
    for (uint32_t shard = 0; shard < info.num_shards; ++shard) {
      if (quire_config_get_kv_view(config, shard, layer.layer, layer.sub, &view, &error) != QUIRE_OK) continue;
      layer.dtype = view.dtype;
      layer.codec = view.codec;
      layer.codec_params = view.codec_params;
      break;
    }
  }
  quire_model* made = nullptr;
  client::check(quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), facts.max_model_len, &made, &error), error);
  const client::Model stored(made);
  return client::describe(stored.get());
}

void add_plan(CLI::App* app) {
  struct Arguments {
    PlanArguments plan;
    bool json = false;
    bool explain = false;
    std::string svg;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app->add_subcommand("plan", "Groups, pages, padding and capacity of a model in given memory");
  add_plan_arguments(command, &arguments->plan);
  command->add_option("--concurrency", arguments->plan.concurrency, "sequences at once that capacity is told for")
      ->check(whole(1, uint64_t{1} << 24))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "as JSON");
  command->add_flag("--explain", arguments->explain,
                    "the planner's explanation as JSON: every candidate and why this one; with --json beside the rest");
  command->add_option("--svg", arguments->svg, "also draw a page to scale into this file")->check(not_empty());
  command->callback([arguments] {
    if (!arguments->svg.empty()) write_svg(arguments->plan, arguments->svg);
    const client::Model model = model_of(arguments->plan);
    Json json = collect(arguments->plan);
    if (arguments->explain) {
      const Json why = Json::parse(explanation(plan_of(model.get(), arguments->plan).get()));
      if (!arguments->json) return print_json(why);
      json["explanation"] = why;
    }
    if (!arguments->json) {
      const bool as_it_is = arguments->plan.kv_dtype.empty();
      const client::Config config = plan_of(model.get(), arguments->plan);
      std::printf("%s\n", (as_it_is ? client::describe(model.get()) : describe_stored(model.get(), config.get())).c_str());
    }
    arguments->json ? print_json(json) : print_plan(json);
  });
}

}  // namespace quire::tools
