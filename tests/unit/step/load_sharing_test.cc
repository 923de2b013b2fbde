// Loads that share what is cached, and that leave a transfer behind.
#include "hold_queries.h"
#include "tests/model/follow.h"

namespace quire {
namespace {

// A load behind a joint hit, where one group has more.
struct Brought {
  StepId step;
  quire_reserve_result result{};
  std::vector<uint64_t> have;
};

Brought bring(Fixture& f, SequenceId id, const std::vector<quire_symbol>& symbols, uint32_t tokens) {
  Brought b;
  quire_reserve_entry e{};
  e.sequence = id.value;
  e.num_symbols = static_cast<uint32_t>(symbols.size());
  e.num_tokens = tokens;
  e.flags = QUIRE_ENTRY_MATCH;
  const Status ok = f.cache->load_begin(e, symbols, &b.result, &b.step);
  EXPECT_TRUE(ok.ok()) << ok.message();
  const Status sound = f.cache->verify();
  EXPECT_TRUE(sound.ok()) << sound.message();
  if (b.result.code != QUIRE_OK) return b;
  uint64_t n = 0;
  EXPECT_TRUE(f.cache->load_have(b.step, {}, &n).ok());
  b.have.resize(n);
  EXPECT_TRUE(f.cache->load_have(b.step, b.have, &n).ok());
  return b;
}

std::vector<int64_t> slots_of(Fixture& f, StepId step, uint32_t group, size_t n) {
  std::vector<int64_t> slots(n);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_SLOTS;
  fill.group = group;
  fill.destination = slots.data();
  fill.capacity = n;
  uint64_t written = 0;
  const Status ok = f.cache->step_fill(step, fill, &written);
  EXPECT_TRUE(ok.ok()) << ok.message();
  EXPECT_EQ(written, n);
  return slots;
}

TEST(Load, BringsOnlyTheStateWhereAttentionIsHere) {
  quire_cache_options options{};
  options.keep_states = QUIRE_KEEP_ASKED;
  Fixture f({kFull, kState}, 64, 2, options);
  f.prefill(f.open(), count_from(1, 30));
  const SequenceId b = f.open();
  const Brought load = bring(f, b, count_from(1, 30), 24);
  EXPECT_EQ(load.result.hit_tokens, 0U);
  EXPECT_EQ(load.have, (std::vector<uint64_t>{24, 0}));
  for (const int64_t slot : slots_of(f, load.step, 0, 24)) EXPECT_EQ(slot, -1);
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed).ok());
  EXPECT_EQ(committed, 24U);
  EXPECT_EQ(f.stats().parts_used, 8U + 1U + 1U);  // the blocks of the first, of which the second shares six, and a state each
}

TEST(Load, BringsOfAGroupWhatItLacks) {
  Fixture f({kFull, kWindow}, 64);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 17));
  const SequenceId b = f.open();
  const Brought load = bring(f, b, count_from(1, 41), 20);
  EXPECT_EQ(load.result.hit_tokens, 16U);
  EXPECT_EQ(load.have, (std::vector<uint64_t>{16, 16}));
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed).ok());
  EXPECT_EQ(committed, 36U);
}

// The window's blocks are gone, those of full attention are here.
TEST(Load, SharesFullAttentionWhereAWindowWasEvicted) {
  quire_cache_options options{};
  options.keep_states = QUIRE_KEEP_PROMPT_END;
  Fixture f({kFull, kWindow}, 64, 2, options);
  f.prefill(f.open(), count_from(1, 49));
  std::vector<quire_symbol> other = count_from(1, 33);
  for (const quire_symbol s : count_from(900, 12)) other.push_back(s);
  const SequenceId b = f.open();
  const Brought load = bring(f, b, other, 32);
  EXPECT_EQ(load.result.hit_tokens, 0U);
  EXPECT_EQ(load.have, (std::vector<uint64_t>{32, 0}));
  const std::vector<int64_t> slots = slots_of(f, load.step, 1, 32);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(slots[i] >= 0, i >= 24) << i;
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed).ok());
  EXPECT_EQ(committed, 32U);
}

// Cached blocks that lie scattered in pages count as pages: nothing is promised that is not there.
TEST(Load, CountsThePagesOfWhatItShares) {
  quire_cache_options options{};
  options.keep_states = QUIRE_KEEP_ASKED;
  const GroupSketch full{LiveRange{}, 4, 2, 1}, state{LiveRange{.state = true}, 4, 2, 1};
  Fixture f({full, state}, 13, 2, options);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 30));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  const SequenceId c = f.open();
  f.prefill(c, count_from(300, 20));
  const SequenceId b = f.open();
  const Brought load = bring(f, b, count_from(1, 30), 24);
  ASSERT_EQ(load.result.code, QUIRE_OK);
  EXPECT_EQ(load.have[0], 24U);
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed).ok());
}

TEST(Load, LeavesWhatMayStillBeWritten) {
  Fixture f({kFull}, 9);
  const SequenceId a = f.open();
  const Brought load = bring(f, a, count_from(1, 33), 30);
  const quire_load_failure late{0, 0, 10, 100};
  uint64_t committed = 0;
  quire_hold_id hold = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {&late, 1}, &committed, &hold).ok());
  EXPECT_EQ(committed, 10U);
  ASSERT_NE(hold, 0U);
  const std::vector<int32_t> ids = ids_of(f, hold, 0);
  ASSERT_EQ(ids.size(), 8U);
  for (size_t b = 0; b < 8; ++b) EXPECT_EQ(ids[b] != 0, b >= 2) << b;
  EXPECT_EQ(f.stats().pages_used, 8U);
  // Eight tokens are cached, two more stand in a block that is not the sequence's alone.
  StepId step;
  EXPECT_EQ(f.reserve(a, count_from(11, 2), 2, 0, &step).code, QUIRE_RESOURCE_EXHAUSTED);
  ASSERT_TRUE(f.cache->hold_end(hold).ok());
  ASSERT_EQ(f.reserve(a, count_from(11, 2), 2, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 2).ok());
  EXPECT_EQ(f.stats().pages_used, 3U);
}

TEST(Load, GoesOnInACopyWhileAnotherMayWrite) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open();
  const Brought load = bring(f, a, count_from(1, 17), 16);
  const quire_load_failure late{0, 0, 10, 2};
  uint64_t committed = 0;
  quire_hold_id hold = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {&late, 1}, &committed, &hold).ok());
  ASSERT_EQ(committed, 10U);
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(11, 4), 4, 0, &step).code, QUIRE_OK);
  ASSERT_EQ(f.cache->step_copies(step)->size(), 1U);
  EXPECT_EQ((*f.cache->step_copies(step))[0].source, ids_of(f, hold, 0)[2]);
  EXPECT_EQ((*f.cache->step_copies(step))[0].num_tokens, 2U);
  ASSERT_TRUE(f.commit(step, a, 4).ok());
  ASSERT_TRUE(f.cache->hold_end(hold).ok());
}

TEST(Load, AFailureOfNoTokensLeavesNothing) {
  Fixture f({kFull}, 32);
  const Brought load = bring(f, f.open(), count_from(1, 17), 16);
  const quire_load_failure none{0, 0, 6, 0};
  uint64_t committed = 0;
  quire_hold_id hold = 77;
  ASSERT_TRUE(f.cache->load_end(load.step, {&none, 1}, &committed, &hold).ok());
  EXPECT_EQ(committed, 16U);
  EXPECT_EQ(hold, 0U);
}

// Nothing failed, so nothing has to be held: that others took all holds is no reason to keep the load.
TEST(Load, EndsThoughAllHoldsAreTaken) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open(), b = f.open();
  f.prefill(a, count_from(1, 4));
  const Brought load = bring(f, b, count_from(100, 17), 16);
  std::vector<quire_hold_id> holds;
  for (auto hold = f.cache->hold_begin(a, 0, 4); hold.ok(); hold = f.cache->hold_begin(a, 0, 4)) holds.push_back(*hold);
  ASSERT_EQ(holds.size(), 65536U);
  uint64_t committed = 0;
  quire_hold_id hold = 77;
  const quire_load_failure late{0, 0, 10, 2};
  EXPECT_EQ(f.cache->load_end(load.step, {&late, 1}, &committed, &hold).code(), QUIRE_RESOURCE_EXHAUSTED);
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed, &hold).ok());
  EXPECT_EQ(committed, 16U);
  EXPECT_EQ(hold, 0U);
  for (const quire_hold_id each : holds) ASSERT_TRUE(f.cache->hold_end(each).ok());
}

TEST(Load, LeavesNothingWhereNothingIsLate) {
  Fixture f({kFull, kState}, 32);
  const SequenceId a = f.open();
  const Brought load = bring(f, a, count_from(1, 17), 16);
  uint64_t committed = 0;
  quire_hold_id hold = 77;
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed, &hold).ok());
  EXPECT_EQ(committed, 16U);
  EXPECT_EQ(hold, 0U);
  const SequenceId b = f.open();
  const Brought second = bring(f, b, count_from(100, 17), 16);
  const quire_load_failure state{1, 0, 0, 100};
  ASSERT_TRUE(f.cache->load_end(second.step, {&state, 1}, &committed, &hold).ok());
  EXPECT_EQ(committed, 0U);
  ASSERT_NE(hold, 0U);
  EXPECT_NE(ids_of(f, hold, 1)[0], 0);
  for (const int32_t id : ids_of(f, hold, 0)) EXPECT_EQ(id, 0);  // all of them came
  EXPECT_EQ(f.stats().loads, 0U);
  ASSERT_TRUE(f.cache->hold_end(hold).ok());
}

TEST(Load, MayBeLongerThanAStep) {
  quire_cache_options options{};
  options.max_load_tokens = 128;
  options.max_loads = 1;
  Fixture f({kFull}, 64, 2, options);
  const SequenceId a = f.open();
  const Brought load = bring(f, a, count_from(1, 110), 109);
  EXPECT_EQ(load.result.num_tokens, 109U);
  quire_reserve_entry e{};
  e.sequence = f.open().value;
  e.num_tokens = e.num_symbols = 4;
  quire_reserve_result r{};
  StepId second;
  EXPECT_EQ(f.cache->load_begin(e, count_from(1, 4), &r, &second).message(), "loads: all 1 are in progress");
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed).ok());
  EXPECT_EQ(committed, 109U);
}

// And a follower takes it, too.
TEST(Load, MayBeLongerThanAStepOfAFollower) {
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 64;
  options.step_depth = 2;
  options.max_load_tokens = 128;
  for (const uint32_t parts : {1U, 3U}) {
    const GroupSketch full{LiveRange{}, 4, parts, 1};
    Fixture f({full, kState}, 64, 2, options);
    model::Follow follow(make_config({full, kState}, 64, 128), options);
    f.prefill(f.open(), count_from(500, 30));
    const SequenceId a = f.open();
    const Brought load = bring(f, a, count_from(1, 110), 109);
    EXPECT_EQ(load.result.num_tokens, 109U);
    EXPECT_EQ(follow.take(*f.cache, load.step), "");
    EXPECT_EQ(follow.compare(*f.cache, load.step), "");
    uint64_t committed = 0;
    ASSERT_TRUE(f.cache->load_end(load.step, {}, &committed).ok());
    // A step of several rows is as long as a step may be.
    StepId step;
    ASSERT_EQ(f.reserve(a, count_from(110, 3), 3, 0, &step).code, QUIRE_OK);
    EXPECT_EQ(follow.take(*f.cache, step), "");
    ASSERT_TRUE(f.commit(step, a, 3).ok());
  }
}

// The window lacks a token that full attention has in a block of others.
TEST(Load, ThatIsCutInsideASharedBlockGoesOnInACopy) {
  quire_cache_options options{};
  options.keep_states = QUIRE_KEEP_PROMPT_END;
  const GroupSketch window{LiveRange{.window = 40}, 4, 1, 1};
  Fixture f({kFull, window}, 64, 2, options);
  f.prefill(f.open(), count_from(1, 101));
  std::vector<quire_symbol> other = count_from(1, 20);
  for (const quire_symbol s : count_from(900, 12)) other.push_back(s);
  const SequenceId b = f.open();
  const Brought load = bring(f, b, other, 20);
  ASSERT_EQ(load.have, (std::vector<uint64_t>{20, 0}));
  const quire_load_failure lost{1, 0, 10, 1};
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(load.step, {&lost, 1}, &committed).ok());
  ASSERT_EQ(committed, 10U);
  StepId step;
  ASSERT_EQ(f.reserve(b, count_from(11, 4), 4, 0, &step).code, QUIRE_OK);
  ASSERT_EQ(f.cache->step_copies(step)->size(), 1U);
  EXPECT_EQ((*f.cache->step_copies(step))[0].group, 0U);
  EXPECT_EQ((*f.cache->step_copies(step))[0].num_tokens, 2U);
  ASSERT_TRUE(f.commit(step, b, 4).ok());
}

// What never fits is what a load of the longest length would lack.
TEST(Load, SaysWhatNeverFits) {
  quire_cache_options options{};
  options.max_load_tokens = 120;
  Fixture f({kFull}, 25, 2, options);  // 96 tokens; a step has 64 at most
  EXPECT_EQ(bring(f, f.open(), count_from(1, 121), 120).result.flags, static_cast<uint32_t>(QUIRE_RESULT_NEVER_FITS));
  quire_cache_options brief{};
  brief.max_load_tokens = 16;
  Fixture g({kFull}, 9, 2, brief);  // 32 tokens
  g.prefill(g.open(), count_from(100, 25));
  const Brought refused = bring(g, g.open(), count_from(1, 61), 60);
  EXPECT_EQ(refused.result.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.result.flags, 0U);
}

}  // namespace
}  // namespace quire
