// One fetch, as it goes.
#pragma once

#include <quire/tier.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/tier/boundary.h"
#include "core/tier/load_places.h"
#include "core/tier/lost_blocks.h"

namespace quire {

// kMeeting: what a peer says of an offer that grows is read, before its records are waited for.
// kAsking: it has ended, and a peer is asked why nothing came of its offer.
enum class FetchPhase : uint8_t {
  kFree,
  kLooking,
  kLookingAgain,
  kMeeting,
  kPreparing,
  kLoading,
  kAsking,
};

// Of a peer that is asked for an offer that grows: then it is given up.
inline constexpr int64_t kMostSilence = 1'000'000'000;  // ns

// How the bytes of a record come.
enum class LoadWay : uint8_t {
  kInPlace,  // into the pool, if it is arranged as ours are
  kStaged,   // what is wanted of it, as far as is known
  kAll,      // all of it, because it was not known
};

// A record that waits for a slot.
struct PendingLoad {
  uint32_t source = 0;
  uint64_t end = 0;  // tokens
  LoadWay way = LoadWay::kInPlace;
  uint32_t assembly = kNone;  // index
};

// Records of one end and family that another tensor-parallel size wrote. Only all together have
// what a part of ours needs, and headers say what each of them has.
struct Assembly {
  size_t missing = 0;  // records
  // By place in the family's own set.
  std::vector<std::vector<std::shared_ptr<const RecordRuns>>> came;
};

struct Fetch {
  FetchPhase phase = FetchPhase::kFree;
  bool has_deadline = false;  // of the engine
  bool has_failed = false;    // a record did not come
  bool is_cancelled = false;
  bool asks_others = false;    // look-ups: of other tensor-parallel sizes
  bool is_doomed = false;      // memory was short: given up at the next opportunity
  bool is_far = false;         // a tier that would answer too late was not asked
  bool is_cut = false;         // a load may not be as long as what could be fetched
  bool lacks_answers = false;  // look-ups: one ended by its deadline
  bool is_growing = false;     // the peer's offer: what is missing is waited for
  bool awaits = false;         // this load does so
  bool has_met = false;        // what the peer says of its offer is known
  uint32_t unasked = 0;        // bits of tiers that were full
  uint32_t asked = 0;          // bits of tiers whose answers are to come
  uint32_t late = 0;           // bits of tiers of which a transfer ended by its deadline
  quire_fetch_id id = 0;
  SequenceId sequence;
  std::vector<quire_symbol> symbols;
  // The peer that is asked: of which tier; kNone: none. Its handle and address follow the keys.
  uint32_t peer_tier = kNone;
  std::vector<uint8_t> peer_key;
  uint64_t peer_end = 0;            // tokens that it offers
  uint64_t encoder = 0;             // those of cross attention
  bool peer_failed = false;         // it, or the way to it
  bool has_refused_blocks = false;  // a record of any tier did not have all of a block
  // Where it ends, but for what a peer says of its offer.
  struct End {
    quire_fetch_outcome outcome = QUIRE_FETCH_DONE;
    uint64_t committed = 0;
    uint64_t description_bytes = 0;  // 0: not known yet
    uint32_t slot = kNone;           // of the transfer
    bool fits = false;               // it was read, and this process can use the offer
  } ending;
  int64_t begun = 0, loading_since = 0, deadline = 0;
  int64_t fair = 0;        // the deadline that the tiers have, whatever the engine's is
  int64_t patience = 0;    // ns from loading_since until its progress is looked at
  uint64_t longest = 0;    // tokens that may be fetched
  uint64_t found = 0;      // tokens that the cache had
  uint64_t committed = 0;  // tokens that loads before this one brought, with those
  uint64_t hit = 0, full_hit = 0;
  std::vector<uint64_t> ends;      // at which the prompt is named
  std::vector<PrefixNames> names;  // there
  PrefixNames no_prompt;           // of the empty one
  Candidates candidates;
  std::unique_ptr<RecordTable> table;
  size_t asked_from = 0;  // look-ups: the first record of the phase
  uint64_t boundary = 0;
  StepId load{0};
  // Of the streams: copies and zeroes of the load.
  uint64_t mark = 0;
  uint64_t position = 0;        // of the load
  LoadPlaces places;            // the same
  std::vector<uint32_t> slots;  // loads in flight
  std::vector<PendingLoad> pending;
  std::vector<Assembly> assemblies;
  // Records of an offer that grows, which the peer does not have yet: all of a family that end
  // there. The encoder's first, then by their ends.
  struct Coming {
    uint32_t family = 0;
    uint64_t end = 0;
  };
  std::vector<Coming> coming;
  uint32_t coming_slot = kNone;    // of the look-up that asks for them
  int64_t ask_at = 0;              // when the next one is due
  int64_t growing_until = 0;       // the deadline of all loads that wait
  int64_t came_at = 0;             // something of the offer, last: it was announced
  int64_t landed_at = 0;           // the same: its bytes were here
  int64_t renew_at = 0;            // the leases of what came
  std::vector<RecordKey> earlier;  // of it, in loads before this one
  LostBlocks lost;
  uint64_t bytes_wanted = 0, bytes_here = 0;
  std::vector<uint64_t> bytes_of;      // by tier: that came
  std::vector<int64_t> elapsed_of;     // by tier: until the last of them was there
  std::vector<uint64_t> bytes_before;  // by tier: that came in loads before this one

  // Tokens of the encoder that this load brings: the first one does.
  uint64_t encoder_of_load() const { return committed == 0 ? encoder : 0; }
  uint32_t awaited() const { return asked | unasked; }  // look-ups: bits of tiers
  // What the records of a part that end at one of `ends` are named by.
  const PrefixNames& names_of(const TierPart& part, uint64_t end) const {  //
    return part.live.fixed ? no_prompt : names_at(end);
  }
  const PrefixNames& names_at(uint64_t end) const {
    const auto at = std::lower_bound(ends.begin(), ends.end(), end);
    return names[static_cast<size_t>(at - ends.begin())];
  }
};

}  // namespace quire
