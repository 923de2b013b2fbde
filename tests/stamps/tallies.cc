#include "tests/stamps/tallies.h"

#include <cstdio>

#include "tests/stamps/kinds.h"

namespace quire::stamps {

const std::array<const char*, kNumDeeds> kDeedNames = {"opened",        "reserved",       "refused entries", "prefill rows",
                                                       "decode rows",   "draft rows",     "committed",       "partly accepted",
                                                       "late",          "look-ahead",     "whole length",    "aborted",
                                                       "unlaunched",    "finished",       "in flight",       "found again",
                                                       "preempted",     "forked",         "truncated",       "pinned",
                                                       "pinned hard",   "for a time",     "unpinned",        "loaded",
                                                       "load failures", "probed",         "reset",           "forgot",
                                                       "epochs",        "followed",       "uploaded",        "watched",
                                                       "events viewed", "verified",       "drained",         "shared loads",
                                                       "late loads",    "held",           "units taken",     "units, states",
                                                       "units, cold",   "units given up", "fetches",         "fetched",
                                                       "fetches late",  "of other ranks", "tiers' units",    "quarantined"};

KindTally Tallies::sum() const {
  KindTally all;
  for (const KindTally& kind : kinds) {
    all.runs += kind.runs;
    all.rows += kind.rows;
    all.reads += kind.reads;
    all.matches += kind.matches;
    all.hits += kind.hits;
    all.prompt_tokens += kind.prompt_tokens;
    all.hit_tokens += kind.hit_tokens;
  }
  return all;
}

namespace {

double share(uint64_t part, uint64_t whole) { return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole); }

std::string line(const char* name, const KindTally& kind) {
  char out[160];
  std::snprintf(out, sizeof out, "%-20s %7llu %11llu %13llu %10llu %7.1f %7.1f\n", name, static_cast<unsigned long long>(kind.runs),
                static_cast<unsigned long long>(kind.rows), static_cast<unsigned long long>(kind.reads),
                static_cast<unsigned long long>(kind.matches), share(kind.hits, kind.matches), share(kind.hit_tokens, kind.prompt_tokens));
  return out;
}

}  // namespace

std::string Tallies::text(double seconds) const {
  char out[240];
  std::string all;
  for (size_t i = 0; i < deeds.size(); ++i) {
    std::snprintf(out, sizeof out, "%-16s %11llu%s", kDeedNames[i], static_cast<unsigned long long>(deeds[i]),
                  i % 3 == 2 || i + 1 == deeds.size() ? "\n" : "   ");
    all += out;
  }
  std::snprintf(out, sizeof out, "\n%-20s %7s %11s %13s %10s %7s %7s\n", "kind", "runs", "rows", "reads", "matches", "hits %", "tokens %");
  all += out;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].runs > 0) all += line(stamps::kinds()[i].name, kinds[i]);
  }
  const KindTally total = sum();
  all += line("all", total);
  std::snprintf(out, sizeof out, "\n%-20s %7s %13s\n", "runs with", "runs", "reads");
  all += out;
  for (const auto& [name, trait] : traits) {
    std::snprintf(out, sizeof out, "%-20s %7llu %13llu\n", name.c_str(), static_cast<unsigned long long>(trait.runs),
                  static_cast<unsigned long long>(trait.reads));
    all += out;
  }
  std::snprintf(out, sizeof out,
                "\n%llu operations, %llu checked reads, %llu matches (%.1f %% hit), %.1f s: %.0f operations/s, %.0f reads/s\n",
                static_cast<unsigned long long>(operations), static_cast<unsigned long long>(total.reads),
                static_cast<unsigned long long>(total.matches), share(total.hits, total.matches), seconds,
                static_cast<double>(operations) / seconds, static_cast<double>(total.reads) / seconds);
  return all + out;
}

}  // namespace quire::stamps
