#include "core/prefix/index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/checked.h"

namespace quire {
namespace {

__extension__ using Wide = unsigned __int128;

// The hash of a path and of the unit that follows it, which is made of its symbols alone: so those of many units are made at the same time,
// and only this waits for the unit before. Both halves of the product count.
inline uint64_t chained(uint64_t path, uint64_t unit) {
  const Wide product = Wide{path ^ 0x9e3779b97f4a7c15} * (unit ^ 0xd6e8feb86659fd93);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

Result<PrefixIndex> PrefixIndex::create(IndexShape shape) {
  if (shape.unit_tokens == 0) return invalid("unit_tokens: 0, at least 1");
  if (shape.max_roots == 0) return invalid("max_roots: 0, at least 1");
  // Roots have nodes too, those that were abandoned included.
  auto max_nodes = checked_add(shape.max_nodes, 2ull * shape.max_roots);
  if (!max_nodes || *max_nodes >= kGone)
    return fail(QUIRE_OUT_OF_RANGE, "max_index_units: %llu, below 2^32 - 2 with the roots",
                static_cast<unsigned long long>(shape.max_nodes));
  auto symbols = checked_mul(*max_nodes, shape.unit_tokens);
  auto heads = checked_mul(*max_nodes, shape.groups.size());
  if (!symbols || !heads) return fail(QUIRE_OUT_OF_RANGE, "max_index_units: too many symbols");
  if (shape.groups.size() > kMaxGroups) return fail(QUIRE_OUT_OF_RANGE, "groups: %zu, at most %u", shape.groups.size(), kMaxGroups);
  PrefixIndex index;
  index.num_groups_ = static_cast<uint32_t>(shape.groups.size());
  for (const IndexGroup& g : shape.groups) index.fine_ = index.fine_ || (!g.live.fixed && shape.hit_alignment_tokens % g.block_tokens != 0);
  for (size_t g = 0; g < shape.groups.size(); ++g) index.needs_all_ |= uint64_t{shape.groups[g].live.everything() ? 1u : 0u} << g;
  index.nodes_.resize(*max_nodes);
  index.links_.assign(*max_nodes, kGone);
  index.heads_.assign(*heads, kNone);
  index.symbols_.resize(*symbols);
  index.buckets_.assign(std::bit_ceil(*max_nodes + 1), kNone);
  index.evicted_.assign(std::bit_ceil(*max_nodes / kRememberedDepth + 64), 0);
  index.make_room_for_roots(shape.max_roots);
  index.root_by_identity_.reserve(shape.max_roots);
  index.dropped_.reserve(*heads);
  for (uint64_t i = *max_nodes; i > 0; --i) {
    index.nodes_[i - 1].bucket_next = index.free_node_;
    index.free_node_ = static_cast<uint32_t>(i - 1);
  }
  index.shape_ = std::move(shape);
  return index;
}

uint32_t PrefixIndex::new_node() {
  uint32_t n = free_node_;
  if (n == kNone) return kNone;
  Node& node = nodes_[n];
  free_node_ = node.bucket_next;
  node.begin(0, 0, kNone, kNone);
  ++num_nodes_;
  return n;
}

uint32_t PrefixIndex::find_root(std::string_view identity) const {
  auto it = root_by_identity_.find(identity);
  return it == root_by_identity_.end() ? kNone : it->second;
}

Result<uint32_t> PrefixIndex::open_root(std::string_view identity) {
  uint32_t root = find_root(identity);
  if (root != kNone) {
    ref_root(root);
    return root;
  }
  if (roots_are_taken()) return fail(QUIRE_RESOURCE_EXHAUSTED, "max_roots: all %u roots have sequences or hard pins", shape_.max_roots);
  if (free_node_ == kNone) return fail(QUIRE_RESOURCE_EXHAUSTED, "max_index_units: the index is full");
  make_room_for_roots(1);
  root = free_roots_.back();
  const std::lock_guard lock(*naming_);
  const Change change(this);
  Root& r = roots_[root];
  r.identity.assign(identity);  // what allocates comes first: where it throws nothing is taken yet
  root_by_identity_.emplace(std::string_view(r.identity), root);
  free_roots_.pop_back();
  const uint32_t node = new_node();
  r.serial = next_serial_++;
  r.node = node;
  r.refs = 1;
  ++num_open_roots_;
  links_[node] = link_to(kNone, links_[node]);
  nodes_[node].root = root;
  nodes_[node].hash = XXH3_64bits_withSeed(identity.data(), identity.size(), shape_.seed);
  return root;
}

void PrefixIndex::ref_root(uint32_t root) {
  if (roots_[root].refs++ == 0) set_idle(root, false);
}

void PrefixIndex::close_root(uint32_t root) {
  if (--roots_[root].refs > 0) return;
  set_idle(root, true);
  forget_root(root);
}

void PrefixIndex::set_idle(uint32_t root, bool idle) {
  Root& r = roots_[root];
  if (idle) {
    r.idle_prev = idle_.tail;
    r.idle_next = kNone;
    (idle_.tail != kNone ? roots_[idle_.tail].idle_next : idle_.head) = root;
    idle_.tail = root;
  } else {
    (r.idle_prev != kNone ? roots_[r.idle_prev].idle_next : idle_.head) = r.idle_next;
    (r.idle_next != kNone ? roots_[r.idle_next].idle_prev : idle_.tail) = r.idle_prev;
  }
}

std::span<const DroppedBlock> PrefixIndex::drop_oldest_root() {
  dropped_.clear();
  const uint32_t root = idle_.head;
  if (root == kNone) return {};
  drop_subtree(roots_[root].node, true);  // no sequence is left to hold a node of it
  forget_root(root);
  return dropped_;
}

// Forgets a root that has neither references nor content.
void PrefixIndex::forget_root(uint32_t root) {
  Root& r = roots_[root];
  const Node& node = nodes_[r.node];
  if (r.refs > 0 || node.first_child != kNone || node.holds > 0) return;
  const std::lock_guard lock(*naming_);
  const Change change(this);
  if (r.stale) {
    --stale_nodes_;
  } else {
    set_idle(root, false);
    root_by_identity_.erase(std::string_view(r.identity));
    --num_open_roots_;
  }
  nodes_[r.node].live = false;
  links_[r.node] = link_of_gone(links_[r.node]);
  nodes_[r.node].bucket_next = free_node_;
  free_node_ = r.node;
  --num_nodes_;
  r.node = r.renewal = kNone;
  r.stale = false;
  free_roots_.push_back(root);
}

// At least so many are free: none is moved, and giving one back never allocates.
void PrefixIndex::make_room_for_roots(size_t count) {
  if (free_roots_.size() < count) free_roots_.reserve(roots_.size() + count);
  while (free_roots_.size() < count) {
    roots_.emplace_back();
    free_roots_.push_back(static_cast<uint32_t>(roots_.size() - 1));
  }
}

// The identity goes to a root without content, with all who use it.
void PrefixIndex::renew_root(uint32_t root) {
  Root& old = roots_[root];
  auto name = root_by_identity_.extract(std::string_view(old.identity));
  old.stale = true;
  if (old.refs == 0) {
    set_idle(root, false);
    --num_open_roots_;
    return;
  }
  old.renewal = free_roots_.back();
  free_roots_.pop_back();
  Root& young = roots_[old.renewal];
  young.identity.swap(old.identity);
  young.serial = old.serial;
  young.refs = std::exchange(old.refs, 0);
  young.node = new_node();
  links_[young.node] = link_to(kNone, links_[young.node]);
  nodes_[young.node].root = old.renewal;
  nodes_[young.node].hash = nodes_[old.node].hash;
  name.key() = std::string_view(young.identity);
  name.mapped() = old.renewal;
  root_by_identity_.insert(std::move(name));
}

void PrefixIndex::retire_all() {
  const auto has_content = [this](const Root& r) { return r.node != kNone && !r.stale && nodes_[r.node].first_child != kNone; };
  const auto used = static_cast<size_t>(std::count_if(roots_.begin(), roots_.end(), has_content));
  make_room_for_roots(used);
  const std::lock_guard lock(*naming_);
  const Change change(this);
  for (uint32_t i = 0, end = static_cast<uint32_t>(roots_.size()); i < end; ++i) {
    if (has_content(roots_[i])) renew_root(i);
  }
  stale_nodes_ = num_nodes_ - num_open_roots_;
}

std::span<const quire_symbol> PrefixIndex::symbols(NodeId node) const {
  return {symbols_.data() + size_t{node.value} * shape_.unit_tokens, shape_.unit_tokens};
}

uint64_t PrefixIndex::child_hash(uint64_t parent, std::span<const quire_symbol> unit) const {
  static_assert(kUsualUnit * sizeof(quire_symbol) == 64);
  if (unit.size() == kUsualUnit) return chained(parent, XXH3_64bits_withSeed(unit.data(), 64, shape_.seed));
  return chained(parent, XXH3_64bits_withSeed(unit.data(), unit.size_bytes(), shape_.seed));
}

// Only a reader beside a change can be led astray, onto a list of another kind: it gives up.
uint32_t PrefixIndex::find_child(uint32_t at, uint64_t hash, std::span<const quire_symbol> unit, uint32_t most) const {
  for (uint32_t n = buckets_[hash & (buckets_.size() - 1)]; n != kNone && most > 0; n = nodes_[n].bucket_next, --most) {
    if (nodes_[n].hash == hash && is_child(n, at, unit)) return n;
  }
  return kNone;
}

bool PrefixIndex::has_hashed(uint32_t node) const {
  const uint32_t first = nodes_[node].first_child;
  return first != kNone && (nodes_[first].hashed || nodes_[first].next_sibling != kNone);
}

NodeId PrefixIndex::child(NodeId at, std::span<const quire_symbol> unit) const {
  uint32_t n = find_next(at.value, unit);
  if (n == kNone) n = find_only(at.value, unit);
  if (n != kNone || !has_hashed(at.value)) return NodeId(n);
  return NodeId(find_child(at.value, child_hash(nodes_[at.value].hash, unit), unit));
}

Extended PrefixIndex::extend(NodeId at, std::span<const quire_symbol* const> units, std::span<NodeId> nodes) {
  uint32_t n = 0;
  for (; n < units.size() && nodes_[at.value].first_child != kNone; at = nodes[n++]) {
    nodes[n] = child(at, {units[n], shape_.unit_tokens});
    if (nodes[n].value == kNone) break;
  }
  if (n > 0) return {n, false};
  return {add_path(at.value, units, nodes), true};
}

// The first one must not be there.
uint32_t PrefixIndex::add_path(uint32_t at, std::span<const quire_symbol* const> units, std::span<NodeId> made) {
  // The nodes of roots to come are not for units.
  const uint64_t room = shape_.max_nodes - std::min(shape_.max_nodes, num_nodes_ - num_open_roots_);
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(units.size(), room));
  const size_t unit = shape_.unit_tokens;
  const uint64_t seed = shape_.seed;
  const Change change(this);
  Node* const nodes = nodes_.data();
  Shared<uint64_t>* const links = links_.data();
  quire_symbol* const all_symbols = symbols_.data();
  const uint32_t depth = nodes[at].depth, root = nodes[at].root, first = free_node_;
  uint64_t hash = nodes[at].hash;
  uint32_t n = first, parent = at, i = 0;
  while (i < count && n != kNone) {
    Node& node = nodes[n];
    const uint32_t free = node.bucket_next;
    quire_symbol* const symbols = all_symbols + n * unit;
    prefetch_to_write(symbols + kSoon * unit);  // what follows a unit lies behind it most of the time
    const quire_symbol* const given = units[i];
    if (unit == kUsualUnit) [[likely]] {
      hash = chained(hash, XXH3_64bits_withSeed(given, 64, seed));
      shared_assign(symbols, given, kUsualUnit);
    } else {
      hash = child_hash(hash, {given, unit});
      shared_assign(symbols, given, unit);
    }
    made[i++] = NodeId(n);
    node.begin(hash, depth + i, root, i < count ? free : kNone);  // the next one is its child
    links[n] = link_to(parent, links[n]);
    parent = n;
    n = free;
  }
  if (i == 0) return 0;
  if (nodes[at].first_child != kNone) link_sibling(nodes[at].first_child, first);
  nodes[at].first_child = first;
  free_node_ = n;
  num_nodes_ += i;
  return i;
}

// A child that is not the only one any more is looked up like all others.
void PrefixIndex::link_sibling(uint32_t first, uint32_t n) {
  if (!nodes_[first].hashed && !in_run(first)) enter_hash(first);
  if (!in_run(n)) enter_hash(n);
  nodes_[n].next_sibling = first;
  nodes_[first].prev_sibling = n;
}

void PrefixIndex::enter_hash(uint32_t n) {
  Shared<uint32_t>& bucket = buckets_[nodes_[n].hash & (buckets_.size() - 1)];
  nodes_[n].bucket_next = bucket;
  bucket = n;
  nodes_[n].hashed = true;  // last: a reader finds it in one way or the other
}

void PrefixIndex::move_hold(NodeId from, NodeId to) {
  if (from == to) return;
  hold(to);
  drop(from);
}

void PrefixIndex::drop(NodeId node) {
  --nodes_[node.value].holds;
  remove_if_empty(node.value);
}

void PrefixIndex::remember(uint32_t n) {
  const Node& node = nodes_[n];
  nodes_[parent_of(n)].lost_child = mark_of(node.hash);
  if (node.depth % kRememberedDepth == 0) evicted_[node.hash & (evicted_.size() - 1)] = node.hash;
}

void PrefixIndex::unlink_node(uint32_t n) {
  const Change change(this);
  Node& node = nodes_[n];
  const bool stale = is_stale(NodeId(n));
  if (node.lost && !stale) remember(n);
  if (stale) --stale_nodes_;
  if (node.hashed) {
    Shared<uint32_t>* link = &buckets_[node.hash & (buckets_.size() - 1)];
    while (*link != n) link = &nodes_[*link].bucket_next;
    *link = node.bucket_next;
  }
  (node.prev_sibling != kNone ? nodes_[node.prev_sibling].next_sibling : nodes_[parent_of(n)].first_child) = node.next_sibling;
  if (node.next_sibling != kNone) nodes_[node.next_sibling].prev_sibling = node.prev_sibling;
  node.live = false;
  links_[n] = link_of_gone(links_[n]);
  node.bucket_next = free_node_;
  free_node_ = n;
  --num_nodes_;
}

// Removes the node and its ancestors as far as they have no block, no child and no holder; at the top, the root.
void PrefixIndex::remove_if_empty(uint32_t n) {
  while (parent_of(n) != kNone) {
    const Node& node = nodes_[n];
    if (node.blocks > 0 || node.first_child != kNone || node.holds > 0) return;
    uint32_t parent = parent_of(n);
    unlink_node(n);
    n = parent;
  }
  forget_root(nodes_[n].root);
}

bool PrefixIndex::evict_above(NodeId node, GroupId group) {
  Node& n = nodes_[node.value];
  const bool stale = is_stale(node);
  if (n.first_child != kNone && !stale && shape_.groups[group.value].live.everything() && is_whole(node.value, group.value)) return false;
  const Change change(this);
  heads_[slot(node.value, group)] = kNone;
  n.lost = !stale;
  if (--n.blocks == 0 && n.first_child == kNone && n.holds == 0) remove_if_empty(node.value);
  return true;
}

void PrefixIndex::move(NodeId from, NodeId to, GroupId group) {
  const Change change(this);
  const PartIndex head = block_at(from, group);
  heads_[slot(from.value, group)] = kNone;
  --nodes_[from.value].blocks;
  attach(to, group, head);
}

void PrefixIndex::take_block(uint32_t node, uint32_t group, bool evicted) {
  Shared<uint32_t>& head = heads_[slot(node, GroupId(group))];
  if (head == kNone) return;
  const Change change(this);
  dropped_.push_back(DroppedBlock{GroupId(group), PartIndex(head)});
  head = kNone;
  --nodes_[node].blocks;
  if (evicted) nodes_[node].lost = true;
}

uint32_t PrefixIndex::skip_barren(uint32_t sibling, uint32_t most) const {
  for (; sibling != kNone && nodes_[sibling].barren; --most) {
    if (most == 0) return kNone;
    sibling = nodes_[sibling].next_sibling;
  }
  return sibling;
}

// Empties all nodes below `top`, leaves first, and removes those that nobody holds. The held ones are barren then and not walked again.
void PrefixIndex::drop_subtree(uint32_t top, bool evicted) {
  uint32_t n = top;
  while (true) {
    for (uint32_t child = skip_barren(nodes_[n].first_child); child != kNone; child = skip_barren(nodes_[n].first_child)) n = child;
    // Nothing below n is left; walk to the next one, removing what became empty.
    while (n != top) {
      for (uint32_t g = 0; g < num_groups_; ++g) take_block(n, g, evicted);
      nodes_[n].barren = true;
      uint32_t sibling = skip_barren(nodes_[n].next_sibling);
      uint32_t parent = parent_of(n);
      if (nodes_[n].first_child == kNone && nodes_[n].holds == 0) unlink_node(n);
      if (sibling != kNone) {
        n = sibling;
        break;
      }
      n = parent;
    }
    if (n == top) return;
  }
}

std::span<const DroppedBlock> PrefixIndex::detach(NodeId node, GroupId group, bool evicted) {
  dropped_.clear();
  take_block(node.value, group.value, evicted);
  const bool below = shape_.groups[group.value].live.everything() && is_whole(node.value, group.value);
  if (nodes_[node.value].first_child != kNone && below && !is_stale(node)) drop_subtree(node.value, evicted);
  remove_if_empty(node.value);
  return dropped_;
}

}  // namespace quire
