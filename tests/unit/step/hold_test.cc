// Holds of blocks whose bytes go elsewhere, and the names of prefixes.
#include <algorithm>

#include "hold_queries.h"
#include "states_fixture.h"

namespace quire {
namespace {

TEST(Hold, KeepsBlocksThatNobodyElseHas) {
  Fixture f({kFull}, 9);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 17));
  auto hold = f.cache->hold_begin(a, 4, 13);
  ASSERT_TRUE(hold.ok());
  const std::vector<int32_t> ids = ids_of(f, *hold, 0);
  EXPECT_EQ(ids.size(), 3U);  // tokens 4 to 12
  quire_hold_info info{};
  ASSERT_TRUE(f.cache->hold_info(*hold, &info).ok());
  EXPECT_EQ(info.first_token, 4U);
  EXPECT_EQ(info.end_token, 13U);
  EXPECT_EQ(info.num_parts, 3U);
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  EXPECT_EQ(f.stats().pages_used, 3U);
  EXPECT_EQ(f.stats().holds, 1U);
  EXPECT_EQ(f.stats().held_parts, 3U);
  StepId step;
  const SequenceId b = f.open();
  EXPECT_EQ(f.reserve(b, count_from(100, 24), 24, QUIRE_ENTRY_MATCH, &step).missing_pages, 1U);
  ASSERT_TRUE(f.cache->hold_end(*hold).ok());
  EXPECT_EQ(f.reserve(b, count_from(100, 24), 24, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(f.cache->hold_end(*hold).message(), "hold: " + std::to_string(*hold) + " is none");
  EXPECT_EQ(f.cache->hold_end(0).code(), QUIRE_NOT_FOUND);
}

// Units are watched, and holds get room for more and longer ones: those that there are stay as they are.
TEST(Hold, StaysWhileOthersGetRoom) {
  Fixture f({kFull}, 40);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 17));
  auto hold = f.cache->hold_begin(a, 4, 13), gone = f.cache->hold_begin(a, 0, 4);
  ASSERT_TRUE(hold.ok() && gone.ok());
  ASSERT_TRUE(f.cache->hold_end(*gone).ok());
  const std::vector<int32_t> ids = ids_of(f, *hold, 0);
  for (const uint64_t unit : {4, 16, 128}) {
    quire_unit_options options{};
    options.struct_size = sizeof options;
    options.reasons = QUIRE_UNIT_COMMITTED;
    options.unit_tokens = unit;
    ASSERT_TRUE(f.cache->watch_units(&options).ok());
    EXPECT_EQ(ids_of(f, *hold, 0), ids);
    EXPECT_EQ(f.cache->hold_end(*gone).code(), QUIRE_NOT_FOUND);
    auto another = f.cache->hold_begin(a, 0, 16);
    ASSERT_TRUE(another.ok());
    EXPECT_NE(*another, *hold);
    EXPECT_EQ(f.stats().holds, 2U);
    ASSERT_TRUE(f.cache->hold_end(*another).ok());
  }
  ASSERT_TRUE(f.cache->hold_end(*hold).ok());
  ASSERT_TRUE(f.cache->verify().ok());
}

// Whoever fills a held block copies it first, and the hold keeps the old one.
TEST(Hold, OfAnUnfinishedBlockIsNotWrittenTo) {
  Fixture f({kFull}, 9);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 6));
  auto hold = f.cache->hold_begin(a, 0, 6);
  ASSERT_TRUE(hold.ok());
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(7, 1), 1, 0, &step).code, QUIRE_OK);
  ASSERT_EQ(f.cache->step_copies(step)->size(), 1U);
  const quire_copy copy = (*f.cache->step_copies(step))[0];
  EXPECT_EQ(copy.source, ids_of(f, *hold, 0)[1]);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  ASSERT_EQ(f.reserve(a, count_from(8, 1), 1, 0, &step).code, QUIRE_OK);
  EXPECT_EQ(f.cache->step_copies(step)->size(), 0U);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  ASSERT_TRUE(f.cache->hold_end(*hold).ok());
}

// Of a block that is found by a part of its tokens the sequence that fills it takes a copy, too.
TEST(Hold, OfABlockThatAnotherSequenceFillsIsNotWrittenTo) {
  Fixture f({kFull}, 8);
  const GroupSketch wide{LiveRange{}, 16, 1, 1}, state{LiveRange{.state = true}, 16, 1, 1};
  hit_inside_blocks(&f, {wide, state}, 32, 2, 4, states_of(0));
  const SequenceId a = f.open(), b = f.open();
  f.prefill(a, count_from(1, 20));
  StepId of_b;
  std::vector<quire_symbol> other = count_from(1, 20);
  for (const quire_symbol s : count_from(900, 8)) other.push_back(s);
  ASSERT_EQ(f.reserve(b, other, 4, QUIRE_ENTRY_MATCH, &of_b).hit_tokens, 20U);
  auto hold = f.cache->hold_begin(b, 0, 20);
  ASSERT_TRUE(hold.ok());
  const StepId of_a = row(f, a, 21, 1);
  ASSERT_EQ(f.cache->step_copies(of_a)->size(), 1U);
  EXPECT_EQ((*f.cache->step_copies(of_a))[0].source, ids_of(f, *hold, 0)[1]);
  ASSERT_TRUE(f.commit(of_b, b, 4).ok());
  ASSERT_TRUE(f.commit(of_a, a, 1).ok());
  ASSERT_TRUE(f.cache->hold_end(*hold).ok());
}

TEST(Hold, HasTheStateAtItsEnd) {
  Fixture f({kFull, kState}, 32);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(17, 1), 1, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 1).ok());
  auto now = f.cache->hold_begin(a, 0, 17), kept = f.cache->hold_begin(a, 0, 16), none = f.cache->hold_begin(a, 0, 8);
  ASSERT_TRUE(now.ok() && kept.ok() && none.ok());
  EXPECT_NE(ids_of(f, *now, 1)[0], 0);
  EXPECT_NE(ids_of(f, *kept, 1)[0], 0);
  EXPECT_NE(ids_of(f, *kept, 1)[0], ids_of(f, *now, 1)[0]);
  EXPECT_EQ(ids_of(f, *none, 1)[0], 0);
  for (auto* hold : {&now, &kept, &none}) ASSERT_TRUE(f.cache->hold_end(**hold).ok());
}

TEST(Hold, RefusesWhatIsNotCommitted) {
  Fixture f({kFull}, 32);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 8));
  EXPECT_EQ(f.cache->hold_begin(a, 0, 9).status().message(), "tokens: [0, 9), the sequence has 8 committed");
  EXPECT_EQ(f.cache->hold_begin(a, 5, 4).status().code(), QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(f.cache->hold_begin(SequenceId(77), 0, 0).status().code(), QUIRE_NOT_FOUND);
  auto empty = f.cache->hold_begin(a, 4, 4);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(ids_of(f, *empty, 0).size(), 0U);
  uint64_t n = 0;
  EXPECT_EQ(f.cache->hold_ids(*empty, 1, {}, &n).message(), "group: 1 of 1");
  ASSERT_TRUE(f.cache->hold_end(*empty).ok());
}

// A digest depends on identity and symbols, and on nothing else: not on blocks, and not on how often it is taken on the way.
TEST(Digest, NamesAPrefix) {
  Fixture small({kFull}, 32), large({{LiveRange{}, 8, 1, 1}}, 32);
  const std::vector<quire_symbol> text = count_from(1, 37);
  EXPECT_EQ(digest(small, text), digest(large, text));
  EXPECT_NE(digest(small, text), digest(small, text, "salt"));
  EXPECT_NE(digest(small, text), digest(small, count_from(1, 36)));
  EXPECT_NE(digest(small, text), digest(small, count_from(2, 37)));
  const uint64_t ends[] = {0, 5, 5, 37};
  std::vector<uint8_t> names(4 * 32);
  ASSERT_TRUE(small.cache->prefix_digests(nullptr, text, ends, names.data()).ok());
  EXPECT_EQ(std::string(names.begin() + 96, names.end()), digest(small, text));
  EXPECT_EQ(std::string(names.begin() + 32, names.begin() + 64), digest(small, count_from(1, 5)));
  EXPECT_TRUE(std::equal(names.begin() + 32, names.begin() + 64, names.begin() + 64));
  const uint64_t wrong[] = {5, 4};
  EXPECT_EQ(small.cache->prefix_digests(nullptr, text, wrong, names.data()).code(), QUIRE_OUT_OF_RANGE);
  const uint64_t far[] = {38};
  EXPECT_EQ(small.cache->prefix_digests(nullptr, text, far, names.data()).code(), QUIRE_OUT_OF_RANGE);
}

// Caches give media symbols of their own; the name has the media's digest instead.
TEST(Digest, OfMediaIsTheSameInEveryCache) {
  Fixture one({kFull}, 32), two({kFull}, 32);
  uint8_t cat[32] = {1}, dog[32] = {2};
  quire_symbol cat1 = 0, cat2 = 0, dog2 = 0;
  ASSERT_TRUE(one.cache->add_media(cat, 3, &cat1).ok());
  ASSERT_TRUE(two.cache->add_media(dog, 3, &dog2).ok());
  ASSERT_TRUE(two.cache->add_media(cat, 3, &cat2).ok());
  EXPECT_NE(cat1, cat2);
  EXPECT_EQ(digest(one, {7, cat1, cat1 + 1, cat1 + 2, 8}), digest(two, {7, cat2, cat2 + 1, cat2 + 2, 8}));
  EXPECT_NE(digest(two, {7, dog2, dog2 + 1, dog2 + 2, 8}), digest(two, {7, cat2, cat2 + 1, cat2 + 2, 8}));
  EXPECT_NE(digest(two, {7, cat2, cat2 + 1}), digest(two, {7, cat2, cat2 + 2}));
  const std::vector<quire_symbol> unknown = {cat1 + 500};
  const uint64_t end = 1;
  std::vector<uint8_t> out(32);
  EXPECT_EQ(one.cache->prefix_digests(nullptr, unknown, {&end, 1}, out.data()).code(), QUIRE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quire
