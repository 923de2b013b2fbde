// What lies in the region of a store, in memory of one process or of several. Everything names
// everything else by number, because processes map the region at different addresses.
//
//   Header | buckets of the hash index | one Record per chunk | chunks
//
// Bytes are kept in chunks of equal size. An object is a list of chunks, so there are no gaps
// between objects. Only a part of the last chunk of an object is wasted. The record of the first
// chunk describes the object.
//
// The truth is in the records: `state`, and what belongs to a first chunk. Index, order of use,
// free list, counters and `readers` follow from it. They are made again (repair.cc) when a process
// died while it changed them. So `state` is written last when an object begins and first when it
// ends.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace quire::host {

inline constexpr uint64_t kMagic = 0x54534f4852495551;  // "QUIRHOST"
inline constexpr uint32_t kLayoutVersion = 1;
inline constexpr uint32_t kNone = UINT32_MAX;
inline constexpr uint32_t kMaxKeyBytes = 128;
inline constexpr uint32_t kMaxPlaces = 256;  // worker threads of all processes

// Of the first chunk of an object. All other chunks are kNoObject.
enum State : uint32_t {
  kNoObject = 0,
  kWriting = 1,  // its bytes are on their way; nobody finds it
  kWhole = 2,    // in the index
  kLeaving = 3,  // removed; it ends with its last reader
};

struct Record {
  std::atomic<uint32_t> state;
  uint32_t next;  // chunk of the object, or free chunk
  uint32_t last;  // chunk of the object
  uint32_t num_chunks;
  uint32_t bucket_next;
  uint32_t newer, older;  // in the order of use
  uint32_t readers;       // places that load it
  uint32_t mark;          // used by a repair
  uint32_t key_bytes;
  uint64_t object_bytes;
  uint64_t hash;
  uint64_t use;       // a greater number is more recent
  int64_t lease_end;  // CLOCK_MONOTONIC, which all processes share
  uint8_t key[kMaxKeyBytes];
};

// What a worker thread does with an object while it does not hold the lock.
enum Work : uint32_t { kIdle = 0, kLoads = 1, kStores = 2 };

// Of one worker thread, which holds `alive` as long as it lives. Whoever can take it knows that the
// thread is gone.
struct Place {
  pthread_mutex_t alive;
  uint32_t work;
  uint32_t record;
};

struct Header {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t header_bytes;  // sizeof, as a check of the compiler's opinion
  uint32_t record_bytes;
  uint32_t num_places;
  uint64_t chunk_bytes;
  uint64_t num_chunks;
  uint64_t num_buckets;  // power of two
  uint64_t region_bytes;
  uint64_t seed;  // of the hash

  pthread_mutex_t lock;  // of all that follows, and of records and places
  uint32_t first_free;
  uint32_t newest, oldest;
  std::atomic<uint64_t> free_chunks;
  std::atomic<uint64_t> num_objects;
  std::atomic<uint64_t> num_evicted;
  std::atomic<uint64_t> num_damaged;
  std::atomic<uint64_t> next_use;  // counts without the lock
  uint32_t num_claimed;            // places from this one on were never used
  Place places[kMaxPlaces];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");
static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared between processes");

// Sizes and offsets of a region.
struct Geometry {
  uint64_t chunk_bytes = 0;
  uint64_t num_chunks = 0;
  uint64_t num_buckets = 0;
  uint64_t buckets_at = 0;
  uint64_t records_at = 0;
  uint64_t chunks_at = 0;
  uint64_t region_bytes = 0;
};

// capacity: a multiple of chunk_bytes, below 2^32 - 1 chunks. chunk_bytes: a power of two.
Geometry geometry_of(uint64_t capacity, uint64_t chunk_bytes);

}  // namespace quire::host
