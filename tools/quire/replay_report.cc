#include "quire/replay_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
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

// Over the samples of the last twelfth of the run, so that single requests do not show.
Json hits_of(const Json& series) {
  Json out = Json::array();
  const size_t many = std::max<size_t>(series.size() / 12, 1);
  for (size_t i = 0; i < series.size(); ++i) {
    const auto row = [&](const char* what, double hit, double prompt) {
      if (prompt > 0) out.push_back({{"requests", series[i]["requests"]}, {"what", what}, {"share", hit / prompt}});
    };
    const auto since = [&](const char* field) { return figure(series[i], field) - (i >= many ? figure(series[i - many], field) : 0); };
    row("last twelfth of the run", since("hit_tokens"), since("prompt_tokens"));
    row("whole run so far", figure(series[i], "hit_tokens"), figure(series[i], "prompt_tokens"));
  }
  return out;
}

std::string reason_text(const std::string& reason) {
  if (reason == "none") return "found to its end";
  if (reason == "unknown_prefix") return "unknown text";
  if (reason == "evicted") return "evicted";
  if (reason == "no_state") return "no recurrent state";
  if (reason == "window_hole") return "hole in a window";
  return reason == "below_unit" ? "shorter than a unit" : "matching is off";
}

std::string explained(const std::string& reason) {
  if (reason == "unknown_prefix") {
    return " unknown text: the cache never had it, or it was evicted longer ago than the cache remembers, which is about as much text as "
           "it holds.";
  }
  if (reason == "evicted") return " evicted: it was in the cache; with more memory it could still be there.";
  if (reason == "no_state") {
    return " no recurrent state: keys and values go on, but no state was kept from which the next tokens could be computed; with more "
           "memory more states are kept.";
  }
  return reason == "window_hole" ? " hole in a window: blocks of a sliding window were evicted." : "";
}

// Reasons that come up at all.
std::vector<std::string> reasons_of(const Json& replay) {
  std::vector<std::string> out;
  for (const auto& [reason, count] : replay["misses"].items()) {
    if (count.get<uint64_t>() > 0) out.push_back(reason);
  }
  return out;
}

Json misses_of(const Json& replay) {
  const Json& series = replay["series"];
  Json out = Json::array();
  for (size_t i = 0; i < series.size(); ++i) {
    double all = 0;
    const auto count = [&](const std::string& reason) {
      return figure(series[i]["misses"], reason.c_str()) - (i > 0 ? figure(series[i - 1]["misses"], reason.c_str()) : 0);
    };
    for (const std::string& reason : reasons_of(replay)) all += count(reason);
    if (all == 0) continue;  // requests ended and none began
    for (const std::string& reason : reasons_of(replay)) {
      out.push_back({{"requests", series[i]["requests"]}, {"reason", reason_text(reason)}, {"share", count(reason) / all}});
    }
  }
  return out;
}

Json pool_of(const Json& series, double page_bytes) {
  Json out = Json::array();
  for (const Json& sample : series) {
    const auto row = [&](const char* what, const char* field, uint32_t from_below) {
      out.push_back({{"requests", sample["requests"]},
                     {"what", what},
                     {"gib", figure(sample, field) * page_bytes / kGiB},
                     {"from_below", from_below}});
    };
    row("in use", "pages_used", 0);
    row("cached", "pages_evictable", 1);
    row("free", "pages_free", 2);
  }
  return out;
}

// What charts call a group: two may keep the same.
std::string group_name(const Json& replay, size_t group) {
  const std::string keeps = replay["groups"][group]["keeps"].get<std::string>();
  size_t alike = 0;
  for (const Json& other : replay["groups"]) alike += other["keeps"] == keeps ? 1 : 0;
  return alike > 1 ? keeps + " (group " + std::to_string(group) + ")" : keeps;
}

Json group_pages_of(const Json& replay, double page_bytes) {
  Json out = Json::array();
  for (const Json& sample : replay["series"]) {
    for (size_t g = 0; g < sample["groups"].size(); ++g) {
      const auto row = [&](const char* state, const char* field, size_t from_below) {
        out.push_back({{"requests", sample["requests"]},
                       {"what", group_name(replay, g) + state},
                       {"gib", figure(sample["groups"][g], field) * page_bytes / kGiB},
                       {"from_below", from_below}});
      };
      row(", in use", "pages_used", 2 * g);
      row(", cached", "pages_cached", 2 * g + 1);
    }
  }
  return out;
}

// Of the evicted pages of each group, how many were unused for so many requests, or for fewer.
Json ages_of(const Json& replay) {
  Json out = Json::array();
  for (size_t g = 0; g < replay["groups"].size(); ++g) {
    const Json& spans = replay["groups"][g]["idle_requests"];
    double all = 0, sum = 0;
    size_t last = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      all += spans[i].get<double>();
      if (spans[i].get<double>() > 0) last = i;
    }
    for (size_t i = 0; all > 0 && i <= last; ++i) {
      sum += spans[i].get<double>();
      out.push_back({{"requests", uint64_t{1} << i}, {"group", group_name(replay, g)}, {"share", sum / all}});
    }
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
    row("reassigned pages", "hand_overs");
  }
  return out;
}

Json sweep_lines(const Json& sweep) {
  Json out = Json::array();
  for (const Json& row : sweep) {
    const double gib = figure(row, "memory_bytes") / kGiB;
    for (const Json& oracle : row["oracles"]) {
      out.push_back({{"gib", gib}, {"cache", oracle["oracle"]}, {"policy", row["policy"]}, {"share", oracle["hit_share"]}});
    }
    out.push_back({{"gib", gib}, {"cache", "quire"}, {"policy", row["policy"]}, {"share", row["hit_share"]}});  // the last is drawn on top
  }
  return out;
}

// Of each router: what was found in the caches, and beyond that in tiers.
Json fleet_bars(const Json& fleet) {
  Json out = Json::array();
  for (const Json& row : fleet) {
    const auto bar = [&](const char* what, double share) { out.push_back({{"router", row["router"]}, {"what", what}, {"share", share}}); };
    bar("in caches", figure(row, "hit_share"));
    if (row.contains("tier")) bar("from the tier", figure(row["tier"], "hit_share") - figure(row, "hit_share"));
  }
  return out;
}

std::string fleet_text(const Json& fleet) {
  return "Prompt tokens found by " + counted(fleet.empty() ? 0 : fleet[0]["engines"].get<uint64_t>(), "engine") +
         " with the same memory each, for each router.";
}

// Where the trace has times.
Json fleet_rates(const Json& fleet) {
  Json out = Json::array();
  for (const Json& row : fleet) {
    if (!row.contains("tier") || !row["tier"].contains("link_bytes_per_second")) continue;
    const auto bar = [&](const char* place, const char* what, const char* field) {
      out.push_back({{"router", row["router"]},
                     {"place", place},
                     {"bar", row["router"].get<std::string>() + what},
                     {"rate", figure(row["tier"], field) / 1e6}});
    };
    bar("links of engines", ", mean", "link_bytes_per_second");
    bar("links of engines", ", busiest", "busiest_link_bytes_per_second");
    bar("store", "", "store_bytes_per_second");
  }
  return out;
}

std::string rates_text(const Json& fleet) {
  std::string out =
      "Bytes written to tiers and read from them, per shard, in the time from the first to the last arrival of the trace. "
      "The two charts have different scales.";
  for (const Json& row : fleet) {
    if (!row.contains("tier") || !row["tier"].contains("link_bytes_per_second")) continue;
    const Json& tier = row["tier"];
    out += " " + row["router"].get<std::string>() + ": " + svg::print("%.1f MB/s", figure(tier, "link_bytes_per_second") / 1e6) +
           " over a link, " + svg::print("%.1f MB/s", figure(tier, "busiest_link_bytes_per_second") / 1e6) + " over the busiest, " +
           svg::print("%.1f MB/s", figure(tier, "store_bytes_per_second") / 1e6) + " at " +
           (tier["shared"].get<bool>() ? "the store that all share." : "the store of an engine.");
  }
  return out;
}

std::string encoded(const char* mark, const std::string& x, const std::string& y, const std::string& color) {
  return std::string(R"({"mark":)") + mark + R"(,"encoding":{)" + x + R"(,"y":{)" + y + "}" +
         (color.empty() ? "" : R"(,"color":{)" + color + R"(,"type":"nominal"})") + "}}";
}

// The spec of bars at two places with a scale each.
std::string rates_spec() {
  std::string spec = encoded("\"bar\"",
                             R"("column":{"field":"place","type":"nominal","sort":null,"title":null,"header":{"labelFontSize":12}},)"
                             R"("x":{"field":"rate","type":"quantitative","title":"MB/s"})",
                             R"("field":"bar","type":"nominal","sort":null,"title":null)", R"("field":"router","sort":null)");
  spec.pop_back();
  return spec + R"(,"width":270,"resolve":{"scale":{"x":"independent","y":"independent"}}})";
}

// Text of a script element that ends no element.
std::string script_text(const Json& json) {
  std::string text = json.dump(-1, ' ', true), out;
  for (const char c : text) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string cell(const std::string& text) { return "<td>" + svg::escaped(text) + "</td>"; }

std::string in_percent(double share) { return svg::print("%.1f %%", 100 * share); }

std::string oracle_text(const std::string& oracle) {
  if (oracle == "infinite") return " infinite: nothing is ever evicted; no cache hits more.";
  if (oracle == "lru") return " lru: an ideal in which recurrent states take no memory and are kept everywhere; eviction is by age.";
  if (oracle == "clairvoyant") {
    return " clairvoyant: knows where the next request will resume and keeps states just there; eviction is by age, so that a cache with a "
           "better eviction can hit more.";
  }
  return oracle == "marconi" ? " marconi: the rules of arXiv 2411.19379." : "";
}

// What the page shows, in some sentences.
std::string summary(const Json& replay) {
  std::string out = "<p>" + in_percent(figure(replay, "hit_share")) + " of the prompt tokens were found in the cache.";
  std::string most;
  for (const std::string& reason : reasons_of(replay)) {
    if (most.empty() || figure(replay["misses"], reason.c_str()) > figure(replay["misses"], most.c_str())) most = reason;
  }
  if (!most.empty()) {
    out += " The most frequent end of a match: " + reason_text(most) + " (" +
           in_percent(ratio(figure(replay["misses"], most.c_str()), figure(replay, "requests"))) + " of the requests).";
  }
  const double pool = figure(replay, "pool_bytes");
  for (const Json& row : replay["sweep"]) {
    if (std::abs(figure(row, "memory_bytes") / pool - 1) < 0.01) continue;  // this run
    out += " With " + svg::print("%.4g GiB", figure(row, "memory_bytes") / kGiB) + " and policy " + row["policy"].get<std::string>() +
           ": " + in_percent(figure(row, "hit_share")) + ".";
  }
  return out + "</p>\n";
}

std::string caches_table(const Json& replay) {
  std::string out = "<table><tr><th>cache<th>prompt tokens hit<th>hit share<th>compute saved</tr>\n";
  const auto row = [&out](const std::string& name, const Json& json) {
    out += "<tr>" + cell(name) + cell(with_commas(json["hit_tokens"].get<uint64_t>())) + cell(in_percent(json["hit_share"].get<double>())) +
           cell(in_percent(json["compute_saved"].get<double>())) + "</tr>\n";
  };
  row("quire", replay);
  if (replay.contains("tier")) {
    Json both = replay["tier"];
    both["hit_tokens"] = both["hit_tokens"].get<uint64_t>() + replay["hit_tokens"].get<uint64_t>();
    row("quire with a tier of " + svg::print("%.1f GiB", figure(both, "capacity_bytes") / kGiB), both);
  }
  for (const Json& oracle : replay["oracles"]) row(oracle["oracle"].get<std::string>(), oracle);
  out +=
      "</table>\n<p class=\"note\">compute saved: share of the compute of all prompts. It is less than the hit share: hits are at the "
      "beginning of prompts, and later tokens cost more, because they attend to all before them.";
  if (!replay["oracles"].empty()) out += " Other caches are simulated with the same memory.";
  for (const Json& oracle : replay["oracles"]) out += oracle_text(oracle["oracle"].get<std::string>());
  return out + "</p>\n";
}

std::string reasons_text(const Json& replay) {
  std::string out = "Each request counts once, however long it is.";
  for (const std::string& reason : reasons_of(replay)) out += explained(reason);
  return out;
}

std::string reasons_table(const Json& replay) {
  std::string out = "<table><tr><th>the match ended with<th>requests<th>share of requests</tr>\n";
  for (const std::string& reason : reasons_of(replay)) {
    const auto count = replay["misses"][reason].get<uint64_t>();
    out += "<tr>" + cell(reason_text(reason)) + cell(with_commas(count)) +
           cell(in_percent(static_cast<double>(count) / std::max(1.0, figure(replay, "requests")))) + "</tr>\n";
  }
  return out + "</table>\n";
}

// What the recorded request did, in a sentence.
std::string followed_text(const Json& followed) {
  uint64_t found = 0, prompt = 0, output = 0, waits = 0, most = 0;
  for (const Json& moment : followed) {
    const std::string phase = moment["phase"].get<std::string>();
    if (phase == "found" && prompt + output == 0) found = moment["tokens"].get<uint64_t>();
    prompt += phase == "prompt" ? 1 : 0;
    output += phase == "output" ? 1 : 0;
    waits += phase == "waiting" ? 1 : 0;
    most = std::max(most, moment["tokens"].get<uint64_t>());
  }
  const auto step = [](const Json& moment) { return with_commas(moment["step"].get<uint64_t>()); };
  const std::string steps = followed.empty() ? "" : "Steps " + step(followed.front()) + " to " + step(followed.back()) + " of the run. ";
  return steps + "Found in the cache: " + with_commas(found) + " tokens. Then " + counted(prompt + (output > 0 ? 1 : 0), "step") +
         " for the rest of the prompt and " + counted(output > 0 ? output - 1 : 0, "step") + " of output, " + with_commas(most) +
         " tokens at the end" +
         (waits > 0 ? ", and " + counted(waits, "step") + " of waiting after it was preempted." : ", never preempted.");
}

std::string settings(const Json& replay, const ReplayArguments& arguments) {
  std::string out = "<table><tr><th>this run<th></tr>\n";
  const auto row = [&out](const char* what, const std::string& value) { out += "<tr>" + cell(what) + cell(value) + "</tr>\n"; };
  const auto count = [&replay](const char* field) { return with_commas(replay[field].get<uint64_t>()); };
  row("policy that lays out the pool", arguments.plan.policy);
  row("memory per shard (one for each rank)",
      svg::print("%.1f GiB", figure(replay, "pool_bytes") / kGiB) + " in " + count("pages") + " pages");
  row("requests", count("requests") + ", at most " + with_commas(arguments.options.concurrency) + " at once");
  row("prompt tokens", count("prompt_tokens"));
  row("computed tokens: of prompts, of outputs, and again after preemptions", count("computed_tokens"));
  row("preemptions", count("preemptions"));
  if (const replay::Timing& timing = arguments.options.timing; timing.counts()) {
    row("simulated time", svg::print("%.4g s", figure(replay, "simulated_seconds")));
    row("of a step, and of a token that it computes", svg::print("%.4g ms, %.4g microseconds", timing.step_ms, timing.token_us));
    if (timing.think_seconds > 0) row("between turns", svg::print("%.4g s", timing.think_seconds));
  }
  row("time in quire per request, mean", svg::print("%.2f ms", figure(replay, "us_per_request") / 1000));
  return out + "</table>\n";
}

// The axis of all charts over time.
std::string over_requests(const Json& replay) {
  return R"("x":{"field":"requests","type":"quantitative","title":"requests that have ended","scale":{"nice":false,"domain":[0,)" +
         std::to_string(replay["requests"].get<uint64_t>()) + "]}}";
}

std::string chart_html(const std::string& id, const std::string& title, const std::string& text, const Json& values,
                       const std::string& spec) {
  if (values.empty()) return {};
  return "<h2>" + title + "</h2>\n<p>" + text + "</p>\n<div id=\"" + id + "\"></div>\n<script>chart(\"" + id + "\", " +
         script_text(values) + ", " + spec + ");</script>\n";
}

// The order in which areas lie on each other.
constexpr const char* kFromBelow = R"(,"order":{"field":"from_below","type":"quantitative"})";

// What lies in the pool, and what leaves it.
std::string pool_charts(const Json& replay, const std::string& requests, const std::string& share) {
  const Json& series = replay["series"];
  const double pool = figure(replay, "pool_bytes");
  const double page = pool / std::max(1.0, figure(replay, "pages"));
  std::string out;
  out +=
      chart_html("pool", "The pool",
                 "in use: by running requests. cached: by no running request, for later prompts. Where most is in use, fewer "
                 "requests at once, or more memory, bring more hits. At the end no new requests come.",
                 pool_of(series, page),
                 encoded("\"area\"", requests + kFromBelow, R"("field":"gib","type":"quantitative","stack":"zero","title":"GiB per shard")",
                         R"("sort":["in use","cached","free"],"scale":{"range":["#4c78a8","#9ecae9","#d9d9d9"]},"field":"what")"));
  out += chart_html(
      "groups", "The pool by group of layers",
      "Layers that cache the same kind of data form a group, and groups share the pool. all tokens: keys and values of full "
      "attention. in use: by running requests. cached: kept for later prompts. Compare with the reasons above: many matches that "
      "end with a hole in a window, or with no recurrent state, mean that this group has too little memory.",
      replay["groups"].size() > 1 ? group_pages_of(replay, page) : Json::array(),
      encoded("\"area\"", requests + kFromBelow, R"("field":"gib","type":"quantitative","stack":"zero","title":"GiB per shard")",
              R"("sort":null,"scale":{"scheme":"tableau20"},"field":"what")"));
  out += chart_html(
      "ages", "Age of what was evicted",
      "Share of the evicted pages that had been unused for fewer than so many requests. Recurrent states that were evicted because "
      "states reached their limit are included. Text that comes again later than that is not found. Blocks that leave a sliding "
      "window are released while their request runs, so that windows are evicted at a lower age.",
      ages_of(replay),
      encoded(R"({"type":"line","point":true})",
              R"("x":{"field":"requests","type":"quantitative","scale":{"type":"log","base":2},)"
              R"("title":"unused for fewer requests than, on a log scale"})",
              share + R"(,"title":"share of evicted pages")", R"("sort":null,"field":"group")"));
  if (pool > 0 && replay["checkpoints"].get<uint64_t>() > 0) {
    out += chart_html("states", "Kept recurrent states",
                      "Memory of recurrent states that are kept for later prompts. Their limit is tuned to where hits save most; "
                      "--checkpoint-bytes sets a constant one.",
                      states_of(series, pool), encoded("\"line\"", requests, share + R"(,"title":"share of the pool")", ""));
  }
  out += chart_html(
      "moves", "Evicted and reassigned pages",
      "Per request. A reassigned page held data of one group, and holds data of another group now. It may have been free in between.",
      moves_of(series),
      encoded("\"line\"", requests, R"("field":"each","type":"quantitative","title":"pages per request")", R"("field":"what")"));
  return out;
}

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 2em 0 0; } p { margin: .3em 0 1em; }
table { border-collapse: collapse; margin: 1em 0; } th, td { padding: .2em 1em .2em 0; text-align: right; }
table + p.note { font-size: 13px; color: #555; }
th:first-child, td:first-child { text-align: left; } th { border-bottom: 1px solid #999; font-weight: 600; }
)";

constexpr const char* kChart = R"(
function chart(id, values, spec) {
  vegaEmbed("#" + id, Object.assign({data: {values: values}, width: 700, height: 220,
    config: {view: {stroke: null}, axis: {labelFontSize: 12, titleFontSize: 12},
      legend: {labelFontSize: 12, labelLimit: 500, title: null, orient: "bottom"}}}, spec),
    {actions: false, renderer: "svg"});
}
)";

}  // namespace

std::string report_html(const Json& replay, const ReplayArguments& arguments) {
  const std::string model = svg::escaped(std::filesystem::path(arguments.plan.config).filename().string());
  const std::string trace = svg::escaped(std::filesystem::path(arguments.trace).filename().string());
  const Json& series = replay["series"];
  const std::string share = R"("field":"share","type":"quantitative","axis":{"format":"%"})";
  const Json& sweep = replay["sweep"];
  const bool one_policy = std::all_of(sweep.begin(), sweep.end(), [&](const Json& row) { return row["policy"] == sweep[0]["policy"]; });
  const std::string stacked = R"("field":"share","type":"quantitative","stack":"zero","axis":{"format":"%"},"scale":{"domain":[0,1]})";
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Replay of " + trace + "</title>\n<style>" +
                    kStyle + "</style>\n";
  for (const std::string& script : {vega_script(), vega_lite_script(), vega_embed_script()}) {
    out += "<script>";
    out += script;
    out += "</script>\n";
  }
  out += std::string("<script>") + kChart + "</script></head><body>\n<h1>Replay of " + trace + " on " + model + "</h1>\n" +
         summary(replay) + caches_table(replay) + settings(replay, arguments);
  out += chart_html("sweep", "Hit share over memory", "Prompt tokens found in the cache, for each memory and policy of the sweep.",
                    sweep_lines(replay["sweep"]),
                    encoded(R"({"type":"line","point":true})",
                            (one_policy ? "" : std::string(R"("strokeDash":{"field":"policy","type":"nominal"},)")) +
                                R"("strokeWidth":{"condition":{"test":"datum.cache=='quire'",)"
                                R"("value":4},"value":1.5},"x":{"field":"gib","type":"quantitative","title":"memory per shard, GiB"})",
                            share + R"(,"title":"hit share")", R"("field":"cache")"));
  out += chart_html("fleet", "Hit share of a fleet", fleet_text(replay["fleet"]), fleet_bars(replay["fleet"]),
                    encoded("\"bar\"", R"("x":{"field":"router","type":"nominal","sort":null,"axis":{"labelAngle":0,"title":null}})",
                            share + R"(,"title":"hit share")", R"("field":"what","sort":null)"));
  out += chart_html("rates", "Load of links and of the store", rates_text(replay["fleet"]), fleet_rates(replay["fleet"]), rates_spec());
  const std::string requests = over_requests(replay);
  out += chart_html("hits", "Hit share over time", "Prompt tokens found in the cache when their request began.", hits_of(series),
                    encoded("\"line\"", requests, share + R"(,"title":"hit share")", R"("field":"what")"));
  out += chart_html("misses", "Why the match stopped", reasons_text(replay), misses_of(replay),
                    encoded("\"area\"", requests, stacked + R"(,"title":"share of requests")", R"("field":"reason")"));
  out += reasons_table(replay);
  out += pool_charts(replay, requests, share);
  out += chart_html("followed", svg::print("Request %llu, step by step", static_cast<unsigned long long>(arguments.options.follow)),
                    followed_text(replay["followed"]), replay["followed"],
                    encoded(R"({"type":"point","filled":true})",
                            R"("x":{"field":"step","type":"quantitative","scale":{"zero":false},"title":"step of the engine"})",
                            R"("field":"tokens","type":"quantitative","scale":{"zero":false},"title":"tokens in the cache")",
                            R"("sort":null,"field":"phase")"));
  return out + "</body></html>\n";
}

}  // namespace quire::tools
