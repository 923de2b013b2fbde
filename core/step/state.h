// The inside of Cache: what its files share. One step is a record of everything it did, so that abort is its reversal.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <new>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/events/event_recorder.h"
#include "core/plan/cache_config.h"
#include "core/pool/pool.h"
#include "core/prefix/checkpoints.h"
#include "core/prefix/index.h"
#include "core/sequence/sequence.h"
#include "core/step/cache.h"
#include "core/step/media.h"

namespace quire {

struct Limits {
  uint32_t max_sequences = 0;
  uint32_t max_entries = 0;
  uint32_t max_tokens = 0;
  uint32_t depth = 0;
  uint32_t watermark_pages = 0;
  uint64_t checkpoint_interval = 0;  // tokens; 0 = every chunk end on the grid
  uint32_t branches = 0;             // draft tokens whose states are written one by one
  bool in_place = false;             // states are written where they are read
  uint32_t keep = 0;                 // QUIRE_KEEP_*
  bool at_blocks = false;            // kernels write the states of all block boundaries
  uint64_t window_interval = 0;      // tokens; 0 = every boundary where a hit can end
};

Result<Limits> read_limits(const quire_cache_options& options);

// Multiples of a number of tokens; most are powers of two.
class Grid {
 public:
  Grid() = default;
  explicit Grid(uint32_t tokens) : tokens_(tokens), shift_(std::has_single_bit(tokens) ? std::countr_zero(tokens) : -1) {}
  uint64_t quotient(uint64_t n) const { return shift_ >= 0 ? n >> shift_ : n / tokens_; }
  bool divides(uint64_t n) const { return shift_ >= 0 ? (n & (tokens_ - 1)) == 0 : n % tokens_ == 0; }
  uint64_t ceil(uint64_t n) const { return quotient(n + tokens_ - 1); }

 private:
  uint64_t tokens_ = 1;
  int shift_ = 0;
};

// What every row asks of a group's plan, side by side.
struct GroupFacts {
  LiveRange live;
  Grid block;
  uint32_t columns = 1;
  bool state = false;
  bool grows = false;  // has a table that grows with the sequence; without it, and no state: cross attention, the encoder's tokens
  bool whole = false;  // needs everything
  bool falls = false;  // has a table whose blocks leave the live range
  uint32_t block_tokens = 0;
  uint32_t look_ahead = 0;  // tokens that drafts write ahead; a hit drops a block then
  uint64_t state_bytes = 0;
  // Windows: resuming at a boundary takes the `kept` blocks before it. In every `period` blocks that many are worth being found.
  bool sparse = false;  // false: all are
  uint32_t kept = 0;
  uint32_t period = 0;            // 0 = none but those before ends of prompts and junctions
  bool with_states = false;       // those before boundaries that keep states are
  bool only_with_states = false;  // and no others, but for sinks: no interval was asked for
};

// Whether what the group holds of a token depends on the ones that follow it.
inline bool drafts_into(const GroupPlan& g) { return g.look_ahead > 0 && !g.live.state && !g.live.fixed && g.live.chunk == 0; }

// What a row did to one group.
struct RowGroup {
  uint32_t blocks_before = 0;
  uint32_t settled = 0;                      // blocks before are as the sequence's row before showed them
  PartIndex read{kNone};                     // states: kNone = the zero state
  PartIndex write{kNone};                    // states: the last of the writes
  uint32_t first_write = 0, num_writes = 0;  // in the step's writes
};

// A state that a row writes: with one reference, handed to the sequence or given back when the step is done.
struct StateWrite {
  PartIndex part{kNone};
  NodeId node{kNone};  // of its boundary in the index, while a commit keeps it
  uint64_t end = 0;    // tokens of the sequence behind which it is the state
};

// Blocks [first, end) of a table; end may lie before first.
struct Stretch {
  uint32_t first = 0, end = 0;
};

// A shared or published block that a row replaced by its own copy; the reference to the old one is kept until the step is done.
struct Replaced {
  uint32_t row = 0;
  uint32_t group = 0;
  uint32_t block = 0;
  PartIndex old_head{kNone};
};

struct Row {
  SequenceId id;
  uint32_t sequence = kNone;
  uint32_t incarnation = 0;
  uint64_t position = 0;
  uint32_t num_tokens = 0;
  uint32_t encoder = 0;       // tokens; a row at position 0 writes them, too
  uint64_t known_before = 0;  // symbols of the sequence before this row's reserve
  bool gave_symbols = false;
  bool stays = false;                     // in blocks that the row before showed: only groups of states have a RowGroup
  bool matched = false;                   // the sequence was empty before
  bool prompt_end = false, keep = false;  // keep: the engine asks for its state
  bool junction = false;                  // ends where groups that need everything would have resumed
  uint64_t seen_before = 0;               // where attention that needs everything matched beyond the hit; 0 = it did not
  quire_miss miss = QUIRE_MISS_NONE;
  uint32_t matched_tokens = 0;  // symbols given with the match
  uint32_t spared = 0;          // tokens between the state that the match resumed from and the one before
};

struct Step {
  uint64_t id = 0;
  uint32_t num_tokens = 0;
  uint32_t num_slots = 0;  // tokens and look-ahead
  std::vector<Row> rows;
  std::vector<RowGroup> groups;  // [row][group]
  std::vector<StateWrite> writes;
  std::vector<Replaced> replaced;
  std::vector<quire_copy> copies;
  std::vector<quire_zero> zeroes;

  void clear(uint64_t new_id);
};

// How far a group's blocks are of use to hits, and where the next one ends that is not in the index; UINT64_MAX: behind that.
struct Front {
  uint64_t end = 0;
  uint64_t next = UINT64_MAX;
};

// A prefix that stays: one reference to each block that resuming behind it takes, the deepest first.
struct Pin {
  uint64_t id = 0;  // 0: free
  uint32_t priority = 0;
  int64_t deadline = INT64_MAX;
  bool loose = false;  // within an admission: without its references
  uint32_t root = kNone;
  NodeId node{kNone};  // held: where nothing is needed to resume, nothing else keeps it
  uint64_t tokens = 0;
  std::string salt;
  std::vector<PartIndex> heads;
  uint32_t num_behind = 0;  // of them, the first ones: behind the hit, see hold_above_pinned
};

// Pages an entry needs, counted before anything is taken.
struct Demand {
  uint64_t pages = 0;              // beyond claimed holes
  uint64_t pages_using_holes = 0;  // when holes of other pages of the group are used too
  uint64_t pages_using_all = 0;    // when cached parts between held ones are evicted, too
  uint32_t worst_group = 0;        // asks for most pages
};

// Where parts may come from beside the claimed page; each also allows what stands before it.
enum class Room : uint8_t {
  kPages,   // free and evictable pages
  kHoles,   // holes in other pages of the group
  kCached,  // cached parts in pages of the group that are in use: evicted block by block
};

// For whom parts are taken.
struct Taking {
  uint32_t group = 0;
  Room room = Room::kPages;
  uint64_t owner = 0;
  uint64_t root = 0;
  Holding* holding = nullptr;
};

// What reserve wants to do for one entry; nothing has changed yet.
struct Intent {
  uint32_t sequence = kNone;
  bool match = false;
  bool load = false;  // a connector brings the tokens
  Match found;
  uint64_t most = UINT64_MAX;  // tokens of the hit
  uint64_t junction = 0;       // where groups that need everything would resume and the others cannot; 0: nowhere
  uint64_t position = 0;
  uint32_t num_tokens = 0;
  uint32_t encoder = 0;  // tokens that the sequence begins with
  uint64_t end = 0;      // tokens that must have slots, look-ahead included
  bool chunk_stop = false;
  bool last_boundary = false;  // the stop is the last boundary before what was asked for
  Room room = Room::kPages;
  bool held = false;     // the hit's place, whose pin was given up for it
  bool give_up = false;  // states that are kept may be overwritten by their only user
};

struct Cache::Impl {
  PrefixIndex index;  // first: it asks for lines of its own
  std::shared_ptr<const Config> config;
  Limits limits;
  uint64_t of_plan = 0;       // its digest
  uint64_t spacing = 1;       // tokens between states that are kept in any case
  uint64_t most_encoder = 0;  // tokens; 0: no group is of cross attention
  bool reuse = true;
  bool has_states = false, swaps_states = false;  // one read and another one written, and none on the way
  bool fine = false;                              // hits may end inside blocks
  bool strict_lru = false;                        // blocks are given up by their last use and nothing else
  bool has_drafts = false, has_falling = false;   // a group's blocks leave its live range
  bool clearing = false;                          // what is forgotten now is not found anyway: nobody is told
  uint32_t first_state = kNone;                   // group; pins of its states count for the boundary
  uint32_t first_step = 0, num_steps = 0;         // see steps
  uint32_t num_begun = 0;                         // sequences that have tokens, reserved ones included
  Grid joint;                                     // boundaries where all groups can be hit
  std::vector<GroupFacts> facts;                  // by group
  std::vector<uint32_t> state_groups;
  Pool pool;
  Checkpoints checkpoints;         // of what the index has
  uint64_t checkpoint_budget = 0;  // bytes
  Sequences sequences;
  std::vector<Step> steps;  // ring of `depth`: [first_step, first_step + num_steps)
  std::vector<Step> loads;  // beside the steps; without a row: not in progress
  uint64_t next_id = 1, mark = 0;
  std::vector<PartIndex> scratch_parts, scratch_heads;  // one block's parts, one page's blocks
  std::vector<uint64_t> page_marks;                     // stamps of `mark`, by page
  std::vector<int64_t> idle_by_hit;     // by group: parts that nobody else needs in pages that the hit keeps, less cached parts it takes
  std::vector<uint64_t> opened_by_hit;  // by group: pages that stop being evictable with it
  uint64_t all_alone = 0;               // pages of the longest sequence; 0: any pages do, or it does not fit
  std::vector<uint64_t> pages_alone, pages_by_hit;  // by group
  std::vector<uint32_t> uses_by_hit;                // by page: parts; zero between calls
  Media media;
  quire_cache_stats counters{};
  EventRecorder events;
  std::vector<Pin> pins;
  uint64_t next_pin = 1, pin_quota = 0;
  int64_t next_deadline = INT64_MAX;  // of the pins
  quire_clock_fn clock = nullptr;     // null: CLOCK_MONOTONIC
  void* clock_user = nullptr;
  uint64_t pin_grid = 1;    // pins end at its multiples
  uint64_t block_grid = 1;  // tokens: at its multiples all blocks of groups that need everything end
  std::vector<NodeId> publish_path;
  std::vector<Front> publish_fronts;  // by group, of the sequence that publishes
  mutable std::shared_mutex mutex;    // readers: probe, stats

  Impl(std::shared_ptr<const Config> c, Pool p, PrefixIndex i, Sequences s, uint64_t max_media)
      : index(std::move(i)),
        config(std::move(c)),
        pool(std::move(p)),
        sequences(std::move(s)),
        media(max_media),
        events(*config, index, pool) {}

  uint32_t num_groups() const { return static_cast<uint32_t>(config->groups.size()); }
  const GroupPlan& plan(uint32_t g) const { return config->groups[g]; }
  // The i-th step in flight, oldest first; i == num_steps is the one being made.
  Step& step_at(uint32_t i) { return steps[(first_step + i) % limits.depth]; }
  const Step& step_at(uint32_t i) const { return steps[(first_step + i) % limits.depth]; }
  uint32_t find_step(StepId id) const;                     // kNone: not in flight
  const Step* step_of(StepId id, uint32_t* number) const;  // a load, too; null: neither
  uint64_t newest_id() const { return num_steps == 0 ? 0 : step_at(num_steps - 1).id; }
  RowGroup& row_group(Step& step, size_t row, uint32_t g) { return step.groups[row * num_groups() + g]; }
  const RowGroup& row_group(const Step& step, size_t row, uint32_t g) const { return step.groups[row * num_groups() + g]; }
  bool dropped(const Row& row) const {
    const uint32_t s = sequences.find(row.id);
    return s == kNone || sequences.at(s).incarnation != row.incarnation;
  }
  // Who fills a page: a sequence in one incarnation.
  uint64_t owner(uint32_t sequence) const;

  void prepare_scratch();
  void prepare_step(Step* step, uint64_t rows, uint64_t columns, uint64_t writes, uint64_t parts);
  GroupFacts facts_of(const GroupPlan& g) const;

  // blocks.cc: taking and releasing.
  void release(PartIndex head);  // one reference; fenced while steps are in flight
  bool make_free_page();         // evicts the oldest page if none is free; false: nothing to evict
  void empty_stale();
  bool empty_oldest();
  void evict_page(PageId page, GroupId group);
  void forget_block(NodeId node, GroupId group, bool evicted);
  Taking start_taking(uint32_t sequence, uint32_t group, Room room);
  TakenPart take_part(const Taking& taking);
  uint32_t recycle(const Taking& taking, std::span<int32_t> ids, Step* step);
  PartIndex take_plain(const Taking& taking, Step* step);
  PartIndex take_block(const Taking& taking, Step* step);
  uint32_t take_run(const Taking& taking, std::span<int32_t> ids, Step* step);
  uint32_t take_claimed_run(const Taking& t, std::span<int32_t> ids, Step* step);
  void grow(const Taking& taking, uint32_t sequence, uint32_t want, Step* step);  // the table, to `want` blocks
  void note_zero(Step* step, uint32_t group, uint32_t column, const TakenPart& taken);
  PartIndex block_head(uint32_t sequence, uint32_t group, uint32_t block) const {  // kNone where not resident
    const int32_t id = sequences.table(sequence, group, 0)[block];
    return id == 0 ? PartIndex(kNone) : pool.index_of(GroupId(group), PartId(id));
  }
  void put_block(uint32_t sequence, uint32_t group, uint32_t block, PartIndex head);
  void clear_blocks(uint32_t sequence, uint32_t group, uint32_t first, uint32_t end);
  void release_blocks_from(uint32_t sequence, uint32_t group, uint32_t first);  // tail first
  void release_all(uint32_t sequence);
  void prune(uint32_t sequence, const Step& step, size_t row);  // what left the live ranges at `committed`
  Stretch cold_blocks(const Step& step, size_t row, uint32_t group, uint64_t committed) const;

  // reserve.cc
  Status check_entry(const quire_reserve_entry& e, std::span<const quire_symbol> symbols, size_t i) const;
  Status check_reserve(std::span<const quire_reserve_entry> entries, std::span<const quire_symbol> symbols) const;
  quire_code intend(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step, Intent* intent);
  void choose_chunk(const quire_reserve_entry& entry, Intent* intent) const;
  Demand count(const Intent& intent, uint64_t end, bool whole_sequence);
  bool wants_nothing(const Intent& intent) const;
  bool evict_between(uint32_t group);  // a block whose page somebody else keeps in use
  uint64_t blocks_wanted(const Intent& intent, uint32_t group, uint64_t end, bool whole_sequence) const;
  uint64_t evictable_hits(const Intent& intent);
  uint64_t parts_of_hit(const Intent& intent) const;  // at most
  template <typename Visit>
  void visit_hit(const Intent& intent, Visit visit) const;
  bool tail_is_shared(uint32_t sequence, uint32_t group, uint64_t position) const;
  quire_code admit_keeping(const quire_reserve_entry& entry, Intent* intent, quire_reserve_result* result);
  quire_code admit_unpinned(const quire_reserve_entry& entry, Intent* intent, quire_reserve_result* result);
  void apply(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Intent& intent, Step* step);
  Row& add_row(const quire_reserve_entry& entry, uint32_t q, uint64_t position, uint32_t num_tokens, uint32_t num_slots, Step* step);
  void settle(uint32_t sequence, uint32_t group, uint64_t tokens, RowGroup* rg);
  void give_back_encoder(uint32_t sequence);
  uint64_t count_next(uint32_t q, uint64_t end, uint64_t* parts) const;
  bool go_on(const quire_reserve_entry& entry, Step* step, quire_reserve_result* result);
  void tell_admitted(const quire_reserve_entry& entry, const Intent& intent, quire_reserve_result* result);
  uint64_t adopt_hit(const Intent& intent);  // tokens that its state spared
  void replace_tail(uint32_t sequence, uint32_t group, uint64_t position, Room room, Step* step);

  // alone.cc
  void prepare_alone();
  uint64_t end_of_room(const Intent& intent);
  void find_hit(std::span<const quire_symbol> symbols, Intent* intent);
  bool is_alone(uint32_t sequence) const { return num_begun == (sequences.at(sequence).reserved > 0 ? 1 : 0); }
  Room room_alone(const Intent& intent, Room room) const;
  quire_code decide(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols, const Step& step, Intent* intent,
                    quire_reserve_result* result);
  void set_reserved(Sequence* s, uint64_t tokens) {
    num_begun += (tokens > 0 ? 1 : 0) - (s->reserved > 0 ? 1 : 0);
    s->reserved = tokens;
  }

  // load.cc
  Stretch dead_blocks(const GroupFacts& group, uint64_t end) const;
  Stretch passed_blocks(const GroupFacts& group, uint64_t end) const;
  void grow_around(const Taking& taking, uint32_t sequence, Stretch dead, uint32_t want, Step* step);
  Status check_load(const quire_reserve_entry& entry, std::span<const quire_symbol> symbols) const;
  uint64_t resumable(const Row& row, uint32_t group, uint64_t most, std::span<const quire_load_failure> failures) const;
  void drop_incomplete(const Row& row, uint64_t end, std::span<const quire_load_failure> failures);
  uint64_t load_ends(const Step& load, std::span<const quire_load_failure> failures) const;  // what is committed
  Status check_load_end(const Step& load, std::span<const quire_load_failure> failures, std::span<const quire_symbol> symbols) const;

  // pin.cc
  Pin* find_pin(quire_pin_id id);
  int64_t now() const;
  Status check_quota(std::string_view salt, uint64_t tokens) const;
  void hold_for_pin(const Match& found, std::span<const quire_symbol> symbols, Pin* pin);
  void hold(PartIndex head);                                            // a reference of somebody whose steps never touch the block
  void hold_above_pinned(NodeId node, uint32_t group, PartIndex head);  // it is published now
  void unhold(PartIndex head);
  void end_pin(Pin* pin);
  void end_overdue_pins();
  Pin* softest_pin();
  void loosen(Pin* pin);  // its references go; what they were is kept, so that they can come back
  void drop_forgotten(Pin* pin);
  void own_of(uint32_t sequence, std::span<uint64_t> pages, std::span<uint64_t> parts);
  void judge(const quire_reserve_entry& entry, const Step& step, const Intent& intent, quire_reserve_result* result);
  quire_code admit(const quire_reserve_entry& entry, Intent* intent, quire_reserve_result* result);

  // commit.cc
  Status check_commit(const Step& step, std::span<const quire_commit_entry> entries, std::span<const quire_symbol> symbols) const;
  void commit_row(Step* step, size_t r, const quire_commit_entry& entry, std::span<const quire_symbol> symbols);
  void undo_row(Step* step, size_t r, bool unstarted);
  void drop_row(Step* step, size_t r);
  void reset_sequence(uint32_t sequence);  // empty again, id kept
  bool nothing_is_held() const;            // neither blocks nor places in the index, but for its roots
  void abandon_all();

  // checkpoints.cc
  uint64_t block_bytes(const GroupPlan& g) const;
  Status prepare_checkpoints(uint64_t budget);
  void give_up_boundary(NodeId node);
  bool make_room_to_keep(NodeId node, uint64_t bytes);
  template <typename StateOf>
  bool keep_boundary(uint32_t sequence, NodeId node, bool cold, StateOf state_of);
  void publish_states(Step* step, size_t r);
  void lose_state(GroupId group, NodeId node);
  void pin_state(PartIndex head, bool pinned);
  bool give_up_least();
  Status verify_checkpoints() const;

  // states.cc
  std::span<StateWrite> writes_of(Step& step, const RowGroup& rg) { return std::span(step.writes).subspan(rg.first_write, rg.num_writes); }
  uint64_t writes_per_step() const;  // at most
  uint64_t num_writes(uint64_t position, uint32_t num_tokens) const;
  uint64_t write_end(uint64_t position, uint32_t num_tokens, uint64_t i) const;
  bool writes_each_token(uint32_t num_tokens) const { return num_tokens <= limits.branches + 1; }
  bool may_overwrite(const Intent& intent, uint32_t group) const;
  uint64_t states_wanted(const Intent& intent, uint32_t group) const;
  uint64_t states_of_whole(uint64_t end) const;
  void take_states(const Intent& intent, uint32_t group, RowGroup* rg, Step* step);
  void take_spare(uint32_t q, uint32_t group, uint64_t end, RowGroup* rg, Step* step);
  void keep_spare(uint32_t sequence, uint32_t group, PartIndex part);  // or release it
  void give_back_spares(uint32_t sequence);
  bool commit_states(Step* step, size_t r, uint32_t accepted);  // false: overwritten, and nothing was accepted
  bool worth_keeping(const Row& row, uint64_t end) const;
  bool asked_for(const Row& row, uint64_t end) const;
  void publish_tails(uint32_t sequence);
  void retire_states(Step* step, size_t r, bool accepted);
  void swap_states(Step* step, size_t r);
  bool undo_states(Step* step, size_t r, uint32_t group);  // true: the state that was read may be overwritten
  void drop_states(Step* step, size_t r);
  void empty_lost(uint32_t first, uint32_t end);     // of the aborted steps [first, end)
  bool overwrites_current(uint32_t sequence) const;  // a row in flight does

  // forget.cc
  bool uses(uint32_t sequence, uint32_t group, PartIndex head) const;
  void silence_users(uint32_t group, PartIndex head);  // they publish nothing more

  // publish.cc
  void publish_units(uint32_t sequence);
  void publish_behind(uint32_t sequence);
  void publish_windows(uint32_t sequence, NodeId node);
  void publish_at(uint32_t sequence, NodeId node, uint64_t end);
  void publish_next(uint32_t sequence, uint32_t group, NodeId node);
  void publish_run(uint32_t sequence, uint32_t group, std::span<const NodeId> made);
  uint32_t publish_new(uint32_t sequence, NodeId* at);
  void find_front(const Holding& holding, uint32_t group) {
    Front& front = publish_fronts[group];
    const uint64_t next = (uint64_t{holding.told} + 1) * facts[group].block_tokens;
    front.next = next <= front.end ? next : UINT64_MAX;
  }
  void mend_path(uint32_t sequence);
  void settle_tail(uint32_t sequence, uint32_t group, NodeId node, PartIndex head);
  uint64_t publish_end(const GroupFacts& group, uint64_t tokens) const;
  bool worth_finding(const GroupFacts& group, uint64_t block, const Sequence& s) const;

  // branch.cc
  void share_blocks(uint32_t parent, uint32_t child);
  PartIndex committed_head(uint32_t sequence, uint32_t group, uint32_t block) const;
  Status check_truncate(uint32_t sequence, uint64_t tokens) const;

  void publish_block(uint32_t sequence, NodeId node, uint32_t group, PartIndex head) {
    index.attach(node, GroupId(group), head);
    pool.publish(head, node);
    if (has_drafts && counters.pins > 0) [[unlikely]]
      hold_above_pinned(node, group, head);
    if (events.enabled()) [[unlikely]]
      events.published(sequences.at(sequence).root, node, group, head);
  }
  void unpublish_block(GroupId group, PartIndex head) {
    if (has_states && facts[group.value].state) lose_state(group, pool.node(head));
    pool.unpublish(head);
    if (events.enabled()) [[unlikely]]
      events.forgotten(head);
  }

  struct LiveStep;  // live_step.h

  // verify.cc
  Status count_references(std::vector<uint32_t>* refs, std::vector<uint32_t>* holds) const;
  Status verify_sequence(uint32_t sequence) const;
};

}  // namespace quire
