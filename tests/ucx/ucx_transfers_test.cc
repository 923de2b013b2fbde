// What a reader gets from an owner: every byte, and nothing more.
#include <algorithm>
#include <chrono>
#include <utility>

#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

uint64_t bytes_of(const Runs& runs) {
  uint64_t sum = 0;
  for (const quire_ticket_run& run : runs) sum += run.bytes * run.count;
  return sum;
}

TEST(UcxTransfers, AReaderGetsWhatIsOffered) {
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  const Bytes object = content(1, 5'000'000);
  owner.offer(ucx_key(1, 7), object);
  const Key key = ucx_key(1, 7, owner.address());
  EXPECT_EQ(reader.sizes({key, ucx_key(2, 7, owner.address())}), (std::vector<uint64_t>{5'000'000, 0}));
  EXPECT_TRUE(reader.holds(key, object));
  Bytes out;
  EXPECT_EQ(reader.load(ucx_key(1, 8, owner.address()), 0, 1, &out).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(reader.load(ucx_key(1, 0, owner.address()), 0, 1, &out).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(reader.remove(ucx_key(1, 8, owner.address())).code, QUIRE_NOT_FOUND);
  EXPECT_TRUE(owner.client().poll(0).empty());
  EXPECT_EQ(reader.remove(key).code, QUIRE_OK);
  const auto ends = owner.client().poll(5 * kSecond);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].code, QUIRE_OK);
  EXPECT_EQ(reader.load(key, 0, 1, &out).code, QUIRE_NOT_FOUND) << "it is consumed";
}

// Any runs at both ends.
TEST(UcxTransfers, RandomRunsAtBothEnds) {
  Rng rng(seed());
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  for (uint64_t round = 0; round < 120 / kSlowness; ++round) {
    const uint64_t bytes = 1 + below(&rng, round % 3 == 0 ? 6'000'000 : 8000);
    const Bytes object = content(round, bytes);
    owner.offer(ucx_key(round, round + 1), object, covering(&rng, bytes));
    for (int load = 0; load < 3; ++load) {
      Layout read = load == 0 ? covering(&rng, bytes) : reading(&rng, bytes);
      Memory target(&read, below(&rng, 64));
      target.expect(read.runs, object);
      Batch batch;
      const uint64_t ticket = batch.load(ucx_key(round, round + 1, owner.address()), read.runs).ticket;
      const quire_completion end = reader.run(batch)[ticket];
      ASSERT_EQ(end.code, QUIRE_OK) << round;
      EXPECT_EQ(end.bytes, bytes_of(read.runs));
      ASSERT_TRUE(target.intact()) << "round " << round << ", " << read.runs.size() << " runs of " << bytes << " bytes";
    }
  }
}

}  // namespace
