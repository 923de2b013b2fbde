// Fixtures with recurrent states: options, rows, caches whose hits may end inside blocks.
#pragma once

#include <memory>
#include <vector>

#include "fixture.h"

namespace quire {

inline quire_cache_options states_of(uint32_t flags, uint32_t branches = 0) {
  quire_cache_options options{};
  options.flags = flags;
  options.num_state_branches = branches;
  return options;
}

// One row of one sequence, reserved.
inline StepId row(Fixture& f, SequenceId id, quire_symbol first, uint32_t tokens, uint32_t flags = 0) {
  StepId step;
  EXPECT_EQ(f.reserve(id, count_from(first, tokens), tokens, flags, &step).code, QUIRE_OK);
  return step;
}

// In place of the fixture's cache, one whose match unit and hit alignment are `unit` tokens.
inline void hit_inside_blocks(Fixture* f, const std::vector<GroupSketch>& groups, uint64_t pages, uint32_t depth, uint32_t unit,
                              quire_cache_options options) {
  auto config = std::make_shared<Config>(*make_config(groups, pages, 128));
  config->match_unit_tokens = config->hit_alignment_tokens = unit;
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 64;
  options.step_depth = depth;
  options.hash_seed = 7;
  if (options.keep_states == 0) options.keep_states = kKeepAll;
  auto made = Cache::create(config, options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  f->cache = std::move(made.value());
}

}  // namespace quire
