// What the traces were recorded from.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive_cache.h"

namespace quire::golden {
namespace {

uint64_t floor_to(uint64_t n, uint64_t m) { return n / m * m; }

}  // namespace

int Upstream::take(size_t g) {
  const int id = pool_.take();
  if (!shape_.groups[g].state() && shape_.groups[g].kind != NaiveGroup::Kind::kCross) to_zero_[g].push_back(id);
  return id;
}

int64_t Upstream::need(const NaiveRequest& r, size_t g, Wants wants, const NaiveHit& hit) const {
  const NaiveGroup& group = shape_.groups[g];
  const auto& blocks = hit.blocks[g];
  if (group.state() && !blocks.empty() && blocks.back() != 0 && this_step_.count(pool_.at(blocks.back()).keys.front()) != 0) {
    held_back = true;
    return static_cast<int64_t>(shape_.num_blocks) + 1;
  }
  if (group.aligned) return need_aligned(r, g, wants, hit);
  uint64_t need = ceil_div(wants.tokens + group.branches * group.block, group.block);
  if (wants.capped && group.cap != 0) need = std::min(need, group.cap);
  const uint64_t have = r.table.empty() ? 0 : r.table[g].size();
  if (r.tracked) return need > have ? static_cast<int64_t>(need - have) : 0;
  const uint64_t skipped = group.skipped(wants.computed) / group.block;
  const uint64_t there = std::max(skipped, blocks.size() + have);
  uint64_t more = need > there ? need - there : 0;
  for (uint64_t i = skipped > have ? skipped - have : 0; i < blocks.size(); ++i) {
    if (blocks[i] != 0 && pool_.at(blocks[i]).refs == 0) ++more;
  }
  if (!blocks.empty() && wants.local % group.block != 0) ++more;  // a copy
  return static_cast<int64_t>(more);
}

void Upstream::append(NaiveRequest* r, size_t g, uint64_t blocks) {
  auto& copy = r->notes[g].copy;
  if (copy) {
    const int target = take(g);
    r->table[g][copy->first] = target;
    copies_[g].emplace_back(copy->second, target);
    pool_.touch(target);  // until it is copied
    copy.reset();
  }
  while (r->table[g].size() < blocks) r->table[g].push_back(take(g));
}

// What was found becomes the request's, then what comes from elsewhere gets blocks.
bool Upstream::adopt(NaiveRequest* r, uint64_t local, uint64_t external, const NaiveHit& hit) {
  if (r->tracked || (hit.tokens == 0 && external == 0)) return false;
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    const uint64_t skipped = group.skipped(local + external) / group.block;
    r->table[g].assign(skipped, 0);
    for (uint64_t i = skipped; i < hit.blocks[g].size(); ++i) {
      pool_.touch(hit.blocks[g][i]);
      r->table[g].push_back(hit.blocks[g][i]);
    }
    r->told[g] = r->table[g].size();
    if (hit.blocks[g].size() <= skipped || local % group.block == 0) continue;
    r->told[g] = local / group.block;
    r->notes[g].copy = {r->told[g], hit.blocks[g].back()};
  }
  for (size_t g = 0; external > 0 && g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.kind == NaiveGroup::Kind::kCross) continue;
    const uint64_t skipped = group.skipped(local + external);
    if (skipped > 0 && local + external - skipped == 0) continue;
    while (r->table[g].size() < ceil_div(local + external, group.block)) r->table[g].push_back(take(g));
  }
  return true;
}

bool Upstream::allocate(NaiveRequest* r, const json& op, const NaiveHit& hit) {
  const uint64_t fresh = op.value("new", uint64_t{0}), external = op.value("ext", uint64_t{0});
  const uint64_t local = op.value("c", uint64_t{0}) + hit.tokens;
  const uint64_t computed = std::min(local + external, shape_.max_len);
  const std::string status = op.at("s");
  const uint64_t spared = op.value("sched", true) && status != "R" ? shape_.watermark : 0;
  const uint64_t encoder = op.value("enc", uint64_t{0});
  const auto lacks = [&](Wants wants, uint64_t reserved) {
    int64_t sum = 0;
    for (size_t g = 0; g < shape_.groups.size(); ++g) {
      Wants mine = wants;
      if (shape_.groups[g].kind == NaiveGroup::Kind::kCross) mine.tokens = encoder;
      sum += need(*r, g, mine, hit);
    }
    return sum + static_cast<int64_t>(spared + reserved) > static_cast<int64_t>(pool_.free());
  };
  r->table.resize(shape_.groups.size());
  r->told.resize(shape_.groups.size());
  r->notes.resize(shape_.groups.size());
  r->junction = op.value("sb", uint64_t{0});
  const uint64_t whole = std::min(r->tokens, shape_.max_len);
  if (op.value("fit", false) && lacks({whole, whole, local, computed, true}, 0)) return false;
  const uint64_t flying = op.value("i", uint64_t{0});
  remove_skipped(r, computed > flying ? computed - flying : 0, r->prompt);
  const uint64_t main = computed + fresh;
  const uint64_t slots = std::min(main + op.value("look", uint64_t{0}), shape_.max_len);
  if (lacks({slots, main, local, local + external, false}, op.value("resv", uint64_t{0}))) return false;
  const bool adopted = adopt(r, local, external, hit);
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.aligned) {
      append_aligned(r, g, main);
    } else {
      append(r, g, ceil_div(group.kind == NaiveGroup::Kind::kCross ? encoder : slots + group.branches * group.block, group.block));
    }
  }
  r->tracked = r->tracked || adopted;
  if (!op.value("delay", false)) cache(r, std::min(computed + fresh, r->tokens), r->junction);
  return true;
}

bool Upstream::keeps(const NaiveRequest& r, size_t g, uint64_t block) const {
  const NaiveGroup& group = shape_.groups[g];
  if (group.state()) return keeps_state(r, group, block);
  if (group.kind != NaiveGroup::Kind::kWindow) return true;
  const uint64_t shift = group.drafts ? 1 : 0, need = ceil_div(group.range - 1, group.block) + shift;
  const uint64_t segment = shape_.retention ? *shape_.retention : shape_.wanted;
  const uint64_t period = segment / group.block;
  if (segment != 0) {
    if (need >= period) return true;
    if (block >= shift && (block - shift) % period >= period - need) return true;
  }
  if (!shape_.retention) return false;
  for (uint64_t boundary : {r.prompt - 1, r.junction}) {
    if (boundary == r.junction && r.junction == 0) continue;
    const uint64_t end = floor_to(boundary, shape_.wanted) / group.block + shift;
    if (block < end && block + need >= end) return true;
  }
  return false;
}

void Upstream::cache_group(NaiveRequest* r, size_t g, uint64_t tokens) {
  const NaiveGroup& group = shape_.groups[g];
  const uint64_t full = tokens / group.block, units = group.block / shape_.hash_unit;
  for (uint64_t b = r->told[g]; b < full; ++b) {
    const int id = r->table[g][b];
    if (id == 0 || !keeps(*r, g, b)) continue;
    const NaivePool::Key key{r->names[(b + 1) * units - 1], g};
    if (!pool_.at(id).keys.empty()) pool_.drop_keys(id);
    pool_.insert(id, key, (b + 1) * group.block);
    if (group.state()) this_step_.insert(key);
  }
  if (full > r->told[g]) r->told[g] = full;
  if (units > 1 && (group.full() || group.aligned)) cache_end(r, g, tokens);
}

// The end of the prompt inside a block.
void Upstream::cache_end(NaiveRequest* r, size_t g, uint64_t tokens) {
  const NaiveGroup& group = shape_.groups[g];
  const uint64_t end = floor_to(r->prompt, shape_.hash_unit);
  if (group.aligned && tokens != end) return;
  if (end == 0 || end > tokens || end % group.block == 0 || end / group.block >= r->table[g].size()) return;
  const int id = r->table[g][end / group.block];
  const NaivePool::Key key{r->names[end / shape_.hash_unit - 1], g};
  if (id == 0) return;
  const auto& keys = pool_.at(id).keys;
  if (!keys.empty() && pool_.at(id).covered < end && std::find(keys.begin(), keys.end(), key) == keys.end()) pool_.drop_keys(id);
  pool_.insert(id, key, end);
  if (!group.aligned) return;
  r->notes[g].tail = end;
  this_step_.insert(key);
}

void Upstream::cache(NaiveRequest* r, uint64_t tokens, uint64_t junction) {
  if (!shape_.caching) return;
  r->junction = junction;
  r->told.resize(shape_.groups.size());
  r->table.resize(shape_.groups.size());
  r->notes.resize(shape_.groups.size());
  const uint64_t unsettled = shape_.look_ahead > 0 ? shape_.look_ahead - 1 : 0;
  const uint64_t settled = tokens - std::min(tokens, unsettled);
  const uint64_t step = shape_.fine ? shape_.wanted : shape_.joint;
  const uint64_t base = shape_.fine ? tokens : floor_to(tokens, step);
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    uint64_t n = shape_.single() ? settled : base;
    if (!shape_.single() && group.drafts) n = base == 0 ? 0 : std::min(settled, floor_to(settled, step) + group.block);
    const uint64_t before = r->told[g];
    cache_group(r, g, n);
    r->tracked = r->tracked || r->told[g] > before;
  }
}

std::vector<int> Upstream::pop(NaiveRequest* r) {
  std::vector<int> flat = std::move(r->pins);
  for (const auto& table : r->table) flat.insert(flat.end(), table.begin(), table.end());
  r->table.clear();
  r->told.clear();
  r->notes.clear();
  r->pins.clear();
  r->tracked = false;
  tails_.erase(r);
  return flat;
}

void Upstream::release(NaiveRequest* r) {
  pool_.give_back(r->pins);
  for (auto& table : r->table) pool_.give_back({table.rbegin(), table.rend()});
  pop(r);
}

void Upstream::remove_skipped(NaiveRequest* r, uint64_t processed, uint64_t prompt) {
  for (size_t g = 0; g < r->table.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    auto& table = r->table[g];
    uint64_t first = 0, end = group.skipped(processed) / group.block;
    if (group.kind == NaiveGroup::Kind::kTrailing && prompt > 0) {
      first = ceil_div(prompt, group.block);
      end = std::max(prompt, processed > group.range ? processed - group.range : 0) / group.block;
    }
    std::vector<int> gone;
    for (uint64_t b = std::min<uint64_t>(end, table.size()); b-- > first;) {
      if (table[b] == 0) break;
      gone.push_back(table[b]);
      table[b] = 0;
    }
    pool_.give_back(gone);
    if (processed == 0 || !group.aligned || r->notes.empty() || !r->notes[g].last) continue;
    const uint64_t last = *r->notes[g].last;
    if (last + 1 >= ceil_div(processed, group.block) || last >= table.size() || table[last] == 0) continue;
    pool_.give_back({table[last]});
    table[last] = 0;
  }
}

bool Upstream::reset() {
  if (pool_.free() + 1 != shape_.num_blocks) return false;
  for (size_t id = 1; id < pool_.size(); ++id) pool_.drop_keys(static_cast<int>(id));
  return true;
}

uint64_t Upstream::estimate(const NaiveRequest& r) const {
  std::optional<uint64_t> least;
  for (size_t g = 0; g < r.table.size(); ++g) {
    if (shape_.groups[g].kind == NaiveGroup::Kind::kCross) continue;
    uint64_t most = 0;
    for (int id : r.table[g]) most = std::max(most, id == 0 ? 0 : pool_.at(id).covered);
    least = std::min(least.value_or(most), most);
  }
  return least.value_or(0);
}

}  // namespace quire::golden
