// Objects in a region: which there are, in which chunks, who uses them, and which one has to go.
//
// What goes first. Keys are opaque, so a store learns the order of prefixes from use:
//   - Each submission draws as many numbers of use as it names keys. Its first key gets the
//     greatest one. So of keys that are used together an earlier one is more recent.
//   - The object with the smallest number is evicted first.
// A chain that is looked up, loaded or stored in prefix order therefore loses its end first and its
// head last. A chain that is stored piece by piece, and never looked up as a whole, goes in the
// order of the pieces. Objects that have a lease or are being loaded are passed over.
//
// All functions but those marked * are called with the lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/host/host_layout.h"
#include "plugins/host/region.h"

namespace quire::host {

struct Key {
  const uint8_t* data = nullptr;
  uint32_t bytes = 0;
  uint64_t hash = 0;
};

// Where in the order of use the last object of a submission went; the next one goes nearby.
struct UseHint {
  uint32_t record = kNone;
  uint64_t use = 0;
};
struct Use {
  uint64_t number = 0;
  UseHint* hint = nullptr;
};

// Asked now and then while the lock cannot be had: true = give up.
struct Patience {
  bool (*over)(const void* of) = [](const void*) { return false; };
  const void* of = nullptr;
};
enum class Locked {
  kYes,
  kGivenUp,
  kBroken,  // for ever
};

struct Repair {
  bool made = false;
  uint64_t kept = 0;
  uint64_t dropped = 0;
};

enum class Begun { kYes, kExists, kNoRoom };

class Store {
 public:
  void attach(char* base, const Geometry& geometry);

  // * A lock whose owner died is taken over; then the index is made again from the records.
  Locked lock(const Patience& patience);
  // What lock() did beside locking.
  Repair unlock();

  // A worker thread's place, held by the calling thread. nullptr = all are taken.
  Place* claim();
  // * Its work is over.
  void release(Place* place);
  // Ends the work of threads that are gone.
  void reclaim();

  // *
  Key key(const uint8_t* data, uint64_t bytes) const;
  // kNone = there is none.
  uint32_t find(const Key& key) const;
  void touch(uint32_t record, const Use& use);
  // The lease ends at `until` (CLOCK_MONOTONIC) or later.
  void lease(uint32_t record, int64_t until);

  // Takes chunks for an object, evicts for them, and writes down that the place stores into them.
  // kNoRoom: nothing was evicted. *room_at is when the first lease in the way ends. If leases alone
  // are not in the way it is `now`.
  Begun begin_store(Place* place, const Key& key, uint64_t object_bytes, const Use& use,  //
                    int64_t now, int64_t* room_at);
  // Its bytes are there. False: another store of the key was faster; that object stays.
  bool publish(Place* place, const Use& use);
  void abandon(Place* place);

  // kNone = there is none. Otherwise its chunks stay until end_load.
  uint32_t begin_load(Place* place, const Key& key, const Use& use);
  void end_load(Place* place);

  // False: there is none. An object that is being loaded leaves the index now and the memory later.
  bool remove(const Key& key);

  // * While a place has work with the object.
  void list_chunks(uint32_t record, std::vector<uint32_t>* chunks) const;
  char* chunk(uint32_t number) const { return chunks_ + number * chunk_bytes_; }

  const Record& record(uint32_t number) const { return records_[number]; }
  Header& header() const { return *header_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  uint64_t num_chunks() const { return num_chunks_; }
  uint64_t chunks_for(uint64_t bytes) const { return (bytes + chunk_bytes_ - 1) / chunk_bytes_; }

 private:
  // parts.cc
  uint32_t* bucket(uint64_t hash) const { return &buckets_[hash & (num_buckets_ - 1)]; }
  void enter_index(uint32_t record);
  void leave_index(uint32_t record);
  void enter_order(uint32_t record, const Use& use);
  void leave_order(uint32_t record);
  uint32_t take_chunks(uint64_t count);
  void give_back(uint32_t record);

  void set_state(uint32_t record, State state);
  void drop(uint32_t record);
  bool make_room(uint64_t chunks, int64_t now, int64_t* room_at);
  void end_work_of_dead(Place* place);

  // repair.cc
  void repair();
  bool is_kept(uint32_t record, uint64_t alive_work);
  bool mark_chunks(uint32_t record);
  void sort_by_use();
  uint32_t merged(uint32_t a, uint32_t b);

  Header* header_ = nullptr;
  uint32_t* buckets_ = nullptr;
  Record* records_ = nullptr;
  char* chunks_ = nullptr;
  uint64_t num_buckets_ = 0;
  uint64_t num_chunks_ = 0;
  uint64_t chunk_bytes_ = 0;
  Repair repair_;
};

}  // namespace quire::host
