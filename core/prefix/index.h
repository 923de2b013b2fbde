// The prefix index: which blocks hold which prefix. A tree whose nodes are match units (unit tokens
// each); a node carries the symbols of its unit and, per group, the head of the block that ends
// there. The units of one prompt lie one behind the other wherever there is room: such a run is
// walked, extended and dropped without hash or jump, its symbols are one stretch of memory. Other
// children are found by a keyed hash of parent and symbols and then compared, symbol by symbol: no
// collision can ever return another prompt's block.
//
// A node lives while it has a block, a child, or is held (a sequence's cursor). When a block of a
// group that needs everything goes, all that hangs below can never be hit again and goes too. The
// index never calls the pool: what it drops, it returns. Serialized, but for match_lockfree(),
// which any thread may call beside everything else: it takes no lock that a change of the tree
// would wait for, and no change waits for it. What it reads is Shared; it finds out afterwards
// whether the tree stood still meanwhile. Only opening a root allocates after create.
#pragma once

#include <quire/cache.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/guess.h"
#include "core/base/huge_pages.h"
#include "core/base/ids.h"
#include "core/base/prefetch.h"
#include "core/base/shared.h"
#include "core/base/status.h"
#include "core/model/live_range.h"
#include "core/plan/limits.h"

namespace quire {

struct IndexGroup {
  LiveRange live;
  uint32_t block_tokens = 0;  // a multiple of the unit
  uint32_t drop_tokens = 0;   // a hit must have this much behind it in the group: what drafts wrote last depends on what comes next
};

struct IndexShape {
  uint32_t unit_tokens = 0;
  // Hits end at multiples of this. A multiple of the blocks of groups that need a part only; blocks
  // of groups that need everything, and states, may be hit inside.
  uint32_t hit_alignment_tokens = 0;
  uint64_t max_nodes = 0;
  uint32_t max_roots = 0;
  uint64_t seed = 0;
  std::vector<IndexGroup> groups;
};

struct Match {
  uint64_t hit_tokens = 0;       // every group can resume here
  uint64_t full_hit_tokens = 0;  // the groups that need everything could
  NodeId node{kNone};            // at hit_tokens; the root's node when 0
  NodeId deepest{kNone};         // where the search ended; like `node`, it may go when blocks do
  bool was_longer = false;       // because what follows there was evicted
  quire_miss miss = QUIRE_MISS_NONE;
};

struct Extended {
  uint32_t count = 0;  // nodes that were written; 0: the index is full
  bool is_new = false;
};

struct DroppedBlock {
  GroupId group;
  PartIndex head{kNone};
};

// A node's link: its parent and, above, how often the node was born; so another life of it differs
// from this one.
inline uint64_t link_to(uint32_t parent, uint64_t old) { return ((old >> 32) + 1) << 32 | parent; }
inline uint64_t link_of_gone(uint64_t old) { return (old & ~uint64_t{kNone}) | (kNone - 1); }
inline uint32_t parent_in(uint64_t link) { return static_cast<uint32_t>(link); }

class PrefixIndex {
 public:
  static Result<PrefixIndex> create(IndexShape shape);

  // Roots, one per identity. open adds a reference; a root without references and without content
  // is forgotten. Where all roots are taken, drop_oldest_root() forgets the one that was closed
  // longest ago and returns its content; the span is valid until the next call.
  Result<uint32_t> open_root(std::string_view identity);
  void ref_root(uint32_t root);
  void close_root(uint32_t root);
  bool roots_are_taken() const { return num_open_roots_ == shape_.max_roots; }
  std::span<const DroppedBlock> drop_oldest_root();
  uint32_t root_refs(uint32_t root) const { return roots_[root].refs; }
  // kNone when nobody uses the identity.
  uint32_t find_root(std::string_view identity) const;
  NodeId root_node(uint32_t root) const { return NodeId(roots_[root].node); }
  // Nothing of what the trees hold is found from now on. It stays stale until it is detached block
  // by block: then each takes nothing but itself with it. Only roots may be held, and who holds one
  // goes on with its renewal. Takes as long as there are roots.
  void retire_all();
  uint32_t renewal(uint32_t root) const { return roots_[root].renewal; }
  bool is_stale(NodeId node) const { return stale_nodes_ > 0 && roots_[nodes_[node.value].root].stale; }
  uint64_t root_serial(uint32_t root) const { return roots_[root].serial; }  // unlike its index, never the same for two identities
  std::string_view root_identity(uint32_t root) const { return roots_[root].identity; }

  // Longest prefix of symbols that all groups can resume from, computing at least one token: hit <=
  // symbols.size() - 1.
  Match match(uint32_t root, std::span<const quire_symbol> symbols) const;
  // The same by identity, from any thread. Right for one moment during the call when the tree stood
  // still in one of three tries; otherwise every unit counted was there with all before it, but the
  // blocks behind the hit were looked at one after the other. The node may be gone: it is kNone.
  Match match_lockfree(std::string_view identity, std::span<const quire_symbol> symbols) const;

  // The path down from `at` along units (unit_tokens symbols each; at least one): its nodes as far
  // as they are there already. Where the first one is missing: new nodes, as many as there is room
  // for. nodes is as long as units.
  Extended extend(NodeId at, std::span<const quire_symbol* const> units, std::span<NodeId> nodes);
  uint32_t root_of(NodeId node) const { return nodes_[node.value].root; }
  // Nodes of one prompt mostly lie one behind the other, see in_run().
  NodeId parent(NodeId node) const {  //
    return NodeId(guessed(node.value - 1, parent_of(node.value)));
  }
  uint64_t tokens(NodeId node) const { return uint64_t{nodes_[node.value].depth} * shape_.unit_tokens; }
  std::span<const quire_symbol> symbols(NodeId node) const;
  // Bits that users of the index note at a node; they go with it. PromptEnds has the lowest four,
  // OutputReuse 0x20 and 0x40, NearEviction 0x80.
  uint8_t& marks(NodeId node) { return nodes_[node.value].marks; }
  // Of all symbols to the node, and of what they belong to.
  uint64_t hash(NodeId node) const { return nodes_[node.value].hash; }
  // kNone: nobody computed these.
  NodeId child(NodeId at, std::span<const quire_symbol> unit) const;
  // Prompts diverge right before this node.
  bool has_sibling(NodeId node) const {
    const Node& n = nodes_[node.value];
    return n.next_sibling != kNone || n.prev_sibling != kNone;
  }
  void hold(NodeId node) { ++nodes_[node.value].holds; }
  void drop(NodeId node);
  // A hold moves from a node to another one.
  void move_hold(NodeId from, NodeId to);

  PartIndex block_at(NodeId node, GroupId group) const { return PartIndex(heads_[slot(node.value, group)]); }
  // A block that holds the tokens between the last boundary of the group's blocks and the node,
  // which lies inside: it hangs there or below.
  PartIndex block_over(NodeId node, GroupId group) const;
  // Takes the place of the block there, if there is one.
  void attach(NodeId node, GroupId group, PartIndex head) {
    const Change change(this);
    Shared<uint32_t>& there = heads_[slot(node.value, group)];
    nodes_[node.value].blocks += there == kNone ? 1 : 0;
    there = head.value;
    is_fertile(node.value);
  }
  // The same for blocks at nodes that extend() made just now, from above, which have none of the
  // group yet.
  class Attachments;
  // The same block, of more tokens now.
  void move(NodeId from, NodeId to, GroupId group);
  // Takes a block out, and all blocks that became unreachable; the span is valid until the next
  // call. evicted: remembered for miss reasons.
  std::span<const DroppedBlock> detach(NodeId node, GroupId group, bool evicted);

  // Asks for what detaching `soon` will read and write; and of `next`, which was that some calls
  // ago, what can be asked for only now. Either may be none. The table of evicted nodes is written
  // all over, and the stores after one that misses wait for it.
  void fetch(NodeId soon, NodeId next) const {
    if (soon.value != kNone) {
      prefetch_to_write(&nodes_[soon.value]);
      prefetch_to_write(&links_[soon.value]);
      prefetch_to_write(&heads_[slot(soon.value, GroupId(0))]);
    }
    if (next.value == kNone) return;
    const Node& n = nodes_[next.value];
    if (n.depth % kRememberedDepth != 0) return;
    prefetch_to_write(&evicted_[n.hash & (evicted_.size() - 1)]);
  }
  // detach(node, group, true) where only this block goes: false, and nothing is done, when others
  // hang below it.
  bool evict_alone(NodeId node, GroupId group);
  class Evictions;  // many of these in a row

  uint64_t num_nodes() const { return num_nodes_ - stale_nodes_; }
  uint64_t num_slots() const { return nodes_.size(); }
  uint64_t host_bytes() const;
  // Re-derives links, counts and hashes; visit(node, group, head) is called for every attached
  // block.
  template <typename Visit>
  Status verify(Visit visit) const {
    QUIRE_RETURN_IF_ERROR(verify_links());
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      if (!nodes_[n].live) continue;
      for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
        uint32_t head = heads_[slot(n, GroupId(g))];
        if (head != kNone) QUIRE_RETURN_IF_ERROR(visit(NodeId(n), GroupId(g), PartIndex(head)));
      }
    }
    return {};
  }
  uint32_t holds(NodeId node) const { return nodes_[node.value].holds; }

 private:
  // What is written together lies together, in pairs.
  struct Node {
    Shared<uint64_t> hash = 0;
    Shared<uint32_t> first_child = kNone;
    Shared<uint32_t> lost_child = 0;  // mark of the child that was evicted last; 0 = none
    Shared<uint32_t> next_sibling = kNone, prev_sibling = kNone;
    Shared<uint32_t> bucket_next = kNone, holds = 0;
    Shared<uint32_t> depth = 0, root = kNone;  // depth: units from the root
    uint16_t blocks = 0;                       // attached, all groups
    bool lost = false;                         // a block of it was evicted
    bool live = false;
    uint8_t marks = 0;            // of whoever uses the index
    Shared<bool> barren = true;   // neither it nor anything below has a block; what is left of it are paths of sequences
    Shared<bool> hashed = false;  // it is in the hash table

    // A new life, of an only child that has no blocks yet. No node as a whole: that would be made
    // elsewhere first.
    void begin(uint64_t of_path, uint32_t units, uint32_t of_root, uint32_t child) {
      hash = of_path;
      shared_assign(&first_child, child, 0);
      shared_assign(&next_sibling, kNone, kNone);
      shared_assign(&bucket_next, kNone, 0);
      shared_assign(&depth, units, of_root);
      blocks = 0;
      lost = false;
      live = true;
      marks = 0;
      barren = true;
      hashed = false;
    }
  };
  struct Root {
    std::string identity;
    uint64_t serial = 0;
    uint32_t node = kNone;
    uint32_t refs = 0;
    uint32_t renewal = kNone;  // where those went who had it when it was abandoned
    bool stale = false;
    uint32_t idle_prev = kNone, idle_next = kNone;  // roots without references, oldest first
  };
  static constexpr uint32_t kGone = kNone - 1;
  // Longer than any list that a reader beside a change has to follow to its end.
  static constexpr uint32_t kLongList = 256;
  struct Walk;   // of match()
  struct Range;  // of match()
  // Lives as long as something that match_lockfree() reads is being changed.
  class Change {
   public:
    explicit Change(PrefixIndex* index) : index_(index) { ++index_->changes_begun_; }
    ~Change() { ++index_->changes_done_; }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    PrefixIndex* index_;
  };

  size_t slot(uint32_t node, GroupId group) const { return size_t{node} * num_groups_ + group.value; }
  // Whether a block of the group ends at the node; otherwise the node lies inside one.
  bool is_whole(uint32_t node, uint32_t group) const {
    return !fine_ || uint64_t{nodes_[node].depth} * shape_.unit_tokens % shape_.groups[group].block_tokens == 0;
  }
  uint32_t parent_of(uint32_t node) const { return parent_in(links_[node]); }
  // The parent, or beside a change that removed the node, the node itself: a way up that cannot
  // lead out of the tree.
  uint32_t above(uint32_t node) const {
    const uint32_t parent = parent_of(node);
    return parent < kGone ? parent : node;
  }
  // It has a block, or what is below it.
  void is_fertile(uint32_t node) {
    for (uint32_t n = node; n != kNone && nodes_[n].barren; n = parent_of(n)) {
      nodes_[n].barren = false;
    }
  }
  // Whether it lies right behind its parent. Neither such a node nor one that has always been its
  // parent's only child is in the hash table.
  bool in_run(uint32_t node) const { return parent_of(node) + 1 == node; }
  // Evicted nodes are remembered by their parent, and every 8th for longer than that: so that a
  // miss says what happened.
  static constexpr uint32_t kRememberedDepth = 8;
  static constexpr size_t kSoon = 24;       // units ahead of which memory is asked for
  static constexpr size_t kUsualUnit = 16;  // what is known to the compiler takes it a third of the work
  static uint32_t mark_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }
  void remember(uint32_t node);
  bool was_evicted(uint32_t at, std::span<const quire_symbol> behind) const;
  // Whether the hash table has children of the node.
  bool has_hashed(uint32_t node) const;
  uint64_t child_hash(uint64_t parent, std::span<const quire_symbol> unit) const;
  // Its link tells that the symbols were those of one life.
  bool is_child(uint32_t node, uint32_t at, std::span<const quire_symbol> unit) const {
    const uint64_t link = links_[node];
    return parent_in(link) == at && has_symbols(node, unit) && links_[node] == link;
  }
  bool has_symbols(uint32_t node, std::span<const quire_symbol> unit) const {
    const quire_symbol* const mine = symbols_.data() + size_t{node} * unit.size();
    if (unit.size() == kUsualUnit) return shared_equals(mine, unit.data(), kUsualUnit);
    return shared_equals(mine, unit.data(), unit.size());
  }
  uint32_t find_child(uint32_t at, uint64_t hash, std::span<const quire_symbol> unit, uint32_t most = kNone) const;
  // The same when the child lies right behind its parent, as units of one prompt mostly do: no
  // hash, no jump in memory.
  uint32_t find_next(uint32_t at, std::span<const quire_symbol> unit) const {
    const uint32_t n = at + 1;
    return n < links_.size() && is_child(n, at, unit) ? n : kNone;
  }
  // The same when it is the only child, as units that were decoded mostly are: no hash.
  uint32_t find_only(uint32_t at, std::span<const quire_symbol> unit) const {
    const uint32_t n = nodes_[at].first_child;
    return n != kNone && n != at + 1 && !nodes_[n].hashed && is_child(n, at, unit) ? n : kNone;
  }
  uint32_t new_node();
  uint32_t add_path(uint32_t at, std::span<const quire_symbol* const> units, std::span<NodeId> nodes);
  void link_sibling(uint32_t first, uint32_t node);  // of the first child
  void enter_hash(uint32_t node);
  bool evict_above(NodeId node, GroupId group);  // evict_alone where others hang below, or are stale
  void remove_if_empty(uint32_t node);
  void unlink_node(uint32_t node);
  void take_block(uint32_t node, uint32_t group, bool evicted);
  void drop_subtree(uint32_t node, bool evicted);
  uint32_t skip_barren(uint32_t sibling, uint32_t most = kNone) const;
  void set_idle(uint32_t root, bool idle);
  void forget_root(uint32_t root);
  void make_room_for_roots(size_t count);
  void renew_root(uint32_t root);
  Walk walk(uint32_t top, uint64_t link, std::span<const quire_symbol> symbols) const;
  Match match_below(uint32_t top, uint64_t link, std::span<const quire_symbol> symbols, bool* intact) const;
  Match match_nothing(uint64_t num_symbols) const;
  Range range_from(const Walk& walk, uint32_t group, uint64_t p) const;
  bool has_range(Range* range, uint32_t group, uint64_t p) const;
  bool reaches_into(uint32_t node, uint64_t p) const;
  bool search_down(uint32_t node, uint64_t p, const Walk& walk, Match* best) const;
  quire_miss miss_reason(const Walk& walk, const Match& match, uint64_t num_symbols) const;
  Status verify_links() const;

  // In cache lines of its own: readers look at it while others write what lies beside it.
  alignas(64) IndexShape shape_;
  uint32_t num_groups_ = 0;
  bool fine_ = false;  // hits may end inside blocks
  HugeVector<Node> nodes_;
  HugeVector<Shared<uint64_t>> links_;    // [node]; parent kNone for roots, kGone for nodes that are not live
  HugeVector<Shared<uint32_t>> heads_;    // [node][group]
  HugeVector<quire_symbol> symbols_;      // [node][unit], shared
  HugeVector<Shared<uint32_t>> buckets_;  // by hash
  HugeVector<Shared<uint64_t>> evicted_;  // hashes of evicted nodes at every 8th depth, newest wins
  std::deque<Root> roots_;                // max_roots, and stale ones
  std::vector<uint32_t> free_roots_;
  uint32_t num_open_roots_ = 0;                                      // without the stale ones
  std::unordered_map<std::string_view, uint32_t> root_by_identity_;  // keys point into roots_
  // Held by match_lockfree() for a look at the roots, and by others when a root comes or goes.
  std::unique_ptr<std::mutex> naming_ = std::make_unique<std::mutex>();
  // What changes write; what readers ask at every unit lies before it, in other cache lines.
  alignas(64) Shared<uint64_t> changes_begun_ = 0;
  Shared<uint64_t> changes_done_ = 0;
  std::vector<DroppedBlock> dropped_;
  uint32_t free_node_ = kNone;
  struct {
    uint32_t head = kNone, tail = kNone;
  } idle_;  // roots without references, oldest first
  uint64_t num_nodes_ = 0;
  uint64_t stale_nodes_ = 0;
  uint64_t next_serial_ = 1;
  uint64_t needs_all_ = 0;  // bits of the groups that need everything; for evictions
};

class PrefixIndex::Attachments {
 public:
  explicit Attachments(PrefixIndex* index)
      : change_(index),
        index_(index),
        nodes_(index->nodes_.data()),
        links_(index->links_.data()),
        heads_(index->heads_.data()),
        pitch_(index->num_groups_) {}
  Attachments(const Attachments&) = delete;
  Attachments& operator=(const Attachments&) = delete;

  void attach(NodeId node, GroupId group, PartIndex head) {
    heads_[size_t{node.value} * pitch_ + group.value] = head.value;
    ++here_;
  }
  // After the last one at a node.
  void done(NodeId node) {
    if (here_ == 0) return;
    Node& n = nodes_[node.value];
    n.blocks += std::exchange(here_, 0);
    n.barren = false;
    const uint32_t parent = parent_in(links_[node.value]);
    if (parent != last_) index_->is_fertile(parent);
    last_ = node.value;
  }

 private:
  const Change change_;
  PrefixIndex* const index_;
  Node* const nodes_;
  const Shared<uint64_t>* const links_;
  Shared<uint32_t>* const heads_;
  const size_t pitch_;
  uint32_t last_ = kNone;
  uint16_t here_ = 0;
};

// Keeps copies of what each eviction reads or changes of the index. Nobody else changes the index
// meanwhile.
class PrefixIndex::Evictions {
 public:
  explicit Evictions(PrefixIndex* index)
      : change_(index),
        index_(index),
        nodes_(index->nodes_.data()),
        links_(index->links_.data()),
        heads_(index->heads_.data()),
        evicted_(index->evicted_.data()),
        evicted_mask_(index->evicted_.size() - 1),
        stale_(index->stale_nodes_ > 0),
        needs_all_(stale_ || index->fine_ ? ~uint64_t{0} : index->needs_all_),
        num_groups_(index->num_groups_),
        free_node_(index->free_node_) {}
  ~Evictions() { show(); }
  Evictions(const Evictions&) = delete;
  Evictions& operator=(const Evictions&) = delete;

  bool evict_alone(NodeId node, GroupId group) {
    Node& n = nodes_[node.value];
    if (n.first_child != kNone) {
      if ((needs_all_ >> group.value & 1) != 0) return evict_above(node, group);
      heads_[size_t{node.value} * num_groups_ + group.value] = kNone;
      n.lost = true;
      --n.blocks;
      return true;
    }
    if (stale_) return evict_above(node, group);
    heads_[size_t{node.value} * num_groups_ + group.value] = kNone;
    n.lost = true;
    if (--n.blocks > 0 || n.holds > 0) return true;
    if (n.hashed || (n.prev_sibling & n.next_sibling) != kNone) {
      remove_if_empty(node.value);
      return true;
    }
    // Most go so, one after the other up a prompt: the only child with its only block.
    n.live = false;
    const uint64_t link = links_[node.value];
    const uint64_t hash = n.hash;
    const uint32_t parent = parent_in(link);
    Node& above = nodes_[parent];
    above.lost_child = mark_of(hash);
    if (n.depth % kRememberedDepth == 0) evicted_[hash & evicted_mask_] = hash;
    above.first_child = kNone;
    links_[node.value] = link_of_gone(link);
    n.bucket_next = free_node_;
    free_node_ = node.value;
    ++num_gone_;
    if (above.blocks == 0 && above.holds == 0) remove_if_empty(parent);
    return true;
  }

 private:
  void show() {
    index_->free_node_ = free_node_;
    index_->num_nodes_ -= num_gone_;
    num_gone_ = 0;
  }
  bool evict_above(NodeId node, GroupId group) {
    show();
    const bool done = index_->evict_above(node, group);
    free_node_ = index_->free_node_;
    return done;
  }
  void remove_if_empty(uint32_t node) {
    show();
    index_->remove_if_empty(node);
    free_node_ = index_->free_node_;
  }

  const Change change_;
  PrefixIndex* const index_;
  Node* const nodes_;
  Shared<uint64_t>* const links_;
  Shared<uint32_t>* const heads_;
  Shared<uint64_t>* const evicted_;
  const uint64_t evicted_mask_;
  const bool stale_;          // some nodes are, perhaps
  const uint64_t needs_all_;  // bits: a block of the group takes with it what hangs below its node
  const uint32_t num_groups_;
  uint32_t free_node_;
  uint64_t num_gone_ = 0;
};

inline bool PrefixIndex::evict_alone(NodeId node, GroupId group) {  //
  return Evictions(this).evict_alone(node, group);
}

}  // namespace quire
