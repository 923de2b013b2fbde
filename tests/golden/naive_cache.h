// A naive model of block managers: one list of blocks, one map of keys, searches that start over each time. It speaks twice in a replay. As
// `Upstream` it does what the traces were recorded from and must say the same, call by call. As `Naive` it does the same with the numbered
// differences of docs/differences-from-vllm.md instead, and says what quire must do. So what a difference moves (when a block is released,
// which copy of a prefix is kept, what room is left) is derived, and nothing else is excused.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/golden.h"

namespace quire::golden {

// Prefixes by number: equal symbols behind equal prefixes have one name. 0 is none; every identity has a root of its own.
class PrefixNames {
 public:
  int64_t root(const std::string& identity);
  int64_t of(int64_t parent, const std::vector<int64_t>& symbols);
  // Whether `top` is `name` or one of the prefixes before it.
  bool within(int64_t name, int64_t top) const;
  int64_t parent(int64_t name) const { return parents_[static_cast<size_t>(name)]; }
  // Hash units of the prefix.
  uint64_t length(int64_t name) const { return lengths_[static_cast<size_t>(name)]; }

 private:
  std::map<std::string, int64_t> roots_;
  std::map<std::pair<int64_t, std::vector<int64_t>>, int64_t> names_;
  std::vector<int64_t> parents_{0};
  std::vector<uint64_t> lengths_{0};
};

struct NaiveGroup {
  enum class Kind { kFull, kTrailing, kWindow, kChunk, kCross, kState };
  Kind kind = Kind::kFull;
  std::string spec;  // groups with equal specs are searched together
  uint64_t block = 0;
  uint64_t range = 0;  // window, chunk, or trailing tokens
  uint64_t extra = 0;
  uint64_t cap = 0;  // blocks of a whole request at most; 0 = all
  bool drafts = false;
  bool aligned = false;   // states: upstream moves them about the table, so that each stands at the boundary where it ends
  uint64_t branches = 0;  // states: blocks for drafts

  bool state() const { return kind == Kind::kState; }
  bool full() const { return kind == Kind::kFull || kind == Kind::kTrailing; }
  uint64_t skipped(uint64_t computed) const;  // tokens before the live range
};

struct NaiveShape {
  uint64_t num_blocks = 0, max_len = 0;
  uint64_t joint = 0;   // hits end at multiples
  uint64_t wanted = 0;  // boundaries that windows are kept for
  uint64_t unit = 0, hash_unit = 0;
  uint64_t look_ahead = 0, watermark = 0, in_flight = 0;
  std::optional<uint64_t> retention;
  bool caching = true;
  bool fine = false;  // hits end inside blocks
  // Ours: tokens between states that are kept in any case, 0 = none are; whether kernels write all of them; most drafts of a row.
  uint64_t spacing = 0, step_spacing = 0, branches = 0;
  bool at_blocks = false, states = false;
  std::vector<NaiveGroup> groups;

  bool single() const { return groups.size() == 1; }
};

// Upstream's notes on a request, by group.
struct UpstreamNotes {
  bool taken = false;                            // blocks were taken before
  std::optional<uint64_t> last;                  // block of the state that was the last one before
  std::optional<std::pair<uint64_t, int>> copy;  // at this place of the table a copy of this block is to go on
  std::optional<uint64_t> tail;                  // behind so many tokens the running state is in the index: it has to be left behind
};

// States of a request on our side, by group.
struct OurStates {
  int current = 0;  // 0 = none
  std::vector<int> spares;
  int read = 0;                                  // of the row in flight
  std::vector<std::pair<int, uint64_t>> writes;  // blocks, and tokens behind which they are the state
};

// The same request on one side.
struct NaiveRequest {
  std::vector<int64_t> names;  // of the first hash unit, the first two, ...
  uint64_t tokens = 0, prompt = 0, junction = 0;
  uint64_t committed = 0;
  uint64_t encoder = 0;            // tokens that its cross attention sees, as told last
  std::optional<uint64_t> silent;  // uses a block that had to be forgotten: nothing is published behind these tokens
  bool tracked = false;
  std::vector<std::vector<int>> table;  // by group
  std::vector<uint64_t> told;           // blocks that were considered for the index
  std::vector<UpstreamNotes> notes;
  std::vector<int> pins;
  std::vector<OurStates> states;
  bool may_share = false;     // the block being filled may be another's
  std::vector<int> replaced;  // by copies, in the row in flight
};

struct NaiveHit {
  uint64_t tokens = 0, boundary = 0;
  std::vector<std::vector<int>> blocks;
};

class NaivePool {
 public:
  using Key = std::pair<int64_t, uint32_t>;  // prefix and group
  struct Block {
    int refs = 0;
    uint64_t life = 0;  // how often it was taken
    std::vector<Key> keys;
    uint64_t covered = 0;
  };

  explicit NaivePool(uint64_t num_blocks);
  uint64_t free() const { return queue_.size(); }
  uint64_t cached() const;  // free blocks that are in the index
  const std::deque<int>& queue() const { return queue_; }
  const Block& at(int id) const { return blocks_[static_cast<size_t>(id)]; }
  size_t size() const { return blocks_.size(); }
  int find(Key key) const;  // -1 = none
  const std::map<Key, std::vector<int>>& keys() const { return keys_; }
  int take();  // the front of the queue; its keys go
  void touch(int id);
  void give_back(const std::vector<int>& ids);  // in this order: without keys to the front, the others to the back
  void insert(int id, Key key, uint64_t covered);
  void drop_keys(int id);
  void drop_key(int id, Key key);
  void to_front(int id);

 private:
  std::vector<Block> blocks_;
  std::deque<int> queue_;
  std::map<Key, std::vector<int>> keys_;
};

// Upstream: see reference text of the traces; every rule is written as it stands there.
class Upstream {
 public:
  explicit Upstream(NaiveShape shape)
      : shape_(std::move(shape)), pool_(shape_.num_blocks), copies_(shape_.groups.size()), to_zero_(shape_.groups.size()) {}

  NaiveHit lookup(const NaiveRequest& r) const;
  // As asked by connectors: what groups that need everything have, whatever the states have.
  NaiveHit lookup_apart(const NaiveRequest& r, bool* diverged) const;
  bool allocate(NaiveRequest* r, const json& op, const NaiveHit& hit);
  void cache(NaiveRequest* r, uint64_t tokens, uint64_t junction);
  void release(NaiveRequest* r);
  std::vector<int> pop(NaiveRequest* r);
  void give_back(const std::vector<int>& ids) { pool_.give_back(ids); }
  void remove_skipped(NaiveRequest* r, uint64_t processed, uint64_t prompt);
  void evict(int id) { pool_.drop_keys(id); }
  bool reset();
  uint64_t estimate(const NaiveRequest& r) const;
  void new_step() { this_step_.clear(); }
  // Since the last time: pairs of blocks to copy, blocks to zero, states left behind inside blocks (group, block, tokens) by request.
  std::vector<std::pair<int, int>> take_copies();
  std::vector<int> take_zeroes();
  std::map<NaiveRequest*, std::vector<std::array<uint64_t, 3>>> take_tails();
  const NaivePool& pool() const { return pool_; }
  const NaiveShape& shape() const { return shape_; }

  mutable bool held_back = false;  // a state of the same step was found by a hit, which is refused until the next one

 private:
  // Groups with one spec are searched together.
  struct Batch {
    std::vector<size_t> groups;
    bool drafts = false, looked_up = false, dropped = false;
    uint64_t hit = 0;
    uint64_t from = 0;   // blocks before it do not count
    uint64_t whole = 0;  // complete blocks found
    uint64_t tail = 0;   // where the last block was found, if not at its end
  };
  std::vector<Batch> batches() const;
  void find(const NaiveRequest& r, uint64_t most, bool drop, Batch* batch) const;
  void find_full(const NaiveRequest& r, uint64_t most, bool drop, Batch* batch) const;
  void find_window(const NaiveRequest& r, uint64_t most, bool drop, Batch* batch) const;
  void find_chunk(const NaiveRequest& r, uint64_t most, Batch* batch) const;
  void find_state(const NaiveRequest& r, uint64_t most, Batch* batch) const;
  bool cached(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t tokens) const;
  void list(const NaiveRequest& r, const Batch& batch, uint64_t hit, NaiveHit* out) const;
  uint64_t margin(const NaiveGroup& group) const;

  struct Wants {
    uint64_t tokens = 0, main = 0;     // slots; without those of drafts
    uint64_t local = 0, computed = 0;  // tokens that are there; with those from elsewhere
    bool capped = false;
  };
  int64_t need(const NaiveRequest& r, size_t g, Wants wants, const NaiveHit& hit) const;
  int64_t need_aligned(const NaiveRequest& r, size_t g, const Wants& wants, const NaiveHit& hit) const;
  bool adopt(NaiveRequest* r, uint64_t local, uint64_t external, const NaiveHit& hit);
  void append(NaiveRequest* r, size_t g, uint64_t blocks);
  void append_aligned(NaiveRequest* r, size_t g, uint64_t tokens);
  void leave_tail(NaiveRequest* r, size_t g, int target);
  void cache_group(NaiveRequest* r, size_t g, uint64_t tokens);
  void cache_end(NaiveRequest* r, size_t g, uint64_t tokens);
  bool keeps(const NaiveRequest& r, size_t g, uint64_t block) const;
  bool keeps_state(const NaiveRequest& r, const NaiveGroup& group, uint64_t block) const;
  int take(size_t g);

  NaiveShape shape_;
  NaivePool pool_;
  std::set<NaivePool::Key> this_step_;  // states cached since the step began
  std::vector<std::vector<std::pair<int, int>>> copies_;
  std::vector<std::vector<int>> to_zero_;
  std::map<NaiveRequest*, std::vector<std::array<uint64_t, 3>>> tails_;
};

// What a replay wants of a request on our side.
struct NaiveWant {
  bool match = false;
  uint64_t hit = 0;       // at most
  uint64_t external = 0;  // behind the hit
  uint64_t target = 0;    // tokens after the call
  uint64_t accepted = 0;  // of them are committed
  uint64_t look = 0;
  uint64_t full = 0;
  uint64_t spared = 0;
  uint64_t encoder = 0;
  bool loading = false;  // nothing is published before loaded()
  bool keep = false;     // the state at the end is worth keeping
  // Where the hit ends inside a block and several blocks reach so far: the one that was taken, by group. Any of them is right.
  std::map<size_t, int> taken;
};

// quire, with its differences.
class Naive {
 public:
  Naive(NaiveShape shape, const PrefixNames* names) : shape_(std::move(shape)), names_(names), pool_(shape_.num_blocks) {}

  uint64_t lookup(const NaiveRequest& r, uint64_t most, const std::map<std::string, NaiveRequest>& live) const;
  bool reserve(NaiveRequest* r, const NaiveWant& want, uint64_t hit);
  void commit(NaiveRequest* r, const NaiveWant& want);
  void loaded(NaiveRequest* r);
  void release(NaiveRequest* r);
  // Whoever uses the block publishes nothing more.
  void evict(NaivePool::Key key, std::map<std::string, NaiveRequest>* live);
  void reset();
  // Blocks that reach over a hit that ends inside a block of the group.
  std::vector<int> over(const NaiveRequest& r, size_t g, uint64_t p) const;
  const NaivePool& pool() const { return pool_; }
  const NaiveShape& shape() const { return shape_; }
  // Keys that came and went since the last time.
  std::multiset<NaivePool::Key> stored, removed;
  // Numbered differences by which something was done otherwise than upstream does it, since the last time.
  mutable std::set<int> met;

 private:
  bool holds(const NaiveRequest& r, size_t g, uint64_t p, uint64_t most) const;
  bool known(int64_t name, const std::map<std::string, NaiveRequest>& live) const;
  uint64_t wanted(const NaiveRequest& r, size_t g, const NaiveWant& want, uint64_t position, uint64_t have, uint64_t end, bool whole) const;
  uint64_t first_kept(size_t g, uint64_t position) const;
  bool has_room(const NaiveRequest& r, const NaiveWant& want, uint64_t hit) const;
  std::vector<int> blocks_of_hit(const NaiveRequest& r, size_t g, uint64_t hit, const NaiveWant& want) const;
  void adopt(NaiveRequest* r, uint64_t hit, const NaiveWant& want);
  int take_one();
  void take(NaiveRequest* r, size_t g);
  void publish(NaiveRequest* r, uint64_t before);
  void mend(NaiveRequest* r, uint64_t published);
  void prune(NaiveRequest* r);
  void drop(NaivePool::Key key);
  bool keeps(const NaiveRequest& r, size_t g, uint64_t block) const;
  uint64_t limit(size_t g, uint64_t tokens) const;
  uint64_t tokens_of(int id) const;  // where it is known; 0 = nowhere
  bool tail_is_shared(const NaiveRequest& r, size_t g, uint64_t position) const;
  void settle(size_t g, NaivePool::Key key, int id);
  void put(NaivePool::Key key, int id, uint64_t covered);

  // States.
  uint64_t num_writes(uint64_t position, uint64_t tokens) const;
  uint64_t write_end(uint64_t position, uint64_t tokens, uint64_t i) const;
  bool may_overwrite(const NaiveRequest& r, size_t g, bool give_up) const;
  uint64_t states_wanted(const NaiveRequest& r, size_t g, uint64_t position, uint64_t target, bool give_up) const;
  void take_states(NaiveRequest* r, size_t g, uint64_t position, uint64_t target);
  void keep_spare(OurStates* states, int id);
  bool worth_keeping(uint64_t end, uint64_t last, bool asked) const;
  void publish_states(NaiveRequest* r, const NaiveWant& want);
  void retire_states(NaiveRequest* r);

  NaiveShape shape_;
  const PrefixNames* names_;
  NaivePool pool_;
  bool give_up_ = false;  // of the present reserve: a state that is kept makes room
};

}  // namespace quire::golden
