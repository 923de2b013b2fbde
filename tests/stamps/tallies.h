// What a run did: operations by kind, and for every kind of model how much of it was checked.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quire::stamps {

enum Deed : uint32_t {
  kOpened,
  kReserved,
  kRefused,
  kPrefills,
  kDecodes,
  kDrafted,
  kCommitted,
  kPartly,  // rows of which a part was accepted, or nothing
  kLate,    // rows whose symbols came with the commit
  kLookedAhead,
  kWhole,  // entries that are admitted only if all of the sequence fits
  kAborted,
  kUnlaunched,
  kFinished,
  kFinishedInFlight,
  kFoundAgain,  // sequences all of whose blocks were found behind them
  kPreempted,
  kForked,
  kTruncated,
  kPinned,
  kPinnedHard,
  kPinnedForATime,
  kUnpinned,
  kLoaded,
  kFailed,  // loads of which a part did not arrive
  kProbed,
  kReset,
  kForgot,
  kRenewed,  // owners that got another epoch
  kFollowed,
  kUploaded,  // steps whose tables a device made of updates
  kWatched,   // steps whose uses were compared with those of others
  kViewed,    // comparisons of a router's view with a snapshot
  kVerified,
  kDrained,
  kShared,    // loads of which something was cached
  kLeftLate,  // loads that left a transfer behind
  kHeld,
  kTaken,  // units
  kTakenWithStates,
  kTakenCold,  // that are evicted soon
  kUnitsGivenUp,
  kFetches,
  kFetched,      // that brought tokens of a tier
  kFetchedLate,  // that were given up
  kInherited,    // that brought what another tensor-parallel size wrote
  kTierUnits,
  kQuarantined,  // loads
  kNumDeeds
};

extern const std::array<const char*, kNumDeeds> kDeedNames;

struct KindTally {
  uint64_t runs = 0;
  uint64_t rows = 0;
  uint64_t reads = 0;
  uint64_t matches = 0;
  uint64_t hits = 0;
  uint64_t prompt_tokens = 0;  // of matches
  uint64_t hit_tokens = 0;
};

// Runs with some property, and their reads. Codecs: the reads of their rows alone.
struct TraitTally {
  uint64_t runs = 0;
  uint64_t reads = 0;
};

struct Tallies {
  explicit Tallies(size_t num_kinds) : kinds(num_kinds) {}

  std::array<uint64_t, kNumDeeds> deeds{};
  std::vector<KindTally> kinds;
  std::map<std::string, TraitTally> traits;
  uint64_t operations = 0;

  void count(Deed deed) { ++deeds[deed]; }
  KindTally sum() const;
  // Tables of deeds, of kinds and of traits, and a line with the sums.
  std::string text(double seconds) const;
};

}  // namespace quire::stamps
