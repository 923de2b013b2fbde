#include "tests/connectors/host_store_rig.h"

#include <cstring>
#include <memory>

namespace quire::host {

StoreRig::StoreRig(uint64_t num_chunks, const std::string& shared) {
  RegionOptions options;
  options.capacity = num_chunks * kTestChunk;
  options.chunk_bytes = kTestChunk;
  options.shared = shared;
  const Outcome outcome = region_.open(options);
  EXPECT_TRUE(outcome.ok()) << outcome.text;
  if (outcome.ok()) store_.attach(region_.base(), region_.geometry());
}

// The store only borrows the bytes of a key.
Key StoreRig::name(uint64_t key) const {
  static thread_local uint64_t bytes;
  bytes = key;
  return store_.key(reinterpret_cast<const uint8_t*>(&bytes), sizeof bytes);
}

Begun StoreRig::begin(Place* place, uint64_t key, uint64_t object_bytes, int64_t now) {
  int64_t room_at = 0;
  return store_.begin_store(place, name(key), object_bytes, use(), now, &room_at);
}

bool StoreRig::put(Place* place, uint64_t key, uint64_t object_bytes, int64_t now) {
  return begin(place, key, object_bytes, now) == Begun::kYes && store_.publish(place, use());
}

std::vector<uint64_t> StoreRig::order() const {
  std::vector<uint64_t> keys;
  for (uint32_t i = store_.header().newest; i != kNone; i = store_.record(i).older) {
    uint64_t key = 0;
    std::memcpy(&key, store_.record(i).key, sizeof key);
    keys.push_back(key);
  }
  return keys;
}

testing::AssertionResult StoreRig::sound() const {
  const Header& header = store_.header();
  const auto* buckets = reinterpret_cast<const uint32_t*>(region_.base() + region_.geometry().buckets_at);
  const auto wrong = [](const std::string& what, uint64_t number) { return testing::AssertionFailure() << what << " " << number; };
  std::vector<int> users(store_.num_chunks(), 0);
  uint64_t whole = 0;
  for (uint32_t i = 0; i < store_.num_chunks(); ++i) {
    const Record& r = store_.record(i);
    if (r.state == kNoObject) continue;
    uint32_t chunk = i;
    for (uint32_t n = 0; n < r.num_chunks; ++n, chunk = store_.record(chunk).next) {
      if (chunk >= store_.num_chunks() || users[chunk]++ != 0) return wrong("a chunk of two objects or none: object", i);
      if (n + 1 == r.num_chunks && chunk != r.last) return wrong("last chunk of object", i);
    }
    if (r.num_chunks != store_.chunks_for(r.object_bytes)) return wrong("number of chunks of object", i);
    if (r.state != kWhole) continue;
    ++whole;
    if (store_.find({r.key, r.key_bytes, r.hash}) != i) return wrong("the index does not have object", i);
  }
  uint64_t free = 0;
  for (uint32_t i = header.first_free; i != kNone; i = store_.record(i).next, ++free) {
    if (users[i]++ != 0) return wrong("not free, or free twice: chunk", i);
  }
  if (free != header.free_chunks) return wrong("free chunks in the list", free);
  for (uint32_t i = 0; i < store_.num_chunks(); ++i) {
    if (users[i] != 1) return wrong("lost: chunk", i);
  }
  uint64_t indexed = 0, ordered = 0;
  for (uint64_t b = 0; b < region_.geometry().num_buckets; ++b) {
    for (uint32_t i = buckets[b]; i != kNone; i = store_.record(i).bucket_next) ++indexed;
  }
  uint32_t newer = kNone;
  for (uint32_t i = header.newest; i != kNone; newer = i, i = store_.record(i).older, ++ordered) {
    if (store_.record(i).newer != newer) return wrong("links of order at object", i);
    if (newer != kNone && store_.record(newer).use < store_.record(i).use) return wrong("order of use at object", i);
  }
  if (header.oldest != newer) return wrong("oldest is", header.oldest);
  if (indexed != whole || ordered != whole || header.num_objects != whole) return wrong("objects", whole);
  return testing::AssertionSuccess();
}

}  // namespace quire::host
