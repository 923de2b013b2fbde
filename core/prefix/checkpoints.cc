#include "core/prefix/checkpoints.h"

#include <algorithm>

namespace quire {
namespace {

// GreedyDual: what goes lifts the level on which all others are kept or used from then on, so that what is never used sinks.
class ByCost final : public CheckpointOrder {
 public:
  double rank(double worth) override { return level_ + worth; }
  double moved(double rank, double more) const override { return rank + more; }
  void went(double rank) override { level_ = std::max(level_, rank); }

 private:
  double level_ = 0;
};

class ByUse final : public CheckpointOrder {
 public:
  double rank(double /*worth*/) override { return ++clock_; }
  double moved(double rank, double /*more*/) const override { return rank; }
  void went(double /*rank*/) override {}

 private:
  double clock_ = 0;
};

}  // namespace

std::unique_ptr<CheckpointOrder> CheckpointOrder::by_cost() { return std::make_unique<ByCost>(); }
std::unique_ptr<CheckpointOrder> CheckpointOrder::by_use() { return std::make_unique<ByUse>(); }

Checkpoints Checkpoints::create(const PrefixIndex& index, uint64_t capacity, std::unique_ptr<CheckpointOrder> order) {
  Checkpoints made;
  made.index_ = &index;
  made.order_ = std::move(order);
  made.heap_.reserve(std::min<uint64_t>(capacity, index.num_slots()));
  made.places_.assign(index.num_slots(), kNone);
  return made;
}

uint32_t Checkpoints::boundary_before(uint32_t node) const {
  NodeId n = index_->parent(NodeId(node));
  for (NodeId up = index_->parent(n); up.value != kNone && !has(n); up = index_->parent(n)) n = up;
  return n.value;
}

void Checkpoints::value(Entry* entry, BoundaryKind kind) {
  entry->kind = kind;
  entry->sixteenths = kind == BoundaryKind::kPlace ? kOfPlace : kWhole;
  entry->before = boundary_before(entry->node);
  entry->rank = order_->rank(worth_of(*entry));
  entry->stamp = next_stamp_++;
}

void Checkpoints::place(uint32_t at, const Entry& entry) {
  heap_[at] = entry;
  places_[entry.node] = at;
}

// The entry moves to where it belongs, up or down.
void Checkpoints::settle(uint32_t at) {
  const Entry entry = heap_[at];
  for (uint32_t up = (at - 1) / 2; at > 0 && before(entry, heap_[up]); at = up, up = (at - 1) / 2) place(at, heap_[up]);
  for (uint32_t down = 2 * at + 1; down < heap_.size(); at = down, down = 2 * at + 1) {
    if (down + 1 < heap_.size() && before(heap_[down + 1], heap_[down])) ++down;
    if (!before(heap_[down], entry)) break;
    place(at, heap_[down]);
  }
  place(at, entry);
}

bool Checkpoints::keep(NodeId node, BoundaryKind kind) {
  if (has(node)) {
    ++heap_[places_[node.value]].states;
    return false;
  }
  Entry entry;
  entry.node = node.value;
  entry.states = 1;
  value(&entry, kind);
  heap_.push_back(entry);
  settle(static_cast<uint32_t>(heap_.size() - 1));
  return true;
}

NodeId Checkpoints::superseded_by(NodeId node) const {
  const Entry& entry = heap_[places_[node.value]];
  const NodeId before(entry.before);
  if (entry.kind != BoundaryKind::kAwaited || !has(before)) return NodeId(kNone);
  if (kind(before) != BoundaryKind::kAwaited || heap_[places_[before.value]].pins > 0) return NodeId(kNone);
  for (NodeId n = node; n != before; n = index_->parent(n)) {
    if (index_->has_sibling(n)) return NodeId(kNone);
  }
  return before;
}

void Checkpoints::supersede(NodeId node, BoundaryKind kind, double share) {
  set_kind(places_[node.value], kind, static_cast<uint8_t>(share * kWhole));
}

void Checkpoints::set_kind(uint32_t at, BoundaryKind kind, uint8_t sixteenths) {
  Entry& entry = heap_[at];
  const double worth = worth_of(entry);
  if (kind != BoundaryKind::kAwaited) entry.uses = 0;
  entry.kind = kind;
  entry.sixteenths = sixteenths;
  entry.rank = order_->moved(entry.rank, worth_of(entry) - worth);
  settle(at);
}

void Checkpoints::lose(NodeId node, bool pinned) {
  if (!has(node)) return;
  const uint32_t at = places_[node.value];
  if (pinned) heap_[at].pins = 0;
  if (--heap_[at].states > 0) return settle(at);
  const Entry lost = heap_[at];
  places_[node.value] = kNone;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.node != node.value) {
    place(at, last);
    settle(at);
  }
  // The last one of a conversation: the one before it is the last one again.
  const NodeId before(lost.before);
  if (lost.kind == BoundaryKind::kAwaited && kind(before) == BoundaryKind::kSuperseded)
    set_kind(places_[before.value], BoundaryKind::kAwaited, kWhole);
}

uint64_t Checkpoints::use(NodeId node, bool counts) {
  if (!has(node)) return 0;
  const uint32_t at = places_[node.value];
  if (counts && heap_[at].uses < kMostUses) ++heap_[at].uses;
  value(&heap_[at], BoundaryKind::kAwaited);
  const uint64_t tokens = tokens_of(heap_[at]);
  settle(at);
  return tokens;
}

void Checkpoints::pin(NodeId node) {
  if (!has(node)) return;
  ++heap_[places_[node.value]].pins;
  settle(places_[node.value]);
}

void Checkpoints::unpin(NodeId node) {
  if (!has(node)) return;
  --heap_[places_[node.value]].pins;
  settle(places_[node.value]);
}

// Whether the one that is worth least is worth something else by now: the boundary before it has gone.
bool Checkpoints::look_again() {
  if (heap_.empty()) return false;
  Entry& entry = heap_[0];
  if (index_->tokens(NodeId(entry.before)) == 0 || has(NodeId(entry.before))) return false;
  const double worth = worth_of(entry);
  entry.before = boundary_before(entry.node);
  entry.rank = order_->moved(entry.rank, worth_of(entry) - worth);
  settle(0);
  return true;
}

}  // namespace quire
