#include "core/tier/arrivals.h"

#include <algorithm>

#include "core/base/checked.h"

namespace quire {
bool Arrivals::has_place(const Fetch& f, const TierPart& part, uint64_t block) const {
  const std::vector<int32_t>& ids = f.ids[part.group];
  const uint64_t columns = state_.plan->config().groups[part.group].ids_per_block, blocks = ids.size() / columns;
  const uint64_t first = f.position / part.block_tokens;
  return block >= first && block - first < blocks && ids[block - first] != 0;
}

bool Arrivals::find_wanted(const Fetch& f, const TierPart& part, Transfer* t) const {
  t->blocks = state_.plan->stretches(part, t->end);
  t->wanted = {};
  if (part.is_state) {
    t->wanted[0] = {0, 1};
    return true;
  }
  const std::vector<int32_t>& ids = f.ids[part.group];
  const uint64_t first = f.position / part.block_tokens, columns = state_.plan->config().groups[part.group].ids_per_block;
  const uint64_t end = first + ids.size() / columns, have = f.have[part.group] / part.block_tokens;
  for (size_t s = 0; s < 2; ++s) {
    BlockStretch w{std::max({t->blocks[s].first, first, have}), std::min(t->blocks[s].end, end)};
    while (w.first < w.end && !has_place(f, part, w.first)) ++w.first;
    while (w.first < w.end && !has_place(f, part, w.end - 1)) --w.end;
    if (w.first < w.end) t->wanted[s] = w;
  }
  return num_blocks(t->wanted) > 0;
}

quire_code Arrivals::check(uint32_t slot, const Fetch& f, bool* otherwise) {
  const Transfer& t = state_.transfers->at(slot);
  const TierPart& part = state_.plan->parts()[t.part];
  auto header = read_header(state_.transfers->header(slot).first(t.header_bytes));
  if (!header.ok()) return QUIRE_DATA_LOSS;
  if (header->key != t.key || header->fingerprint != state_.plan->fingerprint() || header->end_token != t.end) return QUIRE_DATA_LOSS;
  *otherwise = header->shape != part.shape || header->stretches != t.blocks || header->block_bytes != part.runs.block_bytes();
  if (*otherwise) return QUIRE_OK;
  std::vector<bool> lacking(header->num_blocks());  // of the payload: those that were to come
  size_t n = 0;
  for (const BlockStretch& w : t.wanted) {
    for (uint64_t b = w.first; b < w.end; ++b) {
      if (!part.is_state && !has_place(f, part, b)) continue;
      const uint64_t place = header->index_of(b);
      if (place == UINT64_MAX) return QUIRE_DATA_LOSS;
      lacking[place] = true;
      ++n;
    }
  }
  bool good = true;
  sum_blocks(state_.shards[part.shard], t.runs, header->block_bytes, &state_.scratch, [&](uint64_t block, uint64_t sum) {
    if (block >= lacking.size() || !lacking[block]) return;
    good = good && header->checksums[block] == sum;
    lacking[block] = false;
    --n;
  });
  return good && n == 0 ? QUIRE_OK : QUIRE_DATA_LOSS;
}

const RecordRuns* Arrivals::runs_for(const Transfer& t, const RecordShape& shape) {
  constexpr size_t kMostShapes = 256;  // of records of others, who are believed nothing
  std::vector<uint8_t> bytes;
  shape.encode(&bytes);
  const auto key = std::make_pair(t.part, std::move(bytes));
  const auto known = foreign_.find(key);
  if (known != foreign_.end()) return known->second.get();
  if (foreign_.size() >= kMostShapes) foreign_.clear();
  const TierPart& part = state_.plan->parts()[t.part];
  auto made = RecordRuns::make(state_.plan->config(), part.shard, part.group, shape);
  return foreign_.emplace(key, made.ok() ? std::make_unique<RecordRuns>(std::move(*made)) : nullptr).first->second.get();
}

quire_code Arrivals::scatter(const Transfer& t, const Fetch& f) {
  const TierPart& part = state_.plan->parts()[t.part];
  auto header = read_header(t.whole);
  if (!header.ok() || header->key != t.key || header->fingerprint != state_.plan->fingerprint() || header->end_token != t.end) {
    return QUIRE_DATA_LOSS;
  }
  const uint64_t begin = header_bytes(header->shape, header->num_blocks());
  if (begin + header->payload_bytes() != t.whole.size()) return QUIRE_DATA_LOSS;
  const std::span<const uint8_t> payload = std::span(t.whole).subspan(begin);
  if (count_damaged(*header, 0, payload) != 0) return QUIRE_DATA_LOSS;
  const RecordRuns* const runs = runs_for(t, header->shape);
  if (runs == nullptr || runs->block_bytes() != header->block_bytes || runs->block_tokens() != header->block_tokens) return QUIRE_NOT_FOUND;
  std::vector<PayloadRun> list;
  uint64_t wanted = 0;  // tokens
  if (part.is_state) {
    if (header->num_blocks() != 1 || header->index_of(0) != 0) return QUIRE_DATA_LOSS;
    runs->state(f.ids[part.group], &list);
  } else {
    const uint64_t first = f.position / part.block_tokens;
    for (const BlockStretch& w : t.wanted) {
      for (uint64_t b = w.first; b < w.end; ++b) {
        if (!has_place(f, part, b)) continue;
        const uint64_t from = b * part.block_tokens, to = from + part.block_tokens, other = header->block_tokens;
        for (uint64_t at = from, next = 0; at < to; at = next) {
          next = std::min(to, (at / other + 1) * other);
          const uint64_t place = header->index_of(at / other);
          // Also tokens of the block that the window does not reach: others may find the block, and resume behind them.
          if (place == UINT64_MAX) {
            shorter_[t.part] = static_cast<uint32_t>(other);
            return QUIRE_NOT_FOUND;
          }
          wanted += next - at;
          runs->tokens(at, next, f.ids[part.group], static_cast<uint32_t>(first), at / other - place, &list);
        }
      }
    }
  }
  uint64_t bytes = 0;
  for (const PayloadRun& run : list) {
    if (!internal::lies_within(run, payload.size())) return QUIRE_DATA_LOSS;
    bytes += run.bytes * run.count;
  }
  const bool fits = part.is_state ? bytes == part.runs.block_bytes() : bytes * part.block_tokens == wanted * part.runs.block_bytes();
  if (!fits) return QUIRE_NOT_FOUND;  // it has other heads
  internal::copy_runs(state_.shards[part.shard], list, 0, true, {const_cast<uint8_t*>(payload.data()), payload.size()});
  return QUIRE_OK;
}

bool Arrivals::has_whole_blocks(const RecordTable& table, uint64_t boundary) const {
  for (uint32_t p = 0; p < shorter_.size(); ++p) {
    const TierPart& part = state_.plan->parts()[p];
    const uint64_t own = part.block_tokens, other = shorter_[p];
    if (other == 0 || own == 0) continue;
    const uint64_t tail = part.live.tail_begin(boundary), sink = part.live.sink;
    const bool lacks_tail = tail / other * other > tail / own * own;
    const bool lacks_sinks =
        sink > 0 && std::min(round_up(sink, other), tail / other * other) < std::min(round_up(sink, own), tail / own * own);
    if (!lacks_tail && !lacks_sinks) continue;
    const bool all_own = table.each_needed(part, 0, boundary, [&](uint64_t end) {
      const WantedRecord* const record = table.find(p, end);
      return record == nullptr || record->size == state_.plan->record_bytes(part, end);
    });
    if (!all_own) return false;
  }
  return true;
}

}  // namespace quire
