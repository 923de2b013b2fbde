// What of a prompt can be reused, and by whom: branch points in later chunks, the end of a running prompt under pressure, ends that other
// requests come by.
#include "states_fixture.h"

namespace quire {
namespace {

quire_cache_options keeping(uint32_t keep) {
  quire_cache_options options{};
  options.keep_states = keep;
  return options;
}

// The whole prompt, at most `most` tokens a step, PROMPT_END with its last chunk; returns the hit.
uint64_t compute(Fixture* f, SequenceId id, const std::vector<quire_symbol>& prompt, uint32_t most) {
  uint64_t at = 0, hit = 0;
  for (bool first = true; at < prompt.size(); first = false) {
    const std::vector<quire_symbol> rest(prompt.begin() + static_cast<std::ptrdiff_t>(at), prompt.end());
    const uint32_t flags = (first ? QUIRE_ENTRY_MATCH : 0u) | (rest.size() <= most ? QUIRE_ENTRY_PROMPT_END : 0u);
    StepId step;
    const quire_reserve_result r = f->reserve(id, rest, std::min<uint32_t>(most, static_cast<uint32_t>(rest.size())), flags, &step);
    EXPECT_EQ(r.code, QUIRE_OK);
    EXPECT_GT(r.num_tokens, 0u);
    if (r.code != QUIRE_OK || r.num_tokens == 0) return hit;
    if (first) hit = r.hit_tokens;
    at = r.position + r.num_tokens;
    EXPECT_TRUE(f->commit(step, id, r.num_tokens).ok());
  }
  return hit;
}

uint64_t request(Fixture* f, const std::vector<quire_symbol>& prompt, uint32_t most) {
  const SequenceId id = f->open();
  const uint64_t hit = compute(f, id, prompt, most);
  EXPECT_TRUE(f->cache->sequence_finish(id).ok());
  return hit;
}

std::vector<quire_symbol> shared_by(uint32_t tokens, quire_symbol own, uint32_t length) {
  std::vector<quire_symbol> prompt = count_from(1, tokens);
  const auto rest = count_from(own, length - tokens);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  return prompt;
}

TEST(Reuse, ABranchPointBeyondTheFirstChunkKeepsItsState) {
  Fixture f({kFull, kState}, 200, 2, keeping(QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION));
  // 40 tokens are common; chunks have 16, so the second request comes to where it leaves the first one's way in its third chunk.
  EXPECT_EQ(request(&f, shared_by(40, 1000, 55), 16), 0u);
  EXPECT_EQ(request(&f, shared_by(40, 2000, 55), 16), 0u) << "no state was kept there";
  EXPECT_EQ(request(&f, shared_by(40, 3000, 55), 16), 40u);
}

TEST(Reuse, AnEmptiedSequenceForgetsItsBranchPoint) {
  Fixture f({kFull, kState}, 200, 2, keeping(QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION));
  request(&f, shared_by(40, 1000, 55), 16);
  const SequenceId id = f.open();
  StepId step;
  EXPECT_EQ(f.reserve(id, shared_by(40, 2000, 55), 16, QUIRE_ENTRY_MATCH, &step).hit_tokens, 0u);
  EXPECT_TRUE(f.commit(step, id, 16).ok());
  EXPECT_TRUE(f.cache->sequence_preempt(id).ok());
  EXPECT_EQ(f.reserve(id, count_from(7000, 60), 60, 0, &step).num_tokens, 60u) << "other symbols, so nothing to stop for";
  EXPECT_TRUE(f.commit(step, id, 60).ok());
}

// A window of 8: its blocks before the prompt's end leave the sequence as it decodes. Others then want more room than there is.
uint64_t hit_after_pressure(uint32_t flags) {
  quire_cache_options options{};
  options.flags = flags;
  Fixture f({kFull, GroupSketch{LiveRange{.window = 8}, 4, 1, 1}}, 40, 2, options);
  const auto prompt = count_from(1, 32);
  const SequenceId id = f.open();
  compute(&f, id, prompt, 64);
  StepId step;
  for (quire_symbol i = 0; i < 16; ++i) {
    EXPECT_EQ(f.reserve(id, {i == 0 ? 500u : 500u + i}, 1, 0, &step).code, QUIRE_OK);
    EXPECT_TRUE(f.commit(step, id, 1).ok());
  }
  for (quire_symbol other = 1; other <= 6; ++other) request(&f, count_from(10000 * other, 40), 64);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  auto next = prompt;  // the next turn does not repeat what was generated
  for (quire_symbol i = 0; i < 8; ++i) next.push_back(9000 + i);
  return request(&f, next, 64);
}

TEST(Reuse, WhatResumingAtTheEndOfARunningPromptTakesOutlivesOthers) {
  EXPECT_EQ(hit_after_pressure(0), 32u);
  EXPECT_EQ(hit_after_pressure(QUIRE_CACHE_STRICT_LRU), 0u) << "by age alone it goes";
}

quire_cache_options ends_and_junctions(uint32_t flags) {
  quire_cache_options options{};
  options.flags = flags;
  options.keep_states = QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION;  // others are never used, and go first
  return options;
}

// A question about a document is answered while others want more room than there is: the tokens that the next question hits.
uint64_t hit_of_next_question(uint32_t pages, uint32_t flags, bool runs) {
  Fixture f({kFull, kState}, pages, 2, ends_and_junctions(flags));
  const auto ask = [](quire_symbol question) { return shared_by(32, question, 40); };
  request(&f, ask(500), 64);
  request(&f, ask(600), 64);  // the two show where the document ends
  const SequenceId id = f.open();
  StepId step;
  EXPECT_EQ(f.reserve(id, ask(700), 8, QUIRE_ENTRY_MATCH, &step).hit_tokens, 32u);
  EXPECT_TRUE(f.commit(step, id, 8).ok());
  if (!runs) {
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  }
  for (quire_symbol other = 1; other <= 20; ++other) {
    for (const uint32_t tokens : {100u, 110u}) request(&f, count_from(10000 * other, tokens), 64);  // they are hit, too
  }
  const Status ok = f.cache->verify();
  EXPECT_TRUE(ok.ok()) << ok.message();
  return request(&f, ask(800), 64);
}

TEST(Reuse, TheStateWhereARunningSequenceResumedOutlivesOthers) {
  EXPECT_EQ(hit_of_next_question(192, 0, true), 32u);
  EXPECT_EQ(hit_of_next_question(192, 0, false), 0u) << "nobody runs";
  EXPECT_EQ(hit_of_next_question(192, QUIRE_CACHE_STRICT_LRU, true), 0u);
}

TEST(Reuse, TheStateWhereARunningPromptDivergedAgesLikeOthers) {
  for (const quire_symbol others : {0u, 20u}) {
    Fixture f({kFull, kState}, 192, 2, ends_and_junctions(0));
    request(&f, shared_by(32, 500, 40), 64);
    const SequenceId id = f.open();
    compute(&f, id, shared_by(32, 700, 40), 64);  // no state is there at 32: this one leaves it
    for (quire_symbol other = 1; other <= others; ++other) request(&f, count_from(10000 * other, 100), 64);
    EXPECT_EQ(request(&f, shared_by(32, 800, 40), 64), others == 0 ? 32u : 0u);
  }
}

// Who asks for room for a whole prompt does not get what running conversations resume from; who asks for its first chunk does.
TEST(Reuse, AWholePromptLeavesWhatOthersResumeFrom) {
  for (const bool strict : {false, true}) {
    quire_cache_options options{};
    options.flags = strict ? QUIRE_CACHE_STRICT_LRU : 0;
    Fixture f({kFull, kState}, 41, 2, options);
    const SequenceId id = f.open();
    compute(&f, id, count_from(1, 33), 64);  // 9 pages of attention; the state at 32 is kept, another one is written
    StepId step;
    const auto other = count_from(1000, 64);
    const uint64_t free = f.stats().pages_free;
    ASSERT_EQ(f.stats().pages_evictable, 1u) << "the state at 32";
    // A prompt of so many tokens takes all free pages but three, which its states take, and one more.
    const uint64_t fits = (free - 3) * 4;
    const SequenceId next = f.open();
    EXPECT_EQ(f.reserve(next, other, 4, QUIRE_ENTRY_MATCH, &step, fits + 4).code, strict ? QUIRE_OK : QUIRE_RESOURCE_EXHAUSTED);
    if (strict) continue;
    EXPECT_EQ(f.reserve(next, other, 4, QUIRE_ENTRY_MATCH, &step, fits).code, QUIRE_OK);
    EXPECT_TRUE(f.commit(step, next, 4).ok());
    EXPECT_TRUE(f.cache->sequence_preempt(next).ok());
    EXPECT_TRUE(f.cache->sequence_finish(id).ok());
    EXPECT_EQ(f.reserve(next, other, 4, QUIRE_ENTRY_MATCH, &step, fits + 4).code, QUIRE_OK) << "nobody runs any more";
  }
}

// What left a window within its row is evicted first, so that the second request does not hit where it leaves the first one's way. The
// third one does, in whichever chunk that is.
TEST(Reuse, TheWindowWhereOthersLeftTheWayIsNotEvictedFirst) {
  Fixture f({kFull, GroupSketch{LiveRange{.window = 8}, 4, 1, 1}}, 78, 2);
  constexpr uint32_t kOthers = 10;
  const auto ask_beside_another = [&](quire_symbol own, uint32_t chunk) {
    const uint64_t hit = request(&f, shared_by(100, 100000 * own, 120), chunk);
    for (quire_symbol n = 0; n < kOthers; ++n) request(&f, count_from(5000000 * own + 1000 * n, 8), 64);
    return hit;
  };
  EXPECT_EQ(ask_beside_another(1, 64), 0u);
  EXPECT_EQ(ask_beside_another(2, 24), 64u) << "and computes [64, 88), [88, 112), [112, 120)";
  EXPECT_EQ(ask_beside_another(3, 64), 100u);
}

// Blocks before multiples of the interval are kept because somebody asked for it: they age like the others. The oldest request goes first.
TEST(Reuse, WindowsAtMultiplesOfTheIntervalAgeLikeOthers) {
  quire_cache_options options{};
  options.checkpoint_interval = 16;
  Fixture f({kFull, GroupSketch{LiveRange{.window = 8}, 4, 1, 1}}, 44, 2, options);
  request(&f, count_from(100000, 40), 64);
  request(&f, shared_by(56, 1000, 64), 64);
  request(&f, count_from(200000, 32), 64);
  EXPECT_GT(f.stats().evicted_blocks, 0u);
  EXPECT_EQ(request(&f, shared_by(40, 2000, 50), 64), 32u);
}

// The engine says nothing of where a prompt ends: the match does.
uint64_t ask(Fixture* f, const std::vector<quire_symbol>& prompt, uint32_t* rows) {
  const SequenceId id = f->open();
  uint64_t at = 0, hit = 0;
  for (*rows = 0; at < prompt.size(); ++*rows) {
    const std::vector<quire_symbol> rest(prompt.begin() + static_cast<std::ptrdiff_t>(at), prompt.end());
    StepId step;
    const uint32_t flags = *rows == 0 ? QUIRE_ENTRY_MATCH : 0;
    const quire_reserve_result r = f->reserve(id, rest, static_cast<uint32_t>(rest.size()), flags, &step);
    EXPECT_EQ(r.code, QUIRE_OK);
    EXPECT_GT(r.num_tokens, 0u);
    if (r.code != QUIRE_OK || r.num_tokens == 0) break;
    if (*rows == 0) hit = r.hit_tokens;
    at = r.position + r.num_tokens;
    EXPECT_TRUE(f->commit(step, id, r.num_tokens).ok());
  }
  EXPECT_TRUE(f->cache->sequence_finish(id).ok());
  return hit;
}

TEST(Reuse, KernelsThatWriteOnTheWayKeepEndsOfPromptsAndBranchPoints) {
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_STATES_AT_BLOCKS;
  options.checkpoint_interval = 64;
  Fixture f({kFull, kState}, 400, 2, options);
  uint32_t rows = 0;
  uint64_t last = 0;
  for (uint32_t turn = 1; turn <= 6; ++turn) {  // a conversation whose turns are shorter than the interval
    EXPECT_EQ(ask(&f, count_from(1, 10 * turn), &rows), last) << turn;
    EXPECT_EQ(rows, 1u) << "no chunk is stopped for it";
    last = 10 * turn / 4 * 4;
  }
  EXPECT_EQ(ask(&f, shared_by(33, 7000, 58), &rows), 28u) << "of the third turn";
  EXPECT_EQ(ask(&f, shared_by(33, 8000, 58), &rows), 32u) << "where the one before turned off";
  EXPECT_EQ(rows, 1u);
}

TEST(Reuse, KernelsThatWriteOnTheWayKeepEndsOfPromptsWithinTheBudget) {
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_STATES_AT_BLOCKS;
  options.checkpoint_interval = 8;
  options.checkpoint_bytes = 1;  // a plan made by hand has no bytes: states are counted
  Fixture f({kFull, kState}, 400, 2, options);
  uint32_t rows = 0;
  EXPECT_EQ(ask(&f, count_from(1, 30), &rows), 0u);
  EXPECT_EQ(ask(&f, count_from(1, 60), &rows), 28u) << "the longest prefix, not the shortest";
  EXPECT_EQ(ask(&f, count_from(1, 62), &rows), 60u);
}

TEST(Reuse, AnIntervalThatIsAskedForIsKeptWithinAChunk) {
  quire_cache_options options = keeping(QUIRE_KEEP_EVERY);
  options.checkpoint_interval = 16;
  Fixture f({kFull, kState}, 400, 2, options);
  uint32_t rows = 0;
  EXPECT_EQ(ask(&f, shared_by(40, 1000, 60), &rows), 0u);
  EXPECT_EQ(rows, 4u) << "16, 32, 48, 60";
  EXPECT_EQ(ask(&f, shared_by(40, 2000, 60), &rows), 32u) << "the first who shares it";
}

TEST(Reuse, TheEndOfAMatchedPromptIsKeptUnasked) {
  quire_cache_options options = keeping(QUIRE_KEEP_PROMPT_END);
  options.checkpoint_interval = 32768;
  Fixture f({kFull, kState}, 400, 2, options);
  uint32_t rows = 0;
  EXPECT_EQ(ask(&f, count_from(1, 50), &rows), 0u);
  EXPECT_EQ(ask(&f, count_from(1, 50), &rows), 48u);
  EXPECT_EQ(rows, 1u);
}

// Long prompts in one step.
void make_roomy(Fixture* f, quire_cache_options options = keeping(QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION)) {
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 16384;
  auto made = Cache::create(make_config({kFull, kState}, 60000, 16384), options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  f->cache = std::move(made.value());
}

std::vector<quire_symbol> question(quire_symbol document, uint32_t length, quire_symbol own) {
  auto prompt = count_from(document * 100000, length);
  const auto rest = count_from(100000000 + own * 1000, 101);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  return prompt;
}

// What is kept where nobody says: all but ends of chunks.
TEST(Reuse, ByDefaultWhatRequestsResumeAtIsKept) {
  Fixture f({kFull, kState});
  make_roomy(&f, {});
  const SequenceId id = f.open();
  const auto prompt = count_from(1, 4001);
  StepId step;
  EXPECT_EQ(f.reserve(id, prompt, 2001, QUIRE_ENTRY_MATCH, &step).num_tokens, 2000u) << "the last multiple of the interval";
  EXPECT_TRUE(f.commit(step, id, 2000).ok());
  EXPECT_EQ(f.stats().checkpoints, 1u) << "there";
  const std::vector<quire_symbol> rest(prompt.begin() + 2000, prompt.end());
  EXPECT_EQ(f.reserve(id, rest, 2001, 0, &step).num_tokens, 2000u) << "the last boundary of the prompt";
  EXPECT_TRUE(f.commit(step, id, 2000).ok());
  EXPECT_EQ(f.stats().checkpoints, 2u);
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  uint32_t rows = 0;
  EXPECT_EQ(ask(&f, shared_by(3000, 900000, 4001), &rows), 2000u) << "the first chunk of the prompt";
  EXPECT_EQ(ask(&f, shared_by(3000, 950000, 4001), &rows), 3000u) << "where the one before left the first one's way";
}

// Conversations that take turns in a pool of 1,200 pages; a boundary's states take two.
uint64_t hits_of_turns(uint64_t bytes, uint32_t tokens, uint32_t talks, uint32_t turns, uint64_t key = 7) {
  Fixture f({kFull, kState});
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 4096;
  options.checkpoint_bytes = bytes;
  options.hash_seed = key;
  auto made = Cache::create(make_config({kFull, kState, kState}, 1200, 4096), options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  f.cache = std::move(made.value());
  uint64_t hits = 0;
  uint32_t rows = 0;
  for (uint32_t turn = 1; turn <= turns; ++turn) {
    for (uint32_t talk = 0; talk < talks; ++talk) hits += ask(&f, count_from(1 + talk * 100000, turn * tokens), &rows);
  }
  return hits;
}

TEST(Reuse, TheShareOfStatesMovesToWhereItSpares) {
  constexpr uint32_t kTalks = 160, kTurns = 6;
  constexpr uint64_t kQuarter = 1200 / 4, kNoLimit = UINT64_MAX;
  // A turn is one page of attention: states need more than a quarter of the pool.
  const uint64_t narrow = hits_of_turns(kQuarter, 4, kTalks, kTurns), wide = hits_of_turns(kNoLimit, 4, kTalks, kTurns);
  ASSERT_GT(wide, 2 * narrow) << "a quarter is too little";
  const uint64_t learned = hits_of_turns(0, 4, kTalks, kTurns);
  std::printf("short turns: %llu tokens hit with a quarter, %llu without limit, %llu learned\n", static_cast<unsigned long long>(narrow),
              static_cast<unsigned long long>(wide), static_cast<unsigned long long>(learned));
  EXPECT_GT(learned, wide + wide / 3);
  uint64_t sum = 0;
  for (const uint32_t talks : {100U, 130U, 160U, 200U}) sum += hits_of_turns(0, 4, talks, talks == kTalks ? kTurns : 2 * kTurns);
  std::printf("four numbers of conversations: %llu tokens\n", static_cast<unsigned long long>(sum));
  EXPECT_GT(sum, 35500u) << "35,628; 36,748 when each loss moved the share by a boundary";
}

// 80 conversations that take turns; 100 boundaries are kept. again: after each turn the one before is asked again, too.
uint64_t hits_of_talks(uint32_t keep_states, bool again) {
  Fixture f({kFull, kState});
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 4096;
  options.checkpoint_bytes = 100;
  options.keep_states = keep_states;
  options.hash_seed = 7;
  auto made = Cache::create(make_config({kFull, kState}, 60000, 4096), options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  f.cache = std::move(made.value());
  uint64_t hits = 0;
  uint32_t rows = 0;
  for (uint32_t turn = 1; turn <= 8; ++turn) {
    for (uint32_t talk = 0; talk < 80; ++talk) {
      hits += ask(&f, count_from(1 + talk * 100000, turn * 40 + 1), &rows);
      if (again && turn > 1) hits += ask(&f, count_from(1 + talk * 100000, (turn - 1) * 40 + 1), &rows);
    }
  }
  const Status ok = f.cache->verify();
  EXPECT_TRUE(ok.ok()) << ok.message();
  return hits;
}

TEST(Reuse, EarlierTurnsMakeRoomWhereNobodyAsksForThem) {
  constexpr uint32_t kFixed = QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION;  // with an own choice nothing is learned
  const uint64_t fixed = hits_of_talks(kFixed, false), learned = hits_of_talks(0, false);
  std::printf("turns: %llu tokens hit, %llu learned\n", static_cast<unsigned long long>(fixed), static_cast<unsigned long long>(learned));
  EXPECT_GT(learned, fixed + fixed / 2);
  const uint64_t fixed_again = hits_of_talks(kFixed, true), learned_again = hits_of_talks(0, true);
  std::printf("asked again: %llu tokens hit, %llu learned\n", static_cast<unsigned long long>(fixed_again),
              static_cast<unsigned long long>(learned_again));
  EXPECT_GE(learned_again * 100, fixed_again * 99) << "there they spare as much as others";
}

TEST(Reuse, TheKeyOfTheHashDecidesNothing) {
  const uint64_t hits = hits_of_turns(0, 4, 160, 6, 1);
  for (const uint64_t key : {2, 3, 5, 8}) EXPECT_EQ(hits_of_turns(0, 4, 160, 6, key), hits) << key;
}

TEST(Reuse, EndsOfPromptsMoveToWhereOthersComeBy) {
  Fixture f({kFull, kState});
  make_roomy(&f);
  quire_symbol own = 0;
  // The second question to a document leaves the way of the first before its end; only the third one finds a state.
  EXPECT_EQ(request(&f, question(1, 3500, ++own), 16384), 0u);
  EXPECT_EQ(request(&f, question(1, 3500, ++own), 16384), 0u);
  EXPECT_EQ(request(&f, question(1, 3500, ++own), 16384), 3500u);
  // By now it is known that ends some hundred tokens earlier would have served the second one.
  EXPECT_EQ(request(&f, question(2, 3500, ++own), 16384), 0u);
  EXPECT_GE(request(&f, question(2, 3500, ++own), 16384), 2048u);
  // Turns of conversations resume at the very end; when most requests are such, ends are kept there again.
  std::vector<quire_symbol> talk = count_from(5000000, 1001);
  uint64_t hit = 0;
  for (quire_symbol turn = 0; turn < 40; ++turn) {
    hit = request(&f, talk, 16384);
    const auto more = count_from(200000000 + 1000 * turn, 301);
    talk.insert(talk.end(), more.begin(), more.end());
  }
  EXPECT_EQ(hit, (talk.size() - 602) / 4 * 4) << "the whole prompt of the turn before";
}

// Otherwise a prompt could pass both places and keep neither.
TEST(Reuse, WhatIsLearnedMeanwhileDoesNotMoveTheEndOfAPrompt) {
  Fixture f({kFull, kState});
  make_roomy(&f);
  const SequenceId id = f.open();
  const auto prompt = count_from(9000000, 4301);
  StepId step;
  EXPECT_EQ(f.reserve(id, prompt, 2100, QUIRE_ENTRY_MATCH, &step).num_tokens, 2100u);
  EXPECT_TRUE(f.commit(step, id, 2100).ok());
  for (quire_symbol own = 1; own <= 3; ++own) request(&f, question(1, 3500, own), 16384);
  const std::vector<quire_symbol> rest(prompt.begin() + 2100, prompt.end());
  EXPECT_EQ(f.reserve(id, rest, 2201, QUIRE_ENTRY_PROMPT_END, &step).num_tokens, 2200u) << "as when it began";
  EXPECT_TRUE(f.commit(step, id, 2200).ok());
  EXPECT_TRUE(f.cache->sequence_finish(id).ok());
  EXPECT_EQ(request(&f, prompt, 16384), 4300u);
}

}  // namespace
}  // namespace quire
