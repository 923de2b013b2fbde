// What the simulated engines run on: plans made by hand, identities that look alike, and a memory
// whose every word is a stamp (who wrote what for which group), so that a wrong block, a stale
// state or another prompt's prefix shows at the step that reads it and not as a wrong count later.
// A failed check throws Wrong.
#pragma once

#include <quire/load.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/checked.h"
#include "core/step/kv_cache.h"

namespace quire::model {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

#define MODEL_REQUIRE(condition, text)                                               \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      throw ::quire::model::Wrong(std::string("not so: " #condition "; ") + (text)); \
  } while (false)

inline void require_ok(const Status& status, const char* call) {
  if (!status.ok()) [[unlikely]]
    throw Wrong(std::string(call) + ": " + status.message());
}

inline uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xbf58476d1ce4e5b9ull;
  return h ^ (h >> 29);
}

// Small and fast; started anew for every step of a run, so that leaving an operation out does not
// change the dice of later steps.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(mix(0x51, seed)) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

inline uint64_t pick(Rng& rng, uint64_t n) { return n == 0 ? 0 : (rng() >> 16) % n; }
inline bool chance(Rng& rng, uint32_t percent) { return pick(rng, 100) < percent; }

// Whether a load that ends there leaves a block of the group out: nothing behind it keeps one of
// its tokens.
inline bool left_out(const LiveRange& live, uint64_t block_tokens, uint64_t block, uint64_t end) {
  return !live.state && block * block_tokens >= live.sink_end(end) && (block + 1) * block_tokens <= live.kept_begin(end);
}

// Whether who resumes there needs no token of it.
inline bool passed(const LiveRange& live, uint64_t block_tokens, uint64_t block, uint64_t end) {
  return !live.state && block * block_tokens >= live.sink_end(end) && (block + 1) * block_tokens <= live.tail_begin(end);
}

// Whether one of these has tokens of [first, end) of the group.
inline bool failed(std::span<const quire_load_failure> failures, uint32_t group, uint64_t first, uint64_t end) {
  for (const quire_load_failure& f : failures) {
    if (f.group == group && std::max(f.first_token, first) < std::min(f.first_token + f.num_tokens, end)) return true;
  }
  return false;
}

// A plan made by hand: one shard, ids not lowered (one kernel block per part).
struct GroupSketch {
  LiveRange live;
  uint32_t block_tokens = 4;
  uint32_t parts_per_page = 1;
  uint32_t ids_per_block = 1;
  uint32_t look_ahead = 0;
  uint64_t encoder_tokens = 0;  // cross attention: at most
};

// alignment: where hits end, 0 = at multiples of all blocks.
inline std::shared_ptr<const Config> make_config(const std::vector<GroupSketch>& groups, uint64_t num_pages, uint64_t max_len,
                                                 uint64_t alignment = 0) {
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
    plan.look_ahead = g.look_ahead;
    plan.encoder_tokens = g.encoder_tokens;
    config->groups.push_back(plan);
    quire_lowering lowering{};
    lowering.parts_per_page = g.parts_per_page;
    lowering.kernel_blocks_per_part = 1;
    lowering.page_factor = g.parts_per_page;
    lowering.part_factor = 1;
    lowering.num_lowered_ids = num_pages * g.parts_per_page;
    config->shards[0].lowering.push_back(lowering);
    if (g.live.fixed) continue;  // another axis
    unit = std::gcd(unit, uint64_t{g.block_tokens});
    align = std::lcm(align, uint64_t{g.block_tokens});
  }
  config->match_unit_tokens = static_cast<uint32_t>(unit);
  config->hit_alignment_tokens = static_cast<uint32_t>(alignment != 0 ? alignment : align);
  config->num_pages = num_pages;
  config->max_model_len = max_len;
  return config;
}

// Who shares with whom: several of these are alike once salt and adapter are written one behind the
// other.
struct Tenant {
  const char* salt;
  const char* adapter;
  uint64_t epoch;
};
inline constexpr Tenant kTenants[] = {{"", "", 0}, {"ab", "", 0}, {"a", "b", 0}, {"", "ab", 0}, {"ab", "", 1}, {"a", "", 0}};
inline constexpr uint32_t kNumTenants = 6;
quire_identity identity_of(uint32_t tenant, uint32_t flags);

// What a token's stamp is made of: identity and every symbol up to and including it.
inline uint64_t first_hash(uint32_t tenant) { return mix(0x5151, tenant + 1); }

// One row of a step, as the engine handed it to its kernels when it was reserved.
struct PlannedRow {
  SequenceId id;
  uint64_t life = 0;    // which life of the sequence: it is another one after a preemption
  uint64_t family = 0;  // of forks: they may write what another one of them has, kernels run in order
  uint32_t tenant = 0;
  uint64_t position = 0;
  uint32_t num_tokens = 0;
  std::vector<uint64_t> hashes;  // [position + num_tokens + 1]
  uint64_t encoder = 0;          // tokens that its cross attention sees; a row at position 0 writes them
  uint64_t encoder_hash = 0;
  uint64_t known_before = 0;
  bool gave_symbols = false;
  bool matched = false;
  uint32_t matched_tokens = 0;
  quire_miss miss = QUIRE_MISS_NONE;
  std::vector<uint32_t> blocks_before;  // by group
  bool overwrites = false;              // some group's state is written where it is read
};

// Tokens of the row that a group's table covers.
inline uint64_t table_tokens(const GroupPlan& plan, const PlannedRow& row) {
  return plan.live.fixed ? row.encoder : row.position + row.num_tokens;
}

struct PlannedStep {
  StepId id;
  std::vector<PlannedRow> rows;
  uint64_t pitch = 0;                        // of tables
  std::vector<std::vector<int32_t>> tables;  // by group: [column][row][pitch]; states: [column][row] to read, then [column][write]
  std::vector<std::vector<int32_t>> first_write, write_ends;  // by group of states: [row + 1], [write]
  std::vector<std::vector<int64_t>> slots;                    // by group: [column][token]
  std::vector<uint64_t> first_token;                          // [row + 1], of the step
  std::vector<quire_copy> copies;
  std::vector<quire_zero> zeroes;
  std::vector<int32_t> update_first, update_indptr, updates;  // of the group whose tables are uploaded piece by piece
  std::vector<std::pair<uint64_t, uint64_t>> touched;         // part, family
  std::vector<uint64_t> written;                              // parts
  std::vector<uint64_t> have;                                 // of a load, by group: tokens before are cached and not brought
  bool ran = false;

  // Where the kernels put token p of a row: block and offset in one number; -1: nowhere.
  int64_t slot(uint32_t group, uint32_t column, size_t row, uint64_t p) const {
    return slots[group][column * first_token.back() + first_token[row] + p - rows[row].position];
  }
  // Whether block b of the group, which the row may begin, is one that it shares with others.
  bool shares(uint32_t group, size_t row, uint64_t b, uint64_t block_tokens) const {
    if (!have.empty()) return (b + 1) * block_tokens <= have[group];
    const uint64_t first = std::max(b * block_tokens, rows[row].position);
    return !slots[group].empty() && slot(group, 0, row, first) < 0;
  }

  int32_t state_read(uint32_t group, size_t row, uint32_t column) const { return tables[group][column * rows.size() + row]; }
  int32_t state_write(uint32_t group, uint32_t columns, int32_t write, uint32_t column) const {
    return tables[group][columns * rows.size() + column * write_ends[group].size() + static_cast<size_t>(write)];
  }
};

// A row of a part.
struct Word {
  uint64_t stamp = 0;
  uint64_t writer = 0;  // group and tenant; 0 = zeroed
};

// Blocks that somebody holds, as the cache lists them, and the words that must stay.
struct Held {
  struct Piece {
    uint32_t group = 0;
    uint64_t first_block = 0, blocks = 0;
    std::vector<int32_t> ids;  // [column][block]

    int32_t id(uint64_t column, uint64_t block) const { return ids[column * blocks + block - first_block]; }
  };
  struct Kept {
    uint32_t group = 0;
    int32_t id = 0;
    std::vector<Word> words;
  };

  quire_hold_id id = 0;
  uint64_t first = 0, end = 0;
  uint64_t after = 0;  // steps that are reserved later write to none of the blocks
  uint64_t num_parts = 0;
  std::vector<Piece> pieces;  // by group
  std::vector<Kept> kept;
};

class Memory {
 public:
  // in_place: a state may be written where it is read.
  explicit Memory(const Config& config, bool in_place = false);

  // Takes down what the engine uploads when it has reserved: later calls must not change what this
  // step reads. What the step writes must not be touched by a row of anybody else that is in
  // flight, whether its sequence still lives or not.
  void plan(Cache& cache, PlannedStep* step);
  // The step was committed or aborted.
  void done(const PlannedStep& step);
  // Asks again and compares what the rows that are still alive need: alive[row].
  void compare(Cache& cache, const PlannedStep& step, const std::vector<bool>& alive) const;
  // The step's copies, zeroes and kernels, rows of sequences that are gone included.
  void run(const PlannedStep& step);
  // What comes before the kernels of a step, or before the bytes of a load.
  void prepare(const PlannedStep& step);
  // A load's bytes, but for those that do not come, some of which come in part.
  void bring(const PlannedStep& load, std::span<const quire_load_failure> failures);
  // A load has slots where bytes are to come, and nowhere else.
  void check_slots(Cache& cache, const PlannedStep& load) const;
  uint64_t reads() const { return reads_; }

  // Lists what a hold has; held->id, first, end and after are given. From then on no step that is
  // reserved after `after` writes to it, and none of these does.
  void begin_hold(const Cache& cache, Held* held, std::span<const PlannedStep* const> in_flight);
  void end_hold(const Held& held);
  // What it has of a text: every token before `tokens` as it was computed, the state behind `end`.
  void check_held(const Held& held, uint64_t tokens, std::span<const uint64_t> hashes) const;
  // The words of tokens before `tokens` stay as they are until the hold ends.
  void keep(Held* held, uint64_t tokens) const;
  void check_kept(const Held& held) const;
  // Somebody who was to bring a token of the load, or its state, writes it late, and not as it
  // should be.
  void write_late(const PlannedStep& load, uint32_t group, uint32_t column, uint64_t token, uint64_t stamp);

 private:
  const Word* cell(uint32_t group, int32_t id) const { return const_cast<Memory*>(this)->cell(group, id); }
  Word* cell(uint32_t group, int32_t id) {
    const uint32_t ppp = config_.groups[group].parts_per_page, v = static_cast<uint32_t>(id);
    return &words_[v / ppp * page_words_ + v % ppp * rows_[group]];
  }
  static uint64_t stamp(uint64_t hash, uint32_t group, uint32_t column) { return mix(hash, uint64_t{group} << 8 | column); }
  // Of token p of the row's table.
  static uint64_t stamp(const PlannedRow& row, const GroupPlan& plan, uint32_t group, uint32_t column, uint64_t p) {
    return stamp(plan.live.fixed ? mix(row.encoder_hash, p) : row.hashes[p + 1], group, column);
  }
  static uint64_t writer(const PlannedRow& row, uint32_t group) { return uint64_t{group} << 8 | (row.tenant + 1); }
  void fill(Cache& cache, const PlannedStep& step, uint32_t group, std::vector<int32_t>* out) const;
  void fill_states(Cache& cache, PlannedStep* step, uint32_t group) const;
  void fill_slots(Cache& cache, PlannedStep* step, uint32_t group) const;
  uint64_t part(uint32_t group, int32_t id) const {
    const uint32_t ppp = config_.groups[group].parts_per_page, v = static_cast<uint32_t>(id);
    return uint64_t{v / ppp} * page_parts_ + v % ppp;
  }
  void fill_updates(Cache& cache, PlannedStep* step) const;
  void upload(const PlannedStep& step);
  void touch(PlannedStep* step, uint32_t group, int32_t id, uint64_t family, bool write);
  void touch_row(PlannedStep* step, size_t row, uint32_t group);
  void run_tokens(const PlannedStep& step, uint32_t group);
  void run_states(const PlannedStep& step, uint32_t group);
  void bring_tokens(const PlannedStep& load, uint32_t group, uint32_t column, std::span<const quire_load_failure> failures);
  void run_row(const PlannedStep& step, size_t row, uint32_t group, uint32_t column);

  const Config& config_;
  const bool in_place_;
  std::vector<uint32_t> rows_;  // by group: words of a part
  uint64_t page_words_ = 1, page_parts_ = 1;
  std::vector<Word> words_;
  std::vector<std::vector<uint64_t>> touched_;  // by part: families that rows in flight belong to
  std::vector<std::vector<uint64_t>> held_;     // by part: the newest step when it was held
  uint32_t uploaded_group_ = 0;                 // kNone: all keep states
  std::vector<std::vector<int32_t>> uploaded_;  // [sequence * columns + column]: a table as lists of updates have made it
  uint64_t reads_ = 0;
};

}  // namespace quire::model
