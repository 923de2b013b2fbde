// Loads: tokens that a connector brings are admitted at once and found by others only when they have arrived.
#include <gtest/gtest.h>
#include <quire/load.h>

#include <algorithm>
#include <map>
#include <random>

#include "fixture.h"

namespace quire {
namespace {

const GroupSketch kWindow{LiveRange{.window = 8}, 4, 1, 1};

quire_reserve_result begin(Fixture& f, SequenceId id, const std::vector<quire_symbol>& symbols, uint32_t tokens, uint32_t flags,
                           StepId* load) {
  quire_reserve_entry e{};
  e.sequence = id.value;
  e.symbols_position = f.known(id);
  e.num_symbols = static_cast<uint32_t>(symbols.size());
  e.num_tokens = tokens;
  e.flags = flags;
  quire_reserve_result r{};
  const Status ok = f.cache->load_begin(e, symbols, &r, load);
  EXPECT_TRUE(ok.ok()) << ok.message();
  const Status sound = f.cache->verify();
  EXPECT_TRUE(sound.ok()) << sound.message();
  return r;
}

uint64_t end(Fixture& f, StepId load, const std::vector<quire_load_failure>& failures = {}) {
  uint64_t committed = 0;
  const Status ok = f.cache->load_end(load, failures, &committed);
  EXPECT_TRUE(ok.ok()) << ok.message();
  const Status sound = f.cache->verify();
  EXPECT_TRUE(sound.ok()) << sound.message();
  return committed;
}

uint64_t hit(Fixture& f, const std::vector<quire_symbol>& symbols) {
  quire_probe_result result{};
  result.struct_size = sizeof result;
  EXPECT_TRUE(f.cache->probe(nullptr, symbols, &result).ok());
  return result.hit_tokens;
}

std::vector<int32_t> table_of(Fixture& f, StepId step, uint32_t group, size_t blocks) {
  std::vector<int32_t> out(blocks, -1);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_RAW_TABLE;
  fill.group = group;
  fill.destination = out.data();
  fill.capacity = fill.pitch = out.size();
  fill.fill_value = -1;
  uint64_t written = 0;
  EXPECT_TRUE(f.cache->step_fill(step, fill, &written).ok());
  return out;
}

TEST(Load, IsFoundByOthersWhenItHasArrived) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open();
  StepId load, step;
  const quire_reserve_result r = begin(f, a, count_from(1, 21), 16, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(r.num_tokens, 16U);
  EXPECT_EQ(hit(f, count_from(1, 21)), 0U);
  EXPECT_EQ(f.info(a).committed, 0U);
  // Others run beside it.
  const SequenceId b = f.open();
  ASSERT_EQ(f.reserve(b, count_from(1, 9), 9, QUIRE_ENTRY_MATCH, &step).hit_tokens, 0U);
  EXPECT_EQ(end(f, load), 16U);
  EXPECT_EQ(hit(f, count_from(1, 21)), 16U);
  EXPECT_EQ(f.info(a).committed, 16U);
  ASSERT_TRUE(f.commit(step, b, 9).ok());
  ASSERT_EQ(f.reserve(a, count_from(17, 5), 5, 0, &step).position, 16U);
  ASSERT_TRUE(f.commit(step, a, 5).ok());
  EXPECT_EQ(hit(f, count_from(1, 22)), 20U);
}

TEST(Load, ContinuesAHitAndCopiesTheUnfinishedBlockOfAFork) {
  Fixture f({kFull}, 32);
  f.prefill(f.open(), count_from(1, 9));
  const SequenceId a = f.open();
  StepId load;
  const quire_reserve_result r = begin(f, a, count_from(1, 21), 8, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(r.hit_tokens, 8U);
  EXPECT_EQ(r.position, 8U);
  EXPECT_EQ(end(f, load), 16U);
  EXPECT_EQ(hit(f, count_from(1, 21)), 16U);
  const SequenceId parent = f.open();
  f.prefill(parent, count_from(100, 6));
  const SequenceId child = *f.cache->sequence_fork(parent);
  begin(f, child, count_from(106, 4), 4, 0, &load);
  auto copies = f.cache->step_copies(load);
  ASSERT_TRUE(copies.ok());
  EXPECT_EQ(copies->size(), 1U);
  EXPECT_EQ(end(f, load), 10U);
}

// Of a window what the end needs is brought, and nothing else has a block or can be found.
TEST(Load, BringsOfAWindowWhatItsEndNeeds) {
  Fixture f({kFull, kWindow}, 32);
  const SequenceId a = f.open();
  StepId load;
  ASSERT_EQ(begin(f, a, count_from(1, 33), 32, QUIRE_ENTRY_MATCH, &load).code, QUIRE_OK);
  const std::vector<int32_t> table = table_of(f, load, 1, 8);
  for (size_t b = 0; b < 8; ++b) EXPECT_EQ(table[b] != 0, b >= 6) << b;  // tokens 25 to 31
  EXPECT_EQ(f.stats().pages_used, 10U);
  EXPECT_EQ(end(f, load), 32U);
  EXPECT_EQ(hit(f, count_from(1, 40)), 32U);
  EXPECT_EQ(hit(f, count_from(1, 29)), 0U);
}

TEST(Load, WhatIsMissingBehindItsEndIsNotMissing) {
  Fixture f({kFull, {LiveRange{.chunk = 8}, 4, 1, 1}}, 32);
  const SequenceId a = f.open();
  StepId load;
  ASSERT_EQ(begin(f, a, count_from(1, 33), 16, QUIRE_ENTRY_MATCH, &load).code, QUIRE_OK);
  EXPECT_EQ(end(f, load, {{0, 0, 16, 100}, {1, 0, 4, 100}}), 16U) << "nothing of the chunks before 16 is kept";
}

// Draft modules want 12 tokens more than the window needs: from 12 on, where who resumes at 32 needs 25 to 31.
TEST(Load, WhatStaysForDraftsNeedNotCome) {
  for (const uint32_t lost : {12U, 14U, 20U}) {  // the last block of 4 tokens that does not come whole begins at 12 or 20
    Fixture f({kFull, {LiveRange{.window = 8, .retained = 12}, 4, 1, 1}}, 64);
    const SequenceId a = f.open();
    StepId load, step;
    ASSERT_EQ(begin(f, a, count_from(1, 33), 32, QUIRE_ENTRY_MATCH, &load).code, QUIRE_OK);
    EXPECT_EQ(end(f, load, {{1, 0, lost, 2}, {1, 0, 0, 12}}), 32U);
    EXPECT_EQ(hit(f, count_from(1, 40)), 32U);
    EXPECT_EQ(hit(f, count_from(1, 25)), lost < 16 ? 24U : 0U) << "blocks from 16 on";
    ASSERT_EQ(f.reserve(a, count_from(33, 1), 1, 0, &step).code, QUIRE_OK);
    const std::vector<int32_t> table = table_of(f, step, 1, 9);
    for (size_t b = 0; b < 9; ++b) EXPECT_EQ(table[b] != 0, b > lost / 4) << b;
    ASSERT_TRUE(f.commit(step, a, 1).ok());
  }
}

TEST(Load, WhatStaysForDraftsHasToComeWhereAnEarlierEndNeedsIt) {
  const GroupSketch drafted{LiveRange{.window = 8, .retained = 20}, 4, 1, 1};
  Fixture f({kFull, drafted}, 64);
  const SequenceId a = f.open();
  StepId load;
  begin(f, a, count_from(1, 29), 28, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(end(f, load, {{1, 0, 6, 1}}), 28U);
  const SequenceId b = f.open();
  begin(f, b, count_from(101, 29), 28, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(end(f, load, {{1, 0, 6, 1}, {0, 0, 19, 1}}), 19U) << "needs the window's tokens from 12 on";
  const SequenceId c = f.open();
  begin(f, c, count_from(201, 29), 28, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(end(f, load, {{1, 0, 6, 1}, {0, 0, 10, 1}}), 6U) << "needs the window's tokens from 3 on";
}

// Chunks of 8 tokens: who resumes at 8 needs nothing before it, though all of it stays for drafts.
TEST(Load, EndsWhereAChunkBeginsBehindWhatDidNotArrive) {
  Fixture f({kFull, {LiveRange{.chunk = 8, .retained = 20}, 4, 1, 1}}, 64);
  const auto ends = [&](quire_symbol first, const quire_load_failure& failure) {
    const SequenceId a = f.open();
    StepId load;
    begin(f, a, count_from(first, 13), 12, QUIRE_ENTRY_MATCH, &load);
    return end(f, load, {failure});
  };
  EXPECT_EQ(ends(1, {1, 0, 2, 4}), 12U);
  EXPECT_EQ(ends(101, {1, 0, 6, 6}), 8U);
  EXPECT_EQ(ends(201, {1, 0, 9, 1}), 9U);
  EXPECT_EQ(ends(301, {0, 0, 6, 6}), 6U);
}

TEST(Load, SinksThatDidNotArriveAreMissedWhereverItEnds) {
  Fixture f({kFull, {LiveRange{.sink = 6, .window = 1, .retained = 20}, 4, 1, 1}}, 64);
  for (const auto& [lost, wanted] : {std::pair{2U, 2U}, std::pair{8U, 12U}}) {
    const SequenceId a = f.open();
    StepId load;
    begin(f, a, count_from(1 + 100 * lost, 13), 12, QUIRE_ENTRY_MATCH, &load);
    EXPECT_EQ(end(f, load, {{1, 0, lost, 4}}), wanted);
  }
}

TEST(Load, GivesBackSlotsThatAnEarlierStepTookAhead) {
  Fixture f({kWindow}, 32);
  const SequenceId a = f.open();
  const auto symbols = count_from(1, 5);
  quire_reserve_entry e{};
  e.sequence = a.value;
  e.num_symbols = e.num_tokens = 5;
  e.num_look_ahead = 9;
  quire_reserve_result r{};
  StepId step, load;
  ASSERT_TRUE(f.cache->reserve({&e, 1}, symbols, {&r, 1}, &step).ok());
  ASSERT_TRUE(f.commit(step, a, 5).ok());
  EXPECT_EQ(f.stats().pages_used, 4U);
  begin(f, a, count_from(6, 31), 31, 0, &load);
  const std::vector<int32_t> table = table_of(f, load, 0, 9);
  for (size_t b = 0; b < 9; ++b) EXPECT_EQ(table[b] != 0, b < 2 || b >= 7) << b;
  EXPECT_EQ(end(f, load), 36U);
  EXPECT_EQ(hit(f, count_from(1, 13)), 4U);  // of the second block one token was computed and the others did not have to come
  EXPECT_EQ(hit(f, count_from(1, 40)), 36U);
}

TEST(Load, EndsInFrontOfWhatDidNotArrive) {
  Fixture f({kFull, kFull}, 64);
  const SequenceId a = f.open();
  StepId load;
  begin(f, a, count_from(1, 33), 24, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(end(f, load, {{1, 0, 13, 4}, {0, 0, 20, 4}, {0, 0, 40, 9}}), 13U);
  EXPECT_EQ(hit(f, count_from(1, 33)), 12U);
  EXPECT_EQ(f.info(a).committed, 13U);
  EXPECT_EQ(f.info(a).num_parts, 8U);  // four blocks of each group
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(14, 20), 20, 0, &step).position, 13U);
  ASSERT_TRUE(f.commit(step, a, 20).ok());
  EXPECT_EQ(hit(f, count_from(1, 34)), 32U);
}

// A window that was brought without what lies before it has nothing between the hit and the end; nor has a state.
TEST(Load, FallsBackToTheHitWhereAGroupHasNothingBetween) {
  for (const GroupSketch& other : {kWindow, kState}) {
    Fixture f({kFull, other}, 64);
    f.prefill(f.open(), count_from(1, 9));
    const SequenceId a = f.open();
    StepId load;
    EXPECT_EQ(begin(f, a, count_from(1, 41), 32, QUIRE_ENTRY_MATCH, &load).position, 8U);
    EXPECT_EQ(end(f, load, {{0, 0, 30, 1}}), 8U);
    EXPECT_EQ(hit(f, count_from(1, 41)), 8U);
    StepId step;
    ASSERT_EQ(f.reserve(a, count_from(9, 8), 8, 0, &step).position, 8U);
    ASSERT_TRUE(f.commit(step, a, 8).ok());
    // What a window does not keep at the end does not have to come.
    const SequenceId b = f.open();
    EXPECT_EQ(begin(f, b, count_from(200, 41), 40, QUIRE_ENTRY_MATCH, &load).position, 0U);
    const bool state = other.live.state;
    EXPECT_EQ(end(f, load, {{1, 0, 0, 20}}), state ? 0U : 40U);
  }
}

TEST(Load, KeepsTheStateThatItFallsBackTo) {
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_STATES_IN_PLACE;
  Fixture f({kFull, kState}, 64, 2, options);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 6));
  StepId load;
  begin(f, a, count_from(7, 8), 8, 0, &load);
  EXPECT_EQ(end(f, load, {{0, 0, 9, 1}}), 6U);
  EXPECT_EQ(f.info(a).committed, 6U);
}

TEST(Load, AStateIsTheOneBehindTheLastToken) {
  for (const uint32_t flags : {0U, QUIRE_CACHE_STATES_IN_PLACE, QUIRE_CACHE_STATES_AT_BLOCKS}) {
    quire_cache_options options{};
    options.flags = flags;
    options.num_state_branches = 2;
    Fixture f({kFull, kState}, 64, 2, options);
    const SequenceId a = f.open();
    StepId load;
    begin(f, a, count_from(1, 20), 16, QUIRE_ENTRY_MATCH, &load);
    EXPECT_EQ(end(f, load), 16U);
    EXPECT_EQ(f.stats().checkpoints, 1U);
    EXPECT_EQ(hit(f, count_from(1, 20)), 16U);
    EXPECT_EQ(hit(f, count_from(1, 13)), 0U);  // no state came for the boundaries between
    StepId step;
    f.reserve(a, count_from(17, 1), 1, 0, &step);
    ASSERT_TRUE(f.commit(step, a, 1).ok());
  }
}

TEST(Load, KeepsItsSequenceUntilItEnds) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open();
  StepId load, step;
  begin(f, a, count_from(1, 9), 8, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(f.cache->sequence_finish(a).code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(f.cache->sequence_preempt(a).code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(f.cache->sequence_truncate(a, 0).code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(f.cache->sequence_fork(a).status().code(), QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(f.reserve(a, count_from(1, 1), 1, 0, &step).code, QUIRE_FAILED_PRECONDITION);
  EXPECT_EQ(f.cache->commit(load, {}, {}).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.cache->abort(load).code(), QUIRE_NOT_FOUND);
  uint64_t committed = 0;
  const quire_load_failure nowhere{1, 0, 0, 1};
  EXPECT_EQ(f.cache->load_end(load, {&nowhere, 1}, &committed).code(), QUIRE_OUT_OF_RANGE);
  const quire_load_failure far{0, 0, 1000, 1};
  EXPECT_EQ(f.cache->load_end(load, {&far, 1}, &committed).code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(end(f, load, {{0, 0, 0, 8}}), 0U);
  EXPECT_EQ(f.stats().pages_used, 0U);
  EXPECT_EQ(f.cache->load_end(load, {}, &committed).code(), QUIRE_NOT_FOUND);  // it has ended
  EXPECT_EQ(f.prefill(a, count_from(1, 9)), 0U);                               // empty again: it may match
}

// Symbols of loads are kept until the loads end: as many of the longest as may be in progress, and a step meanwhile.
TEST(Load, TheLongestMayAllBeInProgress) {
  quire_cache_options options{};
  options.max_sequences = 16 + 1;
  Fixture f({kFull}, 600, 1, options);  // steps of 64 tokens, blocks of 4
  std::vector<SequenceId> ids;
  std::vector<StepId> loads(16);
  for (uint32_t i = 0; i < 16; ++i) {
    ids.push_back(f.open());
    ASSERT_EQ(begin(f, ids[i], count_from(1000 * i, 65), 64, QUIRE_ENTRY_MATCH, &loads[i]).num_tokens, 64u) << i;
    EXPECT_EQ(f.known(ids[i]), 64u) << i;
  }
  const SequenceId other = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(other, count_from(50000, 64), 64, QUIRE_ENTRY_MATCH, &step).num_tokens, 64u);
  EXPECT_EQ(f.known(other), 64u);
  for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(end(f, loads[i]), 64u);
  ASSERT_TRUE(f.commit(step, other, 64).ok());
  for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(hit(f, count_from(1000 * i, 65)), 64u) << i;
}

TEST(Load, IsRefusedWhereThereIsNoRoomAndChangesNothing) {
  Fixture f({kFull}, 6);
  const SequenceId a = f.open();
  StepId load(7);
  const quire_reserve_result r = begin(f, a, count_from(1, 30), 24, QUIRE_ENTRY_MATCH, &load);
  EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.missing_pages, 1U);
  EXPECT_EQ(load.value, 0U);
  EXPECT_EQ(f.info(a).reserved, 0U);
  EXPECT_EQ(f.stats().pages_used, 0U);
  quire_reserve_entry e{};
  e.sequence = a.value;
  e.num_tokens = 4;
  e.num_look_ahead = 1;
  quire_reserve_result result{};
  EXPECT_EQ(f.cache->load_begin(e, {}, &result, &load).code(), QUIRE_INVALID_ARGUMENT);
  e.num_look_ahead = 0;
  e.flags = QUIRE_ENTRY_NO_STOP;
  EXPECT_EQ(f.cache->load_begin(e, {}, &result, &load).code(), QUIRE_INVALID_ARGUMENT);
  e.flags = 0;
  const Status missing = f.cache->load_begin(e, {}, &result, &load);
  EXPECT_EQ(missing.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(missing.message().find("the load has 4 tokens whose symbols are not known"), std::string::npos) << missing.message();
  e.sequence += 1;
  EXPECT_EQ(f.cache->load_begin(e, {}, &result, &load).code(), QUIRE_NOT_FOUND);
}

// Loads beside steps, in any order, with failures. What is found was computed or has arrived: by prompt, how far.
class LoadTraffic {
 public:
  LoadTraffic(uint32_t seed, std::vector<GroupSketch> groups, quire_cache_options options)
      : random_(seed), f_(std::move(groups), 40 + pick(40), 2, options) {}

  void run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      if (live_.size() < 6) live_.emplace_back(Live{f_.open(), pick(3), 24 + pick(60), {}, 0, false});
      act(&live_[pick(static_cast<uint32_t>(live_.size()))]);
      if (testing::Test::HasFatalFailure()) return;
      std::erase_if(live_, [](const Live& l) { return l.gone; });
      const Status sound = f_.cache->verify();
      ASSERT_TRUE(sound.ok()) << sound.message();
      for (uint32_t p = 0; p < 3; ++p) ASSERT_LE(hit(f_, prompt(p, 100)), there_[p]) << "prompt " << p;
    }
    for (Live& l : live_) {
      if (l.load.value != 0) finish_load(&l, false);
      ASSERT_TRUE(f_.cache->sequence_finish(l.id).ok());
    }
    ASSERT_EQ(f_.stats().pages_used, 0U);
  }
  std::map<std::string, int> counts;

 private:
  struct Live {
    SequenceId id;
    uint32_t prompt = 0, length = 0;
    StepId load;
    uint32_t loading = 0;
    bool gone = false;
  };
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  static std::vector<quire_symbol> prompt(uint32_t number, size_t n) { return count_from(number * 1000 + 1, n); }
  std::vector<quire_symbol> rest(const Live& l, uint64_t from, uint64_t n) {
    auto all = prompt(l.prompt, from + n);
    return {all.begin() + static_cast<long>(from), all.end()};
  }

  void finish_load(Live* l, bool fails) {
    const uint64_t from = f_.info(l->id).committed;
    std::vector<quire_load_failure> failures;
    if (fails) failures.push_back({pick(2), 0, from + pick(l->loading), 1 + pick(8)});
    const uint64_t now = end(f_, l->load, failures);
    ++counts[now == from ? "lost" : now == from + l->loading ? "whole" : "part"];
    there_[l->prompt] = std::max(there_[l->prompt], now);
    l->load = StepId(0);
  }

  void act(Live* l) {
    if (l->load.value != 0) {
      if (pick(3) == 0) finish_load(l, pick(2) == 0);
      return;
    }
    const uint64_t done = f_.info(l->id).committed;
    if (done >= l->length || pick(12) == 0) {
      ASSERT_TRUE(f_.cache->sequence_finish(l->id).ok());
      l->gone = true;
      return;
    }
    const auto symbols = done == 0 ? prompt(l->prompt, l->length) : rest(*l, done, l->length - done);
    const uint32_t tokens = static_cast<uint32_t>(std::min<uint64_t>(1 + pick(30), l->length - done)),
                   flags = done == 0 ? QUIRE_ENTRY_MATCH : 0U;
    if (pick(2) == 0) {
      const quire_reserve_result r = begin(f_, l->id, symbols, tokens, flags, &l->load);
      l->loading = r.num_tokens;
      ++counts[r.code == QUIRE_OK ? "loads" : "refused"];
      return;
    }
    StepId step;
    const quire_reserve_result r = f_.reserve(l->id, symbols, tokens, flags, &step);
    if (r.code != QUIRE_OK) return;
    if (pick(4) == 0) {
      ASSERT_TRUE(f_.cache->abort(step).ok());
      return;
    }
    const Status ok = f_.commit(step, l->id, r.num_tokens);
    ASSERT_TRUE(ok.ok()) << ok.message();
    there_[l->prompt] = std::max(there_[l->prompt], r.position + r.num_tokens);
    ++counts["steps"];
  }

  std::mt19937 random_;
  Fixture f_;
  std::vector<Live> live_;
  uint64_t there_[3] = {};
};

TEST(Load, BesideStepsWithFailures) {
  std::map<std::string, int> counts;
  const std::vector<std::vector<GroupSketch>> mixes{{kFull, kFull}, {kFull, kWindow}, {kFull, kState}, {kWindow, kState}};
  for (uint32_t seed = 0; seed < 20; ++seed) {
    quire_cache_options options{};
    options.flags = seed % 2 == 0 ? QUIRE_CACHE_STATES_IN_PLACE : 0U;
    SCOPED_TRACE("seed " + std::to_string(seed));
    LoadTraffic traffic(seed, mixes[seed % mixes.size()], options);
    traffic.run(150);
    if (HasFatalFailure()) return;
    for (const auto& [name, n] : traffic.counts) counts[name] += n;
  }
  for (const char* name : {"steps", "loads", "refused", "whole", "part", "lost"}) EXPECT_GT(counts[name], 20) << name;
}

// Who has the same prompt waits for nobody and gets nothing that may not arrive: it computes blocks of its own, and so does the loser.
TEST(Load, NobodySharesWhatHasNotArrived) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open(), b = f.open();
  StepId load, step;
  ASSERT_EQ(begin(f, a, count_from(1, 21), 16, QUIRE_ENTRY_MATCH, &load).code, QUIRE_OK);
  const std::vector<int32_t> loading = table_of(f, load, 0, 4);
  EXPECT_EQ(f.cache->sequence_fork(a).status().code(), QUIRE_FAILED_PRECONDITION);
  const quire_reserve_result r = f.reserve(b, count_from(1, 21), 21, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.hit_tokens, 0U);
  for (const int32_t id : table_of(f, step, 0, 6)) EXPECT_EQ(std::count(loading.begin(), loading.end(), id), 0) << id;
  EXPECT_EQ(end(f, load, {{0, 0, 4, 4}}), 4U);
  EXPECT_EQ(hit(f, count_from(1, 21)), 4U) << "in front of the first that did not arrive";
  ASSERT_TRUE(f.commit(step, b, 21).ok());
  EXPECT_EQ(hit(f, count_from(1, 21)), 20U);
  ASSERT_EQ(f.reserve(a, count_from(5, 17), 17, 0, &step).position, 4U) << "the rest is computed";
  ASSERT_TRUE(f.commit(step, a, 17).ok());
}

// Bad bytes that show after the load has ended, when others have hit them: by id. Nobody finds them any more, nor what is computed by those
// who still have them; each of these starts again in front of them and shares what one of them has computed anew.
TEST(Load, BadBytesFoundLaterAreNobodysPrefix) {
  Fixture f({kFull}, 64);
  const SequenceId a = f.open(), b = f.open();
  StepId load, step;
  ASSERT_EQ(begin(f, a, count_from(1, 21), 16, QUIRE_ENTRY_MATCH, &load).code, QUIRE_OK);
  const std::vector<int32_t> ids = table_of(f, load, 0, 4);
  EXPECT_EQ(end(f, load), 16U);
  ASSERT_EQ(f.reserve(b, count_from(1, 20), 4, QUIRE_ENTRY_MATCH, &step).hit_tokens, 16U);
  std::vector<int32_t> of_b = table_of(f, step, 0, 5);
  of_b.pop_back();
  EXPECT_EQ(of_b, ids) << "shared";
  ASSERT_TRUE(f.commit(step, b, 4).ok());
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(0, std::span(ids).subspan(1, 1), &forgotten).ok());
  EXPECT_EQ(forgotten, 4U) << "and all that hangs below: of b, too";
  ASSERT_EQ(f.reserve(a, count_from(17, 5), 5, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 5).ok());
  EXPECT_EQ(hit(f, count_from(1, 21)), 4U);
  for (const SequenceId sharer : {a, b}) {
    ASSERT_TRUE(f.cache->sequence_preempt(sharer).ok());
    const uint32_t had = sharer == a ? 4 : 20;
    ASSERT_EQ(f.reserve(sharer, count_from(1, 21), 21, QUIRE_ENTRY_MATCH, &step).hit_tokens, had);
    ASSERT_TRUE(f.commit(step, sharer, 21 - had).ok());
    EXPECT_EQ(hit(f, count_from(1, 22)), 20U);
  }
}

}  // namespace
}  // namespace quire
