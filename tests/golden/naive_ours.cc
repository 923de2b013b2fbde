// What quire must do: the same rules with its differences.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive_cache.h"

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
  if (group.state()) return pool_.find({r.names[p / shape_.hash_unit - 1], g}) >= 0;
  const uint64_t units = group.block / shape_.hash_unit;
  const bool inside = p % group.block != 0;  // then drafts drop what is left of the block, and one more
  const uint64_t end = group.drafts ? ceil_div(p, group.block) * group.block + group.block : p;
  if (end > most) return false;
  for (uint64_t b = first_kept(g, p); b < end / group.block; ++b) {
    if (pool_.find({r.names[(b + 1) * units - 1], g}) < 0) return false;
  }
  if (inside && group.drafts) met.insert(17);
  return !inside || !over(r, g, p).empty();
}

std::vector<int> Naive::over(const NaiveRequest& r, size_t g, uint64_t p) const {
  std::vector<int> out;
  const uint64_t last = ceil_div(p, shape_.groups[g].block) * shape_.groups[g].block;
  const int64_t name = r.names[p / shape_.hash_unit - 1];
  for (const auto& [key, ids] : pool_.keys()) {
    if (key.second != g || names_->length(key.first) * shape_.hash_unit > last || !names_->within(key.first, name)) continue;
    out.push_back(ids.front());
  }
  return out;
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
    met.insert(8);
  }
  return 0;
}

uint64_t Naive::wanted(const NaiveRequest& r, size_t g, const NaiveWant& want, uint64_t position, uint64_t have, uint64_t end,
                       bool whole) const {
  const NaiveGroup& group = shape_.groups[g];
  if (group.state() && whole) {
    const uint64_t crossed = shape_.at_blocks ? ceil_div(std::min(end, shape_.in_flight), shape_.step_spacing) : 0;
    return shape_.branches + std::max<uint64_t>(1, crossed);
  }
  if (group.state()) return states_wanted(r, g, position, want.target, give_up_);
  if (r.committed > 0) have = r.table[g].size();
  uint64_t most = ceil_div(end, group.block);
  if (whole && !group.full()) {
    const uint64_t span = (group.kind == NaiveGroup::Kind::kChunk ? group.range : group.range - 1 + group.extra) + shape_.in_flight;
    most = std::min(most, have + ceil_div(span, group.block) + 1);
  }
  return (most > have ? most - have : 0) + (r.committed > 0 && tail_is_shared(r, g, position) ? 1 : 0);
}

int Naive::take_one() {
  const int next = pool_.queue().front();
  for (const NaivePool::Key& key : std::vector<NaivePool::Key>(pool_.at(next).keys)) drop(key);
  return pool_.take();
}

void Naive::take(NaiveRequest* r, size_t g) { r->table[g].push_back(take_one()); }

void Naive::put(NaivePool::Key key, int id, uint64_t covered) {
  pool_.insert(id, key, covered);
  stored.insert(key);
}

uint64_t Naive::tokens_of(int id) const {
  const auto& keys = pool_.at(id).keys;
  return keys.empty() ? 0 : names_->length(keys.front().first) * shape_.hash_unit;
}

// Writing at `position` would change what others read.
bool Naive::tail_is_shared(const NaiveRequest& r, size_t g, uint64_t position) const {
  const uint64_t block = position / shape_.groups[g].block;
  if (!r.may_share || position % shape_.groups[g].block == 0 || block >= r.table[g].size()) return false;
  const int id = r.table[g][block];
  return id != 0 && (pool_.at(id).refs > 1 || tokens_of(id) > position);
}

// A block leaves the index; behind one that a group needs for everything nothing can be found any more.
void Naive::drop(NaivePool::Key key) {
  std::vector<NaivePool::Key> gone{key};
  const bool whole = names_->length(key.first) * shape_.hash_unit % shape_.groups[key.second].block == 0;
  if (shape_.groups[key.second].full() && whole) {
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

// The resident blocks of a hit, the first one first.
std::vector<int> Naive::blocks_of_hit(const NaiveRequest& r, size_t g, uint64_t hit, const NaiveWant& want) const {
  const NaiveGroup& group = shape_.groups[g];
  std::vector<int> out;
  if (group.kind == NaiveGroup::Kind::kCross || hit == 0) return out;
  if (group.state()) return {pool_.find({r.names[hit / shape_.hash_unit - 1], g})};
  for (uint64_t b = first_kept(g, hit); b < hit / group.block; ++b)
    out.push_back(pool_.find({r.names[(b + 1) * (group.block / shape_.hash_unit) - 1], g}));
  if (hit % group.block == 0) return out;
  const auto told = want.taken.find(g);
  out.push_back(told != want.taken.end() ? told->second : over(r, g, hit).front());
  return out;
}

bool Naive::has_room(const NaiveRequest& r, const NaiveWant& want, uint64_t hit) const {
  const bool first = r.committed == 0;
  const uint64_t position = first ? hit + want.external : r.committed;
  const uint64_t end = std::min(want.target + want.look, shape_.max_len);
  const bool whole = want.full > end;
  const uint64_t most = whole ? std::min(want.full, shape_.max_len) : end;
  uint64_t pages = 0, taken = 0;
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.kind == NaiveGroup::Kind::kCross) {
      const uint64_t blocks = ceil_div(want.encoder, group.block);
      pages += blocks > r.table[g].size() ? blocks - r.table[g].size() : 0;
      continue;
    }
    const uint64_t there = std::max(hit / group.block, want.external > 0 ? group.skipped(position) / group.block : 0);
    pages += wanted(r, g, want, position, there, most, whole);
    if (!first) continue;
    for (int id : blocks_of_hit(r, g, hit, want)) taken += pool_.at(id).refs == 0 ? 1 : 0;
  }
  // A watermark is kept while others use memory.
  const uint64_t spared = (first && pool_.free() + 1 < shape_.num_blocks ? shape_.watermark : 0) + want.spared;
  const uint64_t available = pool_.free() > taken + spared ? pool_.free() - taken - spared : 0;
  return pages <= available;
}

void Naive::adopt(NaiveRequest* r, uint64_t hit, const NaiveWant& want) {
  const uint64_t position = hit + want.external;
  std::vector<std::vector<int>> found;
  for (size_t g = 0; g < shape_.groups.size(); ++g) found.push_back(blocks_of_hit(*r, g, hit, want));
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    for (int id : found[g]) pool_.touch(id);
    if (group.state()) r->states[g].current = found[g].empty() ? 0 : found[g].front();
    if (group.state() || group.kind == NaiveGroup::Kind::kCross) continue;
    auto& table = r->table[g];
    table.assign(std::max(ceil_div(hit, group.block), want.external > 0 ? group.skipped(position) / group.block : 0), 0);
    const uint64_t kept = ceil_div(hit, group.block) - found[g].size();
    std::copy(found[g].begin(), found[g].end(), table.begin() + static_cast<long>(kept));
    r->may_share = r->may_share || hit % group.block != 0;
    r->told[g] = hit / group.block;
  }
  r->committed = position;
}

bool Naive::reserve(NaiveRequest* r, const NaiveWant& want, uint64_t hit) {
  const bool first = r->committed == 0;
  if (r->table.empty()) r->table.resize(shape_.groups.size());
  if (r->told.empty()) r->told.resize(shape_.groups.size());
  if (r->states.empty()) r->states.resize(shape_.groups.size());
  give_up_ = false;
  if (!has_room(*r, want, hit)) {
    give_up_ = shape_.states && !(first && want.match);
    if (!give_up_ || !has_room(*r, want, hit)) return false;
    met.insert(13);
  }
  if (first && want.match && r->prompt == 0) r->prompt = r->tokens;
  if (first) adopt(r, hit, want);
  const uint64_t end = std::min(want.target + want.look, shape_.max_len);
  r->replaced.clear();
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.state()) {
      take_states(r, g, r->committed, want.target);
      continue;
    }
    if (group.kind != NaiveGroup::Kind::kCross && tail_is_shared(*r, g, r->committed)) {
      int& tail = r->table[g][r->committed / group.block];
      r->replaced.push_back(tail);
      tail = take_one();
    }
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
    if (shape_.groups[g].kind == NaiveGroup::Kind::kCross || r->table[g].size() <= blocks) continue;  // a state has no table
    const auto tail = r->table[g].begin() + static_cast<long>(blocks);
    met.insert(3);
    pool_.give_back({r->table[g].rbegin(), std::make_reverse_iterator(tail)});
    r->table[g].erase(tail, r->table[g].end());
  }
  if (!want.loading) publish(r, before);
  publish_states(r, want);
  retire_states(r);
  prune(r);
  pool_.give_back(r->replaced);
  r->replaced.clear();
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
      put(key, id, (b + 1) * group.block);
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
    if (group.kind == NaiveGroup::Kind::kCross || group.state()) continue;
    for (; (r->told[g] + 1) * group.block <= limit(g, r->committed); ++r->told[g]) {
      const uint64_t b = r->told[g];
      const NaivePool::Key key{r->names[(b + 1) * (group.block / shape_.hash_unit) - 1], g};
      const int id = r->table[g][b];
      if (id != 0 && shape_.fine) settle(g, key, id);
      if (id != 0 && pool_.at(id).keys.empty() && pool_.find(key) >= 0) met.insert(2);
      if (id == 0 || !pool_.at(id).keys.empty() || pool_.find(key) >= 0 || !keeps(*r, g, b)) continue;
      put(key, id, (b + 1) * group.block);
    }
  }
}

// A block that was known by a part of its tokens is complete.
void Naive::settle(size_t g, NaivePool::Key key, int id) {
  if (pool_.at(id).keys.empty() || tokens_of(id) >= names_->length(key.first) * shape_.hash_unit || pool_.find(key) >= 0) return;
  removed.insert(pool_.at(id).keys.front());
  pool_.drop_keys(id);
  put(key, id, shape_.groups[g].block);
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
      if (table[b] != 0) met.insert(1);
      gone.push_back(table[b]);
      table[b] = 0;
    }
    pool_.give_back(gone);
  }
}

void Naive::release(NaiveRequest* r) {
  for (size_t g = 0; g < r->table.size(); ++g) {
    pool_.give_back({r->table[g].rbegin(), r->table[g].rend()});
    if (!shape_.groups[g].state()) continue;
    pool_.give_back({r->states[g].current});
    for (int id : r->states[g].spares) pool_.give_back({id});
  }
  r->table.clear();
  r->told.clear();
  r->states.clear();
  r->may_share = false;
  r->committed = r->prompt = 0;
  r->silent.reset();
}

void Naive::evict(NaivePool::Key key, std::map<std::string, NaiveRequest>* live) {
  const int id = pool_.find(key);
  for (auto& [name, r] : *live) {
    if (r.silent || r.table.size() <= key.second) continue;
    const auto& table = r.table[key.second];
    const bool state = shape_.groups[key.second].state() && r.states[key.second].current == id;
    if (state || std::find(table.begin(), table.end(), id) != table.end()) r.silent = r.committed;
  }
  met.insert(14);
  drop(key);
}

void Naive::reset() {
  const std::deque<int> idle = pool_.queue();
  for (int id : idle) {
    for (const NaivePool::Key& key : std::vector<NaivePool::Key>(pool_.at(id).keys)) drop(key);
  }
}

}  // namespace quire::golden
