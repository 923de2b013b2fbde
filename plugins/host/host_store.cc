#include "plugins/host/host_store.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "plugins/common/nanoseconds.h"

namespace quire::host {
namespace {

constexpr int64_t kLook = 20'000'000;  // nanoseconds of waiting for the lock between two looks at the patience
using plugins::kSecond;

// As pthread_mutex_lock, for at most kLook.
int lock_for_a_while(pthread_mutex_t* lock) {
#if defined(__SANITIZE_THREAD__)  // it does not know pthread_mutex_clocklock
  for (int64_t waited = 0; waited < kLook; waited += 100'000) {
    const int result = pthread_mutex_trylock(lock);
    if (result != EBUSY) return result;
    const timespec pause = {0, 100'000};
    nanosleep(&pause, nullptr);
  }
  return ETIMEDOUT;
#else
  timespec until = {};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += kLook;
  until.tv_sec += until.tv_nsec / kSecond;
  until.tv_nsec %= kSecond;
  return pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
#endif
}

}  // namespace

void Store::attach(char* base, const Geometry& geometry) {
  header_ = reinterpret_cast<Header*>(base);
  buckets_ = reinterpret_cast<uint32_t*>(base + geometry.buckets_at);
  records_ = reinterpret_cast<Record*>(base + geometry.records_at);
  chunks_ = base + geometry.chunks_at;
  num_buckets_ = geometry.num_buckets;
  num_chunks_ = geometry.num_chunks;
  chunk_bytes_ = geometry.chunk_bytes;
}

Locked Store::lock(const Patience& patience) {
  int result = pthread_mutex_trylock(&header_->lock);
  while (result == EBUSY || result == ETIMEDOUT) {
    if (patience.over(patience.of)) return Locked::kGivenUp;
    result = lock_for_a_while(&header_->lock);
  }
  if (result == EOWNERDEAD) {
    repair();
    pthread_mutex_consistent(&header_->lock);
    return Locked::kYes;
  }
  return result == 0 ? Locked::kYes : Locked::kBroken;
}

Repair Store::unlock() {
  const Repair done = repair_;
  repair_ = {};
  pthread_mutex_unlock(&header_->lock);
  return done;
}

// A process may end between any two instructions, and others go on with what it wrote: the compiler must not move other writes across.
void Store::set_state(uint32_t record, State state) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  records_[record].state.store(state, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

Key Store::key(const uint8_t* data, uint64_t bytes) const {
  return {data, static_cast<uint32_t>(bytes), XXH3_64bits_withSeed(data, bytes, header_->seed)};
}

void Store::touch(uint32_t record, const Use& use) {
  if (records_[record].use >= use.number) return;
  leave_order(record);
  enter_order(record, use);
}

void Store::lease(uint32_t record, int64_t until) { records_[record].lease_end = std::max(records_[record].lease_end, until); }

Place* Store::claim() {
  reclaim();
  for (uint32_t i = 0; i < kMaxPlaces; ++i) {
    Place& place = header_->places[i];
    if (pthread_mutex_trylock(&place.alive) != 0) continue;
    header_->num_claimed = std::max(header_->num_claimed, i + 1);
    return &place;
  }
  return nullptr;
}

void Store::release(Place* place) { pthread_mutex_unlock(&place->alive); }

void Store::reclaim() {
  for (uint32_t i = 0; i < header_->num_claimed; ++i) {
    Place& place = header_->places[i];
    const int result = pthread_mutex_trylock(&place.alive);
    if (result == EOWNERDEAD) pthread_mutex_consistent(&place.alive);
    if (result != 0 && result != EOWNERDEAD) continue;
    end_work_of_dead(&place);
    pthread_mutex_unlock(&place.alive);
  }
}

void Store::end_work_of_dead(Place* place) {
  if (place->work == kLoads) end_load(place);
  if (place->work == kStores) abandon(place);
}

// First from the least recent object on, whether enough can go; then they go.
bool Store::make_room(uint64_t chunks, int64_t now, int64_t* room_at) {
  if (header_->free_chunks >= chunks) return true;
  reclaim();
  const auto stays = [&](const Record& r) { return r.readers != 0 || r.lease_end > now; };
  uint64_t room = header_->free_chunks;
  int64_t lease_end = INT64_MAX;
  for (uint32_t i = header_->oldest; i != kNone && room < chunks; i = records_[i].newer) {
    const Record& r = records_[i];
    if (!stays(r)) room += r.num_chunks;
    if (r.lease_end > now) lease_end = std::min(lease_end, r.lease_end);
  }
  if (room < chunks) {
    *room_at = lease_end == INT64_MAX ? now : lease_end;
    return false;
  }
  for (uint32_t i = header_->oldest; header_->free_chunks < chunks;) {
    const uint32_t newer = records_[i].newer;
    if (!stays(records_[i])) {
      drop(i);
      ++header_->num_evicted;
    }
    i = newer;
  }
  return true;
}

Begun Store::begin_store(Place* place, const Key& key, uint64_t object_bytes, const Use& use, int64_t now, int64_t* room_at) {
  if (const uint32_t found = find(key); found != kNone) {
    touch(found, use);
    return Begun::kExists;
  }
  const uint64_t chunks = chunks_for(object_bytes);
  *room_at = now;
  if (chunks > num_chunks_ || !make_room(chunks, now, room_at)) return Begun::kNoRoom;
  const uint32_t first = take_chunks(chunks);
  Record& r = records_[first];
  r.key_bytes = key.bytes;
  r.object_bytes = object_bytes;
  r.hash = key.hash;
  r.use = use.number;
  r.lease_end = 0;
  r.readers = 0;
  std::memcpy(r.key, key.data, key.bytes);
  place->record = first;
  place->work = kStores;
  set_state(first, kWriting);
  return Begun::kYes;
}

bool Store::publish(Place* place, const Use& use) {
  const uint32_t record = place->record;
  Record& r = records_[record];
  if (const uint32_t found = find({r.key, r.key_bytes, r.hash}); found != kNone) {
    touch(found, use);
    abandon(place);
    return false;
  }
  set_state(record, kWhole);
  place->work = kIdle;
  enter_index(record);
  enter_order(record, use);
  ++header_->num_objects;
  return true;
}

void Store::abandon(Place* place) {
  if (records_[place->record].state == kWriting) {
    set_state(place->record, kNoObject);
    give_back(place->record);
  }
  place->work = kIdle;
}

uint32_t Store::begin_load(Place* place, const Key& key, const Use& use) {
  const uint32_t found = find(key);
  if (found == kNone) return kNone;
  touch(found, use);
  place->record = found;
  place->work = kLoads;
  ++records_[found].readers;
  return found;
}

void Store::end_load(Place* place) {
  Record& r = records_[place->record];
  place->work = kIdle;
  if (--r.readers != 0 || r.state != kLeaving) return;
  set_state(place->record, kNoObject);
  give_back(place->record);
}

bool Store::remove(const Key& key) {
  const uint32_t found = find(key);
  if (found == kNone) return false;
  drop(found);
  return true;
}

void Store::drop(uint32_t record) {
  const bool loaded = records_[record].readers != 0;
  set_state(record, loaded ? kLeaving : kNoObject);
  leave_index(record);
  leave_order(record);
  --header_->num_objects;
  if (!loaded) give_back(record);
}

void Store::list_chunks(uint32_t record, std::vector<uint32_t>* chunks) const {
  chunks->resize(records_[record].num_chunks);
  for (uint32_t& chunk : *chunks) {
    chunk = record;
    record = records_[record].next;
  }
}

}  // namespace quire::host
