// What both sides of the naive model share: names of prefixes, the pool, live ranges.
#include "tests/golden/naive_cache.h"

#include <algorithm>

namespace quire::golden {

int64_t PrefixNames::root(const std::string& identity) {
  auto [it, made] = roots_.emplace(identity, static_cast<int64_t>(parents_.size()));
  if (made) parents_.push_back(0), lengths_.push_back(0);
  return it->second;
}

int64_t PrefixNames::of(int64_t parent, const std::vector<int64_t>& symbols) {
  auto [it, made] = names_.emplace(std::pair(parent, symbols), static_cast<int64_t>(parents_.size()));
  if (made) parents_.push_back(parent), lengths_.push_back(length(parent) + 1);
  return it->second;
}

bool PrefixNames::within(int64_t name, int64_t top) const {
  while (name > top) name = parent(name);  // a prefix is named after the ones before it
  return name == top;
}

uint64_t NaiveGroup::skipped(uint64_t computed) const {
  if (kind == Kind::kChunk) return computed / range * range;
  if (state()) return computed == 0 ? 0 : computed - 1;
  if (kind != Kind::kWindow) return 0;
  const uint64_t kept = range - 1 + extra;
  return computed > kept ? computed - kept : 0;
}

NaivePool::NaivePool(uint64_t num_blocks) : blocks_(num_blocks) {
  for (uint64_t b = 1; b < num_blocks; ++b) queue_.push_back(static_cast<int>(b));
}

uint64_t NaivePool::cached() const {
  return static_cast<uint64_t>(std::count_if(queue_.begin(), queue_.end(), [&](int id) { return !at(id).keys.empty(); }));
}

int NaivePool::find(Key key) const {
  const auto it = keys_.find(key);
  return it == keys_.end() ? -1 : it->second.front();
}

int NaivePool::take() {
  const int id = queue_.front();
  queue_.pop_front();
  drop_keys(id);
  Block& b = blocks_[static_cast<size_t>(id)];
  b.refs = 1;
  ++b.life;
  return id;
}

void NaivePool::touch(int id) {
  if (id == 0) return;
  Block& b = blocks_[static_cast<size_t>(id)];
  if (b.refs++ == 0) queue_.erase(std::find(queue_.begin(), queue_.end(), id));
}

void NaivePool::give_back(const std::vector<int>& ids) {
  std::vector<int> front;
  for (int id : ids) {
    if (id == 0 || --blocks_[static_cast<size_t>(id)].refs > 0) continue;
    if (at(id).keys.empty()) {
      front.push_back(id);
    } else {
      queue_.push_back(id);
    }
  }
  queue_.insert(queue_.begin(), front.begin(), front.end());
}

void NaivePool::insert(int id, Key key, uint64_t covered) {
  Block& b = blocks_[static_cast<size_t>(id)];
  if (std::find(b.keys.begin(), b.keys.end(), key) != b.keys.end()) return;
  if (b.keys.empty()) b.covered = covered;
  b.keys.push_back(key);
  keys_[key].push_back(id);
}

void NaivePool::drop_key(int id, Key key) {
  Block& b = blocks_[static_cast<size_t>(id)];
  b.keys.erase(std::find(b.keys.begin(), b.keys.end(), key));
  auto it = keys_.find(key);
  it->second.erase(std::find(it->second.begin(), it->second.end(), id));
  if (it->second.empty()) keys_.erase(it);
  if (b.keys.empty()) b.covered = 0;
}

void NaivePool::drop_keys(int id) {
  while (!at(id).keys.empty()) drop_key(id, at(id).keys.back());
}

void NaivePool::to_front(int id) {
  queue_.erase(std::find(queue_.begin(), queue_.end(), id));
  queue_.push_front(id);
}

}  // namespace quire::golden
