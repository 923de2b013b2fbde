// What stores and fetches share.
#pragma once

#include <quire/tier.h>

#include <memory>
#include <vector>

#include "core/step/kv_cache.h"
#include "core/tier/connector_tier.h"
#include "core/tier/landings.h"
#include "core/tier/sources.h"
#include "core/tier/tier_plan.h"
#include "core/tier/transfer.h"

namespace quire {

// What became of a submission: a connector that is full is asked again later, one that failed is
// not.
enum class Submitted : uint8_t { kYes, kFull, kFailed };

// How the latest records of a part of ours were arranged. Only those that are known to be as our
// blocks are can come straight into the pool.
enum class Arranged : uint8_t { kUnknown, kAsOurs, kOtherwise };

// Of a key that asks a peer: the record's, a handle and the longest address.
inline constexpr size_t kMostAddressBytes = 255;
inline constexpr size_t kPeerKeyBytes = sizeof(RecordKey) + 16 + kMostAddressBytes;

struct TierState {
  std::shared_ptr<Cache> cache;
  std::unique_ptr<TierPlan> plan;
  std::unique_ptr<Sources> sources;               // of the plan
  std::vector<Arranged> arranged;                 // by source; of its twin
  std::vector<std::shared_ptr<Memory>> memories;  // by shard
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;  // one of each stream
  std::vector<ShardBytes> shards;
  std::vector<std::unique_ptr<Tier>> tiers;
  std::vector<uint64_t> header_regions;  // by tier
  std::unique_ptr<Transfers> transfers;
  Landings landings;
  quire_tiers_stats stats{};
  quire_clock_fn clock = nullptr;  // null: CLOCK_MONOTONIC
  void* clock_user = nullptr;
  uint64_t bytes_of_wholes = 0;               // of records that are read whole now
  std::vector<quire_ticket_run> ticket_runs;  // scratch of one submission
  std::vector<uint8_t> scratch;
  std::vector<std::shared_ptr<void>> left_offers;  // that a connector never let go
  TierState* left_behind = nullptr;                // another one that a connector never let go

  int64_t now() const;
  // Submits the transfer of this slot; its runs are in ticket_runs. Where it was not taken the slot
  // is closed.
  Submitted submit(uint32_t slot, quire_ticket ticket);
  // The bytes of a whole record become a region where the connector wants that, until the slot is
  // closed.
  Status enlist(Transfer* transfer);
  void delist(size_t tier, uint64_t region) noexcept;  // 0: nothing
  void close(uint32_t slot) noexcept;
  // Asks the transfer to end.
  void cancel(uint32_t slot) noexcept;
  // Removes a record that is of no use. of_peer: what follows its key.
  void remove(uint32_t tier, const RecordKey& key, std::span<const uint8_t> of_peer = {});

  // What waits for the work that is queued on the streams by now waits for this mark. Events are
  // recorded for a mark once those of the one before are done: the work of later steps delays
  // nobody.
  uint64_t mark_streams() { return marks.wanted = marks.recorded + 1; }
  bool is_done(uint64_t mark) const { return mark <= marks.done; }
  bool follows_streams() const { return marks.done < marks.wanted; }  // somebody waits for them
  // Asks the events, and records them where somebody waits for that. After an error nothing is ever
  // done.
  Status follow_streams();

  struct Marks {
    uint64_t wanted = 0, recorded = 0, done = 0;
  } marks;
};

}  // namespace quire
