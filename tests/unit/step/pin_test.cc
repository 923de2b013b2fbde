// Pins: what they keep, when they end, and that a refused admission leaves them alone.
#include <random>

#include "states_fixture.h"

namespace quire {
namespace {

struct Pins : Fixture {
  using Fixture::Fixture;

  Result<quire_pin_id> pin(const std::vector<quire_symbol>& symbols, uint32_t priority = 0, uint64_t duration = 0,
                           std::string_view salt = {}) {
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.salt = {salt.data(), salt.size()};
    quire_pin_options options{};
    options.struct_size = sizeof options;
    options.priority = priority;
    options.duration_ns = duration;
    return cache->pin(&identity, symbols, options, &tokens);
  }
  quire_pin_info pinned(quire_pin_id id) {
    quire_pin_info info{};
    EXPECT_TRUE(cache->pin_info(id, &info).ok());
    return info;
  }
  quire_code code_of(quire_pin_id id) {
    quire_pin_info info{};
    return cache->pin_info(id, &info).code();
  }
  quire_code open_refused(std::string_view salt) {
    quire_identity identity{};
    identity.struct_size = sizeof identity;
    identity.salt = {salt.data(), salt.size()};
    return cache->sequence_create(&identity).status().code();
  }
  // A prompt computed, and its sequence gone again.
  void leave(const std::vector<quire_symbol>& prompt, std::string_view salt = {}) {
    const SequenceId id = open(salt);
    prefill(id, prompt);
    EXPECT_TRUE(cache->sequence_finish(id).ok());
  }
  uint64_t hit(const std::vector<quire_symbol>& prompt) {
    quire_probe_result result{};
    EXPECT_TRUE(cache->probe(nullptr, prompt, &result).ok());
    return result.hit_tokens;
  }
  // Prompts until everything that may be evicted was.
  void flood() {
    for (quire_symbol i = 0; i < 12; ++i) leave(count_from(1000 + 100 * i, 17));
  }

  uint64_t tokens = 0;
};

TEST(Pin, WhatItHoldsIsNotEvicted) {
  Pins f({kFull}, 16);
  f.leave(count_from(0, 12));
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 13)), 0u);
  f.leave(count_from(0, 12));
  auto pin = f.pin(count_from(0, 12), QUIRE_PIN_HARD);
  ASSERT_TRUE(pin.ok()) << pin.status().message();
  EXPECT_EQ(f.tokens, 12u) << "all tokens: nothing is left to compute by a pin";
  EXPECT_EQ(f.pinned(*pin).num_parts, 3u);
  f.flood();
  ASSERT_TRUE(f.cache->verify().ok());
  EXPECT_EQ(f.hit(count_from(0, 13)), 12u);
  EXPECT_EQ(f.stats().pins, 1u);
  EXPECT_EQ(f.stats().pinned_tokens, 12u);
  ASSERT_TRUE(f.cache->unpin(*pin).ok());
  EXPECT_EQ(f.cache->unpin(*pin).code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.hit(count_from(0, 13)), 12u) << "cached as before";
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 13)), 0u);
  EXPECT_EQ(f.stats().pins + f.stats().pinned_tokens, 0u);
}

TEST(Pin, KeepsWindowsAndStatesToo) {
  Pins f({kFull, {LiveRange{.window = 8}, 4, 1, 1}, {LiveRange{.state = true}, 4, 1, 1}}, 24);
  f.leave(count_from(0, 14));
  auto pin = f.pin(count_from(0, 14), QUIRE_PIN_HARD);
  ASSERT_TRUE(pin.ok()) << pin.status().message();
  EXPECT_EQ(f.tokens, 12u);
  EXPECT_EQ(f.pinned(*pin).num_parts, 3u + 2u + 1u) << "blocks, those of the window, and the state";
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 14)), 12u);
}

TEST(Pin, SoftOnesMakeRoomTheLowestPriorityFirst) {
  Pins f({kFull}, 13);  // 12 usable
  f.leave(count_from(0, 8));
  f.leave(count_from(100, 8));
  f.leave(count_from(200, 8));
  const quire_pin_id low = *f.pin(count_from(0, 8), 1), high = *f.pin(count_from(100, 8), 7), hard = *f.pin(count_from(200, 8), 255);
  const SequenceId a = f.open();
  f.prefill(a, count_from(300, 24));
  EXPECT_EQ(f.stats().pins, 3u) << "there was room";
  const SequenceId b = f.open();
  StepId step;
  ASSERT_EQ(f.reserve(b, count_from(400, 5), 5, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(f.code_of(low), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.code_of(high), QUIRE_OK);
  ASSERT_TRUE(f.commit(step, b, 5).ok());
  const SequenceId c = f.open();
  quire_reserve_result refused = f.reserve(c, count_from(500, 12), 12, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(refused.code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.missing_pages, 1u) << "beside what the soft pins have";
  EXPECT_EQ(f.code_of(high), QUIRE_OK) << "it would not have helped";
  ASSERT_TRUE(f.cache->verify().ok());
  ASSERT_EQ(f.reserve(c, count_from(500, 8), 8, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(f.code_of(high), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.code_of(hard), QUIRE_OK);
  EXPECT_EQ(f.stats().pins_given_up, 2u);
  EXPECT_EQ(f.hit(count_from(200, 9)), 8u);
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Pin, OfEqualPriorityTheOldestGoesFirst) {
  Pins f({kFull}, 5);
  f.leave(count_from(0, 4));
  f.leave(count_from(100, 4));
  const quire_pin_id first = *f.pin(count_from(0, 4), 3), second = *f.pin(count_from(100, 4), 3);
  StepId step;
  ASSERT_EQ(f.reserve(f.open(), count_from(300, 12), 12, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(f.code_of(first), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.code_of(second), QUIRE_OK);
}

TEST(Pin, EndsWithItsTime) {
  int64_t now = 1000;
  Pins f({kFull}, 8, 2, {}, {[](void* user) { return *static_cast<int64_t*>(user); }, &now});
  f.leave(count_from(0, 8));
  const quire_pin_id brief = *f.pin(count_from(0, 8), QUIRE_PIN_HARD, 50), longer = *f.pin(count_from(0, 8), QUIRE_PIN_HARD, 90);
  const quire_pin_id forever = *f.pin(count_from(0, 8), 0, UINT64_MAX);
  EXPECT_EQ(f.pinned(brief).deadline_ns, 1050);
  EXPECT_EQ(f.pinned(forever).deadline_ns, INT64_MAX);
  now = 1049;
  EXPECT_EQ(f.code_of(brief), QUIRE_OK);
  now = 1050;
  EXPECT_EQ(f.code_of(brief), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.code_of(longer), QUIRE_OK);
  now = 5000;
  StepId step;
  ASSERT_EQ(f.reserve(f.open(), count_from(300, 28), 28, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK)
      << "an admission looks at the clock, too";
  EXPECT_EQ(f.stats().pins, 0u);
  EXPECT_EQ(f.stats().pins_given_up, 1u) << "only the one without end was given up";
}

TEST(Pin, TheTokensOfASaltAreBounded) {
  quire_cache_options options{};
  options.pin_quota_tokens = 12;
  options.max_pins = 3;
  Pins f({kFull}, 32, 2, options);
  for (const char* salt : {"one", "two"}) f.leave(count_from(0, 8), salt);
  const quire_pin_id first = *f.pin(count_from(0, 8), 0, 0, "one");
  auto more = f.pin(count_from(0, 8), 0, 0, "one");
  EXPECT_EQ(more.status().code(), QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::string_view(more.status().message()).find("pin_quota_tokens"), std::string_view::npos) << more.status().message();
  EXPECT_TRUE(f.pin(count_from(0, 4), 0, 0, "one").ok()) << "what is left of it";
  EXPECT_TRUE(f.pin(count_from(0, 8), 0, 0, "two").ok());
  EXPECT_EQ(f.pin(count_from(0, 4), 0, 0, "two").status().code(), QUIRE_RESOURCE_EXHAUSTED) << "max_pins";
  ASSERT_TRUE(f.cache->unpin(first).ok());
  EXPECT_TRUE(f.pin(count_from(0, 8), 0, 0, "one").ok());
}

TEST(Pin, KeepsAPlaceWhereNothingIsNeededToResume) {
  Pins f({{LiveRange{.chunk = 8}, 4, 1, 1}}, 12);
  f.leave(count_from(0, 18));
  auto pin = f.pin(count_from(0, 16), QUIRE_PIN_HARD);
  ASSERT_TRUE(pin.ok()) << pin.status().message();
  EXPECT_EQ(f.tokens, 16u);
  EXPECT_EQ(f.pinned(*pin).num_parts, 0u);
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 17)), 16u);
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Pin, KeepsWhatMakesAHitOfItWhereDraftsWriteAhead) {
  Pins f({kFull, {LiveRange{.window = 16}, 8, 1, 1, 1}}, 32);
  f.leave(count_from(0, 25));
  auto pin = f.pin(count_from(0, 25), QUIRE_PIN_HARD);
  ASSERT_TRUE(pin.ok()) << pin.status().message();
  EXPECT_EQ(f.tokens, 16u);
  EXPECT_EQ(f.pinned(*pin).num_parts, 6u + 3u) << "of the window a block behind it, and what that hangs below";
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 25)), 16u);
}

TEST(Pin, GivenUpForWhoHitsItIsThereUntilItIsHit) {
  Pins f({{LiveRange{.chunk = 8}, 4, 1, 1}}, 6);  // 5 usable
  f.leave(count_from(0, 18));
  const quire_pin_id place = *f.pin(count_from(0, 16), 0);
  for (quire_symbol i = 0; i < 6; ++i) f.leave(count_from(1000 + 100 * i, 17));
  f.leave(count_from(500, 6));
  const quire_pin_id block = *f.pin(count_from(500, 4), 1);
  EXPECT_EQ(f.pinned(block).num_parts, 1u);
  const SequenceId other = f.open();
  f.prefill(other, count_from(700, 7));
  const SequenceId id = f.open();
  StepId step;
  const quire_reserve_result r = f.reserve(id, count_from(0, 27), 11, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(r.code, QUIRE_OK);
  EXPECT_EQ(r.hit_tokens, 16u);
  EXPECT_EQ(f.code_of(place), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.code_of(block), QUIRE_NOT_FOUND);
  ASSERT_TRUE(f.cache->verify().ok());
  ASSERT_TRUE(f.commit(step, id, 11).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

// A hit where drafts write ahead has a block of theirs behind it. What others publish above that block later goes without it.
TEST(Pin, WhereDraftsWriteAheadNothingThatComesLaterTakesAwayWhatItHolds) {
  for (const uint32_t look_ahead : {1U, 3U}) {
    Pins f({kFull, {LiveRange{}, 8, 1, 1, look_ahead}, {LiveRange{}, 16, 1, 1}}, 32);
    const SequenceId id = f.open();
    const uint32_t computed = 24 + look_ahead - 1;
    f.prefill(id, count_from(0, computed));
    auto pin = f.pin(count_from(0, computed), QUIRE_PIN_HARD);
    ASSERT_TRUE(pin.ok()) << pin.status().message();
    EXPECT_EQ(f.tokens, 16u);
    StepId step;
    ASSERT_EQ(f.reserve(id, count_from(computed, 12), 12, 0, &step).code, QUIRE_OK);
    ASSERT_TRUE(f.commit(step, id, 12).ok());
    ASSERT_TRUE(f.cache->sequence_finish(id).ok());
    f.flood();
    f.flood();
    ASSERT_TRUE(f.cache->verify().ok());
    EXPECT_EQ(f.hit(count_from(0, computed + 12)), 16u);
    EXPECT_EQ(f.hit(count_from(0, 25)), 16u);
  }
}

TEST(Pin, KeepsItsIdentity) {
  quire_cache_options options{};
  options.max_roots = 2;
  Pins f({kFull}, 32, 2, options);
  f.leave(count_from(0, 8), "pinned");
  ASSERT_TRUE(f.pin(count_from(0, 8), QUIRE_PIN_HARD, 0, "pinned").ok());
  for (const char* salt : {"a", "b", "c"}) f.leave(count_from(0, 8), salt);
  EXPECT_EQ(f.prefill(f.open("pinned"), count_from(0, 9)), 8u) << "the other root was given up each time";
}

TEST(Pin, SoftOnesNeverRefuseANewIdentity) {
  quire_cache_options options{};
  options.max_roots = 3;
  Pins f({kFull}, 48, 3, options);
  for (const char* salt : {"a", "b", "c"}) f.leave(count_from(0, 9), salt);
  const quire_pin_id hard = *f.pin(count_from(0, 9), QUIRE_PIN_HARD, 0, "a");
  const quire_pin_id soft = *f.pin(count_from(0, 9), 5, 0, "b");
  const quire_pin_id softer = *f.pin(count_from(0, 9), 4, 0, "c");
  const quire_pin_id not_so_soft = *f.pin(count_from(0, 5), 9, 0, "c");
  f.leave(count_from(0, 9), "d");  // takes the root whose hardest pin is the softest
  EXPECT_EQ(f.code_of(soft), QUIRE_NOT_FOUND);
  for (const quire_pin_id kept : {hard, softer, not_so_soft}) EXPECT_EQ(f.code_of(kept), QUIRE_OK);
  EXPECT_EQ(f.stats().pins_given_up, 1u);

  const SequenceId user = f.open("c");  // its pins free nothing now
  const SequenceId guest = f.open("e");
  EXPECT_EQ(f.open_refused("f"), QUIRE_RESOURCE_EXHAUSTED);
  for (const quire_pin_id kept : {hard, softer, not_so_soft}) EXPECT_EQ(f.code_of(kept), QUIRE_OK) << "a refusal changes nothing";
  ASSERT_TRUE(f.cache->sequence_finish(user).ok());
  f.open("f");
  for (const quire_pin_id gone : {softer, not_so_soft}) EXPECT_EQ(f.code_of(gone), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.code_of(hard), QUIRE_OK);
  EXPECT_EQ(f.stats().pins_given_up, 3u);
  ASSERT_TRUE(f.cache->sequence_finish(guest).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Pin, NothingToPinIsNotFound) {
  Pins f({kFull}, 8);
  EXPECT_EQ(f.pin(count_from(0, 8)).status().code(), QUIRE_NOT_FOUND);
  f.leave(count_from(0, 8));
  EXPECT_EQ(f.pin(count_from(0, 3)).status().code(), QUIRE_NOT_FOUND) << "less than a unit";
  EXPECT_EQ(f.pin(count_from(50, 8)).status().code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.pin(count_from(0, 8), 256).status().code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(f.stats().pins, 0u);
  quire_cache_options options{};
  options.flags = QUIRE_CACHE_NO_PREFIX_REUSE;
  Pins off({kFull}, 8, 2, options);
  EXPECT_EQ(off.pin(count_from(0, 8)).status().code(), QUIRE_FAILED_PRECONDITION);
}

TEST(Pin, ResetEndsAllAndForgettingTakesBlocksOut) {
  Pins f({kFull}, 16);
  f.leave(count_from(0, 12));
  const quire_pin_id pin = *f.pin(count_from(0, 12), QUIRE_PIN_HARD);
  const uint64_t used = f.stats().parts_used;
  uint64_t forgotten = 0;
  std::vector<int32_t> ids;
  for (int32_t id = 1; id < 16; ++id) ids.push_back(id);
  ASSERT_TRUE(f.cache->forget_blocks(0, ids, &forgotten).ok());
  EXPECT_EQ(forgotten, 3u);
  EXPECT_EQ(f.pinned(pin).num_parts, 0u);
  EXPECT_EQ(used - f.stats().parts_used, 3u);
  EXPECT_EQ(f.stats().index_units, 1u) << "the root; places without blocks would fill the index";
  ASSERT_TRUE(f.cache->verify().ok());
  f.leave(count_from(100, 12));
  const quire_pin_id other = *f.pin(count_from(100, 12), QUIRE_PIN_HARD);
  ASSERT_TRUE(f.cache->reset().ok());
  EXPECT_EQ(f.code_of(other), QUIRE_NOT_FOUND);
  EXPECT_EQ(f.hit(count_from(100, 13)), 0u) << "new weights: nothing of the old ones is found";
  EXPECT_EQ(f.stats().pages_used, 0u);
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Pin, KeepsWhatIsAboveAForgottenBlock) {
  Pins f({kFull}, 16);
  f.leave(count_from(0, 12));  // its blocks are 1, 2 and 3
  const quire_pin_id pin = *f.pin(count_from(0, 12), QUIRE_PIN_HARD);
  const int32_t second = 2;
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(0, {&second, 1}, &forgotten).ok());
  EXPECT_EQ(forgotten, 2u) << "with the block after it";
  EXPECT_EQ(f.pinned(pin).num_parts, 1u);
  EXPECT_EQ(f.stats().index_units, 2u) << "one, and the root";
  EXPECT_EQ(f.hit(count_from(0, 13)), 4u);
  ASSERT_TRUE(f.cache->verify().ok());
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 13)), 4u) << "it is pinned still";
  ASSERT_TRUE(f.cache->unpin(pin).ok());
  f.flood();
  EXPECT_EQ(f.hit(count_from(0, 13)), 0u);
  ASSERT_TRUE(f.cache->verify().ok());
}

TEST(Pin, WhoGoesOnBehindItDoesNotChangeIt) {
  const std::vector<GroupSketch> wide{GroupSketch{LiveRange{}, 16, 1, 1}, GroupSketch{LiveRange{.state = true}, 16, 1, 1}};
  Pins f({kFull}, 8);
  hit_inside_blocks(&f, wide, 32, 2, 4, states_of(0));
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 20));
  auto pin = f.pin(count_from(1, 20), QUIRE_PIN_HARD);
  ASSERT_TRUE(pin.ok()) << pin.status().message();
  EXPECT_EQ(f.tokens, 20u);
  StepId step = row(f, a, 21, 2);
  EXPECT_TRUE(f.cache->step_copies(step)->empty()) << "tokens 16 to 19 stay as they were";
  ASSERT_TRUE(f.commit(step, a, 2).ok());
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  for (quire_symbol i = 0; i < 40; ++i) f.leave(count_from(1000 + 100 * i, 40));
  EXPECT_EQ(f.hit(count_from(1, 21)), 20u);
}

TEST(Pin, BesideStepsInFlightNothingIsReusedTooEarly) {
  Pins f({kFull}, 4, 2);  // 3 usable
  const SequenceId a = f.open();
  f.prefill(a, count_from(0, 8));
  const quire_pin_id pin = *f.pin(count_from(0, 8));
  StepId flying, step;
  f.reserve(a, {8}, 1, 0, &flying);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  ASSERT_TRUE(f.cache->unpin(pin).ok());
  const SequenceId b = f.open();
  EXPECT_EQ(f.reserve(b, count_from(50, 4), 4, QUIRE_ENTRY_MATCH, &step).code, QUIRE_RESOURCE_EXHAUSTED) << "that step still reads them";
  ASSERT_TRUE(f.commit(flying, a, 1).ok());
  EXPECT_EQ(f.reserve(b, count_from(50, 4), 4, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
}

TEST(Pin, LeavesAFenceWhereItWasTheLastButOne) {
  Pins f({kFull}, 16, 3);
  const SequenceId a = f.open();
  f.prefill(a, count_from(0, 10));
  const SequenceId b = *f.cache->sequence_fork(a);
  ASSERT_TRUE(f.pin(count_from(0, 8)).ok());
  StepId flying, step;
  f.reserve(a, {76}, 1, 0, &flying);  // reads what all three have
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  const std::vector<int32_t> ids{1, 2, 3, 4, 5, 6};
  uint64_t forgotten = 0;
  ASSERT_TRUE(f.cache->forget_blocks(0, ids, &forgotten).ok());  // the pin lets go, and no node protects the block that ends at 8
  EXPECT_EQ(forgotten, 2u);
  ASSERT_TRUE(f.cache->sequence_truncate(b, 7).ok());
  ASSERT_EQ(f.reserve(b, {77}, 1, 0, &step).code, QUIRE_OK);
  EXPECT_EQ(f.cache->step_copies(step)->size(), 1u);
  ASSERT_TRUE(f.commit(flying, a, 1).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

}  // namespace
}  // namespace quire
