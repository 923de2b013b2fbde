// A random engine: it knows everything that it will ever ask, so it can say beforehand what the cache must answer. Lengths, symbols, blocks
// of every sequence and all counters are kept beside the cache, in the simplest form there is, and compared after every step.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/model/follow.h"
#include "tests/model/router.h"
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
  kWindowInterval,
  kDrafts,           // groups that write ahead of what is committed
  kCheckpointBytes,  // kept states have a budget
  kGiveUpState,      // one of them goes for another
  kEncoder,          // cross attention
  kEvents,           // a router follows the cache's events, and is right after every step
  kNumOperations
};
extern const char* const kOperationNames[kNumOperations];

struct Tally {
  std::array<uint64_t, kNumOperations> counts{};
  uint64_t steps = 0, rows = 0, reads = 0, verified = 0, digests = 0, many_groups = 0, engines = 0, drained = 0, plain = 0;
  uint64_t views = 0, guesses = 0, hits = 0, late = 0;  // of routers
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
  void load();
  void arrived(size_t i, bool faults);
  uint64_t resumable(const PlannedRow& row, std::span<const quire_load_failure> failures) const;
  void call_while_loading(const Request& r);
  void call_wrongly();
  void call_all_wrongly();
  void reserve_wrongly();
  void commit_wrongly();
  void look(std::vector<uint64_t>* out);
  void empty(Request* r);
  void start_life(Request* r);
  void cut_blocks(Request* r, uint64_t tokens) const;

  void reserve(bool faults);
  bool want(Request* r, bool faults, quire_reserve_entry* entry);
  PlannedRow row_of(const quire_reserve_entry& entry, const quire_reserve_result& result, Request* r);
  void admitted(const quire_reserve_entry& entry, const quire_reserve_result& result, Request* r, PlannedStep* planned);
  void refused(const quire_reserve_entry& entry, const quire_reserve_result& result, const Request& r, bool first);
  void relieve();
  void run_until(size_t n);

  void settle(bool faults);
  void commit(bool faults);
  void commit_row(const PlannedRow& row, bool faults, quire_commit_entry* entry);
  void abort();
  void undo(const PlannedRow& row, bool unstarted);
  bool overwrites_current(const Request& r) const;
  void follow(StepId step);
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
  static constexpr size_t kMostPins = 6;
  std::vector<PinnedText> pins_;
  std::array<std::vector<quire_symbol>, 4> stems_;
  std::vector<std::pair<quire_symbol, uint32_t>> media_;  // first symbol, length
  std::vector<quire_reserve_entry> entries_;
  std::vector<quire_symbol> symbols_;
  std::vector<quire_reserve_result> results_;
  std::vector<size_t> who_;
  quire_cache_stats expected_{};  // the counters that the engine can know
  quire_cache_stats before_{};    // at the last reserve
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
