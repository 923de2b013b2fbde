// What a step shows of its tables to engines that upload only what changed, and to those that captured a graph of more rows and tokens.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/step/follower.h"
#include "fixture.h"
#include "tests/model/follow.h"

namespace quire {
namespace {

struct Updates {
  int32_t first = 0;
  std::vector<int32_t> ids;
};

Updates updates_of(const Fixture& f, StepId step) {
  int32_t first = 0, indptr[2] = {};
  std::vector<int32_t> ids(64);
  uint64_t written = 0;
  const auto take = [&](quire_fill_kind kind, int32_t* out, uint64_t capacity) {
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.destination = out;
    fill.capacity = capacity;
    const Status ok = f.cache->step_fill(step, {&fill, 1}, &written);
    EXPECT_TRUE(ok.ok()) << ok.message();
  };
  take(QUIRE_FILL_UPDATE_FIRST, &first, 1);
  take(QUIRE_FILL_UPDATE_INDPTR, indptr, 2);
  take(QUIRE_FILL_UPDATE_INDICES, ids.data(), ids.size());
  EXPECT_EQ(written, static_cast<uint64_t>(indptr[1]));
  ids.resize(written);
  return {first, ids};
}

TEST(Fill, UpdatesAreWhatARowShowsForTheFirstTime) {
  Fixture f({kFull});
  SequenceId id = f.open();
  StepId step;
  f.reserve(id, count_from(0, 10), 10, QUIRE_ENTRY_MATCH, &step);
  Updates u = updates_of(f, step);
  EXPECT_EQ(u.first, 0);
  ASSERT_EQ(u.ids.size(), 3u) << "a first row shows all";
  const std::vector<int32_t> all = u.ids;
  ASSERT_TRUE(f.commit(step, id, 10).ok());
  f.reserve(id, count_from(10, 2), 2, 0, &step);
  EXPECT_TRUE(updates_of(f, step).ids.empty()) << "the block is known";
  ASSERT_TRUE(f.commit(step, id, 2).ok());
  f.reserve(id, count_from(12, 1), 1, 0, &step);
  u = updates_of(f, step);
  EXPECT_EQ(u.first, 3);
  EXPECT_EQ(u.ids.size(), 1u);
  ASSERT_TRUE(f.cache->abort(step).ok());
  f.reserve(id, count_from(12, 1), 1, 0, &step);
  EXPECT_EQ(updates_of(f, step).ids.size(), 1u) << "nobody may have looked at what an aborted step showed";
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  const SequenceId child = *f.cache->sequence_fork(id);
  f.reserve(child, count_from(13, 1), 1, 0, &step);
  u = updates_of(f, step);
  EXPECT_EQ(u.first, 0);
  ASSERT_EQ(u.ids.size(), 4u);
  EXPECT_EQ(u.ids[0], all[0]);
  ASSERT_TRUE(f.commit(step, child, 1).ok());
  f.reserve(id, count_from(50, 1), 1, 0, &step);
  u = updates_of(f, step);
  EXPECT_TRUE(u.ids.empty()) << "the child took the copy; the parent is alone with its block";
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  ASSERT_TRUE(f.cache->sequence_preempt(id).ok());
  f.reserve(id, count_from(0, 10), 10, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(updates_of(f, step).first, 0);
  EXPECT_EQ(updates_of(f, step).ids.size(), 3u) << "all again";
  ASSERT_TRUE(f.commit(step, id, 2).ok());
}

constexpr uint32_t kRows = 5, kTokens = 19;  // of the graph
constexpr int32_t kDirt = 0x5a5a5a5a;
constexpr uint64_t kRoom = 4096;

// Three rows of several tokens each, two columns in the table, drafts whose states are written one by one.
struct GraphStep {
  Fixture f{{kFull, {LiveRange{.window = 8}, 4, 2, 2}, kState}, 64, 2, branches()};
  StepId step;
  uint32_t tokens = 0;

  static quire_cache_options branches() {
    quire_cache_options options{};
    options.num_state_branches = 3;
    return options;
  }
  GraphStep() {
    std::vector<quire_reserve_entry> entries(3);
    std::vector<quire_reserve_result> results(3);
    const std::vector<quire_symbol> symbols = count_from(0, 40);
    for (uint32_t i = 0; i < 3; ++i) {
      const SequenceId id = f.open();
      if (i != 0) f.prefill(id, count_from(100 * i, 7 * i));
      entries[i].sequence = id.value;
      entries[i].symbols_position = f.info(id).known;
      entries[i].symbols_offset = i;
      entries[i].num_symbols = entries[i].num_tokens = i == 0 ? 8 : i + 1;
    }
    const Status ok = f.cache->reserve(entries, symbols, results, &step);
    EXPECT_TRUE(ok.ok()) << ok.message();
    for (const quire_reserve_result& r : results) {
      EXPECT_EQ(r.code, QUIRE_OK);
      tokens += r.num_tokens;
    }
  }
};

// An array of a step, its destination full of what an earlier step may have left there.
std::vector<int32_t> array_of(StepReader& reader, StepId step, quire_fill fill, uint64_t* written) {
  std::vector<int32_t> out(kRoom, kDirt);
  fill.struct_size = sizeof fill;
  fill.destination = out.data();
  fill.capacity = kRoom / 2;  // of 64 bits, too
  const Status ok = reader.step_fill(step, fill, written);
  EXPECT_TRUE(ok.ok()) << ok.message();
  return out;
}

bool fits(quire_fill_kind kind, bool is_state) {
  if (kind == QUIRE_FILL_KV_LEN || kind == QUIRE_FILL_QUERY_INDPTR || kind == QUIRE_FILL_POSITIONS) return true;
  const bool of_states = kind == QUIRE_FILL_STATE_READ || kind == QUIRE_FILL_STATE_WRITE || kind == QUIRE_FILL_STATE_WRITES ||
                         kind == QUIRE_FILL_STATE_WRITE_INDPTR || kind == QUIRE_FILL_STATE_WRITE_ENDS;
  return of_states == is_state;
}

TEST(Fill, RowsAndTokensBehindTheStepAreEmpty) {
  GraphStep g;
  const auto& groups = g.f.cache->config().groups;
  ASSERT_LT(g.tokens, kTokens);
  int kinds = 0;
  for (uint32_t group = 0; group < groups.size(); ++group) {
    for (const quire_fill_kind kind : model::kAllKinds) {
      if (!fits(kind, groups[group].is_state())) continue;
      ++kinds;
      const uint64_t columns = groups[group].ids_per_block;
      const bool table = kind == QUIRE_FILL_TABLE || kind == QUIRE_FILL_RAW_TABLE;
      quire_fill fill{};
      fill.kind = kind;
      fill.group = group;
      fill.fill_value = -9;
      fill.pitch = table ? 33 : 0;
      fill.column_pitch = table ? kRows * 33 : 64;  // columns begin where they did
      uint64_t plain_written = 0, written = 0;
      const auto plain = array_of(*g.f.cache, g.step, fill, &plain_written);
      fill.num_rows = kRows;
      fill.num_tokens = kTokens;
      const auto out = array_of(*g.f.cache, g.step, fill, &written);
      SCOPED_TRACE("kind " + std::to_string(kind) + " of group " + std::to_string(group));
      const uint64_t wide = kind == QUIRE_FILL_SLOTS ? 2 : 1;
      const bool indptr = kind == QUIRE_FILL_TABLE_INDPTR || kind == QUIRE_FILL_QUERY_INDPTR || kind == QUIRE_FILL_UPDATE_INDPTR ||
                          kind == QUIRE_FILL_STATE_WRITE_INDPTR || kind == QUIRE_FILL_SLOTS_INDPTR;
      const bool per_row = indptr || kind == QUIRE_FILL_KV_LEN || kind == QUIRE_FILL_UPDATE_FIRST || kind == QUIRE_FILL_STATE_READ ||
                           kind == QUIRE_FILL_STATE_WRITE;
      const bool per_token = kind == QUIRE_FILL_SLOTS || kind == QUIRE_FILL_POSITIONS;
      const bool single = indptr || kind == QUIRE_FILL_KV_LEN || kind == QUIRE_FILL_UPDATE_FIRST || kind == QUIRE_FILL_POSITIONS ||
                          kind == QUIRE_FILL_STATE_WRITE_ENDS;
      std::vector<int32_t> want = plain;
      const int32_t value = kind == QUIRE_FILL_SLOTS || kind == QUIRE_FILL_STATE_WRITE ? -1 : 0;
      for (uint64_t c = 0; c < (single ? 1 : columns); ++c) {
        const uint64_t begin = c * fill.column_pitch * wide;
        if (table) std::fill_n(want.begin() + static_cast<long>(begin + uint64_t{3} * 33), uint64_t{kRows - 3} * 33, 0);
        if (per_row) {
          const uint64_t first = begin + 3 + (indptr ? 1 : 0);
          std::fill_n(want.begin() + static_cast<long>(first), kRows - 3, indptr ? want[first - 1] : value);
        }
        if (per_token) std::fill_n(want.begin() + static_cast<long>(begin + g.tokens * wide), (kTokens - g.tokens) * wide, value);
      }
      EXPECT_TRUE(out == want);
      EXPECT_EQ(written > plain_written, table || per_row || per_token) << written << " of " << plain_written;
    }
  }
  EXPECT_EQ(kinds, 2 * 12 + 8);
}

TEST(Fill, FollowersShowTheSameRowsBehindTheStep) {
  GraphStep g;
  model::Follow follow(make_config({kFull, {LiveRange{.window = 8}, 4, 2, 2}, kState}, 64, 128), [] {
    quire_cache_options options = GraphStep::branches();
    options.struct_size = sizeof options;
    options.max_sequences = 8;
    options.max_tokens_per_step = 64;
    options.step_depth = 2;
    return options;
  }());
  ASSERT_EQ(follow.take(*g.f.cache, g.step), "");
  for (const quire_fill_kind kind : {QUIRE_FILL_TABLE, QUIRE_FILL_SLOTS, QUIRE_FILL_KV_LEN, QUIRE_FILL_QUERY_INDPTR}) {
    quire_fill fill{};
    fill.kind = kind;
    fill.pitch = 40;
    fill.num_rows = kRows;
    fill.num_tokens = kTokens;
    uint64_t mine = 0, theirs = 0;
    EXPECT_TRUE(array_of(*g.f.cache, g.step, fill, &mine) == array_of(follow.follower(), g.step, fill, &theirs)) << kind;
    EXPECT_EQ(mine, theirs);
  }
}

// Ids are read a piece at a time. A row of 700 blocks that begins inside block 300, and the follower that takes it over.
TEST(Fill, LongRowsAreWhatTheirIdsSay) {
  constexpr uint32_t kBegin = 1202, kEnd = 2799;
  const auto config = make_config({kFull, {LiveRange{.window = 1500}, 4, 2, 2}}, 3000, 4096);
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 4096;
  Fixture f({kFull});
  f.cache = std::move(Cache::create(config, options).value());
  model::Follow follow(config, options);
  const SequenceId id = f.open();
  StepId step;
  EXPECT_EQ(f.reserve(id, count_from(0, kBegin), kBegin, QUIRE_ENTRY_NO_STOP, &step).num_tokens, kBegin);
  ASSERT_TRUE(f.commit(step, id, kBegin).ok());
  const SequenceId other = f.open();  // so that ids do not rise one by one
  EXPECT_EQ(f.reserve(other, count_from(7000, 900), 900, QUIRE_ENTRY_NO_STOP, &step).num_tokens, 900u);
  ASSERT_TRUE(f.commit(step, other, 900).ok());
  EXPECT_EQ(f.reserve(id, count_from(kBegin, kEnd - kBegin), kEnd - kBegin, QUIRE_ENTRY_NO_STOP, &step).num_tokens, kEnd - kBegin);
  for (uint32_t g = 0; g < config->groups.size(); ++g) {
    SCOPED_TRACE(g);
    const uint64_t blocks = (kEnd + 3) / 4;
    const quire_lowering& l = config->shards[0].lowering[g];
    quire_fill fill{};
    fill.group = g;
    fill.pitch = blocks;
    uint64_t written = 0;
    const auto array = [&](quire_fill_kind kind) {
      fill.kind = kind;
      std::vector<int32_t> out(8 * kEnd);
      fill.struct_size = sizeof fill;
      fill.destination = out.data();
      fill.capacity = out.size() / 2;
      const Status ok = f.cache->step_fill(step, {&fill, 1}, &written);
      EXPECT_TRUE(ok.ok()) << ok.message();
      return out;
    };
    const auto raw = array(QUIRE_FILL_RAW_TABLE), table = array(QUIRE_FILL_TABLE);
    fill.pitch = 0;
    const auto indices = array(QUIRE_FILL_TABLE_INDICES), slots = array(QUIRE_FILL_SLOTS);
    for (uint64_t c = 0; c < config->groups[g].ids_per_block; ++c) {
      for (uint64_t b = 0; b < blocks; ++b) {
        const auto v = static_cast<uint32_t>(raw[c * blocks + b]);
        const uint64_t want = v / l.parts_per_page * l.page_factor + v % l.parts_per_page * l.part_factor;
        ASSERT_EQ(static_cast<uint32_t>(table[c * blocks + b]), want) << b;
        ASSERT_EQ(indices[c * blocks + b], table[c * blocks + b]) << b;
        for (uint64_t t = std::max<uint64_t>(b * 4, kBegin); t < std::min<uint64_t>(b * 4 + 4, kEnd); ++t) {
          int64_t slot = 0;
          std::memcpy(&slot, &slots[(c * (kEnd - kBegin) + t - kBegin) * 2], sizeof slot);
          ASSERT_EQ(slot, v == 0 ? -1 : static_cast<int64_t>(want * 4 + t % 4)) << t;
        }
      }
    }
  }
  EXPECT_EQ(follow.take(*f.cache, step), "");
  EXPECT_EQ(follow.compare(*f.cache, step), "");
}

TEST(Fill, AGraphHasRoomForTheStep) {
  GraphStep g;
  std::vector<int32_t> out(kRoom, kDirt);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_TABLE;
  fill.destination = out.data();
  fill.pitch = 33;
  fill.capacity = out.size();
  const auto refused = [&](uint32_t rows, uint32_t tokens, const char* says) {
    fill.num_rows = rows;
    fill.num_tokens = tokens;
    uint64_t written = 0;
    const Status status = g.f.cache->step_fill(g.step, fill, &written);
    EXPECT_EQ(status.code(), QUIRE_OUT_OF_RANGE);
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
    EXPECT_EQ(std::count(out.begin(), out.end(), kDirt), static_cast<long>(kRoom)) << "nothing is written";
    return written;
  };
  refused(2, 0, "num_rows: 2, the step has 3");
  refused(0, 1, "num_tokens: 1, the step has ");
  fill.capacity = 4 * 33;
  EXPECT_EQ(refused(5, 0, "capacity: 132 elements, 165 needed"), 165U);
  fill.pitch = std::numeric_limits<uint64_t>::max() / 4;
  refused(5, 0, "beyond 63 bits");
  fill.pitch = 33;
  uint64_t written = 0;
  fill.num_rows = 3;  // just so
  fill.num_tokens = g.tokens;
  EXPECT_TRUE(g.f.cache->step_fill(g.step, fill, &written).ok());
  EXPECT_EQ(written, uint64_t{3} * 33);
}

}  // namespace
}  // namespace quire
