// Boundaries with kept states, and which of them is worth least. What a boundary is worth is said by a CheckpointOrder, which can be
// exchanged; what is known here is where each one lies, from where one would compute again without it, and who pinned it. A heap over them:
// O(log n) to keep, use and lose one, and a walk up the tree to the boundary before. No call allocates after create.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/huge_pages.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/prefix/index.h"

namespace quire {

// What is expected of a boundary.
enum class BoundaryKind : uint8_t {
  kAwaited,     // requests resume there, or are expected to
  kPlace,       // it was kept for its place alone, and never used
  kSuperseded,  // a later one is awaited, and no prompt diverges between the two
  kSample,      // superseded, but all of its tokens count: it measures what such ones save
};

// Ranks: the boundary with the lowest one goes first.
class CheckpointOrder {
 public:
  virtual ~CheckpointOrder() = default;
  // Of one that was kept or used now; worth: the tokens that are computed again where it is lost,
  // as far as they count.
  virtual double rank(double worth) = 0;
  // The rank after its worth rose by so much.
  virtual double moved(double rank, double more) const = 0;
  // One with this rank went to make room.
  virtual void went(double rank) = 0;

  // Least recompute first, and of those that cost the same the one that was not used for longer
  // (GreedyDual; with uses in the worth, GreedyDual-Size-Frequency). All boundaries of a cache have
  // the same bytes, so tokens and tokens per byte are one order.
  static std::unique_ptr<CheckpointOrder> by_cost();
  // Least recently used first.
  static std::unique_ptr<CheckpointOrder> by_use();
};

class Checkpoints {
 public:
  Checkpoints() = default;
  // Of at most `capacity` nodes of the index; both stay where they are.
  static Checkpoints create(const PrefixIndex& index, uint64_t capacity, std::unique_ptr<CheckpointOrder> order);

  bool has(NodeId node) const {
    const uint32_t at = places_[node.value];
    return at < heap_.size() && heap_[at].node == node.value;
  }
  // A state is kept at the node. True: it is the first one there.
  bool keep(NodeId node, BoundaryKind kind);
  // One is lost, by whatever cause; the node may be none of these. pinned: it is the one whose pins count.
  void lose(NodeId node, bool pinned);
  // Somebody resumes at the node: the tokens to the boundary before it, which is what that spares.
  // counts: as a use of its own, which makes the boundary worth more.
  uint64_t use(NodeId node, bool counts = true);
  BoundaryKind kind(NodeId node) const {  //
    return has(node) ? heap_[places_[node.value]].kind : BoundaryKind::kAwaited;
  }
  // Most likely nobody asks for it: it may go before older ones.
  bool cold(NodeId node) const {  //
    return has(node) && heap_[places_[node.value]].sixteenths <= kCold;
  }
  // The boundary that the node's, just kept, supersedes; kNone: there is none.
  NodeId superseded_by(NodeId node) const;
  // Only a share of its tokens counts from now on, rounded down to sixteenths.
  void supersede(NodeId node, BoundaryKind kind, double share);
  // Pinned ones are worth more than any other.
  void pin(NodeId node);
  void unpin(NodeId node);
  // All at once: they are not found any more. O(1).
  void clear() { heap_.clear(); }
  // Between these a row keeps what it computed. What is kept and goes meanwhile was never there for anybody: nobody ages by it.
  void begin_row() { row_ = next_stamp_; }
  void end_row() { row_ = UINT64_MAX; }
  // One goes to make room.
  void went(NodeId node) {
    const Entry& entry = heap_[places_[node.value]];
    if (entry.stamp < row_) order_->went(entry.rank);
  }

  // The boundary that is worth least of those that may go; of the 16 that are worth least, so kNone does not mean that there is none.
  template <typename May>
  NodeId least(May may) {
    for (uint32_t tries = 0; tries < kMostLooks && look_again(); ++tries) {
    }
    uint32_t open[2 * kMostCandidates];  // next in order: below one that was taken
    uint32_t num_open = heap_.empty() ? 0 : 1;
    open[0] = 0;
    for (uint32_t taken = 0; taken < kMostCandidates && num_open > 0; ++taken) {
      uint32_t best = 0;
      for (uint32_t i = 1; i < num_open; ++i) best = before(heap_[open[i]], heap_[open[best]]) ? i : best;
      const uint32_t at = open[best];
      const Entry& entry = heap_[at];
      if (entry.pins > 0) return NodeId(kNone);
      if (may(NodeId(entry.node))) return NodeId(entry.node);
      open[best] = open[--num_open];
      for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child) open[num_open++] = child;
    }
    return NodeId(kNone);
  }

  uint64_t size() const { return heap_.size(); }
  uint64_t host_bytes() const { return heap_.capacity() * sizeof(Entry) + places_.capacity() * sizeof(uint32_t); }
  // states(node): how many states are kept there; pins(node): how many pins hold them; total: states of all nodes.
  template <typename States, typename Pins>
  Status verify(uint64_t total, States states, Pins pins) const {
    uint64_t found = 0;
    for (uint32_t i = 0; i < heap_.size(); ++i) {
      const Entry& e = heap_[i];
      if (places_[e.node] != i) return fail(QUIRE_INTERNAL, "checkpoints: node %u is not where it says", e.node);
      if (i > 0 && before(e, heap_[(i - 1) / 2]))
        return fail(QUIRE_INTERNAL, "checkpoints: place %u is worth less than what is above it", i);
      if (e.states == 0 || e.states != states(NodeId(e.node)))
        return fail(QUIRE_INTERNAL, "checkpoints: node %u has %u states, counted %u", e.node, states(NodeId(e.node)), e.states);
      if (e.pins != pins(NodeId(e.node)))
        return fail(QUIRE_INTERNAL, "checkpoints: node %u has %u pins, counted %u", e.node, pins(NodeId(e.node)), e.pins);
      found += e.states;
    }
    if (found != total) return fail(QUIRE_INTERNAL, "checkpoints: %zu states known, %zu kept", size_t{found}, size_t{total});
    return {};
  }

 private:
  static constexpr uint8_t kWhole = 16, kCold = 8;
  static constexpr uint8_t kOfPlace = 2;  // most of them are never used
  // As if each had been used so often before it was kept: a use adds half of its tokens.
  static constexpr uint32_t kUsesBefore = 2;
  static constexpr uint8_t kMostUses = 255;
  struct Entry {
    double rank = 0;
    uint64_t stamp = 0;  // of equal ranks, the one kept or used first
    uint32_t node = kNone;
    uint32_t before = kNone;  // the boundary before it when somebody looked last; the root where there is none
    uint16_t states = 0;
    uint16_t pins = 0;
    BoundaryKind kind = BoundaryKind::kAwaited;
    uint8_t sixteenths = kWhole;  // of the tokens that it spares, those that count
    uint8_t uses = 0;             // since it was kept or superseded; kMostUses: or more
  };
  static constexpr uint32_t kMostLooks = 8;
  static constexpr uint32_t kMostCandidates = 16;

  static bool before(const Entry& a, const Entry& b) {
    if ((a.pins > 0) != (b.pins > 0)) return b.pins > 0;
    return a.rank != b.rank ? a.rank < b.rank : a.stamp < b.stamp;
  }
  uint64_t tokens_of(const Entry& e) const { return index_->tokens(NodeId(e.node)) - index_->tokens(NodeId(e.before)); }
  double worth_of(const Entry& e) const {  //
    const uint64_t times = uint64_t{e.sixteenths} * (kUsesBefore + e.uses);
    return static_cast<double>(tokens_of(e) * times) / (kWhole * kUsesBefore);
  }
  uint32_t boundary_before(uint32_t node) const;
  bool look_again();
  void value(Entry* entry, BoundaryKind kind);
  void place(uint32_t at, const Entry& entry);
  void settle(uint32_t at);
  void set_kind(uint32_t at, BoundaryKind kind, uint8_t sixteenths);

  const PrefixIndex* index_ = nullptr;
  std::unique_ptr<CheckpointOrder> order_;
  std::vector<Entry> heap_;
  HugeVector<uint32_t> places_;  // [node]: in the heap, if that says the same
  uint64_t next_stamp_ = 0;
  uint64_t row_ = UINT64_MAX;  // the first stamp of the row that keeps what it computed
};

}  // namespace quire
