// One tier: a connector, what is known of its speed, and whether it is left alone for a while. The
// estimates are those of a store that is far away and of one that is in this machine alike:
// measured from what it did.
#pragma once

#include <quire/tier.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/connector/connector_host.h"
#include "core/events/event_ring.h"
#include "core/records/record_header.h"

namespace quire {

inline constexpr size_t kMostTiers = 8;  // of a cache

// So many nanoseconds after `now`; the end of time where that is further.
inline int64_t later(int64_t now, double ns) {
  return ns < static_cast<double>(INT64_MAX / 2) ? now + static_cast<int64_t>(ns) : INT64_MAX;
}

class Tier {
 public:
  // is_peers: it leads to processes that offer what they have.
  Tier(std::shared_ptr<Connector> connector, std::string name, uint32_t reasons,  //
       uint64_t max_store_bytes, bool is_peers);

  Connector& connector() { return *connector_; }
  const std::string& name() const { return name_; }
  uint32_t reasons() const { return reasons_; }
  uint64_t max_store_bytes() const { return max_store_bytes_; }
  bool is_peers() const { return is_peers_; }

  // Records that are there, as far as is known: a hint, of which the latest are remembered.
  bool is_known(const RecordKey& key) const { return known_[slot(key)] == mark(key); }
  void remember(const RecordKey& key);
  void forget(const RecordKey& key) noexcept;

  // Events of what it keeps: null, where they are not recorded. Records that it was given are named
  // by events that stand in the ring one after the other.
  std::unique_ptr<EventRing> events;
  struct Named {
    uint64_t first = 0;
    uint32_t num = 0;
  };
  void name(const RecordKey& key, Named by);  // a known one

  // Of a fetch: fewer say nothing about speed.
  static constexpr uint64_t kTellingBytes{256 << 10};
  // Speed. 0: not known yet.
  void saw_lookup(int64_t ns);
  void saw_load(uint64_t bytes, int64_t ns);  // of one fetch
  // A fetch was given up because this tier was too slow. most: what is believed of that, so that
  // one bad moment does not exclude it for long.
  void saw_slow_load(uint64_t bytes, int64_t ns, double most_ns_per_byte);
  void saw_late_lookup(int64_t ns);  // none came in this time
  // It was too slow, as far as is known. That may change, so now and then it is tried again.
  void was_passed_over();
  // The speed is that of loads that ended, not what is left of it or a guess.
  bool is_measured() const { return certainty_ > kCertain; }
  double ns_per_byte() const { return ns_per_byte_; }
  double latency_ns() const { return latency_ns_; }
  // To load so many bytes; below 0: unknown.
  double expected_ns(uint64_t bytes) const;

  // A tier that fails again and again is left alone, each time for longer. One of peers is not:
  // others may be well.
  bool is_open(int64_t now) const { return now >= closed_until_; }
  // That it answers look-ups says nothing of its transfers.
  enum class What : uint8_t { kLookup, kTransfer };
  void succeeded(What what);
  void failed(int64_t now, What what);  // counts while it is open

  quire_tier_stats stats{};  // counters
  uint64_t bytes_in_stores = 0;
  uint32_t num_stores = 0;  // in flight
  // For the stores of a unit; one alone may be larger than all that may be in flight.
  bool has_room(uint64_t bytes) const {  // of the unit
    return bytes_in_stores == 0 || bytes_in_stores + bytes <= max_store_bytes_;
  }
  // Requests wait for look-ups and loads: stores leave them a part of what the connector takes at
  // the same time.
  bool may_store() const;

 private:
  static constexpr size_t kKnown = size_t{1} << 16;
  static constexpr double kCertain = 0.9;
  static size_t slot(const RecordKey& key) { return key[0] | size_t{key[1]} << 8; }
  static uint64_t mark(const RecordKey& key);

  std::shared_ptr<Connector> connector_;
  std::string name_;
  uint32_t reasons_;
  uint64_t max_store_bytes_;
  bool is_peers_;
  std::vector<uint64_t> known_;
  std::vector<Named> named_;  // by slot, where events are recorded
  double ns_per_byte_ = 0, latency_ns_ = 0;
  double certainty_ = 0;                // of ns_per_byte_; 1: of the latest load
  std::array<uint32_t, 2> failures_{};  // in a row, by What
  int64_t closed_until_ = INT64_MIN, pause_ns_ = 0;
};

}  // namespace quire
