// A random engine: it knows everything that it will ever ask, so it can say beforehand what the
// cache must answer. Lengths, symbols, blocks of every sequence and all counters are kept beside
// the cache, in the simplest form there is, and compared after every step.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/model/follow.h"
#include "tests/model/random_router.h"
#include "tests/model/world.h"

namespace quire::model {

// What happens in a run; each can be left out, to find out which of them a failure needs.
enum Operation : uint32_t {
  kHit,
  kEvict,
  kHandOver,
  kAbort,
  kFork,
  kRollback,
  kPreempt,
  kFinishInFlight,
  kFailure,  // a call with bad arguments, or an entry that does not fit
  kTruncate,
  kReset,
  kBurst,
  kLookAhead,
  kFullLength,
  kWatermark,
  kSmallIndex,
  kFewRoots,
  kMedia,
  kLateSymbols,
  kNoShare,
  kStatesInPlace,
  kBranches,
  kStatesAtBlocks,
  kUnstarted,
  kHitsInside,
  kKeepStates,
  kForget,
  kPin,
  kLoad,
  kLoadFailure,
  kCheckpointInterval,
  kDrafts,           // groups that write ahead of what is committed
  kCheckpointBytes,  // kept states have a budget
  kGiveUpState,      // one of them goes for another
  kEncoder,          // cross attention
  kEvents,           // a router follows the cache's events, and is right after every step
  kHold,             // blocks of sequences are held
  kLate,             // a load that ended leaves a transfer behind
  kUnits,            // complete units are reported and taken
  kNumOperations
};
extern const char* const kOperationNames[kNumOperations];

struct Tally {
  std::array<uint64_t, kNumOperations> counts{};
  uint64_t steps = 0, rows = 0, reads = 0, verified = 0, digests = 0, many_groups = 0, engines = 0, drained = 0, plain = 0;
  uint64_t views = 0, guesses = 0, hits = 0, late = 0;  // of routers
  uint64_t shared = 0;                                  // loads that share what is cached
  uint64_t reports = 0, unit_states = 0, given_up = 0;  // units: exactly predicted ones, with states, given up
  void add(const Tally& other);
};

struct RunOptions {
  uint64_t seed = 1;
  uint64_t steps = 1000;
  uint64_t without = 0;  // bits by Operation
  bool trace = false;
};

struct Shape {
  std::vector<GroupSketch> groups;
  uint64_t pages = 0;
  uint32_t depth = 1;
  uint64_t max_len = 0;
  uint32_t max_running = 0;
  uint32_t max_tokens = 0;
  bool states = false;
  bool in_place = false, at_blocks = false;  // of states
  uint64_t alignment = 0;                    // hits end at its multiples; 0: of all blocks
  uint32_t branches = 0;                     // drafts whose states are written one by one
  uint64_t encoder = 0;                      // tokens at most; 0: no cross attention

  // Blocks of a group of states that a sequence never has more of.
  uint64_t states_needed(const GroupSketch& group) const {
    const uint64_t crossed = at_blocks ? ceil_div(max_tokens, group.block_tokens) + 1 : 1;
    return (depth + 1) * std::max<uint64_t>(branches + 1, crossed) + 2;
  }
};

// Runs one engine. Throws Wrong; what() ends with the step.
void run_engine(const RunOptions& options, Tally* tally);

// One request of the engine.
struct Request {
  SequenceId id;
  uint64_t life = 0, family = 0;
  uint32_t tenant = 0;
  uint32_t flags = 0;
  std::vector<quire_symbol> tokens;  // all that will ever be computed, unless drafts are rejected
  std::vector<uint64_t> hashes;      // [tokens + 1]
  uint64_t prompt = 0, goal = 0;
  uint64_t encoder = 0, encoder_hash = 0;  // what its decoder attends to, in this life
  uint64_t committed = 0, reserved = 0, known = 0;
  uint32_t in_flight = 0;
  bool fresh = true;                         // empty: may match
  bool lost = false;                         // an abort undid rows that may have overwritten its state
  bool loading = false;                      // a connector brings tokens of it: the one in flight
  std::vector<uint32_t> blocks, first_live;  // by group
};

struct PinnedText {
  quire_pin_id id = 0;
  uint32_t tenant = 0;
  uint32_t priority = 0;
  uint64_t length = 0;     // tokens that are held
  bool forgotten = false;  // blocks were forgotten since
  std::vector<quire_symbol> tokens;
};

// A transfer that was given up and may still write.
struct Late {
  Held held;
  PlannedStep load;
  struct Place {
    uint32_t group = 0, column = 0;
    uint64_t token = 0;
  };
  std::vector<Place> places;
};

// What a sequence had when some of its units were reported.
struct UnitText {
  SequenceId id;
  uint32_t tenant = 0;
  quire_unit_reason reason = 0;
  uint64_t from = 0, to = 0;  // units that end in (from, to]
  bool computed = false;      // by a step
  uint64_t live_at = 0;       // otherwise: what resuming there needs is held
  uint64_t after = 0;         // the newest step then
  std::vector<quire_symbol> tokens;
  std::vector<uint64_t> hashes;
  std::vector<uint64_t> kept_ends;  // of units with states, that were taken
};

struct WaitingUnit {
  std::shared_ptr<UnitText> text;
  uint64_t end = 0;
};

// Units as the engine expects them. Those that end with a state are not known beforehand: with
// states the oldest ones that wait cannot be told apart, so what was given up is only counted.
struct UnitBook {
  quire_unit_options options{};  // no reasons: nobody watches
  uint64_t most = 0;             // that wait
  uint64_t look_ahead = 0;
  bool exact = true;  // all of them are known beforehand
  bool sure = true;   // those that end at multiples are: every sequence publishes
  std::deque<WaitingUnit> waiting;
  std::deque<std::shared_ptr<UnitText>> texts;  // lately
  std::vector<Held> taken;
  uint64_t seen_given_up = 0, gaps = 0;  // given up by now; of them not found out which
  uint64_t noted = 0, perhaps = 0, num_taken = 0;
};

class Engine {
 public:
  Engine(const RunOptions& options, Tally* tally);
  void run();

 private:
  bool allowed(Operation o) const { return (options_.without >> o & 1) == 0; }
  bool roll(Operation o, uint32_t percent) { return chance(rng_, percent) && allowed(o); }
  void note(Operation o, uint64_t n = 1) { tally_.counts[o] += n; }
  template <typename... Args>
  void trace(const char* format, Args... args) const {
    if (options_.trace) std::printf(format, args...);
  }

  void create_cache();
  void step(bool faults);
  void drain();
  void close();

  void arrive();
  void write_prompt(Request* r);
  void write_tokens(Request* r, uint64_t from, uint64_t end);
  void disturb();
  void preempt(size_t i);
  void finish(size_t i);
  void fork(size_t i);
  void truncate(size_t i);
  void reset();
  void forget();
  void pin();
  void unpin(size_t i);
  void unpin_all();
  bool pinned_hard() const;
  bool inside_several() const;
  uint64_t probed(const PinnedText& pin) const;
  void note_given_up(bool somebody_was_admitted);
  void note_root_given_up(bool refused);
  void check_pins() const;
  void choose_holds(quire_cache_options* options);
  void hold_and_let_go(bool faults);
  void begin_hold();
  void end_hold(size_t i);
  void check_resident(const Held& held, uint64_t tokens, uint64_t live_at) const;
  void leave_late(const PlannedStep& load, std::span<const quire_load_failure> failures, quire_hold_id hold);
  bool was_lost(const PlannedStep& load, std::span<const quire_load_failure> failures, uint32_t group, uint64_t block) const;
  void write_late(const Late& late);
  void end_late(size_t i);
  void end_all_holds();
  bool anybody_holds() const { return !holds_.empty() || !lates_.empty() || !units_.taken.empty(); }
  std::vector<const PlannedStep*> all_in_flight() const;

  void watch_units();
  void note_units(const Request& r, uint64_t from, uint64_t to, quire_unit_reason reason, bool computed);
  void note_row(const Request& r, const PlannedRow& row, uint64_t before, bool computed);
  void note_unit(const std::shared_ptr<UnitText>& text, uint64_t end);
  void see_units(bool may_go);
  void take_units(uint64_t most);
  void take_all_units();
  enum class Readiness { kReady, kLater, kNever };
  Readiness readiness(const WaitingUnit& unit) const;
  std::vector<WaitingUnit> expect_units(uint64_t most);
  UnitText find_unit(const quire_unit& unit);
  std::string digest_of(uint32_t tenant, std::span<const quire_symbol> tokens) const;
  void check_unit(const quire_unit& unit, const UnitText& text);
  void end_unit(size_t i);
  uint64_t published(const Request& r) const;

  void load(bool any);
  void check_have(PlannedStep* load, bool alone, uint64_t full_hit);
  void arrived(size_t i, bool faults);
  uint64_t resumable(const PlannedRow& row, std::span<const quire_load_failure> failures) const;
  void call_while_loading(const Request& r);
  void call_wrongly();
  void call_all_wrongly();
  void hold_wrongly();
  void reserve_wrongly();
  void commit_wrongly();
  void look(std::vector<uint64_t>* out);
  void empty(Request* r);
  void start_life(Request* r);
  void cut_blocks(Request* r, uint64_t tokens) const;

  void leave_out_new_ones();
  void reserve(bool faults);
  bool want(Request* r, bool faults, quire_reserve_entry* entry);
  PlannedRow row_of(const quire_reserve_entry& entry, const quire_reserve_result& result, Request* r);
  void admitted(const quire_reserve_entry& entry, const quire_reserve_result& result, Request* r, PlannedStep* planned);
  void refused(const quire_reserve_entry& entry, const quire_reserve_result& result, const Request& r, bool first);
  uint64_t more_than_enough(const quire_reserve_entry& entry, const Request& r) const;
  void relieve();
  void run_until(size_t n);

  void settle(bool faults);
  void commit(bool faults);
  void commit_row(const PlannedRow& row, bool faults, quire_commit_entry* entry);
  void abort();
  void undo(const PlannedRow& row, bool unstarted);
  bool overwrites_current(const Request& r) const;
  void follow(StepId step);
  void follow_one(StepId step);
  void note_overwrites(PlannedStep* planned) const;

  Request* alive(const PlannedRow& row);
  void check();
  void begin_events();
  void ask_router();
  void check_request(const Request& r);
  void check_stats();
  quire_cache_stats stats() const;

  RunOptions options_;
  Rng rng_;
  Tally& tally_;
  Shape shape_;
  std::shared_ptr<const Config> config_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Follow> follow_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Router> router_;  // null: no events
  uint64_t reads_each_ = 1;         // steps from one look of the router to the next
  std::vector<Request> requests_;
  std::deque<PlannedStep> in_flight_;
  std::vector<PlannedStep> loads_;                                      // in progress, in any order
  std::deque<std::pair<uint32_t, std::vector<quire_symbol>>> history_;  // tenant and tokens of requests that were there
  static constexpr size_t kMostPins = 6, kMostHolds = 6;
  static constexpr uint64_t kMostUnits = 2500;  // of the index, where all that are reported are known beforehand
  std::vector<PinnedText> pins_;
  std::array<std::vector<quire_symbol>, 4> stems_;
  std::vector<std::pair<quire_symbol, uint32_t>> media_;  // first symbol, length
  std::vector<quire_reserve_entry> entries_;
  std::vector<quire_symbol> symbols_;
  std::vector<quire_reserve_result> results_;
  std::vector<size_t> who_;
  bool starving_ = false;         // one was preempted, and none of those that run went on since
  quire_cache_stats expected_{};  // the counters that the engine can know
  quire_cache_stats before_{};    // at the last reserve
  Rng hold_rng_{0};               // dice of their own: without them everything else happens as it did
  bool with_holds_ = false, with_late_ = false, with_units_ = false;
  std::vector<Held> holds_;
  std::vector<Late> lates_;
  UnitBook units_;
  uint64_t newest_step_ = 0;  // or load
  uint64_t max_loads_ = 0, max_load_tokens_ = 0;
  uint64_t watermark_ = 0;
  uint64_t checkpoint_budget_ = 0;  // bytes; 0 = none
  bool plain_ = false;              // every block is a page
  uint64_t next_life_ = 1;
  SequenceId last_forked_;
  uint64_t evicted_ = 0, handed_over_ = 0;
  std::vector<uint64_t> seen_, seen_again_;  // what can be observed, around bad calls
  std::vector<uint8_t> exported_;
};

Shape random_shape(Rng& rng, uint64_t without);

}  // namespace quire::model
