// A simulated engine and a simulated memory for the cache. Every id's bytes are stamps (who wrote what), so a wrong block, a stale state or
// another prompt's prefix shows as a wrong stamp at the step that reads it, not as a wrong count later.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/base/checked.h"
#include "core/step/cache.h"

namespace quire::model {

using Rng = std::mt19937_64;

inline uint64_t pick(Rng& rng, uint64_t n) { return n == 0 ? 0 : rng() % n; }
inline bool chance(Rng& rng, uint32_t percent) { return pick(rng, 100) < percent; }

inline uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xbf58476d1ce4e5b9ull;
  return h ^ (h >> 29);
}

// A plan made by hand: one shard, ids not lowered (one kernel block per part).
struct GroupSketch {
  LiveRange live;
  uint32_t block_tokens = 4;
  uint32_t parts_per_page = 1;
  uint32_t ids_per_block = 1;
};

inline std::shared_ptr<const Config> make_config(const std::vector<GroupSketch>& groups, uint64_t num_pages, uint64_t max_len) {
  auto config = std::make_shared<Config>();
  config->policy = "test";
  config->shards.resize(1);
  uint64_t unit = 0, align = 1;
  for (const GroupSketch& g : groups) {
    GroupPlan plan;
    plan.live = g.live;
    plan.block_tokens = plan.kernel_block_tokens = g.block_tokens;
    plan.parts_per_page = g.parts_per_page;
    plan.ids_per_block = plan.num_lanes = g.ids_per_block;
    config->groups.push_back(plan);
    quire_lowering lowering{};
    lowering.parts_per_page = g.parts_per_page;
    lowering.kernel_blocks_per_part = 1;
    lowering.page_factor = g.parts_per_page;
    lowering.part_factor = 1;
    lowering.num_lowered_ids = num_pages * g.parts_per_page;
    config->shards[0].lowering.push_back(lowering);
    unit = std::gcd(unit, uint64_t{g.block_tokens});
    align = std::lcm(align, uint64_t{g.block_tokens});
  }
  config->match_unit_tokens = static_cast<uint32_t>(unit);
  config->hit_alignment_tokens = static_cast<uint32_t>(align);
  config->num_pages = num_pages;
  config->max_model_len = max_len;
  return config;
}

// One request of the simulated engine. `tokens` is its whole life, known in advance here and told to the cache bit by bit.
struct Request {
  SequenceId id;
  std::string salt;
  std::vector<quire_symbol> tokens;
  uint64_t prompt = 0;
  uint64_t committed = 0;
  uint64_t reserved = 0;
  uint64_t known = 0;
  uint32_t in_flight = 0;
  bool fresh = true;  // next reserve matches
};

struct PlannedRow {
  SequenceId id;
  std::string salt;
  std::vector<quire_symbol> tokens;  // as of reserve
  uint64_t position = 0;
  uint32_t num_tokens = 0;
};

struct PlannedStep {
  StepId id;
  std::vector<PlannedRow> rows;
  bool ran = false;
};

// The bytes: stamps by (group, column, id, token).
class Memory {
 public:
  explicit Memory(const Config& config) : config_(config) {}

  // Executes a step's copies, zeroes and kernels; returns a description of the first wrong read, or empty.
  std::string run(Cache& cache, const PlannedStep& step);
  uint64_t reads() const { return reads_; }

 private:
  using Key = std::pair<uint32_t, int64_t>;
  std::vector<uint64_t>& cell(uint32_t group, uint32_t column, int32_t id);
  static uint64_t stamp(const PlannedRow& row, uint32_t group, uint64_t tokens);
  std::string run_tokens(Cache& cache, const PlannedStep& step, uint32_t group);
  std::string run_states(Cache& cache, const PlannedStep& step, uint32_t group);
  std::string check_row(const PlannedRow& row, uint32_t group, uint32_t column, const int32_t* ids);

  const Config& config_;
  // A page's bytes belong to whichever group wrote last: page -> (group, stamps of all its parts).
  struct Page {
    uint32_t group = kNone;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint64_t>> parts;  // (column is implied by the id) part -> stamps
  };
  std::map<uint32_t, Page> pages_;
  uint64_t reads_ = 0;
};

}  // namespace quire::model
