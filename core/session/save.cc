// Saving: the sequence's blocks are held, its kernels are waited for, and one record after the other is copied out.
#include <algorithm>
#include <ctime>

#include "core/base/checked.h"
#include "core/records/checksum.h"
#include "core/records/record_key.h"
#include "core/session/manifest.h"
#include "core/session/sequence_stream.h"
#include "core/step/media.h"
#include "core/tier/shard_bytes.h"
#include "core/tier/tier_plan.h"

namespace quire {
namespace {

constexpr uint64_t kRecordBytes = uint64_t{4} << 20;  // of a payload, or one block; and of what is written at once

struct SavedRecord {
  const TierPart* part = nullptr;
  BlockStretch blocks;
};

// Blocks of the sequence, held and waited for.
class Save {
 public:
  Save(Cache& cache, const TierPlan& plan, uint64_t num_tokens) : cache_(cache), plan_(plan), num_tokens_(num_tokens) {}
  ~Save() {
    if (hold_ != 0) (void)cache_.hold_end(hold_);
  }
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  Status hold(SequenceId sequence);
  void choose_records();
  const std::vector<SavedRecord>& records() const { return records_; }
  Status write(const SavedRecord& record, const PrefixName& prefix, std::span<const ShardBytes> shards, const SessionWrite& out);

 private:
  void add(const TierPart& part, uint64_t first, uint64_t end);

  Cache& cache_;
  const TierPlan& plan_;
  const uint64_t num_tokens_;
  quire_hold_id hold_ = 0;
  std::vector<std::vector<int32_t>> ids_;  // [family][column][block]
  std::vector<SavedRecord> records_;
  std::vector<PayloadRun> runs_;
  std::vector<uint8_t> bytes_;
};

Status Save::hold(SequenceId sequence) {
  auto hold = cache_.hold_begin(sequence, 0, num_tokens_);
  if (!hold.ok()) return hold.take_status();
  hold_ = *hold;
  ids_.resize(plan_.families().size());
  for (uint32_t f = 0; f < ids_.size(); ++f) {
    for (const uint32_t g : plan_.families()[f].groups) {
      uint64_t n = 0;
      QUIRE_RETURN_IF_ERROR(cache_.hold_ids(hold_, g, {}, &n));
      const size_t before = ids_[f].size();
      ids_[f].resize(before + n);
      QUIRE_RETURN_IF_ERROR(cache_.hold_ids(hold_, g, std::span(ids_[f]).subspan(before), &n));
    }
  }
  return {};
}

void Save::add(const TierPart& part, uint64_t first, uint64_t end) {
  const uint64_t most = std::max<uint64_t>(1, kRecordBytes / part.runs.block_bytes());
  for (; first < end; first += most) records_.push_back({&part, {first, std::min(first + most, end)}});
}

// What resuming behind the last token needs: sinks and the tail.
void Save::choose_records() {
  const std::span<const TierPart> parts = plan_.parts();
  for (size_t p = 0; p < parts.size(); ++p) {
    const TierPart& part = parts[p];
    if (part.twin != p) continue;
    if (part.is_state) {
      add(part, 0, 1);
      continue;
    }
    const uint64_t end = ceil_div(num_tokens_, part.block_tokens), tail = part.live.tail_begin(num_tokens_) / part.block_tokens;
    const uint64_t sinks = std::min(ceil_div(part.live.sink_end(num_tokens_), part.block_tokens), tail);
    add(part, 0, sinks);
    add(part, std::min(tail, end), end);
  }
}

Status Save::write(const SavedRecord& record, const PrefixName& prefix, std::span<const ShardBytes> shards, const SessionWrite& out) {
  const TierPart& part = *record.part;
  const std::vector<int32_t>& ids = ids_[part.family];
  RecordHeader header;
  header.fingerprint = plan_.fingerprint();
  header.prefix = prefix;
  header.first_token = part.is_state ? num_tokens_ : record.blocks.first * part.block_tokens;
  header.end_token = part.is_state ? num_tokens_ : std::min(record.blocks.end * part.block_tokens, num_tokens_);
  header.key = record_key(header.fingerprint, part.name, header.first_token, header.end_token, prefix);
  header.block_tokens = part.block_tokens;
  header.block_bytes = part.runs.block_bytes();
  header.stretches = {record.blocks, BlockStretch{}};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  header.written_at = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  header.shape = part.shape;
  runs_.clear();
  const uint64_t blocks = part.is_state ? 1 : ids.size() / part.columns;
  for (uint64_t c = 0; c < part.columns; ++c) {
    for (uint64_t b = record.blocks.first; b < record.blocks.end; ++b) {
      if (ids[c * blocks + b] != 0) continue;
      return fail(QUIRE_INTERNAL, "session: block %llu of group %u is not there", static_cast<unsigned long long>(b),
                  plan_.families()[part.family].groups[0]);
    }
  }
  if (part.is_state) {
    part.runs.state(ids, &runs_);
  } else {
    part.runs.tokens(record.blocks.first * part.block_tokens, record.blocks.end * part.block_tokens, ids, 0, record.blocks.first, &runs_);
  }
  bytes_.resize(header.payload_bytes());
  QUIRE_RETURN_IF_ERROR(move_runs(shards[part.shard], runs_, false, bytes_));
  for (uint64_t b = 0; b < header.num_blocks(); ++b) {
    header.checksums.push_back(checksum(bytes_.data() + b * header.block_bytes, header.block_bytes));
  }
  std::vector<uint8_t> start(header_bytes(header.shape, header.num_blocks()));
  write_header(header, start);
  QUIRE_RETURN_IF_ERROR(out(start));
  return out(bytes_);
}

// Media symbols are numbers of one cache: in a session they are positions of items that have digests.
Status describe_symbols(Cache& cache, std::span<const quire_symbol> symbols, SessionManifest* out) {
  out->symbols.assign(symbols.begin(), symbols.end());
  std::vector<MediaFacts> known;
  std::vector<uint64_t> places;  // of the first position of each
  uint64_t positions = 0;
  for (quire_symbol& symbol : out->symbols) {
    if (symbol < kFirstMedia) continue;
    size_t i = 0;
    while (i < known.size() && (symbol < known[i].first || symbol - known[i].first >= known[i].length)) ++i;
    if (i == known.size()) {
      MediaFacts item;
      QUIRE_RETURN_IF_ERROR(cache.media_item(symbol, &item));
      known.push_back(item);
      places.push_back(positions);
      positions += item.length;
      out->media.push_back({item.digest, item.length});
    }
    symbol = static_cast<quire_symbol>(kFirstMedia + places[i] + (symbol - known[i].first));
  }
  return {};
}

}  // namespace

Status save_session(const std::shared_ptr<Cache>& cache, SequenceId sequence, const SessionPlace& place,
                    std::span<const quire_symbol> symbols, const SessionWrite& write, quire_session_info* info) {
  const std::shared_ptr<const Config> config = cache->shared_config();
  QUIRE_RETURN_IF_ERROR(check_shards(*config, place.memories, place.streams));
  auto plan = TierPlan::make(config, place.weights, 0, 0);
  if (!plan.ok()) return plan.take_status();
  QUIRE_RETURN_IF_ERROR((*plan)->check_no_cross_attention("session: there is none"));
  auto shards = bytes_of_shards(place.memories);
  if (!shards.ok()) return shards.take_status();
  quire_sequence_info facts{};
  QUIRE_RETURN_IF_ERROR(cache->sequence_info(sequence, &facts));
  if (facts.steps_in_flight > 0) return fail(QUIRE_FAILED_PRECONDITION, "sequence: %u steps of it are in flight", facts.steps_in_flight);
  const uint64_t tokens = facts.committed;
  if (symbols.size() < tokens) {
    return invalid("num_symbols: %zu, the sequence has %llu committed tokens", symbols.size(), static_cast<unsigned long long>(tokens));
  }
  symbols = symbols.first(tokens);
  Save save(*cache, **plan, tokens);
  SessionManifest manifest;
  manifest.fingerprint = fingerprint_text(*config, place.weights);
  QUIRE_RETURN_IF_ERROR(cache->sequence_digests(sequence, symbols, {&tokens, 1}, manifest.prefix.data()));
  QUIRE_RETURN_IF_ERROR(describe_symbols(*cache, symbols, &manifest));
  if (tokens > 0) {
    QUIRE_RETURN_IF_ERROR(save.hold(sequence));
    save.choose_records();
  }
  manifest.num_records = save.records().size();
  for (const auto& stream : place.streams) QUIRE_RETURN_IF_ERROR(stream->synchronize(-1));
  const SessionWrite counted = [&](std::span<const uint8_t> bytes) -> Status {
    for (uint64_t at = 0; at < bytes.size(); at += kRecordBytes) {
      QUIRE_RETURN_IF_ERROR(write(bytes.subspan(at, std::min(kRecordBytes, bytes.size() - at))));
    }
    info->bytes += bytes.size();
    return {};
  };
  QUIRE_RETURN_IF_ERROR(counted(write_manifest(manifest)));
  for (const SavedRecord& record : save.records()) QUIRE_RETURN_IF_ERROR(save.write(record, manifest.prefix, *shards, counted));
  info->num_tokens = info->committed = tokens;
  info->num_records = manifest.num_records;
  return {};
}

}  // namespace quire
