// Records that somebody made on purpose: header and checksums agree, and what they say is not so. Whatever they say, nothing is written
// outside of what a load reserved, and nobody dies.
#include <cstdio>
#include <cstring>
#include <map>

#include "tests/fakes/made_record.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

using Record = std::vector<uint8_t>;

using Made = MadeRecord;

uint64_t number(const Record& record, size_t at, size_t bytes = 8) {
  uint64_t value = 0;
  std::memcpy(&value, &record[at], bytes);
  return value;
}

void put(uint64_t value, size_t at, Record* record, size_t bytes = 8) { std::memcpy(&(*record)[at], &value, bytes); }

EngineOptions options() {
  EngineOptions o;
  o.layers = {full_layer(), state_layer(), window_layer(40)};
  return o;
}

const Text kText = count_text(1, 300);

// The records of a prompt, by key.
std::map<std::string, Record> records_of() {
  Clock clock;
  FakeStore store;
  Engine writer(clock, options(), {&store});
  writer.compute(kText);
  writer.settle();
  std::map<std::string, Record> records;
  for (const std::string& key : store.keys()) records[key] = *store.get(key);
  return records;
}

// A fetch by somebody else, from these records.
quire_fetch_result fetch_from(const std::map<std::string, Record>& records, quire_tier_stats* tier) {
  Clock clock;
  FakeStore store;
  for (const auto& [key, bytes] : records) store.put(key, bytes);
  Engine reader(clock, options(), {&store});
  const quire_sequence_id sequence = reader.open();
  reader.begin(sequence, kText);
  const quire_fetch_result got = reader.wait();
  *tier = reader.tier();
  EXPECT_EQ(reader.cache_stats().loads, 0U);
  reader.verify();
  EXPECT_TRUE(store.violations().empty());
  return got;
}

bool is_state(const Record& record) { return number(record, Made::kBlockTokensAt) == 0; }

TEST(HostileRecords, AreOnesThatWouldBeReadOtherwise) {
  quire_tier_stats tier{};
  std::map<std::string, Record> records = records_of();
  for (auto& [key, record] : records) Made::sign(&record);
  EXPECT_EQ(fetch_from(records, &tier).outcome, QUIRE_FETCH_DONE);
}

TEST(HostileRecords, AStateOfNoBlockIsNoState) {
  std::map<std::string, Record> records = records_of();
  size_t changed = 0;
  for (auto& [key, record] : records) {
    if (!is_state(record)) continue;
    ++changed;
    put(0, Made::kPayloadAt, &record);
    put(0, Made::kStretchesAt + 8, &record);
    put(0, Made::kSumsAt, &record);
    record.resize(number(record, Made::kSizeAt, 4));
    Made::sign(&record);
  }
  ASSERT_GT(changed, 0U);
  quire_tier_stats tier{};
  const quire_fetch_result got = fetch_from(records, &tier);
  EXPECT_NE(got.outcome, QUIRE_FETCH_DONE);
  EXPECT_EQ(got.committed, 0U);
  EXPECT_GT(tier.objects_damaged, 0U);
}

// Every word of the shape and of the numbers before it becomes each of these.
TEST(HostileRecords, WithAnyShapeHarmNobody) {
  const std::map<std::string, Record> good = records_of();
  const uint64_t words[] = {0, 1, 2, 3, 17, 0x10000, 0x100000, 0x7fffffff, 0xffffffff};
  size_t tried = 0, read = 0;
  for (size_t at = Made::kBlockTokensAt; at < 1200; at += 4) {
    for (const uint64_t word : words) {
      std::map<std::string, Record> records = good;
      bool any = false;
      for (auto& [key, record] : records) {
        if (at + 4 > Made::kShapeAt + number(record, Made::kShapeBytesAt) || number(record, at, 4) == word) continue;
        put(word, at, &record, 4);
        Made::sign(&record);
        any = true;
      }
      if (!any) continue;
      SCOPED_TRACE(std::to_string(at) + " = " + std::to_string(word));
      ++tried;
      quire_tier_stats tier{};
      const quire_fetch_result got = fetch_from(records, &tier);
      read += got.outcome == QUIRE_FETCH_DONE ? 1 : 0;
    }
  }
  std::printf("%zu changes, %zu of them made no difference\n", tried, read);
  EXPECT_GT(tried, 300U);
  EXPECT_LT(read, tried / 2);
}

// Of payload bytes more or less than the header has blocks for.
TEST(HostileRecords, OfAnotherLengthAreDamaged) {
  const std::map<std::string, Record> good = records_of();
  for (const int64_t change : {-4096, -1, 1, 4096}) {
    std::map<std::string, Record> records = good;
    for (auto& [key, record] : records) record.resize(static_cast<size_t>(static_cast<int64_t>(record.size()) + change));
    quire_tier_stats tier{};
    const quire_fetch_result got = fetch_from(records, &tier);
    EXPECT_NE(got.outcome, QUIRE_FETCH_DONE) << change;
    EXPECT_EQ(got.committed, 0U) << change;
  }
}

}  // namespace
}  // namespace quire::test
