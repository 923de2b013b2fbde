// What goes first when room is needed: examples of a few conversations in a pool that is too small for all of them.
#include "fixture.h"

namespace quire {
namespace {

const GroupSketch kWindow{LiveRange{.window = 8}, 4, 1, 1};

// Prompts of 48 tokens by several users, then the first of them comes back with eight tokens more: how much of its prompt is left?
uint64_t hit_of_who_returns(uint32_t users, uint32_t flags, uint64_t pages) {
  quire_cache_options options{};
  options.flags = flags;
  Fixture f({kFull, kWindow}, pages, 2, options);
  for (uint32_t user = 0; user < users; ++user) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(1000 * user, 48));
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
    EXPECT_TRUE(f.cache->verify().ok());
  }
  const SequenceId again = f.open();
  return f.prefill(again, count_from(0, 56));
}

TEST(Eviction, BlocksThatNoBoundaryNeedsGoFirst) {
  // Of a prompt's 24 blocks 16 are worth keeping: all 12 of full attention and 4 of the window.
  EXPECT_EQ(hit_of_who_returns(3, 0, 60), 48u);
  EXPECT_EQ(hit_of_who_returns(3, QUIRE_CACHE_STRICT_LRU, 60), 0u);
}

TEST(Eviction, NothingIsGivenUpWhileThereIsRoom) {
  for (uint32_t flags : {0u, QUIRE_CACHE_STRICT_LRU}) EXPECT_EQ(hit_of_who_returns(3, flags, 120), 48u);
}

TEST(Eviction, WhoTurnsOffShortBeforeTheEndFindsItsWindow) {
  Fixture f({kFull, kWindow}, 60);
  for (uint32_t user = 0; user < 3; ++user) {
    const SequenceId id = f.open();
    f.prefill(id, count_from(1000 * user, 48));
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
  std::vector<quire_symbol> other = count_from(0, 44);
  for (quire_symbol s : count_from(5000, 12)) other.push_back(s);
  EXPECT_EQ(f.prefill(f.open(), other), 44u);
}

// Requests with the same 24 tokens first, then 24 of their own.
struct Sharers {
  Fixture f;
  explicit Sharers(uint64_t pages, uint32_t flags = 0) : f({kFull, kWindow}, pages, 2, options_of(flags)) {}

  static quire_cache_options options_of(uint32_t flags) {
    quire_cache_options options{};
    options.flags = flags;
    return options;
  }
  uint64_t start(quire_symbol user, SequenceId* id) {
    std::vector<quire_symbol> prompt = count_from(0, 24);
    for (quire_symbol s : count_from(1000 * user, 24)) prompt.push_back(s);
    *id = f.open();
    return f.prefill(*id, prompt);
  }
  uint64_t serve(quire_symbol user) {
    SequenceId id(0);
    const uint64_t hit = start(user, &id);
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
    return hit;
  }
  // Somebody else has so many pages and gives them back.
  void take_for_a_while(uint32_t pages) {
    const SequenceId id = f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
    f.prefill(id, count_from(50000, 2 * pages));
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
};

TEST(Eviction, APrefixSeenTwiceKeepsItsWindow) {
  Sharers of(45);
  of.serve(1);
  of.take_for_a_while(20 + 8);  // all that is free, and the first eight blocks of the window
  EXPECT_EQ(of.serve(2), 0u);   // attention would have hit 24 tokens: now their window is worth keeping
  of.take_for_a_while(10 + 4 + 2);
  EXPECT_EQ(of.serve(3), 24u);
}

// Prompts of others that nobody asks again, more than the pool holds.
void serve_others(Fixture* f) {
  for (quire_symbol user = 20; user < 30; ++user) {
    const SequenceId id = f->open();
    f->prefill(id, count_from(1000 * user, 48));
    EXPECT_TRUE(f->cache->sequence_finish(id).ok());
  }
}

void decode(Fixture* f, SequenceId id, quire_symbol symbol) {
  StepId step;
  EXPECT_EQ(f->reserve(id, {symbol}, 1, 0, &step).code, QUIRE_OK);
  EXPECT_TRUE(f->commit(step, id, 1).ok());
}

// A request that shares a prefix runs while many others come and go. What does the next one that
// shares it hit? `resumes`: the running one resumed there; else it was the first to diverge there.
uint64_t hit_after_a_running_one(bool resumes, uint32_t flags) {
  Sharers of(45, flags);
  of.serve(1);
  of.take_for_a_while(20 + 8);
  if (resumes) of.serve(2);
  SequenceId running(0);
  of.start(3, &running);
  serve_others(&of.f);
  EXPECT_TRUE(of.f.cache->sequence_finish(running).ok());
  return of.serve(4);
}

TEST(Eviction, WhereARunningRequestResumedIsEvictedLast) {
  EXPECT_EQ(hit_after_a_running_one(true, 0), 24u);
  EXPECT_EQ(hit_after_a_running_one(true, QUIRE_CACHE_STRICT_LRU), 0u);
}

TEST(Eviction, WhereARunningRequestDivergedIsEvictedLast) {
  EXPECT_EQ(hit_after_a_running_one(false, 0), 24u);
  EXPECT_EQ(hit_after_a_running_one(false, QUIRE_CACHE_STRICT_LRU), 0u);
}

TEST(Eviction, TheWindowThatALoadBroughtIsEvictedLast) {
  Fixture f({kFull, kWindow}, 60);
  const SequenceId id = f.open();
  const std::vector<quire_symbol> prompt = count_from(1, 64);
  quire_reserve_entry e{};
  e.sequence = id.value;
  e.num_symbols = 64;
  e.num_tokens = 32;
  e.flags = QUIRE_ENTRY_MATCH;
  quire_reserve_result result{};
  StepId step;
  ASSERT_TRUE(f.cache->load_begin(e, prompt, &result, &step).ok());
  uint64_t committed = 0;
  ASSERT_TRUE(f.cache->load_end(step, {}, &committed).ok());
  ASSERT_EQ(committed, 32u);
  ASSERT_EQ(f.reserve(id, count_from(33, 32), 32, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, id, 32).ok());
  serve_others(&f);
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  std::vector<quire_symbol> next = count_from(1, 32);
  next.resize(48, 99);
  EXPECT_EQ(f.prefill(f.open(), next), 32u);
}

// Second turns of eight conversations run while others come and go; then third turns come. `shared`:
// the first turns are one document with eight questions.
uint64_t hits_of_third_turns(uint64_t pages, bool shared) {
  quire_cache_options options{};
  options.max_sequences = 16;
  Fixture f({kFull, kWindow}, pages, 2, options);
  constexpr uint32_t kUsers = 8;
  std::vector<std::vector<quire_symbol>> prompts(kUsers);
  std::vector<SequenceId> ids(kUsers);
  const auto add = [&](uint32_t user, quire_symbol first, size_t n) {
    for (const quire_symbol s : count_from(first, n)) prompts[user].push_back(s);
  };
  for (uint32_t user = 0; user < kUsers; ++user) {
    add(user, shared ? 1 : 100000 + 1000 * user, 24);
    const SequenceId id = f.open();
    f.prefill(id, prompts[user]);
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
  for (uint32_t user = 0; user < kUsers; ++user) {
    add(user, 100500 + 1000 * user, 16);
    f.prefill(ids[user] = f.open(), prompts[user]);
  }
  for (uint32_t t = 0; t < 24; ++t) {
    for (uint32_t user = 0; user < kUsers; ++user) decode(&f, ids[user], 100900 + 1000 * user + t);
  }
  serve_others(&f);
  serve_others(&f);
  for (const SequenceId id : ids) EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  uint64_t hits = 0;
  for (uint32_t user = 0; user < kUsers; ++user) {
    add(user, 200000 + 1000 * user, 8);
    quire_probe_result result{};
    result.struct_size = sizeof result;
    EXPECT_TRUE(f.cache->probe(nullptr, prompts[user], &result).ok());
    hits += result.hit_tokens;
  }
  return hits;
}

TEST(Eviction, EndsOfPromptsFindRoomWhereOtherPointsHaveTheirShare) {
  for (const uint64_t pages : {240, 300, 400}) EXPECT_EQ(hits_of_third_turns(pages, false), 8u * 40) << pages << " pages";
}

TEST(Eviction, APageThatManySpareCountsOnce) { EXPECT_EQ(hits_of_third_turns(240, true), 8u * 40); }

TEST(Eviction, APromptEndIsTheLastBoundaryOfAllGroups) {
  Fixture f({kFull, kWindow, {LiveRange{.window = 8}, 16, 1, 1}}, 90);
  const SequenceId id = f.open();
  f.prefill(id, count_from(0, 60));  // hits end at multiples of 16
  for (quire_symbol t = 0; t < 24; ++t) decode(&f, id, 900 + t);
  serve_others(&f);
  ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  std::vector<quire_symbol> next = count_from(0, 60);
  next.resize(70, 99);
  EXPECT_EQ(f.prefill(f.open(), next), 48u);
}

// A whole request hits the window that is spared for a running one. Its pages are not for others any
// more, so they are not subtracted once more from what is left: the longest request that fits.
TEST(Eviction, ASparedWindowThatIsHitIsSubtractedOnce) {
  Sharers of(70);
  of.serve(1);
  of.serve(2);
  SequenceId running(0), big = of.f.open({}, QUIRE_SEQUENCE_NO_PUBLISH);
  of.start(3, &running);
  of.f.prefill(big, count_from(70000, 96));
  const quire_cache_stats s = of.f.stats();
  EXPECT_EQ(s.pages_free + s.pages_evictable, 29u);
  std::vector<quire_symbol> prompt = count_from(0, 24);
  for (const quire_symbol symbol : count_from(4000, 24)) prompt.push_back(symbol);
  uint64_t longest = 0;
  for (uint64_t tokens = 48; tokens <= 128; tokens += 4) {
    const SequenceId id = of.f.open();
    StepId step;
    const bool fits = of.f.reserve(id, prompt, 24, QUIRE_ENTRY_MATCH, &step, tokens).code == QUIRE_OK;
    if (fits) {
      EXPECT_TRUE(of.f.cache->abort(step, true).ok());
      longest = tokens;
    }
    EXPECT_TRUE(of.f.cache->sequence_finish(id).ok());
  }
  EXPECT_EQ(longest, 76u);
}

// What is asked again and again is computed again from its last block on: no copies pile up, nothing
// was evicted, and who follows events hears nothing.
TEST(Eviction, ANewerCopyIsNoNews) {
  Fixture f({kFull, kWindow}, 60);
  quire_event_options events{};
  events.struct_size = sizeof events;
  events.algorithm = QUIRE_HASH_SHA256_CBOR;
  events.seed = {"0", 1};
  ASSERT_TRUE(f.cache->enable_events(events).ok());
  const auto ask = [&](uint32_t flags) {
    const SequenceId id = f.open();
    StepId step;
    const quire_reserve_result r = f.reserve(id, count_from(0, 48), 48, flags, &step);
    ASSERT_TRUE(f.commit(step, id, r.num_tokens).ok());
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
  };
  const auto last = [&] {
    quire_event_batch batch{};
    batch.struct_size = sizeof batch;
    std::vector<quire_event> all(64);
    std::vector<uint8_t> data(1 << 16);
    EXPECT_TRUE(f.cache->read_events(0, all, data, &batch).ok());
    return batch.next;
  };
  ask(QUIRE_ENTRY_MATCH);
  const uint64_t first = last();
  const uint64_t cached = f.stats().pages_evictable;
  for (const uint32_t flags : {QUIRE_ENTRY_MATCH, 0u}) ask(flags);
  EXPECT_EQ(last(), first);
  const quire_cache_stats s = f.stats();
  EXPECT_EQ(s.pages_evictable, cached);
  EXPECT_EQ(s.page_lifetime_ns, 0u);
  for (const uint64_t pages : s.page_lifetime) EXPECT_EQ(pages, 0u);
}

}  // namespace
}  // namespace quire
