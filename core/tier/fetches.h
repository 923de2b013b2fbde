// Prefixes on their way from tiers into the cache. A fetch asks who has which records, chooses the
// boundary that is worth most, begins a load to it, brings what the load lacks, and ends the load
// with what came. It ends by its deadline whatever the transfers do: what may still be written then
// is held apart from the pool (the quarantine) until the last transfer has ended.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/tier/boundary.h"
#include "core/tier/tier_state.h"

namespace quire {

// A fetch is worth its while if it takes at most this share of the time to compute.
inline constexpr double kWorth = 0.8;

class Fetches {
 public:
  // state: borrowed. ns_per_token: of computing a prompt; 0: unknown.
  Fetches(TierState& state, double ns_per_token, uint32_t most);

  Result<quire_fetch_id> begin(SequenceId sequence, std::span<const quire_symbol> symbols, int64_t deadline_ns);
  Status cancel(quire_fetch_id fetch);
  void ended(uint32_t slot, const quire_completion& end);
  // Moves on what waits for streams or for time.
  void advance();
  // Those that have ended, each once.
  uint64_t take_results(std::span<quire_fetch_result> out);
  bool has_results() const { return !results_.empty(); }
  uint64_t num_in_progress() const { return num_in_progress_; }
  // When the next one is given up; INT64_MAX: none is in progress.
  int64_t next_deadline() const;
  void cancel_all();

 private:
  enum class Phase : uint8_t { kFree, kLooking, kLookingAgain, kPreparing, kLoading };
  struct Fetch {
    Phase phase = Phase::kFree;
    quire_fetch_id id = 0;
    SequenceId sequence;
    std::vector<quire_symbol> symbols;
    int64_t begun = 0, loading_since = 0, deadline = 0;
    bool has_deadline = false;  // of the engine
    bool is_late = false;       // a transfer was
    uint64_t hit = 0, full_hit = 0;
    std::vector<uint64_t> ends;      // at which the prompt is named
    std::vector<PrefixNames> names;  // there
    Candidates candidates;
    std::unique_ptr<RecordTable> table;
    uint32_t outstanding = 0;  // tickets of the phase
    size_t asked_from = 0;     // look-ups: the first record of the phase
    uint32_t unasked = 0;      // bits of tiers that were full
    uint64_t boundary = 0;
    StepId load{0};
    uint64_t position = 0;                               // of the load
    std::vector<uint64_t> have;                          // by group
    std::vector<std::vector<int32_t>> ids;               // by group
    std::vector<uint32_t> slots;                         // loads in flight
    std::vector<std::pair<uint32_t, uint64_t>> pending;  // parts and ends of records that wait for a slot
    std::vector<quire_load_failure> failures;
    size_t num_left_out = 0;  // of them: what no record has, the first ones
    uint64_t bytes_wanted = 0, bytes_here = 0;
    std::vector<uint64_t> bytes_of;   // by tier: that came
    std::vector<int64_t> elapsed_of;  // by tier: until the last of them was there
  };

  // Finding.
  Status name_prompt(Fetch* f);
  static const PrefixNames& names_at(const Fetch& f, uint64_t end);
  void look_up(uint32_t index);
  void look_up_tails(uint32_t index);
  // All have answered.
  void looked_up(uint32_t index);
  void ask(uint32_t index, size_t first);
  void ask_rest(uint32_t index);
  void choose(uint32_t index);
  bool is_worth(const Fetch& f, uint64_t boundary, std::span<const uint64_t> bytes) const;
  int64_t deadline_for(const Fetch& f, std::span<const uint64_t> bytes) const;

  // Bringing.
  // *committed: tokens of the sequence where no load began.
  quire_fetch_outcome begin_load(uint32_t index, uint64_t boundary, uint64_t* committed);
  Status prepare(Fetch* f);
  void start_loads(uint32_t index);
  void submit_pending(uint32_t index);
  // False: no slot is free, or the tier takes no more now.
  bool submit_load(uint32_t index, uint32_t part, uint64_t end, bool whole);
  bool find_wanted(const Fetch& f, const TierPart& part, Transfer* t) const;
  // Whether the load has a place for this block of the sequence.
  bool has_place(const Fetch& f, const TierPart& part, uint64_t block) const;
  void leave_out(Fetch* f) const;
  void lookup_ended(uint32_t slot, const quire_completion& end);
  void load_ended(uint32_t slot, const quire_completion& end);
  quire_code check_arrived(uint32_t slot, const Fetch& f, bool* otherwise);
  quire_code scatter(const Transfer& t, const Fetch& f);
  const RecordRuns* runs_for(const Transfer& t, const RecordShape& shape);
  void count_failure(const Transfer& t, quire_code code);
  void note_failure(Fetch* f, const Transfer& t) const;

  // Ending.
  void end_load(uint32_t index, quire_fetch_outcome outcome);
  void finish(uint32_t index, quire_fetch_outcome outcome, uint64_t committed);
  void give_up(uint32_t index, quire_fetch_outcome outcome);
  void orphan_lookups(uint32_t index, bool is_late);
  bool is_too_slow(const Fetch& f, int64_t now) const;

  TierState& state_;
  double ns_per_token_;
  std::vector<Fetch> fetches_;
  std::vector<quire_fetch_result> results_;
  std::unordered_map<uint64_t, uint32_t> quarantine_;  // holds, and transfers that may write there
  quire_fetch_id next_id_ = 1;
  uint64_t num_in_progress_ = 0;
  std::map<std::pair<uint32_t, std::vector<uint8_t>>, std::unique_ptr<RecordRuns>> foreign_;  // by part and shape; null: none fit
};

}  // namespace quire
