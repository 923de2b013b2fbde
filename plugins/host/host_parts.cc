// The three structures of a store: the index by key, the order of use, the chunks that are free.
#include <cstring>

#include "plugins/host/host_store.h"

namespace quire::host {
namespace {

// Objects of one submission have neighbours in the order of use. One whose ticket waited long may belong further down; that it stays
// a little longer than it should costs less than the walk.
constexpr int kMostSteps = 256;

}  // namespace

uint32_t Store::find(const Key& key) const {
  for (uint32_t i = *bucket(key.hash); i != kNone; i = records_[i].bucket_next) {
    const Record& r = records_[i];
    if (r.hash == key.hash && r.key_bytes == key.bytes && std::memcmp(r.key, key.data, key.bytes) == 0) return i;
  }
  return kNone;
}

void Store::enter_index(uint32_t record) {
  uint32_t* const first = bucket(records_[record].hash);
  records_[record].bucket_next = *first;
  *first = record;
}

void Store::leave_index(uint32_t record) {
  uint32_t* link = bucket(records_[record].hash);
  while (*link != record) link = &records_[*link].bucket_next;
  *link = records_[record].bucket_next;
}

// Behind all that are more recent.
void Store::enter_order(uint32_t record, const Use& use) {
  const UseHint& hint = *use.hint;
  const bool near =
      hint.record != kNone && hint.record != record && records_[hint.record].state == kWhole && records_[hint.record].use == hint.use;
  uint32_t older = near ? hint.record : header_->newest;
  uint32_t newer = near ? records_[older].newer : kNone;
  for (int step = 0; step < kMostSteps && older != kNone && records_[older].use > use.number; ++step) {
    newer = older;
    older = records_[older].older;
  }
  for (int step = 0; step < kMostSteps && newer != kNone && records_[newer].use < use.number; ++step) {
    older = newer;
    newer = records_[newer].newer;
  }
  records_[record].use = use.number;
  records_[record].newer = newer;
  records_[record].older = older;
  (newer != kNone ? records_[newer].older : header_->newest) = record;
  (older != kNone ? records_[older].newer : header_->oldest) = record;
  *use.hint = {record, use.number};
}

void Store::leave_order(uint32_t record) {
  const Record& r = records_[record];
  (r.newer != kNone ? records_[r.newer].older : header_->newest) = r.older;
  (r.older != kNone ? records_[r.older].newer : header_->oldest) = r.newer;
}

// The first `count` free chunks as a list; its first one is returned. There are so many.
uint32_t Store::take_chunks(uint64_t count) {
  const uint32_t first = header_->first_free;
  uint32_t last = first;
  for (uint64_t i = 1; i < count; ++i) last = records_[last].next;
  header_->first_free = records_[last].next;
  header_->free_chunks -= count;
  records_[last].next = kNone;
  records_[first].last = last;
  records_[first].num_chunks = static_cast<uint32_t>(count);
  return first;
}

// As a whole and in its order, so that the next object of its size lies as this one did.
void Store::give_back(uint32_t record) {
  Record& r = records_[record];
  records_[r.last].next = header_->first_free;
  header_->first_free = record;
  header_->free_chunks += r.num_chunks;
}

}  // namespace quire::host
