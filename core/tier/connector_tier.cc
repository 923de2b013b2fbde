#include "core/tier/connector_tier.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/checked.h"

namespace quire {
namespace {

constexpr double kWeight = 0.3;                 // of what was seen last
constexpr double kForgets = 0.99;               // of an estimate, each time it kept a tier from being used
constexpr double kLateLookup = 2;               // times what a look-up was waited for
constexpr uint32_t kMostFailures = 5;           // in a row
constexpr int64_t kFirstPause = 5'000'000'000;  // ns
constexpr int64_t kLongestPause = 300'000'000'000;

void follow(double seen, double* estimate) { *estimate = *estimate == 0 ? seen : *estimate + kWeight * (seen - *estimate); }

}  // namespace

Tier::Tier(std::shared_ptr<Connector> connector, std::string name, uint32_t reasons, uint64_t max_store_bytes, bool is_peers)
    : connector_(std::move(connector)),
      name_(std::move(name)),
      reasons_(reasons),
      max_store_bytes_(max_store_bytes),
      is_peers_(is_peers),
      known_(kKnown) {}

uint64_t Tier::mark(const RecordKey& key) {
  uint64_t value = 0;
  std::memcpy(&value, key.data() + 8, sizeof value);
  return value | 1;
}

void Tier::remember(const RecordKey& key) {
  if (is_known(key)) return;
  known_[slot(key)] = mark(key);
  if (!named_.empty()) named_[slot(key)] = {};
}

void Tier::name(const RecordKey& key, Named by) {
  if (named_.empty()) named_.resize(kKnown);
  if (is_known(key)) named_[slot(key)] = by;
}

// What was said to be there is said to be gone, if the ring still knows what was said.
void Tier::forget(const RecordKey& key) noexcept {
  if (!is_known(key)) return;
  known_[slot(key)] = 0;
  if (named_.empty()) return;
  const Named named = std::exchange(named_[slot(key)], Named{});
  try {
    EventRecord record;
    for (uint64_t number = named.first; number < named.first + named.num; ++number) {
      if (!events->take(number, &record)) continue;  // by the record of another rank
      const quire_event& stored = record.event;
      EventRecord gone;
      gone.event.type = QUIRE_EVENT_REMOVED;
      gone.event.group = stored.group;
      gone.event.num_hashes = stored.num_hashes;
      gone.event.hash_bytes = stored.hash_bytes;
      gone.event.block_tokens = stored.block_tokens;
      const uint8_t* const hashes = record.data.data() + stored.hashes_offset;
      gone.data.assign(hashes, hashes + round_up(uint64_t{stored.num_hashes} * stored.hash_bytes, 8));
      events->push(gone);
    }
  } catch (const std::bad_alloc&) {
    events->lose();
  }
}

void Tier::saw_lookup(int64_t ns) { follow(static_cast<double>(std::max<int64_t>(ns, 1)), &latency_ns_); }

void Tier::saw_load(uint64_t bytes, int64_t ns) {
  if (bytes < kTellingBytes) return;
  follow(static_cast<double>(std::max<int64_t>(ns, 1)) / static_cast<double>(bytes), &ns_per_byte_);
  certainty_ = 1;
}

void Tier::saw_slow_load(uint64_t bytes, int64_t ns, double most_ns_per_byte) {
  const double seen = static_cast<double>(std::max<int64_t>(ns, 1)) / static_cast<double>(std::max<uint64_t>(bytes, 1));
  follow(std::min(seen, most_ns_per_byte), &ns_per_byte_);
  certainty_ = 0;
}

void Tier::saw_late_lookup(int64_t ns) {
  const double least = kLateLookup * static_cast<double>(ns);
  if (least > latency_ns_) follow(least, &latency_ns_);
}

void Tier::was_passed_over() {
  certainty_ *= kForgets;
  ns_per_byte_ *= kForgets;
  latency_ns_ *= kForgets;
}

double Tier::expected_ns(uint64_t bytes) const { return ns_per_byte_ == 0 ? -1 : latency_ns_ + ns_per_byte_ * static_cast<double>(bytes); }

bool Tier::may_store() const {
  const uint32_t most = connector_->info().max_in_flight;
  return most == 0 || num_stores < std::max(most - most / 4, most - 1) || (most == 1 && num_stores == 0);
}

void Tier::succeeded(What what) {
  failures_[static_cast<size_t>(what)] = 0;
  if (what == What::kTransfer) pause_ns_ = 0;
}

void Tier::failed(int64_t now, What what) {
  if (is_peers_ || !is_open(now)) return;  // or what was begun before
  if (++failures_[static_cast<size_t>(what)] < kMostFailures) return;
  failures_ = {};
  pause_ns_ = pause_ns_ == 0 ? kFirstPause : std::min(2 * pause_ns_, kLongestPause);
  closed_until_ = now + pause_ns_;
  ++stats.times_closed;
}

}  // namespace quire
