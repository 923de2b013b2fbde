// What quire must do: the same rules with its differences.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive.h"

namespace quire::golden {
namespace {

uint64_t floor_to(uint64_t n, uint64_t m) { return n / m * m; }

}  // namespace

// Blocks before are not adopted by a hit at `position`.
uint64_t Naive::first_kept(size_t g, uint64_t position) const {
  const NaiveGroup& group = shape_.groups[g];
  if (group.kind == NaiveGroup::Kind::kWindow) return (position >= group.range ? position + 1 - group.range : 0) / group.block;
  return group.kind == NaiveGroup::Kind::kChunk ? floor_to(position, group.range) / group.block : 0;
}

bool Naive::holds(const NaiveRequest& r, size_t g, uint64_t p, uint64_t most) const {
  const NaiveGroup& group = shape_.groups[g];
  if (group.kind == NaiveGroup::Kind::kCross) return true;
  const uint64_t end = p + (group.drafts ? group.block : 0), units = group.block / shape_.hash_unit;
  if (end > most) return false;
  for (uint64_t b = first_kept(g, p); b < end / group.block; ++b) {
    if (pool_.find({r.names[(b + 1) * units - 1], g}) < 0) return false;
  }
  return true;
}

// Somebody computed the prefix, and it is remembered.
bool Naive::known(int64_t name, const std::map<std::string, NaiveRequest>& live) const {
  for (const auto& [key, ids] : pool_.keys()) {
    if (names_->within(key.first, name)) return true;
  }
  return std::any_of(live.begin(), live.end(), [&](const auto& item) {
    const NaiveRequest& r = item.second;
    const uint64_t published = floor_to(r.silent.value_or(r.committed), shape_.unit) / shape_.hash_unit;
    const auto end = r.names.begin() + static_cast<long>(std::min<uint64_t>(published, r.names.size()));
    return std::find(r.names.begin(), end, name) != end;
  });
}

uint64_t Naive::lookup(const NaiveRequest& r, uint64_t most, const std::map<std::string, NaiveRequest>& live) const {
  if (!shape_.caching || shape_.groups.empty()) return 0;
  for (uint64_t p = floor_to(most, shape_.joint); p > 0; p -= shape_.joint) {
    bool all = true;
    for (size_t g = 0; g < shape_.groups.size() && all; ++g) all = holds(r, g, p, most);
    if (!all) continue;
    const bool full = std::any_of(shape_.groups.begin(), shape_.groups.end(), [](const NaiveGroup& g) { return g.full(); });
    if (full || known(r.names[p / shape_.hash_unit - 1], live)) return p;
  }
  return 0;
}

uint64_t Naive::wanted(const NaiveRequest& r, size_t g, uint64_t position, uint64_t have, uint64_t end, bool whole) const {
  const NaiveGroup& group = shape_.groups[g];
  if (r.committed > 0) have = r.table[g].size();
  uint64_t want = ceil_div(end, group.block);
  if (whole && !group.full()) {
    const uint64_t span = (group.kind == NaiveGroup::Kind::kChunk ? group.range : group.range - 1 + group.extra) + shape_.in_flight;
    want = std::min(want, have + ceil_div(span, group.block) + 1);
  }
  (void)position;
  return want > have ? want - have : 0;
}

void Naive::take(NaiveRequest* r, size_t g) {
  const int next = pool_.queue().front();
  for (const NaivePool::Key& key : std::vector<NaivePool::Key>(pool_.at(next).keys)) drop(key);
  r->table[g].push_back(pool_.take());
}

// A block leaves the index; behind one that a group needs for everything nothing can be found any more.
void Naive::drop(NaivePool::Key key) {
  std::vector<NaivePool::Key> gone{key};
  if (shape_.groups[key.second].full()) {
    for (const auto& [other, ids] : pool_.keys()) {
      if (other.first != key.first && names_->within(other.first, key.first)) gone.push_back(other);
    }
  }
  for (const NaivePool::Key& k : gone) {
    const int id = pool_.find(k);
    if (id < 0) continue;
    pool_.drop_key(id, k);
    removed.insert(k);
    if (pool_.at(id).refs == 0) pool_.to_front(id);
  }
}

bool Naive::reserve(NaiveRequest* r, const NaiveWant& want, uint64_t hit) {
  const bool first = r->committed == 0;
  const uint64_t position = first ? hit + want.external : r->committed;
  const uint64_t end = std::min(want.target + want.look, shape_.max_len);
  const bool whole = want.full > end;
  const uint64_t most = whole ? std::min(want.full, shape_.max_len) : end;
  if (r->table.empty()) r->table.resize(shape_.groups.size());
  if (r->told.empty()) r->told.resize(shape_.groups.size());
  uint64_t pages = 0, taken = 0;
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.kind == NaiveGroup::Kind::kCross) {
      const uint64_t blocks = ceil_div(want.encoder, group.block);
      pages += blocks > r->table[g].size() ? blocks - r->table[g].size() : 0;
      continue;
    }
    const uint64_t there = std::max(hit / group.block, want.external > 0 ? group.skipped(position) / group.block : 0);
    pages += wanted(*r, g, position, there, most, whole);
    for (uint64_t b = first_kept(g, position); first && b < hit / group.block; ++b) {
      if (pool_.at(pool_.find({r->names[(b + 1) * (group.block / shape_.hash_unit) - 1], g})).refs == 0) ++taken;
    }
  }
  // A watermark is kept while others use memory.
  const uint64_t spared = (first && pool_.free() + 1 < shape_.num_blocks ? shape_.watermark : 0) + want.spared;
  const uint64_t available = pool_.free() > taken + spared ? pool_.free() - taken - spared : 0;
  if (pages > available) return false;
  for (size_t g = 0; first && g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.kind == NaiveGroup::Kind::kCross) continue;
    const uint64_t kept = first_kept(g, position);
    r->table[g].assign(std::max(hit / group.block, want.external > 0 ? group.skipped(position) / group.block : 0), 0);
    for (uint64_t b = kept; b < hit / group.block; ++b) {
      r->table[g][b] = pool_.find({r->names[(b + 1) * (group.block / shape_.hash_unit) - 1], g});
      pool_.touch(r->table[g][b]);
    }
    r->told[g] = hit / group.block;
  }
  if (first) r->committed = position;
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    const uint64_t blocks = ceil_div(group.kind == NaiveGroup::Kind::kCross ? want.encoder : end, group.block);
    while (r->table[g].size() < blocks) take(r, g);
  }
  return true;
}

void Naive::commit(NaiveRequest* r, const NaiveWant& want) {
  const uint64_t before = r->committed;
  r->committed = want.accepted;
  for (size_t g = 0; want.accepted < want.target && g < shape_.groups.size(); ++g) {
    const uint64_t blocks = ceil_div(r->committed, shape_.groups[g].block);
    if (shape_.groups[g].kind == NaiveGroup::Kind::kCross || r->table[g].size() <= blocks) continue;
    const auto tail = r->table[g].begin() + static_cast<long>(blocks);
    pool_.give_back({r->table[g].rbegin(), std::make_reverse_iterator(tail)});
    r->table[g].erase(tail, r->table[g].end());
  }
  if (!want.loading) publish(r, before);
  prune(r);
}

void Naive::loaded(NaiveRequest* r) { publish(r, r->committed); }

uint64_t Naive::limit(size_t g, uint64_t tokens) const {
  const uint64_t whole = floor_to(tokens, shape_.joint);
  if (!shape_.groups[g].drafts || whole == 0) return whole;
  const uint64_t settled = tokens - std::min(tokens, shape_.look_ahead - 1);
  return std::min(settled, floor_to(settled, shape_.joint) + shape_.groups[g].block);
}

bool Naive::keeps(const NaiveRequest& r, size_t g, uint64_t block) const {
  const NaiveGroup& group = shape_.groups[g];
  if (group.kind != NaiveGroup::Kind::kWindow) return true;
  // Whether a hit at p reaches back to the block.
  const uint64_t need = std::max<uint64_t>(ceil_div(group.range - 1, group.block), 1) + (group.drafts ? 1 : 0);
  const auto reached = [&](uint64_t p) {
    const uint64_t end = (p + (group.drafts ? group.block : 0)) / group.block;
    return block < end && block + need >= end;
  };
  const uint64_t step = shape_.retention ? *shape_.retention : shape_.joint;
  for (uint64_t p = step; step != 0 && p / group.block <= block + need; p += step) {
    if (reached(p)) return true;
  }
  if (step != 0 && need >= step / group.block) return true;
  if (!shape_.retention) return false;
  return (r.prompt > 0 && reached(floor_to(r.prompt - 1, shape_.joint))) || (r.junction > 0 && reached(floor_to(r.junction, shape_.joint)));
}

// Blocks of one's own that went when another copy was evicted come back before more is published.
void Naive::mend(NaiveRequest* r, uint64_t published) {
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (!group.full()) continue;
    for (uint64_t b = std::min(r->told[g], published / group.block); b-- > 0;) {
      const NaivePool::Key key{r->names[(b + 1) * (group.block / shape_.hash_unit) - 1], g};
      if (pool_.find(key) >= 0) break;
      const int id = r->table[g][b];
      if (id == 0 || !pool_.at(id).keys.empty()) break;
      pool_.insert(id, key, (b + 1) * group.block);
      stored.insert(key);
    }
  }
}

void Naive::publish(NaiveRequest* r, uint64_t before) {
  if (!shape_.caching || r->silent) return;
  const bool drafts = std::any_of(shape_.groups.begin(), shape_.groups.end(), [](const NaiveGroup& g) { return g.drafts; });
  const uint64_t published = floor_to(before, shape_.unit);
  if (published + shape_.unit > r->committed && !drafts) return;
  mend(r, published);
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.kind == NaiveGroup::Kind::kCross) continue;
    for (; (r->told[g] + 1) * group.block <= limit(g, r->committed); ++r->told[g]) {
      const uint64_t b = r->told[g];
      const NaivePool::Key key{r->names[(b + 1) * (group.block / shape_.hash_unit) - 1], g};
      const int id = r->table[g][b];
      if (id == 0 || !pool_.at(id).keys.empty() || pool_.find(key) >= 0 || !keeps(*r, g, b)) continue;
      pool_.insert(id, key, (b + 1) * group.block);
      stored.insert(key);
    }
  }
}

// What left the live ranges, at once.
void Naive::prune(NaiveRequest* r) {
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    auto& table = r->table[g];
    uint64_t first = 0, end = group.skipped(r->committed) / group.block;
    if (group.kind == NaiveGroup::Kind::kTrailing && r->prompt > 0) {
      first = ceil_div(r->prompt, group.block);
      end = std::max(r->prompt, r->committed > group.range ? r->committed - group.range : 0) / group.block;
    }
    std::vector<int> gone;
    for (uint64_t b = std::min<uint64_t>(end, table.size()); b-- > first;) {
      gone.push_back(table[b]);
      table[b] = 0;
    }
    pool_.give_back(gone);
  }
}

void Naive::release(NaiveRequest* r) {
  for (auto& table : r->table) pool_.give_back({table.rbegin(), table.rend()});
  r->table.clear();
  r->told.clear();
  r->committed = 0;
  r->silent.reset();
}

void Naive::evict(NaivePool::Key key, std::map<std::string, NaiveRequest>* live) {
  const int id = pool_.find(key);
  for (auto& [name, r] : *live) {
    if (r.silent || r.table.size() <= key.second) continue;
    const auto& table = r.table[key.second];
    if (std::find(table.begin(), table.end(), id) != table.end()) r.silent = r.committed;
  }
  drop(key);
}

void Naive::reset() {
  const std::deque<int> idle = pool_.queue();
  for (int id : idle) {
    for (const NaivePool::Key& key : std::vector<NaivePool::Key>(pool_.at(id).keys)) drop(key);
  }
}

}  // namespace quire::golden
