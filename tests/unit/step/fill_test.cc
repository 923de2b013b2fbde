// What a step shows of its tables to engines that upload only what changed.
#include <vector>

#include "fixture.h"

namespace quire {
namespace {

struct Updates {
  int32_t first = 0;
  std::vector<int32_t> ids;
};

Updates updates_of(const Fixture& f, StepId step) {
  int32_t first = 0, indptr[2] = {};
  std::vector<int32_t> ids(64);
  uint64_t written = 0;
  const auto take = [&](quire_fill_kind kind, int32_t* out, uint64_t capacity) {
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.destination = out;
    fill.capacity = capacity;
    const Status ok = f.cache->step_fill(step, {&fill, 1}, &written);
    EXPECT_TRUE(ok.ok()) << ok.message();
  };
  take(QUIRE_FILL_UPDATE_FIRST, &first, 1);
  take(QUIRE_FILL_UPDATE_INDPTR, indptr, 2);
  take(QUIRE_FILL_UPDATE_INDICES, ids.data(), ids.size());
  EXPECT_EQ(written, static_cast<uint64_t>(indptr[1]));
  ids.resize(written);
  return {first, ids};
}

TEST(Fill, UpdatesAreWhatARowShowsForTheFirstTime) {
  Fixture f({kFull});
  SequenceId id = f.open();
  StepId step;
  f.reserve(id, count_from(0, 10), 10, QUIRE_ENTRY_MATCH, &step);
  Updates u = updates_of(f, step);
  EXPECT_EQ(u.first, 0);
  ASSERT_EQ(u.ids.size(), 3u) << "a first row shows all";
  const std::vector<int32_t> all = u.ids;
  ASSERT_TRUE(f.commit(step, id, 10).ok());
  f.reserve(id, count_from(10, 2), 2, 0, &step);
  EXPECT_TRUE(updates_of(f, step).ids.empty()) << "the block is known";
  ASSERT_TRUE(f.commit(step, id, 2).ok());
  f.reserve(id, count_from(12, 1), 1, 0, &step);
  u = updates_of(f, step);
  EXPECT_EQ(u.first, 3);
  EXPECT_EQ(u.ids.size(), 1u);
  ASSERT_TRUE(f.cache->abort(step).ok());
  f.reserve(id, count_from(12, 1), 1, 0, &step);
  EXPECT_EQ(updates_of(f, step).ids.size(), 1u) << "nobody may have looked at what an aborted step showed";
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  const SequenceId child = *f.cache->sequence_fork(id);
  f.reserve(child, count_from(13, 1), 1, 0, &step);
  u = updates_of(f, step);
  EXPECT_EQ(u.first, 0);
  ASSERT_EQ(u.ids.size(), 4u);
  EXPECT_EQ(u.ids[0], all[0]);
  ASSERT_TRUE(f.commit(step, child, 1).ok());
  f.reserve(id, count_from(50, 1), 1, 0, &step);
  u = updates_of(f, step);
  EXPECT_TRUE(u.ids.empty()) << "the child took the copy; the parent is alone with its block";
  ASSERT_TRUE(f.commit(step, id, 1).ok());
  ASSERT_TRUE(f.cache->sequence_preempt(id).ok());
  f.reserve(id, count_from(0, 10), 10, QUIRE_ENTRY_MATCH, &step);
  EXPECT_EQ(updates_of(f, step).first, 0);
  EXPECT_EQ(updates_of(f, step).ids.size(), 3u) << "all again";
  ASSERT_TRUE(f.commit(step, id, 2).ok());
}

}  // namespace
}  // namespace quire
