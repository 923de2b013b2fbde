// Claims: where the state of a prompt is gone, its cached keys and values are shared while it is computed again: they are in the table,
// have no slots, and take no page; who goes on inside of one copies it. Method: examples; the states are forgotten by their ids.
#include "tests/unit/step/fixture.h"

namespace quire {
namespace {

std::vector<int64_t> array_of(const Fixture& f, StepId step, quire_fill_kind kind, uint32_t group) {
  std::vector<int64_t> all(128);
  std::vector<int32_t> narrow(128);
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = kind;
  fill.group = group;
  fill.destination = kind == QUIRE_FILL_SLOTS ? static_cast<void*>(all.data()) : narrow.data();
  fill.capacity = all.size();
  fill.pitch = kind == QUIRE_FILL_RAW_TABLE ? 32 : 0;
  uint64_t written = 0;
  const Status ok = f.cache->step_fill(step, fill, &written);
  EXPECT_TRUE(ok.ok()) << ok.message();
  if (kind != QUIRE_FILL_SLOTS) all.assign(narrow.begin(), narrow.end());
  all.resize(written);
  return all;
}

std::vector<quire_symbol> behind(const std::vector<quire_symbol>& prompt, uint64_t first) {
  return {prompt.begin() + static_cast<std::ptrdiff_t>(first), prompt.end()};
}

quire_cache_options kept_at(uint32_t boundaries, uint32_t flags = 0) {
  quire_cache_options options{};
  options.keep_states = boundaries;
  options.flags = flags;
  return options;
}

// A prompt of 41 tokens was computed, by who runs or is gone, and its states are gone.
struct Stateless : Fixture {
  const std::vector<quire_symbol> prompt = count_from(1, 41);
  SequenceId first;
  std::vector<int64_t> table;  // of the prompt's blocks

  explicit Stateless(const quire_cache_options& options = kept_at(QUIRE_KEEP_PROMPT_END), uint64_t pages = 64, bool runs = false,
                     const std::vector<GroupSketch>& groups = {kFull, kState})
      : Fixture(groups, pages, 2, options), first(open()) {
    const auto states = static_cast<uint32_t>(groups.size()) - 1;
    StepId step;
    const quire_reserve_result r = reserve(first, prompt, 41, QUIRE_ENTRY_MATCH, &step);
    EXPECT_TRUE(commit(step, first, r.num_tokens).ok());
    EXPECT_EQ(r.num_tokens, 40u);
    reserve(first, behind(prompt, 40), 1, 0, &step);
    table = array_of(*this, step, QUIRE_FILL_RAW_TABLE, 0);
    const auto state = static_cast<int32_t>(array_of(*this, step, QUIRE_FILL_STATE_READ, states)[0]);
    EXPECT_TRUE(commit(step, first, 1).ok());
    uint64_t forgotten = 0;
    EXPECT_TRUE(cache->forget_blocks(states, std::span(&state, 1), &forgotten).ok());
    EXPECT_EQ(forgotten, 1u);
    if (!runs) {
      EXPECT_TRUE(cache->sequence_finish(first).ok());
    }
  }
  std::vector<int64_t> slots(StepId step) const { return array_of(*this, step, QUIRE_FILL_SLOTS, 0); }
  // How many of the first tokens have no slot; those behind have one each.
  uint64_t shared(StepId step) const {
    const std::vector<int64_t> all = slots(step);
    const auto has_slot = std::find_if(all.begin(), all.end(), [](int64_t slot) { return slot >= 0; });
    EXPECT_TRUE(std::all_of(has_slot, all.end(), [](int64_t slot) { return slot >= 0; }));
    return static_cast<uint64_t>(has_slot - all.begin());
  }
};

// The same with a window instead of states, all of which is gone.
struct Windowless : Fixture {
  const std::vector<quire_symbol> prompt = count_from(1, 41);
  std::vector<int64_t> table;

  Windowless() : Fixture({kFull, GroupSketch{LiveRange{.window = 8}, 4, 1, 1}}, 64) {
    const SequenceId first = open();
    StepId step;
    reserve(first, prompt, 41, QUIRE_ENTRY_MATCH, &step);
    table = array_of(*this, step, QUIRE_FILL_RAW_TABLE, 0);
    EXPECT_TRUE(commit(step, first, 41).ok());
    EXPECT_TRUE(cache->sequence_finish(first).ok());
    uint64_t forgotten = 0;
    for (int32_t id = 1; id < 64; ++id) EXPECT_TRUE(cache->forget_blocks(1, std::span(&id, 1), &forgotten).ok());
  }
};

TEST(CachedAhead, TakesNoPagesAndHasNoSlots) {
  for (const bool runs : {false, true}) {
    Stateless f(kept_at(QUIRE_KEEP_PROMPT_END), 64, runs);
    const uint64_t used = f.stats().pages_used;
    const SequenceId id = f.open();
    StepId step;
    const quire_reserve_result r = f.reserve(id, f.prompt, 41, QUIRE_ENTRY_MATCH, &step);
    EXPECT_EQ(r.hit_tokens, 0u);
    EXPECT_EQ(r.full_hit_tokens, 40u);
    ASSERT_EQ(r.num_tokens, 40u) << "the state is kept there again";
    EXPECT_EQ(f.shared(step), 40u);
    const std::vector<int64_t> table = array_of(f, step, QUIRE_FILL_RAW_TABLE, 0);
    EXPECT_TRUE(std::equal(table.begin(), table.begin() + 10, f.table.begin())) << "ten blocks of somebody else";
    EXPECT_EQ(f.stats().pages_used - used, runs ? 1u : 11u) << "its own is the state";
    ASSERT_TRUE(f.commit(step, id, 40).ok());
    EXPECT_EQ(f.reserve(id, behind(f.prompt, 40), 1, 0, &step).num_tokens, 1u);
    EXPECT_GE(f.slots(step)[0], 0);
    ASSERT_TRUE(f.commit(step, id, 1).ok());
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    EXPECT_EQ(f.prefill(f.open(), f.prompt), 40u);
  }
}

TEST(CachedAhead, ALongerPromptWritesWhatIsNotThere) {
  Stateless f;
  std::vector<quire_symbol> longer = f.prompt;
  for (const quire_symbol more : count_from(500, 10)) longer.push_back(more);
  longer.insert(longer.begin() + 41, 7);
  const SequenceId id = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(id, longer, 52, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step);
  ASSERT_EQ(r.num_tokens, 52u);
  EXPECT_EQ(f.shared(step), 40u);
  ASSERT_TRUE(f.commit(step, id, 52).ok());
}

// Chunks end anywhere: the block in which the next one begins is the sequence's own, and those behind it are shared again. Two steps are
// in flight, so the second one begins before the first one's symbols are in the index.
TEST(CachedAhead, GoesOnBehindABlockThatAChunkCut) {
  for (const bool in_flight : {false, true}) {
    Stateless f;
    const SequenceId id = f.open();
    StepId one, two;
    ASSERT_EQ(f.reserve(id, f.prompt, 14, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &one).num_tokens, 14u);
    EXPECT_EQ(f.shared(one), 12u);
    if (!in_flight) {
      ASSERT_TRUE(f.commit(one, id, 14).ok());
    }
    ASSERT_EQ(f.reserve(id, behind(f.prompt, 14), 23, QUIRE_ENTRY_NO_STOP, &two).num_tokens, 23u);
    const std::vector<int64_t> slots = f.slots(two);  // of tokens 14 to 36
    for (size_t i = 0; i < slots.size(); ++i) EXPECT_EQ(slots[i] >= 0, i < 2 || i >= 22) << i;
    if (in_flight) {
      ASSERT_TRUE(f.commit(one, id, 14).ok());
    }
    ASSERT_TRUE(f.commit(two, id, 23).ok());
    EXPECT_EQ(f.info(id).committed, 37u);
    const Status ok = f.cache->verify();
    EXPECT_TRUE(ok.ok()) << ok.message();
  }
}

// Without states part of a row can be accepted.
TEST(CachedAhead, WhoGoesOnInsideASharedBlockCopiesIt) {
  Windowless f;
  const SequenceId id = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(id, f.prompt, 12, QUIRE_ENTRY_MATCH, &step).hit_tokens, 0u);
  EXPECT_EQ(array_of(f, step, QUIRE_FILL_SLOTS, 0), std::vector<int64_t>(12, -1));
  ASSERT_TRUE(f.commit(step, id, 6).ok());
  ASSERT_EQ(f.reserve(id, {1000, 1001}, 2, 0, &step).num_tokens, 2u);
  auto copies = f.cache->step_copies(step);
  ASSERT_TRUE(copies.ok());
  ASSERT_EQ(copies->size(), 1u);
  EXPECT_EQ((*copies)[0].source, f.table[1]);
  EXPECT_EQ((*copies)[0].num_tokens, 2u);
  ASSERT_TRUE(f.commit(step, id, 2).ok());
}

// Symbols may be known a unit ahead. A row takes no block that ends behind it: the next one would write into that.
TEST(CachedAhead, TakesNothingBehindTheRow) {
  Windowless f;
  const SequenceId id = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(id, f.prompt, 4, QUIRE_ENTRY_MATCH, &step).num_tokens, 4u);
  ASSERT_TRUE(f.commit(step, id, 4, {f.prompt.begin() + 4, f.prompt.begin() + 8}).ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(f.reserve(id, {}, 1, 0, &step, 41).num_tokens, 1u);
    EXPECT_NE(array_of(f, step, QUIRE_FILL_RAW_TABLE, 0)[1], f.table[1]) << "a block of its own";
    EXPECT_GE(array_of(f, step, QUIRE_FILL_SLOTS, 0)[0], 0);
    ASSERT_TRUE(f.commit(step, id, 1).ok());
  }
}

// Rows that stay in their blocks write no record of their groups; the one of an earlier step says nothing about them.
TEST(CachedAhead, WhoDecodesAfterItHasSlots) {
  Windowless f;
  const SequenceId other = f.open(), id = f.open();
  f.prefill(other, count_from(900, 5));
  StepId step;
  ASSERT_EQ(f.reserve(id, f.prompt, 40, QUIRE_ENTRY_MATCH, &step).num_tokens, 40u);
  EXPECT_EQ(array_of(f, step, QUIRE_FILL_SLOTS, 0), std::vector<int64_t>(40, -1));
  ASSERT_TRUE(f.commit(step, id, 40).ok());
  for (quire_symbol i = 0; i < 3; ++i) {
    ASSERT_EQ(f.reserve(other, {}, 1, 0, &step).num_tokens, 1u);
    const std::vector<int64_t> table = array_of(f, step, QUIRE_FILL_RAW_TABLE, 0);
    EXPECT_EQ(array_of(f, step, QUIRE_FILL_SLOTS, 0), std::vector<int64_t>(1, table[1] * 4 + 1 + i));
    ASSERT_TRUE(f.commit(step, other, 1, {i}).ok());
  }
}

TEST(CachedAhead, AnAbortGivesTheBlocksBack) {
  Stateless f;
  const uint64_t free = f.stats().pages_free, used = f.stats().pages_used;
  const SequenceId id = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(id, f.prompt, 41, QUIRE_ENTRY_MATCH, &step).num_tokens, 40u);
  ASSERT_TRUE(f.cache->abort(step, true).ok());
  EXPECT_EQ(f.stats().pages_free, free);
  EXPECT_EQ(f.stats().pages_used, used);
}

TEST(CachedAhead, WhatIsMissingIsWritten) {
  Stateless f;
  const auto gone = static_cast<int32_t>(f.table[5]);
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(0, std::span(&gone, 1), &forgotten).ok());
  EXPECT_EQ(forgotten, 5u) << "and what hangs below it";
  const SequenceId id = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(id, f.prompt, 41, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step);
  EXPECT_EQ(r.full_hit_tokens, 20u);
  EXPECT_EQ(f.shared(step), 20u);
}

// What drafts wrote depends on the tokens that follow; windows are short.
TEST(CachedAhead, GroupsOfDraftsAndWindowsAreWritten) {
  GroupSketch drafts = kFull;
  drafts.look_ahead = 1;
  const GroupSketch window{LiveRange{.window = 64}, 4, 1, 1};
  for (const GroupSketch& second : {drafts, window}) {
    Stateless f(kept_at(QUIRE_KEEP_PROMPT_END), 64, true, {kFull, second, kState});
    const SequenceId id = f.open();
    StepId step;
    const quire_reserve_result r = f.reserve(id, f.prompt, 36, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step);
    EXPECT_EQ(r.hit_tokens, 0u);
    EXPECT_EQ(f.shared(step), 36u);
    for (const int64_t slot : array_of(f, step, QUIRE_FILL_SLOTS, 1)) EXPECT_GE(slot, 0);
  }
}

// Seven blocks of a later chunk are shared and others do not fit: not even if the sequence starts anew.
TEST(CachedAhead, WhatNeverFitsIsToldThoughSomeOfItIsShared) {
  Stateless f(kept_at(QUIRE_KEEP_PROMPT_END), 17);
  std::vector<quire_symbol> longer = f.prompt;
  for (const quire_symbol more : count_from(500, 19)) longer.push_back(more);
  const SequenceId id = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(id, longer, 12, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step).num_tokens, 12u);
  ASSERT_TRUE(f.commit(step, id, 12).ok());
  const quire_reserve_result r = f.reserve(id, behind(longer, 12), 48, QUIRE_ENTRY_NO_STOP, &step);
  EXPECT_EQ(r.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(r.flags, QUIRE_RESULT_NEVER_FITS);
}

// Cached blocks lie in holes that others left, two or fewer in a page of three: new ones may fit where these do not.
TEST(CachedAhead, ScatteredBlocksAreComputedAgainWhereOnlyNewOnesFit) {
  uint32_t shares = 0, gives_up = 0;
  for (uint32_t others = 0; others < 12; ++others) {
    quire_cache_options options = kept_at(QUIRE_KEEP_PROMPT_END);
    options.max_sequences = 64;
    Fixture f({GroupSketch{LiveRange{}, 4, 3, 1}, kState}, 28, 2, options);
    const std::vector<quire_symbol> prompt = count_from(1, 49);
    StepId step;
    std::vector<SequenceId> gone;
    for (quire_symbol i = 0; i < 12; ++i) {
      gone.push_back(f.open({}, QUIRE_SEQUENCE_NO_PUBLISH));
      f.reserve(gone.back(), count_from(1000 * (i + 1), 4), 4, QUIRE_ENTRY_MATCH, &step);
      ASSERT_TRUE(f.commit(step, gone.back(), 4).ok());
    }
    gone.push_back(f.open());
    ASSERT_EQ(f.reserve(gone.back(), prompt, 48, QUIRE_ENTRY_MATCH, &step).num_tokens, 48u);
    ASSERT_TRUE(f.commit(step, gone.back(), 48).ok());
    for (const SequenceId id : gone) ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    uint64_t forgotten = 0;
    for (int32_t id = 1; id < 28; ++id) ASSERT_TRUE(f.cache->forget_blocks(1, std::span(&id, 1), &forgotten).ok());
    for (quire_symbol i = 0; i < others; ++i) {
      const SequenceId id = f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
      ASSERT_EQ(f.reserve(id, count_from(90000 + 1000 * i, 4), 1, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
      ASSERT_TRUE(f.commit(step, id, 1).ok());
    }
    const quire_reserve_result r = f.reserve(f.open(), prompt, 48, QUIRE_ENTRY_MATCH, &step);
    ASSERT_EQ(r.code, QUIRE_OK) << others;
    (array_of(f, step, QUIRE_FILL_SLOTS, 0)[0] < 0 ? shares : gives_up) += 1;
  }
  EXPECT_GT(shares, 0u);
  EXPECT_GT(gives_up, 0u);
}

// What a later chunk shares was evictable: it is not there for what the chunk needs besides.
TEST(CachedAhead, LaterChunksCountWhatTheyShare) {
  uint32_t admitted = 0, refused = 0;
  for (uint64_t pages = 14; pages < 32; ++pages) {
    Stateless f(kept_at(QUIRE_KEEP_PROMPT_END), pages);
    std::vector<quire_symbol> longer = f.prompt;
    for (const quire_symbol more : count_from(500, 20)) longer.push_back(more);
    const SequenceId id = f.open(), other = f.open();
    StepId step;
    f.prefill(other, count_from(900, 4));  // so that nobody is alone
    if (f.reserve(id, longer, 12, QUIRE_ENTRY_MATCH | QUIRE_ENTRY_NO_STOP, &step).code != QUIRE_OK) continue;
    ASSERT_TRUE(f.commit(step, id, 12).ok());
    const quire_reserve_result r = f.reserve(id, behind(longer, 12), 48, QUIRE_ENTRY_NO_STOP, &step);
    (r.code == QUIRE_OK ? admitted : refused) += 1;
    if (r.code != QUIRE_OK) continue;
    const std::vector<int64_t> table = array_of(f, step, QUIRE_FILL_RAW_TABLE, 0);
    EXPECT_EQ(std::count(table.begin(), table.begin() + 15, 0), 0) << pages << " pages";
    ASSERT_TRUE(f.commit(step, id, 48).ok());
  }
  EXPECT_GT(admitted, 0u);
  EXPECT_GT(refused, 0u);
}

TEST(CachedAhead, StrictLruSharesNothing) {
  Stateless f(kept_at(QUIRE_KEEP_PROMPT_END, QUIRE_CACHE_STRICT_LRU));
  const SequenceId id = f.open();
  StepId step;
  f.reserve(id, f.prompt, 40, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(f.shared(step), 0u);
}

// Of 16 pages who runs has eleven blocks and a state or two: there is no room for ten more.
TEST(CachedAhead, FitsWhereACopyWouldNot) {
  for (const uint32_t flags : {0u, uint32_t{QUIRE_CACHE_STRICT_LRU}}) {
    Stateless f(kept_at(QUIRE_KEEP_PROMPT_END, flags), 17, true);
    const SequenceId id = f.open();
    StepId step;
    const quire_reserve_result r = f.reserve(id, f.prompt, 40, QUIRE_ENTRY_MATCH, &step);
    EXPECT_EQ(r.code, flags == 0 ? QUIRE_OK : QUIRE_RESOURCE_EXHAUSTED);
  }
}

}  // namespace
}  // namespace quire
