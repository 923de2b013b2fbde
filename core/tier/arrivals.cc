#include "core/tier/arrivals.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/records/checksum.h"
#include "core/records/record_key.h"
#include "core/tier/coverage.h"

namespace quire {

Arrivals::Arrivals(TierState& state) : state_(state), shorter_(state.sources->all().size()), blocks_(state.sources->all().size()) {}

bool Arrivals::find_wanted(const Fetch& f, const TierPart& part, Transfer* t) const {
  t->blocks = state_.plan->stretches(part, t->end);
  t->wanted = {};
  if (part.is_state) {
    t->wanted[0] = {0, 1};
    return true;
  }
  for (size_t s = 0; s < 2; ++s) {
    BlockStretch w{std::max(t->blocks[s].first, f.places.first_block(part)), std::min(t->blocks[s].end, f.places.end_block(part))};
    while (w.first < w.end && !f.places.has_place(part, w.first)) ++w.first;
    while (w.first < w.end && !f.places.has_place(part, w.end - 1)) --w.end;
    if (w.first < w.end) t->wanted[s] = w;
  }
  return num_blocks(t->wanted) > 0;
}

quire_code Arrivals::check(uint32_t slot, const Fetch& f, bool* otherwise) {
  const Transfer& t = state_.transfers->at(slot);
  const TierPart& part = state_.sources->part_of(t.part);
  auto header = read_header(state_.transfers->header(slot).first(t.header_bytes));
  if (!header.ok()) return QUIRE_DATA_LOSS;
  if (header->key != t.key || header->fingerprint != state_.plan->fingerprint() || header->end_token != t.end) return QUIRE_DATA_LOSS;
  *otherwise = header->shape != part.shape || header->stretches != t.blocks || header->block_bytes != part.runs.block_bytes();
  Arranged& arranged = state_.arranged[state_.sources->all()[t.part].twin];
  arranged = *otherwise ? Arranged::kOtherwise : Arranged::kAsOurs;
  if (*otherwise) return QUIRE_OK;
  std::vector<bool> lacking(header->num_blocks());  // of the payload: those that were to come
  size_t n = 0;
  for (const BlockStretch& w : t.wanted) {
    for (uint64_t b = w.first; b < w.end; ++b) {
      if (!part.is_state && !f.places.has_place(part, b)) continue;
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

bool Arrivals::can_come_in_place(const Fetch& f, const Transfer& t, const WantedRecord& record) const {
  const RecordSource& own = state_.sources->all()[t.part];
  const TierPart& part = state_.sources->part_of(t.part);
  const auto is_lacking = [&](const BlockStretch& w) { return w.size() == 0 || f.places.all_lack(part, w.first); };
  if (state_.shards[part.shard].staging != nullptr || !std::all_of(t.wanted.begin(), t.wanted.end(), is_lacking)) return false;
  if (!own.is_own || record.size != state_.plan->record_bytes(state_.plan->parts()[t.part], record.end)) return false;
  return state_.arranged[own.twin] == Arranged::kAsOurs || record.size > kMostBytesBeside;  // which can come in no other way
}

void Arrivals::add_places(const Fetch& f, Transfer* t, std::span<uint8_t> header) {
  const TierPart& part = state_.sources->part_of(t->part);
  add_header_run(header, state_.header_regions[t->tier], &state_.ticket_runs);
  const std::span<const int32_t> ids = f.places.ids(part);
  const uint64_t first = f.places.first_block(part);
  uint64_t before = 0;
  for (size_t s = 0; s < 2; ++s) {
    const BlockStretch& w = t->wanted[s];
    if (w.size() > 0 && part.is_state) part.runs.state(ids, &t->runs);
    if (w.size() > 0 && !part.is_state) {
      part.runs.tokens(w.first * part.block_tokens, w.end * part.block_tokens, ids, static_cast<uint32_t>(first),
                       t->blocks[s].first - before, &t->runs);
    }
    before += t->blocks[s].size();
  }
  const ShardBytes& shard = state_.shards[part.shard];
  add_payload_runs(shard, shard.ids[t->tier], t->runs, t->header_bytes, &state_.ticket_runs);
}

// kFull: there is too much of this now.
Submitted Arrivals::make_room(Transfer* t, uint64_t size, LoadWay way) {
  const bool others = state_.bytes_of_wholes > 0;
  if (others && state_.bytes_of_wholes + size > kMostBytesBeside) return Submitted::kFull;
  if (const Submitted staged = take_staging(size, t); staged != Submitted::kYes) return staged;
  if (t->staged == nullptr) {
    t->whole.allocate(size);
    state_.bytes_of_wholes += size;
  }
  choose_ranges(way == LoadWay::kAll, t);
  const Status enlisted = state_.enlist(t);
  if (!enlisted.ok()) return others && enlisted.code() == QUIRE_RESOURCE_EXHAUSTED ? Submitted::kFull : Submitted::kFailed;
  add_range_runs(t->record(), t->region, t->read, &state_.ticket_runs);
  return Submitted::kYes;
}

Submitted Arrivals::take_staging(uint64_t size, Transfer* t) {
  DeviceStaging* const own = state_.shards[state_.sources->part_of(t->part).shard].staging.get();
  const auto has = [&](const DeviceStaging* of) {
    const auto& others = t->staged_for_others;
    return (t->staged != nullptr && of == own) ||
           std::any_of(others.begin(), others.end(), [&](const auto& s) { return &s->staging() == of; });
  };
  const auto take = [&](DeviceStaging* of) {
    if (of == nullptr || has(of)) return Submitted::kYes;
    auto staged = of->take(size, false);
    if (!staged.ok() || *staged == nullptr) {
      t->staged.reset();
      t->staged_for_others.clear();
      return staged.ok() ? Submitted::kFull : Submitted::kFailed;
    }
    of == own ? t->staged = std::move(*staged) : t->staged_for_others.emplace_back(std::move(*staged));
    return Submitted::kYes;
  };
  Submitted taken = take(own);
  for (const uint32_t reader : state_.sources->all()[t->part].readers) {
    if (taken != Submitted::kYes) break;
    taken = take(state_.shards[state_.plan->parts()[reader].shard].staging.get());
  }
  return taken;
}

void Arrivals::choose_ranges(bool all, Transfer* t) const {
  const uint64_t size = t->record().size();
  t->read.assign(1, {0, size});
  const Sources& sources = *state_.sources;
  const TierPart& part = sources.part_of(t->part);
  const bool has_ranges = (state_.tiers[t->tier]->connector().info().flags & QUIRE_CONNECTOR_RANGES) != 0;
  if (all || part.is_state || !has_ranges) return;
  const uint64_t own = part.block_tokens;
  std::vector<ByteRange> found;
  for (const uint32_t tokens : sources.guess_blocks(t->part, t->end, size, blocks_[t->part])) {
    const uint64_t bytes = sources.all()[t->part].token_bytes * tokens;
    const std::array<BlockStretch, 2> stretches = state_.plan->stretches(part, t->end, tokens);
    uint64_t at = size - num_blocks(stretches) * bytes;
    found.push_back({0, at});
    for (const BlockStretch& stretch : stretches) {
      for (const BlockStretch& w : t->wanted) {
        const uint64_t first = std::max(w.first * own / tokens, stretch.first);
        const uint64_t end = std::min(ceil_div(w.end * own, tokens), stretch.end);
        if (w.size() > 0 && first < end) found.push_back({at + (first - stretch.first) * bytes, at + (end - stretch.first) * bytes});
      }
      at += stretch.size() * bytes;
    }
  }
  if (found.empty()) return;
  std::sort(found.begin(), found.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  t->read.clear();
  for (const ByteRange& range : found) {
    if (t->read.empty() || range.begin > t->read.back().end) {
      t->read.push_back(range);
    } else {
      t->read.back().end = std::max(t->read.back().end, range.end);
    }
  }
}

Arrivals::Runs Arrivals::runs_for(uint32_t part, const RecordShape& shape) {
  constexpr size_t kMostShapes = 1024;  // of records of others, who are believed nothing
  std::vector<uint8_t> bytes;
  shape.encode(&bytes);
  const auto key = std::make_pair(part, std::move(bytes));
  const auto known = foreign_.find(key);
  if (known != foreign_.end()) return known->second;
  if (foreign_.size() >= kMostShapes) {
    foreign_.clear();
    covers_.clear();
  }
  const TierPart& own = state_.plan->parts()[part];
  auto made = RecordRuns::make(state_.plan->config(), own.shard, state_.plan->families()[own.family], shape);
  return foreign_.emplace(key, made.ok() ? std::make_shared<const RecordRuns>(std::move(*made)) : nullptr).first->second;
}

bool Arrivals::cover(uint32_t p, std::vector<Runs> runs) {
  constexpr size_t kMostSets = 1024;
  std::sort(runs.begin(), runs.end());
  const auto key = std::make_pair(p, std::move(runs));
  const auto known = covers_.find(key);
  if (known != covers_.end()) return known->second;
  if (covers_.size() >= kMostSets) covers_.clear();
  const TierPart& part = state_.plan->parts()[p];
  Coverage coverage;
  uint64_t bytes = 0;
  for (const Runs& each : key.second) bytes += coverage.add(part, *each);
  return covers_.emplace(key, bytes == part.runs.block_bytes()).first->second;
}

quire_code Arrivals::find_good(const Transfer& t, const RecordHeader& header, uint64_t begin, std::vector<bool>* good) const {
  good->assign(header.num_blocks(), false);
  for (uint64_t block = 0, at = begin; block < good->size(); ++block, at += header.block_bytes) {
    const auto has = [&](const ByteRange& range) { return range.begin <= at && at + header.block_bytes <= range.end; };
    if (std::none_of(t.read.begin(), t.read.end(), has)) continue;
    if (checksum(t.record().data() + at, header.block_bytes) != header.checksums[block]) return QUIRE_DATA_LOSS;
    (*good)[block] = true;
  }
  return QUIRE_OK;
}

quire_code Arrivals::scatter_to(uint32_t p, const RecordRuns& runs, Transfer* t, const RecordHeader& header, const std::vector<bool>& good,
                                uint64_t begin, const Fetch& f, bool* otherwise) {
  const TierPart& part = state_.plan->parts()[p];
  list_.clear();
  if (part.is_state) {
    if (header.num_blocks() != 1 || header.index_of(0) != 0) return QUIRE_DATA_LOSS;
    *otherwise = *otherwise || !good[0];
    runs.state(f.places.ids(part), &list_);
  }
  const uint64_t first = f.places.first_block(part);
  for (const BlockStretch& w : t->wanted) {
    for (uint64_t b = w.first; b < w.end && !part.is_state; ++b) {
      if (!f.places.has_place(part, b)) continue;
      // The last block may be one that was begun.
      const uint64_t from = b * part.block_tokens, to = std::min(from + part.block_tokens, t->end), other = header.block_tokens;
      for (uint64_t at = from, next = 0; at < to; at = next) {
        next = std::min(to, (at / other + 1) * other);
        const uint64_t place = header.index_of(at / other);
        // Also tokens of the block that the window does not reach: others may find the block, and resume behind them.
        if (place == UINT64_MAX) {
          shorter_[t->part] = static_cast<uint32_t>(other);
          return QUIRE_NOT_FOUND;
        }
        *otherwise = *otherwise || !good[place];
        runs.tokens(at, next, f.places.ids(part), static_cast<uint32_t>(first), at / other - place, &list_);
      }
    }
  }
  if (*otherwise) return QUIRE_OK;
  for (const PayloadRun& run : list_) {
    if (!internal::lies_within(run, t->record().size() - begin)) return QUIRE_DATA_LOSS;
  }
  return place(part.shard, begin, t);
}

quire_code Arrivals::place(uint32_t shard, uint64_t begin, Transfer* t) {
  const ShardBytes& bytes = state_.shards[shard];
  const std::span<uint8_t> record = t->record();
  if (bytes.staging == nullptr) {
    internal::copy_runs(bytes, list_, 0, true, record.subspan(begin));
    return QUIRE_OK;
  }
  t->copies.reserve(t->copies.size() + 1);
  std::shared_ptr<StagedBytes> from = t->staged;
  if (from == nullptr || &from->staging() != bytes.staging.get()) {  // it came for another shard
    const auto& others = t->staged_for_others;
    const auto own = std::find_if(others.begin(), others.end(), [&](const auto& s) { return &s->staging() == bytes.staging.get(); });
    if (own == others.end()) return QUIRE_ABORTED;
    std::copy(record.begin(), record.end(), (*own)->bytes().begin());
    from = *own;
  }
  auto copy = bytes.staging->copy(list_, true, begin, from.get());
  if (!copy.ok()) return QUIRE_ABORTED;
  t->copies.push_back({shard, *copy, std::move(from)});
  return QUIRE_OK;
}

quire_code Arrivals::scatter(Transfer* transfer, Fetch* f, bool* otherwise) {
  const Transfer& t = *transfer;
  const std::span<uint8_t> record = t.record();
  const RecordSource& source = state_.sources->all()[t.part];
  const TierPart& like = state_.plan->parts()[source.part];
  const uint64_t size = read_header_bytes(record);
  if (size > t.read[0].end && t.read[0].end < record.size()) {
    *otherwise = true;
    return QUIRE_OK;
  }
  auto header = read_header(record);
  if (!header.ok() || header->key != t.key || header->fingerprint != state_.plan->fingerprint() || header->end_token != t.end) {
    return QUIRE_DATA_LOSS;
  }
  const uint64_t begin = header_bytes(header->shape, header->num_blocks());
  if (begin + header->payload_bytes() != record.size()) return QUIRE_DATA_LOSS;
  if (header->shape.is_state != like.is_state || part_name(header->shape, like.live) != source.name) return QUIRE_DATA_LOSS;
  std::vector<bool> good;
  if (const quire_code code = find_good(t, *header, begin, &good); code != QUIRE_OK) return code;
  blocks_[t.part] = header->block_tokens;
  const bool as_ours = header->shape == like.shape && header->stretches == t.blocks && header->block_bytes == like.runs.block_bytes();
  state_.arranged[source.twin] = as_ours ? Arranged::kAsOurs : Arranged::kOtherwise;
  std::vector<Runs> all;
  for (const uint32_t p : source.readers) {
    const Runs runs = runs_for(p, header->shape);
    if (runs == nullptr || runs->block_bytes() != header->block_bytes || runs->block_tokens() != header->block_tokens)
      return QUIRE_NOT_FOUND;
    if (source.is_own && !cover(p, {runs})) return QUIRE_NOT_FOUND;
    all.push_back(runs);
    const quire_code code = scatter_to(p, *runs, transfer, *header, good, begin, *f, otherwise);
    if (code != QUIRE_OK || *otherwise) return code;
  }
  if (t.assembly == kNone) return QUIRE_OK;
  Assembly& assembly = f->assemblies[t.assembly];
  const std::vector<uint32_t>& own = state_.sources->sets(like.family)[0];
  for (size_t i = 0; i < own.size(); ++i) {
    const auto reader = std::find(source.readers.begin(), source.readers.end(), own[i]);
    if (reader != source.readers.end()) assembly.came[i].push_back(all[static_cast<size_t>(reader - source.readers.begin())]);
  }
  if (--assembly.missing > 0) return QUIRE_OK;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!cover(own[i], assembly.came[i])) return QUIRE_NOT_FOUND;
  }
  return QUIRE_OK;
}

bool Arrivals::has_whole_blocks(const RecordTable& table, uint64_t boundary) const {
  if (std::all_of(shorter_.begin(), shorter_.end(), [](uint32_t other) { return other == 0; })) return true;
  const Sources& sources = *state_.sources;
  const auto lacks = [&](uint32_t source, uint64_t end) {
    const TierPart& part = sources.part_of(source);
    const uint64_t own = part.block_tokens, other = shorter_[source];
    const WantedRecord* const record = table.find(source, end);
    if (other == 0 || own == 0 || record == nullptr || record->size == sources.record_bytes(source, end, part.block_tokens)) return false;
    const uint64_t tail = part.live.tail_begin(boundary), sink = part.live.sink;
    const bool lacks_tail = tail / other * other > tail / own * own;
    const bool lacks_sinks =
        sink > 0 && std::min(round_up(sink, other), tail / other * other) < std::min(round_up(sink, own), tail / own * own);
    return lacks_tail || lacks_sinks;
  };
  for (uint32_t f = 0; f < state_.plan->families().size(); ++f) {
    if (sources.sets(f).empty()) continue;
    const bool all = table.each_needed(sources.part_of(sources.sets(f)[0][0]), 0, boundary, [&](uint64_t end) {
      const std::span<const uint32_t> set = table.set_at(f, end);
      return std::none_of(set.begin(), set.end(), [&](uint32_t source) { return lacks(source, end); });
    });
    if (!all) return false;
  }
  return true;
}

}  // namespace quire
