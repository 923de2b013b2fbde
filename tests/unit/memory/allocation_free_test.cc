// After creation the engine's loop allocates nothing on the way through the gate: every operator new of the process is counted.
#include "../allocations.h"
#include "../c_api/api_rig.h"

namespace quire::test {
namespace {

// One step of one sequence: reserve, prepare, fill a table, commit. Returns its copies.
uint64_t one_step(const Rig& rig, quire_sequence_id sequence) {
  static const quire_symbol symbols[4] = {11, 12, 13, 14};
  quire_error err{};
  err.struct_size = sizeof err;
  quire_reserve_entry entry{};
  entry.sequence = sequence;
  quire_sequence_info known{};
  known.struct_size = sizeof known;
  EXPECT_EQ(quire_sequence_get_info(rig.cache.get(), sequence, &known, &err), QUIRE_OK) << err.message;
  entry.symbols_position = known.known;
  entry.num_symbols = 4;
  entry.num_tokens = 4;
  quire_reserve_result result{};
  quire_step step{};
  EXPECT_EQ(quire_reserve(rig.cache.get(), &entry, 1, symbols, 4, &result, &step, &err), QUIRE_OK) << err.message;
  quire_step_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(quire_step_get_info(step, &info, &err), QUIRE_OK) << err.message;
  EXPECT_EQ(quire_memory_prepare_step(rig.memory.get(), step, rig.stream.get(), &err), QUIRE_OK) << err.message;
  int32_t lengths[4] = {};
  quire_fill fill{};
  fill.struct_size = sizeof fill;
  fill.kind = QUIRE_FILL_KV_LEN;
  fill.destination = lengths;
  fill.capacity = 4;
  uint64_t written = 0;
  EXPECT_EQ(quire_step_fill(step, &fill, sizeof fill, 1, &written, &err), QUIRE_OK) << err.message;
  quire_commit_entry commit{};
  commit.sequence = sequence;
  commit.num_accepted = result.num_tokens;
  EXPECT_EQ(quire_commit(step, &commit, 1, nullptr, 0, &err), QUIRE_OK) << err.message;
  return info.num_copies;
}

TEST(Steady, TheLoopAllocatesNothing) {
  const Rig rig("", 40);
  ASSERT_TRUE(rig.whole());
  // One sequence keeps its identity known: opening one that nobody has is no step.
  quire_sequence_id first = 0;
  ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &first, nullptr), QUIRE_OK);
  uint64_t copies = 0;
  const auto rounds = [&](int n) {
    for (int i = 0; i < n; ++i) {
      quire_sequence_id parent = 0;
      quire_sequence_id child = 0;
      ASSERT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &parent, nullptr), QUIRE_OK);
      one_step(rig, parent);
      ASSERT_EQ(quire_sequence_fork(rig.cache.get(), parent, &child, nullptr), QUIRE_OK);
      copies += one_step(rig, child);
      copies += one_step(rig, parent);
      ASSERT_EQ(quire_sequence_finish(rig.cache.get(), parent, nullptr), QUIRE_OK);
      ASSERT_EQ(quire_sequence_finish(rig.cache.get(), child, nullptr), QUIRE_OK);
    }
  };
  rounds(2);
  const uint64_t before = allocations;
  copies = 0;
  rounds(20);
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_GT(copies, 0U);
  EXPECT_GT(before, 0U);
}

}  // namespace
}  // namespace quire::test
