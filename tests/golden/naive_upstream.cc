// What the traces were recorded from.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive.h"

namespace quire::golden {
namespace {

uint64_t floor_to(uint64_t n, uint64_t m) { return n / m * m; }

}  // namespace

bool Upstream::cached(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t block) const {
  const uint64_t units = shape_.groups[groups.front()].block / shape_.hash_unit;
  const uint64_t last = (block + 1) * units;
  if (last > r.names.size()) return false;
  return std::all_of(groups.begin(), groups.end(), [&](size_t g) { return pool_.find({r.names[last - 1], g}) >= 0; });
}

uint64_t Upstream::find_full(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t most, bool drop) const {
  const uint64_t bs = shape_.groups[groups.front()].block;
  uint64_t n = 0;
  while (n < most / bs && cached(r, groups, n)) ++n;
  uint64_t hit = n * bs;
  if (drop && hit > 0) hit -= std::min(shape_.joint, bs);
  return floor_to(hit, shape_.joint);
}

// *from: the first block that counts.
uint64_t Upstream::find_window(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t most, bool drop, uint64_t* from) const {
  const NaiveGroup& group = shape_.groups[groups.front()];
  const uint64_t bs = group.block, a = shape_.joint;
  const uint64_t need = ceil_div(group.range - 1, bs) + (drop ? 1 : 0);
  const uint64_t m = most / bs;
  uint64_t run = 0, end = 0;
  *from = 0;
  bool found = false;
  for (uint64_t i = m; i-- > 0 && !found;) {
    if (!cached(r, groups, i)) {
      run = 0;
      continue;
    }
    if (run == 0 && bs != a && (drop ? i : i + 1) * bs % a != 0) continue;
    ++run;
    if (run < need) continue;
    end = i + run;
    *from = i;
    found = true;
  }
  if (!found) {
    end = run;
    while (bs != a && end * bs % a != 0) --end;
  }
  if (drop && end > 0) {
    --end;
    while (bs != a && end * bs % a != 0) --end;
  }
  return end * bs;
}

uint64_t Upstream::find_chunk(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t most, uint64_t* from) const {
  const NaiveGroup& group = shape_.groups[groups.front()];
  uint64_t n = floor_to(most, group.range) / group.block;
  *from = n;
  while (n < most / group.block && cached(r, groups, n)) ++n;
  return n * group.block;
}

NaiveHit Upstream::lookup(const NaiveRequest& r) const {
  NaiveHit out;
  out.blocks.resize(shape_.groups.size());
  if (!shape_.caching || shape_.groups.empty() || r.tokens == 0) return out;
  struct Batch {
    std::vector<size_t> groups;
    bool drafts = false, looked_up = false, dropped = false;
    uint64_t stored = 0;
  };
  std::vector<Batch> batches;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t g = 0; g < shape_.groups.size(); ++g) {
      if (shape_.groups[g].full() != (pass == 0)) continue;
      auto same = std::find_if(batches.begin(), batches.end(),
                               [&](const Batch& b) { return shape_.groups[b.groups[0]].spec == shape_.groups[g].spec; });
      if (same == batches.end()) same = batches.insert(batches.end(), Batch{});
      same->groups.push_back(g);
      same->drafts = same->drafts || shape_.groups[g].drafts;
    }
  }
  const uint64_t max = r.tokens - 1;
  uint64_t hit = max, longest = 0;
  std::vector<uint64_t> from(batches.size(), 0);
  const bool simple = shape_.single() || (batches.size() == 2 && shape_.groups[batches[0].groups[0]].full());
  while (true) {
    uint64_t cur = hit;
    for (size_t b = 0; b < batches.size(); ++b) {
      Batch& batch = batches[b];
      const NaiveGroup& group = shape_.groups[batch.groups[0]];
      if (group.full() && batch.looked_up) {
        cur = std::min(cur, batch.stored);
        continue;
      }
      const bool drop = batch.drafts && !batch.dropped;
      const uint64_t most = drop ? std::min(cur + group.block, max) : cur;
      const uint64_t is = group.full()                              ? find_full(r, batch.groups, most, drop)
                          : group.kind == NaiveGroup::Kind::kWindow ? find_window(r, batch.groups, most, drop, &from[b])
                                                                    : find_chunk(r, batch.groups, most, &from[b]);
      if (drop) {
        batch.dropped = true;
      } else if (is < cur) {
        for (Batch& other : batches) other.dropped = false;
      }
      cur = batch.stored = is;
      batch.looked_up = true;
      longest = std::max(longest, cur);
    }
    if (cur >= hit) break;
    hit = cur;
    if (simple) break;
  }
  if (max == 0) hit = 0;
  out.tokens = hit;
  out.boundary = !shape_.single() && longest > hit ? longest : 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    for (size_t g : batches[b].groups) {
      const uint64_t bs = shape_.groups[g].block;
      for (uint64_t i = 0; i < ceil_div(hit, bs); ++i) {
        out.blocks[g].push_back(i < from[b] ? 0 : std::max(0, pool_.find({r.names[(i + 1) * (bs / shape_.hash_unit) - 1], g})));
      }
    }
  }
  return out;
}

uint64_t Upstream::need(const NaiveRequest& r, size_t g, uint64_t tokens, uint64_t computed, const NaiveHit& hit, bool capped) const {
  const NaiveGroup& group = shape_.groups[g];
  uint64_t need = ceil_div(tokens, group.block);
  if (capped && group.cap != 0) need = std::min(need, group.cap);
  const uint64_t have = r.table.empty() ? 0 : r.table[g].size();
  if (r.tracked) return need > have ? need - have : 0;
  const auto& blocks = hit.blocks[g];
  const uint64_t skipped = group.skipped(computed) / group.block;
  const uint64_t there = std::max(skipped, blocks.size() + have);
  uint64_t evictable = 0;
  for (uint64_t i = skipped > have ? skipped - have : 0; i < blocks.size(); ++i) {
    if (blocks[i] != 0 && pool_.at(blocks[i]).refs == 0) ++evictable;
  }
  return (need > there ? need - there : 0) + evictable;
}

void Upstream::append(NaiveRequest* r, size_t g, uint64_t blocks) {
  while (r->table[g].size() < blocks) r->table[g].push_back(pool_.take());
}

bool Upstream::allocate(NaiveRequest* r, const json& op, const NaiveHit& hit) {
  const uint64_t fresh = op.value("new", uint64_t{0}), external = op.value("ext", uint64_t{0});
  const uint64_t local = op.value("c", uint64_t{0}) + hit.tokens;
  const uint64_t computed = std::min(local + external, shape_.max_len);
  const std::string status = op.at("s");
  const uint64_t spared = op.value("sched", true) && status != "R" ? shape_.watermark : 0;
  const uint64_t encoder = op.value("enc", uint64_t{0});
  const auto lacks = [&](uint64_t tokens, bool capped, uint64_t reserved) {
    uint64_t sum = 0;
    for (size_t g = 0; g < shape_.groups.size(); ++g) {
      const bool cross = shape_.groups[g].kind == NaiveGroup::Kind::kCross;
      sum += need(*r, g, cross ? encoder : tokens, capped ? computed : local + external, hit, capped);
    }
    return sum + spared + reserved > pool_.free();
  };
  r->table.resize(shape_.groups.size());
  r->told.resize(shape_.groups.size());
  r->junction = op.value("sb", uint64_t{0});
  if (op.value("fit", false) && lacks(std::min(r->tokens, shape_.max_len), true, 0)) return false;
  const uint64_t flying = op.value("i", uint64_t{0});
  remove_skipped(r, computed > flying ? computed - flying : 0, r->prompt);
  const uint64_t slots = std::min(computed + fresh + op.value("look", uint64_t{0}), shape_.max_len);
  if (lacks(slots, false, op.value("resv", uint64_t{0}))) return false;
  const bool first = !r->tracked && (hit.tokens > 0 || external > 0);
  for (size_t g = 0; first && g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    const uint64_t skipped = group.skipped(local + external) / group.block;
    r->table[g].assign(skipped, 0);
    for (uint64_t i = skipped; i < hit.blocks[g].size(); ++i) {
      pool_.touch(hit.blocks[g][i]);
      r->table[g].push_back(hit.blocks[g][i]);
    }
    r->told[g] = r->table[g].size();
  }
  for (size_t g = 0; first && external > 0 && g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    if (group.kind == NaiveGroup::Kind::kCross) continue;
    const uint64_t skipped = group.skipped(local + external);
    if (skipped > 0 && local + external - skipped == 0) continue;
    append(r, g, ceil_div(local + external, group.block));
  }
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    append(r, g, ceil_div(shape_.groups[g].kind == NaiveGroup::Kind::kCross ? encoder : slots, shape_.groups[g].block));
  }
  r->tracked = r->tracked || first;
  if (!op.value("delay", false)) cache(r, std::min(computed + fresh, r->tokens), r->junction);
  return true;
}

bool Upstream::keeps(const NaiveRequest& r, size_t g, uint64_t block) const {
  const NaiveGroup& group = shape_.groups[g];
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
    if (!pool_.at(id).keys.empty()) pool_.drop_keys(id);
    pool_.insert(id, {r->names[(b + 1) * units - 1], g}, (b + 1) * group.block);
  }
  if (full > r->told[g]) r->told[g] = full;
  if (!group.full() || units == 1) return;
  // The end of the prompt inside a block.
  const uint64_t end = floor_to(r->prompt, shape_.hash_unit);
  if (end == 0 || end > tokens || end % group.block == 0 || end / group.block >= r->table[g].size()) return;
  const int id = r->table[g][end / group.block];
  const NaivePool::Key key{r->names[end / shape_.hash_unit - 1], g};
  if (id == 0) return;
  const auto& keys = pool_.at(id).keys;
  if (!keys.empty() && pool_.at(id).covered < end && std::find(keys.begin(), keys.end(), key) == keys.end()) pool_.drop_keys(id);
  pool_.insert(id, key, end);
}

void Upstream::cache(NaiveRequest* r, uint64_t tokens, uint64_t junction) {
  if (!shape_.caching) return;
  r->junction = junction;
  r->told.resize(shape_.groups.size());
  r->table.resize(shape_.groups.size());
  const uint64_t unsettled = shape_.look_ahead > 0 ? shape_.look_ahead - 1 : 0;
  const uint64_t settled = tokens - std::min(tokens, unsettled);
  const uint64_t base = floor_to(tokens, shape_.joint);
  for (size_t g = 0; g < shape_.groups.size(); ++g) {
    const NaiveGroup& group = shape_.groups[g];
    uint64_t n = shape_.single() ? settled : base;
    if (!shape_.single() && group.drafts) n = base == 0 ? 0 : std::min(settled, floor_to(settled, shape_.joint) + group.block);
    const uint64_t before = r->told[g];
    cache_group(r, g, n);
    r->tracked = r->tracked || r->told[g] > before;
  }
}

std::vector<int> Upstream::pop(NaiveRequest* r) {
  std::vector<int> flat;
  for (const auto& table : r->table) flat.insert(flat.end(), table.begin(), table.end());
  r->table.clear();
  r->told.clear();
  r->tracked = false;
  return flat;
}

void Upstream::release(NaiveRequest* r) {
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
