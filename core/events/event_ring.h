// A ring of numbered events. One thread at a time pushes; others read meanwhile.
#pragma once

#include <quire/events.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/status.h"

namespace quire {

// One event with its data; offsets count from the start of `data`.
struct EventRecord {
  quire_event event{};
  std::vector<uint8_t> data;
};

class EventRing {
 public:
  // Bytes of a ring: wanted, 0 = 16 MiB. INVALID_ARGUMENT, which names the option: an event of a
  // block of so many tokens may have no room.
  static Result<uint64_t> size_of(uint64_t wanted, uint64_t block_tokens, const char* option);

  explicit EventRing(uint64_t bytes);

  // The most bytes an event may have; longer runs of blocks are several events.
  uint64_t most_bytes() const { return bytes_.size() / 4; }
  // Its number. What is oldest makes room.
  uint64_t push(const EventRecord& record);
  // A number without an event: readers learn that they have missed something.
  void lose();

  // Any thread.
  Status read(uint64_t from, std::span<quire_event> events, std::span<uint8_t> data,  //
              quire_event_batch* batch) const;
  uint64_t next_number() const;
  // Each once. False: it was taken, or is not in the ring any more.
  bool take(uint64_t number, EventRecord* record);

 private:
  struct Slot {
    uint64_t offset = 0, bytes = 0;
    bool taken = false;
  };
  void skip();  // everything before the next number is lost
  const Slot& slot(uint64_t number) const { return slots_[number % slots_.size()]; }

  mutable std::mutex mutex_;
  // Records back to back. One that does not fit before the end starts at 0 again.
  std::vector<uint8_t> bytes_;
  std::vector<Slot> slots_;  // by number
  uint64_t oldest_ = 0, next_ = 0, tail_ = 0;
};

// Appends an event to what a caller gave, moving its offsets; false when it does not fit.
bool append_event(const quire_event& event, std::span<const uint8_t> data,  //
                  std::span<quire_event> events, std::span<uint8_t> to,     //
                  quire_event_batch* batch);

}  // namespace quire
