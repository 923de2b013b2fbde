// After a process died within a change: everything that follows from the records is made again. A repair may itself be interrupted by the
// death of its process; the next one begins anew.
#include <array>
#include <cerrno>

#include "plugins/host/host_store.h"

namespace quire::host {

// Whether the chunks of an object are a list of its length that no other object has a part in; then they are marked.
bool Store::mark_chunks(uint32_t record) {
  const Record& r = records_[record];
  uint32_t last = kNone;
  uint32_t count = 0;
  for (uint32_t i = record; count < r.num_chunks && i < num_chunks_ && records_[i].mark == 0; i = records_[i].next) {
    records_[i].mark = 1;
    last = i;
    ++count;
  }
  if (count == r.num_chunks && count != 0 && last == r.last) return true;
  for (uint32_t i = record; count != 0; --count, i = records_[i].next) records_[i].mark = 0;
  return false;
}

// alive_work: what a thread that lives does with the object.
bool Store::is_kept(uint32_t record, uint64_t alive_work) {
  const Record& r = records_[record];
  const bool wanted = r.state == kWhole || (r.state == kWriting && alive_work == kStores) || (r.state == kLeaving && alive_work == kLoads);
  if (!wanted) return false;
  const bool sound = r.key_bytes >= 1 && r.key_bytes <= kMaxKeyBytes && r.object_bytes >= 1 && r.num_chunks == chunks_for(r.object_bytes) &&
                     key(r.key, r.key_bytes).hash == r.hash && (r.state != kWhole || find({r.key, r.key_bytes, r.hash}) == kNone);
  if (sound && mark_chunks(record)) return true;
  ++header_->num_damaged;
  return false;
}

void Store::repair() {
  for (uint64_t i = 0; i < num_buckets_; ++i) buckets_[i] = kNone;
  for (uint64_t i = 0; i < num_chunks_; ++i) {
    records_[i].mark = 0;
    records_[i].readers = 0;
  }
  std::array<uint32_t, kMaxPlaces> alive{};  // with work
  uint32_t num_alive = 0;
  for (uint32_t i = 0; i < header_->num_claimed; ++i) {
    Place& place = header_->places[i];
    const int result = pthread_mutex_trylock(&place.alive);
    if (result == EBUSY) {
      if (place.work != kIdle) alive[num_alive++] = i;
      continue;
    }
    if (result == EOWNERDEAD) pthread_mutex_consistent(&place.alive);
    if (result != 0 && result != EOWNERDEAD) continue;
    place.work = kIdle;
    pthread_mutex_unlock(&place.alive);
  }
  const auto work_with = [&](uint32_t record) {
    for (uint32_t i = 0; i < num_alive; ++i) {
      const Place& place = header_->places[alive[i]];
      if (place.record == record) return place.work;
    }
    return uint32_t{kIdle};
  };
  repair_ = {true, 0, 0};
  header_->num_objects = 0;
  uint32_t first_whole = kNone;
  for (uint32_t i = 0; i < num_chunks_; ++i) {
    Record& r = records_[i];
    if (r.state == kNoObject) continue;
    if (!is_kept(i, work_with(i))) {
      ++repair_.dropped;
      set_state(i, kNoObject);
      continue;
    }
    if (r.state != kWhole) continue;
    ++repair_.kept;
    ++header_->num_objects;
    enter_index(i);
    r.older = first_whole;
    first_whole = i;
  }
  for (uint32_t i = 0; i < num_alive; ++i) {
    const Place& place = header_->places[alive[i]];
    if (place.work == kLoads) ++records_[place.record].readers;
  }
  header_->newest = first_whole;
  sort_by_use();
  header_->first_free = kNone;
  uint64_t free = 0;
  for (uint32_t i = static_cast<uint32_t>(num_chunks_); i-- > 0;) {
    if (records_[i].mark != 0) continue;
    records_[i].next = header_->first_free;
    header_->first_free = i;
    ++free;
  }
  header_->free_chunks = free;
}

// Two lists by `older`, each from the most recent one on.
uint32_t Store::merged(uint32_t a, uint32_t b) {
  uint32_t first = kNone;
  uint32_t* end = &first;
  while (a != kNone && b != kNone) {
    uint32_t& from = records_[a].use >= records_[b].use ? a : b;
    *end = from;
    end = &records_[from].older;
    from = *end;
  }
  *end = a != kNone ? a : b;
  return first;
}

// A merge sort of the list that begins at `newest`, which needs no memory.
void Store::sort_by_use() {
  std::array<uint32_t, 33> sorted;  // of 2^i objects each, or empty
  sorted.fill(kNone);
  for (uint32_t i = header_->newest; i != kNone;) {
    const uint32_t rest = records_[i].older;
    records_[i].older = kNone;
    uint32_t list = i;
    size_t level = 0;
    for (; sorted[level] != kNone; ++level) {
      list = merged(sorted[level], list);
      sorted[level] = kNone;
    }
    sorted[level] = list;
    i = rest;
  }
  uint32_t all = kNone;
  for (const uint32_t list : sorted) all = merged(list, all);
  header_->newest = all;
  header_->oldest = kNone;
  for (uint32_t i = all; i != kNone; i = records_[i].older) {
    records_[i].newer = header_->oldest;
    header_->oldest = i;
  }
}

}  // namespace quire::host
