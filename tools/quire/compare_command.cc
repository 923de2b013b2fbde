// quire compare: two plans side by side, and what differs in bytes and sequences.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/option_values.h"
#include "quire/plan_report.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

struct CompareArguments {
  PlanArguments plan;
  std::string other;
  std::string with;
  bool json = false;
};

constexpr const char* kPlanSchema = "quire.plan/1";
constexpr uint64_t kMostPlanBytes = uint64_t{256} << 20;

// A plan that `quire plan --json` wrote, or null where the file is something else.
Json written_plan(const std::string& path) {
  Json json;
  try {
    const std::string text = client::read_file(path, kMostPlanBytes);
    if (client::nests_too_deep(text)) return {};
    json = Json::parse(text, nullptr, false);
  } catch (const std::exception&) {
    return {};  // a folder, or too large
  }
  const bool is_plan = json.is_object() && json.contains("schema") && json["schema"] == kPlanSchema;
  return is_plan ? json : Json();
}

Json side(PlanArguments arguments, const std::string& path) {
  Json json = written_plan(path);
  if (!json.is_null()) return json;
  arguments.config = path;
  return plan_report(plan_fitted(arguments), arguments.concurrency);
}

// The options of the second plan, after those of both.
PlanArguments with_options(const PlanArguments& arguments, const std::string& text) {
  PlanArguments out = arguments;
  CLI::App app("options of --with");
  add_plan_arguments(&app, &out, PlanOptions::kAll);
  app.remove_option(app.get_option("config"));
  app.set_help_flag();
  try {
    app.parse(text, false);
  } catch (const CLI::ParseError& failure) {
    throw Usage("--with '" + text + "': " + failure.what());
  }
  return out;
}

// A figure of a plan: its name, how to find it and how to write it.
enum class Unit { kCount, kBytes, kShare };
struct Figure {
  const char* name;
  Json::json_pointer where;
  Unit unit;
};

std::vector<Figure> figures() {
  return {{"shards", Json::json_pointer("/shards"), Unit::kCount},
          {"groups", Json::json_pointer("/num_groups"), Unit::kCount},
          {"page", Json::json_pointer("/page_bytes"), Unit::kBytes},
          {"pages", Json::json_pointer("/num_pages"), Unit::kCount},
          {"pool of shard 0", Json::json_pointer("/pool_bytes"), Unit::kBytes},
          {"padding", Json::json_pointer("/padding_share"), Unit::kShare},
          {"match unit, tokens", Json::json_pointer("/match_unit_tokens"), Unit::kCount},
          {"longest sequence, tokens", Json::json_pointer("/max_model_len"), Unit::kCount},
          {"bytes of a token", Json::json_pointer("/token_bytes"), Unit::kBytes},
          {"bytes of a state", Json::json_pointer("/state_bytes"), Unit::kBytes},
          {"sequences guaranteed", Json::json_pointer("/capacity/guaranteed"), Unit::kCount},
          {"sequences decoding", Json::json_pointer("/capacity/decoding"), Unit::kCount},
          {"sequences resident", Json::json_pointer("/capacity/resident"), Unit::kCount},
          {"KV cache size, tokens", Json::json_pointer("/capacity/kv_cache_tokens"), Unit::kCount},
          {"memory needed", Json::json_pointer("/capacity/bytes_needed_per_shard"), Unit::kBytes}};
}

std::string shown(double value, Unit unit) {
  if (unit == Unit::kBytes) return client::bytes_text(static_cast<uint64_t>(value));
  if (unit == Unit::kCount) return with_commas(static_cast<uint64_t>(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * value);
  return text;
}

std::string difference(double a, double b, Unit unit) {
  if (a == b) return "";
  const char* const sign = b > a ? "+" : "-";
  std::string out = sign + shown(b > a ? b - a : a - b, unit);
  if (a == 0 || unit == Unit::kShare) return out;
  char text[32];
  std::snprintf(text, sizeof text, " (%+.1f %%)", 100 * (b - a) / a);
  return out + text;
}

Json compare(const Json& a, const Json& b) {
  Json out = {{"schema", "quire.compare/1"}, {"a", a["architecture"]}, {"b", b["architecture"]}, {"figures", Json::array()}};
  out["policies"] = {a["policy"], b["policy"]};
  out["layouts"] = {a["layout"], b["layout"]};
  for (const Figure& figure : figures()) {
    if (!a.contains(figure.where) || !b.contains(figure.where)) continue;
    const Json& left = a[figure.where];
    const Json& right = b[figure.where];
    out["figures"].push_back({{"name", figure.name}, {"a", left}, {"b", right}, {"difference", right.get<double>() - left.get<double>()}});
  }
  out["groups"] = {a["groups"], b["groups"]};
  return out;
}

void print_compare(const Json& json) {
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  for (size_t i = 0; i < 2; ++i) {
    std::printf("%s: %s, policy %s, layout %s\n", i == 0 ? "A" : "B", text(json[i == 0 ? "a" : "b"]).c_str(),
                text(json["policies"][i]).c_str(), text(json["layouts"][i]).c_str());
  }
  std::vector<std::vector<std::string>> rows = {{"", "A", "B", "B - A"}};
  for (const Json& figure : json["figures"]) {
    Unit unit = Unit::kCount;
    for (const Figure& known : figures()) unit = figure["name"] == known.name ? known.unit : unit;
    const double a = figure["a"].get<double>();
    const double b = figure["b"].get<double>();
    rows.push_back({text(figure["name"]), shown(a, unit), shown(b, unit), difference(a, b, unit)});
  }
  std::printf("\n%s", table(rows, 1).c_str());
  for (size_t i = 0; i < 2; ++i) {
    std::printf("\n%s", i == 0 ? "A" : "B");
    std::vector<std::vector<std::string>> groups = {
        {" group", "keeps", "caches", "block tokens", "window", "page bytes per block", "padding"}};
    for (const Json& group : json["groups"][i]) {
      const auto number = [&group](const char* field) { return group[field].get<uint64_t>(); };
      groups.push_back({std::to_string(number("group")), text(group["keeps"]), std::to_string(number("caches")),
                        std::to_string(number("block_tokens")), std::to_string(number("window") + number("chunk")),
                        with_commas(number("page_bytes_per_block")), shown(group["padding_share"].get<double>(), Unit::kShare)});
    }
    std::printf("%s", table(groups, 2).c_str());
  }
}

}  // namespace

void add_compare(CLI::App* app) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app->add_subcommand("compare", "Compare two plans: what differs in bytes, pages and sequences");
  add_plan_arguments(command, &arguments->plan);
  command->add_option("other", arguments->other, "the second model; each may also be the output of quire plan --json");
  command->add_option("--with", arguments->with, "options of the second plan, e.g. --with '--policy vllm --tp 2'; the others hold for both")
      ->check(not_empty());
  command->add_option("--concurrency", arguments->plan.concurrency, "sequences at once; capacity is computed for that many")
      ->check(whole(1, uint64_t{1} << 24))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] {
    if (arguments->other.empty() && arguments->with.empty()) throw Usage("one model and no --with: there is nothing to compare with");
    const PlanArguments second = arguments->with.empty() ? arguments->plan : with_options(arguments->plan, arguments->with);
    const bool written = !written_plan(arguments->other.empty() ? arguments->plan.config : arguments->other).is_null();
    if (written && !arguments->with.empty()) throw Usage("--with: the second plan is a written one, which options cannot change");
    const std::string& other = arguments->other.empty() ? arguments->plan.config : arguments->other;
    const Json json = compare(side(arguments->plan, arguments->plan.config), side(second, other));
    arguments->json ? print_json(json) : print_compare(json);
  });
}

}  // namespace quire::tools
