// Rows of quire/hold.h.
#include <numeric>

#include "rows.h"

namespace quire::test {
namespace {

constexpr uint64_t kTokens = 40;

// A sequence with kTokens committed tokens.
quire_sequence_id computed(Rig& rig) {
  std::vector<quire_symbol> symbols(kTokens);
  std::iota(symbols.begin(), symbols.end(), 1);
  quire_sequence_id sequence = 0;
  EXPECT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &sequence, nullptr), QUIRE_OK);
  const quire_step step = rig.reserve(sequence, symbols, QUIRE_ENTRY_NO_STOP);
  quire_commit_entry entry{};
  entry.sequence = sequence;
  entry.num_accepted = kTokens;
  EXPECT_EQ(quire_commit(step, &entry, 1, nullptr, 0, nullptr), QUIRE_OK);
  return sequence;
}

quire_hold_id held(Rig& rig) {
  quire_hold_id hold = 0;
  EXPECT_EQ(quire_hold_begin(rig.cache.get(), computed(rig), 0, kTokens, &hold, nullptr), QUIRE_OK);
  EXPECT_NE(hold, 0U);
  return hold;
}

quire_unit_options unit_options(const Rig& rig) {
  auto options = sized<quire_unit_options>();
  options.reasons = QUIRE_UNIT_COMMITTED;
  options.unit_tokens = 1;
  auto config = sized<quire_config_info>();
  EXPECT_EQ(quire_config_get_info(rig.config.get(), &config, nullptr), QUIRE_OK);
  for (uint32_t g = 0; g < config.num_groups; ++g) {
    auto group = sized<quire_group_info>();
    EXPECT_EQ(quire_config_get_group(rig.config.get(), g, &group, nullptr), QUIRE_OK);
    options.unit_tokens = std::lcm(options.unit_tokens, uint64_t{group.block_tokens});
  }
  return options;
}

const std::vector<uint64_t> kNoHold = {0, 99, UINT64_MAX};

ROW(quire_hold_begin) {
  const quire_sequence_id sequence = computed(rig);
  quire_hold_id hold = 0;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "tokens: [8, 4)", quire_hold_begin(rig.cache.get(), sequence, 8, 4, &hold, err));
  EXPECT_EQ(hold, 0U);
  call.bad("sequence", {0, 77, UINT64_MAX}, QUIRE_NOT_FOUND)
      .bad("first_token", {kTokens + 1, UINT64_MAX}, QUIRE_OUT_OF_RANGE, "tokens")
      .bad("end_token", {kTokens + 1, UINT64_MAX}, QUIRE_OUT_OF_RANGE, "tokens");
  call(rig.cache.get(), sequence, uint64_t{0}, kTokens, &hold);
  EXPECT_NE(hold, 0U);
}

ROW(quire_hold_end) {
  call.bad("hold", kNoHold, QUIRE_NOT_FOUND);
  const quire_hold_id hold = held(rig);
  call(rig.cache.get(), hold);
  EXPECT_FAILS(QUIRE_NOT_FOUND, "hold: " + std::to_string(hold) + " is none", quire_hold_end(rig.cache.get(), hold, err));
}

ROW(quire_hold_get_info) {
  auto info = sized<quire_hold_info>();
  call.bad("hold", kNoHold, QUIRE_NOT_FOUND);
  call(rig.cache.get(), held(rig), &info);
  EXPECT_EQ(info.first_token, 0U);
  EXPECT_EQ(info.end_token, kTokens);
  EXPECT_GT(info.num_parts, 0U);
}

ROW(quire_hold_list_ids) {
  const quire_hold_id hold = held(rig);
  std::vector<int32_t> ids(256);
  uint64_t count = 0;
  call.bad("hold", kNoHold, QUIRE_NOT_FOUND).bad("group", {99, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.cache.get(), hold, 0U, ids.data(), ids.size(), &count);
  ASSERT_GT(count, 1U);
  EXPECT_NE(ids[0], 0);
  uint64_t needed = 0;
  EXPECT_WORKS(quire_hold_list_ids(rig.cache.get(), hold, 0, nullptr, 0, &needed, err));
  EXPECT_EQ(needed, count);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity", quire_hold_list_ids(rig.cache.get(), hold, 0, ids.data(), count - 1, &needed, err));
}

// What waits is given up by a call that works, and by no other.
ROW(quire_cache_watch_units) {
  const quire_unit_options options = unit_options(rig);
  EXPECT_WORKS(quire_cache_watch_units(rig.cache.get(), &options, err));
  const quire_sequence_id sequence = computed(rig);
  auto stats = sized<quire_cache_stats>();
  EXPECT_WORKS(quire_cache_get_stats(rig.cache.get(), &stats, err));
  EXPECT_GT(stats.holds, 0U);
  const uint64_t waiting = stats.holds;
  const auto wrong = [&](auto change, const char* part) {
    quire_unit_options one = options;
    change(&one);
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, part, quire_cache_watch_units(rig.cache.get(), &one, err));
  };
  wrong([](auto* o) { o->reasons = 0; }, "options.reasons: none");
  wrong([](auto* o) { o->reasons = 16; }, "options.reasons: unknown bits in 0x10");
  wrong([](auto* o) { o->unit_tokens = 0; }, "options.unit_tokens: 0");
  wrong([](auto* o) { ++o->unit_tokens; }, "options.unit_tokens");
  wrong([](auto* o) { o->unit_tokens <<= 24; }, "options.unit_tokens");
  wrong([](auto* o) { o->max_waiting = UINT32_MAX; }, "options.max_waiting");
  EXPECT_WORKS(quire_cache_get_stats(rig.cache.get(), &stats, err));
  EXPECT_EQ(stats.holds, waiting);
  auto more = options;
  more.max_waiting = 4096;
  call.null_is_legal({"options"});
  call(rig.cache.get(), &more);
  EXPECT_WORKS(quire_cache_get_stats(rig.cache.get(), &stats, err));
  EXPECT_EQ(stats.holds, 0U);
  EXPECT_EQ(stats.units_given_up, waiting);
  EXPECT_WORKS(quire_cache_watch_units(rig.cache.get(), nullptr, err));
  EXPECT_WORKS(quire_sequence_finish(rig.cache.get(), sequence, err));
}

ROW(quire_cache_take_units) {
  const quire_unit_options options = unit_options(rig);
  EXPECT_WORKS(quire_cache_watch_units(rig.cache.get(), &options, err));
  (void)computed(rig);
  std::vector<quire_unit> units(16);
  uint64_t count = 0;
  call(rig.cache.get(), units.data(), units.size(), &count);
  ASSERT_GT(count, 0U);
  for (uint64_t i = 0; i < count; ++i) EXPECT_WORKS(quire_hold_end(rig.cache.get(), units[i].hold, err));
}

ROW(quire_prefix_digests) {
  const auto identity = sized<quire_identity>();
  const std::vector<quire_symbol> symbols = {1, 2, 3, 4};
  const std::vector<uint64_t> ends = {0, 2, 4};
  std::vector<uint8_t> digests(96);
  const auto wrong = [&](std::vector<uint64_t> list, const char* part) {
    EXPECT_FAILS(QUIRE_OUT_OF_RANGE, part,
                 quire_prefix_digests(rig.cache.get(), nullptr, symbols.data(), 4, list.data(), list.size(), digests.data(), err));
  };
  wrong({2, 1}, "ends[1]: 1, the one before is 2");
  wrong({5}, "ends[0]: 5, the one before is 0 and there are 4 symbols");
  const quire_symbol stranger = 0xfffffff0;
  const uint64_t one = 1;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "symbols",
               quire_prefix_digests(rig.cache.get(), nullptr, &stranger, 1, &one, 1, digests.data(), err));
  EXPECT_EQ(digests, std::vector<uint8_t>(96));
  call.null_is_legal({"identity"}).any({"num_symbols", "n"});
  call(rig.cache.get(), &identity, symbols.data(), symbols.size(), ends.data(), ends.size(), digests.data());
  EXPECT_NE(std::memcmp(digests.data() + 32, digests.data() + 64, 32), 0);
}

}  // namespace
}  // namespace quire::test
