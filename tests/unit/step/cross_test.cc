// Cross attention: what an encoder made is there once, in blocks of the sequence's own, from its first row to its end.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/step/step_bytes.h"
#include "fixture.h"
#include "tests/model/follow.h"

namespace quire {
namespace {

using model::Follow;

constexpr uint32_t kSelf = 0, kCross = 1;

GroupSketch cross_of(uint64_t most, uint32_t block_tokens = 4) {
  GroupSketch g{LiveRange{.fixed = true}, block_tokens, 1, 1};
  g.encoder_tokens = most;
  return g;
}

struct Decoder : Fixture {
  explicit Decoder(uint64_t pages = 32, std::vector<GroupSketch> groups = {GroupSketch{LiveRange{}, 4, 1, 1}, cross_of(20)})
      : Fixture(std::move(groups), pages) {}

  static quire_reserve_entry entry_of(SequenceId id, uint32_t tokens, uint64_t encoder) {
    quire_reserve_entry e{};
    e.sequence = id.value;
    e.num_tokens = tokens;
    e.encoder_tokens = encoder;
    return e;
  }
  quire_reserve_result begin(SequenceId id, uint32_t tokens, uint64_t encoder, StepId* step) const {
    const quire_reserve_entry e = entry_of(id, tokens, encoder);
    quire_reserve_result r{};
    const Status ok = cache->reserve({&e, 1}, {}, {&r, 1}, step);
    EXPECT_TRUE(ok.ok()) << ok.message();
    return r;
  }
  template <typename T>
  std::vector<T> fill(StepId step, quire_fill_kind kind, uint32_t group, uint64_t pitch = 0) const {
    std::vector<T> out(64, -77);
    quire_fill f{};
    f.struct_size = sizeof f;
    f.kind = kind;
    f.group = group;
    f.destination = out.data();
    f.capacity = out.size();
    f.pitch = pitch;
    uint64_t written = 0;
    const Status ok = cache->step_fill(step, {&f, 1}, &written);
    EXPECT_TRUE(ok.ok()) << ok.message();
    out.resize(written);
    return out;
  }
  std::vector<int32_t> ints(StepId step, quire_fill_kind kind, uint32_t group, uint64_t pitch = 0) const {
    return fill<int32_t>(step, kind, group, pitch);
  }
  uint64_t used() const {
    quire_cache_stats s{};
    s.struct_size = sizeof s;
    cache->stats(&s);
    return s.pages_used;
  }
  uint64_t encoder(SequenceId id) const {
    quire_sequence_info info{};
    EXPECT_TRUE(cache->sequence_info(id, &info).ok());
    return info.encoder_tokens;
  }
};

TEST(Cross, TheFirstRowHasSlotsForTheEncodersTokensAndAllRowsSeeThem) {
  Decoder f;
  const SequenceId a = f.open(), b = f.open();
  const quire_reserve_entry both[] = {Decoder::entry_of(a, 3, 10), Decoder::entry_of(b, 2, 0)};
  quire_reserve_result results[2] = {};
  StepId step;
  ASSERT_TRUE(f.cache->reserve(both, {}, results, &step).ok());
  ASSERT_EQ(results[0].code, QUIRE_OK);
  ASSERT_EQ(results[1].code, QUIRE_OK);
  EXPECT_EQ(f.used(), 1 + 3 + 1u);
  const std::vector<int32_t> table = f.ints(step, QUIRE_FILL_TABLE, kCross, 3);
  EXPECT_TRUE(table[0] > 0 && table[1] > 0 && table[2] > 0);
  EXPECT_EQ(std::vector<int32_t>(table.begin() + 3, table.end()), (std::vector<int32_t>{0, 0, 0})) << "the other one has no encoder";
  EXPECT_EQ(f.ints(step, QUIRE_FILL_KV_LEN, kCross), (std::vector<int32_t>{10, 0}));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_KV_LEN, kSelf), (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_TABLE_INDPTR, kCross), (std::vector<int32_t>{0, 3, 3}));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_SLOTS_INDPTR, kCross), (std::vector<int32_t>{0, 10, 10}));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_SLOTS_INDPTR, kSelf), f.ints(step, QUIRE_FILL_QUERY_INDPTR, kSelf));
  const auto slots = f.fill<int64_t>(step, QUIRE_FILL_SLOTS, kCross);
  ASSERT_EQ(slots.size(), 10u);
  for (int64_t t = 0; t < 10; ++t) EXPECT_EQ(slots[static_cast<size_t>(t)], table[static_cast<size_t>(t / 4)] * 4 + t % 4);
  EXPECT_EQ(f.ints(step, QUIRE_FILL_UPDATE_INDPTR, kCross), (std::vector<int32_t>{0, 3, 3}));
  quire_commit_entry done[2] = {};
  done[0].sequence = a.value;
  done[0].num_accepted = 3;
  done[1].sequence = b.value;
  done[1].num_accepted = 2;
  ASSERT_TRUE(f.cache->commit(step, done, {}).ok());
  // The next row, of a sequence that only goes on: the same table, nothing to write, nothing to upload.
  EXPECT_EQ(f.begin(a, 1, 0, &step).code, QUIRE_OK);
  EXPECT_EQ(f.ints(step, QUIRE_FILL_TABLE, kCross, 3), std::vector<int32_t>(table.begin(), table.begin() + 3));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_KV_LEN, kCross), (std::vector<int32_t>{10}));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_SLOTS_INDPTR, kCross), (std::vector<int32_t>{0, 0}));
  EXPECT_TRUE(f.fill<int64_t>(step, QUIRE_FILL_SLOTS, kCross).empty());
  EXPECT_EQ(f.ints(step, QUIRE_FILL_UPDATE_INDPTR, kCross), (std::vector<int32_t>{0, 0}));
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  EXPECT_EQ(f.encoder(a), 10u);
  EXPECT_TRUE(f.cache->verify().ok());
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  EXPECT_EQ(f.used(), 1u);
}

TEST(Cross, WhateverEmptiesASequenceGivesTheEncodersBlocksBack) {
  Decoder f;
  const SequenceId id = f.open();
  StepId step;
  const auto emptied = [&](const char* by) {
    EXPECT_EQ(f.used(), 0u) << by;
    EXPECT_EQ(f.encoder(id), 0u) << by;
    EXPECT_TRUE(f.cache->verify().ok()) << by;
  };
  f.begin(id, 3, 20, &step);
  EXPECT_EQ(f.used(), 1 + 5u);
  ASSERT_TRUE(f.cache->abort(step).ok());
  emptied("abort");
  f.begin(id, 3, 20, &step);
  ASSERT_TRUE(f.commit(step, id, 0).ok());
  emptied("a row of which nothing was accepted");
  f.begin(id, 3, 7, &step);
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  EXPECT_EQ(f.encoder(id), 7u);
  ASSERT_TRUE(f.cache->sequence_truncate(id, 0).ok());
  emptied("truncate");
  f.begin(id, 3, 9, &step);
  ASSERT_TRUE(f.cache->sequence_preempt(id).ok());  // in flight
  EXPECT_EQ(f.ints(step, QUIRE_FILL_KV_LEN, kCross), (std::vector<int32_t>{9})) << "the step is as it was";
  EXPECT_EQ(f.ints(step, QUIRE_FILL_TABLE, kCross, 3), (std::vector<int32_t>{0, 0, 0})) << "and reads the null page";
  ASSERT_TRUE(f.commit(step, id, 3).ok());
  emptied("preempt");
  f.begin(id, 3, 9, &step);
  ASSERT_TRUE(f.commit(step, id, 3).ok());
  f.begin(id, 1, 0, &step);
  ASSERT_TRUE(f.cache->abort(step).ok());
  EXPECT_EQ(f.encoder(id), 9u) << "an abort of a later row takes nothing";
  ASSERT_TRUE(f.cache->sequence_truncate(id, 2).ok());
  EXPECT_EQ(f.used(), 1 + 3u) << "nor does a truncation to some tokens";
}

TEST(Cross, IsAdmittedWholeOrNotAtAll) {
  Decoder f(8);  // seven pages
  const SequenceId a = f.open(), b = f.open();
  StepId step;
  ASSERT_EQ(f.begin(a, 1, 16, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  const quire_reserve_result refused = f.begin(b, 1, 9, &step);
  EXPECT_EQ(refused.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.group, kCross);
  EXPECT_EQ(refused.missing_pages, 2u);
  EXPECT_EQ(step.value, 0u);
  EXPECT_EQ(f.used(), 5u);
  EXPECT_EQ(f.begin(b, 1, 4, &step).code, QUIRE_OK);
}

TEST(Cross, RefusesWhatMakesNoSense) {
  Decoder f;
  const SequenceId id = f.open();
  StepId step;
  const auto reserve = [&](Fixture& where, SequenceId sequence, uint64_t encoder, quire_reserve_result* r) {
    const quire_reserve_entry e = Decoder::entry_of(sequence, 1, encoder);
    return where.cache->reserve({&e, 1}, {}, {r, 1}, &step);
  };
  quire_reserve_result r{};
  Status status = reserve(f, id, 21, &r);
  EXPECT_EQ(status.code(), QUIRE_OUT_OF_RANGE);
  EXPECT_NE(status.message().find("encoder_tokens: 21, at most 20"), std::string::npos) << status.message();
  EXPECT_EQ(reserve(f, id, UINT64_MAX, &r).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(f.begin(id, 1, 20, &step).code, QUIRE_OK);
  EXPECT_EQ(f.begin(id, 1, 20, &step).code, QUIRE_INVALID_ARGUMENT) << "it has them already";
  Fixture plain({GroupSketch{LiveRange{}, 4, 1, 1}});
  status = reserve(plain, plain.open(), 1, &r);
  EXPECT_EQ(status.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("no cross attention"), std::string::npos) << status.message();
  // Of two encoders the one with fewer tokens is the limit.
  Decoder two(32, {GroupSketch{LiveRange{}, 4, 1, 1}, cross_of(20), cross_of(12, 2)});
  EXPECT_EQ(reserve(two, two.open(), 13, &r).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(two.begin(two.open(), 1, 12, &step).code, QUIRE_OK);
  EXPECT_EQ(two.used(), 1 + 3 + 6u);
}

// The same text is another one's behind another picture or sound: nothing is shared.
TEST(Cross, NoPrefixIsReused) {
  Decoder f;
  StepId step;
  for (int i = 0; i < 2; ++i) {
    const SequenceId id = f.open();
    const quire_reserve_result r = f.reserve(id, count_from(0, 9), 9, QUIRE_ENTRY_MATCH, &step);
    EXPECT_EQ(r.code, QUIRE_OK);
    EXPECT_EQ(r.hit_tokens, 0u);
    EXPECT_EQ(r.miss, QUIRE_MISS_DISABLED);
    ASSERT_TRUE(f.commit(step, id, 9).ok());
  }
}

TEST(Cross, ForksShareTheEncodersBlocks) {
  Decoder f;
  const SequenceId id = f.open();
  StepId step;
  f.begin(id, 4, 10, &step);
  auto early = f.cache->sequence_fork(id);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(f.encoder(*early), 0u) << "nothing is committed yet";
  const std::vector<int32_t> table = f.ints(step, QUIRE_FILL_TABLE, kCross, 3);
  ASSERT_TRUE(f.commit(step, id, 4).ok());
  auto child = f.cache->sequence_fork(id);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(f.encoder(*child), 10u);
  EXPECT_EQ(f.used(), 1 + 3u);
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  f.begin(*child, 1, 0, &step);
  EXPECT_EQ(f.ints(step, QUIRE_FILL_TABLE, kCross, 3), table);
  EXPECT_EQ(f.ints(step, QUIRE_FILL_SLOTS_INDPTR, kCross), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(f.ints(step, QUIRE_FILL_UPDATE_INDPTR, kCross), (std::vector<int32_t>{0, 3})) << "its first row shows all";
  ASSERT_TRUE(f.commit(step, *child, 1).ok());
  EXPECT_TRUE(f.cache->verify().ok());
}

TEST(Cross, LoadsBringTheEncodersTokensOrNothing) {
  Decoder f;
  for (const bool lost : {false, true}) {
    const SequenceId id = f.open();
    StepId step;
    quire_reserve_entry e = Decoder::entry_of(id, 8, 10);
    quire_reserve_result r{};
    ASSERT_TRUE(f.cache->load_begin(e, {}, &r, &step).ok());
    ASSERT_EQ(r.code, QUIRE_OK);
    EXPECT_EQ(f.ints(step, QUIRE_FILL_SLOTS_INDPTR, kCross), (std::vector<int32_t>{0, 10}));
    const quire_load_failure failure{kCross, 0, 9, 1};
    uint64_t committed = 99;
    ASSERT_TRUE(f.cache->load_end(step, {&failure, lost ? 1u : 0u}, &committed).ok());
    EXPECT_EQ(committed, lost ? 0u : 8u);
    EXPECT_EQ(f.encoder(id), lost ? 0u : 10u);
    EXPECT_EQ(f.used(), lost ? 0u : 2 + 3u);
    ASSERT_TRUE(f.cache->verify().ok());
    if (!lost) {
      f.begin(id, 1, 0, &step);
      EXPECT_TRUE(f.fill<int64_t>(step, QUIRE_FILL_SLOTS, kCross).empty()) << "they came with the load";
      ASSERT_TRUE(f.commit(step, id, 1).ok());
    }
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  }
}

// Encoders may be longer than any sequence: what of theirs did not come is told in their tokens.
TEST(Cross, ALostTokenFarInTheEncoderIsTold) {
  Decoder f(200, {GroupSketch{LiveRange{}, 4, 1, 1}, cross_of(600)});  // sequences of 128 tokens
  const SequenceId id = f.open();
  for (const quire_load_failure& failure : {quire_load_failure{kCross, 0, 0, 600}, quire_load_failure{kCross, 0, 599, 1}}) {
    StepId step;
    quire_reserve_result r{};
    ASSERT_TRUE(f.cache->load_begin(Decoder::entry_of(id, 8, 600), {}, &r, &step).ok());
    ASSERT_EQ(r.code, QUIRE_OK);
    uint64_t committed = 99;
    const quire_load_failure beyond{kCross, 0, 601, 1};
    EXPECT_EQ(f.cache->load_end(step, {&beyond, 1}, &committed).code(), QUIRE_OUT_OF_RANGE);
    const Status ended = f.cache->load_end(step, {&failure, 1}, &committed);
    ASSERT_TRUE(ended.ok()) << ended.message();
    EXPECT_EQ(committed, 0u);
    EXPECT_EQ(f.used(), 0u);
  }
}

// Of two encoders a leader takes what both can have; bytes that say more have no room.
TEST(Cross, FollowersTakeNoMoreThanALeaderWould) {
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 64;
  const auto plan = [](uint64_t first, uint64_t second) {
    auto config = std::make_shared<Config>(*make_config({GroupSketch{LiveRange{}, 4, 1, 1}, cross_of(20), cross_of(20, 2)}, 32, 128));
    config->groups[1].encoder_tokens = first;
    config->groups[2].encoder_tokens = second;
    return std::shared_ptr<const Config>(config);
  };
  auto leader = Cache::create(plan(20, 20), options);
  ASSERT_TRUE(leader.ok());
  Cache& cache = **leader;
  const SequenceId id = *cache.sequence_create(nullptr);
  const quire_reserve_entry e = Decoder::entry_of(id, 1, 20);
  quire_reserve_result r{};
  StepId step;
  ASSERT_TRUE(cache.reserve({&e, 1}, {}, {&r, 1}, &step).ok());
  ASSERT_EQ(r.code, QUIRE_OK);
  Follow same(plan(20, 20), options);
  EXPECT_EQ(same.take(cache, step), "");
  // The same bytes for a plan whose second encoder is shorter, sealed as that plan's.
  std::vector<uint8_t> bytes = same.bytes();
  const uint64_t digest = plan_digest(*plan(20, 12));
  for (size_t i = 0; i < 8; ++i) bytes[kStepHeaderBytes - 8 + i] = static_cast<uint8_t>(digest >> 8 * i);
  seal(bytes);
  Follow shorter(plan(20, 12), options);
  StepId taken;
  const Status refused = shorter.follower().step_import(bytes, &taken);
  EXPECT_EQ(refused.code(), QUIRE_DATA_LOSS) << refused.message();
}

TEST(Cross, FollowersAnswerAsTheLeader) {
  std::vector<GroupSketch> groups = {GroupSketch{LiveRange{}, 4, 1, 1}, cross_of(20)};
  Decoder f(32, groups);
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 64;
  Follow follow(make_config(groups, 32, 128), options);
  const SequenceId id = f.open();
  StepId step;
  for (int i = 0; i < 2; ++i) {
    f.begin(id, 5, i == 0 ? 18 : 0, &step);
    EXPECT_EQ(follow.take(*f.cache, step), "");
    EXPECT_EQ(follow.compare(*f.cache, step), "");
    ASSERT_TRUE(f.commit(step, id, 5).ok());
  }
}

}  // namespace
}  // namespace quire
