#include "core/tier/held_records.h"

#include <algorithm>
#include <ctime>
#include <span>

#include "core/records/checksum.h"

namespace quire {
namespace {

int64_t wall_clock() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Of the blocks in the stretches those that `is_there` has, as at most two stretches. False: there are more, or none.
template <typename IsThere>
bool clip(std::array<BlockStretch, 2>* stretches, IsThere is_there) {
  std::array<BlockStretch, 2> found{};
  size_t n = 0;
  for (const BlockStretch& stretch : *stretches) {
    for (uint64_t b = stretch.first; b < stretch.end; ++b) {
      if (!is_there(b)) continue;
      if (n > 0 && found[n - 1].end == b) {
        found[n - 1].end = b + 1;
        continue;
      }
      if (n == found.size()) return false;
      found[n++] = {b, b + 1};
    }
  }
  *stretches = found;
  return n > 0;
}

}  // namespace

std::span<const int32_t> HeldIds::of(const TierState& state, quire_hold_id hold, uint32_t family) {
  families_.resize(state.plan->families().size());
  Family& known = families_[family];
  if (known.hold == hold) return known.ids;
  known.hold = 0;
  known.ids.clear();
  for (const uint32_t group : state.plan->families()[family].groups) {
    uint64_t n = 0;
    if (!state.cache->hold_ids(hold, group, {}, &n).ok() || n == 0) return {};
    const size_t before = known.ids.size();
    known.ids.resize(before + n);
    if (!state.cache->hold_ids(hold, group, std::span(known.ids).subspan(before), &n).ok()) return {};
  }
  known.hold = hold;
  return known.ids;
}

bool describe_record(const TierState& state, const HeldRange& range, const PrefixNames& names, const TierPart& part, Clipping clipping,
                     RecordHeader* header, std::vector<PayloadRun>* runs, HeldIds* held) {
  const std::span<const int32_t> ids = held->of(state, range.hold, part.family);
  if (ids.empty()) return false;
  header->fingerprint = state.plan->fingerprint();
  header->prefix = part.look_ahead > 0 ? names.ahead : names.own;
  header->key = state.plan->key(part, part.name, range.end, names);
  header->first_token = range.first;
  header->end_token = range.end;
  header->block_tokens = part.block_tokens;
  header->block_bytes = part.runs.block_bytes();
  header->stretches = state.plan->stretches(part, range.end);
  header->written_at = wall_clock();
  header->shape = part.shape;
  runs->clear();
  if (part.is_state) {
    if (std::find(ids.begin(), ids.end(), 0) != ids.end()) return false;
    part.runs.state(ids, runs);
    return true;
  }
  const uint64_t first = range.hold_first / part.block_tokens, columns = part.columns, blocks = ids.size() / columns;
  const auto is_there = [&](uint64_t block) {
    for (uint64_t c = 0; c < columns; ++c) {
      if (ids[c * blocks + block - first] == 0) return false;
    }
    return true;
  };
  std::array<BlockStretch, 2> there = header->stretches;
  if (!clip(&there, is_there)) return false;
  if (clipping == Clipping::kRefuse && there != header->stretches) return false;
  header->stretches = there;
  uint64_t before = 0;
  for (const BlockStretch& stretch : header->stretches) {
    if (stretch.size() == 0) continue;
    part.runs.tokens(stretch.first * part.block_tokens, stretch.end * part.block_tokens, ids, static_cast<uint32_t>(first),
                     stretch.first - before, runs);
    before += stretch.size();
  }
  return true;
}

void sum_payload(const uint8_t* payload, RecordHeader* header) {
  header->checksums.resize(header->num_blocks());
  for (uint64_t b = 0; b < header->num_blocks(); ++b)
    header->checksums[b] = checksum(payload + b * header->block_bytes, header->block_bytes);
}

}  // namespace quire
