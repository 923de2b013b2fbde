// One fetch, as it goes.
#pragma once

#include <quire/tier.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/tier/boundary.h"
#include "core/tier/lost_blocks.h"

namespace quire {

enum class FetchPhase : uint8_t { kFree, kLooking, kLookingAgain, kPreparing, kLoading };
struct Fetch {
  FetchPhase phase = FetchPhase::kFree;
  bool has_deadline = false;  // of the engine
  bool has_failed = false;    // a record did not come
  bool is_cancelled = false;
  bool is_doomed = false;    // memory was short: given up at the next opportunity
  bool is_far = false;       // a tier that would answer too late was not asked
  uint32_t outstanding = 0;  // tickets of the phase
  uint32_t unasked = 0;      // bits of tiers that were full
  uint32_t late = 0;         // bits of tiers of which a transfer ended by its deadline
  quire_fetch_id id = 0;
  SequenceId sequence;
  std::vector<quire_symbol> symbols;
  int64_t begun = 0, loading_since = 0, deadline = 0;
  int64_t fair = 0;      // the deadline that the tiers have, whatever the engine's is
  int64_t patience = 0;  // ns from loading_since until its progress is looked at
  uint64_t hit = 0, full_hit = 0;
  std::vector<uint64_t> ends;      // at which the prompt is named
  std::vector<PrefixNames> names;  // there
  Candidates candidates;
  std::unique_ptr<RecordTable> table;
  size_t asked_from = 0;  // look-ups: the first record of the phase
  uint64_t boundary = 0;
  StepId load{0};
  // Of the streams: copies and zeroes of the load.
  uint64_t mark = 0;
  uint64_t position = 0;                  // of the load
  std::vector<uint64_t> have;             // by group
  std::vector<std::vector<int32_t>> ids;  // by group
  std::vector<uint32_t> slots;            // loads in flight
  // Parts and ends of records that wait for a slot.
  std::vector<std::pair<uint32_t, uint64_t>> pending;
  LostBlocks lost;
  uint64_t bytes_wanted = 0, bytes_here = 0;
  std::vector<uint64_t> bytes_of;   // by tier: that came
  std::vector<int64_t> elapsed_of;  // by tier: until the last of them was there
};

}  // namespace quire
