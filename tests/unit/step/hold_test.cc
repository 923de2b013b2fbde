// Blocks that leave: holds, reports of complete units with names, and loads that share what is cached or leave a transfer behind.
#include <gtest/gtest.h>
#include <quire/hold.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "fixture.h"

namespace quire {
namespace {

const GroupSketch kWindow{LiveRange{.window = 8}, 4, 1, 1};

std::vector<int32_t> ids_of(const Fixture& f, quire_hold_id hold, uint32_t group) {
  uint64_t n = 0;
  EXPECT_TRUE(f.cache->hold_ids(hold, group, {}, &n).ok());
  std::vector<int32_t> ids(n);
  const Status ok = f.cache->hold_ids(hold, group, ids, &n);
  EXPECT_TRUE(ok.ok()) << ok.message();
  return ids;
}

std::string digest(const Fixture& f, const std::vector<quire_symbol>& symbols, std::string_view salt = {}) {
  quire_identity identity{};
  identity.salt = {salt.data(), salt.size()};
  const uint64_t end = symbols.size();
  std::string out(32, '\0');
  const Status ok = f.cache->prefix_digests(&identity, symbols, {&end, 1}, reinterpret_cast<uint8_t*>(out.data()));
  EXPECT_TRUE(ok.ok()) << ok.message();
  return out;
}
std::string name_of(const quire_unit& unit) { return {reinterpret_cast<const char*>(unit.digest), 32}; }

void watch(Fixture& f, uint64_t tokens, uint32_t reasons, uint32_t waiting = 0) {
  quire_unit_options options{};
  options.unit_tokens = tokens;
  options.reasons = reasons;
  options.max_waiting = waiting;
  const Status ok = f.cache->watch_units(&options);
  ASSERT_TRUE(ok.ok()) << ok.message();
}

std::vector<quire_unit> take(Fixture& f, size_t most = 64) {
  std::vector<quire_unit> units(most);
  units.resize(f.cache->take_units(units));
  const Status sound = f.cache->verify();
  EXPECT_TRUE(sound.ok()) << sound.message();
  return units;
}
void end_all(Fixture& f, const std::vector<quire_unit>& units) {
  for (const quire_unit& u : units) EXPECT_TRUE(f.cache->hold_end(u.hold).ok());
}

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

TEST(Units, AreReportedWhenTheirTokensAreComplete) {
  Fixture f({kFull}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open("tenant");
  f.prefill(a, count_from(1, 21));
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(units[i].sequence, a.value);
    EXPECT_EQ(units[i].first_token, 8 * i);
    EXPECT_EQ(units[i].end_token, 8 * i + 8);
    EXPECT_EQ(units[i].reason, QUIRE_UNIT_COMMITTED);
    EXPECT_EQ(units[i].flags, 0U);
    EXPECT_EQ(name_of(units[i]), digest(f, count_from(1, 8 * i + 8), "tenant"));
    EXPECT_EQ(std::memcmp(units[i].digest, units[i].ahead_digest, 32), 0);
    EXPECT_EQ(ids_of(f, units[i].hold, 0).size(), 2U);
  }
  end_all(f, units);
  StepId step;
  for (uint32_t n = 21; n < 24; ++n) {
    ASSERT_EQ(f.reserve(a, count_from(n + 1, 1), 1, 0, &step).code, QUIRE_OK);
    EXPECT_TRUE(take(f).empty());
    ASSERT_TRUE(f.commit(step, a, 1).ok());
  }
  units = take(f);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(1, 24), "tenant"));
  end_all(f, units);
  EXPECT_EQ(f.stats().holds, 0U);
}

// What a window loses as the sequence goes on is held from the commit on.
TEST(Units, HoldOfAWindowWhatTheirEndNeeds) {
  Fixture f({kFull, kWindow}, 64);
  watch(f, 16, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 49));
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 3U);
  std::map<int32_t, int> seen;
  for (const quire_unit& u : units) {
    const std::vector<int32_t> ids = ids_of(f, u.hold, 1);
    ASSERT_EQ(ids.size(), 4U);
    for (size_t b = 2; b < 4; ++b) EXPECT_NE(ids[b], 0) << u.end_token << " " << b;
    for (const int32_t id : ids) seen[id] += id != 0 ? 1 : 0;
  }
  for (const auto& [id, times] : seen) EXPECT_LE(times, 1) << id;
  end_all(f, units);
}

TEST(Units, EndWhereAStateIsKept) {
  Fixture f({kFull, kState}, 64);
  watch(f, 16, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 29));  // a state is kept at 28
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0].end_token, 16U);
  EXPECT_EQ(units[1].first_token, 16U);
  EXPECT_EQ(units[1].end_token, 28U);
  EXPECT_EQ(units[1].flags, QUIRE_UNIT_HAS_STATE);
  EXPECT_EQ(ids_of(f, units[1].hold, 0).size(), 3U);
  EXPECT_NE(ids_of(f, units[1].hold, 1)[0], 0);
  EXPECT_EQ(name_of(units[1]), digest(f, count_from(1, 28)));
  end_all(f, units);
}

TEST(Units, AreReportedAgainWhenTheyAreHitAndWhenASequenceEnds) {
  Fixture f({kFull}, 64);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 21));
  watch(f, 8, QUIRE_UNIT_HIT | QUIRE_UNIT_FINISHED);
  const SequenceId b = f.open();
  f.prefill(b, count_from(1, 30));
  std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0].reason, QUIRE_UNIT_HIT);
  EXPECT_EQ(name_of(units[1]), digest(f, count_from(1, 16)));
  end_all(f, units);
  ASSERT_TRUE(f.cache->sequence_finish(b).ok());
  units = take(f);
  ASSERT_EQ(units.size(), 3U);
  for (const quire_unit& u : units) EXPECT_EQ(u.reason, QUIRE_UNIT_FINISHED);
  EXPECT_EQ(name_of(units[2]), digest(f, count_from(1, 24)));
  end_all(f, units);
}

// After a truncation the names are those of the new text.
TEST(Units, AreNamedByWhatTheSequenceHasNow) {
  Fixture f({kFull}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 16));
  end_all(f, take(f));
  ASSERT_TRUE(f.cache->sequence_truncate(a, 4).ok());
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(500, 20), 20, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 20).ok());
  const std::vector<quire_unit> units = take(f);
  std::vector<quire_symbol> text = count_from(1, 4);
  for (const quire_symbol s : count_from(500, 20)) text.push_back(s);
  ASSERT_EQ(units.size(), 3U);
  for (const quire_unit& u : units) {
    EXPECT_EQ(name_of(u), digest(f, std::vector<quire_symbol>(text.begin(), text.begin() + static_cast<long>(u.end_token))));
  }
  end_all(f, units);
}

TEST(Units, AreGivenUpBeforeAnythingIsRefused) {
  Fixture f({kFull}, 9);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 17));
  ASSERT_TRUE(f.cache->sequence_finish(a).ok());
  EXPECT_EQ(f.stats().holds, 2U);
  StepId step;
  const SequenceId b = f.open();
  EXPECT_EQ(f.reserve(b, count_from(100, 32), 32, QUIRE_ENTRY_MATCH, &step).code, QUIRE_OK);
  EXPECT_EQ(f.stats().holds, 0U);
  EXPECT_EQ(f.stats().units_given_up, 2U);
  EXPECT_TRUE(take(f).empty());
}

TEST(Units, MakeRoomForNewerOnes) {
  Fixture f({kFull}, 64);
  watch(f, 4, QUIRE_UNIT_COMMITTED, 3);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 21));
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(units[0].end_token, 12U);
  EXPECT_EQ(f.stats().units_given_up, 2U);
  // Holds that are not ended take room, too: three that were taken and three that wait.
  f.prefill(f.open(), count_from(100, 33));
  EXPECT_EQ(f.stats().holds, 6U);
  end_all(f, units);
  end_all(f, take(f));
}

TEST(Units, AreNamedWhenWhatDraftsReadIsKnown) {
  GroupSketch drafts = kFull;
  drafts.look_ahead = 2;
  Fixture f({kFull, drafts}, 64);
  watch(f, 8, QUIRE_UNIT_COMMITTED);
  const SequenceId a = f.open();
  f.prefill(a, count_from(1, 9));
  EXPECT_TRUE(take(f).empty());
  EXPECT_EQ(f.stats().holds, 1U);
  StepId step;
  ASSERT_EQ(f.reserve(a, count_from(10, 7), 7, 0, &step).code, QUIRE_OK);
  ASSERT_TRUE(f.commit(step, a, 7).ok());
  const std::vector<quire_unit> units = take(f);
  ASSERT_EQ(units.size(), 1U);
  EXPECT_EQ(name_of(units[0]), digest(f, count_from(1, 8)));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(units[0].ahead_digest), 32), digest(f, count_from(1, 10)));
  end_all(f, units);
}

TEST(Units, RefuseWhatCannotBeStored) {
  Fixture f({kFull, {LiveRange{}, 8, 1, 1}}, 32);
  quire_unit_options options{};
  options.unit_tokens = 12;
  options.reasons = QUIRE_UNIT_COMMITTED;
  EXPECT_EQ(f.cache->watch_units(&options).message(), "options.unit_tokens: 12, a multiple of 8 up to 2^24 is wanted");
  options.unit_tokens = 8;
  options.reasons = 64;
  EXPECT_EQ(f.cache->watch_units(&options).code(), QUIRE_INVALID_ARGUMENT);
  options.reasons = 0;
  EXPECT_EQ(f.cache->watch_units(&options).message(), "options.reasons: none");
  quire_cache_options without{};
  without.flags = QUIRE_CACHE_NO_PREFIX_REUSE;
  Fixture g({kFull}, 32, 2, without);
  options.reasons = QUIRE_UNIT_HIT;
  EXPECT_EQ(g.cache->watch_units(&options).code(), QUIRE_FAILED_PRECONDITION);
}

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
  options.window_interval = QUIRE_WINDOWS_AT_ENDS;
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

}  // namespace
}  // namespace quire
