// quire sweep: plans over memory, ranks and lengths, as a table and a plot.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/option_values.h"
#include "quire/plan_report.h"
#include "quire/sweep_svg.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = (uint64_t{1} << 63) - 1;
constexpr uint64_t kMostTokens = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMostRanks = 1024;

struct SweepArguments {
  PlanArguments plan;
  std::vector<uint64_t> memory = {kDefaultMemory};
  std::vector<uint64_t> ranks = {1};
  std::vector<uint64_t> lengths = {0};  // 0 = the model's
  std::string svg;
  bool json = false;
};

// One plan of the sweep. What does not fit is planned for the length that does, so that the row says how long that is.
Json point(quire_model* model, PlanArguments arguments, uint64_t memory, uint64_t ranks, uint64_t length) {
  arguments.memory = {memory};
  arguments.tensor_parallel = static_cast<uint32_t>(ranks);
  arguments.max_len = length;
  Json json = {{"memory_bytes", memory}, {"tensor_parallel", ranks}, {"tokens", length}};
  try {
    arguments.fit = "length";
    const client::Config config = plan_of(model, arguments);
    client::Error error;
    auto facts = client::sized<quire_model_info>();
    client::check(quire_model_get_info(model, &facts, &error), error);
    auto info = client::sized<quire_config_info>();
    client::check(quire_config_get_info(config.get(), &info, &error), error);
    const uint64_t asked = length != 0 ? length : facts.max_model_len;
    const bool fits = info.max_model_len == asked;
    const quire_capacity found = capacity_of(model, config.get(), 0, 1);
    json["tokens"] = asked;
    json["fits"] = fits;
    json["longest"] = info.max_model_len;
    json["groups"] = info.num_groups;
    json["pages"] = info.num_pages;
    json["padding_share"] = info.padding_share;
    json["guaranteed"] = fits ? found.guaranteed : 0;
    json["decoding"] = fits ? found.decoding : 0;
    json["resident"] = fits ? found.resident : 0;
    json["kv_cache_tokens"] = found.kv_cache_tokens;
  } catch (const client::Failure& failure) {
    json["fits"] = false;
    json["error"] = failure.what();
  }
  return json;
}

Json collect(const SweepArguments& arguments) {
  const client::Model model = model_of(arguments.plan);
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model.get(), &facts, &error), error);
  Json json = {
      {"schema", "quire.sweep/1"}, {"architecture", facts.architecture}, {"policy", arguments.plan.policy}, {"plans", Json::array()}};
  for (const uint64_t ranks : arguments.ranks) {
    for (const uint64_t length : arguments.lengths) {
      for (const uint64_t memory : arguments.memory) json["plans"].push_back(point(model.get(), arguments.plan, memory, ranks, length));
    }
  }
  return json;
}

void print_sweep(const Json& json) {
  std::printf("%s, policy %s\n\n", json["architecture"].get<std::string>().c_str(), json["policy"].get<std::string>().c_str());
  std::vector<std::vector<std::string>> rows = {
      {"memory", "ranks", "tokens", "fit at most", "guaranteed", "decoding", "resident", "cache, tokens", "padding"}};
  std::string errors;
  for (const Json& plan : json["plans"]) {
    const auto text = [&plan](const char* field) {
      return plan.contains(field) ? with_commas(plan[field].get<uint64_t>()) : std::string("-");
    };
    char padding[32] = "-";
    if (plan.contains("padding_share")) std::snprintf(padding, sizeof padding, "%.2f %%", 100 * plan["padding_share"].get<double>());
    rows.push_back({client::bytes_text(plan["memory_bytes"].get<uint64_t>()), text("tensor_parallel"), text("tokens"), text("longest"),
                    text("guaranteed"), text("decoding"), text("resident"), text("kv_cache_tokens"), padding});
    if (!plan.contains("error")) continue;
    errors += wrapped(
        rows.back()[0] + ", " + counted(plan["tensor_parallel"].get<uint64_t>(), "rank") + ": " + plan["error"].get<std::string>(), 2);
  }
  std::printf("%s", table(rows, 0).c_str());
  if (!errors.empty()) std::printf("\n%s", errors.c_str());
}

// The axis is what has the most values; the other values make a line each.
SweepPlot plot_of(const SweepArguments& arguments, const Json& json) {
  const char* const fields[] = {"memory_bytes", "tokens", "tensor_parallel"};
  const char* const names[] = {"memory per shard, GiB", "tokens per sequence", "tensor parallel ranks"};
  const size_t sizes[] = {arguments.memory.size(), arguments.lengths.size(), arguments.ranks.size()};
  const size_t axis = static_cast<size_t>(std::max_element(std::begin(sizes), std::end(sizes)) - std::begin(sizes));
  SweepPlot plot;
  plot.title = json["architecture"].get<std::string>() + ", policy " + json["policy"].get<std::string>();
  plot.x_name = names[axis];
  for (const Json& plan : json["plans"]) {
    std::string name;
    for (size_t f = 0; f < std::size(fields); ++f) {
      if (f == axis || sizes[f] == 1) continue;
      const auto value = plan[fields[f]].get<uint64_t>();
      name += (name.empty() ? "" : ", ") + (f == 0   ? client::bytes_text(value)
                                            : f == 1 ? with_commas(value) + " tokens"
                                                     : counted(value, "rank"));
    }
    if (name.empty()) name = "sequences";
    auto line = std::find_if(plot.lines.begin(), plot.lines.end(), [&name](const SweepLine& one) { return one.name == name; });
    if (line == plot.lines.end()) line = plot.lines.insert(line, {name, {}, {}});
    if (line == plot.lines.begin()) {
      const auto value = plan[fields[axis]].get<uint64_t>();
      plot.x.push_back(static_cast<double>(value));
      plot.x_texts.push_back(axis == 0 ? with_commas(value >> 30) : with_commas(value));
    }
    line->guaranteed.push_back(plan.value("guaranteed", uint64_t{0}));
    line->decoding.push_back(plan.value("decoding", uint64_t{0}));
  }
  return plot;
}

}  // namespace

void add_sweep(CLI::App* app) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = app->add_subcommand("sweep", "Plans over memory, ranks and lengths, as a table and a plot");
  add_plan_arguments(command, &arguments->plan, PlanOptions::kWithoutSizes);
  const auto points = [command](const char* option, std::vector<uint64_t>* to, uint64_t most, const char* help) {
    command->add_option_function<std::string>(
        option, [option, to, most](const std::string& text) { *to = points_of(option, text, 1, most); }, help);
  };
  points("--memory", &arguments->memory, kMostBytes,
         "bytes for the cache, without weights, per shard: values and ranges, e.g. 24GiB,40GiB..160GiB:4; 80GiB when absent");
  points("--tp", &arguments->ranks, kMostRanks, "tensor parallel ranks, e.g. 1,2,4,8; 1 when absent");
  points("--max-len", &arguments->lengths, kMostTokens, "tokens of a sequence, e.g. 8192,131072; the model's when absent");
  command->add_option("--svg", arguments->svg, "also draw the sequences into this file")->check(not_empty());
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] {
    const Json json = collect(*arguments);
    if (!arguments->svg.empty()) {
      write_file(arguments->svg, sweep_svg(plot_of(*arguments, json)));
    }
    arguments->json ? print_json(json) : print_sweep(json);
    const auto& plans = json["plans"];
    if (std::all_of(plans.begin(), plans.end(), [](const Json& plan) { return plan.contains("error"); })) {
      throw std::runtime_error("no plan of the sweep could be made");
    }
  });
}

}  // namespace quire::tools
