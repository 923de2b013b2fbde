#include "quire/record_report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostNames = 20;  // of damaged and foreign files in the text; JSON has all

// What the records of one group on one shard have in common.
using SetKey = std::tuple<std::string, uint32_t, uint32_t, uint32_t, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t>;
struct RecordSet {
  const quire_record_info* one = nullptr;
  bool has_window = false;  // some record lacks blocks of its unit
  uint64_t records = 0, bytes = 0, first_token = UINT64_MAX, end_token = 0;
  int64_t newest_ns = INT64_MIN, oldest_ns = INT64_MAX;
};

const char* state_name(ObjectState state) {
  constexpr const char* kNames[] = {"ok", "damaged", "unreadable", "other version", "other object"};
  return kNames[static_cast<size_t>(state)];
}

uint64_t count_of(const RecordFiles& files, ObjectState state) {
  const auto n = std::count_if(files.objects.begin(), files.objects.end(), [state](const RecordFile& o) { return o.state == state; });
  return static_cast<uint64_t>(n);
}

// A record of a window that is shorter than a unit. Of a longer one nothing tells it from any other group.
bool is_partial(const quire_record_info& info) {
  const uint64_t tokens = info.end_token - info.first_token;
  return info.block_tokens != 0 && info.num_blocks < tokens / info.block_tokens;
}

const char* kind_name(const quire_record_info& info, bool has_window) {
  return info.is_state != 0 ? "state" : has_window ? "window" : "tokens";
}

SetKey set_of(const quire_record_info& i) {
  return {base16(i.fingerprint, 64), i.is_state, i.first_layer, i.last_layer, i.caches, i.first_head, i.num_heads, i.rank, i.num_ranks};
}

// Weights in the order of their fingerprints, groups by kind and layers, shards by heads.
std::map<SetKey, RecordSet> sets_of(const RecordFiles& files) {
  std::map<SetKey, RecordSet> sets;
  for (const RecordFile& object : files.objects) {
    if (object.state != ObjectState::kWhole) continue;
    const quire_record_info& info = object.info;
    RecordSet& set = sets[set_of(info)];
    set.one = &info;
    set.has_window = set.has_window || is_partial(info);
    ++set.records;
    set.bytes += object.bytes;
    set.first_token = std::min(set.first_token, info.is_state != 0 ? info.end_token : info.first_token);
    set.end_token = std::max(set.end_token, info.end_token);
    set.newest_ns = std::max(set.newest_ns, info.written_at_ns);
    set.oldest_ns = std::min(set.oldest_ns, info.written_at_ns);
  }
  return sets;
}

std::string age_text(int64_t then_ns, int64_t now_ns) {
  const double seconds = std::max(0.0, (static_cast<double>(now_ns) - static_cast<double>(then_ns)) / 1e9);
  constexpr std::pair<double, const char*> kUnits[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
  char text[32];
  for (const auto& [length, unit] : kUnits) {
    if (seconds < 2 * length) continue;
    std::snprintf(text, sizeof text, "%.0f %s", seconds / length, unit);
    return text;
  }
  std::snprintf(text, sizeof text, "%.0f s", seconds);
  return text;
}

std::string layers_text(const quire_record_info& info) {
  const std::string first = std::to_string(info.first_layer), last = std::to_string(info.last_layer);
  return info.num_caches == 1 ? first : std::to_string(info.num_caches) + " of " + first + " to " + last;
}

std::string shard_text(const quire_record_info& info) {
  const std::string rank = std::to_string(info.rank) + "/" + std::to_string(info.num_ranks);
  if (info.is_state != 0) return "rank " + rank;
  const uint64_t last = uint64_t{info.first_head} + std::max(info.num_heads, 1u) - 1;
  const std::string heads = "heads " + std::to_string(info.first_head) + "-" + std::to_string(last);
  return info.num_ranks > 1 ? heads + ", " + rank : heads;
}

std::string tokens_text(const quire_record_info& info) {
  const std::string end = std::to_string(info.end_token);
  return info.is_state != 0 ? "at " + end : std::to_string(info.first_token) + "-" + end;
}

Json set_json(const RecordSet& set) {
  const quire_record_info& one = *set.one;
  Json json = {{"kind", kind_name(one, set.has_window)},
               {"layers", one.num_caches},
               {"first_layer", one.first_layer},
               {"last_layer", one.last_layer},
               {"first_head", one.first_head},
               {"heads", one.num_heads},
               {"rank", one.rank},
               {"ranks", one.num_ranks},
               {"records", set.records},
               {"bytes", set.bytes},
               {"first_token", set.first_token},
               {"end_token", set.end_token},
               {"oldest_ns", set.oldest_ns},
               {"newest_ns", set.newest_ns}};
  return json;
}

Json weights_json(const std::map<SetKey, RecordSet>& sets) {
  Json all = Json::array();
  for (const auto& [key, set] : sets) {
    const std::string& fingerprint = std::get<0>(key);
    if (all.empty() || all.back()["fingerprint"] != fingerprint) {
      all.push_back({{"fingerprint", fingerprint}, {"records", 0}, {"bytes", 0}, {"groups", Json::array()}});
    }
    Json& weights = all.back();
    weights["records"] = weights["records"].get<uint64_t>() + set.records;
    weights["bytes"] = weights["bytes"].get<uint64_t>() + set.bytes;
    weights["groups"].push_back(set_json(set));
  }
  return all;
}

bool is_bad(const RecordFile& object) { return object.state == ObjectState::kDamaged || object.state == ObjectState::kUnreadable; }

bool has_window(const std::map<SetKey, RecordSet>& sets, const RecordFile& object) {
  const auto set = sets.find(set_of(object.info));
  return set == sets.end() ? is_partial(object.info) : set->second.has_window;
}

// What is not in a header that nobody could read is left out.
Json object_json(const RecordFile& object, const std::map<SetKey, RecordSet>& sets) {
  Json json = {{"path", object.path}, {"state", state_name(object.state)}, {"bytes", object.bytes}};
  if (!object.why.empty()) json["reason"] = printable(object.why);
  if (object.used_ns != 0) json["used_ns"] = object.used_ns;
  if (object.lease_ns != 0) json["lease_ns"] = object.lease_ns;
  if (!object.has_header) return json;
  const quire_record_info& info = object.info;
  json["key"] = base16(info.key, 64);
  json["fingerprint"] = base16(info.fingerprint, 64);
  json["prefix"] = base16(info.prefix, 64);
  json["kind"] = kind_name(info, has_window(sets, object));
  json["layers"] = info.num_caches;
  json["first_layer"] = info.first_layer;
  json["last_layer"] = info.last_layer;
  json["first_head"] = info.first_head;
  json["heads"] = info.num_heads;
  json["rank"] = info.rank;
  json["ranks"] = info.num_ranks;
  json["first_token"] = info.first_token;
  json["end_token"] = info.end_token;
  json["blocks"] = info.num_blocks;
  json["block_tokens"] = info.block_tokens;
  json["block_bytes"] = info.block_bytes;
  json["written_ns"] = info.written_at_ns;
  return json;
}

std::string totals_text(const RecordReport& report) {
  const RecordFiles& files = report.files;
  uint64_t bytes = 0, disk = 0;
  for (const RecordFile& object : files.objects) bytes += object.bytes, disk += object.disk_bytes;
  std::string text = printable(report.directory) + ": " + counted(files.objects.size(), "object") + ", " + client::bytes_text(bytes) +
                     " (" + client::bytes_text(disk) + " on disk)\n";
  char line[160];
  if (report.checked) {
    std::snprintf(line, sizeof line, "checked %s in %.2f s, %.2f GB/s\n", client::bytes_text(files.checked_bytes).c_str(), files.seconds,
                  files.seconds > 0 ? static_cast<double>(files.checked_bytes) / 1e9 / files.seconds : 0.0);
  } else {
    std::snprintf(line, sizeof line, "headers read in %.2f s; payloads were not checked\n", files.seconds);
  }
  text += line;
  std::string counts;
  const auto add = [&counts](uint64_t n, const std::string& what) { counts += (counts.empty() ? "" : ", ") + with_commas(n) + " " + what; };
  add(count_of(files, ObjectState::kWhole), "whole");
  add(count_of(files, ObjectState::kDamaged), "damaged");
  if (const uint64_t n = count_of(files, ObjectState::kUnreadable); n != 0) add(n, "unreadable");
  if (const uint64_t n = count_of(files, ObjectState::kOtherVersion); n != 0) add(n, "of another version");
  if (const uint64_t n = count_of(files, ObjectState::kOtherObject); n != 0) add(n, "that no tier wrote");
  if (!files.foreign.empty()) add(files.foreign.size(), files.foreign.size() == 1 ? "foreign file" : "foreign files");
  if (files.num_unfinished != 0) add(files.num_unfinished, "being written");
  if (files.num_gone != 0) add(files.num_gone, "removed meanwhile");
  return text + wrapped(counts, 2);
}

void print_sets(const std::map<SetKey, RecordSet>& sets, int64_t now_ns) {
  for (auto from = sets.begin(); from != sets.end();) {
    const std::string& fingerprint = std::get<0>(from->first);
    uint64_t records = 0, bytes = 0;
    std::vector<std::vector<std::string>> rows = {{"  kind", "layers", "shard", "records", "tokens", "bytes", "written, ago"}};
    for (; from != sets.end() && std::get<0>(from->first) == fingerprint; ++from) {
      const RecordSet& set = from->second;
      const std::string newest = age_text(set.newest_ns, now_ns), oldest = age_text(set.oldest_ns, now_ns);
      rows.push_back({std::string("  ") + kind_name(*set.one, set.has_window), layers_text(*set.one), shard_text(*set.one),
                      with_commas(set.records), with_commas(set.first_token) + " to " + with_commas(set.end_token),
                      client::bytes_text(set.bytes), newest == oldest ? newest : std::string(newest).append(" to ").append(oldest)});
      records += set.records;
      bytes += set.bytes;
    }
    std::printf("\nweights %s: %s, %s\n%s", fingerprint.substr(0, 16).c_str(), counted(records, "record").c_str(),
                client::bytes_text(bytes).c_str(), table(rows, 3).c_str());
  }
}

// Paths stand on lines of their own: nobody can break them.
struct Named {
  std::string path, why;
};

void print_names(const char* title, const std::vector<Named>& names) {
  if (names.empty()) return;
  std::printf("\n%s\n", title);
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    std::printf("  %s\n    %s", printable(names[i].path).c_str(), wrapped(printable(names[i].why), 4).c_str());
  }
  if (names.size() > kMostNames) std::printf("  and %s more\n", with_commas(names.size() - kMostNames).c_str());
}

void print_list(const RecordReport& report, const std::map<SetKey, RecordSet>& sets) {
  std::vector<std::vector<std::string>> rows = {{"key", "weights", "kind", "layers", "shard", "tokens", "bytes", "age", "state"}};
  for (const RecordFile& object : report.files.objects) {
    const std::string name = printable(object.path.substr(object.path.find('/') + 1));
    std::vector<std::string> row = {name.substr(0, 8), "-", "-", "-", "-", "-", client::bytes_text(object.bytes), "-"};
    if (object.has_header) {
      const quire_record_info& info = object.info;
      row = {row[0],
             base16(info.fingerprint, 8),
             kind_name(info, has_window(sets, object)),
             layers_text(info),
             shard_text(info),
             tokens_text(info),
             row[6],
             age_text(info.written_at_ns, report.now_ns)};
    }
    const std::string state = state_name(object.state);
    row.push_back(state.substr(state.find(' ') + 1));
    rows.push_back(std::move(row));
  }
  if (rows.size() > 1) std::printf("\n%s", table(rows, 6).c_str());
}

}  // namespace

uint64_t count_bad(const RecordFiles& files) { return count_of(files, ObjectState::kDamaged) + count_of(files, ObjectState::kUnreadable); }

Json record_json(const RecordReport& report) {
  const RecordFiles& files = report.files;
  const std::map<SetKey, RecordSet> sets = sets_of(files);
  uint64_t bytes = 0, disk = 0;
  for (const RecordFile& object : files.objects) bytes += object.bytes, disk += object.disk_bytes;
  Json json = {{"schema", "quire.tier/1"},
               {"directory", report.directory},
               {"objects", files.objects.size()},
               {"bytes", bytes},
               {"disk_bytes", disk},
               {"whole", count_of(files, ObjectState::kWhole)},
               {"damaged", count_of(files, ObjectState::kDamaged)},
               {"unreadable", count_of(files, ObjectState::kUnreadable)},
               {"other_versions", count_of(files, ObjectState::kOtherVersion)},
               {"other_objects", count_of(files, ObjectState::kOtherObject)},
               {"unfinished", files.num_unfinished},
               {"gone", files.num_gone},
               {"checked", report.checked},
               {"checked_bytes", files.checked_bytes},
               {"seconds", files.seconds},
               {"weights", weights_json(sets)},
               {"bad", Json::array()},
               {"foreign", Json::array()}};
  for (const RecordFile& object : files.objects) {
    if (is_bad(object)) json["bad"].push_back(object_json(object, sets));
  }
  for (const ForeignFile& file : files.foreign) json["foreign"].push_back({{"path", printable(file.path)}, {"kind", file.kind}});
  if (!report.lists) return json;
  json["list"] = Json::array();
  for (const RecordFile& object : files.objects) {
    json["list"].push_back(object_json(object, sets));
  }
  return json;
}

void print_records(const RecordReport& report) {
  const RecordFiles& files = report.files;
  const std::map<SetKey, RecordSet> sets = sets_of(files);
  std::printf("%s", totals_text(report).c_str());
  print_sets(sets, report.now_ns);
  std::vector<Named> bad, others;
  for (const RecordFile& object : files.objects) {
    if (object.state != ObjectState::kWhole) (is_bad(object) ? bad : others).push_back({object.path, object.why});
  }
  print_names("damaged or not readable:", bad);
  print_names("other objects:", others);
  std::vector<Named> foreign;
  for (const ForeignFile& file : files.foreign) foreign.push_back({file.path, file.kind});
  print_names("foreign files:", foreign);
  if (report.lists) print_list(report, sets);
}

}  // namespace quire::tools
