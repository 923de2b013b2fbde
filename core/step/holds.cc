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

void Holds::reserve(uint32_t holds, uint64_t tokens) {
  uint64_t heads = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const Stretch blocks = blocks_of(g, 0, tokens, 0);
    heads += blocks.end - blocks.first;
  }
  const size_t had = holds_.size();
  if (had >= holds) return;
  holds_.resize(holds);
  free_.reserve(holds);
  for (size_t i = holds; i > had; --i) {
    holds_[i - 1].heads.reserve(heads);
    free_.push_back(static_cast<uint32_t>(i - 1));
  }
}

Holds::Hold* Holds::open(bool allocate) {
  if (free_.empty()) {
    if (!allocate || holds_.size() >= kMostHolds) return nullptr;
    free_.reserve(holds_.size() + 1);
    holds_.emplace_back();
    free_.push_back(static_cast<uint32_t>(holds_.size() - 1));
  }
  Hold& hold = holds_[free_.back()];
  free_.pop_back();
  // An id names its slot, too: found without a search.
  hold.id = next_id_++ * kMostHolds + static_cast<uint64_t>(&hold - holds_.data());
  ++num_;
  return &hold;
}

const Holds::Hold* Holds::find(quire_hold_id id) const {
  const uint64_t slot = id % kMostHolds;
  return id != 0 && slot < holds_.size() && holds_[slot].id == id ? &holds_[slot] : nullptr;
}

void Holds::let_go(Hold* hold) {
  // The last block first: tails are evicted before what they follow from.
  for (size_t i = hold->heads.size(); i > 0; --i) {
    if (hold->heads[i - 1].value != kNone) pool_.unref(hold->heads[i - 1], steps_.newest_id());
  }
  hold->heads.clear();
  num_parts_ -= hold->num_parts;
  --num_;
  hold->id = 0;
  free_.push_back(static_cast<uint32_t>(hold - holds_.data()));
}

Status Holds::end(quire_hold_id id) {
  const Hold* const hold = find(id);
  if (hold == nullptr) return no_hold(id);
  let_go(const_cast<Hold*>(hold));
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

Status Holds::ids(quire_hold_id id, uint32_t group, std::span<int32_t> out, uint64_t* count) const {
  const Hold* const hold = find(id);
  if (hold == nullptr) return no_hold(id);
  if (group >= facts_.num_groups) return fail(QUIRE_OUT_OF_RANGE, "group: %u of %u", group, facts_.num_groups);
  size_t at = 0;
  for (uint32_t g = 0; g < group; ++g) {
    const Stretch before = blocks_of(g, *hold);
    at += before.end - before.first;
  }
  const Stretch blocks = blocks_of(group, *hold);
  const size_t n = blocks.end - blocks.first, columns = facts_.groups[group].columns;
  *count = n * columns;
  if (out.empty()) return {};
  if (out.size() < n * columns) return fail(QUIRE_OUT_OF_RANGE, "capacity: %zu, the group has %zu ids", out.size(), n * columns);
  for (size_t b = 0; b < n; ++b) {
    PartIndex part = hold->heads[at + b];
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
