// A naive model of block managers: one list of blocks, one map of keys, searches that start over each time. It speaks twice in a replay. As
// `Upstream` it does what the traces were recorded from and must say the same, call by call. As `Naive` it does the same with the numbered
// differences of docs/differences-from-vllm.md instead, and says what quire must do. So what a difference moves (when a block is released,
// which copy of a prefix is kept, what room is left) is derived, and nothing else is excused.
#pragma once

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

 private:
  std::map<std::string, int64_t> roots_;
  std::map<std::pair<int64_t, std::vector<int64_t>>, int64_t> names_;
  std::vector<int64_t> parents_{0};
};

struct NaiveGroup {
  enum class Kind { kFull, kTrailing, kWindow, kChunk, kCross };
  Kind kind = Kind::kFull;
  std::string spec;  // groups with equal specs are searched together
  uint64_t block = 0;
  uint64_t range = 0;  // window, chunk, or trailing tokens
  uint64_t extra = 0;
  uint64_t cap = 0;  // blocks of a whole request at most; 0 = all
  bool drafts = false;

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
  std::vector<NaiveGroup> groups;

  bool single() const { return groups.size() == 1; }
};

// The same request on one side.
struct NaiveRequest {
  std::vector<int64_t> names;  // of the first hash unit, the first two, ...
  uint64_t tokens = 0, prompt = 0, junction = 0;
  uint64_t committed = 0;
  std::optional<uint64_t> silent;  // uses a block that had to be forgotten: nothing is published behind these tokens
  bool tracked = false;
  std::vector<std::vector<int>> table;  // by group
  std::vector<uint64_t> told;           // blocks that were considered for the index
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
  explicit Upstream(NaiveShape shape) : shape_(std::move(shape)), pool_(shape_.num_blocks) {}

  NaiveHit lookup(const NaiveRequest& r) const;
  bool allocate(NaiveRequest* r, const json& op, const NaiveHit& hit);
  void cache(NaiveRequest* r, uint64_t tokens, uint64_t junction);
  void release(NaiveRequest* r);
  std::vector<int> pop(NaiveRequest* r);
  void give_back(const std::vector<int>& ids) { pool_.give_back(ids); }
  void remove_skipped(NaiveRequest* r, uint64_t processed, uint64_t prompt);
  void evict(int id) { pool_.drop_keys(id); }
  bool reset();
  uint64_t estimate(const NaiveRequest& r) const;
  const NaivePool& pool() const { return pool_; }
  const NaiveShape& shape() const { return shape_; }

 private:
  struct Search;
  uint64_t need(const NaiveRequest& r, size_t g, uint64_t tokens, uint64_t computed, const NaiveHit& hit, bool capped) const;
  void cache_group(NaiveRequest* r, size_t g, uint64_t tokens);
  bool keeps(const NaiveRequest& r, size_t g, uint64_t block) const;
  void append(NaiveRequest* r, size_t g, uint64_t blocks);
  bool cached(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t block) const;
  uint64_t find_full(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t most, bool drop) const;
  uint64_t find_window(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t most, bool drop, uint64_t* from) const;
  uint64_t find_chunk(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t most, uint64_t* from) const;

  NaiveShape shape_;
  NaivePool pool_;
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
  const NaivePool& pool() const { return pool_; }
  const NaiveShape& shape() const { return shape_; }
  // Keys that came and went since the last time.
  std::multiset<NaivePool::Key> stored, removed;

 private:
  bool holds(const NaiveRequest& r, size_t g, uint64_t p, uint64_t most) const;
  bool known(int64_t name, const std::map<std::string, NaiveRequest>& live) const;
  uint64_t wanted(const NaiveRequest& r, size_t g, uint64_t position, uint64_t have, uint64_t end, bool whole) const;
  uint64_t first_kept(size_t g, uint64_t position) const;
  void take(NaiveRequest* r, size_t g);
  void publish(NaiveRequest* r, uint64_t before);
  void mend(NaiveRequest* r, uint64_t published);
  void prune(NaiveRequest* r);
  void drop(NaivePool::Key key);
  bool keeps(const NaiveRequest& r, size_t g, uint64_t block) const;
  uint64_t limit(size_t g, uint64_t tokens) const;

  NaiveShape shape_;
  const PrefixNames* names_;
  NaivePool pool_;
};

}  // namespace quire::golden
