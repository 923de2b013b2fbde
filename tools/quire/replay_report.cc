#include "quire/replay_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/client.h"
#include "quire/plan_of.h"
#include "quire/svg.h"
#include "quire/text.h"
#include "quire/vega.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiB = 1 << 30;

double figure(const Json& json, const char* field) { return json[field].get<double>(); }

// The same between two samples.
double between(const Json& series, size_t i, const char* field) {
  return figure(series[i], field) - (i > 0 ? figure(series[i - 1], field) : 0);
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

Json hits_of(const Json& series) {
  Json out = Json::array();
  for (size_t i = 0; i < series.size(); ++i) {
    const auto row = [&](const char* what, double share) {
      out.push_back({{"requests", series[i]["requests"]}, {"what", what}, {"share", share}});
    };
    const bool any = between(series, i, "prompt_tokens") > 0;
    if (any) row("since the sample before", ratio(between(series, i, "hit_tokens"), between(series, i, "prompt_tokens")));
    row("since the beginning", ratio(figure(series[i], "hit_tokens"), figure(series[i], "prompt_tokens")));
  }
  return out;
}

Json misses_of(const Json& series) {
  Json out = Json::array();
  for (size_t i = 0; i < series.size(); ++i) {
    double all = 0;
    const auto count = [&](const std::string& reason) {
      return figure(series[i]["misses"], reason.c_str()) - (i > 0 ? figure(series[i - 1]["misses"], reason.c_str()) : 0);
    };
    for (const auto& [reason, unused] : series[i]["misses"].items()) all += count(reason);
    if (all == 0) continue;  // requests ended and none began
    for (const auto& [reason, unused] : series[i]["misses"].items()) {
      const std::string name = reason == "none" ? "everything hit" : reason;
      out.push_back({{"requests", series[i]["requests"]}, {"reason", name}, {"share", ratio(count(reason), all)}});
    }
  }
  return out;
}

Json pool_of(const Json& series, double page_bytes) {
  Json out = Json::array();
  for (const Json& sample : series) {
    const auto row = [&](const char* what, const char* field) {
      out.push_back({{"requests", sample["requests"]}, {"what", what}, {"gib", figure(sample, field) * page_bytes / kGiB}});
    };
    row("in use", "pages_used");
    row("cached", "pages_evictable");
    row("free", "pages_free");
  }
  return out;
}

Json states_of(const Json& series, double pool_bytes) {
  Json out = Json::array();
  for (const Json& sample : series) {
    out.push_back({{"requests", sample["requests"]}, {"share", ratio(figure(sample, "checkpoint_bytes"), pool_bytes)}});
  }
  return out;
}

Json moves_of(const Json& series) {
  Json out = Json::array();
  for (size_t i = 0; i < series.size(); ++i) {
    const double requests = std::max(1.0, between(series, i, "requests"));
    const auto row = [&](const char* what, const char* field) {
      out.push_back({{"requests", series[i]["requests"]}, {"what", what}, {"each", between(series, i, field) / requests}});
    };
    row("evicted pages", "evicted_pages");
    row("pages that changed the group", "hand_overs");
  }
  return out;
}

Json sweep_lines(const Json& sweep) {
  Json out = Json::array();
  for (const Json& row : sweep) {
    const double gib = figure(row, "memory_bytes") / kGiB;
    out.push_back({{"gib", gib}, {"cache", "quire, " + row["policy"].get<std::string>()}, {"share", row["hit_share"]}});
    for (const Json& oracle : row["oracles"]) {
      out.push_back({{"gib", gib},
                     {"cache", oracle["oracle"].get<std::string>() + ", " + row["policy"].get<std::string>()},
                     {"share", oracle["hit_share"]}});
    }
  }
  return out;
}

// Text of a script element that ends no element.
std::string script_text(const Json& json) {
  std::string text = json.dump(-1, ' ', true), out;
  for (const char c : text) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string cell(const std::string& text) { return "<td>" + svg::escaped(text) + "</td>"; }

std::string share_text(const Json& value) { return svg::print("%.1f %%", 100 * value.get<double>()); }

std::string caches_table(const Json& replay) {
  std::string out = "<table><tr><th>cache<th>tokens hit<th>of all prompt tokens<th>compute saved</tr>\n";
  const auto row = [&out](const std::string& name, const Json& json) {
    out += "<tr>" + cell(name) + cell(with_commas(json["hit_tokens"].get<uint64_t>())) + cell(share_text(json["hit_share"])) +
           cell(share_text(json["compute_saved"])) + "</tr>\n";
  };
  row("quire", replay);
  for (const Json& oracle : replay["oracles"]) row(oracle["oracle"].get<std::string>(), oracle);
  return out + "</table>\n";
}

std::string settings(const Json& replay, const ReplayArguments& arguments) {
  std::string out =
      "Policy " + svg::escaped(arguments.plan.policy) + ", a pool of " + svg::print("%.1f GiB", figure(replay, "pool_bytes") / kGiB) +
      " per shard in " + with_commas(replay["pages"].get<uint64_t>()) + " pages, at most " + with_commas(arguments.options.concurrency) +
      " requests at once, " + with_commas(arguments.options.tokens_per_step) + " tokens a step, seed " + with_commas(arguments.seed) + ". ";
  out += counted(replay["requests"].get<uint64_t>(), "request") + ", " + with_commas(replay["prompt_tokens"].get<uint64_t>()) +
         " prompt tokens, " + with_commas(replay["computed_tokens"].get<uint64_t>()) + " computed, " +
         counted(replay["preemptions"].get<uint64_t>(), "preemption") + ". ";
  return out + "Inside the library a request took " + svg::print("%.0f", figure(replay, "us_per_request")) + " µs.";
}

constexpr const char* kRequests = R"("x":{"field":"requests","type":"quantitative","title":"requests that have ended"})";

std::string encoded(const char* mark, const std::string& x, const std::string& y, const std::string& color) {
  return std::string(R"({"mark":)") + mark + R"(,"encoding":{)" + x + R"(,"y":{)" + y + "}" +
         (color.empty() ? "" : R"(,"color":{)" + color + R"(,"type":"nominal"})") + "}}";
}

std::string chart_html(const std::string& id, const std::string& title, const std::string& text, const Json& values,
                       const std::string& spec) {
  if (values.empty()) return {};
  return "<h2>" + title + "</h2>\n<p>" + text + "</p>\n<div id=\"" + id + "\"></div>\n<script>chart(\"" + id + "\", " +
         script_text(values) + ", " + spec + ");</script>\n";
}

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 2em 0 0; } p { margin: .3em 0 1em; }
table { border-collapse: collapse; margin: 1em 0; } th, td { padding: .2em 1em .2em 0; text-align: right; }
th:first-child, td:first-child { text-align: left; } th { border-bottom: 1px solid #999; font-weight: 600; }
)";

constexpr const char* kChart = R"(
function chart(id, values, spec) {
  vegaEmbed("#" + id, Object.assign({data: {values: values}, width: 700, height: 220,
    config: {view: {stroke: null}, axis: {labelFontSize: 12, titleFontSize: 12}, legend: {labelFontSize: 12, title: null}}}, spec),
    {actions: false, renderer: "svg"});
}
)";

}  // namespace

std::string report_html(const Json& replay, const ReplayArguments& arguments) {
  const std::string model = svg::escaped(std::filesystem::path(arguments.plan.config).filename().string());
  const std::string trace = svg::escaped(std::filesystem::path(arguments.trace).filename().string());
  const Json& series = replay["series"];
  const double pool = figure(replay, "pool_bytes");
  const std::string share = R"("field":"share","type":"quantitative","axis":{"format":"%"})";
  const std::string stacked = R"("field":"share","type":"quantitative","stack":"zero","axis":{"format":"%"},"scale":{"domain":[0,1]})";
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Replay of " + trace + "</title>\n<style>" +
                    kStyle + "</style>\n";
  for (const std::string_view script : {vega_script(), vega_lite_script(), vega_embed_script()}) {
    out += "<script>";
    out += script;
    out += "</script>\n";
  }
  out += std::string("<script>") + kChart + "</script></head><body>\n<h1>Replay of " + trace + " on " + model + "</h1>\n<p>" +
         settings(replay, arguments) + "</p>\n" + caches_table(replay);
  out +=
      chart_html("sweep", "Hit share over memory", "Prompt tokens found in the cache, for each memory and policy of the sweep.",
                 sweep_lines(replay["sweep"]),
                 encoded(R"({"type":"line","point":true})", R"("x":{"field":"gib","type":"quantitative","title":"memory per shard, GiB"})",
                         share + R"(,"title":"hit share")", R"("field":"cache")"));
  out += chart_html("hits", "Hit share over time",
                    "Prompt tokens found in the cache when their request was first matched. A falling line since the sample before means "
                    "that what comes by now is not what is kept.",
                    hits_of(series), encoded("\"line\"", kRequests, share + R"(,"title":"hit share")", R"("field":"what")"));
  out += chart_html("misses", "Why prompts were not found to their end",
                    "Shares of requests. unknown_prefix: nobody computed more of it. evicted: it was there once. no_state: keys and "
                    "values are there, but no state of a recurrent layer to go on from. window_hole: a sliding window lacks blocks. "
                    "below_unit: shorter than what can be found.",
                    misses_of(series), encoded("\"area\"", kRequests, stacked + R"(,"title":"share of requests")", R"("field":"reason")"));
  out += chart_html(
      "pool", "The pool",
      "In use: by running requests. Cached: nobody uses it, the next prompts may. Little cached memory and many evictions: "
      "fewer requests at once, or more memory, bring more hits.",
      pool_of(series, pool / std::max(1.0, figure(replay, "pages"))),
      encoded("\"area\"", kRequests, R"("field":"gib","type":"quantitative","stack":"zero","title":"GiB per shard")", R"("field":"what")"));
  if (pool > 0 && replay["checkpoints"].get<uint64_t>() > 0) {
    out += chart_html("states", "Kept states of recurrent layers",
                      "Their share of the pool, which is learned unless --checkpoint-bytes says it.", states_of(series, pool),
                      encoded("\"line\"", kRequests, share + R"(,"title":"share of the pool")", ""));
  }
  out += chart_html(
      "moves", "Pages that were evicted and that changed the group",
      "Per request. A page that changes the group served layers of one kind, and serves another kind now.", moves_of(series),
      encoded("\"line\"", kRequests, R"("field":"each","type":"quantitative","title":"pages per request")", R"("field":"what")"));
  out += chart_html("followed", svg::print("Request %llu, step by step", static_cast<unsigned long long>(arguments.options.follow)),
                    "Tokens that it has in the cache. The first step begins where it resumed. waiting: it was preempted, and its blocks "
                    "may be evicted.",
                    replay["followed"],
                    encoded(R"({"type":"point","filled":true})",
                            R"("x":{"field":"step","type":"quantitative","scale":{"zero":false},"title":"step of the run"})",
                            R"("field":"tokens","type":"quantitative","title":"tokens")", R"("field":"phase")"));
  return out + "</body></html>\n";
}

void write_report(const std::string& file, const Json& replay, const ReplayArguments& arguments) {
  std::ofstream out(file, std::ios::binary);
  out << report_html(replay, arguments);
  out.close();
  if (!out) throw client::Failure(QUIRE_UNAVAILABLE, "cannot write " + file);
}

}  // namespace quire::tools
