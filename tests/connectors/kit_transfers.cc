// Bytes of stores and loads: every size, run and offset, and nothing beside them.
#include <algorithm>

#include "kit.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

TEST_P(ConnectorKit, SaysWhatItCanDo) {
  Client client = open(kMiB);
  const quire_connector_info& info = client.info();
  EXPECT_EQ(info.flags & ~0x1fu, 0u);
  EXPECT_NE(info.device_types & (uint64_t{1} << QUIRE_DEVICE_CPU), 0u);
  EXPECT_EQ(info.alignment & (info.alignment - 1), 0u);
  EXPECT_TRUE(info.max_key_bytes == 0 || info.max_key_bytes >= 32) << "keys of the library have 32 bytes";
}

// Powers of two and their neighbours; then back, from the last byte to the first.
TEST_P(ConnectorKit, KeepsObjectsOfEverySize) {
  Client client = open(100 * kMiB);
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1; size <= 4 * kMiB; size *= 4) {
    for (const uint64_t near : {size - 1, size, size + 1}) {
      if (near != 0 && (sizes.empty() || near > sizes.back())) sizes.push_back(near);
    }
  }
  sizes.push_back(64 * kMiB / kSlowness);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const quire_completion end = client.store(key(i), content(i, sizes[i]));
    ASSERT_EQ(end.code, QUIRE_OK) << sizes[i];
    EXPECT_EQ(end.bytes, sizes[i]);
    EXPECT_EQ(end.flags, 0u);
  }
  std::map<Key, uint64_t> all;
  for (size_t i = 0; i < sizes.size(); ++i) all[key(i)] = sizes[i];
  for (size_t i = sizes.size(); i-- > 0;) EXPECT_TRUE(client.holds(key(i), content(i, sizes[i]))) << sizes[i];
  EXPECT_TRUE(client.keeps(all));
}

TEST_P(ConnectorKit, StoresAndLoadsRandomRuns) {
  Rng rng(seed());
  Client client = open(64 * kMiB);
  for (uint64_t round = 0; round < 60; ++round) {
    const uint64_t bytes = 1 + below(&rng, round % 3 == 0 ? 600 * kKiB : 5000);
    const Bytes object = content(round, bytes);
    Layout written = covering(&rng, bytes);
    Memory source(&written, below(&rng, 64));
    source.fill(written.runs, object);
    Batch batch;
    const uint64_t stored = batch.store(key(round), written.runs, bytes).ticket;
    const quire_completion end = client.run(batch)[stored];
    ASSERT_EQ(end.code, QUIRE_OK);
    EXPECT_EQ(end.bytes, bytes);
    EXPECT_TRUE(source.intact());
    for (int reader = 0; reader < 4; ++reader) {
      Layout read = reader == 0 ? covering(&rng, bytes) : reading(&rng, bytes);
      Memory target(&read, below(&rng, 64));
      target.expect(read.runs, object);
      Batch loads;
      const uint64_t loaded = loads.load(key(round), read.runs).ticket;
      const quire_completion loaded_end = client.run(loads)[loaded];
      ASSERT_EQ(loaded_end.code, QUIRE_OK);
      uint64_t named = 0;
      for (const quire_ticket_run& run : read.runs) named += run.bytes * run.count;
      EXPECT_EQ(loaded_end.bytes, named);
      ASSERT_TRUE(target.intact()) << "round " << round << ", " << read.runs.size() << " runs of " << bytes << " bytes";
    }
  }
}

TEST_P(ConnectorKit, LoadsRangesUpToTheLastByteAndNoFurther) {
  Client client = open(8 * kMiB);
  const uint64_t bytes = 300 * kKiB + 17;
  const Bytes object = content(1, bytes);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  Bytes out;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, 4095 * uint64_t{1}, 64 * kKiB - 1, 128 * kKiB, bytes - 5, bytes - 1}) {
    const uint64_t size = std::min<uint64_t>(bytes - offset, 70'001);
    const quire_completion end = client.load(key(1), offset, size, &out);
    ASSERT_EQ(end.code, QUIRE_OK) << offset;
    EXPECT_TRUE(std::equal(out.begin(), out.end(), object.begin() + static_cast<ptrdiff_t>(offset))) << offset;
  }
  EXPECT_EQ(client.load(key(1), bytes, 1, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(client.load(key(1), bytes - 1, 2, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(client.load(key(1), 0, bytes + 1, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(client.load(key(1), uint64_t{1} << 40, 1, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_TRUE(client.holds(key(1), object));
}

TEST_P(ConnectorKit, FindsNothingInAnEmptyStore) {
  Client client = open(kMiB);
  Layout layout = dense(0, 1000);
  Memory memory(&layout);
  Batch batch;
  const uint64_t load = batch.load(key(1), layout.runs).ticket;
  const uint64_t remove = batch.remove(key(2)).ticket;
  Ends ends = client.run(batch);
  EXPECT_EQ(ends[load].code, QUIRE_NOT_FOUND);
  EXPECT_EQ(ends[load].bytes, 0u);
  EXPECT_EQ(ends[remove].code, QUIRE_NOT_FOUND);
  EXPECT_TRUE(memory.intact());
  EXPECT_EQ(client.sizes({key(1), key(2)}), (std::vector<uint64_t>{0, 0}));
  EXPECT_TRUE(client.keeps({}));
}

TEST_P(ConnectorKit, KeepsWhatWasStoredFirst) {
  Client client = open(4 * kMiB);
  const Bytes first = content(1, 200'000);
  ASSERT_EQ(client.store(key(1), first).code, QUIRE_OK);
  for (const uint64_t bytes : {200'000, 1, 300'000}) {
    const quire_completion end = client.store(key(1), content(2, bytes));
    EXPECT_EQ(end.code, QUIRE_OK);
    EXPECT_EQ(end.flags, QUIRE_COMPLETION_EXISTED);
    EXPECT_EQ(end.bytes, 0u);
  }
  EXPECT_TRUE(client.holds(key(1), first));
  EXPECT_EQ(client.sizes({key(1)})[0], 200'000u);
}

// Stores of one key at the same time: one of them is kept, whole, and the others say that it existed.
TEST_P(ConnectorKit, OneOfManyStoresOfAKeyIsKept) {
  Client client = open(16 * kMiB);
  constexpr uint64_t kStores = 8;
  constexpr uint64_t kObject = 400'000;
  std::vector<Layout> layouts(kStores, dense(0, kObject));
  std::vector<Memory> memories;
  Batch batch;
  for (uint64_t i = 0; i < kStores; ++i) {
    memories.emplace_back(&layouts[i]);
    memories[i].fill(layouts[i].runs, content(i, kObject));
    batch.store(key(9), layouts[i].runs, kObject);
  }
  uint64_t kept = kStores;
  Ends ends = client.run(batch);
  for (uint64_t i = 0; i < kStores; ++i) {
    const quire_completion& end = ends[batch.tickets()[i].ticket];
    EXPECT_EQ(end.code, QUIRE_OK);
    if ((end.flags & QUIRE_COMPLETION_EXISTED) != 0) continue;
    EXPECT_EQ(kept, kStores) << "two stores wrote";
    kept = i;
  }
  ASSERT_LT(kept, kStores);
  EXPECT_TRUE(client.holds(key(9), content(kept, kObject)));
  EXPECT_TRUE(client.keeps({{key(9), kObject}}));
}

TEST_P(ConnectorKit, LoadsOfOneObjectMayOverlap) {
  Rng rng(seed());
  Client client = open(8 * kMiB);
  const uint64_t bytes = 1'500'000;
  const Bytes object = content(3, bytes);
  ASSERT_EQ(client.store(key(3), object).code, QUIRE_OK);
  std::vector<Layout> layouts;
  std::vector<Memory> memories;
  Batch batch;
  for (int i = 0; i < 24; ++i) {
    layouts.push_back(i % 3 == 0 ? dense(0, bytes) : reading(&rng, bytes));
    memories.emplace_back(&layouts.back(), below(&rng, 64));
    memories.back().expect(layouts.back().runs, object);
    batch.load(key(3), layouts.back().runs);
  }
  for (const auto& [ticket, end] : client.run(batch)) EXPECT_EQ(end.code, QUIRE_OK) << ticket;
  for (const Memory& memory : memories) EXPECT_TRUE(memory.intact());
}

// Keys are bytes: zeros in them count, and so does their length.
TEST_P(ConnectorKit, KeysAreBytes) {
  Client client = open(4 * kMiB);
  uint64_t most = client.info().max_key_bytes == 0 ? 64 : client.info().max_key_bytes;
  if (GetParam().plain_key_bytes != 0) most = GetParam().plain_key_bytes;
  std::vector<Key> keys = {Key(1, 0), Key(2, 0), "a",     Key("a\0", 2), "ab",         "/",
                           "..",      "\xff",    "\n%\"", key(4, most),  key(5, most), key(4, most - 1)};
  for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(client.store(keys[i], content(i, 100 + i)).code, QUIRE_OK) << i;
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_TRUE(client.holds(keys[i], content(i, 100 + i))) << i;
  std::map<Key, uint64_t> all;
  for (size_t i = 0; i < keys.size(); ++i) all[keys[i]] = 100 + i;
  EXPECT_TRUE(client.keeps(all));
}

}  // namespace
