#include "core/step/holds.h"

#include <algorithm>

namespace quire {
namespace {

Status no_hold(quire_hold_id id) { return fail(QUIRE_NOT_FOUND, "hold: %llu is none", static_cast<unsigned long long>(id)); }

}  // namespace

Stretch Holds::blocks_of(uint32_t group, uint64_t first, uint64_t end, uint64_t encoder) const {
  const GroupFacts& g = facts_.groups[group];
  if (g.state) return {0, 1};
  if (!g.grows) return {0, static_cast<uint32_t>(g.block.ceil(encoder))};
  if (first >= end) return {};
  return {static_cast<uint32_t>(g.block.quotient(first)), static_cast<uint32_t>(g.block.ceil(end))};
}

uint64_t Holds::num_blocks(uint64_t first, uint64_t end, uint64_t encoder) const {
  uint64_t blocks = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const Stretch of = blocks_of(g, first, end, encoder);
    blocks += of.end - of.first;
  }
  return blocks;
}

void Holds::reserve(uint32_t holds, uint64_t tokens) {
  const uint64_t heads = num_blocks(0, tokens, 0);
  const uint64_t wanted = num_ - num_of_units_ + std::max(holds, num_of_units_);
  const size_t slots = std::max<size_t>(holds_.size(), std::min<uint64_t>(wanted, kMostHolds));
  const auto is_long = [heads](const Hold& hold) { return hold.heads.capacity() >= heads; };
  if (slots > holds_.size() || !std::all_of(holds_.begin(), holds_.end(), is_long)) grow(slots, heads);
  reserved_ = holds;
  unit_heads_ = heads;
}

void Holds::grow(size_t slots, uint64_t heads) {
  std::vector<Hold> made(slots);  // in their places; of those that there are, longer lists
  for (size_t i = 0; i < slots; ++i) {
    if (i >= holds_.size() || holds_[i].heads.capacity() < heads) made[i].heads.reserve(heads);
  }
  std::vector<uint32_t> free;
  free.reserve(slots);
  // From here on nothing fails.
  free.assign(free_.begin(), free_.end());
  for (size_t i = holds_.size(); i < slots; ++i) free.push_back(static_cast<uint32_t>(i));
  for (size_t i = 0; i < holds_.size(); ++i) {
    std::vector<PartIndex> longer = std::move(made[i].heads);
    made[i] = std::move(holds_[i]);
    if (longer.capacity() == 0) continue;
    longer.assign(made[i].heads.begin(), made[i].heads.end());
    made[i].heads.swap(longer);
  }
  holds_.swap(made);
  free_.swap(free);
}

// Where it takes memory it does so before anything has changed.
Holds::Hold* Holds::open(uint64_t heads, bool of_unit) {
  if (of_unit && num_of_units_ >= reserved_) return nullptr;
  const uint32_t for_units = reserved_ - std::min(reserved_, num_of_units_);
  if (!of_unit && free_.size() <= for_units) {
    if (holds_.size() >= kMostHolds) return nullptr;
    free_.reserve(holds_.size() + 1);
    Hold hold;
    hold.heads.reserve(std::max(heads, unit_heads_));
    holds_.push_back(std::move(hold));
    free_.push_back(static_cast<uint32_t>(holds_.size() - 1));
  }
  if (free_.empty()) return nullptr;
  Hold& hold = holds_[free_.back()];
  hold.heads.reserve(heads);
  free_.pop_back();
  // An id names its slot, too: found without a search.
  hold.id = next_id_++ * kMostHolds + static_cast<uint64_t>(&hold - holds_.data());
  hold.of_unit = of_unit;
  num_of_units_ += of_unit ? 1 : 0;
  ++num_;
  return &hold;
}

const Holds::Hold* Holds::find(quire_hold_id id) const {
  const uint64_t slot = id % kMostHolds;
  return id != 0 && slot < holds_.size() && holds_[slot].id == id ? &holds_[slot] : nullptr;
}

// Whoever else has the block may have taken it over from a sequence whose last step is not done yet; who is alone with it has not.
void Holds::drop(PartIndex head, EvictionClass eviction_class) {
  if (head.value != kNone) pool_.unref(head, pool_.refs(head) > 1 ? steps_.newest_id() : 0, eviction_class);
}

// Tails are evicted before what they follow from, and groups in their order. Cold blocks keep the order in which they are dropped, warm
// ones too, and all of a hold's cold blocks go before others.
void Holds::let_go(Hold* hold) {
  size_t first = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const Stretch blocks = blocks_of(g, *hold);
    for (size_t i = first + blocks.end - blocks.first; i > first; --i) {
      PartIndex& head = hold->heads[i - 1];
      if (head.value == kNone || !pool_.has_cold_ref(head)) continue;
      drop(head, EvictionClass::kCold);
      head = PartIndex(kNone);
    }
    first += blocks.end - blocks.first;
  }
  for (size_t i = hold->heads.size(); i > 0; --i) drop(hold->heads[i - 1], EvictionClass::kWarm);
  hold->heads.clear();
  num_parts_ -= hold->num_parts;
  num_of_units_ -= hold->of_unit ? 1 : 0;
  --num_;
  hold->id = 0;
  free_.push_back(static_cast<uint32_t>(hold - holds_.data()));
}

Status Holds::end(quire_hold_id id) {
  if (find(id) == nullptr) return no_hold(id);
  let_go(&holds_[id % kMostHolds]);
  return {};
}

Status Holds::info(quire_hold_id id, quire_hold_info* info) const {
  const Hold* const hold = find(id);
  if (hold == nullptr) return no_hold(id);
  info->first_token = hold->first;
  info->end_token = hold->end;
  info->num_parts = hold->num_parts;
  return {};
}

std::span<const PartIndex> Holds::heads_of(const Hold& hold, uint32_t group) const {
  size_t at = 0;
  for (uint32_t g = 0; g < group; ++g) {
    const Stretch before = blocks_of(g, hold);
    at += before.end - before.first;
  }
  const Stretch blocks = blocks_of(group, hold);
  return std::span(hold.heads).subspan(at, blocks.end - blocks.first);
}

std::span<const PartIndex> Holds::heads(quire_hold_id id, uint32_t group) const {
  const Hold* const hold = find(id);
  return hold == nullptr ? std::span<const PartIndex>() : heads_of(*hold, group);
}

Status Holds::ids(quire_hold_id id, uint32_t group, std::span<int32_t> out, uint64_t* count) const {
  const Hold* const hold = find(id);
  if (hold == nullptr) return no_hold(id);
  if (group >= facts_.num_groups) return fail(QUIRE_OUT_OF_RANGE, "group: %u of %u", group, facts_.num_groups);
  const std::span<const PartIndex> heads = heads_of(*hold, group);
  const size_t n = heads.size(), columns = facts_.groups[group].columns;
  *count = n * columns;
  if (out.empty()) return {};
  if (out.size() < n * columns) return fail(QUIRE_OUT_OF_RANGE, "capacity: %zu, the group has %zu ids", out.size(), n * columns);
  for (size_t b = 0; b < n; ++b) {
    PartIndex part = heads[b];
    for (size_t c = 0; c < columns; ++c) {
      out[c * n + b] = part.value == kNone ? 0 : pool_.id_of(GroupId(group), part).value;
      if (part.value != kNone) part = pool_.next_in_block(part);
    }
  }
  return {};
}

void Holds::count_references(std::vector<uint32_t>* refs) const {
  for (const Hold& hold : holds_) {
    for (const PartIndex head : hold.heads) {
      if (head.value != kNone) ++(*refs)[head.value];
    }
  }
}

void Holds::report(quire_cache_stats* stats) const {
  stats->holds = num_;
  stats->held_parts = num_parts_;
}

}  // namespace quire
