#include "core/tier/fetch_records.h"

#include <algorithm>
#include <iterator>

namespace quire {

Status name_prompt(const TierState& state, Fetch* f) {
  f->ends.clear();
  std::set_union(f->candidates.unit_ends.begin(), f->candidates.unit_ends.end(), f->candidates.boundaries.begin(),
                 f->candidates.boundaries.end(), std::back_inserter(f->ends));
  const uint64_t ahead = state.plan->look_ahead();
  std::vector<uint64_t> lengths = f->ends;
  for (const uint64_t end : f->ends) {
    if (ahead > 0) lengths.push_back(end + ahead);
  }
  if (f->encoder > 0) lengths.push_back(0);
  std::sort(lengths.begin(), lengths.end());
  std::vector<uint8_t> digests(lengths.size() * 32);
  QUIRE_RETURN_IF_ERROR(state.cache->sequence_digests(f->sequence, f->symbols, lengths, digests.data()));
  const auto digest_at = [&](uint64_t length) {
    const auto at = std::lower_bound(lengths.begin(), lengths.end(), length) - lengths.begin();
    PrefixName name;
    std::copy_n(digests.begin() + at * 32, 32, name.begin());
    return name;
  };
  if (f->encoder > 0) f->no_prompt = with_encoder({digest_at(0), digest_at(0)}, f->encoder);
  f->names.clear();
  for (const uint64_t end : f->ends) f->names.push_back(with_encoder({digest_at(end), digest_at(end + ahead)}, f->encoder));
  return {};
}

void add_pending(const TierState& state, uint32_t family, std::span<const uint32_t> set, uint64_t end, Fetch* f) {
  const Sources& sources = *state.sources;
  PendingLoad load{0, end};
  if (!sources.all()[set[0]].is_own) {
    load.way = LoadWay::kStaged;
    load.assembly = static_cast<uint32_t>(f->assemblies.size());
    const size_t own = sources.sets(family)[0].size();
    f->assemblies.push_back({set.size(), {own, std::vector<std::shared_ptr<const RecordRuns>>()}});
  }
  for (const uint32_t source : set) {
    load.source = source;
    f->pending.push_back(load);
    const WantedRecord* const record = f->table->find(source, end);
    f->bytes_wanted += record == nullptr ? 0 : record->size;
  }
}

void note_failure(const TierState& state, const Transfer& t, Fetch* f) {
  const TierPart& part = state.sources->part_of(t.part);
  f->has_failed = true;
  if (part.is_state) return f->places.lose(part, 0, 1, &f->lost);
  for (const BlockStretch& w : t.wanted) f->places.lose(part, w.first, w.end, &f->lost);
}

}  // namespace quire
