// What sequences hold at most, against a list of everything that one can hold: groups of attention, few enough tokens that all of them are
// looked at together. Where parts lie anywhere in pages, the bound is the one that worst_case.cc proves.
#include "core/plan/worst_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <vector>

namespace quire {
namespace {

constexpr uint64_t kMostTokens = 60;

// Pages of a group, part by part: where they are filled one after the other, or wherever its parts may lie.
uint64_t pages_held(const GroupPlan& g, uint64_t committed, uint64_t reserved) {
  const LiveRange& live = g.live;
  const uint64_t block = g.block_tokens, ids = g.ids_per_block, per_page = g.parts_per_page;
  const bool grows = live.everything() || live.fixed;
  uint64_t parts = 0, pages = 0, last_page = UINT64_MAX;
  for (uint64_t b = 0; b * block < (live.fixed ? g.encoder_tokens : reserved); ++b) {
    const bool kept = grows || (b + 1) * block > live.kept_begin(committed) || b * block < live.sink_end(committed);
    for (uint64_t part = b * ids; kept && part < (b + 1) * ids; ++part) {
      ++parts;
      pages += part / per_page != last_page ? 1 : 0;
      last_page = part / per_page;
    }
  }
  const uint64_t shortest = live.chunk != 0 ? live.retained : live.longest_tail();
  if (grows || shortest / block * ids >= per_page) return pages;
  const uint64_t unit = std::gcd(ids, per_page), after = parts - std::min(parts, unit);
  return std::min(parts, (after + per_page - 1) / per_page + (live.sink > 0 ? 2 : 1));
}

// [k]: the most pages of one sequence with k tokens in flight at most.
std::vector<uint64_t> most_pages(const Config& config, uint64_t tokens) {
  uint64_t ahead = 0;
  for (const GroupPlan& g : config.groups) ahead = std::max<uint64_t>(ahead, g.look_ahead);
  std::vector<uint64_t> most(tokens + 1, 0);
  for (uint64_t reserved = 1; reserved <= tokens; ++reserved) {
    for (uint64_t committed = 0; committed <= reserved; ++committed) {
      uint64_t pages = 0;
      for (const GroupPlan& g : config.groups) pages += pages_held(g, committed, reserved);
      uint64_t& found = most[reserved - committed - std::min(reserved - committed, ahead)];
      found = std::max(found, pages);
    }
  }
  for (uint64_t k = 1; k <= tokens; ++k) most[k] = std::max(most[k], most[k - 1]);
  return most;
}

Config draw_config(std::mt19937_64& rng) {
  const auto pick = [&](std::initializer_list<uint32_t> of) { return of.begin()[rng() % of.size()]; };
  Config config;
  config.hit_alignment_tokens = 1;
  for (uint64_t left = 1 + rng() % 3; left > 0; --left) {
    GroupPlan g;
    g.block_tokens = pick({1, 2, 3, 4, 8});
    g.ids_per_block = pick({1, 1, 2, 3, 5});
    g.parts_per_page = pick({1, 1, 2, 3, 4});
    g.look_ahead = pick({0, 0, 0, 2});
    if (rng() % 8 == 0) {
      g.live.fixed = true;
      g.encoder_tokens = pick({1, 7, 30});
    } else if (rng() % 4 == 0) {
      g.live.chunk = pick({4, 6, 16});
      g.live.retained = pick({0, 0, 5});
    } else if (rng() % 3 != 0) {
      g.live.window = pick({1, 2, 5, 9, 20});
      g.live.retained = pick({0, 0, 2});
      g.live.sink = pick({0, 0, 1, 4});
    }
    if (!config.groups.empty() && rng() % 4 == 0) g = config.groups.back();
    config.groups.push_back(g);
  }
  return config;
}

// What so many sequences hold at most with `in_flight` tokens in flight, if parts of pages and tokens counted: by the concave hull of
// `most`.
uint64_t shared_out(const std::vector<uint64_t>& most, uint64_t in_flight, uint64_t sequences) {
  const uint64_t last = std::min<uint64_t>(in_flight, most.size() - 1), tokens = std::min(in_flight, last * sequences);
  uint64_t pages = 0;
  for (uint64_t i = 0; i * sequences <= tokens; ++i) {
    if (i * sequences == tokens) pages = std::max(pages, most[i] * sequences);
    for (uint64_t j = i + 1; j <= last; ++j) {
      if (j * sequences < tokens) continue;
      pages = std::max(pages, (most[i] * (j * sequences - tokens) + most[j] * (tokens - i * sequences)) / (j - i));
    }
  }
  return pages;
}

TEST(WorstCase, IsTheMostThatSequencesHold) {
  std::mt19937_64 rng(11);
  for (int n = 0; n < 300; ++n) {
    SCOPED_TRACE(n);
    const Config config = draw_config(rng);
    const uint64_t tokens = 1 + rng() % kMostTokens;
    const std::vector<uint64_t> most = most_pages(config, tokens);
    CacheUse use;
    use.spare_pages = rng() % 3;
    for (use.step_tokens = 1; use.step_tokens <= tokens; use.step_tokens += 1 + rng() % 4) {
      use.step_depth = 1 + rng() % 2;
      const uint64_t in_flight = use.step_depth * use.step_tokens;
      const WorstCase counted(config, use, tokens);
      for (const uint64_t sequences : {1, 2, 3, 7}) {
        ASSERT_EQ(counted.pages_of_all(sequences), 1 + use.spare_pages + shared_out(most, in_flight, sequences))
            << sequences << " of " << tokens << " tokens, " << in_flight << " in flight";
      }
    }
  }
}

}  // namespace
}  // namespace quire
