// quire plan: a model's config.json and a memory size give groups, pages, padding and capacity.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/option_values.h"
#include "quire/plan_report.h"
#include "quire/plan_svg.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

uint64_t number(const Json& json, const char* field) { return json[field].get<uint64_t>(); }
std::string text_of(const Json& json, const char* field) { return json[field].get<std::string>(); }
std::string digits(const Json& json, const char* field) { return std::to_string(number(json, field)); }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

void print_groups(const Json& json) {
  std::vector<std::vector<std::string>> rows = {
      {"group", "keeps", "caches", "block", "kernel", "window", "parts", "ids", "payload", "page bytes", "padding"},
      {"", "", "", "tokens", "tokens", "tokens", "per page", "per block", "per block", "per block", ""}};
  for (const Json& group : json["groups"]) {
    const std::string keeps = text_of(group, "keeps");
    rows.push_back({digits(group, "group"),
                    keeps == "state"     ? "states"
                    : keeps == "encoder" ? "encoder"
                                         : "tokens",
                    digits(group, "caches"), digits(group, "block_tokens"), digits(group, "kernel_block_tokens"),
                    std::to_string(number(group, "window") + number(group, "chunk")), digits(group, "parts_per_page"),
                    digits(group, "ids_per_block"), digits(group, "payload_bytes_per_block"), digits(group, "page_bytes_per_block"),
                    percent(group["padding_share"].get<double>())});
  }
  std::printf("%s", table(rows, 2).c_str());
}

// How many sequences fit, and why this plan.
void print_capacity(const Json& json) {
  const Json& fits = json["capacity"];
  std::string out = "\n";
  const auto say = [&out](const std::string& line) { out += wrapped(line, 2); };
  if (number(json, "checkpoint_tokens") != 0) say("states are kept every " + digits(json, "checkpoint_tokens") + " tokens");
  say("sequences of " + digits(fits, "tokens") + " tokens: " + digits(fits, "guaranteed") + " guaranteed, " + digits(fits, "decoding") +
      " decoding, " + digits(fits, "resident") + " resident");
  say(digits(fits, "concurrency") + " at once may have " + digits(fits, "longest") + " tokens each");
  const std::string size = digits(fits, "kv_cache_tokens") + " tokens";
  say(text_of(json, "policy") == "vllm" ? "vLLM would print a KV cache size of " + size
                                        : "this plan's KV cache size, by the formula of vLLM's log: " + size);
  if (!fits["fits"].get<bool>()) {
    say("to fit " + digits(fits, "concurrency") + " of " + digits(fits, "tokens") + " tokens: " + digits(fits, "pages_needed") +
        " pages, " + client::bytes_text(number(fits, "bytes_needed_per_shard")) + " per shard");
  }
  if (json.contains("search")) out += wrapped("why: " + text_of(json["search"], "why"), 2);
  if (!text_of(json["fit"], "text").empty()) out += wrapped("fit: " + text_of(json["fit"], "text"), 2);
  std::set<std::string> told;  // a note of several groups is told once
  for (const Json& note : json["notes"]) {
    if (told.insert(note.get<std::string>()).second) out += wrapped("note: " + note.get<std::string>(), 2);
  }
  std::printf("%s", out.c_str());
}

void print_plan(const Json& json) {
  uint64_t bytes = 0;
  for (const Json& region : json["regions"]) bytes += number(region, "shard") == 0 ? number(region, "bytes") : 0;
  const bool stages = number(json, "pipeline_parallel") > 1;
  const double unused = json["unused_share"].get<double>();
  std::string out;
  const auto say = [&out](const std::string& line) { out += wrapped(line, 2); };
  say(text_of(json, "architecture") + ": " + counted(number(json, "layers"), "layer") + ", " + counted(number(json, "caches"), "cache"));
  say("policy " + text_of(json, "policy") + ", layout " + text_of(json, "layout") + ", " + counted(number(json, "shards"), "shard"));
  say(digits(json, "num_pages") + " pages of " + client::bytes_text(number(json, "page_bytes")) + " = " + client::bytes_text(bytes) +
      " per shard, padding " + percent(json["padding_share"].get<double>()) + (stages ? " over all stages" : "") +
      (unused > 0 ? ", unused in stages without layers of a group " + percent(unused) : ""));
  say("prefixes are matched in units of " + digits(json, "match_unit_tokens") + " tokens, hits are multiples of " +
      digits(json, "hit_alignment_tokens"));
  say("a sequence of " + digits(json, "capacity_tokens") + " tokens always fits (max_model_len " + digits(json, "max_model_len") + ")");
  std::printf("%s\n", out.c_str());
  print_groups(json);
  if (stages) std::printf("payload, page bytes and padding of a group are those of the stage that pads most of it\n");
  print_capacity(json);
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

}  // namespace

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
  command->add_option("--concurrency", arguments->plan.concurrency, "sequences at once; capacity is computed for that many")
      ->check(whole(1, uint64_t{1} << 24))
      ->capture_default_str();
  command
      ->add_option("--fit", arguments->plan.fit,
                   "what gives way where not all fits: length (the longest at which --concurrency sequences fit), memory (the least "
                   "that holds them) or none; what was not asked for when absent")
      ->check(CLI::IsMember({"length", "memory", "none"}));
  command->add_flag("--json", arguments->json, "as JSON");
  command->add_flag("--explain", arguments->explain,
                    "the planner's explanation as JSON: every candidate and why this one; with --json beside the rest");
  command->add_option("--svg", arguments->svg, "also draw a page and the memory to scale into this file")->check(not_empty());
  command->callback([arguments] {
    const Planned planned = plan_fitted(arguments->plan);
    quire_config* const config = planned.fitted.config.get();
    if (!arguments->svg.empty()) write_file(arguments->svg, plan_svg(planned.model.get(), planned.fitted.config.get()));
    Json why = {{"schema", "quire.explanation/1"}};
    if (arguments->explain) why.update(plan_explanation(config));
    if (arguments->explain && !arguments->json) return print_json(why);
    Json json = plan_report(planned, arguments->plan.concurrency);
    if (arguments->explain) json["explanation"] = why;
    if (arguments->json) return print_json(json);
    const bool as_it_is = keeps_types(planned.model.get(), arguments->plan);
    std::string caches = as_it_is ? client::describe(planned.model.get()) : describe_stored(planned.model.get(), config);
    if (!as_it_is && caches.starts_with("model:")) caches.replace(0, std::string("model").size(), text_of(json, "architecture"));
    std::printf("%s\n", caches.c_str());
    print_plan(json);
  });
}

}  // namespace quire::tools
