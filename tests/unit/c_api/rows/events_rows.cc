// Rows of quire/events.h.
#include <quire/events.h>

#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_hash_bytes) {
  EXPECT_EQ(quire_hash_bytes(-1), 0U);
  EXPECT_EQ(quire_hash_bytes(1000), 0U);
}

ROW(quire_hash_blocks) {
  auto options = sized<quire_hash_options>();
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.block_tokens = 2;
  const int64_t tokens[4] = {1, 2, 3, 4};
  std::vector<uint8_t> digests(256);
  uint64_t count = 0;
  call.any({"num_tokens"}).null_is_legal({"digests"});  // with capacity 0: the count is asked for
  call(&options, tokens, uint64_t{4}, digests.data(), uint64_t{2}, &count);
  EXPECT_EQ(count, 2U);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "capacity is 2", quire_hash_blocks(&options, tokens, 4, nullptr, 2, &count, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "1", quire_hash_blocks(&options, tokens, 4, digests.data(), 1, &count, err));
}

quire_event_options event_options() {
  auto options = sized<quire_event_options>();
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  return options;
}

ROW(quire_cache_enable_events) {
  const quire_event_options options = event_options();
  call(rig.cache.get(), &options);
}

ROW(quire_cache_name_media) {
  const quire_event_options options = event_options();
  EXPECT_WORKS(quire_cache_enable_events(rig.cache.get(), &options, err));
  const uint8_t digest[32] = {1};
  quire_symbol first = 0;
  EXPECT_WORKS(quire_cache_add_media(rig.cache.get(), digest, 3, &first, err));
  call.any({"placeholder"}).bad("first", {0, first + 1, UINT32_MAX}, QUIRE_NOT_FOUND);
  call(rig.cache.get(), first, text("picture"), int64_t{7});
}

ROW(quire_cache_read_events) {
  const quire_event_options options = event_options();
  EXPECT_WORKS(quire_cache_enable_events(rig.cache.get(), &options, err));
  auto batch = sized<quire_event_batch>();
  std::vector<quire_event> events(4);
  std::vector<uint64_t> data(64);
  call.any({"capacity", "data_capacity"}).bad("from", {1, UINT64_MAX}, QUIRE_OUT_OF_RANGE).elements({"events"});
  call(rig.cache.get(), uint64_t{0}, events.data(), uint64_t{4}, reinterpret_cast<uint8_t*>(data.data()), uint64_t{512}, &batch);
  EXPECT_EQ(batch.next, 0U);
}

ROW(quire_cache_snapshot_events) {
  const quire_event_options options = event_options();
  EXPECT_WORKS(quire_cache_enable_events(rig.cache.get(), &options, err));
  auto batch = sized<quire_event_batch>();
  std::vector<quire_event> events(4);
  std::vector<uint64_t> data(64);
  call.any({"capacity", "data_capacity"}).elements({"events"});
  call(rig.cache.get(), events.data(), uint64_t{4}, reinterpret_cast<uint8_t*>(data.data()), uint64_t{512}, &batch);
  EXPECT_EQ(batch.num_events, 0U);
}

ROW(quire_events_encode) {
  std::vector<quire_event> events(1);
  events[0].type = QUIRE_EVENT_CLEARED;
  std::vector<uint64_t> data(1);
  std::vector<uint8_t> bytes(64);
  uint64_t count = 0;
  auto encoding = sized<quire_event_encoding>();
  encoding.time = 1;
  call.any({"num_events", "data_bytes"}).null_is_legal({"bytes"});
  call.elements({"events"});
  call(events.data(), uint64_t{1}, reinterpret_cast<const uint8_t*>(data.data()), uint64_t{8}, &encoding, bytes.data(), uint64_t{64},
       &count);
  EXPECT_EQ(count, 35U);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity is 1",
               quire_events_encode(events.data(), 1, nullptr, 0, &encoding, bytes.data(), 1, &count, err));
}

}  // namespace
}  // namespace quire::test
