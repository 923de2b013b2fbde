// Names of blocks under roots whose names found no memory.
#include <string>
#include <vector>

#include "fixture.h"
#include "tests/unit/allocations.h"

namespace quire {
namespace {

// The first hash of the last event, where it is one of stored blocks.
std::string last_stored(const Cache& cache) {
  std::vector<quire_event> events(64);
  std::vector<uint8_t> data(1 << 16);
  quire_event_batch batch{};
  batch.struct_size = sizeof batch;
  const Status status = cache.read_events(0, events, data, &batch);
  if (status.code() == QUIRE_DATA_LOSS) {  // what was lost is in no event
    if (!cache.read_events(batch.oldest, events, data, &batch).ok()) return "";
  }
  if (batch.num_events == 0 || events[batch.num_events - 1].type != QUIRE_EVENT_STORED) return "";
  const quire_event& e = events[batch.num_events - 1];
  return {reinterpret_cast<const char*>(data.data()) + e.hashes_offset, e.hash_bytes};
}

quire_event_options sha256() {
  quire_event_options options{};
  options.struct_size = sizeof options;
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.seed = {"0", 1};
  return options;
}

// A sequence that holds nothing goes on under a new root after a reset. Where its names find no memory, its blocks have no name rather than
// that of another tenant's.
TEST(Events, ARootThatFoundNoMemoryForItsNamesNamesNothing) {
  constexpr std::string_view kSalt = "a salt that is longer than any string that fits in itself";
  std::string right;
  bool failed = true;
  for (int64_t n = -1; failed || n == 0; ++n) {  // -1: none fails
    Fixture f({kFull}, 64);
    ASSERT_TRUE(f.cache->enable_events(sha256()).ok());
    const SequenceId idle = f.open(kSalt), other = f.open(kSalt);
    f.prefill(other, count_from(1, 9));
    ASSERT_TRUE(f.cache->sequence_finish(other).ok());
    test::until = n;
    test::failed = 0;
    test::armed = n >= 0;
    ASSERT_TRUE(f.cache->reset().ok());
    test::armed = false;
    failed = test::failed > 0;
    f.prefill(idle, count_from(1, 9));
    const std::string name = last_stored(*f.cache);
    if (n < 0) {
      ASSERT_NE(name, "");
      right = name;
    } else if (!name.empty()) {
      EXPECT_EQ(name, right) << "allocation " << n;
    }
    EXPECT_TRUE(f.cache->verify().ok());
  }
}

}  // namespace
}  // namespace quire
