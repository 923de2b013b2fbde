// Lookups as the traces were recorded from.
#include <algorithm>

#include "core/base/checked.h"
#include "tests/golden/naive_cache.h"

namespace quire::golden {
namespace {

uint64_t floor_to(uint64_t n, uint64_t m) { return n / m * m; }

}  // namespace

// Whether all groups have a block that is known by its end behind so many tokens.
bool Upstream::cached(const NaiveRequest& r, const std::vector<size_t>& groups, uint64_t tokens) const {
  const uint64_t last = tokens / shape_.hash_unit;
  if (last > r.names.size()) return false;
  return std::all_of(groups.begin(), groups.end(), [&](size_t g) { return pool_.find({r.names[last - 1], g}) >= 0; });
}

void Upstream::find_full(const NaiveRequest& r, uint64_t most, bool drop, Batch* batch) const {
  const uint64_t bs = shape_.groups[batch->groups.front()].block, a = shape_.joint;
  uint64_t& n = batch->whole;
  n = batch->tail = 0;
  while (n < most / bs && cached(r, batch->groups, (n + 1) * bs)) ++n;
  uint64_t hit = n * bs;
  for (uint64_t p = std::min({(n + 1) * bs - a, floor_to(most, a), r.names.size() * shape_.hash_unit}); a < bs && p > n * bs; p -= a) {
    if (!cached(r, batch->groups, p)) continue;
    hit = batch->tail = p;
    break;
  }
  if (drop && hit > 0) hit -= std::min(a, bs);
  batch->hit = floor_to(hit, a);
}

void Upstream::find_window(const NaiveRequest& r, uint64_t most, bool drop, Batch* batch) const {
  const NaiveGroup& group = shape_.groups[batch->groups.front()];
  const uint64_t bs = group.block, a = shape_.joint;
  const uint64_t need = ceil_div(group.range - 1, bs) + (drop ? 1 : 0);
  const uint64_t m = most / bs;
  uint64_t run = 0, end = 0;
  batch->from = 0;
  bool found = false;
  for (uint64_t i = m; i-- > 0 && !found;) {
    if (!cached(r, batch->groups, (i + 1) * bs)) {
      run = 0;
      continue;
    }
    if (run == 0 && bs != a && (drop ? i : i + 1) * bs % a != 0) continue;
    ++run;
    if (run < need) continue;
    end = i + run;
    batch->from = i;
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
  batch->whole = end;
  batch->hit = end * bs;
}

void Upstream::find_chunk(const NaiveRequest& r, uint64_t most, Batch* batch) const {
  const NaiveGroup& group = shape_.groups[batch->groups.front()];
  uint64_t n = floor_to(most, group.range) / group.block;
  batch->from = n;
  while (n < most / group.block && cached(r, batch->groups, (n + 1) * group.block)) ++n;
  batch->whole = n;
  batch->hit = n * group.block;
}

// The last state that is kept at a boundary where hits end.
void Upstream::find_state(const NaiveRequest& r, uint64_t most, Batch* batch) const {
  const uint64_t bs = shape_.groups[batch->groups.front()].block;
  const uint64_t step = shape_.fine ? shape_.joint : bs;
  uint64_t p = std::min(floor_to(most, step), floor_to(r.names.size() * shape_.hash_unit, step));
  while (p > 0 && (p % shape_.joint != 0 || !cached(r, batch->groups, p))) p -= step;
  batch->hit = batch->tail = p;
  batch->whole = 0;
  batch->from = p == 0 ? 0 : ceil_div(p, bs) - 1;
}

void Upstream::find(const NaiveRequest& r, uint64_t most, bool drop, Batch* batch) const {
  const NaiveGroup& group = shape_.groups[batch->groups[0]];
  if (group.full()) return find_full(r, most, drop, batch);
  if (group.state()) return find_state(r, most, batch);
  if (group.kind == NaiveGroup::Kind::kWindow) return find_window(r, most, drop, batch);
  find_chunk(r, most, batch);
}

std::vector<Upstream::Batch> Upstream::batches() const {
  std::vector<Batch> out;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t g = 0; g < shape_.groups.size(); ++g) {
      if (shape_.groups[g].full() != (pass == 0)) continue;
      auto same =
          std::find_if(out.begin(), out.end(), [&](const Batch& b) { return shape_.groups[b.groups[0]].spec == shape_.groups[g].spec; });
      if (same == out.end()) same = out.insert(out.end(), Batch{});
      same->groups.push_back(g);
      same->drafts = same->drafts || shape_.groups[g].drafts;
    }
  }
  return out;
}

// What is looked at beyond a candidate when something of it is dropped.
uint64_t Upstream::margin(const NaiveGroup& group) const {
  if (group.state()) return 0;
  return shape_.fine && group.full() && group.block > shape_.hash_unit ? shape_.hash_unit : group.block;
}

void Upstream::list(const NaiveRequest& r, const Batch& batch, uint64_t hit, NaiveHit* out) const {
  for (size_t g : batch.groups) {
    const uint64_t bs = shape_.groups[g].block;
    for (uint64_t i = 0; i < ceil_div(hit, bs); ++i) {
      const uint64_t end = i < batch.whole ? (i + 1) * bs : batch.tail;
      out->blocks[g].push_back(i < batch.from || end == 0 ? 0 : std::max(0, pool_.find({r.names[end / shape_.hash_unit - 1], g})));
    }
  }
}

NaiveHit Upstream::lookup(const NaiveRequest& r) const {
  NaiveHit out;
  out.blocks.resize(shape_.groups.size());
  if (!shape_.caching || shape_.groups.empty() || r.tokens == 0) return out;
  std::vector<Batch> all = batches();
  const uint64_t max = r.tokens - 1;
  uint64_t hit = max, longest = 0;
  const bool simple = shape_.single() || (all.size() == 2 && shape_.groups[all[0].groups[0]].full());
  while (true) {
    uint64_t cur = hit;
    for (Batch& batch : all) {
      const NaiveGroup& group = shape_.groups[batch.groups[0]];
      if (group.full() && batch.looked_up) {
        cur = std::min(cur, batch.hit);
        continue;
      }
      const bool drop = batch.drafts && !batch.dropped;
      find(r, drop ? std::min(cur + margin(group), max) : cur, drop, &batch);
      if (drop) {
        batch.dropped = true;
      } else if (batch.hit < cur) {
        for (Batch& other : all) other.dropped = false;
      }
      cur = batch.hit;
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
  for (const Batch& batch : all) list(r, batch, hit, &out);
  return out;
}

NaiveHit Upstream::lookup_apart(const NaiveRequest& r, bool* diverged) const {
  *diverged = false;
  const bool states = std::any_of(shape_.groups.begin(), shape_.groups.end(), [](const NaiveGroup& g) { return g.state(); });
  std::vector<Batch> all = batches();
  if (!states || !shape_.caching || shape_.single() || r.tokens == 0 || !shape_.groups[all[0].groups[0]].full()) return lookup(r);
  NaiveHit out;
  out.blocks.resize(shape_.groups.size());
  uint64_t least = r.tokens, most = 0;
  for (Batch& batch : all) {
    find(r, r.tokens - 1, batch.drafts, &batch);
    least = std::min(least, batch.hit);
    most = std::max(most, batch.hit);
  }
  if (most > all[0].hit) return lookup(r);
  out.tokens = all[0].hit;
  *diverged = least < out.tokens;
  for (const Batch& batch : all) list(r, batch, batch.hit, &out);
  return out;
}

}  // namespace quire::golden
