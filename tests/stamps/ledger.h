// The ledger of a run: one cache of one kind of model, and what must be so of it. Of every sequence
// it has the symbols and how many of them are committed and reserved; of every step in flight what
// the engine will carry out; of every pin what it must hold.
#pragma once

#include <quire/pin.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/stamps/onlookers.h"
#include "tests/stamps/stamped_bytes.h"
#include "tests/stamps/tallies.h"
#include "tests/stamps/tiers_of_run.h"
#include "tests/stamps/uses_in_flight.h"

namespace quire::stamps {

struct Sequence {
  quire_sequence_id id = 0;
  uint64_t life = 0;    // changes when the sequence is emptied: rows of an earlier life are dropped
  uint64_t family = 0;  // of forks
  Owner owner;
  uint32_t flags = 0;
  History text;  // as long as a sequence can be; what is not computed yet is a plan
  uint64_t prompt = 0;
  uint64_t goal = 0;
  uint64_t committed = 0;
  uint64_t reserved = 0;
  uint64_t known = 0;
  uint32_t in_flight = 0;
  bool loading = false;
  quire_fetch_id fetch = 0;  // in progress: nothing else is done with the sequence
  // Nothing but rows made what it has, and nothing was forgotten since. If also nothing was
  // evicted, all of it must be found again.
  bool whole = true;
  uint64_t evicted_before = 0;  // blocks
  uint64_t encoder = 0;
  uint64_t encoder_hash = 0;

  bool fresh() const { return reserved == 0 && known == 0; }
};

struct Pin {
  quire_pin_id id = 0;
  Owner owner;
  std::vector<quire_symbol> symbols;  // one more than it holds
  uint64_t tokens = 0;
  bool hard = false;
  bool loose = false;  // blocks were forgotten since, perhaps its own
  int64_t deadline = INT64_MAX;
};

// Which runs have tiers.
enum class Tiered : uint8_t { kSome, kAlways, kNever };

struct Mode {
  bool verbose = false;
  bool quiet = false;  // the last sequence runs to its end: nothing unusual happens
  Tiered tiered = Tiered::kSome;
};

struct Limits {
  uint64_t longest = 0;  // tokens of a sequence
  uint32_t running = 0;  // sequences
  uint32_t tokens = 0;   // of a step
  uint32_t depth = 1;
  uint32_t branches = 0;
  bool in_place = false;
  bool at_blocks = false;
  bool finds_all = false;  // hits end wherever blocks do
  bool reuse = true;       // prefixes are found
  uint32_t loads = 16;     // at once
  uint64_t load_tokens = 0;
  bool budget = false;  // states that are kept take so many bytes at most
};

using ReleaseRuntime = Releaser<quire_runtime, quire_runtime_release>;
using RuntimeHandle = std::unique_ptr<quire_runtime, ReleaseRuntime>;
using CacheHandle = std::unique_ptr<quire_cache, Releaser<quire_cache, quire_cache_release>>;

// Counters of the cache that the engine knows.
struct Counters {
  uint64_t steps = 0;
  uint64_t aborted_steps = 0;
  uint64_t refused_entries = 0;
  uint64_t preemptions = 0;
  uint64_t forks = 0;
  uint64_t matches = 0;
  uint64_t matched_prompt_tokens = 0;
  uint64_t hit_tokens = 0;
};

// Each is NULL in runs without it.
struct Onlookers {
  std::unique_ptr<UsesInFlight> uses;
  std::unique_ptr<EventView> events;
  std::unique_ptr<FollowedSteps> follower;
  std::unique_ptr<UploadedTables> uploaded;
};

// What a run leaves to another one of the same model, under another tensor-parallel size.
struct Heritage {
  Plan plan;
  Phrases phrases;
  Computed computed;
  Legacy legacy;
};

class Ledger {
 public:
  // heritage: NULL, or what another run left; its plan is taken.
  Ledger(size_t kind, uint64_t seed, Mode mode, Tallies* tallies, Heritage* heritage);
  const std::string& words() const { return plan_.options; }

 protected:
  // A tally of what was done, and a line of text if the run is verbose.
  void trace(const char* what, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) const;
  // The sequence of a row, unless it is gone or was emptied since.
  Sequence* alive(const TakenRow& row);
  // The sequence begins another life without tokens.
  void empty(Sequence* s);
  // New symbols from a position on. They are written now, though nobody computes them yet.
  void rewrite(Sequence* s, uint64_t from);
  TakenRow row_of(const Sequence& s, uint64_t position, uint64_t end) const;
  // The cache's tokens and symbols of a sequence must be the model's.
  void agree(const Sequence& s) const;
  // Reserved tokens, as the cache says.
  uint64_t length_of(const Sequence& s) const;
  // Tokens that the identity would hit.
  uint64_t probed(const Owner& owner, const std::vector<quire_symbol>& symbols, uint64_t n) const;
  quire_cache_stats stats() const;
  // Of a call that admitted nobody.
  void nothing_changed(const quire_cache_stats& before) const;
  bool overdue(const Pin& pin) const { return pin.deadline <= time_; }
  // What the run was made of, with its reads.
  void count_traits() const;
  // The cache has counted as the engine has.
  void count_alike() const;
  // Slots behind the row have memory, too: in groups that keep everything the blocks can be
  // counted.
  void room_was_made(const quire_reserve_entry& entry, const quire_reserve_result& result, const Sequence& s) const;
  // What a sequence computed can be hit when it is gone, unless something was evicted meanwhile.
  void found_again(const Sequence& s);
  // Everything that the engine has of a new step or load, and what others think of it.
  void take(TakenStep* taken);
  // It was committed or aborted, or the load has ended.
  void done(const TakenStep& taken);

  Dice dice_;
  Dice clock_dice_;      // of its own: runs without pins that end by themselves stay the same
  Dice hold_dice_;       // of holds, units, and limits of loads
  Dice tier_dice_;       // of tiers
  Dice heir_dice_;       // of what is left to another run
  bool tiered_ = false;  // the run has them, if its plan can
  bool inherits_ = false;
  int64_t time_ = 0;  // one per operation
  bool pins_end_ = false;
  Mode mode_;
  Tallies& tallies_;
  KindTally& tally_;
  Plan plan_;
  Limits limits_;
  RuntimeHandle runtime_;
  CacheHandle cache_;
  std::unique_ptr<StampedBytes> bytes_;
  Counters counters_;
  Onlookers onlookers_;
  Phrases phrases_;
  Computed computed_;
  std::vector<Owner> owners_;
  std::deque<Sequence> sequences_;
  std::deque<TakenStep> in_flight_;
  std::vector<TakenStep> loads_;
  std::vector<Pin> pins_;
  std::vector<quire_symbol> symbols_;  // of one call
  uint64_t next_life_ = 1;

 private:
  quire_cache_options draw_options();
  void create_cache();
  void add_media();
};

// A call that must not fail.
inline void must_call(quire_code code, const quire_error& err, const char* call) {
  if (code != QUIRE_OK) [[unlikely]]
    throw Mismatch(std::string(call) + ": " + err.message);
}

}  // namespace quire::stamps
