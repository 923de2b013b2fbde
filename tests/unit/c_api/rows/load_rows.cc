// Rows of quire/load.h.
#include "rows.h"

namespace quire::test {
namespace {

const std::vector<quire_symbol> kSymbols = {1, 2, 3, 4};

quire_reserve_entry entry_of(const Rig& rig) {
  quire_reserve_entry entry{};
  EXPECT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &entry.sequence, nullptr), QUIRE_OK);
  entry.num_symbols = entry.num_tokens = 4;
  entry.flags = QUIRE_ENTRY_MATCH;
  return entry;
}

ROW(quire_load_begin) {
  const quire_reserve_entry entry = entry_of(rig);
  quire_reserve_result result{};
  quire_step step{};
  call.any({"num_symbols"});
  const auto wrong = [&](auto change, quire_code code, const char* part) {
    quire_reserve_entry one = entry;
    change(&one);
    EXPECT_FAILS(code, part, quire_load_begin(rig.cache.get(), &one, kSymbols.data(), 4, &result, &step, err));
  };
  wrong([](auto* e) { e->encoder_tokens = 1; }, QUIRE_INVALID_ARGUMENT, "encoder_tokens");
  wrong([](auto* e) { e->flags = 1U << 31; }, QUIRE_INVALID_ARGUMENT, "flags");
  wrong([](auto* e) { e->flags = QUIRE_ENTRY_NO_STOP; }, QUIRE_INVALID_ARGUMENT, "QUIRE_ENTRY_NO_STOP");
  wrong([](auto* e) { e->num_look_ahead = 2; }, QUIRE_INVALID_ARGUMENT, "num_look_ahead: 2");
  wrong([](auto* e) { e->symbols_offset = UINT64_MAX; }, QUIRE_OUT_OF_RANGE, "symbols");
  wrong([](auto* e) { e->sequence = 77; }, QUIRE_NOT_FOUND, "sequence");
  const auto without_match = [](auto* e) { e->flags = 0, e->num_symbols = 3; };
  wrong(without_match, QUIRE_INVALID_ARGUMENT, "entry.num_symbols: 3, the load has 4 tokens whose symbols are not known");
  call(rig.cache.get(), &entry, kSymbols.data(), kSymbols.size(), &result, &step);
  EXPECT_EQ(result.code, QUIRE_OK);
}

quire_step load_of(const Rig& rig) {
  const quire_reserve_entry entry = entry_of(rig);
  quire_reserve_result result{};
  quire_step step{};
  EXPECT_EQ(quire_load_begin(rig.cache.get(), &entry, kSymbols.data(), 4, &result, &step, nullptr), QUIRE_OK);
  return step;
}

ROW(quire_load_get_have) {
  const quire_step step = load_of(rig);
  std::vector<uint64_t> have(16, 77);
  uint64_t count = 0;
  call(step, have.data(), have.size(), &count);
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(have[0] + have[1], 0U);  // nothing is cached
  EXPECT_WORKS(quire_load_get_have(step, nullptr, 0, &count, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity: 1, the plan has 2 groups", quire_load_get_have(step, have.data(), 1, &count, err));
}

ROW(quire_load_end) {
  const quire_step step = load_of(rig);
  const quire_load_failure failure{0, 0, 3, 1};
  uint64_t committed = 0;
  quire_hold_id late = 77;
  call.any({"n"}).null_is_legal({"late"});
  const auto wrong = [&](auto change, quire_code code, const char* part) {
    quire_load_failure one = failure;
    change(&one);
    EXPECT_FAILS(code, part, quire_load_end(step, &one, 1, &committed, &late, err));
  };
  wrong([](auto* f) { f->group = 99; }, QUIRE_OUT_OF_RANGE, "failures[0].group: 99");
  wrong([](auto* f) { f->reserved0 = 1; }, QUIRE_INVALID_ARGUMENT, "failures[0].reserved0");
  wrong([](auto* f) { f->first_token = UINT64_MAX; }, QUIRE_OUT_OF_RANGE, "failures[0]");
  wrong([](auto* f) { f->num_tokens = UINT64_MAX; }, QUIRE_OUT_OF_RANGE, "failures[0]");
  EXPECT_EQ(late, 77U);
  call(step, &failure, uint64_t{1}, &committed, &late);
  EXPECT_WORKS(quire_hold_end(rig.cache.get(), late, err));
  // Whoever waits for every transfer gives none.
  EXPECT_WORKS(quire_load_end(load_of(rig), nullptr, 0, &committed, nullptr, err));
  EXPECT_EQ(committed, 4U);
}

}  // namespace
}  // namespace quire::test
