// Recurrent states as the traces were recorded from: blocks that move about a request's table, so that each stands where it ends.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive_cache.h"

namespace quire::golden {

bool Upstream::keeps_state(const NaiveRequest& r, const NaiveGroup& group, uint64_t block) const {
  if (!shape_.retention) return true;
  const uint64_t per = *shape_.retention / group.block;
  if (*shape_.retention != 0 && (per <= 1 || (block + 1) % per == 0)) return true;
  for (uint64_t boundary : {r.prompt - 1, r.junction}) {
    if (boundary == r.junction && r.junction == 0) continue;
    if (boundary / shape_.wanted * shape_.wanted / group.block == block + 1) return true;
  }
  return false;
}

int64_t Upstream::need_aligned(const NaiveRequest& r, size_t g, const Wants& wants, const NaiveHit& hit) const {
  const NaiveGroup& group = shape_.groups[g];
  const auto& blocks = hit.blocks[g];
  const auto have = static_cast<int64_t>(blocks.size() + (r.table.empty() ? 0 : r.table[g].size()));
  int64_t need = static_cast<int64_t>(ceil_div(wants.main, group.block) + group.branches) - have;
  const bool taken = !r.notes.empty() && r.notes[g].taken;
  const bool part = (!blocks.empty() && wants.local % group.block != 0) || (!r.notes.empty() && r.notes[g].tail);
  if (part) need = std::max<int64_t>(need, 0) + 1;
  if (need > 0) need = static_cast<int64_t>((taken ? 1 : 1 + group.branches) + (part ? 1 : 0));
  return need + std::count_if(blocks.begin(), blocks.end(), [&](int id) { return id != 0 && pool_.at(id).refs == 0; });
}

void Upstream::append_aligned(NaiveRequest* r, size_t g, uint64_t tokens) {
  const NaiveGroup& group = shape_.groups[g];
  UpstreamNotes& notes = r->notes[g];
  std::vector<int>& table = r->table[g];
  const uint64_t most = ceil_div(tokens, group.block) + group.branches, before = table.size();
  const bool part = notes.copy || notes.tail, taken = notes.taken;
  notes.taken = true;
  if (most <= before && !part) return;
  if (taken) {
    notes.last = before - 1 - group.branches;
  } else if (before > 0) {
    notes.last = before - 1;
  }
  const uint64_t running = most - std::min(most, group.branches + 1);  // where the running state will be
  while (table.size() < running) table.push_back(0);
  for (uint64_t j = before - std::min(before, group.branches); taken && j < before && j < running; ++j) {
    table.push_back(table[j]);
    table[j] = 0;
  }
  if (notes.copy) {
    const int target = take(g);
    table[notes.copy->first] = target;
    copies_[g].emplace_back(notes.copy->second, target);
    pool_.touch(target);  // until it is copied
    notes.copy.reset();
  } else if (notes.tail) {
    leave_tail(r, g, take(g));
  }
  while (table.size() < most) table.push_back(take(g));
}

// The running state goes on where it is; what is in the index of it is copied.
void Upstream::leave_tail(NaiveRequest* r, size_t g, int target) {
  const uint64_t covered = *r->notes[g].tail;
  r->notes[g].tail.reset();
  const int source = r->table[g][covered / shape_.groups[g].block];
  for (const NaivePool::Key& key : std::vector<NaivePool::Key>(pool_.at(source).keys)) {
    pool_.drop_key(source, key);
    pool_.insert(target, key, covered);
    this_step_.insert(key);
  }
  copies_[g].emplace_back(source, target);
  pool_.touch(source);
  tails_[r].push_back({g, static_cast<uint64_t>(target), covered});
}

std::vector<std::pair<int, int>> Upstream::take_copies() {
  std::vector<std::pair<int, int>> out;
  for (auto& copies : copies_) {
    out.insert(out.end(), copies.begin(), copies.end());
    copies.clear();
  }
  return out;
}

std::vector<int> Upstream::take_zeroes() {
  std::vector<int> out;
  for (auto& ids : to_zero_) {
    out.insert(out.end(), ids.begin(), ids.end());
    ids.clear();
  }
  return out;
}

std::map<NaiveRequest*, std::vector<std::array<uint64_t, 3>>> Upstream::take_tails() {
  for (auto& [r, tails] : tails_) {
    std::stable_sort(tails.begin(), tails.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
    for (const auto& tail : tails) {
      pool_.touch(static_cast<int>(tail[1]));
      r->pins.push_back(static_cast<int>(tail[1]));
    }
  }
  auto out = std::move(tails_);
  tails_.clear();
  return out;
}

}  // namespace quire::golden
