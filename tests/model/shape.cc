// Random mixes of layers and pools, such that a lone request always fits.
#include <algorithm>

#include "tests/model/random_engine.h"

namespace quire::model {
namespace {

// Pages that a lone request of `tokens` never needs more of: every block of every group, and what a step holds twice.
uint64_t pages_needed(const Shape& s, uint64_t tokens) {
  uint64_t pages = 2;
  for (const GroupSketch& g : s.groups) {
    const uint64_t blocks = g.live.state ? s.states_needed(g) : ceil_div(g.live.fixed ? s.encoder : tokens, g.block_tokens) + s.depth + 1;
    pages += ceil_div(blocks * g.ids_per_block, g.parts_per_page) + 1;
  }
  return pages;
}

GroupSketch random_group(Rng& rng, uint32_t block_tokens, bool plain, bool first) {
  static const uint32_t blocks[] = {2, 4, 8};
  GroupSketch g;
  g.block_tokens = chance(rng, 70) ? block_tokens : blocks[pick(rng, 3)];
  const uint64_t kind = first && chance(rng, 85) ? 0 : pick(rng, 100);
  if (kind < 20) {
    g.live = LiveRange{};
  } else if (kind < 55) {
    g.live = LiveRange{.sink = chance(rng, 40) ? 1 + pick(rng, 6) : 0, .window = 1 + pick(rng, 20)};
    if (chance(rng, 25)) g.live.retained = 1 + pick(rng, 6);
  } else if (kind < 70) {
    g.live = LiveRange{.chunk = 4 + pick(rng, 24)};
  } else {
    g.live.state = true;
  }
  if (plain) return g;
  g.parts_per_page = 1 + static_cast<uint32_t>(pick(rng, 4));
  g.ids_per_block = 1 + static_cast<uint32_t>(pick(rng, g.live.state ? 4 : 2));
  return g;
}

// How states are written is the cache's option; boundaries that are crossed cost a state each, so steps are short then.
void choose_states(Rng& rng, uint64_t without, Shape* s) {
  const auto with = [&](Operation o, uint32_t percent) { return chance(rng, percent) && (without >> o & 1) == 0; };
  s->in_place = with(kStatesInPlace, 35);
  s->branches = with(kBranches, 40) ? static_cast<uint32_t>(1 + pick(rng, 4)) : 0;
  s->at_blocks = with(kStatesAtBlocks, 25);
  if (with(kHitsInside, 35)) {  // groups that need a part only decide where hits may end
    uint64_t unit = 0, parts = 1;
    for (GroupSketch& g : s->groups) {
      if (g.live.everything() && chance(rng, 60)) g.block_tokens = 8;
      if (g.live.state && chance(rng, 60)) g.block_tokens = 2;
      unit = std::gcd(unit, uint64_t{g.block_tokens});
      if (!g.live.everything() && !g.live.state) parts = std::lcm(parts, uint64_t{g.block_tokens});
    }
    s->alignment = std::lcm(unit, parts);
  }
  if (s->at_blocks) s->max_tokens = 12 + static_cast<uint32_t>(pick(rng, 16));
}

// One encoder or two, which may be longer than what is decoded; of two lengths the shorter holds.
void add_encoders(Rng& rng, uint32_t block_tokens, bool plain, Shape* s) {
  s->encoder = 1 + pick(rng, chance(rng, 15) ? 240 : 40);
  for (uint64_t more = 0; more <= 20; more += 20) {
    if (more > 0 && !chance(rng, 30)) break;
    s->groups.push_back(random_group(rng, block_tokens, plain, true));
    s->groups.back().live = LiveRange{.fixed = true};
    s->groups.back().encoder_tokens = s->encoder + pick(rng, more + 1);
  }
}

}  // namespace

Shape random_shape(Rng& rng, uint64_t without) {
  static const uint32_t blocks[] = {2, 4, 8};
  while (true) {
    Shape s;
    s.pages = 64 + pick(rng, 1 + pick(rng, 193));
    s.depth = 1 + static_cast<uint32_t>(pick(rng, 3));
    s.max_running = 2 + static_cast<uint32_t>(pick(rng, 7));
    s.max_tokens = 48 + static_cast<uint32_t>(pick(rng, 80));
    const bool plain = chance(rng, 25);
    const uint64_t groups = chance(rng, 50) ? 3 + pick(rng, 2) : 1 + pick(rng, 2);
    const uint32_t block_tokens = blocks[pick(rng, 3)];
    for (uint64_t i = 0; i < groups; ++i) {
      s.groups.push_back(random_group(rng, block_tokens, plain, i == 0));
      s.states = s.states || s.groups.back().live.state;
    }
    if (chance(rng, 8) && (without >> kEncoder & 1) == 0) add_encoders(rng, block_tokens, plain, &s);
    if (chance(rng, 25) && (without >> kDrafts & 1) == 0) {
      for (GroupSketch& g : s.groups) {
        if (!g.live.state && !g.live.fixed && g.live.chunk == 0 && chance(rng, 50)) g.look_ahead = 1 + static_cast<uint32_t>(pick(rng, 3));
      }
    }
    if (s.states) choose_states(rng, without, &s);
    s.max_len = 160;
    while (s.max_len >= 40 && pages_needed(s, s.max_len) > s.pages - 1) s.max_len -= 4;
    if (s.max_len >= 40) return s;
  }
}

}  // namespace quire::model
