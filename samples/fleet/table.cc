#include "table.h"

#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "failure.h"

namespace fleet {
namespace {

constexpr int kLeft = 30, kColumn = 18;

std::string padded(const std::string& text, int width) {
  const int blanks = width - static_cast<int>(text.size());
  return std::string(blanks > 0 ? static_cast<size_t>(blanks) : 0, ' ') + text;
}

std::string grouped(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(uint64_t part, uint64_t whole) {
  return formatted("%.1f %%", 100 * share(part, whole));
}

std::string mebibytes(uint64_t bytes) {
  return formatted("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

struct Row {
  const char* name;
  std::function<std::string(const Result&)> cell;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"requests answered", [](const Result& r) { return grouped(r.requests); }},
      {"prompt tokens", [](const Result& r) { return grouped(r.prompt_tokens); }},
      {"hit",
       [](const Result& r) { return percent(r.local_tokens + r.store_tokens, r.prompt_tokens); }},
      {"  in the engine's pool",
       [](const Result& r) { return percent(r.local_tokens, r.prompt_tokens); }},
      {"  from the store",
       [](const Result& r) { return percent(r.store_tokens, r.prompt_tokens); }},
      {"computed tokens", [](const Result& r) { return grouped(r.computed_tokens); }},
      {"engines killed", [](const Result& r) { return grouped(r.kills); }},
      {"engines that hung, killed", [](const Result& r) { return grouped(r.hangs); }},
      {"engines started", [](const Result& r) { return grouped(r.engines.starts); }},
      {"store killed", [](const Result& r) { return grouped(r.store_kills); }},
      {"requests sent again", [](const Result& r) { return grouped(r.sent_again); }},
      {"written to the store", [](const Result& r) { return mebibytes(r.engines.bytes_stored); }},
      {"read from the store", [](const Result& r) { return mebibytes(r.engines.bytes_loaded); }},
      {"batches of events", [](const Result& r) { return grouped(r.engines.batches); }},
      {"replays asked for", [](const Result& r) { return grouped(r.engines.replays); }},
      {"rows verified", [](const Result& r) { return grouped(r.rows); }},
      {"mismatches", [](const Result& r) { return grouped(r.mismatches); }},
      {"seconds", [](const Result& r) { return formatted("%.1f", r.seconds); }},
  };
  return kRows;
}

}  // namespace

std::string table(const std::vector<Result>& runs) {
  std::string text(kLeft, ' ');
  for (const Result& run : runs) text += padded(run.name, kColumn);
  text += '\n';
  for (const Row& row : rows()) {
    text += row.name + std::string(kLeft - std::string(row.name).size(), ' ');
    for (const Result& run : runs) text += padded(row.cell(run), kColumn);
    text += '\n';
  }
  return text;
}

void write_json(const std::string& file, const std::vector<Result>& runs) {
  nlohmann::ordered_json all;
  for (const Result& r : runs) {
    all["runs"].push_back({{"name", r.name},
                           {"requests", r.requests},
                           {"prompt_tokens", r.prompt_tokens},
                           {"local_hit_tokens", r.local_tokens},
                           {"store_hit_tokens", r.store_tokens},
                           {"computed_tokens", r.computed_tokens},
                           {"engines_killed", r.kills},
                           {"engines_hung", r.hangs},
                           {"engines_started", r.engines.starts},
                           {"store_killed", r.store_kills},
                           {"requests_sent_again", r.sent_again},
                           {"store_bytes_written", r.engines.bytes_stored},
                           {"store_bytes_read", r.engines.bytes_loaded},
                           {"event_batches", r.engines.batches},
                           {"event_replays", r.engines.replays},
                           {"event_gaps_left", r.engines.given_up},
                           {"verified_rows", r.rows},
                           {"mismatches", r.mismatches},
                           {"seconds", r.seconds}});
  }
  std::ofstream out(file);
  out << all.dump(2) << '\n';
  out.close();
  if (!out) throw Failure("cannot write " + file);
}

}  // namespace fleet
