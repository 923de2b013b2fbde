#include "core/events/event_ring.h"

#include <algorithm>
#include <cstring>

#include "core/base/checked.h"

namespace quire {

Result<uint64_t> EventRing::size_of(uint64_t wanted, uint64_t block_tokens, const char* option) {
  const uint64_t bytes = round_up(wanted == 0 ? uint64_t{16} << 20 : std::min(wanted, kMaxSize / 2), 8);
  // Names of adapter and kind, digests, and the keys of a block beside its tokens.
  const uint64_t least = 4 * (block_tokens * 8 + uint64_t{3} * 4096);
  if (bytes >= least) return bytes;
  return invalid("%s is %llu, blocks of %llu tokens need at least %llu", option, static_cast<unsigned long long>(bytes),
                 static_cast<unsigned long long>(block_tokens), static_cast<unsigned long long>(least));
}

EventRing::EventRing(uint64_t bytes) : bytes_(bytes), slots_(bytes / sizeof(quire_event)) {}

uint64_t EventRing::push(const EventRecord& record) {
  std::lock_guard lock(mutex_);
  const uint64_t bytes = sizeof(quire_event) + record.data.size();
  uint64_t at = tail_;
  if (bytes > bytes_.size()) {  // one block with very many keys: what is older is lost with it
    skip();
    return next_ - 1;
  }
  const bool wraps = at + bytes > bytes_.size();
  if (wraps) at = 0;
  while (oldest_ < next_) {
    const Slot& old = slot(oldest_);
    const bool overlaps = old.offset < at + bytes && at < old.offset + old.bytes;
    if (!overlaps && !(wraps && old.offset >= tail_) && next_ - oldest_ < slots_.size()) break;
    ++oldest_;
  }
  quire_event event = record.event;
  event.number = next_;
  std::memcpy(bytes_.data() + at, &event, sizeof event);
  if (!record.data.empty()) std::memcpy(bytes_.data() + at + sizeof event, record.data.data(), record.data.size());
  slots_[next_ % slots_.size()] = Slot{at, bytes};
  tail_ = at + bytes;
  return next_++;
}

void EventRing::lose() {
  std::lock_guard lock(mutex_);
  skip();
}

void EventRing::skip() {
  oldest_ = ++next_;
  tail_ = 0;
}

uint64_t EventRing::next_number() const {
  std::lock_guard lock(mutex_);
  return next_;
}

bool EventRing::take(uint64_t number, EventRecord* record) {
  std::lock_guard lock(mutex_);
  if (number < oldest_ || number >= next_) return false;
  Slot& at = slots_[number % slots_.size()];
  if (at.taken) return false;
  std::memcpy(&record->event, bytes_.data() + at.offset, sizeof record->event);
  record->data.assign(bytes_.data() + at.offset + sizeof record->event, bytes_.data() + at.offset + at.bytes);
  at.taken = true;
  return true;
}

bool append_event(const quire_event& event, std::span<const uint8_t> data, std::span<quire_event> events, std::span<uint8_t> to,
                  quire_event_batch* batch) {
  const bool fits = batch->num_events < events.size() && batch->num_bytes + data.size() <= to.size();
  if (fits) {
    quire_event own = event;
    for (uint64_t quire_event::*offset : {&quire_event::hashes_offset, &quire_event::parent_offset, &quire_event::tokens_offset,
                                          &quire_event::keys_offset, &quire_event::adapter_offset, &quire_event::kind_offset}) {
      own.*offset += batch->num_bytes;
    }
    events[batch->num_events] = own;
    if (!data.empty()) std::memcpy(to.data() + batch->num_bytes, data.data(), data.size());
  }
  ++batch->num_events;
  batch->num_bytes += data.size();
  return fits;
}

Status EventRing::read(uint64_t from, std::span<quire_event> events, std::span<uint8_t> data, quire_event_batch* batch) const {
  std::lock_guard lock(mutex_);
  batch->oldest = oldest_;
  batch->next = from;
  if (from > next_) {
    return fail(QUIRE_OUT_OF_RANGE, "from is %llu, the next event will be %llu", static_cast<unsigned long long>(from),
                static_cast<unsigned long long>(next_));
  }
  if (from < oldest_) {
    return fail(QUIRE_DATA_LOSS, "from is %llu, the oldest event in the ring is %llu", static_cast<unsigned long long>(from),
                static_cast<unsigned long long>(oldest_));
  }
  while (batch->next < next_) {
    const Slot& at = slot(batch->next);
    quire_event event;
    std::memcpy(&event, bytes_.data() + at.offset, sizeof event);
    const std::span<const uint8_t> own{bytes_.data() + at.offset + sizeof event, at.bytes - sizeof event};
    const quire_event_batch before = *batch;
    if (!append_event(event, own, events, data, batch)) {
      if (before.num_events == 0) {
        return fail(QUIRE_OUT_OF_RANGE, "event %llu has %zu bytes of data, data_capacity is %zu and capacity %zu",
                    static_cast<unsigned long long>(batch->next), own.size(), data.size(), events.size());
      }
      *batch = before;
      break;
    }
    ++batch->next;
  }
  return {};
}

}  // namespace quire
