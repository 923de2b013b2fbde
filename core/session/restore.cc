// Restoring: a load of all tokens of the session. Records come in any arrangement; each block of the sequence is counted until all of its
// bytes were there, and what was not there is a failure of the load.
#include <algorithm>
#include <map>

#include "core/base/checked.h"
#include "core/records/checksum.h"
#include "core/records/record_key.h"
#include "core/session/manifest.h"
#include "core/session/sequence_stream.h"
#include "core/step/media.h"
#include "core/tier/coverage.h"
#include "core/tier/load_places.h"
#include "core/tier/lost_blocks.h"
#include "core/tier/shard_bytes.h"
#include "core/tier/tier_plan.h"

namespace quire {
namespace {

constexpr uint64_t kRecordStart = 32;  // bytes that say how long a header is

// Fills bytes[size] behind what is there. In portions: nobody has shown yet that there are so many.
Status read_on(const SessionRead& in, uint64_t size, std::vector<uint8_t>* bytes) {
  constexpr uint64_t kPortion = uint64_t{1} << 20;
  while (bytes->size() < size) {
    const uint64_t at = bytes->size();
    bytes->resize(std::min(size, at + std::max(at, kPortion)));
    QUIRE_RETURN_IF_ERROR(in(std::span(*bytes).subspan(at)));
  }
  return {};
}

// The tokens of a session on their way into a sequence.
class Restore {
 public:
  Restore(Cache& cache, const TierPlan& plan, const SessionPlace& place, std::span<const ShardBytes> shards, const PrefixName& prefix)
      : cache_(cache),
        plan_(plan),
        place_(place),
        shards_(shards),
        prefix_(prefix),
        coverage_(plan.parts().size()),
        moves_(shards.size()) {}
  ~Restore() { give_up(); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

  Status begin(SequenceId sequence, std::span<const quire_symbol> symbols);
  Status prepare();
  // One record of the stream. *damaged: blocks, added to.
  Status read(const SessionRead& in, uint64_t* damaged);
  Status end(uint64_t* committed);
  uint64_t position() const { return position_; }

 private:
  // An arrangement of records, and what it has for a part.
  struct Source {
    std::unique_ptr<RecordRuns> runs;  // nullptr: nothing
    uint64_t bytes = 0;                // of a block, that no earlier source has
  };
  // What came of a part's blocks from `first` on, in tokens times bytes of a block. Of an arrangement that has a
  // half of the heads a token brings half of the bytes of a block.
  struct Arrived {
    uint64_t first = 0;
    std::vector<uint64_t> token_bytes;
  };
  void give_up();
  // Of all tokens but for those that are hit. Without match all are loaded, whatever the cache has.
  Status begin_load(std::span<const quire_symbol> symbols, bool match, uint64_t* end);
  uint64_t needed(const TierPart& part, uint64_t block) const;
  const Source& source_for(uint32_t p, const RecordHeader& header, const std::string& name);
  Status note(const RecordHeader& header, const std::string& name);
  Status place_record(const RecordHeader& header, const std::vector<bool>& good, const std::string& name);
  void place_block(uint32_t p, const Source& source, const RecordHeader& header, const std::vector<bool>& good, uint64_t block);

  Cache& cache_;
  const TierPlan& plan_;
  const SessionPlace& place_;
  const std::span<const ShardBytes> shards_;
  const PrefixName prefix_;
  SequenceId sequence_{0};
  StepId load_{0};
  uint64_t position_ = 0, end_ = 0;
  LoadPlaces places_;
  std::vector<Arrived> arrived_;  // by part
  LostBlocks lost_;
  std::vector<Coverage> coverage_;  // by part
  std::map<std::pair<uint32_t, std::string>, Source> sources_;
  std::map<std::string, std::map<uint64_t, uint64_t>> seen_;  // by arrangement: blocks, first to end
  std::vector<PayloadRun> list_;
  std::vector<std::vector<PayloadRun>> moves_;  // by shard: of one record
  std::vector<uint8_t> start_, payload_;
};

// The sequence is empty again.
void Restore::give_up() {
  if (load_.value == 0) return;
  uint64_t committed = 0;
  lost_.lose_all();
  (void)cache_.load_end(load_, lost_.failures(), &committed);
  (void)cache_.sequence_preempt(sequence_);
  load_ = StepId(0);
}

Status Restore::begin_load(std::span<const quire_symbol> symbols, bool match, uint64_t* end) {
  quire_probe_result probe{};
  if (match) QUIRE_RETURN_IF_ERROR(cache_.sequence_probe(sequence_, symbols, &probe));
  quire_sequence_info facts{};
  QUIRE_RETURN_IF_ERROR(cache_.sequence_info(sequence_, &facts));
  lost_.begin(plan_.config(), end_);
  quire_reserve_entry entry{};
  entry.sequence = sequence_.value;
  entry.flags = match ? QUIRE_ENTRY_MATCH : 0;
  entry.symbols_position = entry.symbols_offset = facts.known;
  entry.num_symbols = static_cast<uint32_t>(end_ - facts.known);
  entry.num_tokens = static_cast<uint32_t>(end_ - std::min(probe.hit_tokens, end_));
  quire_reserve_result result{};
  QUIRE_RETURN_IF_ERROR(cache_.load_begin(entry, symbols, &result, &load_));
  if (result.code != QUIRE_OK) {
    load_ = StepId(0);
    return fail(result.code, "session: no room for %llu tokens: %llu pages of group %u are missing", static_cast<unsigned long long>(end_),
                static_cast<unsigned long long>(result.missing_pages), result.group);
  }
  position_ = result.position;
  *end = position_ + result.num_tokens;
  return {};
}

Status Restore::begin(SequenceId sequence, std::span<const quire_symbol> symbols) {
  sequence_ = sequence;
  end_ = symbols.size();
  uint64_t end = 0;
  QUIRE_RETURN_IF_ERROR(begin_load(symbols, true, &end));
  if (end == end_) return {};
  // There was room for a part of the hit only, whose blocks lie scattered. Then all is read.
  give_up();
  QUIRE_RETURN_IF_ERROR(begin_load(symbols, false, &end));
  return end == end_ ? Status() : fail(QUIRE_INTERNAL, "session: the load ends elsewhere");
}

// As for a fetch: copies and zeroes of the load come before its bytes, and behind the kernels of earlier steps.
Status Restore::prepare() {
  QUIRE_RETURN_IF_ERROR(places_.read(cache_, load_, plan_, position_));
  auto copies = cache_.step_copies(load_);
  if (!copies.ok()) return copies.take_status();
  auto zeroes = cache_.step_zeroes(load_);
  if (!zeroes.ok()) return zeroes.take_status();
  for (size_t s = 0; s < place_.memories.size(); ++s) {
    QUIRE_RETURN_IF_ERROR(place_.memories[s]->prepare_step(*copies, *zeroes, *place_.streams[s]));
  }
  for (const auto& stream : place_.streams) QUIRE_RETURN_IF_ERROR(stream->synchronize(-1));
  for (const TierPart& part : plan_.parts()) {
    Arrived& arrived = arrived_.emplace_back();
    arrived.first = places_.first_block(part);
    arrived.token_bytes.resize(places_.end_block(part) - arrived.first);
  }
  return {};
}

// Of the block's tokens before the end.
uint64_t Restore::needed(const TierPart& part, uint64_t block) const {
  if (part.is_state) return part.runs.block_bytes();
  return part.runs.block_bytes() * std::min<uint64_t>(part.block_tokens, end_ - std::min(end_, block * part.block_tokens));
}

// Records of one session are of one writer: each of its blocks stands in one of them.
Status Restore::note(const RecordHeader& header, const std::string& name) {
  std::map<uint64_t, uint64_t>& seen = seen_[name];
  for (const BlockStretch& stretch : header.stretches) {
    if (stretch.size() == 0) continue;
    const auto next = seen.lower_bound(stretch.end);
    if (next != seen.begin() && std::prev(next)->second > stretch.first)
      return fail(QUIRE_DATA_LOSS, "session: a block stands in it twice");
    seen.emplace(stretch.first, stretch.end);
  }
  return {};
}

// Nothing: a record of this shape has nothing of the part, or cannot be cut as its blocks want it.
const Restore::Source& Restore::source_for(uint32_t p, const RecordHeader& header, const std::string& name) {
  const auto [at, is_new] = sources_.try_emplace({p, name});
  Source& source = at->second;
  const TierPart& part = plan_.parts()[p];
  if (!is_new || header.shape.is_state != part.is_state) return source;
  auto made = RecordRuns::make(plan_.config(), part.shard, plan_.families()[part.family], header.shape);
  if (!made.ok() || made->block_bytes() != header.block_bytes || made->block_tokens() != header.block_tokens) return source;
  source.bytes = coverage_[p].add(part, *made);
  source.runs = std::make_unique<RecordRuns>(std::move(*made));
  return source;
}

// The stretches of an own block that lie in one block of the record.
void Restore::place_block(uint32_t p, const Source& source, const RecordHeader& header, const std::vector<bool>& good, uint64_t block) {
  const TierPart& part = plan_.parts()[p];
  Arrived& arrived = arrived_[p];
  const auto move = [&](uint64_t tokens) {
    for (const PayloadRun& run : list_) {
      if (!internal::lies_within(run, payload_.size())) return;
    }
    moves_[part.shard].insert(moves_[part.shard].end(), list_.begin(), list_.end());
    arrived.token_bytes[block - arrived.first] += source.bytes * tokens;
  };
  list_.clear();
  if (part.is_state) {
    if (!good[0]) return;
    source.runs->state(places_.ids(part), &list_);
    return move(1);
  }
  const uint64_t from = block * part.block_tokens, to = from + part.block_tokens, other = header.block_tokens;
  for (uint64_t at = from, next = 0; at < to; at = next) {
    next = std::min(to, (at / other + 1) * other);
    const uint64_t place = header.index_of(at / other);
    if (place == UINT64_MAX || !good[place] || at >= end_) continue;
    list_.clear();
    source.runs->tokens(at, next, places_.ids(part), static_cast<uint32_t>(arrived.first), at / other - place, &list_);
    move(std::min(next, end_) - at);
  }
}

Status Restore::place_record(const RecordHeader& header, const std::vector<bool>& good, const std::string& name) {
  for (std::vector<PayloadRun>& moves : moves_) moves.clear();
  for (uint32_t p = 0; p < plan_.parts().size(); ++p) {
    const TierPart& part = plan_.parts()[p];
    const Source& source = source_for(p, header, name);
    if (source.runs == nullptr) continue;
    if (part.is_state) {
      if (header.end_token == end_ && header.index_of(0) == 0) place_block(p, source, header, good, 0);
      continue;
    }
    for (const BlockStretch& stretch : header.stretches) {
      if (stretch.size() == 0) continue;
      const uint64_t begin = stretch.first * header.block_tokens;
      const uint64_t end = std::min(stretch.end * header.block_tokens, end_);
      for (uint64_t b = begin / part.block_tokens; b * part.block_tokens < end; ++b) {
        if (places_.has_place(part, b)) place_block(p, source, header, good, b);
      }
    }
  }
  for (size_t s = 0; s < shards_.size(); ++s) QUIRE_RETURN_IF_ERROR(move_runs(shards_[s], moves_[s], true, payload_));
  return {};
}

Status Restore::read(const SessionRead& in, uint64_t* damaged) {
  start_.resize(kRecordStart);
  QUIRE_RETURN_IF_ERROR(in(start_));
  const uint64_t size = read_header_bytes(start_);
  if (size < kRecordStart) return fail(QUIRE_DATA_LOSS, "session: a record does not begin as one");
  start_.resize(size);
  QUIRE_RETURN_IF_ERROR(in(std::span(start_).subspan(kRecordStart)));
  auto header = read_header(start_);
  if (!header.ok()) return header.take_status();
  if (header->fingerprint != plan_.fingerprint()) return fail(QUIRE_DATA_LOSS, "session: a record is of another model");
  if (header->prefix != prefix_) return fail(QUIRE_DATA_LOSS, "session: a record is of other tokens");
  if (!header->shape.is_state && header->block_tokens == 0) return fail(QUIRE_DATA_LOSS, "session: a record has blocks of no tokens");
  std::vector<uint8_t> shape;
  header->shape.encode(&shape);
  const std::string name(shape.begin(), shape.end());
  QUIRE_RETURN_IF_ERROR(note(*header, name));
  payload_.clear();
  QUIRE_RETURN_IF_ERROR(read_on(in, header->payload_bytes(), &payload_));
  std::vector<bool> good(header->num_blocks());
  for (uint64_t b = 0; b < good.size(); ++b) {
    good[b] = checksum(payload_.data() + b * header->block_bytes, header->block_bytes) == header->checksums[b];
    *damaged += good[b] ? 0 : 1;
  }
  return place_record(*header, good, name);
}

Status Restore::end(uint64_t* committed) {
  for (uint32_t p = 0; p < plan_.parts().size(); ++p) {
    const TierPart& part = plan_.parts()[p];
    const Arrived& arrived = arrived_[p];
    for (uint64_t i = 0; i < arrived.token_bytes.size(); ++i) {
      const uint64_t block = arrived.first + i;
      if (places_.has_place(part, block) && arrived.token_bytes[i] < needed(part, block)) places_.lose(part, block, block + 1, &lost_);
    }
  }
  QUIRE_RETURN_IF_ERROR(cache_.load_end(load_, lost_.failures(), committed));
  load_ = StepId(0);
  return {};
}

// Into the symbols of this cache.
Status read_symbols(Cache& cache, const SessionManifest& manifest, std::span<quire_symbol> out) {
  std::vector<quire_symbol> firsts;  // by item: here
  std::vector<uint64_t> ends;        // and positions in the session
  for (const SessionMedia& item : manifest.media) {
    QUIRE_RETURN_IF_ERROR(cache.add_media(item.digest.data(), item.length, &firsts.emplace_back()));
    ends.push_back((ends.empty() ? 0 : ends.back()) + item.length);
  }
  for (size_t i = 0; i < manifest.symbols.size(); ++i) {
    const quire_symbol symbol = manifest.symbols[i];
    out[i] = symbol;
    if (symbol < kFirstMedia) continue;
    const uint64_t position = symbol - kFirstMedia;
    const size_t item = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), position) - ends.begin());
    out[i] = firsts[item] + static_cast<quire_symbol>(position - (item == 0 ? 0 : ends[item - 1]));
  }
  return {};
}

}  // namespace

Status restore_session(const std::shared_ptr<Cache>& cache, SequenceId sequence, const SessionPlace& place, const SessionRead& read,
                       std::span<quire_symbol> symbols, quire_session_info* info) {
  const std::shared_ptr<const Config> config = cache->shared_config();
  QUIRE_RETURN_IF_ERROR(check_shards(*config, place.memories, place.streams));
  auto plan = TierPlan::make(config, place.weights, 0, 0);
  if (!plan.ok()) return plan.take_status();
  QUIRE_RETURN_IF_ERROR((*plan)->check_no_cross_attention("session: there is none"));
  auto shards = bytes_of_shards(place.memories);
  if (!shards.ok()) return shards.take_status();
  quire_sequence_info facts{};
  QUIRE_RETURN_IF_ERROR(cache->sequence_info(sequence, &facts));
  if (facts.reserved > 0) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: it has %llu tokens, an empty one is wanted",
                static_cast<unsigned long long>(facts.reserved));
  }
  const SessionRead counted = [&](std::span<uint8_t> bytes) {
    info->bytes += bytes.size();
    return read(bytes);
  };
  std::vector<uint8_t> bytes(kManifestStart);
  QUIRE_RETURN_IF_ERROR(counted(bytes));
  auto size = read_manifest_bytes(bytes);
  if (!size.ok()) return size.take_status();
  QUIRE_RETURN_IF_ERROR(read_on(counted, *size, &bytes));
  auto manifest = read_manifest(bytes);
  if (!manifest.ok()) return manifest.take_status();
  const std::string ours = fingerprint_text(*config, place.weights);
  if (const std::string differs = first_difference(ours, manifest->fingerprint); !differs.empty()) {
    return fail(QUIRE_FAILED_PRECONDITION, "session: it is of another model: %s", differs.c_str());
  }
  const uint64_t tokens = manifest->symbols.size();
  if (symbols.size() < tokens) {
    return fail(QUIRE_OUT_OF_RANGE, "capacity: %zu, the session has %llu tokens", symbols.size(), static_cast<unsigned long long>(tokens));
  }
  const uint64_t most = cache->load_limits().tokens;
  if (tokens > config->max_model_len || tokens > most) {
    return fail(QUIRE_OUT_OF_RANGE, "session: %llu tokens; max_model_len is %llu, max_load_tokens %llu",
                static_cast<unsigned long long>(tokens), static_cast<unsigned long long>(config->max_model_len),
                static_cast<unsigned long long>(most));
  }
  std::vector<quire_symbol> own(tokens);
  QUIRE_RETURN_IF_ERROR(read_symbols(*cache, *manifest, own));
  PrefixName prefix{};
  QUIRE_RETURN_IF_ERROR(cache->sequence_digests(sequence, own, {&tokens, 1}, prefix.data()));
  if (prefix != manifest->prefix) {
    return fail(QUIRE_FAILED_PRECONDITION, "session: it was saved under another identity (salt, adapter or epoch) than the sequence has");
  }
  info->num_tokens = tokens;
  info->num_records = manifest->num_records;
  if (tokens == 0) return {};
  Restore restore(*cache, **plan, place, *shards, prefix);
  QUIRE_RETURN_IF_ERROR(restore.begin(sequence, own));
  QUIRE_RETURN_IF_ERROR(restore.prepare());
  info->hit_tokens = restore.position();
  for (uint64_t i = 0; i < manifest->num_records; ++i) QUIRE_RETURN_IF_ERROR(restore.read(counted, &info->num_damaged));
  QUIRE_RETURN_IF_ERROR(restore.end(&info->committed));
  std::copy(own.begin(), own.end(), symbols.begin());
  return {};
}

}  // namespace quire
